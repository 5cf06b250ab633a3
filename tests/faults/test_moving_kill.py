"""kill -9 while a store is moved, and a server that falls: it goes on, and what arrives is the store."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from keepstone.maintenance.store_migration import move_store
from keepstone.ports.values import Write
from keepstone.testing.builders import DIMENSION, EMBEDDER, draft
from tests.contracts.moving_support import DANA, ERIK, OTHER, database, healthy, opened, seen
from tests.faults.support import environment
from tests.server_processes import PostgresServer

KILLS = 8
READ = "SELECT value FROM {}meta WHERE name = 'moving'"


def mark(target: str | Path) -> dict[str, Any]:
    """How far a move has come, as the target says; nothing before it has begun and after it has ended."""
    row = None
    if isinstance(target, str):
        with suppress(psycopg.Error), psycopg.connect(target, autocommit=True) as connection:
            row = connection.execute(READ.format("keepstone.").encode()).fetchone()
    elif target.exists():
        with suppress(apsw.BusyError, apsw.SQLError):
            connection = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READONLY)
            row = connection.execute(READ.format("")).fetchone()
            connection.close()
    return {} if row is None else json.loads(row[0])


def ends(said: dict[str, Any]) -> bool:
    """Whether all rows are there, and are being compared: the ends of the trails come last."""
    return said.get("table") == "chain" and said["part"] in ("", DANA.tenant)


def moving(source: str | Path, target: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "keepstone", "migrate", "--from", str(source), "--to", str(target), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())


def killed(process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> bool:
    """Kill a process once something is reached; False if it had ended before."""
    deadline = time.monotonic() + 60
    while not reached() and process.poll() is None:
        assert time.monotonic() < deadline, "the move does not get anywhere"
        time.sleep(0.01)
    process.kill()
    process.communicate()
    return process.returncode == -9


def filled(target: str | Path, many: int) -> None:
    """A store with so many writes in each of three scopes, some of which replace others."""
    store = opened(target)
    store.bind_embedder(EMBEDDER, DIMENSION)
    for scope in (DANA, ERIK, OTHER):
        for at in range(0, many, 100):
            store.write(scope, [Write(draft(f"fact {n} – ü", key=f"key {n % 1700}")) for n in range(at, at + 100)])
    store.close()


@pytest.mark.parametrize("direction", ["to a server", "to a file"])
def test_a_move_that_is_killed_again_and_again_arrives(direction: str, postgres_server: PostgresServer, tmp_path: Path) -> None:
    source: str | Path = tmp_path / "a.db" if direction == "to a server" else database(postgres_server)
    target: str | Path = database(postgres_server) if direction == "to a server" else tmp_path / "b.db"
    filled(source, 2000)
    was = seen(source, tmp_path)
    choose = random.Random(7)
    killed(moving(source, target), lambda: True)  # before it has begun
    kills, reached = 0, 0
    for _ in range(KILLS):
        more = reached + choose.choice((1, 200, 500, 800))
        kills += killed(moving(source, target), lambda more=more: mark(target).get("done", 0) >= more)  # type: ignore[misc]
        assert mark(target)["done"] >= reached, "what was written is not written again"
        reached = mark(target)["done"]
    assert kills == KILLS
    assert killed(moving(source, target), lambda: ends(mark(target))), "it was not killed while it compared"
    last = moving(source, target)
    report = json.loads(last.communicate()[0])
    assert (last.returncode, report["resumed"], report["records"]) == (0, True, 5100)
    assert mark(target) == {}
    assert seen(target, tmp_path) == was
    healthy(target)


@pytest.mark.parametrize("direction", ["to a server", "to a file"])
def test_a_server_that_goes_away_and_comes_back_does_not_end_a_move(direction: str, tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "postgres") as server:
        url = server.database("one")
        source, target = (tmp_path / "a.db", url) if direction == "to a server" else (url, tmp_path / "b.db")
        filled(source, 600)
        was = seen(source, tmp_path)
        falls = [300, 1500, 3000, 5000]

        def fall(done: int, total: int) -> None:
            if falls and done >= falls[0]:
                falls.pop(0)
                server.stop("immediate")
                server.start()

        report = move_store(source, target, progress=fall)
        assert (falls, report.resumed) == ([], False)
        assert seen(target, tmp_path) == was
        healthy(target)
