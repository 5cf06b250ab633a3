"""The documentation site, checked without its builder: links and anchors of every page, pictures, the navigation, the pages
with parts made from code, and that no page loads anything from another host. `make docs` builds it; a warning ends the build."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, read, site_tool

DOCS = ROOT / "docs"
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "training/README.md")]
PAGES = sorted([path for path in BESIDE if path.exists()] + list(DOCS.rglob("*.md")))
CURRENT_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]  # the changelog names what was renamed
LINK = re.compile(r"(!?)\[((?:[^\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$|^<!--.*?-->$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
OUTSIDE = re.compile(r"^[a-z]+:")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return INDENTED.sub("", FENCED.sub("", read(page)))


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may name in a page, as GitHub and the site make it: words of the heading, numbered where one comes again."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return frozenset(found)


def links(page: Path) -> Iterator[tuple[bool, str, str]]:
    """The links of a page to others of the repository: whether a picture, its text, where to."""
    for picture, text, target in LINK.findall(prose(page)):
        if not OUTSIDE.match(target):
            yield bool(picture), text, target


def nav() -> list[str]:
    """The pages of the nav, in order."""

    def inside(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for each in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
            yield from inside(each)

    return list(inside(configuration()["nav"]))


def configuration() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for _, _, target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{named(page)} links to {path}, which is not there"
        assert not anchor or anchor in anchors(there), f"{named(page)} links to {target}: there is no such heading"


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "```text\n[no](link)\n```\n\n    [no](link)\n"
    page.write_text(f"# A `page`: twice\n\n## Twice\n\n## Twice\n\n[`list[str]`](#twice-1) ![](a.svg)\n\n{code}")
    assert anchors(page) == {"a-page-twice", "twice", "twice-1"}
    assert list(links(page)) == [(False, "`list[str]`", "#twice-1"), (True, "", "a.svg")]


def test_every_picture_is_there_and_says_what_it_shows() -> None:
    pictures = [(page, text, target) for page in PAGES for picture, text, target in links(page) if picture]
    assert len(pictures) > 8
    for page, text, target in pictures:
        assert (page.parent / target).exists(), f"{named(page)}: {target}"
        assert len(text.split()) >= 4, f"{named(page)}: the picture {target} needs words for those who do not see it"
    for path in (DOCS / "images").glob("*.svg"):
        drawn = path.read_text(encoding="utf-8")
        assert "<title" in drawn, f"{named(path)} has no title"
        assert 'role="img"' in drawn, f"{named(path)} is read out piece by piece"
        assert "prefers-color-scheme:dark" in drawn, f"{named(path)} is not drawn for the dark"


def test_every_page_stands_in_the_nav_once() -> None:
    places = site_tool().site_paths()
    pages = {str(place) for place in places.values() if place.suffix == ".md"}
    listed = nav()
    assert len(listed) == len(set(listed)), f"twice in the nav: {[name for name, count in Counter(listed).items() if count > 1]}"
    assert set(listed) - pages == set(), "the nav of zensical.toml names pages that are not there"
    assert pages - set(listed) == set(), "these pages are missing in the nav of zensical.toml"


def test_pages_are_gathered_with_their_links_put_right() -> None:
    site = site_tool()
    places = site.site_paths()
    gathered = {str(place): site.render_page(page, places) for page, place in places.items() if page.suffix == ".md"}
    assert "](contributing.md)" in gathered["architecture.md"]
    assert "](benchmarks.md)" in gathered["embedder.md"]
    assert gathered["quickstart.md"] == (DOCS / "quickstart.md").read_text(encoding="utf-8")


def test_the_site_asks_no_other_host() -> None:
    found = configuration()
    assert found["theme"]["font"] is False  # else fonts come from outside
    assert [path for path in found["extra"]["polyfills"] if OUTSIDE.match(path)] == []
    assert any("iframe-worker" in path for path in found["extra"]["polyfills"])  # else the offline plugin names one outside
    assert "analytics" not in found["extra"]
    for path in (ROOT / "site").rglob("*"):
        if path.suffix in (".css", ".js", ".html"):
            assert not re.search(r"https?://|url\(\s*[\"']?//", path.read_text(encoding="utf-8")), f"{named(path)} names a host"


def test_commands_that_are_named_in_prose_are_there() -> None:
    from typer.main import get_command

    from keepstone.cli.app import build_app

    root: Any = get_command(build_app())
    named_there = 0
    for page in CURRENT_PAGES:
        for code in re.findall(r"`(keepstone [^`\n]+)`", prose(page)):
            command, words = root, code.split()[1:]
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            known = {option for each in (*root.params, *command.params) for option in (*each.opts, *each.secondary_opts)}
            unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in {*known, "--help"}]
            assert not unknown, f"{named(page)}: `{code}` has no {unknown[0]}"
            assert command is not root or not words or words[0].startswith(("-", "…", "COMMAND")), f"{named(page)}: `{code}`"
            named_there += 1
    assert named_there > 50


def test_verbs_that_are_named_in_prose_are_there() -> None:
    from keepstone import Memory
    from keepstone.maintenance.upkeep import Upkeep

    found = [
        (page, owner, verb)
        for page in CURRENT_PAGES
        for code in re.findall(r"`([^`\n]+)`", prose(page))
        for owner, verb in re.findall(r"(?<![\w./])(memory|upkeep)\.([a-z_]+)(?=\(|$|\.[a-z_]+(?:\(|$))", code)
    ]
    assert len(found) > 50
    for page, owner, verb in found:
        there = {"memory": Memory, "upkeep": Upkeep}[owner]
        assert hasattr(there, verb) or verb in ("db", "py"), f"{named(page)} names {owner}.{verb}"


def test_tests_that_the_threat_model_names_are_there() -> None:
    named_there = re.findall(r"`(\w+/test_\w+\.py)`", (DOCS / "security" / "threat-model.md").read_text(encoding="utf-8"))
    assert len(named_there) > 30
    assert [name for name in named_there if not (ROOT / "tests" / name).exists()] == []


def test_modules_that_the_architecture_names_are_there() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    text += "".join((DOCS / "images" / f"{path}-path.svg").read_text(encoding="utf-8") for path in ("write", "read"))
    named_there = set(re.findall(r"\b([a-z_]+(?:/[a-z_]+)*\.py)\b", text))
    assert len(named_there) > 15
    modules = {str(path.relative_to(ROOT / "src" / "keepstone")) for path in (ROOT / "src" / "keepstone").rglob("*.py")}
    known = modules | {name.split("/", 1)[1] for name in modules if name.startswith("recall/")}
    assert named_there - known == set()


def test_the_quickstart_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "quickstart.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == set(project["optional-dependencies"])


def test_the_reference_documents_every_public_verb() -> None:
    from keepstone import Memory

    page = read(DOCS / "reference" / "python.md")
    for name in (name for name in dir(Memory) if not name.startswith("_")):
        assert f"### Memory.{name}\n" in page
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", (DOCS / "reference" / "python.md").read_text(encoding="utf-8"), re.MULTILINE)
    for verb, argument in rows:
        assert argument in signature(getattr(Memory, verb)).parameters, f"the reference explains {verb}({argument}=)"


def test_the_reference_lists_every_command_and_address() -> None:
    assert "## `keepstone remember`" in read(DOCS / "reference" / "cli.md")
    assert "### `POST /v1/recall`" in read(DOCS / "reference" / "http.md")
