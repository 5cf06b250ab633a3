"""Both buffers keep the contract, and a store behind either is the store: pages, receipts and limits are its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.buffers import redis as redis_buffer
from keepstone.buffers.buffered import BufferedStore, within
from keepstone.buffers.memory import MemoryBuffer
from keepstone.buffers.redis import RedisBuffer
from keepstone.buffers.registry import make_buffer
from keepstone.errors import ConfigurationError
from keepstone.ports.caches import Buffer, Window
from keepstone.ports.values import Write
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.buffers import BufferContract, window
from keepstone.testing.builders import AWAY, HOME, NOON, draft
from keepstone.testing.stores.changing import ForgettingContract, RedactingContract
from keepstone.testing.stores.message_log import MessageLogContract
from keepstone.types import Record, Scope
from tests.contracts.store_rules.any_order import ANY_ORDER
from tests.contracts.store_rules.changing import ChangingRules
from tests.contracts.store_rules.message_log import MessageLogRules
from tests.faults.support import run
from tests.server_processes import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def plain(server: RedisServer) -> Iterator[Any]:
    """A client of an empty Redis."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def shared(server: RedisServer, plain: Any) -> Iterator[RedisBuffer]:
    """A buffer in an empty Redis, on a machine that may be busy."""
    buffer = RedisBuffer(server.url, timeout=10)
    yield buffer
    buffer.close()


