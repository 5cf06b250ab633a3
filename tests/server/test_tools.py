"""Prompts and the memory tools over HTTP: what a model is told, and what comes of its using them."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.server.running import Running
from tests.server.test_values import PROBLEM, as_json


def use(http: httpx2.Client, name: str, **given: Any) -> dict[str, Any]:
    made = http.post(f"/v1/tools/{name}", json=given)
    assert made.status_code == 200, made.text
    result: dict[str, Any] = made.json()
    return result


def test_a_model_remembers_and_recalls(server: Running) -> None:
    http = server.http()
    made = use(http, "write_memory", input={"tag": "preference", "content": "Dana prefers dark mode."})
    assert made["action"] == "added"
    assert http.get(f"/v1/memories/{made['id']}").json()["source"] == "agent:tool"
    found = use(http, "recall_memory", input={"query": "Which theme does Dana like?"})
    assert [each["content"] for each in found["memories"]] == ["Dana prefers dark mode."]
    changed = use(http, "update_memory", input={"id": made["id"], "content": "Dana prefers light mode."})
    assert changed["action"] == "updated"
    assert [each["content"] for each in use(http, "recall_memory")["memories"]] == ["Dana prefers light mode."]


def test_forgetting_is_only_for_whom_it_is_allowed(server: Running) -> None:
    http = server.http()
    id = use(http, "write_memory", input={"tag": "a", "content": "Dana lives in Lisbon."})["id"]
    assert "no tool" in use(http, "forget_memory", input={"id": id})["error"]
    without = server.http(server.key(rights=("read", "write")))
    refused = without.post("/v1/tools/forget_memory", json={"input": {"id": id}, "allow_forget": True})
    assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden")
    assert http.get(f"/v1/memories/{id}").status_code == 200
    assert use(http, "forget_memory", input={"id": id}, allow_forget=True) == {"action": "forgotten", "id": id, "erased": True}
    assert http.get(f"/v1/memories/{id}").status_code == 404


def test_what_a_model_gets_wrong_is_told_to_it(server: Running) -> None:
    http = server.http()
    assert "content" in use(http, "write_memory", input={"tag": "a"})["error"]
    assert "limit" in use(http, "recall_memory", input={"query": "x", "limit": "many"})["error"]
    assert "error" in use(http, "update_memory", input={"id": "m_none", "content": "x"})
    owned = use(http, "write_memory", input={"tag": "a", "content": "Dana owns a boat.", "user_id": "bob", "tenant": "elsewhere"})
    assert http.get(f"/v1/memories/{owned['id']}").json()["scope"]["user"] == "alice"


def test_a_tool_that_there_is_not(server: Running) -> None:
    http = server.http()
    for name in ("other", "RECALL_MEMORY", "recall_memory%00"):
        gone = http.post(f"/v1/tools/{name}", json={})
        assert (gone.status_code, gone.headers["content-type"], gone.json()["error"]) == (404, PROBLEM, "NotFound"), name


def test_the_schemas_come_in_both_shapes(server: Running) -> None:
    http = server.http()
    tools = http.get("/v1/tools").json()["tools"]
    assert [each["name"] for each in tools] == ["recall_memory", "write_memory", "update_memory"]
    both = http.get("/v1/tools", params={"allow_forget": True, "format": "openai"}).json()["tools"]
    assert [each["function"]["name"] for each in both][-1] == "forget_memory"
    for query in ("format=other", "allow_forget=perhaps", "more=1"):
        assert http.get(f"/v1/tools?{query}").status_code == 422, query


def test_a_prompt_has_what_is_known_and_what_is_in_hand(server: Running) -> None:
    http = server.http()
    use(http, "write_memory", input={"tag": "preference", "content": "Dana prefers dark mode."})
    bare = http.post("/v1/prompt", json={}).json()["prompt"]
    assert "preference" in bare
    assert "dark mode" not in bare
    told = http.post("/v1/prompt", json={"query": "Which theme does Dana like?"}).json()["prompt"]
    assert "Dana prefers dark mode." in told
    http.post("/v1/tasks", json={"task": "Repaint the settings page", "working": "desk/1"})
    assert "Repaint the settings page" in http.post("/v1/prompt", json={"working": "desk/1"}).json()["prompt"]
    assert "Repaint" not in server.http(server.key("bob")).post("/v1/prompt", json={"working": "desk/1"}).json()["prompt"]


def test_what_cannot_be_taken_is_said(server: Running) -> None:
    http = server.http()
    for body in (
        {"max_tokens": 0},
        {"max_tokens": 10_000_001},
        {"max_tokens": "9"},
        {"query": None},
        {"working": ""},
        {"x": 1},
        [],
    ):
        refused = http.post("/v1/prompt", json=body)
        too_large = body == {"max_tokens": 10_000_001}
        assert (refused.status_code, refused.headers["content-type"]) == (413 if too_large else 422, PROBLEM), body
    for body in ({"input": []}, {"input": None}, {"allow_forget": 1}, {"x": 1}, []):
        refused = http.post("/v1/tools/recall_memory", json=body)
        assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM), body
    for given in ({"query": "\ud800"}, {"tag": "\ud800"}, {"\ud800": 1}):
        answered = http.post("/v1/tools/recall_memory", **as_json({"input": given}))
        assert answered.status_code in (200, 422), given
    assert http.post("/v1/prompt", **as_json({"query": "\ud800"})).status_code in (200, 422)
    odd = http.post("/v1/tools/write_memory", **as_json({"input": {"tag": "a", "content": "\ud800"}}))
    assert odd.status_code == 422 or "error" in odd.json()


def test_rights_and_owners(server: Running) -> None:
    owner = server.http(server.key(user="alice"))
    id = use(owner, "write_memory", input={"tag": "a", "content": "Dana lives in Lisbon."})["id"]
    reader = server.http(server.key(user="alice", rights=("read",)))
    assert len(use(reader, "recall_memory", input={"query": "Where does Dana live?"})["memories"]) == 1
    for name, given in (("write_memory", {"tag": "a", "content": "x"}), ("update_memory", {"id": id, "content": "x"})):
        assert reader.post(f"/v1/tools/{name}", json={"input": given}).status_code == 403, name
    writer = server.http(server.key(user="alice", rights=("write",)))
    refused = [writer.post("/v1/tools/recall_memory", json={}), writer.post("/v1/prompt", json={}), writer.get("/v1/tools")]
    assert {each.status_code for each in refused} == {403}
    other = server.http(server.key("bob"))
    assert use(other, "recall_memory", input={"query": "Where does Dana live?"})["memories"] == []
    assert "error" in use(other, "update_memory", input={"id": id, "content": "Dana lives in Porto."})
    assert "error" in use(other, "forget_memory", input={"id": id}, allow_forget=True)
    assert owner.get(f"/v1/memories/{id}").json()["content"] == "Dana lives in Lisbon."
