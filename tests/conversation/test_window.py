"""Which messages a model is given: valid for the Messages API, within the budget, the newest always there.

`taken` and `refused` are written against the wire alone, without the code under test; the tests of the library use them too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.conversation import window
from keepstone.text import clipping
from keepstone.text.token_count import estimate_tokens
from keepstone.types import MESSAGE
from tests.facade.test_types import record

Wire = Mapping[str, Any]


def wire(messages: Sequence[window.Shown], lead: str = "") -> list[dict[str, Any]]:
    """Messages as they are sent."""
    return window.wire(window.begun(messages, lead), lead)[0]


def taken(messages: Sequence[Wire], count: Callable[[str], int] = estimate_tokens) -> int:
    """What messages cost: the text of every block, and four tokens a message."""
    return sum(4 + _text_cost(message["content"], count) for message in messages)


def _text_cost(content: Any, count: Callable[[str], int]) -> int:
    if isinstance(content, str):
        return count(content)
    total = 0
    for block in content:
        match block["type"]:
            case "text":
                total += count(block["text"])
            case "image":
                total += 1600
            case "tool_use":
                total += count(block["name"]) + count(json.dumps(block["input"], ensure_ascii=False))
            case "tool_result":
                total += _text_cost(block.get("content") or "", count)
            case _:
                total += count(json.dumps(dict(block), ensure_ascii=False))
    return total


def refused(messages: Sequence[Wire]) -> str | None:
    """Why the Messages API would not take these; None if it would."""
    if messages and messages[0]["role"] != "user":
        return f"begins with {messages[0]['role']}"
    for before, message in pairwise([{"role": "user", "content": ""}, *messages]):
        if message["role"] not in ("user", "assistant"):
            return f"role {message['role']}"
        if not message["content"]:
            return "empty content"
        lost = set(ids(message, "tool_result", "tool_use_id")) - set(ids(before, "tool_use", "id"))
        if lost:
            return f"results without a use: {lost}"
        unanswered = set(ids(before, "tool_use", "id")) - set(ids(message, "tool_result", "tool_use_id"))
        if unanswered:
            return f"uses without a result: {unanswered}"
    return None


def ids(message: Wire, kind: str, field: str) -> list[str]:
    """The ids of a message's blocks of one type."""
    content = message["content"]
    return [] if isinstance(content, str) else [block[field] for block in content if block["type"] == kind]


def use(id: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "look_up", "input": input}


def result(id: str, content: Any = "found it") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://pictures.example/cat.png"}}


def messages_of(*said: tuple[str, Any]) -> list[window.Shown]:
    """Messages as the window has them, numbered from 1."""
    made = []
    for sequence, (role, content) in enumerate(said, 1):
        blocks = None if isinstance(content, str) else tuple(content)
        each = record(kind=MESSAGE, content=content if blocks is None else "blocks", role=role, blocks=blocks)
        shown = window.shown(sequence, each, estimate_tokens, named=False)
        if shown is not None:
            made.append(shown)
    return made


# -- what is shown ------------------------------------------------------------------------------------------------
def test_a_system_message_is_not_said_again_and_a_tool_speaks_as_the_user() -> None:
    assert messages_of(("system", "Be brief.")) == []
    [said] = messages_of(("tool", "22 degrees"))
    assert (said.role, said.content) == ("user", "[result: 22 degrees]")


def test_who_spoke_stands_before_the_words_only_where_several_speak() -> None:
    said = record(kind=MESSAGE, content="Good morning.", role="user", name="Ada")
    for named, expected in ((True, "Ada: Good morning."), (False, "Good morning.")):
        shown = window.shown(1, said, estimate_tokens, named)
        assert shown is not None
        assert shown.content == expected
        assert shown.tokens == 4 + estimate_tokens(expected)


def test_a_step_of_a_task_is_shown_as_its_text() -> None:
    step = record(kind=MESSAGE, content="Action: look", role="assistant", blocks=({"type": "step", "action": "look"},))
    shown = window.shown(1, step, estimate_tokens, named=False)
    assert shown is not None
    assert shown.content == "Action: look"


# -- where the recent part begins ---------------------------------------------------------------------------------
def test_recent_never_begins_with_an_orphan_tool_result() -> None:
    said = messages_of(("user", "q"), ("assistant", [use("1")]), ("user", [result("1")]), ("assistant", "a"), ("user", "b"))
    assert window.recent(said, 10_000, 5) == 0
    assert window.recent(said, 10_000, 4) == 1, "with the use before it"
    assert window.recent(said, 10_000, 3) == 3, "its use is out of the window, so it goes too"
    assert window.recent(said, 10_000, 2) == 3


def test_the_newest_message_is_kept_however_little_room_there_is() -> None:
    assert window.recent(messages_of(("user", "a " * 500)), 1, 1) == 0
    assert window.recent(messages_of(("user", "b"), ("user", [result("1")])), 1, 1) == 1
    assert window.recent([], 100, 10) == 0


# -- as an API takes them -----------------------------------------------------------------------------------------
def test_results_nobody_asked_for_and_uses_nobody_answered_become_words() -> None:
    made = wire(
        messages_of(("user", [result("9", "late")]), ("assistant", [text("Hm."), use("1", q="x")]), ("user", "Never mind."))
    )
    assert made == [
        {"role": "user", "content": [text("[result: late]")]},
        {"role": "assistant", "content": [text("Hm."), text('[uses look_up {"q": "x"}]')]},
        {"role": "user", "content": "Never mind."},
    ]


