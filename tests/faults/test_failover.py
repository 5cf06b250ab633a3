"""A primary that is killed under load, and recalls from its standby."""

from __future__ import annotations

import time
from pathlib import Path

from bench.failover import Replica, Result, _look_for, run
from keepstone import Memory

QUESTION = "Where does Dana live?"


def check_staleness(primary: Replica, standby: Replica, url: str) -> None:
    """While the standby replays nothing, it is read only as long as the limit allows, and the answer says so."""
    settings = {"read_url": url.replace("read-write", "prefer-standby"), "read_staleness": 1.0}
    with Memory.open(url, embedder="none", settings=settings) as memory:
        memory.set("home", "Dana lives in Porto.")
        deadline = time.monotonic() + 30
        while not (found := memory.recall(QUESTION)).hits and time.monotonic() < deadline:
            continue
        assert found[0].content == "Dana lives in Porto."
        assert any("read from a standby" in note for note in found.notes)
        standby.execute("SELECT pg_wal_replay_pause()")
        try:
            primary.execute("ALTER SYSTEM RESET synchronous_standby_names")  # else no commit returns that is not replayed
            primary.execute("SELECT pg_reload_conf()")
            memory.set("home", "Dana lives in Lisbon.")
            written = time.monotonic()
            while (found := memory.recall(QUESTION)).notes and time.monotonic() < written + 30:
                assert found[0].content in ("Dana lives in Porto.", "Dana lives in Lisbon.")
                if time.monotonic() > written + 2:
                    assert found[0].content == "Dana lives in Lisbon.", "older than the limit"
            assert found[0].content == "Dana lives in Lisbon."
        finally:
            standby.execute("SELECT pg_wal_replay_resume()")
        primary.replicate_synchronously()


def test_every_acknowledged_write_is_on_the_new_primary_and_no_caller_sees_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, 2, check_staleness)
    assert result.as_json()["problems"] == []
    assert result.good
    assert (result.failovers, result.acknowledged > 150, result.from_standby > 0) == (2, True, True)


def test_a_write_that_is_not_there_is_counted(postgres_url: str) -> None:
    with Memory.open(postgres_url, embedder="none") as memory:
        id = memory.remember("Crate 1 is at the dock.").id
    result = Result()
    _look_for({id: "Crate 1 is at the dock.", "m_none": "Crate 2 is at the dock."}, postgres_url, result)
    assert (result.lost, result.good) == (1, False)
