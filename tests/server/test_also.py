"""Recall over several scopes: rights are checked for every scope."""

from __future__ import annotations

from tests.server.running import Running


def test_a_recall_over_several_scopes_reads_only_those_the_key_may_act_for(server: Running) -> None:
    owner, team = server.memory.with_scope(user="also-dana"), server.memory.with_scope(user="also-team")
    owner.remember("Dana drinks sencha tea.")
    team.remember("The team drinks tea at four.")
    body = {"query": "Who drinks tea?", "min_similarity": 0, "also": [{"user": "also-team"}]}
    refused = server.http(server.key("dana", user="also-dana")).post("/v1/recall", json=body)
    assert refused.status_code == 403
    assert "four" not in refused.text
    service = server.http(server.key("service", service=True), x_keepstone_user="also-dana")
    found = service.post("/v1/recall", json=body)
    assert {hit["record"]["scope"]["user"] for hit in found.json()["hits"]} == {"also-dana", "also-team"}
    for other in ({"tenant": "elsewhere"}, {"tenant": "elsewhere", "user": "also-team"}):
        assert service.post("/v1/recall", json={**body, "also": [other]}).status_code == 403
    bound = server.http(server.key("bound", user="also-dana", agent="default"))
    assert bound.post("/v1/recall", json={**body, "also": [{"agent": "helper"}]}).status_code == 403


def test_a_memory_is_moved_only_where_the_key_may_act_and_by_a_person(server: Running) -> None:
    owner, team = server.memory.with_scope(user="move-dana"), server.memory.with_scope(user="move-team")
    id = str(owner.remember("The team ships on Tuesdays.").id)
    path, body = f"/v1/memories/{id}/promote", {"to": {"user": "move-team"}}
    assert server.http(server.key("dana", user="move-dana")).post(path, json=body).status_code == 403
    agent = server.http(server.key("agent", user="move-dana", agent="default"))
    assert agent.post(path, json={"to": {"agent": "helper"}}).status_code == 403
    service = server.http(server.key("service", service=True), x_keepstone_user="move-dana")
    assert service.post(path, json={"to": {"tenant": "elsewhere"}}).status_code == 403
    assert service.post(path, json={"to": {}}).status_code == 422
    assert owner.get(id) is not None
    moved = service.post(path, json=body)
    assert (moved.status_code, moved.json()["id"]) == (200, id)
    assert owner.get(id) is None
    assert [version.content for version in team.history(id)] == ["The team ships on Tuesdays."]
