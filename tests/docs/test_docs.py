"""Every fenced block of README and docs is run (pages.py says how), links lead somewhere, and what is generated is up to date.
Pages about frameworks are run by tests/frameworks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.answers import LOST, answer
from tests.docs.pages import FENCE, FRAMEWORKS, PAGES, ROOT, blocks, framework_of, run_page
from tests.docs.servers import Servers


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


def test_every_page_of_a_framework_is_there() -> None:
    there = {page.stem for page in PAGES if framework_of(page)}
    assert there == {name for names in FRAMEWORKS.values() for name in names}


def test_the_model_of_the_pages_knows_only_what_it_is_sent() -> None:
    question = {"role": "user", "content": "Which theme do I like?"}
    told = {"role": "user", "content": "I prefer dark mode."}
    assert answer({"body": {"messages": [question]}}).text == LOST
    assert answer({"body": {"messages": [told, question]}}).text == "You prefer dark mode."


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_data_is_what_it_says_it_is() -> None:
    found = [(page, kind, body) for page in PAGES for kind, body in blocks(page) if kind in ("json", "toml")]
    assert len(found) > 5
    for page, kind, body in found:
        try:
            json.loads(body) if kind == "json" else tomllib.loads(body)
        except ValueError as error:
            pytest.fail(f"{page.relative_to(ROOT)}: a block is no {kind} ({error}):\n{body}")


def test_links_into_a_page_lead_to_a_heading() -> None:
    for page in PAGES:
        for target, heading in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://")):
                there = page if not target else page.parent / target
                assert heading in headings(there), f"{page.relative_to(ROOT)} links to {target}#{heading}"


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def test_the_settings_table_is_what_the_code_says() -> None:
    shown = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    made = subprocess.run([sys.executable, str(ROOT / "tools" / "make_settings_reference.py"), "--print"], capture_output=True,
                          text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}).stdout  # fmt: skip
    assert shown == made, "run 'make generate'"


def test_the_http_reference_is_what_the_server_says() -> None:
    shown = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    made = subprocess.run([sys.executable, str(ROOT / "tools" / "make_http_reference.py"), "--print"], capture_output=True,
                          text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}).stdout  # fmt: skip
    assert shown == made, "run 'make generate'"


def test_no_page_names_what_users_do_not_have() -> None:
    for page in PAGES:
        assert "../shared" not in page.read_text(encoding="utf-8"), page
