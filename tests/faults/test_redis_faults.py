"""A store behind a Redis that is killed, stopped, emptied, full or restarted: it goes on, says why, and never gives old pages."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis

from keepstone.buffers.buffered import BufferedStore
from keepstone.buffers.redis import RedisBuffer
from keepstone.ports.values import Selector, Write
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.buffers import window
from keepstone.testing.builders import HOME, NOON, draft, together, wording
from tests.faults.support import until
from tests.server_processes import RedisServer

BOUND = 5


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(started: RedisServer) -> Iterator[RedisServer]:
    """A Redis that is up and empty, whatever the test before did to it."""
    started.start()
    with redis.Redis.from_url(started.url) as client:
        client.flushall()
    yield started
    started.resume()
    started.start()


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    with redis.Redis.from_url(server.url) as client:
        yield client


class Desk:
    """Stores on one file behind buffers in one Redis, each as another process would have it, and the file itself."""

    def __init__(self, path: Path, server: RedisServer, timeout: float) -> None:
        self.now = NOON
        self.file = SqliteStore.open(str(path), clock=lambda: self.now)
        self.buffers = [RedisBuffer(server.url, bound=BOUND, timeout=timeout) for _ in range(2)]
        inner = [SqliteStore.open(str(path), clock=lambda: self.now) for _ in self.buffers]
        self.stores: list[Any] = [
            BufferedStore(store, buffer, lambda: self.now) for store, buffer in zip(inner, self.buffers, strict=True)
        ]

    def say(self, text: str, by: int = 0, session: str | None = "s", **rest: Any) -> str:
        """Write a message; its id."""
        made = draft(text, kind="message", session=session, vector=None, **rest)
        (receipt,) = self.stores[by].write(HOME, [Write(made)])
        assert receipt.action in ("added", "quarantined"), receipt
        return str(receipt.id)

    def heard(self, by: int = 0, limit: int = BOUND) -> list[str]:
        """A page, which must be what the file itself says."""
        found = self.page(self.stores[by], "s", limit=limit)
        assert found == self.page(self.file, "s", limit=limit)
        return [record.content for _, record in found]

    @staticmethod
    def page(store: Any, session: str | None, **bounds: Any) -> list[Any]:
        """A page, less how often its messages were read, which no row of the trail tells."""
        found = store.message_log.page(HOME, session, **bounds)
        return [(at, replace(record, access_count=0, last_accessed_at=None)) for at, record in found]

    def close(self) -> None:
        for store in (*self.stores, self.file):
            store.close()


@pytest.fixture
def desk(path: Path, server: RedisServer) -> Iterator[Desk]:
    """On a machine that may be busy, a Redis that is well is given time."""
    opened = Desk(path, server, timeout=10)
    yield opened
    server.resume()
    opened.close()


@pytest.fixture
def hasty(path: Path, server: RedisServer) -> Iterator[Desk]:
    """A desk that does not wait for a Redis that is not well."""
    opened = Desk(path, server, timeout=0.25)
    yield opened
    server.resume()
    opened.close()


def everything(client: Any) -> bytes:
    """Every byte of every key and value."""
    return b"\n".join(key + repr(client.hgetall(key)).encode() for key in client.scan_iter())


def recovered(desk: Desk, by: int = 0) -> bool:
    desk.heard(by)
    return desk.buffers[by].problem is None


# -- outages ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_redis_that_does_not_answer_stops_nothing(hasty: Desk, server: RedisServer, client: Any, fault: str) -> None:
    hasty.say("one")
    until(lambda: hasty.heard() == ["one"] and b"one" in everything(client), "a window of the first message")
    getattr(server, fault)()
    hasty.say("two")
    assert hasty.heard() == hasty.heard(by=1) == ["one", "two"]
    for problem in (hasty.buffers[0].problem, hasty.buffers[1].problem):
        assert problem is not None
        assert problem.startswith(f"redis at 127.0.0.1:{server.port} does not answer (")
    for number in range(20):
        hasty.say(f"more {number}")
    assert hasty.heard(limit=2) == ["more 18", "more 19"]
    assert hasty.buffers[0].window(HOME, "s") is None
    server.resume()
    server.start()
    for by in (0, 1):
        until(lambda by=by: recovered(hasty, by), "recovery")  # type: ignore[misc]
    until(lambda: hasty.heard() != [] and b"more 19" in everything(client), "a new window")


def test_a_window_from_before_an_outage_is_never_given(hasty: Desk, server: RedisServer, client: Any) -> None:
    """It was paused, so what it held is still there when it comes back."""
    first = hasty.say("old words")
    until(lambda: hasty.heard() == ["old words"] and b"old words" in everything(client), "a window")
    server.pause()
    hasty.say("said meanwhile", by=1)
    hasty.stores[1].revise(HOME, first, wording("new words", vector=None))
    server.resume()
    for _ in range(20):
        assert hasty.heard() == hasty.heard(by=1) == ["new words", "said meanwhile"]
    until(lambda: recovered(hasty) and recovered(hasty, 1), "recovery")
    assert hasty.heard() == hasty.heard(by=1) == ["new words", "said meanwhile"]


def test_a_restarted_and_an_emptied_redis_are_filled_again(desk: Desk, server: RedisServer, client: Any) -> None:
    desk.say("one")
    assert desk.heard() == ["one"]
    assert b"one" in everything(client)
    client.flushall()
    assert desk.heard() == ["one"]
    assert b"one" in everything(client)
    server.stop()
    server.start()
    assert everything(client) == b""
    until(lambda: recovered(desk) and b"one" in everything(client), "a new window")
    assert desk.heard() == desk.heard(by=1) == ["one"]


def test_a_full_redis_keeps_nothing_and_loses_nothing(desk: Desk, client: Any) -> None:
    desk.say("one")
    assert desk.heard() == ["one"]
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    try:
        gone = desk.say("two")
        assert desk.heard() == desk.heard(by=1) == ["one", "two"]
        problem = desk.buffers[0].problem
        assert problem is not None
        assert "is full" in problem
        assert "maxmemory" in problem
        receipt = desk.stores[0].forget(HOME, Selector(id=gone))
        assert receipt.erased, "deleting needs no room"
        assert everything(client) == b""
        assert desk.heard() == ["one"]
    finally:
        client.config_set("maxmemory", 0)
    until(lambda: recovered(desk) and b"one" in everything(client), "recovery")


def test_a_wrong_password_is_a_problem_without_the_password(desk: Desk, server: RedisServer, client: Any) -> None:
    client.config_set("requirepass", "right-s3cr3t")
    try:
        buffer = RedisBuffer(server.url.replace("//", "//:wrong-s3cr3t@"), timeout=10)
        assert buffer.window(HOME, "s") is None
        assert buffer.clear(HOME) is False
        assert buffer.problem is not None
        assert "s3cr3t" not in buffer.problem + buffer.name
        buffer.close()
    finally:
        client.config_set("requirepass", "")


def test_another_server_at_its_port_is_a_problem(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepted: list[Any] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                accepted.append(connection)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        buffer = RedisBuffer(f"redis://127.0.0.1:{listening.getsockname()[1]}", timeout=10)
        assert buffer.window(HOME, "s") is None
        assert buffer.problem is not None
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in accepted:
            connection.close()


def test_a_silent_server_is_asked_once_a_second(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        buffer = RedisBuffer(f"redis://127.0.0.1:{listening.getsockname()[1]}", timeout=0.1)
        begun = time.monotonic()
        calls = 0
        assert buffer.window(HOME, "s") is None
        while time.monotonic() - begun < 2.5 or calls < 100:
            together(8, lambda number: [buffer.window(HOME, "s"), buffer.clear(HOME)])
            calls += 16
        taken = time.monotonic() - begun
        listening.setblocking(False)
        attempts = 0
        try:
            while True:
                listening.accept()[0].close()
                attempts += 1
        except BlockingIOError:
            pass
        assert 1 < attempts <= taken + 1


# -- forgetting ---------------------------------------------------------------------------------------------------
def test_forgetting_leaves_no_byte_in_redis(desk: Desk, client: Any) -> None:
    desk.say("hello")
    secret = desk.say("the code is zanzibar", metadata={"hint": "zanzibar"})
    for session in ("s", None):
        desk.stores[0].message_log.page(HOME, session, limit=2)
    assert everything(client).count(b"the code is zanzibar") == 2
    receipt = desk.stores[1].forget(HOME, Selector(id=secret))
    assert (receipt.forgotten, receipt.erased, receipt.reasons) == (1, True, ())
    assert b"zanzibar" not in everything(client)
    assert desk.heard() == desk.heard(by=1) == ["hello"]
    assert b"zanzibar" not in everything(client)


def test_a_forget_that_cannot_reach_redis_says_so_and_is_made_good(hasty: Desk, server: RedisServer, client: Any) -> None:
    secret = hasty.say("the code is zanzibar")
    hasty.stores[1].message_log.page(HOME, None, limit=1)
    until(lambda: hasty.heard() != [] and b"zanzibar" in everything(client), "a window")
    server.pause()
    assert hasty.heard() == ["the code is zanzibar"]
    receipt = hasty.stores[0].forget(HOME, Selector(id=secret))
    assert (receipt.forgotten, receipt.erased) == (1, False)
    (reason,) = receipt.reasons
    assert f"redis at 127.0.0.1:{server.port} for at most 3600 seconds" in reason
    assert "does not answer" in reason
    again = hasty.stores[0].forget(HOME, Selector(id=secret))
    assert (again.forgotten, again.erased, again.reasons) == (0, True, ())
    assert hasty.heard() == []
    server.resume()
    until(lambda: recovered(hasty), "recovery")
    assert b"zanzibar" not in everything(client), "what it owed was not paid"


def test_no_reader_brings_back_what_is_forgotten(desk: Desk, client: Any) -> None:
    """Readers who have a message in hand when it is erased do not put it into Redis afterwards."""
    desk.say("hello")
    over = threading.Event()

    def read(number: int) -> list[str]:
        while number and not over.is_set():
            desk.stores[number % 2].message_log.page(HOME, "s" if number < 3 else None, limit=3)
        return [] if number else forget()

    def forget() -> list[str]:
        left = []
        try:
            for number in range(60):
                secret = desk.say(f"zanzibar {number}")
                desk.stores[0].message_log.page(HOME, "s", limit=3)
                receipt = desk.stores[number % 2].forget(HOME, Selector(id=secret))
                if not receipt.erased or f"zanzibar {number}".encode() in everything(client):
                    left.append(f"{number}: {receipt}")
        finally:
            over.set()
        return left

    assert together(5, read) == [[]] * 5


@pytest.mark.parametrize("late", [False, True])
def test_what_comes_while_a_window_is_filled_is_seen(desk: Desk, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    desk.say("one")
    inner = desk.stores[0]._store.message_log.page

    def slowly(*asked: Any, **bounds: Any) -> Any:
        found = inner(*asked, **bounds) if late else None
        desk.say("two", by=1)
        return found or inner(*asked, **bounds)

    with monkeypatch.context() as patched:
        patched.setattr(desk.stores[0]._store.message_log, "page", slowly)
        desk.stores[0].message_log.page(HOME, "s", limit=BOUND)
    assert desk.heard() == desk.heard(by=1) == ["one", "two"]


# -- two processes' worth -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(int(os.environ.get("KEEPSTONE_BUFFER_SEEDS", "4"))))
def test_pages_are_those_of_the_file_at_every_step(desk: Desk, client: Any, seed: int) -> None:
    chance = Random(seed)
    ids: list[str] = []
    hits = 0
    for step in range(120):
        by = chance.randrange(2)
        store, session = desk.stores[by], chance.choice(("a", "a", "b", None))
        act = chance.choice(
            ("say", "say", "say", "edit", "forget", "forget all", "touch", "time", "flush", "read", "read", "read")
        )
        if act == "say":
            status = chance.choice(("active",) * 4 + ("quarantined",))
            tag = chance.choice(("general",) * 4 + ("step",))
            expires = chance.choice((None, None, desk.now + timedelta(seconds=chance.randrange(1, 60))))
            ids.append(desk.say(f"turn {step}", by, session, status=status, tag=tag, expires_at=expires))
        elif act == "edit" and ids:
            store.revise(HOME, chance.choice(ids), wording(f"edited {step}", vector=None))
        elif act == "forget" and ids:
            assert store.forget(HOME, Selector(id=ids.pop(chance.randrange(len(ids))))).erased
        elif act == "forget all" and chance.random() < 0.2:
            store.forget(HOME, Selector(session="a"))
            ids = [id for id in ids if desk.file.get(HOME, id) is not None]
        elif act == "touch":
            store.touch(HOME, {at: 1 for at, _ in desk.file.message_log.page(HOME, session, limit=3)}, desk.now)
        elif act == "time":
            desk.now += timedelta(seconds=chance.randrange(1, 20))
        elif act == "flush" and chance.random() < 0.3:
            client.flushall()
        last = desk.file.audit_log.last(HOME)
        for store in desk.stores:
            bounds = {"limit": chance.randrange(1, BOUND + 2), "oldest": chance.random() < 0.3}
            if chance.random() < 0.4:
                bounds["after"] = chance.randrange(last + 2)
            if chance.random() < 0.3:
                bounds["before"] = chance.randrange(last + 2)
            held = store.buffer.window(HOME, f"{store.id} a")
            hits += held is not None and held.number == last
            for each in ("a", "b", None):
                assert desk.page(store, each, **bounds) == desk.page(desk.file, each, **bounds), (step, act, each, bounds)
    assert hits > 20, "hardly a page came from the buffer: this shows nothing"
    assert [buffer.problem for buffer in desk.buffers] == [None, None]


def test_a_buffer_whose_server_comes_later_is_used_then(path: Path, tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "late")
    buffer = RedisBuffer(f"redis://127.0.0.1:{server.port}", timeout=10)
    buffer.put(HOME, "s", window("hello"))
    assert buffer.problem is not None
    with server:
        until(lambda: buffer.clear(HOME), "an answer")
        buffer.put(HOME, "s", window("hello"))
        assert buffer.window(HOME, "s") == window("hello")
        assert buffer.problem is None
        buffer.close()
