"""Memories that newer messages, the calendar, their parents or a probe speak against are flagged, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Scope
from keepstone.errors import ValidationError
from keepstone.maintenance import verification
from keepstone.maintenance.probes import callable_probe, file_probe, sql_probe
from keepstone.maintenance.verification import Verifier, VerifyReport
from tests.agent.support import model_at, served
from tests.models.endpoint import Request, Step, said
from tests.models.endpoint import say as answer
from tests.surfaces.support import START, Clock, timed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(path: Path, clock: Clock) -> Iterator[Memory]:
    with timed(path, clock) as opened:
        yield opened


def verify(memory: Memory, clock: Clock, **options: Any) -> VerifyReport:
    return Verifier(memory._engine.store, clock).verify(memory.scope, **options)


def say(memory: Memory, text: str, name: str | None = None, extract: bool = False) -> str:
    """A user's message, stored without learning from it unless asked; its id."""
    said: dict[str, Any] = {"role": "user", "content": text} | ({} if name is None else {"name": name})
    (receipt,) = memory.ingest([said], session="talk", extract=extract)
    assert receipt.id is not None
    return receipt.id


def known(memory: Memory, text: str, **fields: Any) -> str:
    """A memory; its id."""
    receipt = memory.remember(text, **fields)
    assert receipt.id is not None
    return receipt.id


