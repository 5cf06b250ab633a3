"""The keys of an issuer: fetched seldom, held while it is away, from nowhere that it did not name; and the settings for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest

from keepstone.errors import ConfigurationError
from keepstone.server.tokens import make_verifier
from keepstone.settings import Settings
from tests.server.issuer import ELLIPTIC, FIRST, SECOND, STRANGER, Door, Issuer, by_secret, issuing, signer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as made:
        made.has(FIRST, ELLIPTIC)
        yield made


# -- the issuer's keys --------------------------------------------------------------------------------------------
def test_rotated_keys_are_fetched_once_a_minute_at_most(issuer: Issuer) -> None:
    door = Door(issuer)
    assert door.takes(door.token())
    issuer.has(SECOND)
    for _ in range(5):  # the first fetch was just now
        assert not door.takes(door.token(SECOND))
    assert issuer.asked.count("/keys") == 1
    door.now += 61
    assert door.takes(door.token(SECOND))
    assert not door.takes(door.token(FIRST)), "a key that the issuer took back"
    assert not door.takes(door.token(STRANGER))
    assert issuer.asked.count("/keys") == 2


def test_a_key_that_was_taken_back_ends_without_a_new_one(issuer: Issuer) -> None:
    door = Door(issuer)
    assert door.takes(door.token())
    issuer.has(ELLIPTIC)
    assert door.takes(door.token())
    door.now += 1000
    assert not door.takes(door.token())


def test_keys_go_on_while_the_issuer_is_away(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    door = Door(issuer)
    assert door.takes(door.token())
    issuer.away = True
    door.now += 5000
    assert door.takes(door.token())
    assert not door.takes(door.token(SECOND))
    asked = len(issuer.asked)
    assert door.takes(door.token())
    assert len(issuer.asked) == asked, "the issuer is left alone for a minute"
    assert "the known keys stay in use" in caplog.text
    issuer.away = False
    issuer.has(SECOND)
    door.now += 61
    assert door.takes(door.token(SECOND))


def test_an_issuer_that_comes_late_is_asked_again_soon(issuer: Issuer) -> None:
    issuer.away = True
    door = Door(issuer)
    assert not door.takes(door.token())
    issuer.away = False
    assert not door.takes(door.token())
    door.now += 6
    assert door.takes(door.token())


def test_an_issuer_that_is_not_there_refuses_nobody_loudly(issuer: Issuer) -> None:
    door = Door(issuer, token_issuer="http://127.0.0.1:9")
    assert not door.takes(door.token(iss="http://127.0.0.1:9"))


def test_requests_at_one_time_share_a_fetch_and_known_keys_do_not_wait(issuer: Issuer) -> None:
    door = Door(issuer)
    good, rotated = door.token(), door.token(SECOND)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(door.takes, [good] * 8))
        assert issuer.asked.count("/keys") == 1
        issuer.has(FIRST, SECOND)
        issuer.gate = threading.Event()
        door.now += 61
        waiting = [pool.submit(door.takes, rotated) for _ in range(7)]
        assert door.takes(good)  # while the others wait for the issuer
        assert not any(each.done() for each in waiting)
        issuer.gate.set()
        assert all(each.result(10) for each in waiting)
    assert issuer.asked.count("/keys") == 2


def test_nobody_waits_while_old_keys_are_asked_for_again(issuer: Issuer) -> None:
    door = Door(issuer)
    good = door.token()
    assert door.takes(good)
    issuer.gate = threading.Event()
    door.now += 1000
    asked = len(issuer.asked)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(door.takes, good)
        ticks, until = threading.Event(), time.monotonic() + 120
        while len(issuer.asked) == asked:
            assert time.monotonic() < until
            ticks.wait(0.005)
        assert door.takes(good)
        assert not first.done()
        issuer.gate.set()
        assert first.result(10)


def test_a_token_without_kid_is_taken_where_one_key_fits(issuer: Issuer) -> None:
    door = Door(issuer)
    bare = jwt.encode(door.claims(), FIRST.private, "RS256")
    assert door.takes(bare)
    issuer.has(FIRST, SECOND)
    door.now += 1000
    assert not door.takes(bare)


UNUSABLE: dict[str, Any] = {
    "no JSON": b"<html>",
    "a list": [],
    "no keys": {"jwks": []},
    "keys that are none": {
        "keys": [None, 1, {}, {"kty": ["RSA"]}, {"kty": "RSA", "n": 1, "e": "AQAB"}, {"kty": "EC", "crv": []}]
    },
    "a shared secret": {"keys": [{"kty": "oct", "kid": "first", "k": "AAAA", "alg": "HS256"}]},
    "a key for encryption": {"keys": [FIRST.public | {"use": "enc"}]},
    "a key of another algorithm": {"keys": [FIRST.public | {"alg": "RSA-OAEP"}]},
    "a private key": {"keys": [FIRST.secret]},
    "a weak key": {"keys": [signer("first", bits=1024).public]},
    "a giant set": {"keys": [FIRST.public | {"x": "x" * 1_000_000}]},
    "a thousand keys": {"keys": [{"kty": "EC", "kid": str(n)} for n in range(1000)] + [FIRST.public]},
    "nested without end": b'{"keys":' + b"[" * 100_000,
}


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_a_set_of_keys_that_cannot_be_used_opens_nothing(issuer: Issuer, unusable: str) -> None:
    issuer.serve("/keys", UNUSABLE[unusable])
    door = Door(issuer)
    assert not door.takes(door.token())
    assert not door.takes(by_secret(door, b"\x00\x00\x00"))
    issuer.answers.clear()
    door.now += 61
    assert door.takes(door.token())


def test_nobody_is_followed_elsewhere(issuer: Issuer) -> None:
    with issuing() as other:
        other.has(FIRST)
        issuer.serve("/keys", b"", 302, location=f"{other.url}/keys")
        door = Door(issuer)
        assert not door.takes(door.token())
        assert other.asked == []


def test_an_answer_that_is_packed_is_not_unpacked(issuer: Issuer) -> None:
    issuer.serve("/keys", {"keys": [FIRST.public]}, **{"content-encoding": "gzip"})
    door = Door(issuer)
    assert not door.takes(door.token())


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://login.example.org", "jwks_uri": "{url}/keys"},
        {"jwks_uri": "{url}/keys"},
        {"issuer": "{url}", "jwks_uri": "http://keys.example.org/keys"},
        {"issuer": "{url}", "jwks_uri": "file:///keys"},
        {"issuer": "{url}", "jwks_uri": ["{url}/keys"]},
        {"issuer": "{url}"},
    ],
    ids=["another issuer", "no issuer", "plain http elsewhere", "a file", "a list", "no address"],
)
def test_a_discovery_document_that_is_not_the_issuers_own_is_not_believed(
    issuer: Issuer, document: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    issuer.serve("/.well-known/openid-configuration", json.dumps(document).replace("{url}", issuer.url).encode())
    door = Door(issuer)
    assert not door.takes(door.token())
    assert "/keys" not in issuer.asked
    assert ("names no https address of keys" if document.get("issuer") == "{url}" else "of another issuer") in caplog.text


def test_an_issuer_may_have_the_discovery_of_rfc_8414(issuer: Issuer) -> None:
    root = issuer.url
    issuer.url = f"{root}/realms/acme"
    issuer.serve("/.well-known/oauth-authorization-server/realms/acme", {"issuer": issuer.url, "jwks_uri": f"{root}/keys"})
    door = Door(issuer)
    assert door.takes(door.token())


def test_keys_may_be_somewhere_that_the_settings_name(issuer: Issuer) -> None:
    door = Door(issuer, token_issuer="https://login.example.org", token_keys=f"{issuer.url}/keys")
    assert door.takes(door.token(iss="https://login.example.org"))
    assert issuer.asked == ["/keys"]


# -- settings -----------------------------------------------------------------------------------------------------
def test_without_an_issuer_there_is_no_verifier() -> None:
    assert make_verifier(Settings(), "http://127.0.0.1:8700") is None


@pytest.mark.parametrize("issuer", ["https://login.example.org", "http://localhost:1", "http://[::1]:1/x", "http://127.8.0.1"])
def test_an_issuer_is_at_an_https_address_or_on_this_machine(issuer: str) -> None:
    assert make_verifier(Settings(token_issuer=issuer), "http://127.0.0.1:8700") is not None


@pytest.mark.parametrize(
    "settings",
    [
        {"token_issuer": "http://login.example.org"},
        {"token_issuer": "http://127.0.0.1.example.org"},
        {"token_issuer": "http://localhost@login.example.org"},
        {"token_issuer": "login.example.org"},
        {"token_issuer": "https://"},
        {"token_issuer": "https://login.example.org:port"},
        {"token_issuer": "https://me:word@login.example.org"},
        {"token_issuer": "https://login.example.org", "token_keys": "http://login.example.org/keys"},
        {"token_issuer": "https://login.example.org", "token_keys": "file:///etc/keys"},
        {"token_issuer": "https://login.example.org", "token_claims": {"operator": "role"}},
        {"token_keys": "https://login.example.org/keys"},
        {"token_audience": "https://memory.example.org"},
        {"token_claims": {"tenant": "org"}},
    ],
    ids=lambda settings: ",".join(f"{name}={value}" for name, value in settings.items()),
)
def test_settings_that_cannot_work_are_said_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"setting token_\w+ .*: (use|set) "):
        make_verifier(Settings.load(settings), "http://127.0.0.1:8700")
