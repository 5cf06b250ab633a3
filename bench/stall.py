"""What an attacker's pages cost another user. Run with `python -m bench stall`.

A memory is changed from a text of many short sentences to another of the same length, which is the worst case for comparing two
versions, and its dashboard page is asked for over many connections. Meanwhile another user with a key of their own asks for
`/v1/me` and recalls, one request after the other. The bar: the other user's 95th percentile under attack is at most three times
the quiet one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from bench.load import Load, request, run, run_on
from bench.measure import percentile, progress, ratio, table
from bench.report.stamp import result_head
from bench.server import _server

VIEWS = 48  # connections of the attacker
BAR = 3.0
_BEFORE, _AFTER = ". " * 990 + "end", "! " * 990 + "end"
_TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


def measure(seconds: float, views: int) -> dict[str, Any]:
    """The other user's times, quiet and under attack."""
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder) / "memory.db", 1) as (port, first, _):
        url = f"http://127.0.0.1:{port}"
        attacker, other = _make_key(url, first, "mallory"), _make_key(url, first, "dana")
        page = _prepare(url, attacker)
        asked = {
            "me": request("GET", "/v1/me", other),
            "recall": request("POST", "/v1/recall", other, json.dumps({"query": "Where is the boat?"}).encode()),
        }
        found: dict[str, Any] = {}
        for name, sent in asked.items():
            run(port, lambda sent=sent: itertools.cycle([sent]), 1, min(2.0, seconds))
            progress(f"{name}: quiet")
            quiet = run(port, lambda sent=sent: itertools.cycle([sent]), 1, seconds)
            progress(f"{name}: {views} views at once")
            attacked, attack = asyncio.run(_attack(port, sent, page, views, seconds))
            found[name] = {
                "quiet": _figures(quiet),
                "attacked": _figures(attacked),
                "times": ratio(percentile(attacked.times, 0.95), percentile(quiet.times, 0.95)),
                "views": len(attack.times),
            }
    return {"connections": views, "seconds": seconds, "bar": BAR, **found}


def _make_key(url: str, first: str, name: str) -> str:
    headers = {"authorization": f"Bearer {first}"}
    made = httpx2.post(f"{url}/v1/keys", json={"name": name}, headers=headers, timeout=60)
    return str(made.raise_for_status().json()["key"])


def _prepare(url: str, key: str) -> bytes:
    """Store the two versions, sign in, and return the request for the page that compares them."""
    with httpx2.Client(base_url=url, timeout=60, headers={"origin": url, "sec-fetch-site": "same-origin"}) as http:
        bearer = {"authorization": f"Bearer {key}"}
        id = http.post("/v1/memories", json={"content": _BEFORE}, headers=bearer).raise_for_status().json()["id"]
        http.patch(f"/v1/memories/{id}", json={"content": _AFTER}, headers=bearer).raise_for_status()
        token = _TOKEN.search(http.get("/sign-in").text)
        http.post("/sign-in", data={"token": token[1] if token else "", "key": key})
        cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
        assert http.get(f"/memories/{id}").status_code == 200
    return f"GET /memories/{id} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nContent-Length: 0\r\n\r\n".encode()


async def _attack(port: int, sent: bytes, page: bytes, views: int, seconds: float) -> tuple[Load, Load]:
    """The other user's load and the attacker's, at once."""

    def repeat(one: bytes) -> Iterator[bytes]:
        return itertools.cycle([one])

    attack = asyncio.create_task(run_on(port, lambda: repeat(page), views, seconds + 2))
    await asyncio.sleep(1)  # the attack is under way
    attacked = await run_on(port, lambda: repeat(sent), 1, seconds)
    return attacked, await attack


def _figures(load: Load) -> dict[str, Any]:
    shown = {name: round(1000 * percentile(load.times, at), 2) for name, at in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    return {"requests": len(load.times), "ms": shown, "errors": load.errors}


def main(argv: list[str]) -> int:
    """Measure, print, and fail where the bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench stall", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each part")
    parser.add_argument("--views", type=int, default=VIEWS, help="connections of the attacker")
    parser.add_argument("--json", action="store_true", help="only the JSON")
    given = parser.parse_args(argv)
    start = time.perf_counter()
    result = measure(given.seconds, given.views)
    if not given.json:
        table(f"stall, {time.perf_counter() - start:.0f} s", {name: result[name] for name in ("me", "recall")})
    print(json.dumps({**result_head("stall", argv), **result}))
    return 0 if all(result[name]["times"] <= BAR for name in ("me", "recall")) else 1
