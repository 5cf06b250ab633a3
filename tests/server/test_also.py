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
