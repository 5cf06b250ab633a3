"""Retention: what is old, lapsed, faded or too much is put aside, can be taken back for a while, and is erased after that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ValidationError
from keepstone.ports.maintenance import Flag
from tests.faults.test_erasure import Secrets
from tests.surfaces.support import Clock, contents, everything, timed

DAY = timedelta(days=1)
YEAR = 365 * DAY
WORD = "Quokkabrindle"  # a word that stands nowhere else


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(path: Path, clock: Clock) -> Iterator[Memory]:
    with timed(path, clock) as opened:
        yield opened


def texts(memory: Memory) -> list[str]:
    return sorted(contents(everything(memory)))


def exported(memory: Memory, path: Path) -> str:
    """All that a store holds of a scope, as text."""
    memory.export(path)
    return path.read_text()


def retired(memory: Memory, id: str) -> None:
    """Let a person put a record aside."""
    memory._engine.store.reviews.add(memory.scope, [Flag(id, "stale", "it may be old")])
    (item,) = [item for item in memory.review if item.id == id]
    memory.review.resolve(item.number, "retire")


# -- age ----------------------------------------------------------------------------------------------------------
def test_what_was_neither_changed_repeated_nor_read_for_a_year_is_put_aside(memory: Memory, clock: Clock) -> None:
    old = memory.remember("Dana plays the cello.").id
    updated = memory.remember("Omar keeps two greyhounds.").id or ""
    memory.remember("Mei grows tomatoes on the roof.")
    memory.remember("Lukas repairs typewriters.")
    clock.forward(days=300)
    memory.update(updated, importance=0.9)
    assert memory.remember("Mei grows tomatoes on the roof.").action == "duplicate"
    assert contents(memory.recall("Who repairs typewriters?", limit=1)) == ["Lukas repairs typewriters."]
    memory.remember("Priya is afraid of spiders.")
    clock.forward(days=100)
    report = memory.upkeep.age()
    assert (report.ids, report.why, report.dry_run) == ((old,), "aged", False)
    assert contents(report.records) == ["Dana plays the cello."]
    assert len(texts(memory)) == 4
    assert not memory.recall("Who plays the cello?")
    (archived,) = memory.upkeep.archived()
    assert (archived.record.id, archived.why, archived.at, archived.ticket) == (old, "aged", clock.at, report.ticket)
    assert memory.upkeep.age().ids == ()


def test_looking_into_the_past_or_explaining_does_not_count_as_reading(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Dana plays the cello.").id or ""
    then = clock.forward(days=200)
    memory.recall("cello", as_of=then)
    memory.why("cello", id)
    memory.history(id)
    clock.forward(days=200)
    assert memory.upkeep.age().ids == (id,)


def test_messages_and_keys_age_only_when_they_are_asked_for(memory: Memory, clock: Clock) -> None:
    memory.ingest([{"role": "user", "content": "Hello there."}], session="s")
    memory.remember("Rome", key="home")
    memory.set("theme", "dark")
    for kind in ("fact", "note", "episode", "summary"):
        memory.remember(f"One of the kind {kind}.", kind=kind)
    clock.forward(days=400)
    assert contents(memory.upkeep.age(kinds=["note"], dry_run=True).records) == ["One of the kind note."]
    assert memory.upkeep.age(kinds=["value"], dry_run=True).ids == ()
    assert len(memory.upkeep.age(dry_run=True).ids) == 4
    assert len(memory.upkeep.age(keyed=True, dry_run=True).ids) == 6
    assert contents(memory.upkeep.age(kinds=["message"]).records) == ["Hello there."]
    assert [record.kind for record in memory.upkeep.age(kinds=["value"], keyed=True).records] == ["value"]
    assert memory.value("theme") is None
    memory.upkeep.age()
    assert texts(memory) == ["Rome"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"since": "read"}, "since is 'read': use used or created"),
        ({"older_than": -DAY}, "older_than"),
        ({"older_than": "a year"}, "older_than"),
        ({"kinds": "fact"}, "lists"),
        ({"kinds": [""]}, "kinds"),
    ],
)
def test_ages_that_make_no_sense_are_refused(memory: Memory, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        memory.upkeep.age(**arguments)


def test_pruning_counts_from_creation_however_often_it_was_read(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana's badge number is in the drawer.")
    memory.set("theme", "dark")
    clock.forward(days=40)
    memory.remember("Dana parks on level two.")
    memory.recall("Where is Dana's badge number?")
    assert memory.upkeep.age(older_than=30 * DAY, dry_run=True).ids == ()
    assert contents(memory.upkeep.age(older_than=30 * DAY, since="created", dry_run=True).records) == [
        "Dana's badge number is in the drawer."
    ]
    assert [(job.job, job.records) for job in memory.upkeep.run({"prune_days": 30}).jobs] == [("prune", 1)]
    assert texts(memory) == ["Dana parks on level two.", "dark"]
    clock.forward(seconds=1)
    assert len(memory.upkeep.age(older_than=0, dry_run=True).ids) == 1, "0: everything"


# -- lapse, fade, cap --------------------------------------------------------------------------------------------
def test_what_has_outlived_its_time_is_put_aside_and_erased_in_time(memory: Memory, clock: Clock, path: Path) -> None:
    id = memory.remember(f"The guest password is {WORD}.", ttl=DAY).id
    memory.remember("The other password is sesame.", ttl=90 * DAY)
    assert memory.upkeep.lapse().ids == ()
    clock.forward(days=2)
    assert Secrets.traces(path, [WORD])
    assert memory.upkeep.lapse(dry_run=True).ids == (id,)
    report = memory.upkeep.lapse()
    assert (report.ids, report.why) == ((id,), "expired")
    assert memory.upkeep.lapse().ids == ()
    clock.forward(days=31)
    assert memory.upkeep.purge(trust_clock=True).ids == (id,)
    assert Secrets.traces(path, [WORD]) == []


def test_what_matters_little_and_was_left_alone_fades(memory: Memory, clock: Clock) -> None:
    faint = {"importance": 0.2}
    memory.remember("Dana plays the cello.", **faint)  # type: ignore[arg-type]
    memory.remember("Omar keeps two greyhounds.", **faint)  # type: ignore[arg-type]
    memory.remember("Rome", key="home", **faint)  # type: ignore[arg-type]
    memory.remember("The trip went well.", kind="episode", **faint)  # type: ignore[arg-type]
    memory.remember("Mei grows tomatoes on the roof.", importance=0.3)
    for _ in range(2):
        assert contents(memory.recall("Who keeps greyhounds?", limit=1)) == ["Omar keeps two greyhounds."]
    clock.forward(days=40)
    memory.remember("Lukas repairs typewriters.", **faint)  # type: ignore[arg-type]
    assert contents(memory.upkeep.fade(dry_run=True).records) == ["Dana plays the cello."]
    assert len(memory.upkeep.fade(reads=2, dry_run=True).ids) == 2
    assert len(memory.upkeep.fade(importance=0.31, dry_run=True).ids) == 2
    assert memory.upkeep.fade(older_than=50 * DAY).ids == ()
    report = memory.upkeep.fade()
    assert (contents(report.records), report.why) == (["Dana plays the cello."], "faded")


def test_over_a_cap_the_least_important_least_read_and_longest_untouched_go(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana plays the cello.", importance=0.9)
    memory.remember("Omar keeps two greyhounds.", importance=0.2)
    memory.remember("Mei grows tomatoes on the roof.")
    clock.forward(days=1)
    memory.remember("Lukas repairs typewriters.")
    memory.remember("Priya is afraid of spiders.")
    memory.ingest([{"role": "user", "content": "Hello there."}], session="s")
    assert contents(memory.recall("Who grows tomatoes?", limit=1)) == ["Mei grows tomatoes on the roof."]
    assert memory.upkeep.cap(5).ids == ()
    report = memory.upkeep.cap(2)
    assert contents(report.records) == [
        "Omar keeps two greyhounds.", "Lukas repairs typewriters.", "Priya is afraid of spiders.",
    ]  # fmt: skip
    assert texts(memory) == ["Dana plays the cello.", "Hello there.", "Mei grows tomatoes on the roof."]
    assert memory.upkeep.cap(2).ids == ()
    assert contents(memory.upkeep.cap(0, kinds=["message"]).records) == ["Hello there."]
    for most in (-1, 1.5, True, "2"):
        with pytest.raises(ValidationError, match="most"):
            memory.upkeep.cap(most)  # type: ignore[arg-type]


# -- a dry run ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("job", ["age", "lapse", "fade", "cap", "purge", "compact", "fix", "run"])
def test_a_dry_run_says_what_would_happen_and_changes_nothing(
    memory: Memory, clock: Clock, path: Path, tmp_path: Path, job: str
) -> None:
    for text in ("Dana drinks 2 coffees a day.", "Dana takes her coffee without sugar.", "Dana buys coffee beans from Kenya."):
        memory.remember(text, importance=0.2)
    memory.remember("The guest password is sesame.", ttl=DAY)
    clock.forward(days=500)
    memory.remember("Omar keeps two greyhounds.")
    memory.upkeep.cap(3, kinds=["fact"])
    clock.forward(days=60)
    call: Callable[..., Any] = getattr(memory.upkeep, job)
    more: dict[str, Any] = {"cap": {"most": 1}, "purge": {"trust_clock": True}}.get(job, {})
    before, trail = exported(memory, tmp_path / "before.jsonl"), len(memory.audit(limit=1000))
    archived = [(each.record.id, each.ticket) for each in memory.upkeep.archived()]
    dry = call(**more, dry_run=True)
    assert dry.dry_run
    assert exported(memory, tmp_path / "after.jsonl") == before
    assert [(each.record.id, each.ticket) for each in memory.upkeep.archived()] == archived
    assert len(memory.audit(limit=1000)) == trail
    real = call(**more)
    if job in ("age", "lapse", "fade", "cap", "purge"):
        assert dry.ids == real.ids != ()
    if job == "compact":
        assert dry.groups == real.groups != ()
    assert exported(memory, tmp_path / "done.jsonl") != before or job == "fix"


# -- undo and purge -----------------------------------------------------------------------------------------------
def test_a_ticket_takes_back_its_own_batch_and_no_other(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana plays the cello.", importance=0.1)
    memory.remember("Omar keeps two greyhounds.")
    clock.forward(days=400)
    faded, aged = memory.upkeep.fade(), memory.upkeep.age()
    assert faded.ticket != aged.ticket
    assert memory.with_scope(user="dana").upkeep.undo(aged.ticket) == ()
    assert memory.upkeep.undo(aged.ticket) == aged.ids
    assert memory.upkeep.undo(aged.ticket) == ()
    assert texts(memory) == ["Omar keeps two greyhounds."]
    assert memory.upkeep.restore(faded.ids) == 1
    assert contents(memory.recall("Who plays the cello?", limit=1)) == ["Dana plays the cello."]
    for ticket in (0, -1, True, "1"):
        with pytest.raises(ValidationError, match="ticket"):
            memory.upkeep.undo(ticket)  # type: ignore[arg-type]


def test_what_was_remembered_anew_does_not_come_back_twice(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana plays the cello.")
    memory.remember("Rome", key="home")
    clock.forward(days=400)
    report = memory.upkeep.age(keyed=True)
    assert len(report.ids) == 2
    assert memory.remember("Dana plays the cello.").action == "added"
    assert memory.remember("Oslo", key="home").action == "added"
    assert memory.upkeep.undo(report.ticket) == ()
    assert memory.value("home") == "Oslo"
    assert texts(memory) == ["Dana plays the cello.", "Oslo"]


def test_until_the_window_is_over_it_can_be_undone_and_after_it_nothing_is_left(memory: Memory, clock: Clock, path: Path) -> None:
    id = memory.remember(f"The safe opens with {WORD}.", metadata={"place": f"hall {WORD}"}).id or ""
    memory.update(id, f"The safe opened with {WORD} once.")
    memory.remember("Omar keeps two greyhounds.", importance=0.9)
    clock.forward(days=400)
    report = memory.upkeep.cap(1)
    clock.forward(days=29)
    waiting = memory.upkeep.purge(trust_clock=True)
    assert (waiting.ids, waiting.waiting, waiting.erased) == ((), 1, True)
    assert memory.upkeep.undo(report.ticket) == (id,)
    assert len(memory.history(id)) == 2
    report = memory.upkeep.cap(1)
    clock.forward(days=31)
    assert memory.upkeep.purge(dry_run=True, trust_clock=True).ids == (id,)
    assert Secrets.traces(path, [WORD])
    done = memory.upkeep.purge(trust_clock=True)
    assert (done.ids, done.waiting, done.erased, done.reasons) == ((id,), 0, True, ())
    assert memory.get(id) is None
    assert Secrets.traces(path, [WORD]) == []
    assert memory.upkeep.undo(report.ticket) == ()
    assert texts(memory) == ["Omar keeps two greyhounds."]
    assert memory.upkeep.doctor().healthy


def test_what_was_compacted_is_never_purged(memory: Memory, clock: Clock) -> None:
    for text in ("Dana drinks 2 coffees a day.", "Dana takes her coffee without sugar.", "Dana buys coffee beans from Kenya."):
        memory.remember(text)
    clock.forward(days=60)
    report = memory.upkeep.compact()
    assert len(report.groups[0]) == 3
    clock.forward(days=3000)
    assert memory.upkeep.purge(trust_clock=True).ids == ()
    assert {each.why for each in memory.upkeep.archived()} == {"compacted"}
    assert sorted(memory.upkeep.undo(report.tickets[0])) == sorted(report.groups[0])
    assert len(texts(memory)) == 3


def test_a_purge_of_one_reason_leaves_the_others(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana plays the cello.", importance=0.1)
    memory.remember("Omar keeps two greyhounds.")
    clock.forward(days=400)
    faded, aged = memory.upkeep.fade(), memory.upkeep.age()
    clock.forward(days=60)
    assert memory.upkeep.purge(why=["aged"], trust_clock=True).ids == aged.ids
    assert memory.upkeep.purge(why=["capped"], trust_clock=True).ids == ()
    with pytest.raises(ValidationError, match="why is 'boredom'"):
        memory.upkeep.purge(why=["boredom"])  # type: ignore[list-item]
    assert memory.upkeep.purge(trust_clock=True).ids == faded.ids


# -- beside reviews -----------------------------------------------------------------------------------------------
def test_what_a_person_retired_is_aside_like_the_rest(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Dana plays the cello.").id or ""
    retired(memory, id)
    (archived,) = memory.upkeep.archived()
    assert (archived.record.id, archived.why) == (id, "retired")
    assert memory.upkeep.restore([id]) == 1
    assert texts(memory) == ["Dana plays the cello."]
    clock.forward(days=400)
    assert memory.upkeep.age().ids == (id,)
    memory.upkeep.restore([id])
    memory._engine.store.reviews.add(memory.scope, [Flag(id, "unsupported", "nothing speaks for it")])
    memory.review.resolve(memory.review.list()[0].number, "retire")
    clock.forward(days=31)
    assert memory.upkeep.purge(why=["retired"], trust_clock=True).ids == (id,)
    assert [list(memory.review.list(state=state)) for state in ("open", "retired")] == [[], []], "with it went its reviews"


def test_what_aged_while_it_waited_for_a_decision_can_still_be_decided(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Dana plays the cello.").id or ""
    memory._engine.store.reviews.add(memory.scope, [Flag(id, "stale", "it may be old")])
    clock.forward(days=400)
    memory.upkeep.age()
    receipt = memory.review.resolve(memory.review.list()[0].number, "retire")
    assert "stays" in receipt.reasons[0]
    assert [each.why for each in memory.upkeep.archived()] == ["aged"]


# -- what is put aside --------------------------------------------------------------------------------------------
def test_what_is_aside_is_in_no_answer_and_keeps_its_text_and_history(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Dana plays the cello.").id or ""
    memory.update(id, "Dana plays the double bass.")
    clock.forward(days=400)
    memory.upkeep.age()
    assert not memory.recall("What does Dana play?", min_similarity=0)
    assert texts(memory) == []
    record = memory.get(id)
    assert record is not None
    assert record.status == "archived"
    assert contents(memory.history(id)) == ["Dana plays the cello.", "Dana plays the double bass."]
    assert "not active" in memory.why("Dana", id).reasons[0]
    assert [row.action for row in memory.audit(limit=1)] == ["archived"]
    assert memory.audit.verify().whole


def test_reports_do_not_reach_over_scopes(memory: Memory, clock: Clock) -> None:
    other = memory.with_scope(user="dana")
    mine = memory.remember("Omar keeps two greyhounds.").id or ""
    other.remember("Dana plays the cello.")
    clock.forward(days=400)
    assert contents(memory.upkeep.age().records) == ["Omar keeps two greyhounds."]
    assert texts(other) == ["Dana plays the cello."]
    assert list(other.upkeep.archived()) == []
    assert other.upkeep.restore([mine]) == 0
    clock.forward(days=60)
    assert other.upkeep.purge(trust_clock=True).ids == ()
    assert memory.get(mine) is not None
    for limit in (0, True, 2_000_000):
        with pytest.raises(ValidationError, match="limit"):
            memory.upkeep.archived(limit=limit)


def test_what_one_memory_puts_aside_another_on_the_same_store_does_not_recall(path: Path, memory: Memory, clock: Clock) -> None:
    memory.remember("Dana plays the cello.")
    clock.forward(days=400)
    with timed(path, clock) as other:
        assert contents(other.recall("Who plays the cello?")) == ["Dana plays the cello."]
        clock.forward(days=400)
        ticket = memory.upkeep.age().ticket
        assert not other.recall("Who plays the cello?", min_similarity=0)
        memory.upkeep.undo(ticket)
        assert contents(other.recall("Who plays the cello?")) == ["Dana plays the cello."]
