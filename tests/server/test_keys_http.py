"""Keys over HTTP: an admin's own tenant, and never more than the admin may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.server.raw import assert_problem, head, line
from tests.server.running import Running

ALL = ("read", "write", "forget", "admin", "operator")


def test_a_key_is_made_used_listed_and_revoked(server: Running) -> None:
    admin = server.http(server.key("boss", rights=("read", "write", "forget", "admin")))
    made = admin.post("/v1/keys", json={"name": "ada", "agent": "coach", "rights": ["read", "write"], "rate": 100})
    assert made.status_code == 201
    key, identity = made.json()["key"], made.json()["identity"]
    assert (identity["tenant"], identity["user"], identity["agent"]) == ("local", "ada", "coach")
    assert (identity["rights"], identity["rate"], identity["service"]) == (["read", "write"], 100, False)
    http = server.http(key)
    assert http.post("/v1/memories", json={"content": "Ada likes tea."}).status_code == 201
    listed = admin.get("/v1/keys")
    assert [each["name"] for each in listed.json()["keys"]] == ["boss", "ada"]
    assert listed.json()["keys"][1] == identity
    hashed = server.service.keys.name_of(key).removeprefix("key:")
    assert not any(secret in listed.text for secret in (key, key[-43:], hashed))
    revoked = admin.delete(f"/v1/keys/{identity['id']}")
    assert (revoked.status_code, revoked.json()) == (200, identity)
    assert http.get("/v1/memories").status_code == 401
    assert admin.delete(f"/v1/keys/{identity['id']}").status_code == 404


def test_what_a_key_has_when_nothing_is_said(server: Running) -> None:
    usual = server.http(server.key("boss", rights=ALL)).post("/v1/keys", json={"name": "ada"}).json()["identity"]
    assert (usual["rights"], usual["expires_at"], usual["agent"]) == (["forget", "read", "write"], None, None)
    fewer = server.http(server.key("aide", rights=("read", "admin"))).post("/v1/keys", json={"name": "ada"}).json()
    assert fewer["identity"]["rights"] == ["read"]


def test_a_service_key_names_its_users(server: Running) -> None:
    made = server.http(server.key("boss", rights=ALL)).post("/v1/keys", json={"name": "site", "service": True}).json()
    assert (made["identity"]["service"], made["identity"]["user"]) == (True, None)
    assert server.http(made["key"], x_keepstone_user="zoe").get("/v1/me").json()["scope"]["user"] == "zoe"


def test_a_key_expires(server: Running) -> None:
    admin = server.http(server.key("boss", rights=ALL))
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    made = admin.post("/v1/keys", json={"name": "ada", "expires_at": later}).json()
    assert datetime.fromisoformat(made["identity"]["expires_at"]) == datetime.fromisoformat(later)
    assert server.http(made["key"]).get("/v1/me").status_code == 200


def test_nobody_gives_more_than_they_have(server: Running) -> None:
    admin = server.http(server.key("boss", rights=("read", "admin")))
    for rights in (["operator"], ["read", "write"], ["forget"]):
        refused = admin.post("/v1/keys", json={"name": "ada", "rights": rights})
        assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden")
    assert admin.post("/v1/keys", json={"name": "ada", "rights": ["admin", "read"]}).status_code == 201
    assert ("key", "denied") in [(row["verb"], row["action"]) for row in admin.get("/v1/audit").json()["rows"]]


def test_a_tenants_keys_are_its_own(server: Running) -> None:
    ours, theirs = server.http(server.key("boss", rights=ALL)), server.http(server.key("boss", tenant="away", rights=ALL))
    made = theirs.post("/v1/keys", json={"name": "zoe"}).json()
    assert made["identity"]["tenant"] == "away"
    assert [(each["tenant"], each["name"]) for each in ours.get("/v1/keys").json()["keys"]] == [("local", "boss")]
    assert ours.delete(f"/v1/keys/{made['identity']['id']}").status_code == 404
    assert server.http(made["key"]).get("/v1/me").status_code == 200
    assert ours.post("/v1/keys", json={"name": "zoe", "tenant": "away"}).status_code == 422


@pytest.mark.parametrize("rights", [("read", "write", "forget"), ("operator",)])
def test_keys_take_an_admin(server: Running, rights: tuple[str, ...]) -> None:
    http = server.http(server.key(rights=rights))
    assert http.get("/v1/keys").status_code == 403
    assert http.post("/v1/keys", json={"name": "ada"}).status_code == 403
    assert http.delete("/v1/keys/00000000").status_code == 403
    assert len(server.service.keys.list()) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "ada", "rights": []},
        {"name": "ada", "rights": ["root"]},
        {"name": "ada", "rights": "read"},
        {"name": "ada", "expires_at": "tomorrow"},
        {"name": "ada", "expires_at": "2001-01-01T00:00:00Z"},
        {"name": "ada", "rate": 0},
        {"name": "ada", "rate": 1.5},
        {"name": "ada", "agent": "a\nb"},
        {"name": "ada", "service": "yes"},
    ],
)
def test_nonsense_is_refused(server: Running, body: dict[str, Any]) -> None:
    assert server.http(server.key("boss", rights=ALL)).post("/v1/keys", json=body).status_code == 422
    assert len(server.service.keys.list()) == 1


def test_who_one_is(server: Running) -> None:
    key = server.key("ada", tenant="away", agent="coach", rights=("write",), rate=50)
    me = server.http(key).get("/v1/me").json()
    assert (me["name"], me["tenant"], me["agent"], me["user"], me["service"]) == ("ada", "away", "coach", "ada", False)
    assert (me["rights"], me["expires_at"], me["rate"], me["via"]) == (["write"], None, 50, "key")
    assert (me["id"], me["scope"]) == (key[3:11], {"tenant": "away", "agent": "coach", "user": "ada"})
    assert server.http("ks_00000000_" + "x" * 43).get("/v1/me").status_code == 401


@pytest.mark.parametrize("key", ["", "authorization: Bearer ks_00000000_nothing"])
def test_the_body_of_an_unauthenticated_request_is_not_read(server: Running, key: str) -> None:
    with line(server) as made:
        lines = [key] if key else []
        made.send(head("POST", "/v1/memories", *lines, "content-type: application/json", "content-length: 1000000"))
        assert_problem(made.reply(), 401, "Unauthenticated")  # and not a byte of the body was sent
