"""SessionItems: a framework's items come back unchanged and in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keepstone import AsyncMemory, Client, Memory
from keepstone.errors import ConfigurationError, TooLarge, ValidationError
from keepstone.integrations.bridge import as_sync_memory, join_names, to_name
from keepstone.integrations.message_items import PIECE_CHARS, SessionItem, SessionItems

KEY = "sk-ant-api03-" + "a1B2c3D4" * 10
PROSE = "word and more words. " * 20_000
CARD = "My card is 4111 1111 1111 1111."
IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 90_000
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "I live in Lisbon."},
    {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": "{}"},
    {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]},
    {"odd": {"": 1, "nul": "a\0b", "half": "\ud800", "big": 2**70, "deep": [[[[[[[[[[[[]]]]]]]]]]]]}},
    {"": "long and odd " * 40_000},
    {"role": "assistant", "content": "Noted.", "score": 1.5, "none": None, "yes": True},
]


def said(item: dict[str, Any]) -> SessionItem:
    content = item.get("content")
    return SessionItem(item.get("role", "assistant"), content if isinstance(content, str) else "", item)


def test_items_come_back_as_they_were(either: Memory | Client) -> None:
    turns = SessionItems(either, "s1", of="test")
    stored = turns.add([said(item) for item in ITEMS])
    assert [turn.value for turn in turns.all()] == ITEMS
    assert [turn.value for turn in turns.all(last=3)] == ITEMS[-3:]
    assert [turn.id for turn in turns.all()] == [turn.id for turn in stored]
    assert len(turns) == len(ITEMS)
    assert [turns.get(turn.id or "").value for turn in stored] == ITEMS  # type: ignore[union-attr]
    assert turns.all(last=0) == []


def test_the_newest_is_taken_out_with_all_its_pieces(either: Memory | Client) -> None:
    turns = SessionItems(either, "s1", of="test")
    turns.add([said(item) for item in ITEMS])
    for item in reversed(ITEMS):
        popped = turns.pop()
        assert popped is not None
        assert popped.value == item
    assert turns.pop() is None
    assert list(either.conversation("s1")) == []


def test_what_is_said_is_recalled_and_what_is_done_is_not(either: Memory | Client) -> None:
    SessionItems(either, "s1", of="test").add([said(item) for item in ITEMS])
    assert either.recall("Where do I live?", kinds={"message"})[0].content == "I live in Lisbon."
    assert [hit.content for hit in either.recall("clock function call", min_similarity=0) if "clock" in hit.content] == []


def test_a_model_is_shown_what_was_said_alone(either: Memory | Client) -> None:
    SessionItems(either, "s1", of="test").add([said(ITEMS[0]), said(ITEMS[-1])])
    assert either.conversation("s1").messages() == [
        {"role": "user", "content": "I live in Lisbon."},
        {"role": "assistant", "content": "Noted."},
    ]


def test_messages_that_came_another_way_are_there_without_an_item(either: Memory | Client) -> None:
    either.conversation("s1").add("user", "Said elsewhere.")
    SessionItems(either, "s1", of="other").add([SessionItem("assistant", "By another framework.", {"x": 1})])
    found = SessionItems(either, "s1", of="test").all()
    assert [(turn.role, turn.text, turn.value) for turn in found] == [
        ("user", "Said elsewhere.", None),
        ("assistant", "By another framework.", None),
    ]


def test_sessions_are_kept_apart_and_cleared_alone(either: Memory | Client) -> None:
    one, two = SessionItems(either, "s\n1", of="test"), SessionItems(either, "s 1", of="test")
    one.add([said(ITEMS[0])])
    two.add([said(ITEMS[-1])])
    one.clear()
    assert one.all() == []
    assert [turn.value for turn in two.all()] == [ITEMS[-1]]


def test_what_cannot_be_kept_is_said(either: Memory | Client) -> None:
    turns = SessionItems(either, "s1", of="test")
    with pytest.raises(ValidationError, match="not JSON"):
        turns.add([SessionItem("user", "x", {"x": object()})])
    with pytest.raises(TooLarge, match="split it"):
        turns.add([SessionItem("user", "x", {"x": list(range(60_000))})])
    assert turns.all() == []


def test_an_item_that_the_policy_refuses_is_not_lost_in_silence(path: Path) -> None:
    with Memory.open(path, settings={"sensitive": {"card": "refuse"}}) as memory:
        turns = SessionItems(memory, "s1", of="test")
        with pytest.raises(ValidationError, match="was refused"):
            turns.add([SessionItem("user", "My card is 4111 1111 1111 1111.", {"n": 1})])
        assert turns.all() == []


# Numbers that cannot be a card's, under keys that do not name one: those would be taken out, as they should.
NUMBERS = st.integers(-9999, 9999) | st.sampled_from([2**63, -(2**70)]) | st.floats(-99, 99)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz\0é ", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text("abc \0é\n", max_size=9), JSON), max_size=4))
def test_any_json_in_any_order(items: list[tuple[str, Any]]) -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        turns = SessionItems(memory, "s", of="test")
        turns.add([SessionItem("user", text, {"value": value}) for text, value in items])
        assert [turn.value for turn in turns.all()] == [{"value": value} for _, value in items]


@pytest.mark.parametrize("name", ["thread-1", "", " ", "a\nb", "x" * 300, "cafe\u0301", "a#b", "\ud800", "👩‍💻"])
def test_any_text_names_a_session(name: str) -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        SessionItems(memory, name, of="test").add([SessionItem("user", "hello", {"n": name.encode("utf-8", "replace").decode()})])
        assert len(SessionItems(memory, name, of="test")) == 1
        assert len({to_name(each) for each in (name, name + "!", "other")}) == 3


def test_what_a_memory_may_be() -> None:
    async_memory = AsyncMemory.open(":memory:")
    assert isinstance(as_sync_memory(async_memory), Memory)
    as_sync_memory(async_memory).close()
    with pytest.raises(ConfigurationError, match=r"pass a keepstone\.Memory"):
        as_sync_memory("agent.db")


@pytest.mark.parametrize("said", [f"token:\n{KEY}", f'password="{KEY}"', f"\t{KEY}"], ids=["line", "quotes", "tab"])
@pytest.mark.parametrize("odd", [{"x": "a\0b"}, {"": 1}, {"x": 2**70}, {"x": "\ud800"}], ids=["nul", "key", "number", "half"])
def test_escaped_data_is_screened_for_secrets(odd: dict[str, Any], said: str) -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        turns = SessionItems(memory, "s", of="test")
        turns.add([SessionItem("tool", "", {**odd, "output": said})])
        (kept,) = [turn.value for turn in turns.all()]
        assert KEY not in json.dumps(kept)
        assert "redacted" in kept["output"]
        assert {name: each for name, each in kept.items() if name != "output"} == odd


@pytest.mark.parametrize("before", range(1, len(KEY), 17))
def test_a_secret_is_not_cut_where_a_long_text_is_divided(before: int) -> None:
    text = f"{PROSE[: PIECE_CHARS - before - 5]} key {KEY} {PROSE}"
    with Memory.open(":memory:", embedder="none") as memory:
        turns = SessionItems(memory, "s", of="test")
        turns.add([SessionItem("tool", "", {"output": text})])
        (kept,) = [turn.value["output"] for turn in turns.all()]
        assert KEY not in kept
        assert kept.replace("[redacted:secret]", KEY) == text


def test_a_long_text_without_spaces_comes_back(everywhere: Memory | Client) -> None:
    value = {"image": "A" * 700_000, "mixed": "\0" + "é" * 300_000, "deep": [[[[[[[["\0"]]]]]]]]}
    turns = SessionItems(everywhere, "s", of="test")
    turns.add([SessionItem("tool", "", value)])
    assert [turn.value for turn in turns.all()] == [value]


def test_an_item_that_is_too_large_stores_nothing_of_its_call(everywhere: Memory | Client) -> None:
    turns = SessionItems(everywhere, "s", of="test")
    with pytest.raises(TooLarge):
        turns.add([SessionItem("tool", "", {"o": "y" * 300_000}), SessionItem("user", "x", {"x": list(range(60_000))})])
    assert list(everywhere.conversation("s")) == []


@pytest.mark.parametrize("fine", [1, 120])
def test_a_refused_item_stores_nothing_of_its_call(path: Path, fine: int) -> None:
    with Memory.open(path, settings={"sensitive": {"card": "refuse"}}, embedder="none") as memory:
        turns = SessionItems(memory, "s", of="test")
        turns.add([SessionItem("user", "from before", {"n": -1})])
        with pytest.raises(ValidationError, match="was refused"):
            turns.add(
                [
                    *(SessionItem("user", f"number {n}", {"n": n}) for n in range(fine)),
                    SessionItem("user", CARD, {}),
                    SessionItem("user", "x", {}),
                ]
            )
        with pytest.raises(ValidationError, match="was refused"):
            turns.add([SessionItem("tool", "", {"o": "z" * 300_000 + f" {CARD} "})])
        assert [turn.text for turn in turns.all()] == ["from before"]
        assert len(list(memory.conversation("s"))) == 1


def test_joined_names_are_unambiguous() -> None:
    names = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "b", "c"), ("a%2Fb/c",)]
    assert len({join_names(*each) for each in names}) == len(names)
