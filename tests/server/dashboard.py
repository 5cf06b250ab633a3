"""A visitor of the dashboard without a browser: a client with cookies that signs in, reads forms and sends them."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from unittest import mock

import httpx2

from keepstone import Memory
from tests.server.running import Running

PAGES = (
    "/", "/overview/health", "/memories", "/recall", "/playground", "/conversations", "/timeline", "/map", "/review", "/health",
    "/maintenance", "/audit", "/jobs", "/transfer", "/keys",
)  # fmt: skip
EVERYTHING = ("read", "write", "forget", "admin")
_TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


@dataclass
class Visitor:
    """One browser's worth of cookies."""

    http: httpx2.Client

    def sign_in(self, key: str, **more: str) -> httpx2.Response:
        page = self.http.get("/sign-in")
        return self.http.post("/sign-in", data={"token": token(page), "key": key, **more}, headers=self.own())

    def own(self) -> dict[str, str]:
        """What a browser says of a form on a page of ours."""
        return {"origin": str(self.http.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}

    def send(self, path: str, form: dict[str, str], page: str = "/", **headers: str) -> httpx2.Response:
        """A form of a page, with that page's token."""
        return self.http.post(path, data={"token": token(self.http.get(page)), **form}, headers={**self.own(), **headers})


def token(page: httpx2.Response) -> str:
    found = _TOKEN.search(page.text)
    assert found is not None, f"there is no form on {page.url}"
    return found[1]


def visitor(server: Running, key: str | None = None) -> Visitor:
    """A browser session; signed in if a key is given."""
    client = httpx2.Client(base_url=server.url, timeout=30, follow_redirects=False)
    server.clients.append(client)
    made = Visitor(client)
    if key is not None:
        assert made.sign_in(key).status_code == 303
    return made


def hold(memory: Memory, *contents: str) -> None:
    """Store what an agent says as a server with the setting hold="agents" does."""
    guard = memory._engine.writing._guard
    with mock.patch.object(guard, "_rules", replace(guard._rules, hold="agents")):
        for content in contents:
            assert memory.remember(content, source="agent").action == "quarantined"


def text(page: httpx2.Response) -> str:
    """What a page says, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.text)).split())
