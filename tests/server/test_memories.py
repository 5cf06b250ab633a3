"""remember, recall, get, update, forget over HTTP: what comes back, with which status and headers."""

from __future__ import annotations

from tests.server.running import Running


def test_what_is_remembered_is_recalled(server: Running) -> None:
    http = server.http()
    made = http.post("/v1/memories", json={"content": "Dana prefers dark mode.", "tag": "preference"})
    assert (made.status_code, made.json()["action"]) == (201, "added")
    found = http.post("/v1/recall", json={"query": "Which theme does Dana like?"}).json()
    assert [hit["content"] for hit in found["hits"]] == ["Dana prefers dark mode."]
    assert found["hits"][0]["record"]["scope"] == {"tenant": "local", "agent": "default", "user": "alice"}


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
