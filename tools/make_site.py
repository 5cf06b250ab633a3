"""Builds the documentation site: the pages of docs/ and those beside it (changelog, contributing, the embedder's card) are
gathered in build/pages, with links between them put right, and zensical makes build/site of them. A warning ends the build.

python tools/make_site.py           # gather and build
python tools/make_site.py --pages   # gather only

The pages themselves stay plain Markdown that reads the same on GitHub.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS, PAGES, SITE = ROOT / "docs", ROOT / "build" / "pages", ROOT / "build" / "site"
# Pages that live outside docs/, and what they are called on the site.
BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security/policy.md",
    "training/README.md": "embedder.md",
}
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, Path]:
    """Every page, picture and saved result by where it comes from: where it goes, from the root of the site."""
    found = {path: path.relative_to(DOCS) for path in sorted(DOCS.rglob("*")) if path.suffix in (".md", ".svg", ".png", ".json")}
    found |= {ROOT / name: Path(place) for name, place in BESIDE.items() if (ROOT / name).exists()}
    return found


def gathered(page: Path, places: dict[Path, Path]) -> str:
    """A page's text with its links as they are on the site. Raises for a link to what the site has not got."""
    here = places[page].parent

    def put_right(link: re.Match[str]) -> str:
        target, anchor = link.groups()
        if re.match(r"[a-z]+:", target):
            return link[0]
        place = places.get((page.parent / target).resolve())
        if place is None:
            raise SystemExit(
                f"{page.relative_to(ROOT)} links to {target}, which is no page of the site: see BESIDE in make_site.py."
            )
        return f"]({os.path.relpath(place, here)}{anchor or ''})"

    text = page.read_text(encoding="utf-8")
    fenced = FENCE.findall(text)
    prose = FENCE.split(text)
    mended = [LINK.sub(put_right, part) for part in prose]
    return "".join(part + (fenced[at] if at < len(fenced) else "") for at, part in enumerate(mended))


def gather() -> None:
    """Write build/pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    places = pages()
    for path, place in places.items():
        target = PAGES / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(gathered(path, places), encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    shutil.copytree(ROOT / "site" / "assets", PAGES / "assets")


def main() -> int:
    gather()
    if "--pages" in sys.argv:
        return 0
    shutil.rmtree(SITE, ignore_errors=True)
    zensical = Path(sys.executable).parent / "zensical"
    built = subprocess.run([str(zensical), "build", "--strict", "--clean"], cwd=ROOT)
    if built.returncode == 0:
        print(f"built: {SITE / 'index.html'}")
    return built.returncode


if __name__ == "__main__":
    raise SystemExit(main())
