"""Requests a minute: what a key may make, what it is told when it has made them, and that no key waits for another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.errors import RateLimited
from keepstone.server.rate_limit import RateLimiter
from keepstone.server.tokens import make_verifier
from tests.server.issuer import AUDIENCE, FIRST, issuing
from tests.server.running import Running, running


class Ticks:
    """Seconds that are moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(buckets: RateLimiter, id: str, per_minute: int, most: int = 10_000) -> int:
    """Requests that are let through until one is refused."""
    for count in range(most):
        try:
            buckets.take(id, per_minute)
        except RateLimited:
            return count
    return most


def test_a_minutes_requests_may_come_at_once_and_then_go_on_at_their_rate() -> None:
    buckets = RateLimiter(ticks=(ticks := Ticks()))
    assert taken(buckets, "a", 60) == 60
    assert taken(buckets, "a", 60) == 0
    ticks.now += 1
    assert taken(buckets, "a", 60) == 1
    ticks.now += 10
    assert taken(buckets, "a", 60) == 10
    ticks.now += 100_000
    assert taken(buckets, "a", 60) == 60, "a bucket holds no more than a minute's"


@pytest.mark.parametrize("per_minute", [1, 7, 60, 599])
def test_whoever_waits_as_long_as_was_said_is_let_through(per_minute: int) -> None:
    buckets = RateLimiter(ticks=(ticks := Ticks()))
    assert taken(buckets, "a", per_minute) == per_minute
    for _ in range(20):
        with pytest.raises(RateLimited, match=f"{per_minute} requests per minute") as limited:
            buckets.take("a", per_minute)
        assert 0 < limited.value.retry_after <= 60
        ticks.now += limited.value.retry_after
        buckets.take("a", per_minute)


def test_refused_requests_cost_nothing() -> None:
    buckets = RateLimiter(ticks=(ticks := Ticks()))
    assert taken(buckets, "a", 6) == 6
    for _ in range(100):
        ticks.now += 0.01
        with pytest.raises(RateLimited):
            buckets.take("a", 6)
    ticks.now += 9
    buckets.take("a", 6)


def test_one_keys_limit_is_not_anothers() -> None:
    buckets = RateLimiter(ticks=Ticks())
    assert taken(buckets, "a", 3) == 3
    assert taken(buckets, "b", 5) == 5
    assert taken(buckets, "a", 3) == 0


def test_several_processes_share_a_limit() -> None:
    workers = [RateLimiter(workers=4, ticks=Ticks()) for _ in range(4)]
    assert sum(taken(each, "a", 100) for each in workers) == 100
    assert taken(RateLimiter(workers=4, ticks=Ticks()), "a", 2) == 1, "one of many callers is not refused"
    one = RateLimiter(workers=4, ticks=(ticks := Ticks()))
    assert taken(one, "a", 60) == 15
    ticks.now += 8
    assert taken(one, "a", 60) == 2


def test_idle_ids_are_dropped_and_busy_ones_are_not() -> None:
    buckets = RateLimiter(ticks=(ticks := Ticks()))
    for n in range(1000):
        buckets.take(f"idle {n}", 60)
    ticks.now += 61
    assert taken(buckets, "busy", 600) == 600
    assert len(buckets) == 1
    assert taken(buckets, "busy", 600) == 0


def test_there_are_never_more_ids_than_may_be_held() -> None:
    buckets = RateLimiter(ticks=Ticks(), max_ids=50)
    for n in range(500):
        buckets.take("busy", 1000)
        buckets.take(f"new {n}", 60)
    assert len(buckets) == 50
    assert taken(buckets, "busy", 1000) == 500, "a busy caller keeps its bucket"


def test_threads_together_take_no_more_than_there_is() -> None:
    buckets = RateLimiter(ticks=Ticks())
    start = threading.Barrier(8)

    def spend() -> int:
        start.wait(120)
        return taken(buckets, "a", 500)

    with ThreadPoolExecutor(8) as pool:
        counts = [each.result(30) for each in [pool.submit(spend) for _ in range(8)]]
    assert sum(counts) == 500


# -- over HTTP ----------------------------------------------------------------------------------------------------
@pytest.fixture
def limited(tmp_path: Path) -> Iterator[tuple[Running, Ticks]]:
    """A server that counts, ten requests per minute unless a key says otherwise."""
    settings, ticks = {"requests_per_minute": 10}, Ticks()
    with (
        Memory.open(tmp_path / "m.db", settings=settings) as memory,
        running(memory, rate_limiter=RateLimiter(ticks=ticks)) as made,
    ):
        yield made, ticks


