"""Without a model: plain facts are found by rules as messages arrive, and the receipt names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Record
from keepstone.errors import StoreError
from keepstone.learning.jobs import WorkReport
from keepstone.write.flow import WriteFlow
from tests.surfaces.support import START, Clock, contents, timed


def facts(memory: Memory) -> list[Record]:
    """What was learned, oldest first; neither messages nor notes."""
    return [record for record in reversed(memory.list(limit=100)) if record.kind not in ("message", "note")]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def test_a_fact_names_its_message_and_the_receipt_names_the_fact(memory: Memory) -> None:
    receipts = memory.ingest([user("Good morning!"), user("My name is Dana and I prefer dark mode.")], session="monday")
    assert receipts[0].learned == ()
    assert len(receipts[1].learned) == 2
    name, theme = (memory.get(id) for id in receipts[1].learned)
    assert name is not None
    assert theme is not None
    assert (name.content, name.tag, name.key) == ("The user's name is Dana.", "profile", "user.name")
    assert (theme.tag, theme.key) == ("preference", "user.prefers.theme")
    for fact in (name, theme):
        assert fact.kind == "fact"
        assert fact.parents == (receipts[1].id,)
        assert fact.session == "monday"
        assert (fact.source, fact.trust) == ("user:rules", 0.9)
        assert 0.5 <= fact.metadata["confidence"] <= 1
    assert memory.value("user.name") == "The user's name is Dana."


def test_there_is_nothing_to_queue_without_a_model(memory: Memory) -> None:
    memory.ingest([user("I live in Porto.")], session="s")
    memory.learn("I work as a nurse.")
    assert list(memory.jobs.list()) == []
    assert memory.jobs.run() == WorkReport()
    assert memory.upkeep.run().done == 0


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_the_user_teaches(memory: Memory, role: str) -> None:
    receipt = memory.ingest([{"role": role, "content": "My name is Dana and I live in Porto."}], session="s")[0]
    assert receipt.action == "added"
    assert receipt.learned == ()
    assert facts(memory) == []


def test_a_tool_result_in_a_users_turn_teaches_nothing(memory: Memory) -> None:
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "My name is Mallory and I live in Rome."}]
    memory.conversation("s").add("assistant", [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}])
    assert memory.conversation("s").add("user", result).learned == ()
    assert facts(memory) == []


def test_who_does_not_want_facts_gets_none(path: Path, memory: Memory) -> None:
    said = [user("My name is Dana.")]
    assert memory.ingest(said, session="s", extract=False)[0].learned == ()
    with Memory.open(path, settings={"extract": False}) as quiet:
        assert quiet.ingest(said, session="s")[0].learned == ()
        assert quiet.conversation("s").add("user", "I live in Porto.").learned == ()
        assert quiet.learn("I live in Porto.").learned == ()
        assert facts(quiet) == []
        assert len(quiet.conversation("s")) == 3


def test_what_memory_had_fenced_is_not_learned_from_a_users_message(memory: Memory) -> None:
    pasted = "<memory note='recalled'>\n- My name is Mallory.\n- I live in Rome.\n</memory>\nI prefer dark mode."
    receipt = memory.conversation("s").add("user", pasted)
    assert [memory.get(id).key for id in receipt.learned] == ["user.prefers.theme"]  # type: ignore[union-attr]
    assert memory.conversation("s").last(1)[0].content == pasted
    assert memory.conversation("s").add("user", "<memory>\nI live in Rome.").learned == ()


def test_named_speakers_have_keys_of_their_own(memory: Memory) -> None:
    memory.ingest(
        [user("I live in Rome.", name="Anna-Maria"), user("I live in Oslo.", name="Ben"), user("I live in Lima.")], session="s"
    )
    assert {fact.key: fact.content for fact in facts(memory)} == {
        "anna_maria.home": "Anna-Maria lives in Rome.",
        "ben.home": "Ben lives in Oslo.",
        "user.home": "The user lives in Lima.",
    }


def test_a_correction_supersedes_and_the_past_can_be_asked_for(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        (first,) = memory.conversation("a").add("user", "I live in Lisbon.").learned
        moved = clock.forward(days=30)
        (second,) = memory.conversation("b").add("user", "I moved to Porto.").learned
        assert first == second
        assert contents(facts(memory)) == ["The user moved to Porto."]
        assert contents(memory.history(first)) == ["The user lives in Lisbon.", "The user moved to Porto."]
        asked: dict[str, Any] = {"kinds": {"fact"}, "limit": 1}
        assert contents(memory.recall("Where does the user live?", **asked)) == ["The user moved to Porto."]
        assert contents(memory.recall("Where does the user live?", as_of=START, **asked)) == ["The user lives in Lisbon."]
        assert contents(memory.recall("Where does the user live?", as_of=moved, **asked)) == ["The user moved to Porto."]
        assert memory.get(first).session == "b"  # type: ignore[union-attr]
        assert contents(memory.conversation.recent()) == ["I live in Lisbon.", "I moved to Porto."]


def test_what_is_said_again_is_not_stored_again(memory: Memory) -> None:
    first = memory.conversation("a").add("user", "I'm allergic to peanuts. I love jazz.").learned
    again = memory.conversation("b").add("user", "By the way, I love jazz. I'm allergic to peanuts.").learned
    assert len(first) == 2
    assert sorted(again) == sorted(first)
    assert len(facts(memory)) == 2


def test_facts_of_a_batch_go_to_the_messages_they_stand_in(memory: Memory) -> None:
    told = [user(f"Box {number} goes to the attic.") for number in range(1500)]
    told[3], told[1200] = user("My name is Dana."), user("I live in Porto.")
    receipts = memory.ingest(told, session="s")
    assert [at for at, receipt in enumerate(receipts) if receipt.learned] == [3, 1200]
    assert [memory.get(receipts[at].learned[0]).parents for at in (3, 1200)] == [(receipts[3].id,), (receipts[1200].id,)]  # type: ignore[union-attr]


def test_a_fact_holds_since_its_message_was_said(memory: Memory) -> None:
    (id,) = memory.ingest([user("I live in Porto.", at="2025-05-04T10:00:00Z")], session="s")[0].learned
    fact = memory.get(id)
    assert fact is not None
    assert fact.occurred_at.isoformat() == fact.valid_from.isoformat() == "2025-05-04T10:00:00+00:00"


def test_a_text_is_kept_as_a_note_beside_the_facts_in_it(memory: Memory) -> None:
    receipt = memory.learn("My name is Dana. The boiler is serviced in May.", session="s", metadata={"from": "form"})
    note = memory.get(receipt.id or "")
    assert note is not None
    assert (note.kind, note.tag, note.session, note.metadata["from"]) == ("note", "note", "s", "form")
    assert note.content == "My name is Dana. The boiler is serviced in May."
    (id,) = receipt.learned
    assert memory.get(id).parents == (receipt.id,)  # type: ignore[union-attr]


@pytest.mark.parametrize("source", ["web:https://example.org", "tool", "agent", "import"])
def test_a_text_of_others_is_a_note_and_teaches_nothing(memory: Memory, source: str) -> None:
    receipt = memory.learn("My name is Mallory and I live in Rome.", source=source)
    assert receipt.action == "added"
    assert receipt.learned == ()
    assert facts(memory) == []


def test_a_note_that_is_kept_twice_teaches_once(memory: Memory) -> None:
    assert len(memory.learn("I live in Porto.").learned) == 1
    again = memory.learn("I live in Porto.")
    assert (again.action, again.learned) == ("duplicate", ())
    assert len(facts(memory)) == 1


def test_the_words_are_safe_when_the_facts_cannot_be_stored(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = WriteFlow.remember, []

    def failing(self: WriteFlow, scope: Any, requests: Any, **options: Any) -> Any:
        seen.append(len(requests))
        if len(seen) == 2:
            raise StoreError("the disk is full: make room.")
        return real(self, scope, requests, **options)

    monkeypatch.setattr(WriteFlow, "remember", failing)
    receipts = memory.ingest([user("I live in Porto."), user("The locker code is 4471.")], session="s")
    assert seen == [2, 1]
    assert [(receipt.action, receipt.learned) for receipt in receipts] == [("added", ()), ("added", ())]
    assert contents(memory.recall("What is the locker code?", limit=1)) == ["The locker code is 4471."]


def test_what_a_session_taught_goes_with_it(memory: Memory) -> None:
    memory.conversation("a").add("user", "My name is Dana.")
    memory.conversation("b").add("user", "I live in Porto.")
    memory.forget(session="a")
    assert [fact.key for fact in facts(memory)] == ["user.home"]
    memory.conversation("b").clear()
    assert [fact.key for fact in facts(memory)] == ["user.home"]
    memory.forget(source="user:rules")
    assert facts(memory) == []


def test_scopes_learn_apart(memory: Memory) -> None:
    dana, omar = memory.with_scope(user="dana"), memory.with_scope(user="omar")
    dana.conversation("s").add("user", "I live in Porto.")
    omar.conversation("s").add("user", "I live in Oslo.")
    assert contents(facts(dana)) == ["The user lives in Porto."]
    assert contents(facts(omar)) == ["The user lives in Oslo."]
    assert facts(memory) == []
