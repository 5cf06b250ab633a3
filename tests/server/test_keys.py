"""Keys and who they stand for: never kept in clear, gone at once when revoked, and valid for no other user's memory."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keepstone import Memory, Scope
from keepstone.backend import backend_of
from keepstone.errors import Forbidden, NotFound, Unauthenticated, ValidationError
from keepstone.maintenance.store_migration import move_store
from keepstone.server.identity import RESERVED_TENANT, Identity
from keepstone.server.keys import KeyDraft, Keys
from keepstone.server.service import Service
from tests.server.running import Running
from tests.server_processes import PostgresServer
from tests.surfaces.support import START, Clock, timed

LATIN, CYRILLIC = "dana", "d\u0430na"  # the second has a Cyrillic letter that looks the same
COMPOSED, APART = "Caf\u00e9", "Cafe\u0301"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(path: Path, clock: Clock) -> Iterator[Keys]:
    """The keys of an empty store, by a clock set by hand."""
    with timed(path, clock) as memory:
        yield Keys(backend_of(memory))


def keys_of(memory: Memory) -> Keys:
    return Keys(backend_of(memory))


def made(keys: Keys, name: str = "dana", **given: Any) -> tuple[str, Identity]:
    return keys.create(KeyDraft(name, **given))


def refused(keys: Keys, key: Any) -> bool:
    try:
        keys.check(key)
    except Unauthenticated:
        return True
    return False


# -- made and kept ------------------------------------------------------------------------------------------------
def test_a_key_is_random_and_stands_for_who_it_was_made_for(keys: Keys) -> None:
    key, identity = made(keys, tenant="acme", agent="scribe", rights=["read", "admin"], rate=7)
    assert re.fullmatch(r"ks_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", key)
    assert key.split("_")[1] == identity.id
    assert keys.check(key) == identity
    assert (identity.tenant, identity.agent, identity.user, identity.rate) == ("acme", "scribe", "dana", 7)
    assert (identity.rights, identity.created_at, identity.expires_at, identity.via) == ({"read", "admin"}, START, None, "key")
    assert len({made(keys)[0].split("_", 2)[2] for _ in range(20)}) == 20


def test_no_file_of_the_store_has_the_key_in_it(path: Path) -> None:
    with Memory.open(path) as memory:
        keys = keys_of(memory)
        key, identity = made(keys)
        keys.check(key)
        Service(backend_of(memory)).caller_for(keys.check(key))
        while_open = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    closed = {f"{each.name} later": each.read_bytes() for each in path.parent.iterdir()}
    _, _, chance = key.split("_", 2)
    held = {**while_open, **closed}
    assert any(name.endswith("-wal") for name in held)
    assert [name for name, raw in held.items() if chance.encode() in raw or chance[:12].encode() in raw] == []
    assert any(hashlib.sha256(key.encode()).hexdigest().encode() in raw for raw in held.values())
    assert any(identity.id.encode() in raw for raw in held.values())


@pytest.mark.parametrize("change", ["", "short", "longer", "case", "id", "space", "bare", "surrogate", "hash", "none", "huge"])
def test_what_is_not_the_key_to_the_letter_is_refused(keys: Keys, change: str) -> None:
    key, _ = made(keys)
    wrong: Any = {
        "": "", "short": key[:-1], "longer": key + "A", "case": key[:20] + key[20:].swapcase(), "id": "ks_00000000" + key[11:],
        "space": key + " ", "bare": key.removeprefix("ks_"), "surrogate": key + "\udc80", "hash": Keys.name_of(key), "none": None,
        "huge": "ks_" + "x" * 1_000_000,
    }[change]  # fmt: skip
    assert refused(keys, wrong)
    assert keys.check(key).name == "dana"


def test_by_its_hash_a_key_is_found_again_and_nothing_else_is(keys: Keys) -> None:
    key, identity = made(keys)
    keys.secret("cookies")
    assert keys.current(Keys.name_of(key)) == identity
    for name in (key, "secret:cookies", "key:", "", Keys.name_of(key + "x")):
        with pytest.raises(Unauthenticated):
            keys.current(name)
    keys.revoke(identity.id)
    with pytest.raises(Unauthenticated):
        keys.current(Keys.name_of(key))


def test_a_secret_is_the_stores_own_and_stays(path: Path, tmp_path: Path) -> None:
    with Memory.open(path) as memory:
        first = keys_of(memory).secret("cookies")
        assert len(first) == 32
        assert keys_of(memory).secret("else") != first
    with Memory.open(path) as memory, Memory.open(tmp_path / "other.db") as other:
        assert keys_of(memory).secret("cookies") == first
        assert keys_of(other).secret("cookies") != first
        assert keys_of(memory).list() == []


# -- their end ----------------------------------------------------------------------------------------------------
def test_a_key_ends_when_it_was_said_to(keys: Keys, clock: Clock) -> None:
    key, identity = made(keys, expires_at=START + timedelta(hours=1))
    clock.forward(minutes=59, seconds=59)
    assert keys.check(key) == identity
    clock.forward(seconds=1)
    assert refused(keys, key)
    with pytest.raises(Unauthenticated):
        keys.current(Keys.name_of(key))
    assert [each.id for each in keys.list()] == [identity.id], "it is still listed, so that it can be taken away"


def test_an_end_may_be_in_any_zone_but_not_in_the_past(keys: Keys) -> None:
    _, identity = made(keys, expires_at=datetime(2026, 3, 1, 12, 0, tzinfo=timezone(timedelta(hours=2))))
    assert identity.expires_at == datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
    assert made(keys, expires_at=datetime(2026, 3, 1, 10, 0))[1].expires_at == identity.expires_at  # a naive time is UTC
    for past in (START, START - timedelta(days=1), datetime(2026, 3, 1, 8, 0)):
        with pytest.raises(ValidationError, match="which has passed"):
            made(keys, expires_at=past)


def test_a_revoked_key_is_refused_at_once_by_every_process(path: Path) -> None:
    with Memory.open(path) as here, Memory.open(path) as there:
        key, identity = made(keys_of(here))
        other, second = made(keys_of(here), "erik")
        assert keys_of(there).check(key) == identity
        keys_of(there).revoke(identity.id)
        assert refused(keys_of(here), key)
        program = (
            "import sys; from keepstone import Memory; from keepstone.backend import backend_of\n"
            "from keepstone.server.keys import Keys\n"
            "with Memory.open(sys.argv[1], embedder='none') as memory: print(Keys(backend_of(memory)).revoke(sys.argv[2]).name)"
        )
        assert keys_of(here).check(other) == second
        done = subprocess.run([sys.executable, "-c", program, path, second.id], capture_output=True, text=True, timeout=60)
        assert (done.stdout.strip(), done.returncode) == ("erik", 0), done.stderr
        assert refused(keys_of(here), other)
        assert refused(keys_of(there), other)


def test_a_tenant_sees_and_revokes_its_own_keys_alone(keys: Keys, clock: Clock) -> None:
    ours = []
    for name, tenant in (("a", "acme"), ("b", COMPOSED), ("c", "acme")):
        ours.append(made(keys, name, tenant=tenant))
        clock.forward(seconds=1)
    assert [each.name for each in keys.list()] == ["a", "b", "c"]
    assert [each.name for each in keys.list("acme")] == ["a", "c"]
    assert [each.name for each in keys.list(APART)] == ["b"]
    assert keys.list("ACME") == []
    with pytest.raises(NotFound, match="keys list"):
        keys.revoke(ours[0][1].id, COMPOSED)
    assert keys.check(ours[0][0]).name == "a"
    assert keys.revoke(ours[0][1].id, "acme").name == "a"
    assert keys.revoke(ours[1][1].id, APART).name == "b"
    assert refused(keys, ours[0][0])
    for gone in (ours[0][1].id, "", "ffffffff", "é\udc80", Keys.name_of(ours[2][0]), ours[2][0]):
        with pytest.raises(NotFound):
            keys.revoke(gone)
    assert [each.name for each in keys.list()] == ["c"]


# -- what a key can be --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "given",
    [
        {"name": ""}, {"name": " \u200b"}, {"name": "a\nb"}, {"name": "x" * 2000}, {"name": None}, {"name": "\ud800"},
        {"tenant": ""}, {"tenant": RESERVED_TENANT}, {"tenant": "a\x00"}, {"agent": ""}, {"agent": "\t"}, {"user": ""},
        {"user": 7},
        {"user": "", "service": True}, {"rights": ()}, {"rights": ["read", "root"]}, {"rights": "read"}, {"rate": 0},
        {"rate": -1}, {"rate": 10_000_001}, {"rate": True}, {"rate": 1.5},
    ],
    ids=lambda given: ",".join(f"{name}={value!a:.30}" for name, value in given.items()),
)  # fmt: skip
def test_a_key_that_cannot_be_is_not_made(keys: Keys, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r": |, "):
        keys.create(KeyDraft(**{"name": "dana", **given}))
    assert keys.list() == []


def test_without_a_user_the_name_is_it_and_a_service_needs_none(keys: Keys) -> None:
    assert made(keys, APART)[1].user == COMPOSED
    assert made(keys, "bot", service=True)[1].user is None
    assert made(keys, "bot", service=True, user="erik")[1].scope() == Scope("local", "default", "erik")


# -- whose memory -------------------------------------------------------------------------------------------------
def test_a_users_key_is_for_that_user_alone(keys: Keys) -> None:
    _, identity = made(keys, LATIN)
    assert identity.scope() == identity.scope(user=LATIN) == Scope("local", "default", LATIN)
    for other in (CYRILLIC, "Dana", "dana ", " dana", "dana\u200b", "ｄana", "erik", "*"):
        with pytest.raises(Forbidden, match="acts for its own user only"):
            identity.scope(user=other)
    for none in ("", " ", "\u200b", "da\x00na", "x" * 2000):
        with pytest.raises(ValidationError):
            identity.scope(user=none)


def test_one_name_in_two_spellings_of_unicode_is_one_user(keys: Keys) -> None:
    _, identity = made(keys, APART)
    assert identity.scope(user=APART) == identity.scope(user=COMPOSED) == identity.scope() == Scope("local", "default", COMPOSED)


def test_an_agents_key_is_for_that_agent_alone(keys: Keys) -> None:
    _, bound = made(keys, agent="scribe")
    assert bound.scope().agent == bound.scope(agent="scribe").agent == "scribe"
    for other in ("default", "Scribe", "scribe\u200b", "s\u0441ribe"):
        with pytest.raises(Forbidden, match="bound to one agent"):
            bound.scope(agent=other)
    with pytest.raises(ValidationError):
        bound.scope(agent="")
    assert bound.bound_to_agent
    assert not made(keys, agent="scribe", rights=["admin"])[1].bound_to_agent
    _, free = made(keys)
    assert (free.scope().agent, free.scope(agent="any").agent) == ("default", "any")
    with pytest.raises(Forbidden):
        made(keys, agent="default")[1].scope(agent="any")


def test_a_service_acts_for_users_of_its_tenant(keys: Keys) -> None:
    _, service = made(keys, "bot", tenant="acme", service=True)
    assert service.scope(user="dana") == Scope("acme", "default", "dana")
    assert service.scope(user=CYRILLIC) != service.scope(user=LATIN)
    assert service.scope() == Scope("acme", "default", "")
    with pytest.raises(ValidationError):
        service.scope(user="")


def test_rights_are_asked_for_by_name(keys: Keys) -> None:
    _, identity = made(keys, rights=["read", "write"])
    identity.require("read", "write")
    with pytest.raises(Forbidden, match=r"may not forget or admin.*--scopes"):
        identity.require("read", "forget", "admin")
    assert (identity.may("read"), identity.may("operator")) == (True, False)
    assert made(keys)[1].rights == {"read", "write", "forget"}


def test_an_identity_has_names_as_they_are_compared() -> None:
    given = {"id": "1", "name": "n", "service": False, "rights": frozenset({"read"}), "created_at": START}
    identity = Identity(tenant=APART, agent=APART, user=APART, **given)  # type: ignore[arg-type]
    assert (identity.tenant, identity.agent, identity.user) == (COMPOSED,) * 3
    with pytest.raises(ValidationError, match="is reserved"):
        Identity(tenant=RESERVED_TENANT, agent=None, user="dana", **given)  # type: ignore[arg-type]


# -- the trail ----------------------------------------------------------------------------------------------------
def test_the_trail_says_what_became_of_a_key_and_never_the_key(server: Running) -> None:
    key, identity = server.service.keys.create(KeyDraft("dana", rights=["read"]))
    http = server.http(key)
    assert http.get("/v1/memories").status_code == http.get("/v1/memories").status_code == 200
    assert http.post("/v1/memories", json={"content": "Dana may not."}).status_code == 403
    assert http.get("/v1/memories", headers={"x-keepstone-user": "erik"}).status_code == 403
    server.service.keys.revoke(identity.id)
    assert http.get("/v1/memories").status_code == 401
    rows = [row for row in server.memory.with_scope(user="dana").audit() if row.verb == "key"]
    assert [row.action for row in sorted(rows, key=lambda row: row.number)] == ["created", "used", "denied", "denied", "revoked"]
    assert all(identity.id in " ".join(row.reasons) for row in rows)
    assert not any(key[12:24] in repr(row) for row in rows)
    assert server.memory.with_scope(user="erik").audit() == []


# -- other stores, other policies ---------------------------------------------------------------------------------
def test_keys_work_on_postgres_and_are_not_in_clear_there(postgres_server: PostgresServer) -> None:
    url = postgres_server.database("keys_work")
    with Memory.open(url) as here, Memory.open(url) as there:
        key, identity = made(keys_of(here), "dana", tenant="acme")
        assert keys_of(there).check(key) == identity
        with closing(psycopg.connect(url)) as connection:
            rows = connection.execute("SELECT name, value FROM keepstone.state").fetchall()
            trail = connection.execute("SELECT a::text FROM keepstone.audit a").fetchall()
        assert [name for name, _ in rows] == [Keys.name_of(key)]
        assert trail
        assert not any(key[12:24] in repr(row) for row in (*rows, *trail))
        assert keys_of(there).list("other") == []
        assert keys_of(there).revoke(identity.id, "acme") == identity
        assert refused(keys_of(here), key)


def test_keys_and_secrets_move_with_their_store_and_back(path: Path, tmp_path: Path, postgres_server: PostgresServer) -> None:
    url, back = postgres_server.database("keys_move"), tmp_path / "back.db"
    with Memory.open(path) as memory:
        key, identity = made(keys_of(memory), "dana", tenant="açmé 日本", agent="scribe", rate=3, rights=["read", "admin"])
        gone, revoked = made(keys_of(memory), "erik")
        keys_of(memory).revoke(revoked.id)
        secret = keys_of(memory).secret("cookies")
    for source, target in ((path, url), (url, back)):
        move_store(source, target)
        with Memory.open(target) as memory:
            keys = keys_of(memory)
            assert (keys.check(key), keys.list(), keys.secret("cookies")) == (identity, [identity], secret)
            assert refused(keys, gone)
            actions = [row.action for row in memory.with_scope(tenant="açmé 日本", agent="scribe", user="dana").audit()]
            assert actions == ["created"]


@pytest.mark.parametrize("treatment", ["redact", "refuse", "tag"])
def test_a_policy_about_addresses_leaves_the_keys_of_their_owners_alone(path: Path, treatment: str) -> None:
    policy = dict.fromkeys(("email", "secret", "phone", "ip"), treatment)
    with Memory.open(path, settings={"sensitive": policy}) as memory:
        keys = keys_of(memory)
        key, identity = made(keys, "dana@example.org", tenant="192.0.2.17", agent="+49 30 901820")
        assert keys.check(key) == identity == keys.list()[0]
        assert identity.scope() == Scope("192.0.2.17", "+49 30 901820", "dana@example.org")
        caller = Service(backend_of(memory)).caller_for(identity)
        assert caller.memory.remember("Dana drinks mate.").action == "added"
        assert [each.scope.user for each in caller.memory.list()] == ["dana@example.org"]
        assert keys.revoke(identity.id).user == "dana@example.org"
        assert refused(keys, key)


def test_a_token_makes_no_service_key_in_two_steps(keys: Keys) -> None:
    ends = datetime.now(UTC) + timedelta(hours=1)
    rights = frozenset(("read", "admin"))
    token = Identity("t1", "dana", "acme", None, "dana", False, rights, datetime.now(UTC), ends, via="token")
    first, second = {"tenant": "acme", "rights": ("read", "admin"), "expires_at": ends}, ("helper", "deputy")
    creator = token
    for name in second:
        with pytest.raises(Forbidden, match="service key"):
            keys.create(KeyDraft("bot", service=True, **first), creator)
        key, _ = keys.create(KeyDraft(name, **first), creator)
        creator = keys.check(key)
    assert keys.create(KeyDraft("bot", service=True, **first), made(keys, "boss", **first)[1])[1].service
