"""Values: scopes are checked and normalised, nothing can be changed in place, results are sequences."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone import types
from keepstone.errors import ValidationError
from keepstone.types import ACTIONS, NAME_LIMIT, Hit, Message, Page, Recall, Receipt, Record, Scope, clean_name

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(id: str = "m_1", **overrides: Any) -> Record:
    fields: dict[str, Any] = {
        "scope": Scope(), "kind": "fact", "tag": "general", "key": None, "content": "tea", "metadata": {}, "importance": 0.5,
        "source": "user", "trust": 0.9, "session": None, "role": None, "name": None, "occurred_at": NOON, "created_at": NOON,
        "updated_at": NOON, "valid_from": NOON, "valid_to": None, "expires_at": None, "last_accessed_at": None,
        "access_count": 0, "version": 1, "status": "active",
    }  # fmt: skip
    return Record(id=id, **(fields | overrides))


def test_a_scope_is_one_value_however_it_is_spelt() -> None:
    assert Scope() == Scope("local", "default", "")
    assert Scope(user="Cafe\u0301") == Scope(user="Café")
    assert hash(Scope(user="Cafe\u0301")) == hash(Scope(user="Café"))
    assert Scope(user="Café").user == "Café"
    assert Scope(user="dana") != Scope(user="Dana")
    assert Scope(tenant="a", agent="b") != Scope(tenant="b", agent="a")


def test_parts_of_a_scope_are_replaced_one_by_one() -> None:
    scope = Scope("t", "a", "u")
    assert scope.narrowed(user="v") == Scope("t", "a", "v")
    assert scope.narrowed(tenant="s", agent="b") == Scope("s", "b", "u")
    assert scope.narrowed(user="") == Scope("t", "a", "")
    assert scope.narrowed() == scope


@pytest.mark.parametrize("part", ["tenant", "agent", "user"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be text, got NoneType"),
        (5, "must be text, got int"),
        (b"x", "must be text, got bytes"),
        (" ", "is empty"),
        ("\u3000\t", "is empty"),
        ("a\0b", r"holds the character U\+0000 at position 1: remove control characters"),
        ("a\n", r"holds the character U\+000A at position 1"),
        ("\x7f", r"holds the character U\+007F at position 0"),
        ("ab\ud800", r"holds the character U\+D800 at position 2"),
        ("x" * (NAME_LIMIT + 1), "has 257 characters, the limit is 256: shorten it"),
    ],
)
def test_what_cannot_name_a_scope(part: str, value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=f"^{part} {message}"):
        Scope(**{part: value})


def test_only_the_user_may_be_empty() -> None:
    assert Scope(user="").user == ""
    for part in ("tenant", "agent"):
        with pytest.raises(ValidationError, match=f"^{part} is empty: give it at least one visible character"):
            Scope(**{part: ""})


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs")), max_size=NAME_LIMIT // 4))
def test_a_clean_name_is_clean_already(rest: str) -> None:
    name = f"x{rest}"
    cleaned = clean_name(name, "tag")
    assert cleaned == unicodedata.normalize("NFC", name)
    assert clean_name(cleaned, "tag") == cleaned


def test_a_name_as_long_as_the_limit_is_taken() -> None:
    assert clean_name("é" * NAME_LIMIT, "tag") == "é" * NAME_LIMIT


@pytest.mark.parametrize("name", ["\u200b", "\u2060\ufeff", "\u202e"])
def test_a_name_needs_a_visible_character(name: str) -> None:
    with pytest.raises(ValidationError, match="at least one visible character"):
        clean_name(name, "user")


def test_no_value_can_be_changed_in_place() -> None:
    values = [each for each in vars(types).values() if dataclasses.is_dataclass(each)]
    assert len(values) > 10
    for kind in values:
        assert kind.__dataclass_params__.frozen, kind  # type: ignore[attr-defined]
        assert "__dict__" not in dir(kind), f"{kind} has no slots"
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().content = "coffee"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Scope().user = "dana"  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        Receipt("added", "m_1", 1).note = "x"  # type: ignore[attr-defined]


def test_a_changed_record_is_a_copy() -> None:
    first = record()
    second = first.with_(content="coffee", version=2)
    assert (first.content, second.content, second.version) == ("tea", "coffee", 2)
    assert second.with_(content="tea", version=1) == first


def test_a_recall_is_a_sequence_of_hits() -> None:
    hits = tuple(Hit(record(f"m_{n}"), 1 - n / 10, {"words": 0.1}) for n in range(4))
    recall = Recall("tea", hits, considered=9)
    assert isinstance(recall, Sequence)
    assert list(recall) == list(hits)
    assert (len(recall), recall[0], recall[-1], recall[1:3]) == (4, hits[0], hits[3], hits[1:3])
    assert hits[2] in recall
    assert recall.index(hits[1]) == 1
    assert list(reversed(recall)) == list(reversed(hits))
    assert (recall[0].id, recall[0].content) == ("m_0", "tea")
    with pytest.raises(IndexError):
        recall[4]


def test_an_empty_recall_is_false() -> None:
    assert not Recall("tea")
    assert list(Recall("tea")) == []


def test_a_page_is_a_sequence_of_records() -> None:
    records = (record("m_1"), record("m_2"))
    page = Page(records, "next")
    assert isinstance(page, Sequence)
    assert [each.id for each in page] == ["m_1", "m_2"]
    assert (len(page), page[1], page[:1], page.cursor) == (2, records[1], records[:1], "next")
    assert Page(()).cursor is None


def test_a_message_has_metadata_of_its_own() -> None:
    assert Message("user", "hi").metadata == {}
    assert Message("user", "hi").metadata is not Message("user", "hi").metadata


def test_actions_are_those_of_the_contract() -> None:
    assert ACTIONS == ("added", "merged", "updated", "superseded", "duplicate", "redacted", "quarantined", "refused")
