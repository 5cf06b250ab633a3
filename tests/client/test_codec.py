"""What travels: every value comes back from its JSON as it was, and what JSON would change is refused."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from keepstone import Client
from keepstone.client.codec import encode_body, encode_query, item, message, path_segment, read, seconds, when
from keepstone.client.transport import authorization_header, header, parse_url
from keepstone.conversation.flow import Built
from keepstone.errors import ConfigurationError, ServerError, ValidationError
from keepstone.learning.jobs import WorkReport
from keepstone.maintenance.audit import Diff
from keepstone.maintenance.checkup import FixReport
from keepstone.maintenance.compaction import CompactReport
from keepstone.maintenance.health import HealthReport
from keepstone.maintenance.policy import RunReport
from keepstone.maintenance.reembedding import ReembedReport
from keepstone.maintenance.retention import ArchiveReport, PurgeReport
from keepstone.maintenance.verification import VerifyReport
from keepstone.ports.maintenance import ArchivedRecord, ChainReport, Flag, ReviewItem
from keepstone.ports.queue import Job, Session
from keepstone.ports.serialize import document
from keepstone.tasks.flow import Task
from keepstone.types import (
    AuditRow,
    Diagnosis,
    Explanation,
    ForgetReceipt,
    Hit,
    ImportReport,
    Message,
    Page,
    Recall,
    Receipt,
    Record,
    Scope,
    Usage,
    Version,
)
from keepstone.vector_sync.indexing import Repaired

VALUES = (
    Scope, Record, Message, Version, Hit, Recall, Usage, Receipt, ForgetReceipt, Page, AuditRow, Explanation, ImportReport,
    Diagnosis, ArchivedRecord, Flag, ReviewItem, ChainReport, Session, Job, Built, Diff, ArchiveReport, PurgeReport,
    CompactReport,
    VerifyReport, FixReport, HealthReport, ReembedReport, Repaired, WorkReport, RunReport, Task,
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
NAMES = st.text("abc é:./", min_size=1, max_size=6).filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**62), 2**62),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(datetime(1900, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC)),
    Any: JSON,
    object: JSON,
    type(None): st.none(),
    Scope: st.builds(Scope, NAMES, NAMES, NAMES | st.just("")),
}


def of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, by its hints."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        whole = st.fixed_dictionaries({each.name: of(hints[each.name]) for each in fields(kind)})
        return whole.map(lambda held: kind(**held))  # type: ignore[operator]
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([of(each) for each in inner])
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(of(inner[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of, inner))
    if origin in (list, Sequence):
        return st.lists(of(inner[0]), max_size=2)
    assert origin in (dict, Mapping), kind
    return st.dictionaries(TEXT, of(inner[1]), max_size=2)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=25)
@given(data=st.data())
def test_a_value_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    value = data.draw(of(kind))
    assert read(kind, json.loads(to_json(document(value)))) == value


@pytest.mark.parametrize("kind", VALUES)
def test_what_a_newer_server_adds_is_left_alone_and_what_is_missing_is_said(kind: type) -> None:
    needed = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    if needed:
        with pytest.raises(ServerError, match=kind.__name__):
            read(kind, {})
    for nonsense in ([], "text", 5, None):
        with pytest.raises(ServerError, match=kind.__name__):
            read(kind, nonsense)


def test_more_fields_than_are_known() -> None:
    assert read(Receipt, {"action": "added", "id": "m_1", "version": 1, "new": {"thing": 1}}) == Receipt("added", "m_1", 1)
    with pytest.raises(ServerError, match="Receipt"):
        read(Receipt, {"action": "added", "id": "m_1", "version": "1"})
    with pytest.raises(ServerError, match="Receipt"):
        read(Receipt, {"action": "added", "id": "m_1", "version": True})


@given(held=st.dictionaries(TEXT, JSON, max_size=3))
def test_json_is_sent_as_it_is(held: dict[str, Any]) -> None:
    assert json.loads(encode_body(held)) == held


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), b"x", {1}, (1, 2), {1: 2}, object(), datetime.now(UTC), {"a": [{"b": (1,)}]}]
)
def test_what_json_would_change_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValidationError, match="metadata"):
        encode_body({"metadata": value})


def test_half_a_character_is_sent_for_the_server_to_refuse() -> None:
    assert json.loads(encode_body({"content": "a\ud800"})) == {"content": "a\ud800"}


def test_times_and_lengths_of_time() -> None:
    assert when(datetime(2026, 3, 1, tzinfo=UTC)) == "2026-03-01T00:00:00+00:00"
    assert (when("2026"), when(None)) == ("2026", None)
    assert (seconds(timedelta(minutes=1)), seconds(5), seconds(None)) == (60.0, 5, None)
    sent = item({"content": "x", "ttl": timedelta(hours=1), "occurred_at": datetime(2026, 3, 1, tzinfo=UTC), "source": "user"})
    key = sent.pop("idempotency_key")
    assert sent == {"content": "x", "ttl": 3600.0, "occurred_at": "2026-03-01T00:00:00+00:00", "source": None}
    assert key != item("x")["idempotency_key"], "each write has its own"
    assert item({"content": "x", "idempotency_key": "mine"})["idempotency_key"] == "mine"


def test_a_message_is_sent_without_its_id() -> None:
    said = message(Message("user", "hello", at=datetime(2026, 3, 1, tzinfo=UTC), id="m_1"))
    assert said == {"role": "user", "content": "hello", "name": None, "at": "2026-03-01T00:00:00+00:00", "metadata": {}}
    with pytest.raises(ValidationError, match="a message is a str"):
        message("hello")  # type: ignore[arg-type]


def test_what_stands_in_a_query() -> None:
    assert encode_query(a=None, b=True, c=3, d="x y", e=["p", "q"]) == {"b": "true", "c": "3", "d": "x y", "e": ["p", "q"]}
    with pytest.raises(ValidationError, match="words"):
        encode_query(words="\ud800")


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("a", "a"), (".", "%2E"), ("..", "%2E%2E"), ("a/b", "a%2Fb"), ("../x", "..%2Fx"), ("a b?c#d", "a%20b%3Fc%23d"),
        ("é", "%C3%A9"), ("%2e", "%252e"), ("a.b", "a.b"),
    ],
)  # fmt: skip
def test_a_part_of_a_path_is_encoded(name: str, encoded: str) -> None:
    assert path_segment(name) == encoded


@pytest.mark.parametrize("url", ["", "localhost:8700", "ftp://host", "http://", "http://host:99999", "http://u:p@host", None, 5])
def test_an_address_that_is_none(url: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_url(url)
    assert "u:p" not in str(caught.value)


def test_an_address_loses_its_last_slash() -> None:
    assert parse_url(" http://host:8700/ ") == "http://host:8700"
    assert parse_url("https://host/memory/") == "https://host/memory"


@pytest.mark.parametrize("key", ["", " ", "two words", "new\nline", "ключ"])
def test_a_key_that_is_none_is_not_repeated(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        authorization_header(key)
    assert not key.strip() or key not in str(caught.value)


def test_names_travel_as_utf_8() -> None:
    assert header("X-Keepstone-User", "Zoë") == (b"X-Keepstone-User", "Zoë".encode())
    for name in ("", " x", "x ", "a\nb", "\ud800"):
        with pytest.raises(ValidationError, match="user"):
            header("X-Keepstone-User", name)


def test_a_client_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEEPSTONE_URL", "KEEPSTONE_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="KEEPSTONE_URL"):
        Client(key="ks_x")
    with pytest.raises(ConfigurationError, match="KEEPSTONE_KEY"):
        Client("http://127.0.0.1:9")
    for timeout in (0, -1, True, "5", float("inf")):
        with pytest.raises(ConfigurationError, match="timeout"):
            Client("http://127.0.0.1:9", "ks_x", timeout=timeout)  # type: ignore[arg-type]
    monkeypatch.setenv("KEEPSTONE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("KEEPSTONE_KEY", "ks_x")
    with Client(agent="coder") as client:
        assert repr(client) == "Client('http://127.0.0.1:9', agent='coder')"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    with pytest.raises(ConfigurationError, match=r"pip install .*\[client\]'"):
        Client("http://127.0.0.1:9", "ks_x")
