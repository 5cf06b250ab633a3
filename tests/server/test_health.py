"""healthz, readyz: what a monitor of the server is told, whatever state it is in."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keepstone import Memory, __version__
from keepstone.server.routes.health import Probe
from tests.server.running import Running, running


def test_health_is_told_without_a_key(server: Running) -> None:
    alive = httpx2.get(f"{server.url}/healthz", timeout=60)
    assert (alive.status_code, alive.json()) == (200, {"status": "ok", "version": __version__})
    ready = httpx2.get(f"{server.url}/readyz", timeout=60)
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert {name: httpx2.head(f"{server.url}/{name}").status_code for name in ("healthz", "readyz")} == {
        "healthz": 200,
        "readyz": 200,
    }


def test_a_store_that_is_gone_makes_the_server_unready_and_not_unhealthy(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory, running(memory) as server:
        memory.close()
        ready = httpx2.get(f"{server.url}/readyz", timeout=60)
        assert (ready.status_code, ready.headers["content-type"]) == (503, "application/problem+json")
        assert "StoreClosed" in ready.json()["detail"]
        assert int(ready.headers["retry-after"]) > 0
        assert httpx2.head(f"{server.url}/readyz").status_code == 503
        assert httpx2.get(f"{server.url}/healthz", timeout=60).status_code == 200


def test_health_is_told_while_every_worker_is_busy(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    @functools.wraps(Memory.remember)  # the server keeps the signature of a verb
    def slow(self: Memory, content: str, **given: Any) -> Any:
        release.wait(60)
        raise ValueError

    monkeypatch.setattr(Memory, "remember", slow)
    keys = [server.key("alice"), server.key("bob")]  # one alone does not get every worker
    with ThreadPoolExecutor(45) as many:

        def ask(number: int) -> int:
            headers = {"authorization": f"Bearer {keys[number % 2]}"}
            return httpx2.post(f"{server.url}/v1/memories", json={"content": "?"}, headers=headers, timeout=60).status_code

        try:
            asked = [many.submit(ask, each) for each in range(45)]
            until = time.monotonic() + 30
            while server.service.busy_threads() < 40:
                assert time.monotonic() < until, "the workers never were busy"
                threading.Event().wait(0.01)
            answers = {name: httpx2.get(f"{server.url}/{name}", timeout=60) for name in ("healthz", "readyz", "metrics")}
            assert {name: answer.status_code for name, answer in answers.items()} == {
                "healthz": 200,
                "readyz": 200,
                "metrics": 200,
            }
            assert "keepstone_workers_busy 40.0" in answers["metrics"].text
        finally:
            release.set()
        assert {each.result() for each in asked} == {500}


def test_a_store_that_hangs_is_asked_once() -> None:
    release, asked = threading.Event(), []

    def ask() -> None:
        asked.append(1)
        release.wait(60)

    async def three_times() -> list[str | None]:
        probe = Probe(ask, 0.02)
        found = list(await asyncio.gather(probe.problem(), probe.problem()))
        found.append(await probe.problem())
        release.set()
        patient = Probe(ask, 60)
        return [*found, await patient.problem()]

    assert asyncio.run(three_times()) == ["Timeout", "Timeout", "Timeout", None]
    assert len(asked) == 2


def test_the_document_says_that_no_key_is_needed(server: Running) -> None:
    paths = httpx2.get(f"{server.url}/openapi.json", timeout=60).json()["paths"]
    assert [paths[each]["get"]["security"] for each in ("/healthz", "/readyz", "/metrics")] == [[], [], []]
