"""The key-value tier through Memory: set, value, category."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import TooLarge, ValidationError
from tests.surfaces.support import Clock, contents, everything, timed

VALUES: list[Any] = [
    None, True, False, 0, 1, -7, 2**53 + 1, 2**63 - 1, -(2**63), 0.1, -2.5e-300, 1e308, "", " ", "text", "null",
    "true", "1", '"quoted"',
    "{}", "dark\nmode \u202e🦉", [], {}, [1, [2, [3, None]]], {"a": {"b": [True, 1.5, "x", None]}}, {"": 1,
    "format": "json"}, ["\0", "\u2028"],
    {"z": 1, "a": 2},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_every_json_value_comes_back_exactly(path: Path, value: Any) -> None:
    with Memory.open(path) as memory:
        assert memory.set("k", value).action == "added"
        assert memory.set("k", value).action == "duplicate"
    with Memory.open(path) as memory:
        back = memory.value("k", "default")
        assert back == value
        assert type(back) is type(value)
        if isinstance(value, dict):
            assert list(back) == list(value), "the order of keys is kept"
        assert memory.upkeep.doctor().healthy


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, [-math.inf], b"x", {1, 2}, object(), {"a": {(1, 2): 3}}, "\ud800", ["\ud800"], "a\0b"]
)  # fmt: skip
def test_what_is_no_json_is_refused_and_the_old_value_stays(memory: Memory, value: Any) -> None:
    memory.set("k", "old")
    with pytest.raises(ValidationError):
        memory.set("k", value)
    assert memory.value("k") == "old"


def test_a_value_that_is_too_large_or_too_deep(memory: Memory) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(TooLarge):
        memory.set("k", "x" * 8_500_000)
    for value in (deep, cycle):
        with pytest.raises(ValidationError):
            memory.set("k", value)
    assert memory.value("k") is None


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, {True: 1}, (1, 2)])
def test_a_value_that_json_would_change_is_refused(memory: Memory, value: Any) -> None:
    with pytest.raises(ValidationError):
        memory.set("k", value)


def test_defaults(memory: Memory) -> None:
    assert memory.value("absent") is None
    assert memory.value("absent", 7) == 7
    memory.set("nothing", None)
    assert memory.value("nothing", 7) is None, "null was saved; that is not the same as nothing saved"
    memory.forget(key="nothing")
    assert memory.value("nothing", 7) == 7


def test_the_old_value_stays_in_history(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        id = memory.set("theme", "light", tag="ui").id or ""
        then = clock.forward(days=1)
        receipt = memory.set("theme", {"mode": "dark"}, tag="ui")
        assert (receipt.action, receipt.id, receipt.version) == ("superseded", id, 2)
        clock.forward(days=1)
        assert memory.set("theme", ["dark", "light"], tag="look").version == 3
        assert contents(memory.history(id)) == ["light", '{"mode": "dark"}', '["dark", "light"]']
        assert memory.value("theme") == ["dark", "light"]
        assert contents(memory.recall("theme", as_of=then, min_similarity=0)) == ['{"mode": "dark"}']
        record = memory.get(id)
        assert record is not None
        assert (record.key, record.tag, record.version) == ("theme", "look", 3)
        assert memory.value(tag="ui") == {}
        assert memory.value(tag="look") == {"theme": ["dark", "light"]}
        assert len(everything(memory)) == 1


def test_recall_finds_a_value_by_the_words_of_its_key(memory: Memory) -> None:
    memory.set("ui_theme.preferred", "dark")
    memory.set("shipping-address", {"street": "Elm Street 4", "city": "Oslo"})
    memory.set("retries", 3)
    assert memory.recall("Which ui theme is preferred?")[0].record.key == "ui_theme.preferred"
    assert memory.recall("shipping address")[0].record.key == "shipping-address"
    assert memory.recall("What is the number of retries?")[0].content == "3"
    assert memory.recall("Elm Street")[0].record.key == "shipping-address"


def test_remember_with_a_key_and_set_share_their_keys(memory: Memory) -> None:
    memory.remember("by remember", key="k")
    assert memory.value("k") == "by remember"
    assert memory.set("k", [1]).action == "superseded"
    assert memory.value("k") == [1]
    assert memory.remember("[1]", key="k").action == "superseded"
    assert memory.value("k") == "[1]", "a text that looks like JSON is a text"


def test_a_value_whose_record_was_updated_can_still_be_read(memory: Memory) -> None:
    id = memory.set("k", {"a": 1}).id or ""
    memory.update(id, "no JSON at all")
    assert memory.value("k") == "no JSON at all"


def test_metadata_on_a_value_does_not_change_the_value(memory: Memory) -> None:
    id = memory.set("k", {"a": 1}).id or ""
    memory.update(id, metadata={"reviewed": True})
    assert memory.value("k") == {"a": 1}


def test_the_values_of_a_tag_are_a_dictionary_with_the_last_updated_first(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        for name in ("one", "two", "three"):
            memory.set(name, name, tag="cases")
            clock.forward(minutes=1)
        memory.remember("a lesson", tag="cases")
        memory.remember("elsewhere", tag="other")
        memory.remember("said", tag="cases", kind="message")
        clock.forward(minutes=1)
        memory.set("one", "one again", tag="cases")
        assert list(memory.value(tag="cases").items()) == [("one", "one again"), ("three", "three"), ("two", "two")]
        assert memory.value(tag="absent") == {}


def test_a_tag_with_many_values_comes_whole(memory: Memory) -> None:
    for at in range(0, 600, 100):
        memory.remember_many([{"content": f"fact {n}", "key": f"k{n}", "tag": "many"} for n in range(at, at + 100)])
    assert set(memory.value(tag="many").values()) == {f"fact {n}" for n in range(600)}


def test_value_takes_a_key_or_a_tag(memory: Memory) -> None:
    with pytest.raises(ValidationError, match="exactly one"):
        memory.value()
    with pytest.raises(ValidationError, match="exactly one"):
        memory.value("k", tag="t")
