"""A conversation taken elsewhere and back: everything or nothing, and the same as it was."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone import AsyncMemory, Memory
from keepstone.errors import KeepstoneError, ValidationError
from tests.conversation.test_window import IMAGE, result, text, use
from tests.surfaces.support import contents
from tests.surfaces.test_conversation import EXCHANGE


def filled(memory: Memory, session: str = "s") -> dict[str, Any]:
    """An export with one of everything, a summary among it."""
    talk = memory.conversation(session, max_messages=4)
    talk.add("system", "Be brief.")
    talk.add("user", "My account number is DE44-5001-0517.", name="Ada", at=datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC))
    for role, content in EXCHANGE:
        talk.add(role, content, topic="weather", n={"deep": [1, 2.5, None, {"x": "漢字"}]})
    talk.add("tool", "raw output \n\t with  blanks ")
    talk.messages()
    return talk.export()


# -- out and in ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("as_text", [False, True])
def test_export_import_round_trip_is_exact(path: Path, tmp_path: Path, as_text: bool) -> None:
    with Memory.open(path) as memory:
        first = filled(memory)
        kept = [(each.role, each.content, each.name, each.at, each.metadata) for each in memory.conversation("s")]
        shown = memory.conversation("s", max_messages=4).messages()
    assert (first["keepstone"], first["session"], len(first["messages"])) == (1, "s", 7)
    assert first["summary"]["text"]
    assert json.loads(json.dumps(first)) == first, "plain data"
    with Memory.open(tmp_path / "other.db") as memory:
        talk = memory.conversation("s", max_messages=4)
        assert talk.import_(json.dumps(first) if as_text else first) == 7
        assert talk.export() == first
        assert [(each.role, each.content, each.name, each.at, each.metadata) for each in talk] == kept
        assert talk.messages() == shown, "the summary came along and was not made again"


def test_an_import_is_appended_and_the_summary_of_what_was_there_stays_right(memory: Memory) -> None:
    exported = filled(memory)
    talk = memory.conversation("full", max_messages=4)
    talk.add("user", "We decided to meet at the Grand Hotel.")
    assert talk.import_(exported) == 7
    assert len(talk) == 8
    made = str(talk.messages())
    assert "Grand Hotel" in made
    assert "DE44-5001-0517" in made
    assert talk.last(1)[0].content == "raw output \n\t with  blanks "


def test_an_import_into_another_scope_takes_nothing_else_along(memory: Memory) -> None:
    memory.remember("A fact that is no message.")
    exported = filled(memory)
    other = memory.with_scope(user="other")
    other.conversation("s").import_(exported)
    assert len(other.conversation("s")) == 7
    assert {each.kind for each in other.list(limit=100)} == {"message"}, "nothing is learned from an import"
    assert contents(other.recall("What is my account number?", limit=1)) == ["My account number is DE44-5001-0517."]


def test_an_empty_conversation_moves_too(memory: Memory) -> None:
    exported = memory.conversation("empty").export()
    assert exported == {"keepstone": 1, "session": "empty", "messages": [], "summary": None}
    assert memory.conversation("other").import_(exported) == 0


# -- broken -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "data",
    [
        "", "{", "[]", "null", '"text"', "{}", '{"keepstone": 1}', '{"keepstone": 2, "messages": []}', "[" * 100_000,
        {"keepstone": 1, "messages": {}}, {"keepstone": "1", "messages": []}, {"messages": []}, [], None, 5,
    ],
    ids=lambda data: repr(data)[:20],
)  # fmt: skip
def test_import_of_what_is_no_export_says_so(memory: Memory, data: Any) -> None:
    with pytest.raises(ValidationError, match=r"not an exported conversation"):
        memory.conversation("s").import_(data)
    assert len(memory.conversation("s")) == 0


@pytest.mark.parametrize(
    "bad",
    [
        None, "text", {"role": "user"}, {"content": "no role"}, {"role": "user", "content": ""}, {"role": "user", "content": []},
        {"role": "user", "content": "x", "extra": 1}, {"role": "user", "content": "x", "at": "yesterday-ish"},
        {"role": "user", "content": "x", "metadata": [1]}, {"role": "user", "content": "x", "name": 5},
        {"role": 5, "content": "x"}, {"role": "user", "content": [{"type": "tool_use"}]},
        {"role": "user", "content": "x" * (8 * 1024 * 1024 + 1)},
        {"role": "user", "content": "x", "metadata": {"a": float("nan")}}, {"role": "user", "content": "a\ud800"},
    ],
    ids=lambda bad: repr(bad)[:40],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 3, 7])
def test_import_of_broken_data_stores_nothing(memory: Memory, bad: Any, place: int) -> None:
    exported = filled(memory)
    exported["messages"].insert(place, bad)
    talk = memory.conversation("target")
    with pytest.raises(KeepstoneError):
        talk.import_(exported)
    assert (len(talk), talk.summary()) == (0, "")
    assert len(memory.conversation("s")) == 7


# -- anything at all ----------------------------------------------------------------------------------------------
# Numbers are too short to be a card's, and no key says "cc": those would be taken out.
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**7), 10**7) | st.floats(-1e6, 1e6, width=32)
    | st.text("abc é漢🎉\"\\\n", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abd é漢_", min_size=1, max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
said = st.text("abc é\n漢字🎉<&>\"'\\", min_size=1, max_size=40).filter(str.strip)
blocks = st.lists(
    st.one_of(
        said.map(text), st.just(IMAGE), st.builds(result, st.just("1"), said),
        st.builds(lambda value: use("1", given=value), json_values),
        st.builds(lambda value: {"type": "thinking", "thinking": value}, json_values),
    ),
    min_size=1, max_size=3,
)  # fmt: skip
messages = st.lists(
    st.fixed_dictionaries({
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "content": said | blocks,
        "name": st.none() | st.sampled_from(["Ada", "Łukasz", "李雷", "a b"]),
        "at": st.datetimes(datetime(1971, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat),
        "metadata": st.dictionaries(st.text("abd é漢_", min_size=1, max_size=8), json_values, max_size=3),
    }),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=60)
@given(messages, st.integers(1, 6))
def test_whatever_is_imported_is_exported_the_same(given: list[dict[str, Any]], most: int) -> None:
    data = {"keepstone": 1, "session": "s", "messages": given, "summary": None}
    with Memory.open(":memory:", embedder="none") as memory:
        talk = memory.conversation("s", max_messages=most)
        assert talk.import_(data) == len(given)
        assert talk.export() == data
        talk.messages()  # a summary may be made by this
        again = talk.export()
        assert again["messages"] == given
        other = memory.with_scope(user="other").conversation("s", max_messages=most)
        assert other.import_(json.dumps(again)) == len(given)
        assert other.export() == again


def test_the_same_through_async_memory(path: Path, tmp_path: Path) -> None:
    async def moved() -> None:
        async with AsyncMemory.open(path) as memory, AsyncMemory.open(tmp_path / "other.db") as other:
            for role, content in EXCHANGE:
                await memory.conversation("s").add(role, content, topic="weather")
            exported = await memory.conversation("s").export()
            assert await other.conversation("s").import_(exported) == 4
            assert await other.conversation("s").export() == exported
            with pytest.raises(ValidationError):
                await other.conversation("s").import_({"messages": []})

    asyncio.run(moved())
