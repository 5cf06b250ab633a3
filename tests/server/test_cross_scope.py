"""One scope never reaches another, route by route: a request for a record of another scope gets exactly the response of a request
for a record that does not exist; it changes nothing there; and where an id was requested, the caller has an entry in
their trail. Over MCP the same is told in test_mcp_scopes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from keepstone.types import FOREIGN_REQUESTS
from tests.server.scopes import ABSENT, ASKERS, MARK, World, asker, shown, world

DENIED = {"get", "history", "update", "forget_one", "forget id", "why", "call_tool update", "call_tool forget"}
Case = tuple[str, str, str, Any]  # the thing, the method, the path, the body; {} is where the thing stands


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("cross") / "memory.db") as made:
        yield made


SAID = [{"role": "user", "content": "Mine."}]
CASES: dict[str, Case] = {  # by operation; a word after it tells two cases of one apart
    "get": ("id", "GET", "/v1/memories/{}", None),
    "history": ("id", "GET", "/v1/memories/{}/history", None),
    "update": ("id", "PATCH", "/v1/memories/{}", {"content": "Mine now."}),
    "update importance": ("id", "PATCH", "/v1/memories/{}", {"importance": 1.0}),
    "update version": ("id", "PATCH", "/v1/memories/{}", {"content": "Mine now.", "expected_version": 99}),
    "forget_one": ("id", "DELETE", "/v1/memories/{}", None),
    "why": ("id", "POST", "/v1/memories/{}/why", {"query": "drawer"}),
    "feedback": ("id", "POST", "/v1/memories/{}/feedback", {"helped": True}),
    "promote": ("id", "POST", "/v1/memories/{}/promote", {"to": {"agent": "other"}}),
    "demote": ("id", "POST", "/v1/memories/{}/demote", {"to": {"agent": "other"}}),
    "add_cost": ("session", "POST", "/v1/costs", {"session": "{}", "injected": 5}),
    "forget id": ("id", "POST", "/v1/forget", {"id": "{}"}),
    "forget key": ("key", "POST", "/v1/forget", {"key": "{}"}),
    "forget source": ("source", "POST", "/v1/forget", {"source": "{}"}),
    "forget session": ("session", "POST", "/v1/forget", {"session": "{}"}),
    "set": ("key", "PUT", "/v1/values/{}", {"value": "mine"}),
    "value": ("key", "GET", "/v1/values/{}", None),
    "values": ("category", "GET", "/v1/values?tag={}", None),
    "list": ("category", "GET", "/v1/memories?tag={}", None),
    "recall session": ("session", "POST", "/v1/recall", {"query": "drawer", "session": "{}", "min_similarity": 0}),
    "recall tag": ("category", "POST", "/v1/recall", {"query": "drawer", "tag": "{}", "min_similarity": 0}),
    "add_messages": ("session", "POST", "/v1/conversations/{}/messages", {"messages": SAID}),
    "ingest": ("session", "POST", "/v1/ingest", {"session": "{}", "messages": SAID}),
    "messages": ("session", "GET", "/v1/conversations/{}/messages", None),
    "window": ("session", "GET", "/v1/conversations/{}/window", None),
    "search": ("session", "GET", "/v1/conversations/{}/search?words=call", None),
    "consolidate": ("session", "POST", "/v1/conversations/{}/consolidate", None),
    "export_conversation": ("session", "GET", "/v1/conversations/{}/export", None),
    "import_conversation": ("session", "POST", "/v1/conversations/{}/import", {"keepstone": 1, "messages": SAID}),
    "conversation": ("session", "GET", "/v1/conversations/{}", None),
    "clear": ("session", "DELETE", "/v1/conversations/{}", None),
    "record_step": ("task", "POST", "/v1/tasks/{}/steps", {"thought": "Mine."}),
    "end_task": ("task", "POST", "/v1/tasks/{}/end", {"success": True, "outcome": "Mine."}),
    "working": ("working", "GET", "/v1/working/{}", None),
    "save_working": ("working", "PUT", "/v1/working/{}", {"goal": "Mine."}),
    "drop_working": ("working", "DELETE", "/v1/working/{}", None),
    "context working": ("working", "POST", "/v1/context", {"query": "drawer", "working": "{}"}),
    "system_prompt working": ("working", "POST", "/v1/prompt", {"query": "drawer", "working": "{}"}),
    "agent_prompt session": ("session", "POST", "/v1/agent/prompt", {"text": "drawer", "session": "{}", "name": "buffer"}),
    "agent_prompt until": ("id", "POST", "/v1/agent/prompt", {"text": "drawer", "session": "s", "until": "{}"}),
    "agent_prompt key": ("key", "POST", "/v1/agent/prompt", {"text": "drawer", "boot": ["{}"]}),
    "agent_prompt working": ("working", "POST", "/v1/agent/prompt", {"text": "drawer", "working": "{}"}),
    "call_tool update": ("id", "POST", "/v1/tools/update_memory", {"input": {"id": "{}", "content": "Mine now."}}),
    "call_tool forget": ("id", "POST", "/v1/tools/forget_memory", {"input": {"id": "{}"}, "allow_forget": True}),
    "call_tool recall": ("category", "POST", "/v1/tools/recall_memory", {"input": {"tag": "{}"}}),
    "review_resolve": ("review", "POST", "/v1/review/{}", {"decision": "keep"}),
    "jobs_drop": ("job", "DELETE", "/v1/jobs/{}", None),
    "jobs_retry": ("job", "POST", "/v1/jobs/retry", {"number": "{}"}),
    "sync_apply": ("id", "POST", "/v1/sync", {"records": [], "forgotten": ["{}"]}),
    "upkeep_undo": ("ticket", "POST", "/v1/upkeep/undo", {"ticket": "{}"}),
    "review_resolve_many": ("review", "POST", "/v1/review", {"numbers": ["{}"], "decision": "keep"}),
    "upkeep_archive": ("id", "POST", "/v1/upkeep/archive", {"ids": ["{}"]}),
    "upkeep_restore": ("id", "POST", "/v1/upkeep/restore", {"ids": ["{}"]}),
}


def asked(http: httpx2.Client, case: Case, thing: str) -> httpx2.Response:
    _, method, path, body = case
    return http.request(method, path.replace("{}", quote(thing, safe="")), json=filled(body, thing))


def filled(body: Any, thing: str) -> Any:
    """A body with a thing where it belongs; numbers as numbers."""
    if body == "{}":
        return int(thing) if thing.isdecimal() else thing
    if isinstance(body, dict):
        return {name: filled(value, thing) for name, value in body.items()}
    return [filled(each, thing) for each in body] if isinstance(body, list) else body


@pytest.mark.parametrize("who", ASKERS)
@pytest.mark.parametrize("name", CASES)
def test_what_is_anothers_is_answered_like_what_nobody_has(there: World, name: str, who: str) -> None:
    case, before = CASES[name], there.snapshot()
    thing, absent = there.things[case[0]], ABSENT[case[0]]
    http, memory = asker(there, who)
    of_nobody = shown(asked(http, case, absent), absent)
    assert {row.action for row in memory.audit() if row.id == absent} == set()
    of_hers = shown(asked(http, case, thing), thing)
    assert of_hers == of_nobody
    assert MARK not in of_hers.replace(there.ada.scope.user, "")
    assert int(of_hers[:3]) < 500
    assert there.snapshot() == before, "nothing of hers has changed, her trail neither"
    if name in DENIED and not of_hers.startswith("403"):
        requests = there.ada.with_scope(tenant=FOREIGN_REQUESTS.tenant, agent=FOREIGN_REQUESTS.agent, user="")
        assert (thing, "denied") in [(row.id, row.action) for row in requests.audit(limit=1000)], "the operator finds it"
    assert {row.id for row in memory.audit()} & {thing} == set(), "who asked does not, as for an absent one"
    assert MARK not in repr([row.reasons for row in memory.audit()]).replace(there.ada.scope.user, "")


@pytest.mark.parametrize("who", [name for name, given in ASKERS.items() if given["tenant"] != "harbour"])
def test_keys_of_another_tenant_are_not_there(there: World, who: str) -> None:
    before, http = there.snapshot(), asker(there, who)[0]
    thing, absent = there.things["api key"], ABSENT["api key"]
    assert shown(http.delete(f"/v1/keys/{thing}"), thing) == shown(http.delete(f"/v1/keys/{absent}"), absent)
    assert http.delete(f"/v1/keys/{thing}").status_code == 404
    assert there.snapshot() == before


BY_NUMBER = {"keys_revoke": "test_keys_of_another_tenant_are_not_there"}


def test_no_route_with_something_in_its_address_is_left_out(there: World) -> None:
    document = httpx2.get(f"{there.server.url}/openapi.json", timeout=60).json()
    takes = {
        operation["operationId"] for path, methods in document["paths"].items() for operation in methods.values() if "{" in path
    }
    assert len(takes) > 20
    assert takes - {name.partition(" ")[0] for name in CASES} - BY_NUMBER.keys() == set(), "a new route needs a case here"


NAMING = ("id", "ids", "key", "session", "number", "ticket", "working", "cursor", "source")
HELD_ELSEWHERE = {  # what names something in its body or query, and where it is held against another scope
    "remember": "a key, a session, a source and an idempotency key are one's own: below, and test_bad_writes",
    "remember_many": "the same",
    "learn": "the same",
    "start_task": "the name of a working memory is one's own: save_working",
    "list": "cursors: below",
    "sync_changes": "its cursor is sealed with the scope: surfaces/test_sync.py",
    "import": "its source is whose word it is",
}


def test_no_body_and_no_query_that_names_something_is_left_out(there: World) -> None:
    document = httpx2.get(f"{there.server.url}/openapi.json", timeout=60).json()
    schemas, naming = document["components"]["schemas"], set()
    for methods in document["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            refs = [content, *content.get("anyOf", [])]
            names = {
                name for ref in refs for name in schemas.get(ref.get("$ref", "").rpartition("/")[2], {}).get("properties", {})
            }
            names |= {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
            if names & set(NAMING):
                naming.add(operation["operationId"])
    assert naming - {name.partition(" ")[0] for name in CASES} - HELD_ELSEWHERE.keys() == set()


# -- cursors --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("who", ASKERS)
def test_a_cursor_of_anothers_list_leads_nowhere(there: World, who: str) -> None:
    http, memory = asker(there, who)
    memory.remember("Mine.")
    for query in ({"limit": 2}, {"limit": 2, "tag": there.things["category"]}):
        answer = http.get("/v1/memories", params={**query, "cursor": there.cursor})
        assert (answer.status_code, answer.json()["error"]) == (422, "ValidationError")
        assert MARK not in answer.text
    session = there.things["session"]
    page = there.server.engine.store.message_log.page(there.ada.scope, session, limit=3, oldest=True)
    for number in (page[0][0], page[-1][0]):
        told = http.get(f"/v1/conversations/{session}/messages", params={"cursor": str(number)})
        assert (told.status_code, told.json()["error"]) == (422, "ValidationError")


# -- owners that are named ------------------------------------------------------------------------------------------------
NAMES = ["user", "user_id", "tenant", "tenant_id", "agent", "scope", "owner", "namespace"]


@pytest.mark.parametrize("name", NAMES)
def test_an_owner_in_a_body_a_query_or_metadata_changes_nothing(there: World, name: str) -> None:
    http, memory = asker(there, "another user of the tenant")
    before, value = there.snapshot(), there.ada.scope.user if "user" in name else "harbour"
    assert http.post("/v1/memories", json={"content": "Mine.", name: value}).status_code == 422
    assert http.post("/v1/recall", json={"query": "drawer", name: value}).status_code == 422
    assert http.get("/v1/memories", params={name: value}).status_code == 422
    assert http.get("/v1/stats", params={name: value}).status_code == 422
    assert http.get("/v1/export", params={name: value}).status_code == 422
    assert http.get("/v1/memories", headers={f"x-{name.replace('_', '-')}": value, name: value}).json()["records"] == []
    made = http.post("/v1/memories", json={"content": "Mine, I said.", "metadata": {name: value, "scope": {name: value}}}).json()
    assert [record.id for record in memory.list()] == [made["id"]]
    told = http.post("/v1/tools/recall_memory", json={"input": {"query": f"{MARK} drawer", name: value}}).json()
    assert [each["id"] for each in told["memories"]] in ([], [made["id"]])
    assert there.snapshot() == before


@pytest.mark.parametrize("who", [name for name, given in ASKERS.items() if not given.get("service")])
def test_only_a_service_names_its_user_and_nobody_a_tenant(there: World, who: str) -> None:
    http, memory = asker(there, who)
    before, scope = there.snapshot(), http.get("/v1/me").json()["scope"]
    for headers in ({"x-keepstone-user": f"{scope['user']}x"}, {"x-keepstone-user": "*"}, {"x-keepstone-user": "%"}):
        answer = http.get("/v1/memories", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
    assert memory.audit()[0].action == "denied"
    for empty in ("", "\u200b"):
        assert http.get("/v1/memories", headers={"x-keepstone-user": empty.encode()}).status_code == 422
    assert http.get("/v1/me", headers={"x-keepstone-tenant": "harbour"}).json()["scope"] == scope
    assert there.snapshot() == before


TRICKS: list[Any] = [
    {"user": there_is} for there_is in (None, [], "*", "", {"ne": "x"}, {"in": ["a", "b"]}, {"or": [{}]})
] + [{"or": [{"a": 1}, {}]}, {"OR": "1=1"}, {"": 1}, {"scope": {"ne": ""}}, {"tenant": None}, {"$where": "1"},
     {f"m-{MARK}": MARK}]  # fmt: skip


@pytest.mark.parametrize(
    "who", ["another user of the tenant", "another agent's key of the same user", "a service that names nobody"]
)
@pytest.mark.parametrize("trick", TRICKS, ids=repr)
def test_no_filter_opens_another_scope(there: World, trick: dict[str, Any], who: str) -> None:
    http, memory = asker(there, who)
    memory.remember("Mine, and in a drawer.", metadata={"a": 1})
    for answer in (
        http.post("/v1/recall", json={"query": f"{MARK} drawer", "filter": trick, "min_similarity": 0}),
        http.get("/v1/memories", params={"filter": json.dumps(trick)}),
    ):
        assert answer.status_code in (200, 422)
        if answer.status_code == 200:
            found = [each.get("record", each)["scope"] for each in answer.json().get("hits", answer.json().get("records", []))]
            assert all(scope == http.get("/v1/me").json()["scope"] for scope in found)


# -- everything -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("who", ASKERS)
def test_everything_is_ones_own_alone(there: World, who: str) -> None:
    http, memory = asker(there, who)
    before = there.snapshot()
    memory.remember("Mine.")
    for none in (
        {},
        {"everything": False},
        {"id": None},
        {"key": ""},
        {"source": ""},
        {"session": ""},
        {"everything": True, "id": "x"},
    ):
        assert http.post("/v1/forget", json=none).status_code in ((403, 422) if "plain agent" in who else (422,))
    assert len(memory.list()) == 1
    gone = http.post("/v1/forget", json={"everything": True})
    assert gone.status_code == 403 if "plain agent" in who else gone.json()["forgotten"] == 1
    for path in ("purge", "age", "lapse", "consolidate", "compact", "verify", "fix"):
        http.post(f"/v1/upkeep/{path}", json={"older_than": 0.001} if path in ("age", "consolidate", "compact") else {})
    http.post("/v1/upkeep/cap", json={"most": 0})
    http.post("/v1/upkeep/purge", json={"after": 0.001})
    http.post("/v1/jobs/retry")
    assert there.snapshot() == before
