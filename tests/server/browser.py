"""A real browser for the tests of the dashboard: Chromium, with everything that pages ask for and complain about written down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from keepstone import Memory
from tests.server.demo import fill_team
from tests.server.running import Running, running

expect.set_options(timeout=30_000)  # what is awaited comes at once, unless the machine has other things to do
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--font-render-hinting=none",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium as the system has it; without one tests are skipped, unless they run where it has to be there."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium: install the system's package 'chromium'")
        pytest.skip("there is no Chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=ARGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page and what it did: addresses it asked for, what stood on its console, scripts that ran where none should."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def sign_in(self, key: str) -> Page:
        """By the link that the server prints."""
        self.page.goto(f"{self.url}/#key={key}")
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_selector("h1:has-text('Overview')")
        return self.page

    def outside(self) -> list[str]:
        """Requests to anybody else."""
        return [address for address in self.requests if not address.startswith((self.url + "/", "data:"))]


@contextmanager
def watched(browser: Browser, url: str, **options: Any) -> Iterator[Watched]:
    """A new window on a server, with nothing kept from others."""
    context: BrowserContext = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(30_000)
    page = context.new_page()
    made = Watched(page, url)
    page.on("request", lambda request: made.requests.append(request.url))
    page.on("console", lambda message: made.console.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: made.console.append(str(error)))

    def asked(dialog: Any) -> None:
        made.dialogs.append(dialog.message)
        dialog.accept()

    page.on("dialog", asked)
    try:
        yield made
    finally:
        context.close()


@pytest.fixture(scope="module", name="browser")
def browser_() -> Iterator[Browser]:
    """One Chromium for a file of tests; not for the whole run, because its event loop would stand in the way of others'."""
    with chromium() as made:
        yield made


@pytest.fixture(scope="module", name="demo")
def demo_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on a store that looks like one in use, with 3 users, 400 memories and 20 conversations."""
    path = tmp_path_factory.mktemp("demo") / "memory.db"
    fill_team(path)
    with Memory.open(path) as memory, running(memory) as made:
        yield made


@pytest.fixture(name="window")
def window_(browser: Browser, demo: Running) -> Iterator[Watched]:
    """A window on that server; at its end nothing outside was asked for, and nothing was complained about."""
    with watched(browser, demo.url) as made:
        yield made
        assert made.outside() == []
        assert made.console == [], made.console
