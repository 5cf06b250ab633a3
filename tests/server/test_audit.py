"""The trail over HTTP: one's own rows, and a tenant's chain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.server.running import Running


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
