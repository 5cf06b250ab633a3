"""Gather the pages of the documentation site in build/pages; zensical builds build/site from them (`make docs`).

Pages are plain Markdown that reads the same on GitHub. Gathering expands the reference directives (reference.py), adds the
pages that live outside docs/ and rewrites links between pages. A link to a file that is not on the site ends it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from reference import expand

ROOT = Path(__file__).parent.parent
DOCS, PAGES = ROOT / "docs", ROOT / "build" / "pages"
# Pages outside docs/, and their path on the site.
OUTSIDE_DOCS = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security/policy.md",
    "training/README.md": "embedder.md",
}
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def site_paths() -> dict[Path, Path]:
    """Every page, picture and saved result, with its path on the site."""
    suffixes = (".md", ".svg", ".png", ".json")
    paths = {path: path.relative_to(DOCS) for path in sorted(DOCS.rglob("*")) if path.suffix in suffixes}
    return paths | {ROOT / name: Path(target) for name, target in OUTSIDE_DOCS.items() if (ROOT / name).exists()}


def read_page(page: Path) -> str:
    """A page with its reference directives expanded."""
    text = page.read_text(encoding="utf-8")
    return expand(text) if page.parent == DOCS / "reference" else text


def render_page(page: Path, paths: dict[Path, Path]) -> str:
    """A page with its links as they are on the site."""

    def rewrite(link: re.Match[str]) -> str:
        target, anchor = link.groups()
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = paths.get((page.parent / target).resolve())
        if path is None:
            raise SystemExit(f"{page.relative_to(ROOT)} links to {target}, which is not on the site: see OUTSIDE_DOCS.")
        return f"]({os.path.relpath(path, paths[page].parent)}{anchor or ''})"

    parts = FENCE.split(read_page(page))
    return "".join(part if part.startswith("```") else LINK.sub(rewrite, part) for part in parts)


def gather_pages() -> None:
    """Write build/pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    paths = site_paths()
    for path, target in paths.items():
        (PAGES / target).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            (PAGES / target).write_text(render_page(path, paths), encoding="utf-8")
        else:
            shutil.copyfile(path, PAGES / target)
    shutil.copytree(ROOT / "site" / "assets", PAGES / "assets")


if __name__ == "__main__":
    gather_pages()
