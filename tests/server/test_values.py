"""set and value over HTTP: every JSON value comes back as it was, null among them, and only to whom it belongs."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.server.running import Running

PROBLEM = "application/problem+json"
ODD_NAMES = ["a/b", "a/../b", "..", ".", "x?y#z", "100%", "%2F", "héllo wörld", "名前", "a//b", "a+b&c=d", "back\\slash"]


def path(name: str) -> str:
    """A name as it stands in an address: nothing in it can be taken for a part of the path."""
    return quote(name, safe="").replace(".", "%2E")


def as_json(body: Any) -> dict[str, Any]:
    """What a request takes to send a body whose text no client of good manners would encode."""
    return {"content": json.dumps(body), "headers": {"content-type": "application/json"}}


def test_any_json_value_comes_back(server: Running) -> None:
    http = server.http()
    values = [None, "dark", "", "null", 0, -0.5, True, False, [], {}, [1, "two", None], {"a": {"b": [1.5, "ü"]}}]
    for at, value in enumerate(values):
        made = http.put(f"/v1/values/{at}", json={"value": value})
        assert (made.status_code, made.json()["action"]) == (201, "added"), value
        assert made.headers["location"] == f"/v1/memories/{made.json()['id']}"
        found = http.get(f"/v1/values/{at}")
        assert (found.status_code, found.json()) == (200, {"key": str(at), "value": value})


def test_a_new_value_replaces_the_old_one_and_keeps_it_in_the_history(server: Running) -> None:
    http = server.http()
    id = http.put("/v1/values/theme", json={"value": "dark"}).json()["id"]
    again = http.put("/v1/values/theme", json={"value": None})
    assert (again.status_code, again.json()["version"]) == (200, 2)
    assert http.get("/v1/values/theme").json()["value"] is None
    assert [each["content"] for each in http.get(f"/v1/memories/{id}/history").json()["versions"]] == ["dark", "null"]


def test_a_key_without_a_value_is_not_found(server: Running) -> None:
    gone = server.http().get("/v1/values/theme")
    assert (gone.status_code, gone.headers["content-type"], gone.json()["error"]) == (404, PROBLEM, "NotFound")
    assert "'theme'" in gone.json()["detail"]


def test_a_key_may_hold_anything_an_address_can_encode(server: Running) -> None:
    http = server.http()
    for key in ODD_NAMES:
        assert http.put(f"/v1/values/{path(key)}", json={"value": key}).status_code == 201, key
    for key in ODD_NAMES:
        assert http.get(f"/v1/values/{path(key)}").json() == {"key": key, "value": key}


def test_a_tag_lists_its_values_the_last_updated_first(server: Running) -> None:
    http = server.http()
    http.put("/v1/values/theme", json={"value": "dark", "tag": "a/b"})
    http.put("/v1/values/size", json={"value": 12, "tag": "a/b"})
    http.put("/v1/values/other", json={"value": 1})
    http.put("/v1/values/theme", json={"value": "light", "tag": "a/b"})
    values = http.get("/v1/values", params={"tag": "a/b"}).json()["values"]
    assert list(values.items()) == [("theme", "light"), ("size", 12)]
    assert http.get("/v1/values", params={"tag": "none"}).json() == {"values": {}}


def test_what_cannot_be_taken_is_said(server: Running) -> None:
    http = server.http()
    wrong_tag = [{"value": 1, "tag": 5}, {"value": 1, "tag": ""}, {"value": 1, "tag": None}]
    half_a_pair = [{"value": "\ud800"}, {"value": {"\ud800": 1}}, {"value": 1, "tag": "\ud800"}]
    for body in ({}, [], {"value": 1, "more": 2}, *wrong_tag, *half_a_pair):
        refused = http.put("/v1/values/theme", **as_json(body))
        assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM), body
    assert http.get("/v1/values/theme").status_code == 404


def test_names_that_cannot_be_kept_are_refused(server: Running) -> None:
    http = server.http()
    for name in ("", "%00", "a%09b", "x" * 257, "%20"):
        for refused in (http.put(f"/v1/values/{name}", json={"value": 1}), http.get(f"/v1/values/{name}")):
            assert (refused.status_code, refused.json()["error"]) == (422, "ValidationError"), name
        assert http.get(f"/v1/values?tag={name}").status_code == 422, name


def test_a_value_past_the_limit_is_too_large(server: Running) -> None:
    refused = server.http().put("/v1/values/theme", json={"value": "x" * (8 * 1024 * 1024 + 1)})
    assert (refused.status_code, refused.json()["error"]) == (413, "TooLarge")


def test_rights_and_owners(server: Running) -> None:
    owner = server.http(server.key(user="alice"))
    owner.put("/v1/values/theme", json={"value": "dark", "tag": "looks"})
    reader = server.http(server.key(user="alice", rights=("read",)))
    assert reader.get("/v1/values/theme").json()["value"] == "dark"
    refused = reader.put("/v1/values/theme", json={"value": "light"})
    assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM)
    writer = server.http(server.key(user="alice", rights=("write",)))
    assert writer.get("/v1/values/theme").status_code == writer.get("/v1/values?tag=looks").status_code == 403
    other = server.http(server.key("bob", user="bob"))
    assert other.get("/v1/values/theme").status_code == 404
    assert other.get("/v1/values?tag=looks").json() == {"values": {}}
    other.put("/v1/values/theme", json={"value": "blue"})
    assert owner.get("/v1/values/theme").json()["value"] == "dark"


def test_an_agents_key_speaks_as_an_agent(server: Running) -> None:
    http = server.http(server.key(agent="helper", user="alice"))
    id = http.put("/v1/values/theme", json={"value": "dark"}).json()["id"]
    assert http.get(f"/v1/memories/{id}").json()["source"] == "agent"
    person = server.http(server.key(user="alice"))
    id = person.put("/v1/values/theme", json={"value": "dark"}).json()["id"]
    assert person.get(f"/v1/memories/{id}").json()["source"] == "user"
