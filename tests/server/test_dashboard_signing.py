"""Signing in and out of the dashboard: the cookie, who may be where, and forms that are not ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.server.dashboard import sessions
from keepstone.server.dashboard.sessions import CSP, Session
from tests.server.dashboard import EVERYTHING, PAGES, text, token, visitor
from tests.server.running import Running, running


def test_a_key_becomes_a_cookie_that_holds_no_key(server: Running) -> None:
    key = server.key("alice")
    answer = visitor(server).sign_in(key)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = next(each for each in answer.headers.get_list("set-cookie") if each.startswith("keepstone="))
    for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert part in cookie
    assert "Secure" not in cookie
    assert key not in cookie
    assert key[3:11] not in cookie


def test_behind_https_the_cookie_is_for_https_alone(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db") as memory, running(memory, address="https://memory.example.org") as server:
        page = visitor(server).http.get("/sign-in")
        held = page.headers.get_list("set-cookie")[0]
        assert "Secure" in held
        before = held.partition("=")[2].partition(";")[0]
        answer = visitor(server).http.post(
            "/sign-in",
            data={"token": token(page), "key": server.key("alice")},
            headers={"cookie": f"keepstone-before={before}", "sec-fetch-site": "same-origin"},
        )
        cookie = next(each for each in answer.headers.get_list("set-cookie") if "keepstone=" in each.partition(";")[0])
        assert cookie.startswith("__Host-keepstone=")
        assert "Secure" in cookie


@pytest.mark.parametrize("key", ["", "ks_00000000_" + "A" * 43, "nonsense", "ks_" + "x" * 3000])
def test_what_is_no_key_is_refused(server: Running, key: str) -> None:
    at = visitor(server)
    answer = at.sign_in(key)
    assert answer.status_code == 401
    assert "This key is not valid" in answer.text
    assert (key or "nothing") not in answer.text
    assert at.http.get("/memories").status_code == 303


def test_who_is_not_signed_in_is_sent_to_the_form_and_then_on(server: Running) -> None:
    at = visitor(server)
    for path in PAGES:
        answer = at.http.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/sign-in" + ("" if path == "/" else f"?next={path}")
    assert at.http.get("/memories", headers={"x-fragment": "1"}).status_code == 401
    assert 'name="next" value="/review"' in at.http.get("/sign-in?next=/review").text
    assert at.sign_in(server.key(), next="/review").headers["location"] == "/review"


@pytest.mark.parametrize(
    "onwards", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/\n/x"]
)
def test_nobody_is_sent_elsewhere(server: Running, onwards: str) -> None:
    assert visitor(server).sign_in(server.key(), next=onwards).headers["location"] == "/"


def test_a_cookie_is_taken_only_as_it_was_given_and_for_twelve_hours(server: Running) -> None:
    key = server.key()
    secret, name = server.service.keys.secret("dashboard"), server.service.keys.name_of(key)
    good = sessions.encode_session(secret, Session(name, int(time.time())))
    old = sessions.encode_session(secret, Session(name, int(time.time()) - 12 * 3600 - 1))
    ahead = sessions.encode_session(secret, Session(name, int(time.time()) + 3600))
    other = sessions.encode_session(b"x" * 32, Session(name, int(time.time())))

    def status(cookie: str) -> int:
        return visitor(server).http.get("/", headers={"cookie": f"keepstone={cookie}".encode()}).status_code

    assert status(good) == 200
    bent = good[:10] + ("A" if good[10] != "A" else "B") + good[11:]
    assert {status(each) for each in (old, ahead, other, bent, good[:-1], good.partition(".")[0], "", "a.b", "é.x")} == {303}


def test_a_token_is_of_one_session(server: Running) -> None:
    alice, bob = visitor(server, server.key("alice")), visitor(server, server.key("bob"))
    theirs = token(alice.http.get("/"))
    form = {"token": theirs, "content": "Bob has a boat."}
    assert bob.http.post("/memories", data=form, headers=bob.own()).status_code == 403
    assert alice.http.post("/memories", data=form, headers=alice.own()).status_code == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 303),
        ({"sec-fetch-site": "cross-site", "origin": "null"}, 403),
    ],
    ids=["ours", "foreign origin", "cross site", "same site", "no referrer", "sandboxed"],
)
def test_a_form_is_taken_from_our_own_pages_alone(server: Running, headers: dict[str, str], status: int) -> None:
    at = visitor(server, server.key())
    sent = {**at.own(), **headers}
    held = token(at.http.get("/memories"))
    assert at.http.post("/memories", data={"token": held, "content": "Ada has a cat."}, headers=sent).status_code == status
    without = at.http.post("/memories", data={"content": "Ada has a dog."}, headers=at.own())
    assert without.status_code == 403
    assert "dog" not in at.http.get("/memories").text


def test_nobody_is_signed_in_by_another_site(server: Running) -> None:
    key = server.key()
    at = visitor(server)
    assert at.http.post("/sign-in", data={"key": key}, headers=at.own()).status_code == 403
    page = at.http.get("/sign-in")
    sent = {"token": token(page), "key": key}
    assert at.http.post("/sign-in", data=sent, headers={"origin": "https://evil.example"}).status_code == 403
    assert visitor(server).http.post("/sign-in", data=sent, headers=at.own()).status_code == 403
    assert at.http.post("/sign-in", data=sent, headers=at.own()).status_code == 303


def test_a_revoked_key_is_signed_out_at_once(server: Running) -> None:
    key = server.key("alice")
    at = visitor(server, key)
    assert at.http.get("/memories").status_code == 200
    server.service.keys.revoke(key[3:11])
    answer = at.http.get("/memories")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/memories")
    assert at.http.post("/memories", data={"content": "x"}, headers=at.own()).status_code == 303


def test_signing_out_takes_the_cookie_away(server: Running) -> None:
    at = visitor(server, server.key())
    answer = at.send("/sign-out", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert at.http.get("/").status_code == 303


def test_every_page_has_the_same_strict_headers(server: Running) -> None:
    at = visitor(server, server.key(rights=EVERYTHING))
    strange = ("/sign-in", "/memories/nothing", "/static/nothing.js", "/conversations/nothing")
    for path in (*PAGES, *strange):
        headers = at.http.get(path).headers
        assert headers["content-security-policy"] == CSP
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
    assert CSP == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


def test_too_many_requests_are_a_page_that_says_when(tmp_path: Path) -> None:
    from keepstone.errors import RateLimited

    class Few:
        def __init__(self) -> None:
            self.left = 3

        def take(self, id: str, per_minute: int) -> None:
            self.left -= 1
            if self.left < 0:
                raise RateLimited("too many requests: wait a moment.", retry_after=7)

    with Memory.open(tmp_path / "m.db") as memory, running(memory, rate_limiter=Few()) as server:
        at = visitor(server, server.key(rate=3))
        answers = [at.http.get("/memories") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[-1].headers["retry-after"] == "7"
        assert "Too many requests" in text(answers[-1])
