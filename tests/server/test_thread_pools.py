"""Worker threads are shared fairly between keys."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keepstone import Memory
from keepstone.errors import Forbidden
from keepstone.maintenance import checkup
from keepstone.server import service
from keepstone.server.problems import RequestRefused
from tests.server.dashboard import visitor
from tests.server.running import Running, running


def test_one_key_does_not_take_every_worker_thread(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, there = threading.Event(), threading.Semaphore(0)

    def slow(*_: object, **__: object) -> Any:
        there.release()
        gate.wait(60)
        raise Forbidden("never mind.")

    monkeypatch.setattr(checkup, "examine", slow)
    greedy, bob = server.key("greedy"), server.http(server.key("bob"))
    headers = {"authorization": f"Bearer {greedy}"}
    try:
        with ThreadPoolExecutor(service._WORKER_THREADS + 5) as pool:
            for _ in range(service._WORKER_THREADS + 5):
                pool.submit(httpx2.get, f"{server.url}/v1/upkeep/health", headers=headers, timeout=120)
            for _ in range(service._WORKER_THREADS_PER_KEY):
                assert there.acquire(timeout=30)
            assert bob.post("/v1/memories", json={"content": "Bob rows."}).status_code == 201
            assert len(bob.get("/v1/memories").json()["records"]) == 1
            assert bob.post("/v1/recall", json={"query": "Who rows?"}).status_code == 200
            gate.set()
    finally:
        gate.set()
    assert not server.service.worker_pool._slots, "nothing is kept of keys that have nothing in hand"


def test_recalls_of_two_keys_take_turns() -> None:
    """A caller with a hundred requests at once has two of them in the queue."""
    done: list[str] = []

    async def asked(pool: Any, id: str) -> None:
        await pool.run(done.append, id, key=id)

    async def main() -> None:
        pool = service.ThreadPool(service._COMPUTE_THREADS, service._COMPUTE_CALLS_PER_KEY)
        many = [asyncio.create_task(asked(pool, "greedy")) for _ in range(100)]
        await asyncio.sleep(0)
        await asyncio.gather(asked(pool, "bob"), *many)
        assert not pool._slots

    asyncio.run(main())
    assert len(done) == 101
    assert done.index("bob") <= 2 * service._COMPUTE_CALLS_PER_KEY + 1


def test_an_unresponsive_token_issuer_does_not_block_keys(tmp_path: Path) -> None:
    gate, there = threading.Event(), threading.Semaphore(0)

    class Slow:
        def verify(self, token: str) -> Any:
            there.release()
            gate.wait(60)
            raise Forbidden("never mind.")

    with Memory.open(tmp_path / "memory.db") as memory, running(memory, verifier=Slow()) as server:
        bob = server.http(server.key("bob"))
        try:
            with ThreadPoolExecutor(50) as pool:
                for _ in range(50):
                    pool.submit(httpx2.get, f"{server.url}/v1/me", headers={"authorization": "Bearer eyJ"}, timeout=120)
                for _ in range(service._AUTH_THREADS):
                    assert there.acquire(timeout=30)
                assert bob.post("/v1/memories", json={"content": "Bob rows."}).status_code == 201
                gate.set()
        finally:
            gate.set()


def test_work_whose_caller_has_gone_is_not_begun() -> None:
    done: list[str] = []

    async def gone() -> bool:
        return True

    async def main() -> None:
        pool = service.ThreadPool(1, 1)
        gate = threading.Event()
        first = asyncio.create_task(pool.run(gate.wait, 60, key="greedy", is_gone=gone))  # it never waited, so it is done
        await asyncio.sleep(0)
        second = asyncio.create_task(pool.run(done.append, "second", key="greedy", is_gone=gone))
        await asyncio.sleep(0)
        gate.set()
        assert await first
        with pytest.raises(RequestRefused, match="disconnected"):
            await second
        await pool.run(done.append, "third", key="greedy", is_gone=gone)
        del second  # its traceback
        assert not pool._slots

    asyncio.run(main())
    assert done == ["third"]


def test_pages_of_the_dashboard_take_turns_with_the_recalls_of_others(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    keys_seen: list[str | None] = []
    run = service.ThreadPool.run

    async def watch(pool: Any, work: Any, *args: Any, key: str | None = None, **more: Any) -> Any:
        if pool is server.service.compute_pool and pool is not server.service.worker_pool:
            keys_seen.append(key)
        return await run(pool, work, *args, key=key, **more)

    monkeypatch.setattr(service.ThreadPool, "run", watch)
    key = server.key("greedy")
    assert visitor(server, key).http.get("/memories").status_code == 200
    assert keys_seen == [server.service.identify(key).id]


def test_a_key_rests_after_a_page_while_others_are_active(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now[0] += seconds

    async def view(turns: service.PageTurns, key: str, seconds: float) -> None:
        async with turns.turn(key):
            now[0] += seconds

    async def work() -> None:
        turns = service.PageTurns(lambda: now[0])
        for _ in range(3):
            await view(turns, "mallory", 0.04)
        assert slept == [], "alone, a key does not wait"
        turns.note_use("dana")
        await asyncio.gather(*(view(turns, "mallory", 0.04) for _ in range(2)))
        assert slept == [0.76, 0.76], "its pages take a twentieth of the time, one after the other"
        turns.note_use("dana")
        await view(turns, "dana", 5.0)
        turns.note_use("mallory")
        await view(turns, "dana", 5.0)
        assert slept[2:] == [2.0], "and no rest is longer than two seconds"
        now[0] += 10
        await view(turns, "mallory", 0.04)
        assert len(slept) == 3
        assert not turns._turns

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(work())
