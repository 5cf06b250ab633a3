"""The guard of the write path: what becomes a draft, what is refused, with which error and which words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.errors import TooLarge, ValidationError
from keepstone.write.request import (
    MAX_CONTENT,
    MAX_DEPTH,
    MAX_METADATA,
    TRUST,
    WriteRequest,
    check_content,
    check_importance,
    check_metadata,
    derive,
    gist_of,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def refused(error: type[Exception], message: str, /, **arguments: Any) -> None:
    """remember() with these arguments is refused, with exactly this type of error."""
    with pytest.raises(error, match=message) as caught:
        WriteRequest(**({"content": "tea"} | arguments)).draft(NOON)
    assert type(caught.value) is error


# -- content --------------------------------------------------------------------------------------------------------
@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=200))
def test_content_is_taken_exactly_as_it_is(text: str) -> None:
    assert check_content("x" + text) == "x" + text


@pytest.mark.parametrize(
    "content", ["", " ", "\n\t\r", "\u200b", "\u200b\u2060\ufeff", "\u00a0\u3000", "\u2028", "\u0301", "\x07", "\u202e \u200f"]
)
def test_content_that_nobody_could_see_is_refused(content: str) -> None:
    refused(ValidationError, "content is empty or invisible: give it at least one visible character", content=content)


@pytest.mark.parametrize("content", [".", "0", "😀", "\u200bx", "مرحبا", "e\u0301"])
def test_one_visible_character_is_enough(content: str) -> None:
    assert WriteRequest(content).draft(NOON).content == content


@pytest.mark.parametrize(("content", "name"), [(None, "NoneType"), (5, "int"), (b"tea", "bytes"), (["tea"], "list")])
def test_content_must_be_text(content: Any, name: str) -> None:
    refused(ValidationError, f"content must be text, got {name}: convert it to str first", content=content)


def test_the_limit_of_content_counts_bytes() -> None:
    assert len(check_content("x" * MAX_CONTENT)) == MAX_CONTENT == 8 * 1024 * 1024
    assert len(check_content("é" * (MAX_CONTENT // 2))) == MAX_CONTENT // 2
    assert len(check_content("😀" * (MAX_CONTENT // 4))) == MAX_CONTENT // 4
    refused(
        TooLarge, f"content has {MAX_CONTENT + 1} characters, the limit is {MAX_CONTENT} bytes", content="x" * (MAX_CONTENT + 1)
    )
    refused(TooLarge, f"content has {MAX_CONTENT + 2} bytes, the limit is {MAX_CONTENT}", content="é" * (MAX_CONTENT // 2 + 1))
    refused(TooLarge, "split it into several memories", content="😀" * (MAX_CONTENT // 4) + "x")


def test_what_no_store_can_hold_is_refused_with_its_place() -> None:
    refused(ValidationError, "content holds a NUL character at position 3: remove it", content="tea\0")
    refused(ValidationError, r"content holds half a surrogate pair \(U\+D83D\) at position 1", content="a\ud83d")
    refused(ValidationError, r"\(U\+DE00\) at position 0", content="\ude00a")


# -- metadata -------------------------------------------------------------------------------------------------------
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "é", "with space"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["a", "b", "c.d"]), plain, max_size=3))
def test_metadata_that_is_json_comes_through_unchanged(metadata: dict[str, Any]) -> None:
    try:
        checked = check_metadata(metadata)
    except TooLarge:
        return
    assert checked == metadata
    assert json.loads(json.dumps(checked)) == metadata


def test_metadata_is_a_copy_with_lists_for_tuples() -> None:
    given_metadata: dict[str, Any] = {"a": [1, {"b": (2, 3)}]}
    checked = check_metadata(given_metadata)
    assert checked == {"a": [1, {"b": [2, 3]}]}
    given_metadata["a"].append(4)
    assert checked == {"a": [1, {"b": [2, 3]}]}
    assert check_metadata(None) == {}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([("a", 1)], "metadata must be a dictionary, got list"),
        ("a", "metadata must be a dictionary, got str"),
        ({"a": float("nan")}, "metadata.a is nan, which JSON does not have"),
        ({"a": [0, float("-inf")]}, r"metadata.a\[1\] is -inf, which JSON does not have"),
        ({"a": 2**63}, r"metadata.a is 9223372036854775808…, past 64 bits: store it as text"),
        ({"a": -(2**63) - 1}, "past 64 bits"),
        ({"a": b"x"}, "metadata.a is a bytes: use text, numbers, True, False, None, lists, dictionaries"),
        ({"a": {1, 2}}, "metadata.a is a set"),
        ({"a": NOON}, "metadata.a is a datetime"),
        ({"a": object()}, "metadata.a is a object"),
        ({1: "x"}, "metadata has the key 1: use non-empty text of at most 256 characters"),
        ({"": "x"}, "metadata has the key ''"),
        ({"k" * 257: "x"}, "metadata has the key 'kkk"),
        ({"a": {None: 1}}, "metadata.a has the key None"),
        ({"a": "x\0"}, "metadata.a holds a NUL character at position 1"),
        ({"a": {"b": "\ud800"}}, r"metadata.a.b holds half a surrogate pair \(U\+D800\)"),
        ({"a\0": 1}, "a key of metadata holds a NUL character"),
    ],
)
def test_metadata_that_is_not_json_is_refused_with_its_place(metadata: Any, message: str) -> None:
    refused(ValidationError, message, metadata=metadata)


def test_whole_numbers_at_the_ends_of_64_bits_are_taken() -> None:
    assert check_metadata({"low": -(2**63), "high": 2**63 - 1}) == {"low": -(2**63), "high": 2**63 - 1}


def deep(levels: int) -> dict[str, Any]:
    """Metadata of so many levels, the dictionary itself and its innermost value counted."""
    value: Any = 1
    for _ in range(levels - 2):
        value = [value]
    return {"a": value}


def test_the_depth_of_metadata_is_bounded() -> None:
    assert check_metadata(deep(MAX_DEPTH)) == deep(MAX_DEPTH)
    refused(TooLarge, f"nested deeper than {MAX_DEPTH} levels: flatten it", metadata=deep(MAX_DEPTH + 1))
    refused(TooLarge, "nested deeper", metadata=deep(50_000))


def test_metadata_that_holds_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    refused(TooLarge, "metadata.again.again.* is nested deeper", metadata=circle)
    ring: list[Any] = []
    ring.extend([ring] * 50)
    refused(TooLarge, "nested deeper", metadata={"ring": ring})


def test_the_size_of_metadata_counts_bytes_of_json() -> None:
    room = MAX_METADATA - len('{"a": ""}')
    assert check_metadata({"a": "x" * room})["a"] == "x" * room
    refused(
        TooLarge, f"metadata has {MAX_METADATA + 1} bytes as JSON, the limit is {MAX_METADATA}", metadata={"a": "x" * (room + 1)}
    )
    refused(TooLarge, "store long text as content", metadata={"a": "é" * (room // 2 + 1)})
    refused(TooLarge, "bytes as JSON", metadata={str(n): "x" * 1000 for n in range(17)})


def test_messages_stay_short_whatever_they_quote() -> None:
    for metadata in ({"k" * 256: {"l" * 256: {"m" * 256: b""}}}, {"a": 10**4000}, {"k" * 100_000: 1}):
        with pytest.raises(ValidationError) as caught:
            check_metadata(metadata)
        assert len(str(caught.value)) < 600


# -- the other fields -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, 0.5])
def test_importance_from_0_to_1(value: float) -> None:
    assert check_importance(value) == value
    assert type(check_importance(value)) is float


@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf"), True, False, "0.5", None, [0.5]])
def test_any_other_importance_is_refused(value: Any) -> None:
    refused(ValidationError, "importance is .*: use a number from 0 to 1", importance=value)


@pytest.mark.parametrize("value", [0, -5, float("nan"), float("inf"), "60", True, timedelta(days=40_000)])
def test_a_bad_lifetime_is_refused(value: Any) -> None:
    refused(ValidationError, "^ttl ", ttl=value)


@pytest.mark.parametrize("value", ["yesterday", 5, "0001-01-01", datetime(1, 1, 1, tzinfo=UTC)])
def test_a_bad_time_is_refused(value: Any) -> None:
    refused(ValidationError, "^occurred_at ", occurred_at=value)


@pytest.mark.parametrize("field", ["kind", "tag", "key", "source", "session", "role", "name"])
@pytest.mark.parametrize("value", ["", " ", "a\nb", "x" * 257, 5, "a\ud800"])
def test_a_bad_name_is_refused(field: str, value: Any) -> None:
    refused(ValidationError, f"^{field} ", **{field: value})


@pytest.mark.parametrize("value", ["", "x" * 257, "a\0", 5])
def test_a_bad_idempotency_key_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match=r"^idempotency_key "):
        WriteRequest("tea", idempotency_key=value).clean_idempotency_key()


def test_the_draft_of_a_plain_text() -> None:
    draft = WriteRequest("Dana likes tea").draft(NOON)
    derive([draft])
    assert (draft.kind, draft.tag, draft.key, draft.importance, dict(draft.metadata)) == ("fact", "general", None, 0.5, {})
    assert (draft.source, draft.trust, draft.status, draft.vector) == ("user", TRUST["user"], "active", None)
    assert (draft.occurred_at, draft.expires_at) == (NOON, None)
    assert (draft.terms[0], draft.terms[2]) == ("dana", "tea")
    assert draft.dedup_key is not None


def test_the_draft_of_a_full_request() -> None:
    draft = WriteRequest(
        "dark", kind="value", tag="Cafe\u0301", key="ui_theme", importance=1, metadata={"a": 1}, ttl=60, source="web:https://x",
        session="s", occurred_at="2020-01-01", role="user", name="Dana",
    ).draft(NOON)  # fmt: skip
    assert (draft.tag, draft.session, draft.role, draft.name) == ("Café", "s", "user", "Dana")
    assert draft.occurred_at == datetime(2020, 1, 1, tzinfo=UTC)
    assert draft.expires_at == NOON + timedelta(seconds=60)
    assert draft.trust == TRUST["web"]
    derive([draft])
    assert draft.terms[0] == "ui"
    assert draft.dedup_key is None


def test_trust_comes_from_the_channel_alone() -> None:
    trusts = [
        WriteRequest("tea", source=source).draft(NOON).trust for source in ("system", "user", "agent", "tool:x", "web", "psst")
    ]
    assert trusts == [1.0, 0.9, 0.6, 0.4, 0.2, 0.2]
    assert WriteRequest("tea", source="Web:x").draft(NOON).trust == 0.2


def test_messages_and_keyed_records_have_no_near_duplicates() -> None:
    assert gist_of("Dana likes tea", "fact", None) is not None
    assert gist_of("Dana likes tea", "message", None) is None
    assert gist_of("Dana likes tea", "fact", "drink") is None


# -- batches --------------------------------------------------------------------------------------------------------
def test_an_item_is_text_or_arguments() -> None:
    assert WriteRequest.of("tea") == WriteRequest("tea")
    assert WriteRequest.of({"content": "tea", "tag": "drinks"}) == WriteRequest("tea", tag="drinks")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (5, "an item must be text or a dictionary of remember\\(\\)'s arguments, got int"),
        ({"tag": "drinks"}, "an item has no 'content': use content, idempotency_key, importance"),
        ({"content": "tea", "colour": 1}, "an item has the unknown argument 'colour': use content"),
        ({"content": "tea", 5: 1}, "an item has the unknown argument '5'"),
        ({"content": "tea", "role": "system"}, "an item has the unknown argument 'role'"),
        ({"content": "tea", "trust": 1.0}, "an item has the unknown argument 'trust'"),
    ],
)
def test_a_bad_item_is_refused(item: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        WriteRequest.of(item)


# -- fingerprints ---------------------------------------------------------------------------------------------------
CHANGES: dict[str, Any] = {
    "content": "coffee", "kind": "note", "tag": "drinks", "key": "drink", "importance": 0.6, "metadata": {"a": 1}, "ttl": 60,
    "source": "web", "session": "s", "occurred_at": "2020-01-01", "role": "user", "name": "Dana",
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_of_a_body_tells_in_the_fingerprint(field: str) -> None:
    one = WriteRequest("tea", idempotency_key="k")
    other = WriteRequest(**{"content": "tea", "idempotency_key": "k", field: CHANGES[field]})
    assert one.fingerprint() != other.fingerprint()


def test_the_fingerprint_is_of_the_body_alone() -> None:
    assert WriteRequest("tea", idempotency_key="a").fingerprint() == WriteRequest("tea", idempotency_key="b").fingerprint()
    one, two = {"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}
    assert WriteRequest("tea", metadata=one).fingerprint() == WriteRequest("tea", metadata=two).fingerprint()
    assert WriteRequest("tea", metadata={}).fingerprint() == WriteRequest("tea").fingerprint()


@pytest.mark.parametrize("field", ["key", "session"])
def test_no_value_differs_from_the_word_none(field: str) -> None:
    assert WriteRequest("tea").fingerprint() != WriteRequest("tea", **{field: "None"}).fingerprint()
