"""Blocks of a message: what is taken as it is, what is refused and with which words, and the text they are found by."""

from __future__ import annotations

import json
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.errors import TooLarge, ValidationError
from keepstone.write.blocks import MAX_BLOCK_DEPTH, is_tool_only, split_content, text_of
from keepstone.write.request import MAX_CONTENT

letters = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | letters,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "é", "with space"]), inner, max_size=3),
)
texts = st.fixed_dictionaries({"type": st.just("text"), "text": letters})
uses = st.fixed_dictionaries({"type": st.just("tool_use"), "id": letters, "name": letters, "input": plain})
results = st.fixed_dictionaries({"type": st.just("tool_result"), "tool_use_id": letters, "content": st.lists(texts) | letters})
others = st.fixed_dictionaries({"type": st.sampled_from(["thinking", "server_tool_use", "of tomorrow"]), "value": plain})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def refused(error: type[Exception], message: str, content: Any) -> None:
    """This content is refused, with exactly this type of error."""
    with pytest.raises(error, match=message) as caught:
        split_content(content)
    assert type(caught.value) is error


def nested(levels: int) -> dict[str, Any]:
    """A block whose innermost value lies so many levels down, the block itself being the first."""
    value: Any = "x"
    for _ in range(levels - 2):
        value = [value]
    return {"type": "deep", "v": value}


# -- what is taken --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("content", ["hello", "", '[{"type":"text"}]', "\0"])
def test_text_is_no_blocks_and_is_checked_elsewhere(content: str) -> None:
    assert split_content(content) == (content, None)


@given(st.lists(texts | uses | results | others, min_size=1, max_size=4))
def test_blocks_are_kept_exactly(blocks: list[Any]) -> None:
    said, packed = split_content(blocks)
    assert packed is not None
    assert repr(json.loads(packed)) == repr(blocks)
    assert said == text_of(blocks)


def test_json_of_blocks_is_short_and_readable() -> None:
    assert split_content([text("naïve 😀")])[1] == '[{"type":"text","text":"naïve 😀"}]'


def test_sequences_and_mappings_of_any_type_are_taken() -> None:
    block = MappingProxyType({"type": "tool_use", "id": "1", "name": "n", "input": OrderedDict(a=(1, 2))})
    assert split_content((block,))[1] == '[{"type":"tool_use","id":"1","name":"n","input":{"a":[1,2]}}]'


def test_what_is_given_is_not_changed_and_not_kept() -> None:
    block = {"type": "n", "list": [1, {"a": 2}]}
    packed = split_content([block])[1]
    assert block == {"type": "n", "list": [1, {"a": 2}]}
    block["list"] = []
    assert packed == '[{"type":"n","list":[1,{"a":2}]}]'


def test_fields_we_do_not_know_are_kept() -> None:
    block = {**text("hi"), "cache_control": {"type": "ephemeral"}, "citations": None}
    assert json.loads(split_content([block])[1] or "") == [block]


# -- what is refused ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "name"),
    [(None, "NoneType"), (5, "int"), (b"hi", "bytes"), ({"type": "text"}, "dict"), ({1}, "set"), (iter([]), "list_iterator")],
)
def test_content_must_be_text_or_a_list(content: Any, name: str) -> None:
    refused(ValidationError, f"^a message's content must be text or a list of blocks, got {name}\\.$", content)


@pytest.mark.parametrize("content", [[], ()])
def test_a_list_must_have_a_block(content: Any) -> None:
    refused(ValidationError, "an empty list: give it at least one block", content)


@pytest.mark.parametrize(
    "block", ["hi", None, 5, [], {}, {"text": "hi"}, {"type": None}, {"type": ""}, {"type": 5}, {"type": ["text"]}]
)
def test_a_block_must_have_a_type(block: Any) -> None:
    refused(ValidationError, "^block 1 of a message is not a block: use a dictionary with a 'type'", [text("hi"), block])


@pytest.mark.parametrize(
    ("block", "missing"),
    [
        ({"type": "text"}, "text"),
        ({"type": "tool_use", "name": "n", "input": {}}, "id"),
        ({"type": "tool_use", "id": "1", "input": {}}, "name"),
        ({"type": "tool_use", "id": "1", "name": "n"}, "input"),
        ({"type": "tool_result", "content": "x"}, "tool_use_id"),
        ({"type": "image"}, "source"),
    ],
)
def test_a_block_must_have_what_its_type_needs(block: Any, missing: str) -> None:
    refused(ValidationError, f"^block 0 of a message is of type {block['type']} and has no '{missing}': add it", [block])