class Clock:
    """Seconds, for a buffer, and a time of day, for a store, that pass together when they are told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> Any:
        return NOON + timedelta(seconds=self.seconds)


# -- random windows -------------------------------------------------------------------------------------------------
_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
_times = st.datetimes(datetime(1900, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC)).map(lambda at: at.replace(fold=0))
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
records = st.builds(
    Record,
    id=_text, scope=st.just(HOME), kind=_text, tag=_text, key=st.none() | _text, content=_text,
    metadata=st.dictionaries(_text, _plain, max_size=3), importance=st.floats(0, 1), source=_text, trust=st.floats(0, 1),
    session=st.none() | _text, role=st.none() | _text, name=st.none() | _text, occurred_at=_times, created_at=_times,
    updated_at=_times, valid_from=_times, valid_to=st.none() | _times, expires_at=st.none() | _times,
    last_accessed_at=st.none() | _times, access_count=st.integers(0, 2**63), version=st.integers(1, 2**31),
    status=st.sampled_from(["active", "quarantined", "archived"]), parents=st.lists(_text, max_size=3).map(tuple),
    embedded=st.booleans(), blocks=st.none() | st.lists(st.dictionaries(_text, _plain, max_size=2), max_size=2).map(tuple),
    sensitive=st.lists(_text, max_size=2).map(tuple),
)  # fmt: skip
windows = st.builds(
    Window,
    number=st.integers(1, 2**62),
    messages=st.lists(st.tuples(st.integers(1, 2**62), records), max_size=3).map(tuple),
    complete=st.booleans(),
)


class AnyWindow(BufferContract):
    @settings(ANY_ORDER, max_examples=60)
    @given(windows)
    def test_any_window_comes_back_exactly_in_the_place_of_the_one_before(self, buffer: Buffer, kept: Window) -> None:
        buffer.put(HOME, "s", kept)
        found = buffer.window(HOME, "s")
        assert repr(found) == repr(kept)  # 1, 1.0 and True are equal and not the same
        assert found == kept == buffer.window(HOME, "s")
        assert buffer.problem is None


class TestMemoryBuffer(AnyWindow):
    @pytest.fixture
    def buffer(self) -> Buffer:
        return MemoryBuffer()


class TestRedisBuffer(AnyWindow):
    @pytest.fixture
    def buffer(self, shared: RedisBuffer) -> Buffer:
        return shared


# -- a store behind a buffer --------------------------------------------------------------------------------------
class TestStoreBehindMemory(MessageLogContract, ForgettingContract, RedactingContract, ChangingRules, MessageLogRules):
    @pytest.fixture
    def store(self) -> Iterator[Any]:
        store = BufferedStore(SqliteStore.open(":memory:"), MemoryBuffer(bound=3))
        yield store
        store.close()


class TestStoreBehindRedis(MessageLogContract, ForgettingContract, RedactingContract, ChangingRules, MessageLogRules):
    @pytest.fixture
    def store(self, tmp_path: Path, server: RedisServer, plain: Any) -> Iterator[Any]:
        buffer = RedisBuffer(server.url, bound=3, timeout=10)
        store = BufferedStore(SqliteStore.open(str(tmp_path / "memory.db")), buffer)
        yield store
        assert buffer.problem is None
        store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Any]:
    store = BufferedStore(SqliteStore.open(":memory:", clock=clock.now), MemoryBuffer(bound=4, clock=clock), clock.now)
    yield store
    store.close()


def say(store: Any, *texts: str, scope: Scope = HOME, **rest: Any) -> None:
    store.write(scope, [Write(draft(text, kind="message", session="s", vector=None, **rest)) for text in texts])


def heard(store: Any, **bounds: Any) -> list[str]:
    return [record.content for _, record in store.message_log.page(HOME, "s", **bounds)]


def test_a_page_is_read_from_the_buffer_while_nothing_has_happened(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    say(store, "a", "b")
    assert heard(store, limit=4) == ["a", "b"]
    reads: list[Any] = []
    inner = store._store.message_log
    page = inner.page
    monkeypatch.setattr(inner, "page", lambda *a, **k: reads.append(a) or page(*a, **k))
    assert heard(store, limit=1) == ["b"]
    assert heard(store, limit=4, oldest=True) == ["a", "b"]
    assert reads == []
    say(store, "c", scope=AWAY)
    assert heard(store, limit=4) == ["a", "b"]
    assert reads == []
    say(store, "c")
    assert heard(store, limit=4) == ["a", "b", "c"]
    assert len(reads) == 1


def test_what_a_page_gives_may_be_changed(store: Any) -> None:
    say(store, "a", metadata={"deep": [1]}, blocks='[{"type":"text","deep":[1]}]')
    for _ in range(3):
        ((_, record),) = store.message_log.page(HOME, "s", limit=1)
        assert (record.metadata, record.blocks) == ({"deep": [1]}, ({"type": "text", "deep": [1]},))
        record.metadata["deep"].append(2)
        record.blocks[0]["deep"].append(2)


def test_an_expired_message_is_not_served(store: Any, clock: Clock) -> None:
    say(store, "a", "b")
    say(store, "soon gone", expires_at=NOON + timedelta(seconds=60))
    assert heard(store, limit=2) == ["b", "soon gone"]
    clock.seconds = 59.9
    assert heard(store, limit=2) == ["b", "soon gone"]
    clock.seconds = 60
    assert heard(store, limit=2) == ["a", "b"]


@pytest.mark.parametrize(
    ("whole", "after", "before", "limit", "oldest", "found"),
    [
        (True, 0, None, 9, False, "abc"), (False, 0, None, 9, False, None), (False, 1, None, 9, False, None),
        (False, 2, None, 9, False, "abc"), (False, 0, None, 3, False, "abc"), (False, 0, None, 2, False, "bc"),
        (False, 0, 5, 2, False, "ab"), (False, 0, 5, 3, False, None), (False, 3, 5, 3, False, "b"), (False, 0, 2, 1, False, None),
        (True, 0, 2, 1, False, ""), (False, 5, None, 9, False, ""), (False, 99, None, 9, False, ""),
        (False, 0, None, 1, True, None), (True, 0, None, 1, True, "a"), (False, 2, None, 2, True, "ab"),
    ],
)  # fmt: skip
def test_what_a_window_can_tell(whole: bool, after: int, before: int | None, limit: int, oldest: bool, found: str | None) -> None:
    """One of messages at 3, 4 and 5."""
    page = within(window("a", "b", "c", whole=whole), after, before, limit, oldest)
    assert (None if page is None else "".join(record.content for _, record in page)) == found
    assert within(Window(9, (), whole), after, before, limit, oldest) == ([] if whole else None)


def test_two_stores_on_one_buffer_do_not_meet() -> None:
    buffer = MemoryBuffer()
    one, two = (BufferedStore(SqliteStore.open(":memory:"), buffer) for _ in range(2))
    say(one, "of one")
    say(two, "of two")
    assert one.audit_log.last(HOME) == two.audit_log.last(HOME), "else this shows nothing"
    assert (heard(one), heard(two), heard(one), heard(two)) == (["of one"], ["of two"], ["of one"], ["of two"])
    for each in (one, two):
        each.close()


# -- in this process ----------------------------------------------------------------------------------------------
def test_memory_expires(clock: Clock) -> None:
    buffer = MemoryBuffer(ttl=60, clock=clock)
    buffer.put(HOME, "s", window("hello"))
    for clock.seconds, found in ((0, window("hello")), (59.9, window("hello")), (60, None), (61, None)):
        assert buffer.window(HOME, "s") == found


def test_memory_is_bounded_and_what_was_used_last_stays() -> None:
    buffer = MemoryBuffer(max_bytes=100_000)
    large = window("x" * 20_000)
    for session in "abcd":
        buffer.put(HOME, session, large)
    assert buffer.window(HOME, "a") == large
    buffer.put(HOME, "e", large)
    assert [session for session in "abcde" if buffer.window(HOME, session)] == ["a", "c", "d", "e"]
    for number in range(200):
        buffer.put(AWAY, str(number), replace(large, number=number))
    assert 0 < sum(buffer.window(AWAY, str(number)) is not None for number in range(200)) < 5
    buffer.put(HOME, "a", window("x" * 100_000))
    assert buffer.window(HOME, "a") is None


FORKED = """
import json, os, sys
from keepstone.buffers.memory import MemoryBuffer
from keepstone.buffers.redis import RedisBuffer
from keepstone.testing.buffers import window
from keepstone.testing.builders import HOME
memory, shared = MemoryBuffer(), RedisBuffer(sys.argv[1], timeout=10)
for buffer in (memory, shared):
    buffer.put(HOME, "s", window("before"))
