"""The trail over HTTP: one's own rows, and a tenant's chain."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from keepstone import Memory
from keepstone.errors import Forbidden, StorageFull
from tests.server.raw import assert_problem
from tests.server.running import Running, running


def test_what_was_done_newest_first(server: Running) -> None:
    http = server.http()
    id = http.post("/v1/memories", json={"content": "Ada likes tea."}).json()["id"]
    http.delete(f"/v1/memories/{id}")
    answer = http.get("/v1/audit")
    verbs = [(row["verb"], row["action"]) for row in answer.json()["rows"] if row["id"] == id]
    assert [verb for verb, _ in verbs] == ["forget", "remember"]
    assert "tea" not in answer.text
    assert len(http.get("/v1/audit", params={"limit": 1}).json()["rows"]) == 1
    ahead = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert http.get("/v1/audit", params={"since": ahead}).json() == {"rows": []}


def test_a_denial_can_be_read_by_whom_it_concerns(server: Running) -> None:
    http = server.http(server.key(rights=("read",)))
    assert http.post("/v1/memories", json={"content": "Ada likes tea."}).status_code == 403
    assert ("key", "denied") in [(row["verb"], row["action"]) for row in http.get("/v1/audit").json()["rows"]]


def test_nobody_sees_anothers_trail(server: Running) -> None:
    id = server.http(server.key("ada")).post("/v1/memories", json={"content": "Ada likes tea."}).json()["id"]
    for key in (server.key("bob"), server.key("ada", tenant="away")):
        assert id not in [row["id"] for row in server.http(key).get("/v1/audit").json()["rows"]]


def test_the_chain_of_a_tenant(server: Running) -> None:
    server.http(server.key("ada")).post("/v1/memories", json={"content": "Ada likes tea."})
    admin = server.http(server.key("boss", rights=("admin",)))
    report = admin.get("/v1/audit/chain").json()
    assert (report["whole"], report["problem"], report["rows"] > 0) == (True, None, True)
    server.http(server.key("ada")).post("/v1/memories", json={"content": "Ada lives in Porto."})
    assert admin.get("/v1/audit/chain", params={"head": report["head"]}).json()["whole"] is True
    away = server.http(server.key("boss", tenant="away", rights=("admin",)))
    foreign = away.get("/v1/audit/chain", params={"head": report["head"]}).json()
    assert (foreign["whole"], foreign["rows"] < report["rows"]) == (False, True)


def test_rights(server: Running) -> None:
    assert server.http(server.key(rights=("write",))).get("/v1/audit").status_code == 403
    assert server.http(server.key(agent="bot")).get("/v1/audit").status_code == 200
    assert server.http(server.key(rights=("read", "write", "forget", "operator"))).get("/v1/audit/chain").status_code == 403


@pytest.mark.parametrize("query", ["audit?since=yesterday", "audit?limit=0", "audit?limit=99999", "audit/chain?surprise=1"])
def test_nonsense_is_refused(server: Running, query: str) -> None:
    assert server.http(server.key(rights=("read", "admin"))).get(f"/v1/{query}").status_code == 422


_HELD = """import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
held.execute("ROLLBACK")"""


@contextmanager
def locked(path: Path) -> Iterator[Callable[[], None]]:
    """A store that another process is writing to, until what is yielded is called."""
    other = subprocess.Popen(
        [sys.executable, "-c", _HELD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"

    def release() -> None:
        assert other.stdin is not None
        other.stdin.close()
        assert other.wait(30) == 0

    try:
        yield release
    finally:
        if other.poll() is None:
            release()
        other.stdout.close()


def test_a_locked_store_does_not_block_other_requests_while_a_denial_is_written(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory, running(memory) as server:
        reader = server.http(server.key("reader", rights=["read"]))
        assert reader.get("/v1/me").status_code == 200
        with locked(path) as release, ThreadPoolExecutor(1) as pool:
            refused = pool.submit(reader.post, "/v1/memories", json={"content": "Not mine to write."})
            while not server.service.busy_threads():  # the line of the trail waits in a worker thread
                assert httpx2.get(f"{server.url}/healthz", timeout=120).status_code == 200
            assert httpx2.get(f"{server.url}/healthz", timeout=120).status_code == 200
            assert not refused.done()
            release()
            assert refused.result(30).status_code == 403
        rows = reader.get("/v1/audit").json()["rows"]
    assert ("key", "denied") in [(row["verb"], row["action"]) for row in rows], "and it is there before the answer is"


def test_a_denied_request_stays_denied_if_the_audit_log_cannot_be_written(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, key = server.http(server.key("reader", rights=["read"])), server.key("new", rights=["read"])
    assert reader.get("/v1/me").status_code == 200

    def full(*_: object, **__: object) -> int:
        raise StorageFull("no space left: make some.")

    monkeypatch.setattr(type(server.engine.store.audit_log), "note", full)
    assert_problem(reader.post("/v1/memories", json={"content": "x"}), 403, "Forbidden")
    assert_problem(reader.get("/v1/me", headers={"x-keepstone-user": "bob"}), 403, "Forbidden")
    assert server.http(key).get("/v1/memories").status_code == 200, "reading goes on, with a key that was not used before too"
    monkeypatch.undo()
    mine = server.memory.with_scope(user="new")
    assert server.http(key).get("/v1/memories").status_code == 200
    assert [row.action for row in mine.audit() if row.verb == "key"] == ["used", "created"], "and is noted when it can be"


def test_a_denial_in_a_worker_thread_is_written_at_once(server: Running) -> None:
    identity = server.service.keys.check(server.key("reader", rights=["read"]))
    with pytest.raises(Forbidden):
        server.service.caller_for(identity).require("write")
    assert server.memory.with_scope(user="reader").audit()[0].action == "denied"
