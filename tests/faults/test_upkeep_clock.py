"""Upkeep under a clock that is wrong: nothing is erased early, and what was put aside too early comes back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bench.torture.clock import TEN_YEARS, SteppingClock, Walk, open_with_clock
from keepstone import Memory
from keepstone.ports.maintenance import Flag
from tests.faults.support import everything, healthy
from tests.servers import emptied
from tests.surfaces.support import contents, timed

DAY = timedelta(days=1)
FACTS = ["Dana lives in Oslo.", "Marek plays the oboe.", "The door code is 4711.", "Rosa prefers tea."]


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def memory(path: Path, clock: SteppingClock) -> Iterator[Memory]:
    """Four facts of today."""
    with open_with_clock(path, clock) as memory:
        memory.remember_many([{"content": fact, "importance": 0.1} for fact in FACTS])
        yield memory


def texts(memory: Memory) -> list[str]:
    return sorted(contents(everything(memory)))


# -- putting aside ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ahead", ["age", "fade"])
@pytest.mark.parametrize("after", ["age", "fade", "purge", "run"])
def test_what_a_clock_that_ran_ahead_put_aside_comes_back_by_itself(
    memory: Memory, clock: SteppingClock, ahead: str, after: str
) -> None:
    clock.step(days=TEN_YEARS)
    assert len(getattr(memory.upkeep, ahead)().ids) == 4
    assert texts(memory) == []
    assert memory.upkeep.purge().ids == ()
    clock.step(days=-TEN_YEARS, minutes=5)
    getattr(memory.upkeep, after)()
    assert texts(memory) == sorted(FACTS)
    assert memory.recall("Who plays the oboe?")[0].content == "Marek plays the oboe."


def test_a_dry_run_brings_nothing_back(memory: Memory, clock: SteppingClock) -> None:
    clock.step(days=TEN_YEARS)
    memory.upkeep.age()
    clock.step(days=-TEN_YEARS)
    for dry in (memory.upkeep.age, memory.upkeep.fade, memory.upkeep.purge, memory.upkeep.run):
        dry(dry_run=True)  # type: ignore[operator]
    assert len(memory.upkeep.archived()) == 4


def test_what_was_compacted_ahead_of_time_stays_compacted(memory: Memory, clock: SteppingClock) -> None:
    for text in ("Dana drinks 2 coffees a day.", "Dana takes her coffee without sugar.", "Dana buys coffee from Kenya."):
        memory.remember(text)
    clock.step(days=TEN_YEARS)
    (digest,) = memory.upkeep.compact().digests
    clock.step(days=-TEN_YEARS)
    memory.upkeep.run()
    assert [each.why for each in memory.upkeep.archived()] == ["compacted"] * 3
    assert digest in [record.id for record in everything(memory)]


def test_a_clock_that_is_behind_puts_nothing_aside(memory: Memory, clock: SteppingClock) -> None:
    clock.step(days=-3)
    assert memory.upkeep.age(older_than=DAY).ids == ()
    assert memory.upkeep.fade(older_than=DAY).ids == ()
    memory.upkeep.run({"age_days": 1})
    assert texts(memory) == sorted(FACTS)


def test_what_was_written_in_the_future_is_not_old_when_the_clock_is_right_again(memory: Memory, clock: SteppingClock) -> None:
    clock.step(days=TEN_YEARS)
    memory.remember("Aiko keeps bees.", importance=0.1)
    clock.step(days=-TEN_YEARS + 400)
    assert "Aiko keeps bees." not in contents(memory.upkeep.age().records)


# -- times to live ------------------------------------------------------------------------------------------------
def test_what_lapsed_under_a_clock_that_ran_ahead_is_back_with_its_own_lifetime(memory: Memory, clock: SteppingClock) -> None:
    id = memory.remember("The parking permit is 88-A.", ttl=7 * DAY).id or ""
    clock.step(days=TEN_YEARS)
    assert memory.upkeep.lapse().ids == (id,)
    assert memory.upkeep.purge().ids == ()
    clock.step(days=-TEN_YEARS + 1)
    memory.upkeep.age()
    assert memory.recall("parking permit")[0].id == id
    clock.step(days=7)
    assert not memory.recall("parking permit")
    assert memory.upkeep.lapse().ids == (id,)


def test_what_lives_for_a_while_is_hidden_and_shown_as_the_clock_steps(memory: Memory, clock: SteppingClock) -> None:
    id = memory.remember("The parking permit is 88-A.", ttl=7 * DAY).id or ""
    for days, shown in ((TEN_YEARS, False), (-TEN_YEARS, True), (-3, True), (9, True), (2, False), (-2, True)):
        clock.step(days=days)
        assert bool(memory.recall("parking permit")) is shown
        assert (id in [record.id for record in everything(memory)]) is shown


# -- erasing ------------------------------------------------------------------------------------------------------
def test_a_clock_that_jumps_ahead_erases_nothing(memory: Memory, clock: SteppingClock, path: Path) -> None:
    ids = memory.upkeep.cap(1).ids
    assert len(ids) == 3
    memory.upkeep.purge()
    clock.step(days=TEN_YEARS)
    for _ in range(20):  # the same wrong clock is asked again and again
        report = memory.upkeep.purge()
        assert (report.ids, report.waiting) == ((), 3)
        assert "trust_clock" in report.reasons[0]
        memory.remember("Something is written meanwhile.")
        clock.step(hours=1)
    memory.upkeep.run({"fade_days": 0})
    clock.step(days=-TEN_YEARS)
    assert len(memory.upkeep.archived()) == 3
    assert all(text.encode() in path.read_bytes() + path.with_name(path.name + "-wal").read_bytes() for text in FACTS)
    assert memory.upkeep.restore(ids) == 3


def test_a_jump_is_believed_by_who_says_so(memory: Memory, clock: SteppingClock) -> None:
    ids = memory.upkeep.cap(1).ids
    clock.step(days=TEN_YEARS)
    assert memory.upkeep.purge(dry_run=True, trust_clock=True).ids == ids
    assert memory.upkeep.purge().ids == ()
    report = memory.upkeep.purge(trust_clock=True)
    assert (report.ids, report.waiting, report.reasons, report.erased) == (ids, 0, (), True)
    assert all(memory.get(id) is None for id in ids)


@pytest.mark.parametrize("step", [1, 7, 8])
def test_time_that_is_seen_to_pass_counts(memory: Memory, clock: SteppingClock, step: int) -> None:
    ids = memory.upkeep.cap(1).ids
    passed = 0
    while passed <= 30:
        assert passed == 30 or memory.upkeep.purge().ids == (), f"after {passed} days"
        clock.step(days=step)
        passed += step
    assert memory.upkeep.purge().ids == ids


def test_what_was_done_in_the_scope_shows_that_time_passed(memory: Memory, clock: SteppingClock) -> None:
    ids = memory.upkeep.cap(1).ids
    for week in range(6):
        clock.step(days=7)
        memory.remember(f"In week {week} the weather was fine.")
    assert memory.upkeep.purge().ids == ids


def test_time_that_was_seen_by_a_clock_that_ran_ahead_is_not_counted_twice(memory: Memory, clock: SteppingClock) -> None:
    clock.step(days=5)
    memory.upkeep.purge()
    clock.step(days=-5)
    ids = memory.upkeep.cap(1).ids
    for _ in range(4):
        clock.step(days=7)
        assert memory.upkeep.purge().ids == ()
    erased = ()
    for _ in range(2):
        clock.step(days=7)
        erased = erased or memory.upkeep.purge().ids
    assert erased == ids, "nor is it lost"


def test_what_others_put_aside_is_not_erased_by_a_first_purge_under_a_wrong_clock(memory: Memory, clock: SteppingClock) -> None:
    """Neither what a person retired nor what a write replaced went through a job of upkeep."""
    retired = everything(memory)[0].id
    memory._engine.store.reviews.add(memory.scope, [Flag(retired, "stale", "it may be old")])
    memory.review.resolve(memory.review.list()[0].number, "retire")
    replaced = memory.remember("code 1", key="code", ttl=60).id or ""
    clock.step(days=1)
    memory.remember("code 2", key="code")
    clock.step(days=TEN_YEARS)
    assert memory.upkeep.purge().ids == ()
    assert memory.get(retired) is not None
    assert memory.get(replaced) is not None


def test_what_was_put_aside_under_a_clock_far_behind_is_not_erased_when_it_is_right(memory: Memory, clock: SteppingClock) -> None:
    """A machine without a battery for its clock, just started; then the time server answers."""
    memory.upkeep.purge()
    clock.step(days=-400)
    ids = memory.upkeep.cap(1).ids
    clock.step(days=400, minutes=5)
    memory.upkeep.purge()
    assert all(memory.get(id) is not None for id in ids)


def test_a_machine_that_was_off_for_three_weeks_erases_again_in_time(memory: Memory, clock: SteppingClock) -> None:
    ids = memory.upkeep.cap(1).ids
    memory.upkeep.purge()
    clock.step(days=21)
    for _ in range(31):
        clock.step(days=1)
        memory.upkeep.run({"fade_days": 0})
    assert all(memory.get(id) is None for id in ids)


def test_a_run_tells_that_erasing_waits(memory: Memory, clock: SteppingClock) -> None:
    memory.upkeep.cap(1)
    memory.upkeep.purge()
    clock.step(days=100)
    assert "trust_clock" in memory.upkeep.run({"fade_days": 0}).problems[0]


def test_the_signs_of_life_of_a_clock_that_is_ahead_do_not_bring_its_time_near(path: Path) -> None:
    right, wrong = SteppingClock(), SteppingClock()
    wrong.step(days=20)
    with open_with_clock(path, right) as here, open_with_clock(path, wrong) as there:
        here.remember_many(FACTS)
        ids = here.upkeep.cap(1).ids
        here.upkeep.purge()
        for day in range(20):
            right.step(days=1)
            wrong.step(days=1)
            here.remember(f"On day {day} it rained.")
            there.remember(f"On day {day} it snowed.")
            there.upkeep.purge()
            assert all(here.get(id) is not None for id in ids), f"erased on day {day + 1}"


@pytest.mark.parametrize("seed", range(5))
def test_however_the_clock_steps_nothing_is_erased_before_its_window(path: Path, seed: int) -> None:
    walk = Walk(str(path), seed)
    assert walk.run() == []
    assert walk.archived, "something was put aside"
    assert healthy(path)


def test_however_the_clock_steps_on_a_server(postgres_url: str) -> None:
    walk = Walk(emptied(postgres_url), seed=5, steps=15)
    assert walk.run() == []
    assert walk.archived, "something was put aside"


# -- leases and buckets -------------------------------------------------------------------------------------------
def test_a_lease_of_a_process_that_died_ends_whatever_the_clock_does(memory: Memory, clock: SteppingClock) -> None:
    leases = memory._engine.store.leases
    half = timedelta(minutes=30)
    assert leases.acquire("upkeep", "one", half)
    clock.step(days=-TEN_YEARS)
    assert leases.acquire("upkeep", "two", half), "it ends in a far future: a clock had run ahead"
    assert not leases.acquire("upkeep", "three", half)
    clock.step(minutes=31)
    assert leases.acquire("upkeep", "three", half)
    clock.step(days=TEN_YEARS)
    assert leases.acquire("upkeep", "four", half)
    leases.release("upkeep", "three")
    assert not leases.acquire("upkeep", "five", half), "only its holder gives a lease back"
    leases.release("upkeep", "four")
    assert leases.acquire("upkeep", "five", half)


def test_a_small_step_back_does_not_break_a_lease(memory: Memory, clock: SteppingClock) -> None:
    leases = memory._engine.store.leases
    assert leases.acquire("upkeep", "one", timedelta(minutes=30))
    clock.step(hours=-2)
    assert not leases.acquire("upkeep", "two", timedelta(minutes=30))
    assert leases.acquire("upkeep", "one", timedelta(minutes=30))
    assert memory.upkeep.run().ran is False


def test_upkeep_runs_after_the_clock_was_set_back(memory: Memory, clock: SteppingClock) -> None:
    clock.step(days=TEN_YEARS)
    assert memory._engine.store.leases.acquire("upkeep", "somebody who was killed", timedelta(minutes=30))
    clock.step(days=-TEN_YEARS)
    assert memory.upkeep.run().ran


def test_a_limit_neither_opens_nor_closes_for_good_when_the_clock_jumps(path: Path, clock: SteppingClock) -> None:
    with timed(path, clock, settings={"writes_per_minute": 2}) as memory:  # type: ignore[arg-type]

        def written(text: str) -> bool:
            return memory.remember(text).action == "added"

        assert written("One about apples.")
        assert written("Two about bridges.")
        refused = memory.remember("Three about cellos.")
        assert refused.action == "refused"
        assert refused.retry_after is not None
        assert 0 < refused.retry_after <= 60
        clock.step(days=TEN_YEARS)
        assert written("Four about deserts.")
        assert written("Five about engines.")
        assert not written("Six about forests."), "a jump ahead fills the bucket once"
