"""Every fenced block of README and docs is run: ```python blocks of a page share one namespace and one folder, ```console
blocks run their `$ ` lines in a shell there and ```sh blocks as a whole. Lines of expected output below a command are
compared where they are given; "…" stands for anything. A ```text block is not run.

The models that pages name are asked as users ask them; the environment sends the official clients to a local endpoint, which
answers from what stands in the request (answers.py)."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.answers import LOST, answer
from tests.providers.endpoint import Endpoint

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = {"python", "console", "sh"}
DATA = {"text", "toml", "json", "sql"}
# Commands that set the project up or measure it: checked for existing, run by others.
OUTSIDE = (
    "make ",
    "git ",
    "pip install",
    "python -m bench speed",
    "python -m bench torture",
    "python -m bench year",
    "python -m bench converse",
    "python -m bench quality --dataset longmemeval",
    "python -m bench quality --dataset locomo",
    "python -m bench quality --dataset own --curve",
    "python -m bench quality --dataset own --embedder",
    "python -m training.",
    "python training/",
)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in FENCE.findall(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, str]]:
    """What the official clients read from the environment: where the model is, and a key."""
    with Endpoint(answer) as endpoint:
        yield {
            "ANTHROPIC_BASE_URL": endpoint.url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": endpoint.openai_url,
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
        }


@pytest.fixture(scope="module")
def environment(models: dict[str, str]) -> dict[str, str]:
    folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([folder, os.environ.get("PATH", "")])
    imports = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PATH": path, "PYTHONPATH": imports, "NO_COLOR": "1", "COLUMNS": "120", **models}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    found = blocks(page)
    unknown = {kind for kind, _ in found} - RUN - DATA
    assert not unknown, f"{page.name}: blocks must be one of {sorted(RUN | DATA)}, found {sorted(unknown)}"
    python = "\n".join(body for kind, body in found if kind == "python")
    if python:
        command = [sys.executable, "-W", "error", "-c", python]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, f"{page.name}:\n{ran.stderr}"
    for kind, body in found:
        if kind == "console":
            run_console(body, tmp_path, environment)
        elif kind == "sh":
            ran = subprocess.run(["sh", "-e", "-c", body], cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert ran.returncode == 0, f"{body}\n{ran.stdout}{ran.stderr}"


def test_the_model_of_the_pages_knows_only_what_it_is_sent() -> None:
    question = {"role": "user", "content": "Which theme do I like?"}
    told = {"role": "user", "content": "I prefer dark mode."}
    assert answer({"body": {"messages": [question]}}).text == LOST
    assert answer({"body": {"messages": [told, question]}}).text == "You prefer dark mode."


def run_console(body: str, folder: Path, environment: dict[str, str]) -> None:
    commands = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    assert commands, f"a console block has no line that begins with '$ ':\n{body}"
    for part in commands:
        command, _, expected = part.partition("\n")
        if command.startswith(OUTSIDE):
            check_outside(command)
            continue
        ran = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, f"$ {command}\n{ran.stdout}{ran.stderr}"
        for line in filter(None, (each.strip() for each in expected.splitlines())):
            pattern = ".*".join(re.escape(piece) for piece in line.split("…"))
            assert re.search(pattern, ran.stdout), f"$ {command}\nexpected: {line}\ngot:\n{ran.stdout}"


def check_outside(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets, f"there is no make {words[1]}"
    elif words[:3] == ["python", "-m", "bench"]:
        ran = subprocess.run([sys.executable, "-m", "bench", words[3], "--help"], cwd=ROOT, capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"})  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        options = [word for word in words[4:] if word.startswith("--")]
        assert all(option in ran.stdout for option in options), f"{command}: an option is unknown\n{ran.stdout}"
    elif words[:2] == ["python", "-m"]:
        assert (ROOT / f"{words[2].replace('.', '/')}.py").exists(), command
    elif words[0] == "python":
        assert (ROOT / words[1]).exists(), command


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_settings_table_is_what_the_code_says() -> None:
    shown = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    made = subprocess.run([sys.executable, str(ROOT / "tools" / "make_settings_reference.py"), "--print"], capture_output=True,
                          text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}).stdout  # fmt: skip
    assert shown == made, "run 'make generate'"


def test_no_page_names_what_users_do_not_have() -> None:
    for page in PAGES:
        assert "../shared" not in page.read_text(encoding="utf-8"), page
