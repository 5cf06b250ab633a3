"""Writing through Memory: receipts, repeats, keys and versions, idempotency, batches, conversations, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Message
from keepstone.errors import Conflict, NotFound, TooLarge, ValidationError
from tests.surfaces.support import START, Clock, contents, everything, timed


# -- receipts -----------------------------------------------------------------------------------------------------
def test_a_new_memory_is_added_as_it_was_given(memory: Memory) -> None:
    receipt = memory.remember(
        "  Dana’s code is `a\tb`\r\n🦉  ", kind="note", tag="codes", importance=0.8, metadata={"n": [1, 2.5, None, {"x": True}]},
        session="s-1", source="agent:shell",
    )  # fmt: skip
    assert (receipt.action, receipt.version, receipt.reasons) == ("added", 1, ())
    record = memory.get(receipt.id or "")
    assert record is not None
    assert record.content == "  Dana’s code is `a\tb`\r\n🦉  "
    assert (record.kind, record.tag, record.key, record.importance) == ("note", "codes", None, 0.8)
    assert record.metadata == {"n": [1, 2.5, None, {"x": True}]}
    assert (record.session, record.source, record.status, record.version) == ("s-1", "agent:shell", "active", 1)
    assert (record.access_count, record.last_accessed_at, record.embedded) == (0, None, True)


def test_the_same_again_is_a_duplicate_and_says_so(memory: Memory) -> None:
    first = memory.remember("The spare key is under the blue pot.")
    again = memory.remember("The spare key is under the blue pot.")
    assert (again.action, again.id, again.version) == ("duplicate", first.id, 1)
    assert "already" in again.reasons[0]
    assert len(everything(memory)) == 1


def test_another_tag_or_kind_is_another_memory(memory: Memory) -> None:
    ids = {
        memory.remember("Friday", tag="deadline").id,
        memory.remember("Friday", tag="party").id,
        memory.remember("Friday", tag="party", kind="note").id,
    }
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("User is happy today", "user seems happy"),
        ("Dana prefers dark mode.", "Dana prefers the dark mode"),
        ("The user's dog is called Rex.", "The user has a dog named Rex."),
        ("I live in Oslo.", "The user lives in Oslo."),
    ],
)
def test_other_words_for_the_same_fact_are_merged(memory: Memory, old: str, new: str) -> None:
    first = memory.remember(old)
    second = memory.remember(new)
    assert (second.action, second.id) == ("merged", first.id)
    assert old in second.reasons[0]
    assert len(everything(memory)) == 1
    versions = memory.history(first.id or "")
    assert {old, new} <= set(contents(versions)), "both wordings stay in history"
    assert versions[-1].version == second.version
    assert memory.get(first.id or "").content == versions[-1].content  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user has 3 cats.", "The user has 4 cats."),
        ("Anna manages the budget.", "Hanna manages the budget."),
        ("Anna manages Ben.", "Ben manages Anna."),
        ("The user eats meat.", "The user does not eat meat."),
        ("The user can swim.", "The user can't swim."),
        ("The meeting is on Monday.", "The meeting is on Tuesday."),
        ("The server listens on port 8080.", "The server listens on port 8081."),
        ("The user was married.", "The user is married."),
        ("The user likes tea.", "The user's brother likes tea."),
        ("Deploys go out at 9 am.", "Deploys go out at 9 pm."),
        ("Fee: 10 EUR", "Fee: 10 USD"),
    ],
)
def test_a_number_a_name_or_a_negation_keeps_facts_apart(memory: Memory, old: str, new: str) -> None:
    assert memory.remember(old).action == "added"
    assert memory.remember(new).action == "added"
    assert sorted(contents(everything(memory))) == sorted([old, new])


def test_what_differs_beside_the_words_is_not_merged(memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.", metadata={"app": "editor"})
    assert memory.remember("Dana prefers the dark mode.", metadata={"app": "browser"}).action == "added"
    assert memory.remember("Dana prefers the dark mode.", tag="ui").action == "added"
    assert memory.remember("Dana prefers the dark mode!", ttl=60).action == "added"


def test_metadata_that_comes_with_a_repeat_is_not_lost(memory: Memory) -> None:
    memory.remember("Paris in spring")
    memory.remember("Paris in spring", metadata={"rating": 5}, importance=0.9)
    assert any(record.metadata == {"rating": 5} for record in everything(memory))
    assert max(record.importance for record in everything(memory)) == 0.9


def test_near_duplicates_in_one_batch_collapse(memory: Memory) -> None:
    memory.remember_many(["Dana likes green tea.", "Dana really likes green tea."])
    assert len(everything(memory)) == 1


# -- keys and versions --------------------------------------------------------------------------------------------
def test_a_key_is_superseded_and_its_past_kept(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        first = memory.remember("Rome", key="city")
        clock.forward(days=1)
        second = memory.remember("Oslo", key="city", tag="travel", metadata={"sure": True})
        assert (second.action, second.id, second.version) == ("superseded", first.id, 2)
        assert "city" in second.reasons[0]
        assert "version 1" in second.reasons[0]
        clock.forward(days=1)
        assert memory.remember("Oslo", key="city", tag="travel", metadata={"sure": True}).action == "duplicate"
    with timed(path, clock) as memory:
        past, present = memory.history(first.id or "")
        assert (past.content, past.version, past.action, past.valid_from) == ("Rome", 1, "added", START)
        assert past.valid_to == present.valid_from == present.known_from == START + timedelta(days=1)
        assert (present.content, present.version, present.action, present.valid_to) == ("Oslo", 2, "superseded", None)
        record = memory.get(first.id or "")
        assert record is not None
        assert (record.content, record.tag, record.metadata) == ("Oslo", "travel", {"sure": True})
        assert (record.created_at, record.updated_at) == (START, START + timedelta(days=1))
        assert len(everything(memory)) == 1


def test_keys_are_compared_exactly_in_one_unicode_form(memory: Memory) -> None:
    memory.remember("one", key="caf\u00e9")
    assert memory.remember("two", key="cafe\u0301").action == "superseded"
    assert memory.remember("three", key="cafe").action == "added"
    assert memory.remember("four", key="CAFE").action == "added"


def test_an_update_keeps_what_was(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        id = memory.remember("Sprint ends Friday", importance=0.4, metadata={"a": 1}).id or ""
        later = clock.forward(hours=2)
        receipt = memory.update(id, "Sprint ends Thursday", expected_version=1)
        assert (receipt.action, receipt.id, receipt.version) == ("updated", id, 2)
        assert "version 1" in receipt.reasons[0]
        assert memory.update(id, importance=0.9).version == 3
        assert memory.update(id, metadata={"b": [2]}).version == 4
        assert memory.update(id, "Sprint ends Thursday").action == "duplicate"
        record = memory.get(id)
        assert record is not None
        assert (record.content, record.importance, record.metadata) == ("Sprint ends Thursday", 0.9, {"b": [2]})
        assert (record.valid_from, record.created_at) == (later, START)
        assert contents(memory.history(id)) == ["Sprint ends Friday", *["Sprint ends Thursday"] * 3]
        assert [version.importance for version in memory.history(id)] == [0.4, 0.4, 0.9, 0.9]
        assert memory.recall("sprint Friday")[0].content == "Sprint ends Thursday"


def test_a_stale_version_is_a_conflict_and_changes_nothing(memory: Memory) -> None:
    id = memory.remember("v1 text").id or ""
    memory.update(id, "v2 text", expected_version=1)
    with pytest.raises(Conflict, match=r"version 2, not 1"):
        memory.update(id, "mine", expected_version=1)
    assert contents(memory.history(id)) == ["v1 text", "v2 text"]
    assert memory.update(id, "v3 text", expected_version=2).version == 3


def test_an_update_to_what_another_record_says_is_a_conflict(memory: Memory) -> None:
    memory.remember("tea")
    id = memory.remember("coffee").id or ""
    with pytest.raises(Conflict, match="has this content already"):
        memory.update(id, "tea")
    assert memory.get(id).content == "coffee"  # type: ignore[union-attr]


def test_updates_of_what_is_not_there(memory: Memory) -> None:
    with pytest.raises(NotFound, match="m_absent"):
        memory.update("m_absent", "x")
    with pytest.raises(ValidationError, match="nothing to update"):
        memory.update("m_absent")
    with pytest.raises(NotFound):
        memory.history("m_absent")
    assert memory.get("m_absent") is None


# -- idempotency --------------------------------------------------------------------------------------------------
def test_an_idempotency_key_gives_the_same_receipt_again(path: Path) -> None:
    with Memory.open(path) as memory:
        first = memory.remember("Order 7 was shipped", metadata={"a": 1, "b": 2}, idempotency_key="req-1")
    with Memory.open(path) as memory:
        again = memory.remember("Order 7 was shipped", metadata={"b": 2, "a": 1}, idempotency_key="req-1")
        assert again == first
        assert again.action == "added"
        assert len(everything(memory)) == 1


@pytest.mark.parametrize(
    "change", [{"content": "Order 8"}, {"metadata": {"a": 2}}, {"tag": "x"}, {"importance": 0.6}, {"key": "k"}, {"ttl": 5}]
)
def test_an_idempotency_key_with_another_body_is_a_conflict(memory: Memory, change: dict[str, Any]) -> None:
    memory.remember("Order 7", metadata={"a": 1}, idempotency_key="req-1")
    with pytest.raises(Conflict, match="req-1"):
        memory.remember(**{"content": "Order 7", "metadata": {"a": 1}, "idempotency_key": "req-1", **change})
    assert contents(everything(memory)) == ["Order 7"]


def test_forgetting_frees_the_idempotency_key(memory: Memory) -> None:
    first = memory.remember("Order 7", idempotency_key="req-1")
    memory.forget(first.id)
    second = memory.remember("Order 7", idempotency_key="req-1")
    assert second.action == "added"
    assert memory.get(second.id or "") is not None


# -- batches ------------------------------------------------------------------------------------------------------
def test_a_batch_gives_a_receipt_for_each_in_order(memory: Memory) -> None:
    receipts = memory.remember_many(
        ["one", {"content": "two", "key": "k"}, "one", {"content": "three", "key": "k", "importance": 1}]
    )
    assert [receipt.action for receipt in receipts] == ["added", "added", "duplicate", "superseded"]
    assert receipts[0].id == receipts[2].id
    assert memory.remember_many([]) == []
    assert memory.remember_many(text for text in ("from", "a generator"))[1].action == "added"


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"content": "x", "nope": 1}, ValidationError),
        ({"tag": "x"}, ValidationError),
        (None, ValidationError),
        (7, ValidationError),
        ({"content": "taken", "idempotency_key": "used"}, Conflict),
    ],
)
def test_a_batch_that_is_no_list_of_items_stores_nothing(memory: Memory, bad: Any, error: type[Exception]) -> None:
    memory.remember("before", idempotency_key="used")
    with pytest.raises(error):
        memory.remember_many(["good", bad, "good too"])
    assert contents(everything(memory)) == ["before"]
    assert memory.remember("good").action == "added"


def test_the_size_of_a_batch(memory: Memory) -> None:
    assert len(memory.remember_many([f"fact number {at}" for at in range(100)])) == 100
    with pytest.raises(TooLarge, match="101"):
        memory.remember_many([f"other {at}" for at in range(101)])
    for single in ("a text", b"bytes", {"content": "one"}):
        with pytest.raises(ValidationError, match="remember"):
            memory.remember_many(single)  # type: ignore[arg-type]
    assert len(everything(memory)) == 100


# -- conversations ------------------------------------------------------------------------------------------------
def test_what_was_said_is_kept_in_order_and_never_merged(path: Path) -> None:
    said = [
        Message("user", "ok"),
        Message("assistant", "ok"),
        Message("user", "ok", name="Ada", at=datetime(2025, 1, 2, tzinfo=UTC), metadata={"n": 1}),
        {"role": "tool", "content": "ok", "name": "clock"},
        {"role": "user", "content": "Ok."},
    ]
    with Memory.open(path) as memory:
        receipts = memory.ingest(said, session="monday")
        assert [receipt.action for receipt in receipts] == ["added"] * 5
        assert memory.ingest([], session="monday") == []
    with Memory.open(path) as memory:
        kept = memory.list(kind="message")[::-1]
        assert [record.id for record in kept] == [receipt.id for receipt in receipts]
        assert [record.role for record in kept] == ["user", "assistant", "user", "tool", "user"]
        assert [record.name for record in kept] == [None, None, "Ada", "clock", None]
        assert [record.source for record in kept] == ["user", "agent", "user", "tool", "user"]
        assert {record.session for record in kept} == {"monday"}
        assert (kept[2].occurred_at, kept[2].metadata) == (datetime(2025, 1, 2, tzinfo=UTC), {"n": 1})


def test_a_long_conversation_is_taken_whole(memory: Memory) -> None:
    receipts = memory.ingest(({"role": "user", "content": f"line {at}"} for at in range(2_100)), session="long")
    assert len({receipt.id for receipt in receipts}) == 2_100
    assert contents(reversed(everything(memory))) == [f"line {at}" for at in range(2_100)]


@pytest.mark.parametrize(
    "bad",
    [
        {"role": "user"}, {"content": "x"}, "user: hi", 5, None, {"role": "user", "content": "x", "user": "another"},
    ],
)  # fmt: skip
def test_what_is_no_message_stops_the_whole_call(memory: Memory, bad: Any) -> None:
    with pytest.raises(ValidationError):
        memory.ingest([{"role": "user", "content": "first"}, bad], session="s")
    assert not memory.list()


def test_three_wordings_of_one_fact_become_one_memory(memory: Memory) -> None:
    wordings = ("user is happy", "user seems happy today", "today user appeared pleased")
    actions = [memory.remember(text).action for text in wordings]
    assert (actions[0], "added" in actions[1:]) == ("added", False)
    assert len(memory.list()) == 1
    for text in ("user is not pleased today", "the user was pleased with the invoice", "user appeared in court today"):
        assert memory.remember(text).action == "added"
