"""Redaction, refusals and limits keep names apart, keep message blocks whole and report what was not stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Record
from keepstone.agent import MemoryAgent
from keepstone.errors import Conflict
from keepstone.write.request import MAX_CONTENT
from tests.surfaces.support import Clock, contents, everything, timed
from tests.surfaces.test_sensitive_paths import VALUES, held

CARD, OTHER_CARD = "4111 1111 1111 1111", "5555 5555 5555 4444"
PAIRS = {
    "card": (CARD, OTHER_CARD),
    "card in one piece": (CARD.replace(" ", ""), OTHER_CARD.replace(" ", "")),
    "ssn": ("536-22-1234", "219-09-9999"),
    "iban": ("DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32"),
    "token": (VALUES["token"], "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"),
}
every_pair = pytest.mark.parametrize("kind", PAIRS)


def stored(memory: Memory, id: str | None) -> Record:
    record = memory.get(id or "")
    assert record is not None
    return record


def unheld(path: Path, *values: str) -> bool:
    """Whether no file of a store holds one of these values."""
    return not any(held(path, value) for value in values)


# -- two names never become one -------------------------------------------------------------------------------------------
@every_pair
def test_two_keys_stay_two(path: Path, kind: str) -> None:
    one, two = (f"customer {value}" for value in PAIRS[kind])
    with Memory.open(path, embedder="none") as memory:
        memory.set(one, "Alice")
        memory.set(two, "Bob")
        assert (memory.value(one), memory.value(two)) == ("Alice", "Bob")
        assert len({record.key for record in everything(memory)}) == 2
        memory.set(one, "Alicia")
        assert (memory.value(one), memory.value(two)) == ("Alicia", "Bob")
        assert memory.forget(key=one).forgotten == 1
        assert (memory.value(one), memory.value(two)) == (None, "Bob")
        assert unheld(path, *PAIRS[kind])
    assert unheld(path, *PAIRS[kind])


@every_pair
def test_two_sessions_stay_two(path: Path, kind: str) -> None:
    one, two = PAIRS[kind]
    with Memory.open(path, embedder="none") as memory:
        memory.conversation(one).add("user", "I am Alice.")
        assert len(memory.conversation(two)) == 0
        memory.conversation(two).add("user", "I am Bob.")
        assert contents(memory.conversation(one)) == ["I am Alice."]
        assert contents(memory.conversation(two)) == ["I am Bob."]
        assert contents(memory.recall("Alice Bob", session=one, min_similarity=0)) == ["I am Alice."]
        assert memory.forget(session=one).forgotten == 1
        assert contents(everything(memory)) == ["I am Bob."]
    assert unheld(path, *PAIRS[kind])


@every_pair
def test_two_idempotency_keys_stay_two(path: Path, kind: str) -> None:
    one, two = PAIRS[kind]
    with Memory.open(path, embedder="none") as memory:
        first = memory.remember("Dana likes tea.", idempotency_key=one)
        second = memory.remember("Omar sails.", idempotency_key=two)
        assert (first.action, second.action) == ("redacted", "redacted")
        assert first.id != second.id
        assert memory.remember("Dana likes tea.", idempotency_key=one).id == first.id
        with pytest.raises(Conflict):
            memory.remember("Dana likes tea.", idempotency_key=two)
        assert len(everything(memory)) == 2
    assert unheld(path, *PAIRS[kind])


FOUND_BY_TAG: dict[str, Callable[[Memory, str], Any]] = {
    "list": lambda memory, tag: memory.list(tag=tag),
    "recall": lambda memory, tag: memory.recall("drinks", tag=tag, min_similarity=0),
}


@every_pair
@pytest.mark.parametrize("way", FOUND_BY_TAG)
def test_two_tags_stay_two(path: Path, way: str, kind: str) -> None:
    one, two = (f"number {value}" for value in PAIRS[kind])
    with Memory.open(path, embedder="none") as memory:
        memory.remember("Dana drinks tea.", tag=one)
        memory.remember("Omar drinks coffee.", tag=two)
        assert contents(FOUND_BY_TAG[way](memory, one)) == ["Dana drinks tea."]
        assert contents(FOUND_BY_TAG[way](memory, two)) == ["Omar drinks coffee."]
    assert unheld(path, *PAIRS[kind])


def test_a_name_keeps_its_digest_after_a_restart(path: Path) -> None:
    names = []
    for _ in range(2):
        with Memory.open(path, embedder="none") as memory:
            memory.set(f"card {CARD}", "Dana's")
            names.append(everything(memory)[0].key)
            assert memory.value(f"card {CARD}") == "Dana's"
    assert names[0] == names[1]


def test_the_digest_of_a_name_differs_between_two_stores(tmp_path: Path) -> None:
    names = set()
    for store in ("one.db", "two.db", "three.db"):
        with Memory.open(tmp_path / store, embedder="none") as memory:
            record = stored(memory, memory.remember("Dana likes tea.", tag=CARD, key=CARD, session=CARD).id)
            assert record.tag == record.key == record.session
            assert record.tag[:15] == "[redacted:card "
            assert len(record.tag) == len("[redacted:card a1b2c3d4e5]")
            names.add(record.tag)
    assert len(names) == 3


@pytest.mark.parametrize("text", ["content", "metadata"])
def test_only_names_carry_a_digest(memory: Memory, text: str) -> None:
    given: dict[str, Any] = {"content": "Dana has one."} | {text: f"It is {CARD}" if text == "content" else {"n": CARD}}
    record = stored(memory, memory.remember(**given).id)
    assert "[redacted:card]" in repr(record)
    assert "[redacted:card " not in repr(record)


# -- shapes ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("given", [{"version": "536-22-1234", "code": "x"}, {"a": [{"b": CARD}], "n": 4111111111111111}])
def test_a_use_of_a_tool_stays_one(memory: Memory, given: dict[str, Any]) -> None:
    talk = memory.conversation("s")
    talk.add("user", "Find it.")
    talk.add("assistant", [{"type": "tool_use", "id": "t", "name": "find", "input": given}])
    block: Any = talk.last()[1].content[0]
    assert (block["type"], block["id"], block["name"], block["input"].keys()) == ("tool_use", "t", "find", given.keys())


def test_an_update_keeps_what_was_noticed_in_the_rest(memory: Memory) -> None:
    id = memory.remember("Write to Dana.", metadata={"to": "dana@example.org"}).id or ""
    assert stored(memory, id).sensitive == ("email",)
    memory.update(id, "Write to Dana today.")
    assert stored(memory, id).sensitive == ("email",)
    memory.update(id, "Write soon.", metadata={"to": "dana@example.org"})
    assert stored(memory, id).sensitive == ("email",)
    memory.update(id, metadata={"to": "Dana"})
    assert stored(memory, id).sensitive == ()
    memory.update(id, metadata={"phone": "+49 30 901820"})
    assert stored(memory, id).sensitive == ("phone",)


def test_what_grew_by_its_markers_can_be_moved(path: Path, tmp_path: Path) -> None:
    secrets = "pwd: a1b2c3 " * 900
    with Memory.open(tmp_path / "other.db", embedder="none") as other:
        other.remember(secrets + "All is well. " * ((MAX_CONTENT - len(secrets)) // 13))
        other.export(tmp_path / "export.jsonl")
        kept = other.list()[0].content
    with Memory.open(path, embedder="none") as memory:
        assert memory.import_(tmp_path / "export.jsonl").added == 1
        assert memory.list()[0].content == kept
    assert len(kept) > MAX_CONTENT
    assert "a1b2c3" not in kept


# -- what was not kept is told --------------------------------------------------------------------------------------------
def test_an_agent_says_that_a_message_was_refused(path: Path) -> None:
    with Memory.open(path, settings={"sensitive": {"card": "refuse"}}) as memory:
        reply = MemoryAgent(memory, lambda _: "It is valid.").chat(f"Is {CARD} valid?", session="s")
        assert reply.text == "It is valid."
        assert reply.notes == ("the message was not saved: a card number in the content is refused by the policy",)


@pytest.mark.parametrize("settings", [{"write_interval": 5.0}, {"writes_per_minute": 1}])
def test_an_agent_says_that_a_limit_took_its_answer(path: Path, settings: dict[str, Any]) -> None:
    with timed(path, Clock(), settings=settings) as memory:
        reply = MemoryAgent(memory, lambda _: "It is six.").chat("What time is it?", session="s")
        assert reply.text == "It is six."
        assert contents(memory.conversation("s")) == ["What time is it?"]
        (note,) = reply.notes
        assert note.startswith("what was said was not saved: ")


@pytest.mark.parametrize(("settings", "kept"), [({"sensitive": {"card": "refuse"}}, 2), ({"writes_per_minute": 1}, 3)])
def test_an_imported_conversation_counts_what_it_stored(path: Path, settings: dict[str, Any], kept: int) -> None:
    said = [{"role": "user", "content": text} for text in ("Hello.", f"It is {CARD}", "Bye.")]
    with timed(path, Clock(), embedder="none", settings=settings) as memory:
        count = memory.conversation("s").import_({"keepstone": 1, "messages": said, "summary": None})
        assert count == len(memory.conversation("s")) == kept


def test_half_an_answer_of_a_model_is_not_taken_for_all_of_it(path: Path) -> None:
    def model(_: Any) -> str:
        return '{"facts": [{"turns": [1], "content": "The us'

    with Memory.open(path, model=model, settings={"worker": False}) as memory:
        memory.ingest([{"role": "user", "content": "I live in Porto."}], session="s")
        report = memory.jobs.run()
        assert report.problems or report.refused
        assert not [record for record in memory.list() if record.content.startswith("The us")]


def test_a_task_that_a_limit_kept_from_ending_is_still_in_hand(path: Path) -> None:
    clock = Clock()
    with timed(path, clock, settings={"writes_per_minute": 2}) as memory:
        memory.tasks.start("water the garden")
        memory.tasks.record("take the hose")
        memory.tasks.record("open the tap")
        refused = memory.tasks.end(True, "all is wet")
        assert refused.action == "refused"
        assert memory.working.task == "water the garden"
        clock.forward(minutes=5)
        assert memory.tasks.end(True, "all is wet").action != "refused"
        assert memory.working.task is None
        assert any("water the garden" in each for each in contents(memory.list(kind="episode")))
