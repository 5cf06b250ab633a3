"""How the blocks of a page are run: ```python blocks share one namespace and one folder, ```console blocks run their `$ ` lines
in a shell there and ```sh blocks as a whole. Lines of expected output below a command are compared where they are given; "…"
stands for anything. A ```text block is not run.

The models that pages name are asked as users ask them; the environment sends the official clients to a local endpoint, which
answers from what stands in the request (answers.py).

A page that names one of the variables of servers.py is given what they are for: a real PostgreSQL, as a provider hands it out,
a real Redis, a running keepstone server with a key. A page about a framework runs in the framework's environment."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.docs.answers import answer
from tests.docs.servers import Servers
from tests.models.endpoint import Endpoint

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")))
INTEGRATIONS = ROOT / "docs" / "guides" / "integrations"
ENCRYPTION = ROOT / "docs" / "guides" / "encryption.md"  # runs in the environment with apsw-sqlite3mc: tests/encrypted
# Pages whose framework is not in the main environment, by the environment that has it.
FRAMEWORKS = {
    "shared": (
        "adk", "agent-framework", "autogen", "claude-agent-sdk", "langchain", "langgraph", "llama-index", "mem0", "openai-agents",
        "pydantic-ai",
    ),
    "strands": ("strands",),
    "crewai": ("crewai",),
}  # fmt: skip
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = {"python", "console", "sh"}
DATA = {"text", "toml", "json", "sql"}
# Commands that set the project up or measure it: their names and options are checked, but for the quick ones they are not run.
QUICK = ("python -m bench facts", "python -m bench dedupe")
OUTSIDE = ("make ", "git ", "docker ", "pip install", "python -m bench ", "python -m training.", "python training/")


@cache
def read(page: Path) -> str:
    """A page as it is on the site: the pages of the reference with what the code says filled in."""
    if page.parent == ROOT / "docs" / "reference":
        return str(site_tool().read_page(page))
    return page.read_text(encoding="utf-8")


@cache
def site_tool() -> ModuleType:
    """tools/make_site.py as a module."""
    sys.path.append(str(ROOT / "tools"))
    return import_module("make_site")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in FENCE.findall(read(page))]


def framework_of(page: Path) -> str | None:
    """The environment that a page runs in; None: the main one."""
    if page == ENCRYPTION:
        return "encrypted"
    found = (name for name, pages in FRAMEWORKS.items() if page.parent == INTEGRATIONS and page.stem in pages)
    return next(found, None)


@contextmanager
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


def environment_of(models: dict[str, str]) -> dict[str, str]:
    folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([folder, os.environ.get("PATH", "")])
    imports = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PATH": path, "PYTHONPATH": imports, "NO_COLOR": "1", "COLUMNS": "120", **models}


def run_page(page: Path, folder: Path, environment: dict[str, str], servers: Servers, *, strict: bool = True) -> None:
    """Run every block of a page, but those that the code fills in (test_examples.py); `strict`: a warning is an error, which
    frameworks do not live up to."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    unknown = {kind for kind, _ in found} - RUN - DATA
    assert not unknown, f"{page.name}: blocks must be one of {sorted(RUN | DATA)}, found {sorted(unknown)}"
    python = "\n".join(body for kind, body in found if kind == "python")
    environment = environment | servers.variables(page.read_text(encoding="utf-8"), folder, environment)
    if "keepstone connect" in read(page) or "keepstone import claude-code" in read(
        page
    ):  # it writes into the home folder, and its hooks leave a process for a while
        home = folder / "home"
        home.mkdir()
        environment |= {"HOME": str(home), "KEEPSTONE_HOOK_SECONDS": "60", "KEEPSTONE_HOOK_IDLE_SECONDS": "5"}
    environment["PYTEST_DEBUG_TEMPROOT"] = str(folder)  # a page's own pytest shares no folder with the one that runs it
    if python:
        command = [sys.executable, *(("-W", "error") if strict else ()), "-c", python]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, f"{page.name}:\n{ran.stderr}"
    for kind, body in found:
        if kind == "console":
            run_console(body, folder, environment)
        elif kind == "sh":
            ran = subprocess.run(["sh", "-e", "-c", body], cwd=folder, env=environment, capture_output=True, text=True)
            assert ran.returncode == 0, f"{body}\n{ran.stdout}{ran.stderr}"


def run_console(body: str, folder: Path, environment: dict[str, str]) -> None:
    commands = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    assert commands, f"a console block has no line that begins with '$ ':\n{body}"
    for part in commands:
        command, _, expected = part.partition("\n")
        if command.startswith(OUTSIDE) and not command.startswith(QUICK):
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
    elif words[0] == "docker":
        import yaml  # not in the environments of the frameworks

        services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
        if words[1] == "compose" and words[2] in ("run", "exec"):
            service = next(word for word in words[3:] if not word.startswith("-"))
            assert service in services, f"there is no service {service}"
    elif words[:3] == ["python", "-m", "bench"]:
        help = help_of(words[3])
        options = [word for word in words[4:] if word.startswith("--")]
        assert all(option in help for option in options), f"{command}: an option is unknown\n{help}"
    elif words[:2] == ["python", "-m"]:
        assert (ROOT / f"{words[2].replace('.', '/')}.py").exists(), command
    elif words[0] == "python":
        assert (ROOT / words[1]).exists(), command


@cache
def help_of(benchmark: str) -> str:
    """What a benchmark says of its options; asked for once, however often pages name it."""
    ran = subprocess.run([sys.executable, "-m", "bench", benchmark, "--help"], cwd=ROOT, capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"})  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
