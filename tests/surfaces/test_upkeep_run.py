"""A whole run of upkeep by a policy, and its schedule: every scope, one process at a time, once in a period."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError, KeepstoneError, StoreError, ValidationError
from keepstone.maintenance.policy import RUN_LEASE, PolicyRunner, Scheduler, UpkeepPolicy
from keepstone.maintenance.retention import ArchiveReport, Retention
from tests.faults.support import start
from tests.surfaces.support import Clock, contents, everything, timed
from tests.surfaces.test_learning_by_model import answers, proposed

DAY = timedelta(days=1)
COFFEE = ["Dana drinks 2 coffees a day.", "Dana takes her coffee without sugar.", "Dana buys coffee beans from Kenya."]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(path: Path, clock: Clock) -> Iterator[Memory]:
    with timed(path, clock) as opened:
        yield opened


def texts(memory: Memory) -> list[str]:
    return sorted(contents(everything(memory)))


def done(report: Any) -> list[tuple[str, str, int]]:
    """(user, job, records) of what a run did."""
    return [(each.scope.user, each.job, each.records) for each in report.jobs]


# -- the policy ---------------------------------------------------------------------------------------------------
def test_a_policy_comes_from_nothing_a_dictionary_or_a_file(tmp_path: Path) -> None:
    assert UpkeepPolicy.of(None) == UpkeepPolicy()
    assert UpkeepPolicy.of({}) == UpkeepPolicy()
    chosen = UpkeepPolicy.of({"age_days": 7, "age_messages": True, "cap": 100})
    assert (chosen.age_days, chosen.age_messages, chosen.cap, chosen.purge_days) == (7.0, True, 100, 30.0)
    assert UpkeepPolicy.of(chosen) is chosen
    file = tmp_path / "policy.toml"
    file.write_text("age_days = 7\nage_messages = true\ncap = 100\n")
    assert UpkeepPolicy.of(file) == UpkeepPolicy.of(str(file)) == chosen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"age_day": 7}, "the policy has no 'age_day': use age_days"),
        ({7: 7}, "the policy has no 7"),
        ({"age_days": "7"}, "age_days is '7'"),
        ({"age_days": True}, "age_days is True"),
        ({"age_days": -1}, "age_days is -1"),
        ({"age_days": float("nan")}, "age_days is nan"),
        ({"cap": 1.5}, "cap is 1.5"),
        ({"lapse": 1}, "lapse is 1"),
        ({"fade_importance": 2}, "fade_importance is 2"),
        (["age_days"], "policy is list"),
        (7, "policy is int"),
    ],
)
def test_a_policy_that_cannot_be_used_is_told(memory: Memory, given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("'", ".")):
        memory.upkeep.run(given)
    with pytest.raises(ConfigurationError):
        memory.upkeep.schedule(given)


@pytest.mark.parametrize("content", ["age_days = ", b"\xff\xfe", None, "cap = 'many'\n", "[upkeep]\ncap = 3\n"])
def test_a_policy_file_that_cannot_be_read_is_told(memory: Memory, tmp_path: Path, content: Any) -> None:
    file = tmp_path / "policy.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match="policy"):
        memory.upkeep.run(file)


# -- a run --------------------------------------------------------------------------------------------------------
def test_a_run_does_every_job_in_every_scope_of_every_tenant(memory: Memory, clock: Clock) -> None:
    scopes = [
        memory,
        memory.with_scope(user="dana"),
        memory.with_scope(agent="coder"),
        memory.with_scope(tenant="acme", user="omar"),
    ]
    for each in scopes:
        for text in COFFEE:
            each.remember(text)
        each.remember("The guest password is sesame.", ttl=DAY)
        each.remember("Lukas repairs typewriters.", importance=0.1)
        each.remember("Fix the roof.", tag="task", kind="note")
        each.ingest([{"role": "user", "content": "Hello there."}], session="s")
    clock.forward(days=200)
    policy = {"compact_days": 30, "age_days": 300, "cap": 2}
    report = memory.upkeep.run(policy)
    assert (report.ran, report.scopes, report.dry_run, report.problems) == (True, 4, False, ())
    for each in scopes:
        jobs = {job.job: job.records for job in report.jobs if job.scope == each.scope}
        assert jobs == {"lapse": 1, "fade": 1, "compact": 3, "verify": 1}
        assert texts(each) == sorted(["\n".join(COFFEE), "Fix the roof.", "Hello there."])
    assert memory.upkeep.run(policy).jobs == (), "a second run finds nothing to do"
    clock.forward(days=301)
    report = memory.upkeep.run({**policy, "age_messages": True})
    assert {job.job for job in report.jobs} >= {"age", "age messages"}
    assert [texts(each) for each in scopes] == [[], [], [], []]
    assert all(each.audit.verify().whole for each in scopes)


def test_what_a_run_put_aside_is_erased_by_a_later_run(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Lukas repairs typewriters.", importance=0.1).id or ""
    clock.forward(days=100)
    assert done(memory.upkeep.run()) == [("", "fade", 1)]
    for _ in range(4):
        clock.forward(days=7)
        assert memory.upkeep.run().jobs == ()
    clock.forward(days=3)
    assert done(memory.upkeep.run()) == [("", "purge", 1)]
    assert memory.get(id) is None
    assert memory.upkeep.run({"purge_days": 0}).jobs == ()


def test_a_policy_of_nothing_does_nothing(memory: Memory, clock: Clock) -> None:
    memory.remember("Lukas repairs typewriters.", importance=0.1)
    memory.remember("The guest password is sesame.", ttl=DAY)
    clock.forward(days=4000)
    nothing = {"learn": False, "lapse": False, "fade_days": 0, "verify": False, "purge_days": 0}
    trail = len(memory.audit())
    assert memory.upkeep.run(nothing).jobs == ()
    assert len(memory.audit()) == trail
    assert list(memory.upkeep.archived()) == []


def test_a_dry_run_changes_nothing_in_any_scope(memory: Memory, clock: Clock, tmp_path: Path) -> None:
    scopes = [memory, memory.with_scope(user="dana")]
    for each in scopes:
        for text in COFFEE:
            each.remember(text, importance=0.1)
        each.remember("The guest password is sesame.", ttl=DAY)
    clock.forward(days=200)

    def state() -> list[str]:
        for number, each in enumerate(scopes):
            each.export(tmp_path / f"{number}.jsonl")
        return [(tmp_path / f"{number}.jsonl").read_text() for number in range(2)]

    before = state()
    dry = memory.upkeep.run(dry_run=True)
    assert dry.dry_run
    assert state() == before
    assert done(dry) == done(memory.upkeep.run()) == [
        ("", "lapse", 1), ("", "fade", 3), ("dana", "lapse", 1), ("dana", "fade", 3),
    ]  # fmt: skip


def test_a_run_works_on_the_queue_unless_told_not_to(path: Path) -> None:
    model = answers(proposed("The user lives in Porto."))
    with Memory.open(path, model=model, settings={"worker": False}) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
        assert memory.upkeep.run(dry_run=True).done == 0
        assert memory.upkeep.run({"learn": False}).done == 0
        report = memory.upkeep.run()
        assert (report.done, report.failed, len(report.learned)) == (1, 0, 1)
        assert "The user lives in Porto." in texts(memory)


def test_without_a_model_what_waits_for_one_is_told_and_the_rest_is_done(path: Path, clock: Clock) -> None:
    with timed(path, clock, model=answers(), settings={"worker": False}) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
    with timed(path, clock) as memory:
        memory.remember("Lukas repairs typewriters.", importance=0.1)
        clock.forward(days=100)
        report = memory.upkeep.run()
        assert "wait for a model" in report.problems[0]
        assert done(report) == [("", "fade", 1)]


class FailingForDana(Retention):
    """Retention that cannot fade in one scope."""

    def fade(self, **options: Any) -> ArchiveReport:
        if self._scope.user == "dana":
            raise StoreError("the disk is full: make room, then try again.")
        return super().fade(**options)


def test_a_job_that_fails_keeps_no_other_from_being_done(memory: Memory, clock: Clock) -> None:
    for user in ("ada", "dana", "omar"):
        each = memory.with_scope(user=user)
        each.remember("Lukas repairs typewriters.", importance=0.1)
        each.remember("The guest password is sesame.", ttl=DAY)
    clock.forward(days=100)
    jobs = memory._engine.upkeep_jobs
    running = PolicyRunner(
        jobs.store,
        lambda scope: FailingForDana(scope, jobs.store, jobs.accesses, jobs.clock),
        jobs.compactor,
        jobs.verifier,
        jobs.policy_runner._learn,
    )
    report = running.run(UpkeepPolicy(), False, None)
    assert report.problems == ("fade: the disk is full: make room, then try again.",)
    assert done(report) == [
        ("ada", "lapse", 1), ("ada", "fade", 1), ("dana", "lapse", 1), ("omar", "lapse", 1), ("omar", "fade", 1),
    ]  # fmt: skip
    assert done(memory.upkeep.run()) == [("dana", "fade", 1)]


# -- one at a time ------------------------------------------------------------------------------------------------
RUNNER = """
import sys
from keepstone import Memory
def model(prompt):
    print("asked", flush=True)
    sys.stdin.readline()
    return {"facts": []}