memory._lock.acquire()  # as another thread might, just then
read, write = os.pipe()
if os.fork() == 0:
    found = [buffer.window(HOME, "s") is not None for buffer in (memory, shared)]
    for buffer in (memory, shared):
        buffer.put(HOME, "child", window("child"))
    found += [buffer.window(HOME, "child") == window("child") for buffer in (memory, shared)]
    os.write(write, json.dumps(found).encode())
    os._exit(0)
os.wait()
memory._lock.release()
ours = [[buffer.window(HOME, session) is not None for session in ("s", "child")] for buffer in (memory, shared)]
print(json.dumps([json.loads(os.read(read, 1000)), ours, shared.problem]))
"""


def test_a_forked_child_has_its_own_memory_and_its_own_connections(server: RedisServer, plain: Any) -> None:
    child, parent, problem = run(FORKED, server.url)
    assert child == [False, True, True, True]
    assert parent == [[True, False], [True, True]]
    assert problem is None


# -- in Redis -----------------------------------------------------------------------------------------------------
def test_keys_tell_nobody_s_name_and_expire(shared: RedisBuffer, plain: Any) -> None:
    who = Scope("megacorp", "concierge", "dana@example.org")
    shared.put(who, "about-the-divorce", window("hello", scope=who))
    (key,) = plain.keys()
    names = key + b" ".join(plain.hkeys(key))
    assert key.startswith(b"keepstone:")
    assert not [part for part in (b"megacorp", b"concierge", b"dana", b"divorce", b"example") if part in names]
    assert 0 < plain.pttl(key) <= 3_600_000
    plain.pexpire(key, 50_000)
    shared.put(who, "another", window("hello", scope=who))
    assert 0 < plain.pttl(key) <= 50_000, "what was there first would be kept for longer than was promised"


def test_two_processes_share_what_is_kept(shared: RedisBuffer, server: RedisServer) -> None:
    other = RedisBuffer(server.url, timeout=10)
    stranger = RedisBuffer(server.url, space="another", timeout=10)
    shared.put(HOME, "s", window("hello"))
    assert other.window(HOME, "s") == window("hello")
    assert stranger.window(HOME, "s") is None
    assert other.clear(HOME)
    assert shared.window(HOME, "s") is None
    for each in (other, stranger):
        each.close()


@pytest.mark.parametrize(
    "value", [b"", b"\xff\x00", b"null", b"[]", b"{}", b"[1", b'[1,["local","default","dana"],5,true,[[1]]]']
)
def test_a_value_that_cannot_be_read_is_none(shared: RedisBuffer, plain: Any, value: bytes) -> None:
    shared.put(HOME, "s", window("hello"))
    (key,) = plain.keys()
    (field,) = [name for name in plain.hkeys(key) if name.startswith(b"w:")]
    plain.hset(key, field, value)
    assert shared.window(HOME, "s") is None
    shared.put(HOME, "s", window("again"))
    assert shared.window(HOME, "s") == window("again")


def test_another_version_and_another_scope_are_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    data = redis_buffer.pack_window(HOME, window("hello"))
    assert redis_buffer.unpack_window(HOME, data) == window("hello")
    assert redis_buffer.unpack_window(AWAY, data) is None
    parts = json.loads(data)
    assert redis_buffer.unpack_window(HOME, json.dumps([*parts, "more"]).encode()) is None
    monkeypatch.setattr(redis_buffer, "VERSION", redis_buffer.VERSION + 1)
    assert redis_buffer.unpack_window(HOME, data) is None


def test_the_codec_knows_every_field_of_a_record() -> None:
    names = tuple(field.name for field in fields(Record))
    assert (redis_buffer.FIELDS[0], "scope", *redis_buffer.FIELDS[1:]) == names, "raise VERSION, too"


def test_large_windows_are_not_kept(shared: RedisBuffer, plain: Any) -> None:
    shared.put(HOME, "s", window("small"))
    shared.put(HOME, "s", window(*(f"{n}" * 400_000 for n in range(3))))
    assert shared.window(HOME, "s") is None
    for number in range(30):
        shared.put(HOME, f"session {number}", window("x" * 400_000))
        assert shared.window(HOME, f"session {number}") is not None
    (key,) = plain.keys()
    assert 0 < sum(map(len, plain.hvals(key))) <= 17 * 2**20


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:6379", "localhost:6379", "redis:localhost", "redis://localhost:port", "redis://localhost:99999",
        "redis://localhost:0", "redis://localhost/cats", "redis://[::1", "unix://", "redis://localhost?colour=blue",
        "redis://localhost?db=cats", "redis://:s3cr3t", "redis://user:s3/cr3t@localhost", "redis://u:s3cr3t@localhost:x?password=s3cr3t",
        "redis://h?password=s3cr3t&db=x", "redis://localhost?ssl_cert_reqs=none", 5,
    ],
)  # fmt: skip
def test_a_url_that_cannot_work_is_refused_at_once(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="redis://localhost:6379/0") as refused:
        RedisBuffer(url)
    assert "cr3t" not in str(refused.value)


def test_a_name_has_no_password() -> None:
    names = [RedisBuffer(url).name for url in ("redis://u:s3cr3t@[::1]:7/2", "rediss://:s3cr3t@host", "unix:///run/r.sock?db=3")]
    assert names == ["redis at [::1]:7", "redis at host:6379", "redis at /run/r.sock"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"pip install .*\[redis\]'"):
        make_buffer("redis://localhost", bound=9, ttl=60)


# -- which buffer -------------------------------------------------------------------------------------------------
def test_what_a_setting_stands_for() -> None:
    for spec in (None, "memory"):
        made = make_buffer(spec, bound=9, ttl=60)
        assert isinstance(made, MemoryBuffer)
        assert (made.bound, made.ttl) == (9, 60)
    for url in ("redis://localhost", "rediss://localhost:7", "unix:///run/redis.sock"):
        made = make_buffer(url, bound=9, ttl=60)
        assert isinstance(made, RedisBuffer)
        assert (made.bound, made.ttl, made.problem) == (9, 60, None)
    own = MemoryBuffer()
    assert make_buffer(own, bound=9, ttl=60) is own


@pytest.mark.parametrize("spec", ["", "disk", "http://u:s3cr3t@host", 7, object(), MemoryBuffer, {"url": "redis://localhost"}])
def test_what_no_setting_stands_for(spec: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"memory.*redis://localhost:6379/0.*window") as refused:
        make_buffer(spec, bound=9, ttl=60)
    assert "s3cr3t" not in str(refused.value)
