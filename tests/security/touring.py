"""A tour of everything a server answers, with planted values wherever one can stand.

Every kind of request is in it: those that go well, those that are refused, those that cannot be read, and those of strangers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2

from tests.security.planted import CARD, CONTENT, GITHUB_TOKEN, HEADER, NAME, NOTE, PASSWORD, PROVIDER_KEY, QUERY, SAID

_TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


@dataclass
class Tour:
    """One visitor with an operator's key. `answers` are all answers that came, `problems` those that said what was wrong."""

    address: str
    key: str = field(repr=False)
    answers: list[httpx2.Response] = field(default_factory=list)

    @property
    def problems(self) -> list[httpx2.Response]:
        return [each for each in self.answers if each.status_code >= 400]

    def run(self) -> None:
        with httpx2.Client(base_url=self.address, timeout=60, verify=False) as http:
            for part in (self._api, self._refused, self._mcp, self._mem0, self._dashboard, self._open):
                part(http)

    def _ask(self, http: httpx2.Client, method: str, path: str, **given: Any) -> httpx2.Response:
        answer = http.request(method, path, **given)
        self.answers.append(answer)
        return answer

    def _headers(self, **more: str) -> dict[str, str]:
        named = {"x-keepstone-user": NAME, "user-agent": HEADER, "referer": f"http://{HEADER}/", "cookie": f"a={HEADER}"}
        return {"authorization": f"Bearer {self.key}", **named, **more}

    def _api(self, http: httpx2.Client) -> None:
        """Keepstone's own verbs."""
        headers = self._headers(**{"x-request-id": f"{HEADER}!", "idempotency-key": NAME, "traceparent": HEADER})
        memory = {
            "content": f"{CONTENT} is what Dana said; her key is {PROVIDER_KEY}, the password={PASSWORD}, her card {CARD}.",
            "tag": NAME, "key": f"{NAME}/one", "metadata": {NOTE: [GITHUB_TOKEN, NOTE]}, "session": NAME,
        }  # fmt: skip
        assert self._ask(http, "POST", "/v1/memories", json=memory, headers=headers).status_code < 300
        headers = self._headers()
        said = {"messages": [{"role": "user", "content": f"I am {SAID}.", "name": NAME}]}
        assert self._ask(http, "POST", f"/v1/conversations/{NAME}/messages", json=said, headers=headers).status_code < 300
        assert self._ask(http, "POST", "/v1/recall", json={"query": f"What of {QUERY}?"}, headers=headers).status_code == 200
        for path in (f"/v1/memories?tag={NAME}", "/v1/audit", "/v1/store/doctor", "/v1/stats", "/v1/review", "/v1/jobs",
                     f"/v1/conversations/{NAME}", "/v1/me", "/v1/keys", "/v1/export"):  # fmt: skip
            self._ask(http, "GET", path, headers=headers)
        made = self._ask(http, "POST", "/v1/keys", json={"name": NAME}, headers=headers)
        assert made.status_code == 201
        self.answers.remove(made)  # whose job it is to show a key
        self._ask(http, "POST", "/v1/forget", json={"source": f"web:{NAME}"}, headers=headers)

    def _refused(self, http: httpx2.Client) -> None:
        """What cannot be read, is not there, or is not theirs."""
        headers, stranger = self._headers(), {"authorization": f"Bearer {self.key[:-4]}AAAA"}
        body = {"content-type": "application/json", **headers}
        for path in (
            f"/v1/memories/{NAME}", f"/v1/memories?{NAME}={NAME}", f"/{NAME}?key={self.key}", f"/v1/recall?key={self.key}",
            f"/v1/memories?password={PASSWORD}&card={CARD}", f"/v1/memories/{PROVIDER_KEY}",
        ):  # fmt: skip
            self._ask(http, "GET", path, headers=headers)
        wrong: list[dict[str, Any]] = [
            {"content": f"{CONTENT}", f"{PROVIDER_KEY}": 1},
            {"content": {"password": PASSWORD}},
            {"content": CONTENT, "kind": f"key {PROVIDER_KEY} card {CARD}"},
            {"content": CONTENT, "occurred_at": f"password={PASSWORD}"},
            {"content": CONTENT, "ttl": f"{GITHUB_TOKEN}"},
        ]
        for each in wrong:
            self._ask(http, "POST", "/v1/memories", json=each, headers=headers)
        for raw in (
            f'{{"{CONTENT}": '.encode(),
            f'"{CONTENT}"'.encode(),
            b"\xff" + CONTENT.encode(),
            b"[" * 100_000,
            b"x" * 10_000_000,
        ):
            self._ask(http, "POST", "/v1/memories", content=raw, headers=body)
        self._ask(http, "POST", "/v1/memories", content=CONTENT, headers={**headers, "content-type": f"text/{HEADER}"})
        self._ask(http, "POST", "/v1/memories", content=CONTENT, headers={**headers, "content-encoding": HEADER})
        lines = f'{{"content": "{CONTENT}", "password": "{PASSWORD}"}}\n{CONTENT} {PROVIDER_KEY}\n'
        self._ask(http, "POST", "/v1/import", content=lines, headers={**headers, "content-type": "application/jsonl"})
        self._ask(http, "POST", "/v1/recall", json={"query": QUERY}, headers=stranger)
        self._ask(http, "POST", "/v1/recall", json={"query": QUERY}, headers={"authorization": f"Basic {PASSWORD}"})
        self._ask(http, "POST", "/v1/recall", json={"query": QUERY}, headers={"authorization": f"Bearer {PROVIDER_KEY}"})
        self._ask(http, "PROPFIND", f"/v1/memories/{NAME}", headers=headers)

    def _mcp(self, http: httpx2.Client) -> None:
        """MCP by hand: a call that goes well, one that fails, and one that cannot be read."""
        headers = {**self._headers(), "accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        calls = [
            ("tools/call", {"name": "write_memory", "arguments": {"content": f"{CONTENT} over MCP, password={PASSWORD}"}}),
            ("tools/call", {"name": "recall_memory", "arguments": {"query": QUERY}}),
            ("tools/call", {"name": "recall_memory", "arguments": {NAME: PROVIDER_KEY}}),
            ("tools/call", {"name": NAME, "arguments": {"password": PASSWORD}}),
            ("resources/read", {"uri": f"memory://{NAME}/{GITHUB_TOKEN}"}),
            (NAME, {}),
        ]
        for at, (method, params) in enumerate(calls):
            self._ask(
                http, "POST", "/mcp", json={"jsonrpc": "2.0", "id": at, "method": method, "params": params}, headers=headers
            )
        self._ask(http, "POST", "/mcp", content=f"{CONTENT} {PASSWORD}", headers={**headers, "content-type": "application/json"})
        self._ask(http, "POST", "/mcp", json={}, headers={**headers, "origin": f"https://{HEADER}.example"})

    def _mem0(self, http: httpx2.Client) -> None:
        """The paths of another service's client."""
        headers, base = {**self._headers(), "authorization": f"Token {self.key}"}, "/compat/mem0"
        messages = [{"role": "user", "content": f"{SAID} again, token {GITHUB_TOKEN}"}]
        self._ask(http, "POST", f"{base}/v3/memories/add/", json={"messages": messages, "user_id": NAME}, headers=headers)
        self._ask(http, "POST", f"{base}/v3/memories/search/", json={"query": QUERY, "filters": {NAME: 1}}, headers=headers)
        self._ask(http, "DELETE", f"{base}/v1/memories/?filters={quote(PASSWORD)}&user_id={NAME}", headers=headers)
        self._ask(http, "GET", f"{base}/v1/memories/{NAME}/", headers={"authorization": f"Token ks_{PASSWORD}"})

    def _dashboard(self, http: httpx2.Client) -> None:
        """Pages: a sign-in that fails, one that works, and pages with planted questions."""
        own = {"origin": self.address, "sec-fetch-site": "same-origin"}
        for key in (f"ks_{PASSWORD}", self.key):
            found = _TOKEN.search(self._ask(http, "GET", f"/sign-in?next=/{NAME}").text)
            assert found is not None
            form = {"token": found[1], "key": key, "next": f"/{NAME}"}
            signed = self._ask(http, "POST", "/sign-in", data=form, headers=own)
        assert signed.status_code == 303
        for path in (
            "/",
            "/memories",
            f"/recall?query={QUERY}",
            f"/memories/{NAME}",
            f"/memories?q={QUERY}&tag={NAME}",
            "/audit",
            "/keys",
        ):
            self._ask(http, "GET", path)
        self._ask(http, "POST", "/memories", data={"token": HEADER, "content": CONTENT}, headers=own)
        http.cookies.clear()

    def _open(self, http: httpx2.Client) -> None:
        """What needs no key."""
        for path in (
            "/healthz",
            "/readyz",
            "/metrics",
            "/openapi.json",
            f"/metrics?{NAME}={PASSWORD}",
            "/.well-known/oauth-protected-resource",
        ):
            self._ask(http, "GET", path, headers={"user-agent": HEADER, "authorization": f"Bearer {self.key}"})


def told(answers: list[httpx2.Response]) -> str:
    """All that answers say, heads and bodies."""
    return json.dumps([[each.status_code, dict(each.headers), each.text] for each in answers])