with Memory.open(sys.argv[1], model=model, settings={"worker": False}) as memory:
    memory.conversation("s").add("user", "I live in Porto.")
    print("opened", flush=True)
    sys.stdin.readline()
    print(memory.upkeep.run().ran, flush=True)
"""


def test_of_two_processes_one_runs_and_the_other_says_so(path: Path) -> None:
    with Memory.open(path) as memory:
        child = start("-c", RUNNER, str(path))
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "opened\n"
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "asked\n", "it is in the midst of its run"
        report = memory.upkeep.run()
        assert (report.ran, report.jobs) == (False, ())
        assert "another process" in report.problems[0]
        child.stdin.write("go on\n")
        child.stdin.flush()
        assert child.stdout.readline() == "True\n"
        child.communicate()
        assert memory.upkeep.run().ran, "the lease was given back"


def test_the_lease_of_a_process_that_was_killed_runs_out(path: Path, clock: Clock) -> None:
    with timed(path, clock) as memory:
        assert memory._engine.store.leases.acquire(RUN_LEASE, "killed", timedelta(minutes=30))
        assert not memory.upkeep.run().ran
        clock.forward(minutes=31)
        assert memory.upkeep.run().ran


def test_two_threads_never_run_at_once(path: Path, clock: Clock) -> None:
    inside, most = 0, 0
    ran: list[bool] = []
    guard, gate = threading.Lock(), threading.Barrier(4)

    def model(prompt: Any) -> Any:
        nonlocal inside, most
        with guard:
            inside += 1
            most = max(most, inside)
        with guard:
            inside -= 1
        return {"facts": []}

    with timed(path, clock, model=model, settings={"worker": False}) as memory:
        memory.conversation("s").add("user", "I live in Porto.")

        def run() -> None:
            gate.wait()
            ran.append(memory.upkeep.run().ran)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (most, any(ran)) == (1, True)


# -- the schedule -------------------------------------------------------------------------------------------------
def scheduled(memory: Memory, run: Any, every: timedelta = DAY, seed: int = 1) -> Scheduler:
    return Scheduler(memory._engine.store, run, every, random.Random(seed))


def test_of_several_schedulers_one_runs_in_each_period(memory: Memory, clock: Clock) -> None:
    ran: list[int] = []
    several = [scheduled(memory, lambda number=number: ran.append(number)) for number in range(5)]
    try:
        for day in range(1, 8):
            turns = [each.turn() for each in random.Random(day).sample(several, 5)]
            assert (turns.count(True), len(ran)) == (1, day)
            clock.forward(hours=21)
            assert not any(each.turn() for each in several), "the period is not over"
            clock.forward(hours=3)
        assert len(set(ran)) > 1, "it was not always the same"
    finally:
        for each in several:
            each.stop()


def test_a_period_whose_run_failed_is_tried_again(memory: Memory, clock: Clock) -> None:
    trouble: list[Exception] = [StoreError("busy")]

    def run() -> None:
        if trouble:
            raise trouble.pop()

    scheduler = scheduled(memory, run)
    try:
        with pytest.raises(KeepstoneError):
            scheduler.turn()
        assert scheduler.runs == 0
        assert scheduler.turn()
        assert not scheduler.turn()
        assert scheduler.runs == 1
    finally:
        scheduler.stop()


def test_the_pause_is_the_period_and_a_little_more_by_chance(memory: Memory) -> None:
    scheduler = scheduled(memory, lambda: None)
    try:
        pauses = [scheduler._next_wait_seconds() for _ in range(100)]
        assert all(86_400 <= pause <= 86_400 * 1.1 for pause in pauses)
        assert len(set(pauses)) > 90
    finally:
        scheduler.stop()


def test_a_schedule_runs_by_itself_and_survives_a_store_that_is_busy(memory: Memory, clock: Clock) -> None:
    again = threading.Event()
    calls: list[int] = []

    def run() -> None:
        calls.append(1)
        clock.forward(days=1)
        if len(calls) == 1:
            raise StoreError("busy")
        again.set()

    scheduler = scheduled(memory, run, timedelta(milliseconds=1))
    try:
        assert again.wait(30), "it came to a second run"
    finally:
        scheduler.stop()
    assert not scheduler._worker._thread.is_alive()


def test_closing_the_memory_stops_its_schedules(path: Path) -> None:
    memory = Memory.open(path)
    one, other = memory.upkeep.schedule(), memory.with_scope(user="dana").upkeep.schedule({"cap": 5}, every=3600)
    assert one._worker._thread.is_alive()
    assert other._worker._thread.is_alive()
    memory.with_scope(user="dana").close()
    assert other._worker._thread.is_alive(), "closing a view leaves the store open"
    memory.close()
    assert not one._worker._thread.is_alive()
    assert not other._worker._thread.is_alive()
    for every in (0, -1, "daily", True):
        with pytest.raises(ValidationError, match="every"):
            memory.upkeep.schedule(every=every)  # type: ignore[arg-type]


def test_a_turn_of_a_schedule_does_what_the_policy_says(path: Path, clock: Clock) -> None:
    with timed(path, clock) as memory:
        memory.remember("Lukas repairs typewriters.", importance=0.1)
        memory.remember("Omar keeps two greyhounds.")
        clock.forward(days=40)
        scheduler = memory.upkeep.schedule({"fade_days": 30})
        assert scheduler.turn()
        assert texts(memory) == ["Omar keeps two greyhounds."]
        assert not scheduler.turn()
