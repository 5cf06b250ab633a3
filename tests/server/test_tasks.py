"""Tasks and working memory over HTTP: a task goes on from one request to the next, and only for whom it belongs to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from keepstone import Memory
from tests.server.running import Running
from tests.server.test_values import ODD_NAMES, PROBLEM, as_json, path

FIELDS = {"task", "task_id", "goal", "subgoals", "results", "thoughts", "variables", "steps", "done", "step_ids", "lessons"}
EMPTY: dict[str, Any] = {
    "task": None, "task_id": None, "goal": None, "subgoals": [], "results": {}, "thoughts": [], "variables": {}, "steps": [],
    "done": 0, "step_ids": [], "lessons": [],
}  # fmt: skip


def start(http: httpx2.Client, **given: Any) -> dict[str, Any]:
    made = http.post("/v1/tasks", json={"task": "Mend the deployment of the billing service", **given})
    assert made.status_code == 201, made.text
    task: dict[str, Any] = made.json()
    return task


def test_a_task_goes_on_from_request_to_request(server: Running) -> None:
    http = server.http()
    task = start(http, goal="It answers again")
    assert task["session"] == f"task:{task['id']}"
    assert set(task["working"]) == FIELDS
    assert (task["working"]["task_id"], task["working"]["goal"], task["lessons"]) == (task["id"], "It answers again", [])
    for at in (1, 2):
        step = {"thought": f"look at log {at}", "action": "tail", "result": "no space left"}
        made = http.post(f"/v1/tasks/{task['id']}/steps", json=step).json()
        assert (made["receipt"]["action"], made["working"]["done"], len(made["working"]["step_ids"])) == ("added", at, at)
    assert made["working"]["thoughts"] == ["look at log 1", "look at log 2"]
    assert http.get(f"/v1/working/{path(task['session'])}").json() == made["working"]
    ended = http.post(f"/v1/tasks/{task['id']}/end", json={"success": False, "outcome": "The disk was full."}).json()
    assert (ended["receipt"]["action"], ended["working"]) == ("added", EMPTY)
    episode = http.get(f"/v1/memories/{ended['receipt']['id']}").json()
    assert (episode["kind"], episode["tag"], episode["metadata"]["steps"]) == ("episode", "failure", 2)
    assert "tail -> no space left" in episode["content"]
    assert [hit["id"] for hit in start(http)["lessons"]] == [episode["id"]]


def test_a_task_that_is_not_under_way_is_not_found(server: Running) -> None:
    http = server.http()
    task = start(http)
    http.post(f"/v1/tasks/{task['id']}/end", json={"success": True, "outcome": "Done."})
    step, end = {"thought": "on"}, {"success": True, "outcome": "Again."}
    for gone in (
        http.post(f"/v1/tasks/{task['id']}/steps", json=step),
        http.post(f"/v1/tasks/{task['id']}/end", json=end),
        http.post("/v1/tasks/none/steps", json=step),
        http.post("/v1/tasks/a%2Fb/end", json=end),
        http.post("/v1/tasks/none/steps", json={**step, "working": "none"}),
        http.get(f"/v1/working/{path(task['session'])}"),
    ):
        assert (gone.status_code, gone.headers["content-type"], gone.json()["error"]) == (404, PROBLEM, "NotFound")


def test_a_task_is_kept_under_the_name_that_is_given(server: Running) -> None:
    http = server.http()
    first = start(http, working="desk/one")
    second = start(http, working="desk/two")
    for task, name in ((first, "desk/one"), (second, "desk/two")):
        assert http.get(f"/v1/working/{path(name)}").json()["task_id"] == task["id"]
        assert http.get(f"/v1/working/{path(task['session'])}").status_code == 404
        made = http.post(f"/v1/tasks/{task['id']}/steps", json={"thought": "look", "working": name})
        assert made.json()["working"]["done"] == 1
    mistaken = http.post(f"/v1/tasks/{first['id']}/steps", json={"thought": "look", "working": "desk/two"})
    assert mistaken.status_code == 404
    assert http.get(f"/v1/working/{path('desk/two')}").json()["done"] == 1
    third = start(http, working="desk/two")  # puts the second aside
    assert http.post(f"/v1/tasks/{second['id']}/steps", json={"thought": "x", "working": "desk/two"}).status_code == 404
    assert http.get(f"/v1/working/{path('desk/two')}").json()["task_id"] == third["id"]
    http.post(f"/v1/tasks/{third['id']}/end", json={"success": True, "outcome": "Done.", "working": "desk/two"})
    assert http.get(f"/v1/working/{path('desk/two')}").status_code == 404


def test_steps_that_come_at_once_are_all_counted(server: Running) -> None:
    http = server.http()
    task = start(http)

    def step(at: int) -> int:
        return http.post(f"/v1/tasks/{task['id']}/steps", json={"thought": f"thought {at}"}).status_code

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(step, range(12))) == {200}
    working = http.get(f"/v1/working/{path(task['session'])}").json()
    assert (working["done"], len(set(working["step_ids"]))) == (12, 12)
    assert sorted(working["thoughts"]) == sorted(f"thought {at}" for at in range(12))


def test_working_memory_is_put_read_and_dropped(server: Running) -> None:
    http = server.http()
    held = {
        **EMPTY, "task": "Write", "goal": "A page", "subgoals": ["outline"], "results": {"a b": [1, None, {"x": "ü"}]},
        "variables": {"n": 1.5, "flag": True}, "thoughts": ["hm"], "steps": ["began"], "done": 1, "lessons": ["m_1"],
    }  # fmt: skip
    for name in [*ODD_NAMES, "default"]:
        where = f"/v1/working/{path(name)}"
        assert http.get(where).status_code == http.delete(where).status_code == 404, name
        made = http.put(where, json={**held, "goal": name})
        assert (made.status_code, made.json()) == (200, {**held, "goal": name})
    for name in [*ODD_NAMES, "default"]:
        where = f"/v1/working/{path(name)}"
        assert http.get(where).json() == {**held, "goal": name}
        assert http.delete(where).json() == {"dropped": True}
        assert http.get(where).status_code == 404
    assert http.put("/v1/working/bare", json={}).json() == http.get("/v1/working/bare").json() == EMPTY


def test_a_document_from_outside_can_carry_a_task_on(server: Running) -> None:
    http = server.http()
    task = start(http)
    http.post(f"/v1/tasks/{task['id']}/steps", json={"thought": "look"})
    taken = http.put("/v1/working/elsewhere", json={**task["working"], "variables": {"host": "db1"}})
    assert taken.json()["done"] == 0
    here = http.get("/v1/working/elsewhere").json()
    assert (here["done"], here["steps"], here["variables"]) == (1, ["look"], {"host": "db1"})  # the step on disk is in it
    end = {"success": True, "outcome": "Done.", "working": "elsewhere"}
    assert http.post(f"/v1/tasks/{task['id']}/end", json=end).status_code == 200
    assert http.get(f"/v1/working/{path(task['session'])}").status_code == 404  # it was ended, wherever it is kept


BAD_DOCUMENTS: dict[str, Any] = {
    "list": [],
    "unknown": {"more": 1},
    "task": {"task": 5},
    "empty task": {"task": " "},
    "task_id alone": {"task_id": "x"},
    "task_id": {"task": "t", "task_id": "a\nb"},
    "long task_id": {"task": "t", "task_id": "x" * 300},
    "goal": {"goal": ["x"]},
    "subgoals": {"subgoals": "x"},
    "steps": {"steps": [1]},
    "many steps": {"steps": ["x"] * 401},
    "many thoughts": {"thoughts": ["x"] * 101},
    "many ids": {"step_ids": ["x"] * 401},
    "results": {"results": []},
    "a result's name": {"results": {"": 1}},
    "a variable's name": {"variables": {"a\nb": 1}},
    "done": {"done": "1"},
    "negative": {"done": -1},
    "truth": {"done": True},
    "real": {"done": 1.5},
    "more steps than there are": {"done": 4111111111111111},
    "null": {"results": None},
    "nul": {"thoughts": ["\0"]},
    "half a pair": {"thoughts": ["\ud800"]},
    "half a pair in a value": {"variables": {"x": ["\ud800"]}},
    "half a pair in a name": {"variables": {"\ud800": 1}},
}


def test_a_document_that_cannot_be_in_hand_is_refused(server: Running) -> None:
    http = server.http()
    http.put("/v1/working/desk", json={"task": "Write"})
    for name, body in BAD_DOCUMENTS.items():
        refused = http.put("/v1/working/desk", **as_json(body))
        assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM), name
    assert http.get("/v1/working/desk").json() == {**EMPTY, "task": "Write"}
    large = http.put("/v1/working/desk", json={"results": {str(at): "x" * 1000 for at in range(1100)}})
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    assert (large.status_code, http.put("/v1/working/desk", json={"results": {"deep": deep}}).status_code) == (413, 413)
    for name in ("", "%00", "%20", "x" * 257):
        asked = [http.get(f"/v1/working/{name}"), http.put(f"/v1/working/{name}", json={}), http.delete(f"/v1/working/{name}")]
        assert {each.status_code for each in asked} == {422}, name


def test_what_cannot_be_taken_is_said(server: Running) -> None:
    http = server.http()
    for body in ({}, {"task": ""}, {"task": 5}, {"task": "t", "goal": 5}, {"task": "t", "working": ""}, {"task": "t", "x": 1},
                 {"task": "t", "working": "a\nb"}, {"task": "x" * 60_001}, {"task": "\0"}, {"task": "\ud800"}):  # fmt: skip
        refused = http.post("/v1/tasks", **as_json(body))
        assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM), body
    id = start(http)["id"]
    for body in ({}, {"thought": ""}, {"thought": 5}, {"thought": "x", "action": None}, {"thought": "x", "working": ""}, []):
        assert http.post(f"/v1/tasks/{id}/steps", json=body).status_code == 422, body
    for body in ({}, {"success": 1, "outcome": "x"}, {"success": True, "outcome": " "}, {"success": True}):
        assert http.post(f"/v1/tasks/{id}/end", json=body).status_code == 422, body
    assert http.get(f"/v1/working/{path(f'task:{id}')}").json()["done"] == 0


def test_rights_and_owners(server: Running) -> None:
    owner = server.http(server.key(user="alice"))
    task = start(owner, working="desk")
    reader = server.http(server.key(user="alice", rights=("read",)))
    refused = [
        reader.post("/v1/tasks", json={"task": "t"}),
        reader.post(f"/v1/tasks/{task['id']}/steps", json={"thought": "x", "working": "desk"}),
        reader.post(f"/v1/tasks/{task['id']}/end", json={"success": True, "outcome": "x", "working": "desk"}),
        reader.put("/v1/working/desk", json={}),
        reader.delete("/v1/working/desk"),
        server.http(server.key(user="alice", rights=("write",))).get("/v1/working/desk"),
    ]
    assert {(each.status_code, each.json()["error"]) for each in refused} == {(403, "Forbidden")}
    assert reader.get("/v1/working/desk").json()["task_id"] == task["id"]
    other = server.http(server.key("bob"))
    unseen = [
        other.get("/v1/working/desk"),
        other.delete("/v1/working/desk"),
        other.post(f"/v1/tasks/{task['id']}/steps", json={"thought": "x", "working": "desk"}),
        other.post(f"/v1/tasks/{task['id']}/end", json={"success": True, "outcome": "x", "working": "desk"}),
    ]
    assert {each.status_code for each in unseen} == {404}
    other.put("/v1/working/desk", json=task["working"])  # a task of the same name, and nothing of the other's
    other.post(f"/v1/tasks/{task['id']}/end", json={"success": False, "outcome": "Taken over.", "working": "desk"})
    assert owner.get("/v1/working/desk").json() == task["working"]


def test_what_is_in_hand_is_what_the_library_has(server: Running) -> None:
    memory: Memory = server.memory.with_scope(user="alice")
    task = start(server.http(), working="desk")
    assert memory.working.restore("desk")
    assert memory.working.document() == task["working"]
    memory.tasks.record("from the library")
    memory.working.load(memory.working.document() | {"goal": "Both"})
    memory.working.save("desk")
    found = server.http().get("/v1/working/desk").json()
    assert (found["goal"], found["done"], found["thoughts"]) == ("Both", 1, ["from the library"])
    memory.working.set("odd", "half a pair: \ud800")
    memory.working.save("desk")
    assert server.http().get("/v1/working/desk").json()["variables"] == {"odd": "half a pair: ?"}