def test_a_key_that_has_spent_its_minute_is_told_when_to_come_again(limited: tuple[Running, Ticks]) -> None:
    server, ticks = limited
    slow, other = server.http(server.key("slow", rate=2)), server.http(server.key("other"))
    assert [slow.get("/v1/memories").status_code for _ in range(3)] == [200, 200, 429]
    refused = slow.post("/v1/memories", json={"content": "one too many"})
    assert (refused.status_code, refused.headers["content-type"]) == (429, "application/problem+json")
    assert (refused.json()["error"], refused.headers["retry-after"]) == ("RateLimited", "30")
    assert [other.get("/v1/memories").status_code for _ in range(11)] == [200] * 10 + [429]  # the server's setting
    ticks.now += 30
    assert [slow.get("/v1/memories").status_code for _ in range(2)] == [200, 429]
    assert slow.get("/v1/memories").json()["error"] == "RateLimited"
    ticks.now += 60
    assert slow.get("/v1/memories").json()["records"] == [], "nothing was written by what was refused"


def test_two_keys_of_one_user_have_a_limit_each(limited: tuple[Running, Ticks]) -> None:
    server, _ = limited
    first, second = (server.http(server.key("dana", rate=1)) for _ in range(2))
    assert [first.get("/v1/memories").status_code for _ in range(2)] == [200, 429]
    assert second.get("/v1/memories").status_code == 200


def test_wrong_keys_are_refused_however_many_and_slow_nobody(limited: tuple[Running, Ticks]) -> None:
    server, _ = limited
    nobody, dana = server.http("ks_00000000_nothing"), server.http(server.key("dana"))
    assert {nobody.get("/v1/memories").status_code for _ in range(30)} == {401}
    assert dana.get("/v1/memories").status_code == 200


def test_tokens_of_one_user_share_a_limit(tmp_path: Path) -> None:
    with issuing() as issuer:
        issuer.has(FIRST)
        settings = {"token_issuer": issuer.url, "token_audience": AUDIENCE, "requests_per_minute": 3}
        with Memory.open(tmp_path / "memory.db", settings=settings) as memory:
            engine = memory._engine
            verifier = make_verifier(engine.settings, "")
            with running(memory, verifier=verifier, rate_limiter=RateLimiter(ticks=Ticks())) as server:
                tokens = [FIRST.sign(issuer.claims(engine.clock(), jti=str(n))) for n in range(4)]
                assert [server.http(each).get("/v1/memories").status_code for each in tokens] == [200, 200, 200, 429]
                erik = FIRST.sign(issuer.claims(engine.clock(), sub="erik"))
                assert server.http(erik).get("/v1/memories").status_code == 200


def test_a_request_with_a_body_is_counted_once(tmp_path: Path) -> None:
    from keepstone.server.rate_limit import RateLimiter

    with Memory.open(tmp_path / "memory.db") as memory, running(memory, rate_limiter=RateLimiter(ticks=lambda: 0.0)) as server:
        http = server.http(server.key("dana", rate=2))
        answers = [http.post("/v1/recall", json={"query": "x"}).status_code for _ in range(3)]
    assert answers == [200, 200, 429]


def test_a_key_without_a_rate_has_one_by_default(tmp_path: Path) -> None:
    ticks = Ticks()
    with Memory.open(tmp_path / "memory.db") as memory, running(memory, rate_limiter=RateLimiter(ticks=ticks)) as server:
        identity = server.service.keys.check(server.key())
        for _ in range(6000):
            server.service.count_request(identity)
        with pytest.raises(RateLimited):
            server.service.count_request(identity)


def test_refusals_without_end_leave_a_bounded_number_of_audit_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit log is permanent: a key that may only read must not fill it."""
    with Memory.open(tmp_path / "memory.db") as memory, running(memory) as server:
        key = server.key("rita", rights=("read",))
        http, own = server.http(key), memory.with_scope(user="rita")
        for at in range(150):
            assert http.post("/v1/memories", json={"content": f"Note {at}."}).status_code == 403
            assert http.get(f"/v1/memories/m_{at:016}").status_code == 404
        rows = [row for row in own.audit(limit=1000) if row.action == "denied" and row.verb == "key"]
        assert len(rows) == 61
        assert "further refusals of this hour are counted" in rows[0].reasons[0]
        start, count = server.service._denials[server.service.keys.check(key).id, own.scope]
        monkeypatch.setitem(server.service._denials, (server.service.keys.check(key).id, own.scope), (start - 3601, count))
        assert http.post("/v1/memories", json={"content": "Once more."}).status_code == 403
        assert "90 more refusals in the hour before" in own.audit(limit=5)[1].reasons[0]
