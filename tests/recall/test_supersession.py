"""What is true now: later statements come before the earlier ones that they replace, and both say so."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from keepstone import Memory, Recall
from keepstone.recall.supersession import PairReader
from keepstone.text.revisions import KINDS, leaves_standing, read_statement

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
OTHERS = (
    "The bins are collected on Monday mornings.",
    "My blood type is A positive.",
    "Went to the lake on Saturday with the children.",
    "The spare batteries are in the drawer under the microwave.",
    "I'm good with maps and bad with names.",
)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:") as opened:
        yield opened


def tell(memory: Memory, *texts: str) -> list[str]:
    """Remember texts, a week after each other, with others in between; their ids."""
    ids = []
    for week, text in enumerate(texts):
        ids.append(memory.remember(text, occurred_at=START + timedelta(weeks=week)).id or "")
        for day, other in enumerate(OTHERS if week == 0 else ()):
            memory.remember(other, occurred_at=START + timedelta(days=1 + day))
    return ids


def ids_of(hits: Recall) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I live in Porto.", "We finally moved to Leeds, the boxes are unpacked.", "Where do I live?"),
        ("I live in Porto.", "We finally moved to Leeds, the boxes are unpacked.", "Where do I live now?"),
        ("My landlord's name is Meier.", "It is spelled Meyer, not Meier.", "How is my landlord's name spelled?"),
        ("I eat meat every day.", "I no longer eat meat.", "Do I eat meat?"),
        ("I work for Nordwind.", "I quit my job and work for Siemens now.", "Who do I work for?"),
        ("We have a dog called Moritz.", "Moritz died last night, we buried him in the garden.", "How is our dog Moritz?"),
        ("My phone number is 555 0101.", "I have a new phone number, it's 555 0188.", "What is my phone number?"),
    ],
)
def test_a_change_comes_before_what_it_replaces(memory: Memory, old: str, new: str, question: str) -> None:
    old_id, new_id = tell(memory, old, new)
    hits = memory.recall(question)
    assert ids_of(hits)[0] == new_id
    before = next(hit for hit in hits if hit.id == old_id)
    assert before.superseded_by == new_id
    assert hits[0].superseded_by is None
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_effect_is_one_named_part_of_the_score(memory: Memory) -> None:
    old_id, new_id = tell(memory, "I live in Porto.", "We finally moved to Leeds, the boxes are unpacked.")
    hits = {hit.id: hit for hit in memory.recall("Where do I live?")}
    assert hits[new_id].signals["current"] >= 0 >= hits[old_id].signals["current"]
    assert hits[new_id].signals["current"] > hits[old_id].signals["current"]
    reasons = memory.why("Where do I live?", old_id).reasons
    assert any("held until 9 Mar 2026" in reason and new_id in reason for reason in reasons), reasons
    assert any("replaces an earlier statement" in reason for reason in memory.why("Where do I live?", new_id).reasons)


def test_questions_about_another_time_get_the_old_value(memory: Memory) -> None:
    old_id, new_id = tell(memory, "I live in Porto.", "We finally moved to Leeds, the boxes are unpacked.")
    past = memory.recall("Where do I live?", as_of=START + timedelta(days=2))
    assert ids_of(past)[0] == old_id
    assert past[0].superseded_by is None
    assert new_id not in ids_of(past)
    for question in ("Where did I live before?", "Where was my home?"):
        assert ids_of(memory.recall(question))[0] == old_id


@pytest.mark.parametrize(
    ("first", "second", "question"),
    [
        ("I live in Porto.", "My sister lives in Leeds.", "Where do I live?"),
        ("I live in Porto.", "As a student I lived in Leeds.", "Where do I live?"),
        ("I live in a flat in Porto.", "I'd love to have a house in Leeds one day.", "Where do I live?"),
        ("My favourite colour is green.", "Went to the opera in a red dress.", "What is my favourite colour?"),
    ],
)
def test_another_person_the_past_and_a_wish_replace_nothing(memory: Memory, first: str, second: str, question: str) -> None:
    first_id, _ = tell(memory, first, second)
    hits = memory.recall(question)
    assert ids_of(hits)[0] == first_id
    assert not [hit.superseded_by for hit in hits if hit.superseded_by is not None]


def test_what_merely_happened_replaces_nothing(memory: Memory) -> None:
    memory.remember("Dana's cat is called Quillfeather.", occurred_at=START)
    memory.ingest([{"role": "user", "content": "I fed Quillfeather today."}], session="evening")
    first = memory.recall("What is Dana's cat called?")[0]
    assert (first.content, first.superseded_by) == ("Dana's cat is called Quillfeather.", None)


@pytest.mark.parametrize(
    ("first", "second", "question"),
    [
        ("Ada keeps the key of the boat under the bucket.", "The boat is called Heron.", "Where is the key of the boat?"),
        ("Shelf 2 holds the crate tagged cr2x.", "Shelf 5 holds the crate tagged cr5x.", "crate cr2x"),
        ("Dana has a dog called Rex.", "Dana has a cat called Tom.", "What is Dana's dog called?"),
        ("The server runs in Frankfurt.", "The database is called orders.", "Where does the server run?"),
    ],
)
def test_a_state_of_something_else_replaces_nothing_where_nothing_else_is_known(
    memory: Memory, first: str, second: str, question: str
) -> None:
    ids = [memory.remember(text, occurred_at=START + timedelta(weeks=week)).id for week, text in enumerate((first, second))]
    hits = memory.recall(question)
    assert hits[0].id == ids[0]
    assert hits[0].superseded_by is None


def test_an_addition_keeps_the_first(memory: Memory) -> None:
    first_id, second_id = tell(
        memory, "We subscribe to the local newspaper.", "We also subscribe to a gardening magazine as well."
    )
    hits = memory.recall("What do we subscribe to?")
    assert {first_id, second_id} <= set(ids_of(hits))


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I'm with Jonas.", "Jonas and I split up, I moved out.", "Am I still with Jonas?"),
        ("I take karate lessons.", "Dropped karate, my knees had enough.", "Do I take karate lessons now?"),
    ],
)
def test_a_reader_sees_that_something_is_over(old: str, new: str, question: str) -> None:
    with Memory.open(":memory:", settings={"reader": "always"}) as memory:
        old_id, new_id = tell(memory, old, new)
        hits = memory.recall(question)
        assert ids_of(hits)[0] == new_id
        assert [hit.superseded_by for hit in hits if hit.id == old_id] in ([], [new_id])


def test_one_more_of_the_same_leaves_the_first_current(memory: Memory) -> None:
    first_id, second_id = tell(memory, "I have a cat, Mia.", "We got a second cat, Leo.")
    hits = memory.recall("Which cats do I have?")
    assert {first_id, second_id} <= set(ids_of(hits))
    assert not [hit.superseded_by for hit in hits if hit.superseded_by is not None]
    assert "out of date" not in memory.context("Which cats do I have?")


def test_an_embedder_that_the_model_does_not_know_changes_no_order() -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        old_id, _ = tell(memory, "I live in Porto.", "We finally moved to Leeds, the boxes are unpacked.")
        hits = memory.recall("Where do I live?")
        assert ids_of(hits)[0] == old_id
        assert hits[0].superseded_by is None


def test_a_superseded_fact_pushes_down_the_sentence_it_came_from(memory: Memory) -> None:
    for number, text in enumerate(("I live in Rome.", "I moved to Oslo.")):
        at = (START + timedelta(weeks=number)).isoformat()
        memory.ingest([{"role": "user", "content": text, "at": at}], session=f"chat-{number}")
    hits = memory.recall("Where do I live?")
    assert "Oslo" in hits[0].content
    old = next(hit for hit in hits if "Rome" in hit.content)
    assert old.superseded_by in {hit.id for hit in hits if "Oslo" in hit.content}


def test_verify_finds_what_was_replaced_in_other_words(memory: Memory) -> None:
    old_id, new_id = tell(memory, "I work for Nordwind.", "I quit my job and work for Siemens now.")
    flags = {flag.id: flag for flag in memory.upkeep.verify(dry_run=True).flags if flag.flag == "contradicted"}
    assert set(flags) == {old_id}
    assert new_id in flags[old_id].evidence
    assert "probability" in flags[old_id].reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The library opens at nine.", "The library opens at eleven."),
        ("Vera hates mushrooms.", "Vera loves mushrooms, she had three helpings."),
    ],
)
def test_verify_finds_what_cannot_both_hold(memory: Memory, old: str, new: str) -> None:
    old_id, _ = tell(memory, old, new)
    assert [flag.id for flag in memory.upkeep.verify(dry_run=True).flags if flag.flag == "contradicted"] == [old_id]


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ("I live in Porto.", "I live in Porto, close to the river."),
        ("My car is a red Fiat.", "My red Fiat car was washed today."),
        ("We have a dog called Moritz.", "Walked our dog Moritz for two hours."),
        ("I take the bus to work.", "The bus to work was late again."),
        ("My sister lives in Leeds.", "Visited my sister in Leeds, she lives near the park."),
    ],
)
def test_what_is_told_again_or_mentioned_is_not_contradicted(memory: Memory, said: str, again: str) -> None:
    tell(memory, said, again)
    assert not [flag for flag in memory.upkeep.verify(dry_run=True).flags if flag.flag == "contradicted"]


def test_statements_are_read_for_what_they_do() -> None:
    texts = {
        "change": ("We've moved to Turin.", "I switched to decaf last week.", "From now on the meeting is on Thursdays."),
        "end": ("I don't play tennis any more.", "We gave up the allotment."),
        "past": ("As a child I lived in Ghent.", "Back in college I drove a Mini."),
        "wish": ("I'd love to learn the harp one day.", "If we had the money we'd buy a boat."),
        "addition": ("We also have a second car.", "I have another sister as well."),
        "state": ("I live in Turin.", "My boss is called Vera.", "We have two cats."),
    }
    read = [(kind, text, read_statement(text)) for kind, examples in texts.items() for text in examples]
    wrong = [(kind, text) for kind, text, reading in read if KINDS[reading.kinds.index(max(reading.kinds))] != kind]
    assert len(wrong) <= 1, wrong


# -- what replaces nothing -------------------------------------------------------------------------------------------
def test_a_name_replaces_nothing_but_a_name(memory: Memory) -> None:
    theme, _ = tell(memory, "Dana prefers dark mode.", "The user's name is Dana.")
    hits = memory.recall("Which theme does Dana like?")
    assert (hits[0].id, hits[0].superseded_by) == (theme, None)


def test_the_number_in_a_question_says_which_one_is_meant(memory: Memory) -> None:
    for number in range(6):
        memory.remember(f"fact number {number}", kind="note")
    assert [memory.recall(f"fact number {number}")[0].content for number in range(6)] == [f"fact number {n}" for n in range(6)]


def test_values_of_two_keys_stand_beside_each_other(memory: Memory) -> None:
    for number in range(5):
        memory.remember(f"value {number}", key=f"key{number}")
    assert all(hit.superseded_by is None for hit in memory.recall("value"))
    assert memory.upkeep.verify().flags == ()


def test_a_wish_does_not_come_before_what_holds(memory: Memory) -> None:
    home, wish = tell(memory, "I live in York.", "I'd love to live in Leeds one day.")
    hits = memory.recall("Where do I live?")
    assert ids_of(hits)[0] == home
    assert hits[0].superseded_by is None
    assert wish in ids_of(hits)


def test_a_receipt_says_what_a_statement_may_replace(memory: Memory) -> None:
    home, _ = tell(memory, "I live in Porto.", "My sister Ana has bought a piano.")
    receipt = memory.remember("We finally moved to Leeds, the boxes are unpacked.", occurred_at=START + timedelta(weeks=3))
    assert list(receipt.may_replace) == [home]
    assert 0.3 <= receipt.may_replace[home] <= 1
    record = memory.get(home)
    assert record is not None
    assert record.status == "active"  # only what is certain changes a record
    assert memory.remember("I'd like to live in Rome one day.", occurred_at=START + timedelta(weeks=4)).may_replace == {}


def test_what_a_statement_may_replace_is_looked_up_when_it_is_read() -> None:
    moved = START + timedelta(weeks=3)
    with Memory.open(":memory:") as memory:
        home, _ = tell(memory, "I live in Porto.", "My sister Ana has bought a piano.")
        read = memory.remember("We finally moved to Leeds, the boxes are unpacked.", occurred_at=moved)
        assert pickle.loads(pickle.dumps(read)).may_replace == read.may_replace != {}
        later = memory.remember("We finally moved to York, the boxes are unpacked.", occurred_at=moved + timedelta(hours=1))
        memory.forget(home)
        assert home not in later.may_replace
        unread = memory.remember("We finally moved to Hull, the boxes are unpacked.", occurred_at=moved + timedelta(days=1))
    assert list(read.may_replace) == [home]
    assert unread.may_replace == {}  # the memory is closed


def test_a_reader_judges_each_pair_once() -> None:
    class Counting:
        calls = 0

        def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
            return [0.0 for _ in texts]

        def replaces(self, older: str, newer: Sequence[str]) -> list[float]:
            self.calls += 1
            return [2.0 for _ in newer]

    reader = Counting()
    pairs = PairReader(reader)
    assert [pairs("I live in Porto.", "We moved to Leeds."), pairs("I live in Porto.", "We moved to Leeds.")] == [2.0, 2.0]
    assert reader.calls == 1
    assert PairReader(lambda question, texts: [0.0]).of() is None


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        (
            "Cleo Nama moved to Lyon and now rents a flat there.",
            "Cleo Filogase has moved to Ghent and now rents a flat there.",
            "Where does Cleo Nama live now?",
        ),
        ("Rosa Mika drinks mint tea.", "Rosa Vaya now drinks black coffee.", "What does Rosa Mika drink?"),
        (
            "The budget of the Bomare rollout is 9000 dollars.",
            "The budget of the Misesava rollout is now 5000 dollars.",
            "What is the budget of the Bomare rollout?",
        ),
        ("Standup of team Falcon is at nine.", "Standup of team Heron moved to ten.", "When is the standup of team Falcon?"),
    ],
)
def test_what_is_said_of_another_by_name_replaces_nothing(memory: Memory, old: str, new: str, question: str) -> None:
    old_id = memory.remember(old, occurred_at="2026-01-01").id
    memory.remember("I like long walks by the river.", occurred_at="2026-01-02")
    memory.remember("The printer is out of toner again.", occurred_at="2026-01-03")
    memory.remember(new, occurred_at="2026-03-01")
    first = memory.recall(question)[0]
    assert (first.id, first.superseded_by) == (old_id, None)


def test_another_surname_is_another_person_to_a_reader_too() -> None:
    old = "Cleo Nama moved to Lyon and now rents a flat there."
    assert leaves_standing(old, "Cleo Filogase has moved to Ghent and now rents a flat there.", read=True)
    assert not leaves_standing(old, "Cleo Nama has moved to Ghent and now rents a flat there.", read=True)
