"""Tokens of an outside issuer: what is taken, what is refused, and whose memory they open. The issuer is real, on loopback."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from keepstone import Memory
from keepstone.errors import Unauthenticated
from keepstone.server.identity import RESERVED_TENANT
from keepstone.server.tokens import make_verifier
from keepstone.settings import Settings
from tests.server.issuer import (
    AUDIENCE,
    ELLIPTIC,
    FIRST,
    SECOND,
    STRANGER,
    Door,
    Issuer,
    Signer,
    by_secret,
    issuing,
    part,
    signer,
)
from tests.server.running import Running, running


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as made:
        made.has(FIRST, ELLIPTIC)
        yield made


# -- what is taken ------------------------------------------------------------------------------------------------
def test_a_token_says_who_is_asking(issuer: Issuer) -> None:
    door = Door(issuer)
    identity = door.verifier.verify(door.token(preferred_username="Dana R."))
    assert (identity.tenant, identity.agent, identity.user, identity.service) == ("local", None, "dana", False)
    assert (identity.via, identity.name, identity.rights) == ("token", "Dana R.", {"read", "write"})
    assert (identity.created_at, identity.expires_at) == (door.clock(), door.clock.forward(seconds=300))
    again = door.verifier.verify(door.token(jti="another", exp=int(door.clock().timestamp()) + 9))
    assert identity.id == again.id  # limits count the user, not the token
    assert identity.id != door.verifier.verify(door.token(sub="erik")).id


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"])
def test_every_algorithm_of_public_keys_is_taken(issuer: Issuer, algorithm: str) -> None:
    by = Signer("k", algorithm, FIRST.private) if algorithm[1] == "S" and algorithm[0] != "E" else signer("k", algorithm)
    issuer.has(SECOND, by)
    door = Door(issuer)
    assert door.takes(door.token(by))


def test_a_key_of_the_set_signs_with_its_own_algorithm_alone(issuer: Issuer) -> None:
    issuer.keys = [FIRST.public | {"alg": "RS512"}]
    door = Door(issuer)
    assert door.takes(Signer("first", "RS512", FIRST.private).sign(door.claims()))
    assert not door.takes(door.token())


@pytest.mark.parametrize(
    ("scope", "rights"),
    [
        ("read", {"read"}),
        ("openid keepstone:read memory:forget profile", {"read", "forget"}),
        (["write", "read", "else"], {"read", "write"}),
        ("read admin operator", {"read", "admin"}),
        ("memory:operator keepstone:read", {"read"}),
    ],
)
def test_scopes_are_rights_by_name_and_nobody_becomes_an_operator(issuer: Issuer, scope: Any, rights: set[str]) -> None:
    door = Door(issuer)
    assert door.verifier.verify(door.token(scope=scope)).rights == rights


def test_claims_are_read_where_the_settings_say(issuer: Issuer) -> None:
    door = Door(issuer, token_claims="tenant=https://example.org/org,user=oid,agent=azp,scopes=scp")
    given = {"https://example.org/org": "acme", "oid": "Cafe\u0301", "azp": "scribe", "scp": ["memory:read"]}
    identity = door.verifier.verify(door.token(**given))
    assert (identity.tenant, identity.agent, identity.user, identity.rights) == ("acme", "scribe", "Café", {"read"})
    assert identity.bound_to_agent
    for missing in given:
        assert not door.takes(door.token(**given | {missing: None})), f"without {missing}"


def test_a_tenant_is_taken_from_a_claim_only_where_the_settings_name_it(issuer: Issuer) -> None:
    door = Door(issuer)
    assert door.verifier.verify(door.token(tenant="acme", tid="acme", service=True, operator=True)).tenant == "local"


def test_without_an_audience_in_the_settings_the_address_of_the_server_is_it(issuer: Issuer) -> None:
    door = Door(issuer, token_audience="", address="http://127.0.0.1:8700/")
    for audience in ("http://127.0.0.1:8700", "http://127.0.0.1:8700/mcp", ["else", "http://127.0.0.1:8700/mcp"]):
        assert door.takes(door.token(aud=audience))
    for audience in ("http://127.0.0.1:8700/mcpx", "http://127.0.0.1:87", AUDIENCE, ""):
        assert not door.takes(door.token(aud=audience))
    public = Door(issuer, token_audience="", public_url="https://memory.example.org/")
    assert public.takes(public.token(aud=AUDIENCE))


def test_clocks_may_differ_by_half_a_minute(issuer: Issuer) -> None:
    door = Door(issuer)
    now = int(door.clock().timestamp())
    assert door.takes(door.token(nbf=now + 30, iat=now + 30))
    assert door.takes(door.token(exp=now - 29))
    assert not door.takes(door.token(exp=now - 30))
    assert not door.takes(door.token(nbf=now + 31))
    assert not door.takes(door.token(iat=now + 31))


# -- what is refused ----------------------------------------------------------------------------------------------
BAD: dict[str, Callable[[Door], str]] = {
    "nothing": lambda door: "",
    "no token": lambda door: "dana",
    "dots": lambda door: "..",
    "not ascii": lambda door: door.token() + "é",
    "a surrogate": lambda door: door.token() + "\udc80",
    "very long": lambda door: door.token(padding="x" * 20_000),
    "wrong audience": lambda door: door.token(aud="https://other.example.org/mcp"),
    "audience as a prefix": lambda door: door.token(aud=AUDIENCE + "/"),
    "no audience": lambda door: door.token(aud=None),
    "audience of odd types": lambda door: door.token(aud=[AUDIENCE, 7]),
    "audience as an object": lambda door: door.token(aud={AUDIENCE: 1}),
    "wrong issuer": lambda door: door.token(iss="https://login.example.org"),
    "issuer with a slash": lambda door: door.token(iss=door.issuer.url + "/"),
    "issuer as a list": lambda door: door.token(iss=[door.issuer.url]),
    "no issuer": lambda door: door.token(iss=None),
    "expired": lambda door: door.token(exp=int(door.clock().timestamp()) - 60),
    "not yet": lambda door: door.token(nbf=int(door.clock().timestamp()) + 60),
    "no end": lambda door: door.token(exp=None),
    "an end that is text": lambda door: door.token(exp="9999999999"),
    "an end that is true": lambda door: door.token(exp=True),
    "an end after all time": lambda door: door.token(exp=10**30),
    "an end that is NaN": lambda door: FIRST.sign(json.dumps(door.claims(exp=float("nan"))).encode()),
    "an infinite end": lambda door: FIRST.sign(json.dumps(door.claims()).replace('"exp": ', '"exp": 1e999, "x": ').encode()),
    "a beginning that is text": lambda door: door.token(nbf="soon"),
    "a beginning that is true": lambda door: door.token(nbf=True),
    "alg none": lambda door: jwt.encode(door.claims(), None, "none", {"kid": "first"}),
    "alg NONE": lambda door: f"{part({'alg': 'NONE', 'kid': 'first'})}.{part(door.claims())}.",
    "alg none with a signature": lambda door: part({"alg": "none", "kid": "first"}) + door.token()[door.token().index(".") :],
    "no alg": lambda door: f"{part({'kid': 'first'})}.{part(door.claims())}.AAAA",
    "alg as a list": lambda door: f"{part({'alg': ['RS256'], 'kid': 'first'})}.{part(door.claims())}.AAAA",
    "the public key as a secret": lambda door: by_secret(door, FIRST.pem),
    "the public key of the set as a secret": lambda door: by_secret(door, json.dumps(FIRST.public).encode()),
    "a stranger's signature": lambda door: Signer("first", "RS256", STRANGER.private).sign(door.claims()),
    "an unknown kid": lambda door: door.token(STRANGER),
    "kid of another key": lambda door: Signer("elliptic", "RS256", FIRST.private).sign(door.claims()),
    "kid of a key of the same kind": lambda door: Signer("second", "RS256", FIRST.private).sign(door.claims()),
    "kid as a number": lambda door: f"{part({'alg': 'RS256', 'kid': 1})}.{part(door.claims())}.AAAA",
    "the key brought along": lambda door: Signer("first", "RS256", STRANGER.private).sign(door.claims(), jwk=STRANGER.public),
    "the address of keys brought along": lambda door: STRANGER.sign(door.claims(), jku="https://keys.example.org"),
    "an unknown critical header": lambda door: FIRST.sign(door.claims(), crit=["exp"], exp=1),
    "a token for logging out": lambda door: FIRST.sign(door.claims(), typ="logout+jwt"),
    "a tampered payload": lambda door: tampered(door),
    "a cut signature": lambda door: door.token()[:-8],
    "no signature": lambda door: door.token().rpartition(".")[0] + ".",
    "a claim twice": lambda door: FIRST.sign(json.dumps(door.claims())[:-1].encode() + b', "sub": "erik"}'),
    "claims that are a list": lambda door: FIRST.sign(b"[]"),
    "claims that are no JSON": lambda door: FIRST.sign(b"dana"),
    "claims in UTF-16": lambda door: FIRST.sign(json.dumps(door.claims()).encode("utf-16")),
    "claims nested without end": lambda door: FIRST.sign(b'{"a":' * 2_000 + b"1" + b"}" * 2_000),
    "no user": lambda door: door.token(sub=None),
    "a list as user": lambda door: door.token(sub=["dana"]),
    "a number as user": lambda door: door.token(sub=7),
    "an empty user": lambda door: door.token(sub=""),
    "an invisible user": lambda door: door.token(sub="\u200b "),
    "a control character in the user": lambda door: door.token(sub="dana\n"),
    "a surrogate in the user": lambda door: door.token(sub="\ud800"),
    "a user too long": lambda door: door.token(sub="x" * 2_000),
    "no scope": lambda door: door.token(scope=None),
    "no scope of ours": lambda door: door.token(scope="openid profile other:read READ"),
    "operator alone": lambda door: door.token(scope="operator"),
    "scope as an object": lambda door: door.token(scope={"read": True}),
    "scope with numbers": lambda door: door.token(scope=["read", 1]),
}  # fmt: skip


def tampered(door: Door) -> str:
    header, _, signature = door.token().split(".")
    return f"{header}.{part(door.claims(sub='erik'))}.{signature}"


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_token_is_refused_and_only_the_log_knows_why(issuer: Issuer, bad: str, caplog: pytest.LogCaptureFixture) -> None:
    issuer.has(FIRST, SECOND, ELLIPTIC)
    door = Door(issuer)
    assert door.takes(door.token())
    token = BAD[bad](door)
    with caplog.at_level(logging.INFO, "keepstone.server"), pytest.raises(Unauthenticated) as refused:
        door.verifier.verify(token)
    assert str(refused.value).startswith("this token is not valid here")
    (line,) = [each.getMessage() for each in caplog.records if each.name == "keepstone.server"]
    assert line.startswith("a token was refused: ")
    assert not any(piece in line for piece in token.split(".") if len(piece) > 8)


@pytest.mark.parametrize("tenant", [RESERVED_TENANT, 7, ["acme"], "", None, "a\x00b", True, {"a": 1}])
def test_a_tenant_that_nobody_can_have_is_refused(issuer: Issuer, tenant: Any) -> None:
    door = Door(issuer, token_claims={"tenant": "org"})
    assert door.takes(door.token(org="acme"))
    assert not door.takes(door.token(org=tenant))


@pytest.mark.parametrize(
    ("verified", "accepted"), [(None, True), (True, True), ("true", True), (False, False), ("false", False), (0, False)]
)
def test_an_unverified_email_address_is_not_a_user(issuer: Issuer, verified: Any, accepted: bool) -> None:
    door = Door(issuer, token_claims={"user": "email"})
    assert door.takes(door.token(email="dana@example.org", email_verified=verified)) is accepted


# -- over HTTP ----------------------------------------------------------------------------------------------------
@pytest.fixture
def guarded(issuer: Issuer, tmp_path: Path) -> Iterator[Running]:
    """A server that takes tokens of the issuer, by the clock on the wall."""
    settings = Settings.load({"token_issuer": issuer.url, "token_audience": AUDIENCE, "token_claims": {"tenant": "org"}})
    verifier = make_verifier(settings, "http://127.0.0.1:8700")
    with Memory.open(tmp_path / "memory.db", settings=settings) as memory, running(memory, verifier=verifier) as made:
        yield made


def test_the_owner_of_a_memory_comes_from_the_token(issuer: Issuer, guarded: Running) -> None:
    now = guarded.engine.clock()
    dana, erik, other = (
        guarded.http(FIRST.sign(issuer.claims(now, org=org, sub=sub)))
        for org, sub in (("acme", "dana"), ("acme", "erik"), ("else", "dana"))
    )
    assert dana.post("/v1/memories", json={"content": "Dana drinks mate."}).status_code == 201
    (record,) = dana.get("/v1/memories").json()["records"]
    assert record["scope"] == {"tenant": "acme", "agent": "default", "user": "dana"}
    assert erik.get("/v1/memories").json()["records"] == other.get("/v1/memories").json()["records"] == []
    for header in ({"x-keepstone-user": "erik"}, {"x-keepstone-user": "Dana"}):
        refused = dana.get("/v1/memories", headers=header)
        assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden")
    assert dana.delete(f"/v1/memories/{record['id']}").status_code == 403  # "read write" may not forget
    assert guarded.http().get("/v1/memories").status_code == 200  # keys go on beside tokens


def test_every_refused_token_is_the_same_401(issuer: Issuer, guarded: Running) -> None:
    claims = issuer.claims(guarded.engine.clock(), org="acme")
    bad = {
        "expired": FIRST.sign({**claims, "exp": claims["exp"] - 900}),
        "audience": FIRST.sign({**claims, "aud": "else"}),
        "stranger": STRANGER.sign(claims),
        "none": jwt.encode(claims, None, "none"),
        "reserved": FIRST.sign({**claims, "org": RESERVED_TENANT}),
        "no tenant": FIRST.sign({name: value for name, value in claims.items() if name != "org"}),
        "nonsense": "a.b.c",
    }
    answers = {name: guarded.http(token).get("/v1/memories") for name, token in bad.items()}
    assert {name: each.status_code for name, each in answers.items()} == dict.fromkeys(bad, 401)
    assert {each.headers["content-type"] for each in answers.values()} == {"application/problem+json"}
    assert {each.headers["www-authenticate"].partition(" ")[0] for each in answers.values()} == {"Bearer"}
    assert {each.text for each in answers.values()} == {answers["expired"].text}
    assert answers["expired"].json()["error"] == "Unauthenticated"


def test_without_an_issuer_a_token_opens_nothing(issuer: Issuer, server: Running) -> None:
    token = FIRST.sign(issuer.claims(server.engine.clock()))
    assert server.http(token).get("/v1/memories").status_code == 401
