"""mem0's paths, by plain HTTP: whose memory it is that a key reaches, and what is erased of whom."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.mem0_support import ABSENT, Mem0, dana_, scope_of, shared_, shop_, told  # noqa: F401  (fixtures)
from tests.server.running import Running


# -- whose memory it is --------------------------------------------------------------------------------------------------
def test_a_service_acts_for_the_user_that_is_named(shop: Mem0) -> None:
    (made,) = shop.add("I like pizza", user_id="dana")
    (other,) = shop.add("I like tea", filters={"user_id": "erik"})
    (nobody,) = shop.add("The shop opens at nine")
    assert (made["user_id"], other["user_id"], nobody["user_id"]) == ("dana", "erik", None)
    for name, memory in (("dana", "The user likes pizza."), ("erik", "The user likes tea.")):
        assert shop.all(filters={"user_id": name}) == [memory]
        (hit,) = shop.search("likes", filters={"user_id": name}, threshold=0)
        assert hit["user_id"] == name
    assert shop.all() == [nobody["memory"]], "without a name it is the memory of no user"
    assert sorted(shop.all(filters={"OR": [{"user_id": "dana"}, {"user_id": "erik"}]})) == [made["memory"], other["memory"]]
    assert sorted(shop.all(filters={"user_id": "*"})) == [made["memory"], other["memory"]]
    assert shop.ask("GET", f"/v1/memories/{other['id']}/").json()["user_id"] == "erik", "an id is enough"
    assert shop.ask("PUT", f"/v1/memories/{other['id']}/", {"text": "Tea it is."}).json()["user_id"] == "erik"


def test_agents_of_a_user_are_read_together_and_told_apart(shop: Mem0) -> None:
    shop.add("The pier is made of oak", user_id="dana")
    shop.add("The ferry leaves at noon", user_id="dana", agent_id="coach")
    both = ["The ferry leaves at noon", "The pier is made of oak"]
    assert shop.all(filters={"user_id": "dana"}) == both
    assert shop.all(filters={"AND": [{"user_id": "dana"}, {"agent_id": "coach"}]}) == both[:1]
    assert shop.all(filters={"AND": [{"user_id": "dana"}, {"NOT": [{"agent_id": "coach"}]}]}) == both[1:]
    assert shop.all(filters={"user_id": "dana", "agent_id": "*"}) == both[:1]
    assert shop.all(filters={"user_id": "dana", "agent_id": "default"}) == both[1:]
    assert {hit["memory"] for hit in shop.search("ferry pier", filters={"user_id": "dana"}, threshold=0)} == set(both)


@pytest.mark.parametrize(
    "body",
    [
        {"user_id": "NAME"},
        {"filters": {"user_id": "NAME"}},
        {"filters": {"OR": [{"user_id": {"in": ["NAME"]}}, {"run_id": "r"}]}},
    ],
    ids=["beside", "filters", "within"],
)
def test_a_users_key_is_its_users_alone(shared: Running, dana: Mem0, body: dict[str, Any]) -> None:
    erik = Mem0(shared, shared.key("erik-of-mem0"))
    erik.add("Erik keeps zqxjkv in a drawer")
    said = []
    for name in ("erik-of-mem0", "nobody-at-all"):
        named = json.loads(json.dumps(body).replace("NAME", name))
        for path, more in (
            ("search/", {"query": "drawer"}),
            ("", {}),
            ("add/", {"messages": [{"role": "user", "content": "x"}]}),
        ):
            answer = dana.ask("POST", f"/v3/memories/{path}", named | more)
            if path == "add/" and "OR" in json.dumps(named):
                told(answer, 400)
                continue
            said.append((path, told(answer, 403)))
    assert len(set(said)) * 2 == len(said), "who is there and who is not is told in the same words"
    own = scope_of(shared, dana)
    rows = shared.engine.store.audit(own, limit=100)
    assert [row for row in rows if row.action == "denied"], "and it is in the trail"


def test_an_id_of_somebody_else_is_nobodys(shared: Running, dana: Mem0, shop: Mem0) -> None:
    (made,) = Mem0(shared, shared.key("ada-of-mem0")).add("Ada keeps zqxjkv in a drawer")
    for asker in (dana, shop):
        for method, path, body in (
            ("GET", "/v1/memories/{}/", None), ("GET", "/v1/memories/{}/history/", None), ("DELETE", "/v1/memories/{}/", None),
            ("PUT", "/v1/memories/{}/", {"text": "Mine."}),
            ("PUT", "/v1/batch/", {"memories": [{"memory_id": "{}", "text": "x"}]}),
            ("DELETE", "/v1/batch/", {"memories": [{"memory_id": "{}"}]}),
        ):  # fmt: skip
            theirs, none = (
                told(asker.ask(method, path.format(id), json.loads(json.dumps(body).replace("{}", id))), 404).replace(id, "ID")
                for id in (made["id"], ABSENT)
            )
            assert theirs == none
    assert shared.memory.with_scope(user="ada-of-mem0").get(made["id"]) is not None


def test_a_header_holds_a_service_to_one_user(shared: Running, shop: Mem0) -> None:
    shop.add("I like tea", user_id="erik")
    held = Mem0(shared, shop.http.headers["authorization"].removeprefix("Token "), **{"x-keepstone-user": "dana"})
    assert held.add("I like pizza")[0]["user_id"] == "dana"
    told(held.ask("POST", "/v3/memories/", {"filters": {"user_id": "erik"}}), 403)
    assert held.all(filters={"user_id": "*"}) == ["The user likes pizza."]


def test_an_agents_key_is_its_agents_alone(shared: Running) -> None:
    mine = Mem0(shared, shared.key("olga-of-mem0"))
    scout = Mem0(shared, shared.key("scout", user="olga-of-mem0", agent="scout"))
    mine.add("The pier is made of oak")
    (made,) = scout.add("I like pizza", agent_id="scout")
    assert (made["memory"], made["kind"]) == ("I like pizza", "message"), (
        "its words are not the user's: no fact is learned from them"
    )
    assert scout.all() == ["I like pizza"]
    assert mine.all() == ["I like pizza", "The pier is made of oak"], "the user's own key sees all agents"
    told(scout.ask("POST", "/v3/memories/", {"agent_id": "coach"}), 403)
    told(scout.ask("DELETE", "/v1/memories/", user_id="olga-of-mem0"), 403)
    assert len(mine.all()) == 2


# -- erasing -------------------------------------------------------------------------------------------------------------
UNSAID: dict[str, dict[str, str]] = {
    "nobody": {},
    "nobody by name": {"user_id": ""},
    "everybody": {"user_id": "*"},
    "everybody in filters": {"filters": "{'user_id': '*'}"},
    "empty filters": {"filters": "{}"},
    "filters that are no names": {"filters": "{'OR': [{'user_id': 'dana'}]}"},
    "filters that cannot be read": {"filters": "{'user_id': __import__('os')}"},
    "deep filters": {"filters": "[" * 3000},
    "long filters": {"filters": '{"user_id": "' + "x" * 5000 + '"}'},
    "less than all": {"user_id": "dana", "categories": "food"},
    "two in one": {"user_id": "dana", "filters": "{'user_id': 'erik'}"},
}


@pytest.mark.parametrize("case", UNSAID)
def test_an_erasure_that_does_not_say_of_whom_is_refused(shop: Mem0, case: str) -> None:
    shop.add("I like pizza", user_id="dana")
    told(shop.ask("DELETE", "/v1/memories/", None, **UNSAID[case]), 400)
    assert shop.all(filters={"user_id": "dana"}) == ["The user likes pizza."]


def test_all_that_is_somebodys_is_erased(shop: Mem0) -> None:
    def fill() -> None:
        shop.add("The pier is made of oak", user_id="dana", run_id="r1")
        shop.add("The ferry leaves at noon", user_id="dana", agent_id="coach", app_id="ios")
        shop.add("I like tea", user_id="erik", run_id="r1")

    fill()
    shop.ask("DELETE", "/v1/memories/", user_id="dana", run_id="r1")
    assert shop.all(filters={"user_id": "dana"}) == ["The ferry leaves at noon"]
    shop.ask("DELETE", "/v1/memories/", user_id="dana", app_id="android")
    assert shop.all(filters={"user_id": "dana"}) == ["The ferry leaves at noon"]
    assert shop.ask("DELETE", "/v1/memories/", filters="{'user_id': 'dana', 'app_id': 'ios'}").json()["deleted"] == 1
    assert shop.all(filters={"user_id": "dana"}) == []
    fill()
    shop.ask("DELETE", "/v1/memories/", user_id="dana", agent_id="coach")
    assert shop.all(filters={"user_id": "dana"}) == ["The pier is made of oak"]
    fill()
    shop.ask("DELETE", "/v1/memories/", user_id="dana")
    assert shop.all(filters={"user_id": "dana"}) == []
    assert shop.all(filters={"user_id": "erik"}) == ["The user likes tea."]


def test_entities(shop: Mem0) -> None:
    shop.add("The pier is made of oak", user_id="dana", run_id="r1")
    shop.add("The ferry leaves at noon", user_id="erik", agent_id="coach")
    found = shop.ask("GET", "/v1/entities/").json()
    assert [(each["type"], each["name"], each["total_memories"]) for each in found["results"]] == [
        ("user", "dana", 1), ("user", "erik", 1), ("agent", "coach", 1), ("run", "r1", 1),
    ]  # fmt: skip
    for each in found["results"]:
        assert shop.ask("DELETE", f"/v2/entities/{each['type']}/{each['name']}/").status_code == 200, "also what went before"
    assert shop.ask("GET", "/v1/entities/").json()["count"] == 0
    told(shop.ask("DELETE", "/v2/entities/agent/default/"), 400)
    told(shop.ask("DELETE", "/v2/entities/planet/earth/"), 400)


def test_a_user_sees_itself_among_the_entities(shared: Running, dana: Mem0) -> None:
    Mem0(shared, shared.key("vera-of-mem0")).add("I like tea")
    dana.add("I like pizza")
    (only,) = dana.ask("GET", "/v1/entities/").json()["results"]
    assert (only["type"], only["name"]) == ("user", scope_of(shared, dana).user)
    told(dana.ask("DELETE", "/v2/entities/user/vera-of-mem0/"), 403)
    told(dana.ask("DELETE", "/v2/entities/user/nobody-at-all/"), 403)


def test_batches_are_checked_before_anything_is_done(dana: Mem0) -> None:
    (first,), (second,) = dana.add("The pier is made of oak"), dana.add("The ferry leaves at noon")
    rows = [{"memory_id": first["id"], "text": "The pier is made of elm"}, {"memory_id": ABSENT, "text": "x"}]
    told(dana.ask("PUT", "/v1/batch/", {"memories": rows}), 404)
    told(dana.ask("DELETE", "/v1/batch/", {"memories": rows}), 404)
    assert dana.all() == ["The ferry leaves at noon", "The pier is made of oak"]
    rows[1]["memory_id"] = second["id"]
    assert dana.ask("PUT", "/v1/batch/", {"memories": rows}).json() == {"message": "Successfully updated 2 memories"}
    assert dana.all() == ["x", "The pier is made of elm"]
    assert dana.ask("DELETE", "/v1/batch/", {"memories": [*rows, rows[0]]}).json() == {
        "message": "Successfully deleted 2 memories"
    }
    assert dana.all() == []


@pytest.mark.parametrize("kind", ["user", "agent", "app", "run"])
@pytest.mark.parametrize("name", ["%2A", "%20%2A%20", "%20"])
def test_nobody_in_particular_is_no_entity_to_erase(shop: Mem0, kind: str, name: str) -> None:
    shop.add("The pier is made of oak", user_id="dana")
    shop.add("The ferry leaves at noon", user_id="erik", agent_id="coach", run_id="r1", app_id="ios")
    told(shop.ask("DELETE", f"/v2/entities/{kind}/{name}/"), 400)
    assert len(shop.all(filters={"user_id": "*"})) == 2, "one request erases only the user it names"


def test_the_run_of_what_has_no_run_cannot_be_named(dana: Mem0) -> None:
    dana.add("The pier is made of oak")
    for method, path, body in (
        ("DELETE", "/v1/memories/?run_id=mem0", None),
        ("DELETE", "/v2/entities/run/mem0/", None),
        ("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": "x"}], "run_id": "mem0"}),
    ):
        assert "name another run" in told(dana.ask(method, path, body), 400)
    assert dana.all() == ["The pier is made of oak"]


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"text": " "}, 400),
        ({"text": "x" * (8 * 1024 * 1024 + 1)}, 413),
        ({"text": "a\0b"}, 400),
        ({"metadata": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}}, 413),
        ({"text": "x", "timestamp": "soon"}, 400),
    ],
    ids=["empty", "long", "NUL", "deep", "time"],
)
def test_a_batch_with_something_that_cannot_be_written_changes_nothing(dana: Mem0, wrong: dict[str, Any], status: int) -> None:
    (first,), (second,) = dana.add("The pier is made of oak"), dana.add("The ferry leaves at noon")
    rows = [{"memory_id": first["id"], "text": "The pier is made of elm"}, {"memory_id": second["id"], **wrong}]
    told(dana.ask("PUT", "/v1/batch/", {"memories": rows}), status)
    assert dana.all() == ["The ferry leaves at noon", "The pier is made of oak"]