def test_a_use_at_the_end_may_yet_be_answered_unless_nothing_follows() -> None:
    said = messages_of(("user", "q"), ("assistant", [use("1")]))
    assert wire(said)[-1]["content"] == [use("1")]
    assert wire([*said, *messages_of(("user", "Never mind."))])[-2]["content"] == [text("[uses look_up {}]")]


def test_several_uses_answered_together_stay_and_one_left_open_does_not() -> None:
    both = messages_of(("user", "q"), ("assistant", [use("1"), use("2")]), ("user", [result("1"), result("2")]))
    assert wire(both)[1:] == [
        {"role": "assistant", "content": [use("1"), use("2")]},
        {"role": "user", "content": [result("1"), result("2")]},
    ]
    one = messages_of(("user", "q"), ("assistant", [use("1"), use("2")]), ("user", [result("2")]))
    made = wire(one)
    assert made[1]["content"] == [text("[uses look_up {}]"), use("2")]
    assert refused(made) is None


def test_a_summary_stands_in_front_as_the_user() -> None:
    made = wire(messages_of(("assistant", "Hello.")), "What was said before.")
    assert made == [{"role": "user", "content": "What was said before."}, {"role": "assistant", "content": "Hello."}]


def test_the_window_changes_nothing_it_was_given() -> None:
    block = use("1")
    said = messages_of(("user", "q"), ("assistant", [block]), ("user", "no"))
    wire(said)[1]["content"][0]["text"] = "changed"
    assert said[1].content == (use("1"),)
    assert block == use("1")


# -- cutting ------------------------------------------------------------------------------------------------------
def test_a_long_message_is_cut_and_says_so() -> None:
    [long] = messages_of(("user", "heron " * 900))
    cut = window.shortened(long, 100, estimate_tokens)
    assert isinstance(cut.content, str)
    assert cut.content.endswith(clipping.CUT)
    assert cut.content.startswith("heron heron")
    assert 80 < cut.tokens <= 100
    assert window.shortened(long, 10_000, estimate_tokens) is long


def test_of_several_blocks_the_longest_text_is_cut_and_the_others_stay() -> None:
    [long] = messages_of(("user", [text("Look at this:"), result("1", "row " * 2000), use("2", a=1)]))
    cut = window.shortened(long, 200, estimate_tokens)
    assert not isinstance(cut.content, str)
    assert cut.content[0] == text("Look at this:")
    assert cut.content[1]["content"].endswith(clipping.CUT)
    assert cut.content[2] == use("2", a=1)
    assert cut.tokens <= 200


def test_blocks_that_cannot_be_cut_become_words() -> None:
    [picture] = messages_of(("user", [IMAGE, use("1", table="x" * 4000)]))
    cut = window.shortened(picture, 120, estimate_tokens)
    assert isinstance(cut.content, str)
    assert cut.content.startswith("[image https")
    assert cut.tokens <= 120


@pytest.mark.parametrize("room", [1, 5, 50])
@pytest.mark.parametrize("words", ["word " * 300, "漢字" * 300, "👩‍👧 " * 200, "x" * 3000, "\n" * 50 + "end"])
def test_a_cut_fits_its_room_or_is_the_mark_alone(words: str, room: int) -> None:
    cut = clipping.cut(words, room, estimate_tokens)
    assert estimate_tokens(cut) <= room or cut == clipping.CUT.strip()
    assert cut == words or cut.endswith(clipping.CUT.strip())


# -- anything at all ----------------------------------------------------------------------------------------------
names = st.sampled_from(["1", "2", "3"])
words = st.one_of(st.sampled_from(["ok", "漢字かな", "🎉🎉", "long " * 400]), st.text("abc é\n漢🎉", min_size=1, max_size=40))
from_user = st.one_of(
    words,
    st.lists(
        st.one_of(st.builds(text, words), st.builds(result, names, words), st.builds(result, names), st.just(IMAGE)),
        min_size=1, max_size=3, unique_by=lambda block: block.get("tool_use_id", id(block)),
    ),
)  # fmt: skip
from_assistant = st.one_of(
    words,
    st.lists(
        st.one_of(st.builds(text, words), names.map(lambda id: use(id, q="why"))),
        min_size=1, max_size=3, unique_by=lambda block: block.get("id", id(block)),
    ),
)  # fmt: skip
said = st.one_of(
    st.tuples(st.just("user"), from_user), st.tuples(st.just("assistant"), from_assistant), st.tuples(st.just("tool"), words)
)


@given(st.lists(said, min_size=1, max_size=14), st.integers(60, 4000), st.integers(1, 12))
def test_whatever_was_said_the_window_is_valid_and_within_its_limits(turns: list[tuple[str, Any]], room: int, most: int) -> None:
    shown = messages_of(*turns)
    start = window.recent(shown, room, most)
    kept = [window.shortened(shown[-1], room, estimate_tokens)] if start == len(shown) - 1 else shown[start:]
    made = wire(kept, "Before.")
    assert refused(made) is None
    assert taken(made[1:]) <= sum(message.tokens for message in kept) <= room
    assert len(made) <= len(kept) + 1 <= most + 1
    if len(made) == len(kept) + 1:  # else a result was joined with what the user said before it
        assert [message["role"] for message in made[1:]] == [message.role for message in shown[start:]]


def test_a_result_that_comes_late_goes_right_behind_its_use() -> None:
    shown = messages_of(
        ("user", "Look it up."), ("assistant", [use("1", q="why")]), ("user", "ok"), ("user", "ok"), ("user", [result("1")])
    )
    made = wire(shown)
    assert refused(made) is None
    assert [message["role"] for message in made] == ["user", "assistant", "user", "user"]
