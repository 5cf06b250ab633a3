"""remember, recall, get, update, forget over HTTP: what comes back, with which status and headers."""

from __future__ import annotations

from tests.server.raw import assert_problem
from tests.server.running import Running


def test_what_is_remembered_is_recalled(server: Running) -> None:
    http = server.http()
    made = http.post("/v1/memories", json={"content": "Dana prefers dark mode.", "tag": "preference"})
    assert (made.status_code, made.json()["action"]) == (201, "added")
    found = http.post("/v1/recall", json={"query": "Which theme does Dana like?"}).json()
    assert [hit["content"] for hit in found["hits"]] == ["Dana prefers dark mode."]
    assert found["hits"][0]["record"]["scope"] == {"tenant": "local", "agent": "default", "user": "alice"}


def test_a_receipt_says_what_a_statement_may_replace(server: Running) -> None:
    http = server.http()
    old = http.post("/v1/memories", json={"content": "I live in Porto.", "occurred_at": "2026-03-02T09:00:00Z"}).json()
    new = http.post("/v1/memories", json={"content": "We finally moved to Leeds, the boxes are unpacked."}).json()
    assert list(new["may_replace"]) == [old["id"]]


def test_a_memory_has_its_version_as_etag(server: Running) -> None:
    http = server.http()
    id = http.post("/v1/memories", json={"content": "Dana lives in Lisbon."}).json()["id"]
    first = http.get(f"/v1/memories/{id}")
    assert first.headers["etag"] == '"1"'
    assert http.get(f"/v1/memories/{id}", headers={"if-none-match": '"1"'}).status_code == 304
    changed = http.patch(f"/v1/memories/{id}", json={"content": "Dana lives in Porto."}, headers={"if-match": '"1"'})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    stale = http.patch(f"/v1/memories/{id}", json={"content": "Dana lives in Faro."}, headers={"if-match": '"1"'})
    assert (stale.status_code, stale.headers["content-type"]) == (412, "application/problem+json")
    assert http.patch(f"/v1/memories/{id}", json={"content": "x", "expected_version": 1}).status_code == 409
    assert [each["content"] for each in http.get(f"/v1/memories/{id}/history").json()["versions"]] == [
        "Dana lives in Lisbon.",
        "Dana lives in Porto.",
    ]


def test_archiving_and_restoring_change_the_etag(server: Running) -> None:
    http = server.http()
    made = http.post("/v1/memories", json={"content": "Dana rows."})
    path, first = made.headers["location"], made.headers["etag"]
    assert http.get(path, headers={"if-none-match": first}).status_code == 304
    ticket = http.post("/v1/upkeep/cap", json={"most": 0}).json()["ticket"]
    archived = http.get(path, headers={"if-none-match": first})
    assert (archived.status_code, archived.json()["version"]) == (200, 1)
    assert archived.headers["etag"] != first
    assert http.get(path, headers={"if-none-match": archived.headers["etag"]}).status_code == 304
    assert http.post("/v1/upkeep/undo", json={"ticket": ticket}).status_code == 200
    assert http.get(path, headers={"if-none-match": archived.headers["etag"]}).status_code == 200
    assert http.get(path, headers={"if-none-match": first}).status_code == 304
    assert http.get(path, headers={"if-none-match": "*"}).status_code == 304


def test_if_match_applies_to_delete(server: Running) -> None:
    http = server.http()
    path = http.post("/v1/memories", json={"content": "Dana rows."}).headers["location"]
    assert http.patch(path, json={"content": "Dana rows and sails."}).status_code == 200
    assert_problem(http.delete(path, headers={"if-match": '"1"'}), 412, "Conflict")
    assert_problem(http.delete(path, headers={"if-match": '"1.5"'}), 422, "ValidationError")
    assert http.delete(path, headers={"if-match": '"2"'}).status_code == 200
    assert_problem(http.delete(path, headers={"if-match": '"2"'}), 404, "NotFound")


def test_an_idempotency_key_is_the_same_in_a_header_and_in_a_body(server: Running) -> None:
    http = server.http()
    first = http.post("/v1/memories", json={"content": "Dana rows."}, headers={"idempotency-key": "clé".encode()})
    again = http.post("/v1/memories", json={"content": "Dana rows.", "idempotency_key": "clé"})
    assert (first.status_code, again.json()["id"], again.json()["action"]) == (201, first.json()["id"], "added")
    assert_problem(http.post("/v1/memories", json={"content": "x"}, headers={"idempotency-key": ""}), 422, "ValidationError")
    twice = [("idempotency-key", "a"), ("idempotency-key", "b")]
    assert_problem(http.post("/v1/memories", json={"content": "x"}, headers=twice), 422, "ValidationError")
