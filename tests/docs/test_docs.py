"""Every fenced block of README and docs runs (see pages.py). tests/frameworks runs the pages about frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.answers import LOST, answer
from tests.docs.pages import FRAMEWORKS, PAGES, ROOT, blocks, framework_of, run_page
from tests.docs.servers import Servers

MAX_WORDS = 45_000  # the reference is counted without what comes from the code


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with pages.models() as models:
        yield pages.environment_of(models)


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers of the page's own, so that a role that one page makes is not another's."""
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.mark.parametrize("page", [page for page in PAGES if not framework_of(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, environment: dict[str, str], servers: Servers) -> None:
    run_page(page, tmp_path, environment, servers)


def test_each_python_block_of_the_readme_runs_alone_and_prints_what_is_shown(tmp_path: Path) -> None:
    found = blocks(ROOT / "README.md")
    ran = 0
    for (kind, body), (after, shown) in pairwise([*found, ("", "")]):
        if kind == "python":
            folder = tmp_path / str(ran)
            folder.mkdir()
            done = subprocess.run([sys.executable, "-c", body], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert after != "text" or done.stdout == shown
            ran += 1
    assert ran


def test_the_documentation_stays_short() -> None:
    counted = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in counted)
    assert words <= MAX_WORDS, f"README and docs have {words} words"
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600


def test_every_page_of_a_framework_is_there() -> None:
    there = {page.stem for page in PAGES if framework_of(page) not in (None, "encrypted")}
    assert there == {name for names in FRAMEWORKS.values() for name in names}


def test_the_model_of_the_pages_knows_only_what_it_is_sent() -> None:
    question = {"role": "user", "content": "Which theme do I like?"}
    told = {"role": "user", "content": "I prefer dark mode."}
    assert answer({"body": {"messages": [question]}}).text == LOST
    assert answer({"body": {"messages": [told, question]}}).text == "You prefer dark mode."


def test_data_is_what_it_says_it_is() -> None:
    found = [(page, kind, body) for page in PAGES for kind, body in blocks(page) if kind in ("json", "toml")]
    assert len(found) > 5
    for page, kind, body in found:
        try:
            json.loads(body) if kind == "json" else tomllib.loads(body)
        except ValueError as error:
            pytest.fail(f"{page.relative_to(ROOT)}: a block is no {kind} ({error}):\n{body}")


def test_no_page_names_what_users_do_not_have() -> None:
    for page in PAGES:
        assert "../shared" not in page.read_text(encoding="utf-8"), page