def flagged(report: VerifyReport) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The flags of a report: id -> (flag, evidence)."""
    return {flag.id: (flag.flag, flag.evidence) for flag in report.flags}


# -- contradicted ---------------------------------------------------------------------------------------------------------
def test_a_newer_message_that_says_otherwise_is_named_as_evidence(memory: Memory, clock: Clock) -> None:
    home = known(memory, "The user lives in Rome.")
    cats = known(memory, "The user has 3 cats.")
    coffee = known(memory, "The user drinks coffee.", tag="habit")
    other = known(memory, "The user plays the cello.")
    clock.forward(days=1)
    moved = say(memory, "I moved to Oslo last month. The weather is fine.")
    more = say(memory, "By the way, I have 4 cats now!")
    none = say(memory, "I don't drink coffee anymore.")
    say(memory, "My brother doesn't play the cello anymore.")
    report = verify(memory, clock)
    assert flagged(report) == {
        home: ("contradicted", (moved,)), cats: ("contradicted", (more,)), coffee: ("contradicted", (none,)),
    }  # fmt: skip
    assert other not in flagged(report)
    assert (report.checked, report.flagged) == (4, 3)
    assert not any(word in flag.reason for flag in report.flags for word in ("Rome", "Oslo", "cats", "coffee", "3", "4"))


def test_what_was_said_before_the_memory_or_by_the_assistant_speaks_against_nothing(memory: Memory, clock: Clock) -> None:
    say(memory, "I have 4 cats now.")
    clock.forward(days=1)
    known(memory, "The user has 3 cats.")
    clock.forward(days=1)
    memory.ingest([{"role": "assistant", "content": "I have 4 cats now."}], session="talk")
    memory.ingest([{"role": "tool", "content": "I have 4 cats now."}], session="talk")
    assert verify(memory, clock).flags == ()


def test_a_memory_that_was_corrected_after_the_message_is_up_to_date(memory: Memory, clock: Clock) -> None:
    id = known(memory, "The user has 3 cats.")
    clock.forward(days=1)
    say(memory, "I have 4 cats now.")
    assert list(flagged(verify(memory, clock, dry_run=True))) == [id]
    clock.forward(days=1)
    memory.update(id, content="The user has 5 cats.")
    assert verify(memory, clock).flags == ()


def test_what_is_learned_under_a_key_is_superseded_not_flagged(memory: Memory, clock: Clock) -> None:
    say(memory, "I live in Rome.", extract=True)
    clock.forward(days=1)
    say(memory, "I live in Oslo now.", extract=True)
    report = verify(memory, clock)
    assert (report.checked, report.flags) == (1, ())


def test_speakers_are_kept_apart(memory: Memory, clock: Clock) -> None:
    say(memory, "I live in Rome.", name="Ada", extract=True)
    ben = known(memory, "Ben lives in Bonn.")
    clock.forward(days=1)
    say(memory, "I live in Oslo.", name="Cleo")
    moved = say(memory, "I live in Graz.", name="Ben")
    assert flagged(verify(memory, clock)) == {ben: ("contradicted", (moved,))}


def test_scopes_are_kept_apart(memory: Memory, clock: Clock) -> None:
    known(memory, "The user has 3 cats.")
    other = memory.with_scope(user="somebody else")
    clock.forward(days=1)
    say(other, "I have 4 cats now.")
    assert verify(memory, clock).flags == ()
    assert verify(other, clock) == VerifyReport(0, 0, ())


# -- stale ----------------------------------------------------------------------------------------------------------------
def test_what_speaks_of_a_time_that_has_passed_is_stale(memory: Memory, clock: Clock) -> None:
    trip = known(memory, "The user flies to Rome next week.")
    visa = known(memory, "The visa is valid until May.")
    known(memory, "The user visited Lisbon last week.")
    known(memory, "The contract runs until 2031-01-01.")
    assert verify(memory, clock).flags == ()
    clock.forward(days=20)
    assert flagged(verify(memory, clock)) == {trip: ("stale", ())}
    clock.forward(days=80)
    assert set(flagged(verify(memory, clock))) == {trip, visa}


def test_open_tasks_that_nobody_touches_are_stale(memory: Memory, clock: Clock) -> None:
    task = known(memory, "Renew the certificate of the mail server.", tag="task")
    known(memory, "Paint the fence.", tag="todo", metadata={"done": True})
    known(memory, "The user likes fences.", tag="preference")
    read = known(memory, "Write the report on glaciers.", tag="plan")
    clock.forward(days=100)
    memory.get(read)
    memory.recall("glaciers report", limit=1)
    memory._engine.flush()
    clock.forward(days=100)
    assert flagged(verify(memory, clock)) == {task: ("stale", ())}
    assert flagged(verify(memory, clock, stale_after=timedelta(days=300), dry_run=True)) == {}
    assert set(flagged(verify(memory, clock, stale_after=86_400.0 * 50, dry_run=True))) == {task, read}


# -- unsupported ----------------------------------------------------------------------------------------------------------
def test_what_is_derived_from_nothing_that_is_left_is_unsupported(memory: Memory, clock: Clock) -> None:
    from keepstone.write.request import WriteRequest

    whole, half = known(memory, "Talk one."), known(memory, "Talk two.")
    derived = WriteRequest("The user fears spiders.", parents=(whole,))
    partly = WriteRequest("The user restores canoes.", parents=("never-there", half))
    orphan = WriteRequest("The user sings bass.", parents=("never-there",))
    *_, third = memory._engine.writing.remember(memory.scope, [derived, partly, orphan])
    assert third.id is not None
    assert flagged(verify(memory, clock)) == {third.id: ("unsupported", ())}


def test_a_fact_whose_source_was_reworded_is_unsupported(memory: Memory, clock: Clock) -> None:
    said = say(memory, "I love sushi.", extract=True)
    numbered = say(memory, "My favourite number is 7.", extract=True)
    kept = say(memory, "I love hiking.", extract=True)
    assert verify(memory, clock).flags == ()
    memory.update(said, content="Please disregard.")
    memory.update(numbered, content="My favourite number is 8.")
    memory.update(kept, content="I really love hiking in autumn.")
    found = flagged(verify(memory, clock))
    assert {evidence for _, evidence in found.values()} == {(said,), (numbered,)}
    assert {flag for flag, _ in found.values()} == {"unsupported"}


# -- probes ---------------------------------------------------------------------------------------------------------------
def test_a_probe_that_answers_something_else_makes_its_memory_stale(memory: Memory, clock: Clock, tmp_path: Path) -> None:
    version = known(memory, "The database is PostgreSQL 16.", metadata=callable_probe("db_version", 16))
    known(memory, "The cache is Redis 7.", metadata=callable_probe("cache_version", 7))
    rows = known(memory, "There are 12 orders.", metadata=sql_probe("SELECT count(*) FROM orders", 12))
    (tmp_path / "port").write_text("8080")
    port = known(memory, "The port is 8080.", metadata=file_probe(tmp_path / "port"))
    (tmp_path / "port").write_text("9090")
    assert verify(memory, clock) == VerifyReport(4, 0, ())
    handlers: dict[str, Any] = {"db_version": lambda: 17, "cache_version": lambda: 7, "sql": lambda query: 13, "file": tmp_path}
    report = verify(memory, clock, handlers=handlers)
    assert flagged(report) == {version: ("stale", ()), rows: ("stale", ()), port: ("stale", ())}
    assert {flag.reason for flag in report.flags} == {
        f"its probe {name} answers something else" for name in ("db_version", "sql", "file")
    }
    assert (report.probed, report.problems) == (4, ())


def test_a_handler_that_fails_is_a_problem_and_no_flag(memory: Memory, clock: Clock) -> None:
    id = known(memory, "The database is PostgreSQL 16.", metadata=callable_probe("db_version", 16))
    bad = known(memory, "The cache is Redis 7.", metadata={"probe": {"kind": "shell", "command": "rm -r /"}})

    def fails() -> int:
        raise ConnectionError("no route to 10.0.0.7 with the password hunter2")

    report = verify(memory, clock, handlers={"db_version": fails})
    assert (report.flags, report.probed) == ((), 1)
    first, second = report.problems
    assert first == f"memory {id}: its probe db_version failed with ConnectionError"
    assert second.startswith(f"memory {bad}: its probe cannot be read")


def test_the_probe_of_a_memory_that_is_not_trusted_is_never_run(memory: Memory, clock: Clock) -> None:
    for source in ("web:https://a.example", "tool:search"):
        known(memory, f"There are 12 orders, says {source}.", source=source, metadata=sql_probe("DROP TABLE orders", 1))
    records = memory.list()
    distrusted = sum(record.trust < 0.5 for record in records)
    ran: list[str] = []
    report = verify(memory, clock, handlers={"sql": lambda query: ran.append(query) or 1})
    assert distrusted >= 1
    assert len(ran) == len(records) - distrusted
    assert report.problems == (f"{distrusted} probes were not run: their memories come from sources that are not trusted",)


# -- the list -------------------------------------------------------------------------------------------------------------
def test_running_it_twice_adds_nothing_twice_and_a_dry_run_adds_nothing(memory: Memory, clock: Clock) -> None:
    id = known(memory, "The user has 3 cats.")
    clock.forward(days=1)
    said = say(memory, "I have 4 cats now.")
    reviews = memory._engine.store.reviews
    dry = verify(memory, clock, dry_run=True)
    assert (len(dry.flags), dry.flagged, list(reviews.list(memory.scope))) == (1, 0, [])
    assert [verify(memory, clock).flagged for _ in range(3)] == [1, 0, 0]
    (item,) = reviews.list(memory.scope)
    assert (item.id, item.version, item.flag, item.evidence, item.state) == (id, 1, "contradicted", (said,), "open")


def test_one_memory_has_one_line_for_each_kind_of_flag(memory: Memory, clock: Clock) -> None:
    known(memory, "Renew the visa by May.", tag="task", metadata=callable_probe("visa", "old"))
    clock.forward(days=300)
    (flag,) = verify(memory, clock, handlers={"visa": lambda: "new"}).flags
    assert flag.flag == "stale"
    assert flag.reason.count(";") == 2


def test_messages_settings_and_what_is_put_aside_are_never_flagged(memory: Memory, clock: Clock) -> None:
    say(memory, "I fly to Rome next week.")
    memory.set("deadline", {"exam": "by 2026-04-01"})
    memory._engine.store.retention.archive(memory.scope, [known(memory, "The user flies to Rome next week.")])
    known(memory, "The exam is next week.", ttl=60)
    clock.forward(days=300)
    assert verify(memory, clock).flags == ()


def test_the_oldest_are_checked_first_and_progress_is_told(memory: Memory, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_MAX_CHECKED", 110)
    for number in range(120):
        known(memory, f"The user flies to city number {number} next week.")
    clock.forward(days=60)
    told: list[tuple[int, int]] = []
    report = verify(memory, clock, progress=lambda done, total: told.append((done, total)))
    assert (report.checked, report.flagged) == (110, 110)
    assert told == [(100, 110), (110, 110)]
    oldest = memory.get(report.flags[0].id)
    assert oldest is not None
    assert oldest.content == "The user flies to city number 0 next week."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stale_after": -1}, "stale_after"),
        ({"handlers": {"sql": 7}}, "handlers"),
        ({"handlers": ["sql"]}, "handlers is a list"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(memory: Memory, clock: Clock, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        verify(memory, clock, **options)


def test_an_empty_scope_has_nothing_to_check(memory: Memory, clock: Clock) -> None:
    assert clock() == START
    assert Verifier(memory._engine.store, clock).verify(Scope(user="nobody")) == VerifyReport(0, 0, ())


def test_a_run_holds_memories_only_against_what_is_new(path: Path) -> None:
    with Memory.open(path, settings={"extract": False}) as memory:
        memory.remember("The user lives in Rome.")
        memory.ingest([{"role": "user", "content": "I live in Porto now."}], session="a")
        store, scope = memory._engine.store, memory.scope
        assert memory.upkeep.run().ran
        assert [item.flag for item in memory.review] == ["contradicted"]
        seen = store.states.get(scope, "upkeep:verified")
        assert seen is not None
        message, _ = seen.split()
        assert int(message) == store.message_log.page(scope, None)[-1][0]
        memory.remember("The user's dentist is Dr Okafor.")
        memory.upkeep.run()
        assert str(store.states.get(scope, "upkeep:verified")).split()[0] == message, "nothing new was said"


def test_a_run_reads_no_pair_of_memories_that_an_earlier_run_has_read(path: Path) -> None:
    read: list[tuple[str, str]] = []
    with Memory.open(path, settings={"extract": False}) as memory:
        for text in ("I live in Rome.", "I moved to Porto and live there now.", "My dentist is Dr Okafor."):
            memory.remember(text)
        verifier = memory._engine.upkeep_jobs.policy_runner._verifier
        judge = verifier._read_pair
        assert judge is not None
        verifier._read_pair = lambda older, newer: read.append((older, newer)) or judge(older, newer)  # type: ignore[func-returns-value]
        memory.upkeep.run()
        assert ("I live in Rome.", "I moved to Porto and live there now.") in read
        del read[:]
        memory.upkeep.run()
        assert read == []
        memory.remember("I have moved to Oslo and live there now.")
        memory.upkeep.run()
        assert {newer for _, newer in read} == {"I have moved to Oslo and live there now."}


# -- by the agent's model -------------------------------------------------------------------------------------------------
NATURAL = {
    "The team deploys on Thursdays.": "We deploy on Fridays now",
    "The user works at Acme.": "I left Acme and work at Globex now",
}


def judging(request: Request) -> Step:
    """A model that reads the numbers of the natural contradictions off the request."""
    text = said(request)
    pairs = []
    for memory, message in NATURAL.items():
        number = re.search(rf'<memory number="(\d+)"[^>]*>{re.escape(memory)}', text)
        turn = re.search(rf'<turn number="(\d+)"[^>]*>{re.escape(message)}', text)
        if number and turn:
            pairs.append({"memory": int(number[1]), "turn": int(turn[1])})
    return answer(json.dumps({"contradicted": [*pairs, {"memory": 99, "turn": 1}]}))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_the_model_finds_natural_contradictions(path: Path, clock: Clock, provider: str) -> None:
    with (
        served(judging) as endpoint,
        timed(path, clock, model=model_at(provider, endpoint.url), settings={"extract": False}) as memory,
    ):
        ids = {text: known(memory, text) for text in (*NATURAL, "The user plays the cello.")}
        clock.forward(days=1)
        evidence = {text: say(memory, text) for text in (*NATURAL.values(), "Do we still deploy on Thursdays?")}
        report = memory.upkeep.verify()
        assert flagged(report) == {ids[old]: ("contradicted", (evidence[new],)) for old, new in NATURAL.items()}
        assert (report.usage.calls, report.problems) == (1, ())
        assert {item.record.id for item in memory.review if item.record} == set(flagged(report))
        assert "cello" not in said(endpoint.requests[0]), "only what shares words with a message is shown"
        assert "still deploy" not in said(endpoint.requests[0])
    with timed(path, clock) as memory:  # the review list outlives the process
        assert len(list(memory.review)) == 2


def test_a_model_that_cannot_judge_costs_no_other_check(path: Path, clock: Clock) -> None:
    for model in (lambda prompt: "Hm.", lambda prompt: 1 / 0):
        with timed(path, clock, model=model, settings={"extract": False}) as memory:
            home = known(memory, "The user lives in Rome.")
            clock.forward(days=1)
            message = say(memory, "I moved to Oslo. I live in Oslo now.")
            report = memory.upkeep.verify(dry_run=True)
            assert flagged(report)[home] == ("contradicted", (message,))
            assert len(report.problems) == 1
            memory.forget(everything=True)


def test_health_and_verification_call_the_same_memories_stale(memory: Memory, clock: Clock) -> None:
    memory.remember("Buy a new tent.", tag="todo")
    memory.remember("Repair the fence.", tag="Plans")
    memory.remember("Call the plumber.", tag="task", metadata={"status": "done"})
    memory.remember("Dana moved to Oslo. Her visa is valid until May.")
    memory.remember("Dana likes tea.")
    memory.set("season", {"note": "valid until May"})
    clock.forward(days=200)
    verified = {flag.id for flag in memory.upkeep.verify(dry_run=True).flags if flag.flag == "stale"}
    report = memory.upkeep.health()
    healthy = {id for finding in report.findings if finding.check == "stale" for id in finding.ids}
    assert len(verified) == 3
    assert verified == healthy