@pytest.mark.parametrize("said", [None, 5, ["hi"], b"hi"])
def test_the_text_of_a_block_must_be_text(said: Any) -> None:
    refused(ValidationError, f"block 0 of a message has a text that is {type(said).__name__}: use a str", [text(said)])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "block 0.v is nan, which JSON does not have"),
        (float("inf"), "block 0.v is inf"),
        (2**63, "block 0.v is 9223372036854775808…, past 64 bits"),
        ({"a": {1, 2}}, r"block 0\.v\.a is a set: use text, numbers"),
        ([b"x"], r"block 0\.v\[0\] is a bytes"),
        ({1: 2}, "block 0.v has the key 1: use non-empty text"),
        ("a\0", "block 0.v holds a NUL character at position 1"),
        ("\ud83d", "block 0.v holds half a surrogate pair"),
    ],
)
def test_what_json_or_a_store_cannot_hold_is_refused_with_its_place(value: Any, message: str) -> None:
    refused(ValidationError, message, [{"type": "n", "v": value}])


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0"}},
        {"type": "document", "source": {"type": "base64", "data": ""}},
        {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": [text("see"), {"type": "image", "source": {"type": "base64", "data": "x"}}],
        },
    ],
)
def test_bytes_of_images_are_refused_however_deep(block: Any) -> None:
    refused(ValidationError, "^block 1 of a message holds an image's bytes: store it elsewhere", [text("hi"), block])


def test_limits_of_depth_and_of_values() -> None:
    assert split_content([nested(MAX_BLOCK_DEPTH)])[1] is not None
    refused(
        TooLarge, rf"^block 0\.v\[0\].* is nested deeper than {MAX_BLOCK_DEPTH} levels: flatten", [nested(MAX_BLOCK_DEPTH + 1)]
    )
    refused(TooLarge, "block 0 holds more than 65536 values", [{"type": "n", "v": [0] * 65536}])


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    refused(TooLarge, "nested deeper", [{"type": "n", "v": loop}])


def test_the_limit_of_blocks_counts_bytes_of_json() -> None:
    frame = len('[{"type":"text","text":""}]')
    assert len(split_content([text("x" * (MAX_CONTENT - frame))])[1] or "") == MAX_CONTENT
    refused(
        TooLarge,
        f"have {MAX_CONTENT + 1} characters as JSON, the limit is {MAX_CONTENT} bytes",
        [text("x" * (MAX_CONTENT - frame + 1))],
    )
    refused(TooLarge, "shorten it", [text("é" * (MAX_CONTENT // 2))])
    refused(TooLarge, "shorten it", [text('"' * (MAX_CONTENT // 2))])


# -- the text to find a message by ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (text("Hello."), "Hello."),
        ({"type": "tool_use", "id": "1", "name": "find", "input": {"q": "é", "n": 2}}, '[uses find {"q": "é", "n": 2}]'),
        ({"type": "tool_result", "tool_use_id": "1", "content": "4 degrees"}, "[result: 4 degrees]"),
        ({"type": "tool_result", "tool_use_id": "1", "content": "no such city", "is_error": True}, "[error: no such city]"),
        ({"type": "tool_result", "tool_use_id": "1", "content": "fine", "is_error": False}, "[result: fine]"),
        ({"type": "tool_result", "tool_use_id": "1", "content": [text("one"), text("two")]}, "[result: one\ntwo]"),
        ({"type": "tool_result", "tool_use_id": "1"}, "[result: ]"),
        ({"type": "tool_result", "tool_use_id": "1", "content": None}, "[result: ]"),
        ({"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}}, "[image https://a.example/x.png]"),
        ({"type": "document", "source": {"type": "file", "file_id": "file_1"}}, "[document file_1]"),
        (
            {"type": "step", "thought": "look it up", "action": "find Oslo", "result": ""},
            "Thought: look it up\nAction: find Oslo",
        ),
        ({"type": "of tomorrow", "text": "unread"}, "[of tomorrow]"),
    ],
)
def test_each_type_of_block_is_shown(block: Any, shown: str) -> None:
    assert text_of([block]) == shown
    assert split_content([block])[0] == shown


def test_blocks_are_shown_on_lines_of_their_own_and_empty_ones_on_none() -> None:
    said = split_content(
        [text("Let me look."), text(""), {"type": "step"}, {"type": "image", "source": {"url": "u"}}, text("Here.")]
    )[0]
    assert said == "Let me look.\n[image u]\nHere."


def test_text_is_shown_as_it_is() -> None:
    assert text_of("[uses clock {}]") == "[uses clock {}]"


@pytest.mark.parametrize(
    ("content", "done"),
    [
        ("words", False),
        ([text("words")], False),
        ([{"type": "tool_use", "id": "1", "name": "look", "input": {}}], True),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "1", "name": "look", "input": {}}], True),
        ([text(" "), {"type": "tool_result", "tool_use_id": "1"}], True),
        ([text("Let me look."), {"type": "tool_use", "id": "1", "name": "look", "input": {}}], False),
        ([{"type": "tool_result", "tool_use_id": "1"}, {"type": "image", "source": {"type": "url", "url": "https://a"}}], False),
        ([{"type": "thinking", "thinking": "hm"}], False),
        ([{"type": "step", "thought": "a", "action": "b", "result": "c"}], True),
    ],
)
def test_what_is_only_about_tools_was_done_and_not_said(content: Any, done: bool) -> None:
    assert is_tool_only(content) is done
