"""Pictures of every page of the dashboard: python -m tests.server.screenshots FOLDER [--docs] [--only WORDS].

With --docs, only the pictures of the documentation, under its names. The store has 3 users, 400 memories and 20 conversations.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from playwright.sync_api import Browser

from keepstone import Memory
from keepstone.rights import RIGHTS
from tests.server.browser import chromium, watched
from tests.server.demo import USER, fill_team
from tests.server.running import Running, running

SIZES = ((1440, 900), (1920, 1080), (390, 844))
THEMES = ("light", "dark")
DOCS = {
    "dashboard-overview": "/", "dashboard-recall": "/recall?query=Which+database+does+billing+use%3F", "dashboard-map": "/map",
    "dashboard-playground": "/playground", "dashboard-review": "/review", "dashboard-timeline": "/timeline?span=month",
    "dashboard-maintenance": "/maintenance",
}  # fmt: skip


def paths(server: Running, user: str, tenant: str = "local") -> list[str]:
    """Every kind of page, with as much on it as there can be."""
    memory = server.memory.with_scope(user=user, tenant=tenant)
    record = next(each for each in memory.list(limit=100) if each.kind == "fact")
    session = quote(memory.conversation.list()[0].name, safe="")
    return [
        "/", "/overview/health", "/memories", "/memories?q=invoice", f"/memories/{record.id}?query=Where", "/memories/none",
        f"/recall?query=invoice&limit=3&why={record.id}", "/playground", "/conversations", f"/conversations/{session}",
        f"/conversations/{session}?view=window&max_tokens=100", "/timeline?span=all&talk=yes", "/timeline?mode=known", "/map",
        "/review", "/review?state=kept", "/health", "/maintenance", "/audit?chain=check", "/jobs", "/transfer", "/keys",
        "/settings", "/docs", "/nowhere",
    ]  # fmt: skip


def take(browser: Browser, server: Running, folder: Path, only: str, docs: bool) -> None:
    """Write a picture of each page, size and theme."""
    key = server.key(USER, rights=RIGHTS)
    home = server.memory.with_scope(user=USER).get(key="dana.home")
    assert home is not None
    of_docs = {**DOCS, "dashboard-memory": f"/memories/{home.id}?query=Where+does+Dana+live%3F"}
    chosen = of_docs if docs else {re.sub(r"\W+", "-", path).strip("-")[:60] or "overview": path for path in paths(server, USER)}
    for width, height in SIZES[:1] if docs else SIZES:
        for theme in THEMES[:1] if docs else THEMES:
            options = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
            with watched(browser, server.url, **options) as window:
                page = window.sign_in(key)
                for name, path in chosen.items():
                    if only not in name:
                        continue
                    window.go(path)
                    if path.startswith("/playground"):
                        page.fill("#message", "Where do I live, and who approves refunds?")
                        page.get_by_role("button", name="Show the prompt only").click()
                    page.wait_for_load_state("networkidle")
                    file = f"{name}.png" if docs else f"{name}-{width}-{theme}.png"
                    page.screenshot(path=folder / file, full_page=not docs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        fill_team(path)
        with Memory.open(path) as memory, running(memory) as server, chromium() as browser:
            take(browser, server, given.folder, given.only, given.docs)


if __name__ == "__main__":
    main()
