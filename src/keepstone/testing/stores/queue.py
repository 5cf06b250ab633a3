"""What named states and the job queue promise."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from keepstone.errors import Conflict
from keepstone.ports.queue import EVERY_SESSION, Job, JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector, Write
from keepstone.testing.builders import AWAY, HOME, NOON, NeedsStore, add, add_id, contents, draft, together
from keepstone.text import times
from keepstone.types import Scope

NAMES = ("of s", "of t", "of all", "of none")


def derived(store: Store, scope: Scope = HOME) -> list[str]:
    """Two conversations of two messages, and a state made from each, one from both, one from neither; the messages' ids."""
    said = [
        add_id(store, f"{session} {source}", scope, kind="message", session=session, source=source)
        for session in ("s", "t")
        for source in ("user", f"tool:{session}")
    ]
    for name, session in zip(NAMES, ("s", "t", EVERY_SESSION, None), strict=True):
        store.states.put(scope, name, f"text {name}", session=session)
    return said


def left(store: Store, scope: Scope = HOME) -> list[str]:
    """Which of those states are still there."""
    return [name for name in NAMES if store.states.get(scope, name) is not None]


KIND = "learn"
HOUR = timedelta(hours=1)
OVER = timedelta(0)  # a lease that ends as it begins
NOBODY = Scope("local", "default", "nobody")


def work(session: str | None = "s", *, due: datetime = NOON, kind: str = KIND, most: int = 40) -> JobDraft:
    """Work that is due."""
    return JobDraft(kind, session, due, most)


def said(*texts: str, session: str | None = "s") -> list[Write]:
    return [Write(draft(text, kind="message", session=session)) for text in texts]


def queue(store: Store, count: int = 1, scope: Scope = HOME, **rest: Any) -> tuple[str, ...]:
    """Write so many messages with work on them; their ids."""
    job = work(**rest)
    receipts = store.write(scope, said(*(f"message {n}" for n in range(count)), session=job.session), job)
    return tuple(receipt.id or "" for receipt in receipts)


def claimed(store: Store, lease: timedelta = HOUR, **rest: Any) -> Job:
    """The next job, which must be there."""
    job = store.jobs.claim([KIND], lease, **rest)
    assert job is not None
    return job


def waiting(store: Store) -> list[tuple[str, ...]]:
    """The ids of all jobs, oldest first."""
    return [job.ids for job in store.jobs.list()]


def failed(store: Store, count: int, scope: Scope = HOME) -> list[int]:
    """So many jobs that were given up; their numbers."""
    for number in range(count):
        queue(store, scope=scope, session=f"failing {number}")
        store.jobs.give_up(claimed(store, scope=scope), f"problem {number}")
    return [job.number for job in store.jobs.list(scope, state="failed")]


def queued(store: Store) -> list[tuple[str, str | None, str]]:
    """The audit entries of queueing, newest first."""
    return [(row.action, row.id, row.source) for row in store.audit(HOME, limit=1000) if row.verb == "queue"]


class QueueContract(NeedsStore):
    def test_a_state_is_kept_exactly_overwritten_and_dropped_once(self, bound: Store) -> None:
        assert bound.states.get(HOME, "plan") is None
        for value in ("first", "", "naïve 😀\n\t\"'\\ \u2028", "long " * 20_000, "0", '{"a":1}'):
            bound.states.put(HOME, "plan", value)
            assert bound.states.get(HOME, "plan") == value
        assert [bound.states.get(HOME, name) for name in ("Plan", "plan ", "", "%")] == [None] * 4
        bound.states.put(HOME, "plan b", "coffee")
        assert [bound.states.drop(HOME, "plan"), bound.states.drop(HOME, "plan")] == [True, False]
        assert [bound.states.get(HOME, name) for name in ("plan", "plan b")] == [None, "coffee"]
        bound.states.put(HOME, "plan", "again")
        assert bound.states.get(HOME, "plan") == "again"

    def test_states_are_kept_apart_and_are_no_memories(self, bound: Store) -> None:
        bound.states.put(HOME, "plan", "zanzibar", session="s")
        assert bound.states.get(AWAY, "plan") is None
        assert bound.states.drop(AWAY, "plan") is False
        assert (bound.count(HOME), contents(bound), list(bound.export_records(HOME))) == (0, [], [])
        assert bound.search_words(HOME, ["zanzibar"], 9) == []
        assert bound.message_log.count(HOME, None) == 0
        bound.states.put(AWAY, "plan", "theirs", session="s")
        assert [bound.states.get(scope, "plan") for scope in (HOME, AWAY)] == ["zanzibar", "theirs"]
        add(bound, "hello", AWAY, kind="message", session="s")
        bound.forget(AWAY, Selector(session="s"))
        assert [bound.states.get(scope, "plan") for scope in (HOME, AWAY)] == ["zanzibar", None]

    @pytest.mark.parametrize(
        ("selector", "forgotten", "kept"),
        [
            (Selector(source="tool:s"), 1, ["of t", "of none"]),
            (Selector(source="tool"), 2, ["of none"]),
            (Selector(session="s"), 2, ["of t", "of none"]),
            (Selector(session="s", kind="message"), 2, ["of t", "of none"]),
            (Selector(everything=True), 4, []),
        ],
    )
    def test_states_go_with_a_message_they_were_made_from(
        self, bound: Store, selector: Selector, forgotten: int, kept: list[str]
    ) -> None:
        derived(bound)
        derived(bound, AWAY)
        assert bound.forget(HOME, selector).forgotten == forgotten
        assert (left(bound), left(bound, AWAY)) == (kept, list(NAMES))

    def test_a_state_is_put_only_over_what_was_expected(self, bound: Store) -> None:
        assert bound.states.put(HOME, "name", "first", new=True)
        assert not bound.states.put(HOME, "name", "second", new=True)
        assert not bound.states.put(HOME, "name", "second", expected="other")
        assert not bound.states.put(HOME, "new", "second", expected="first")
        assert (bound.states.get(HOME, "name"), bound.states.get(HOME, "new")) == ("first", None)
        assert bound.states.put(HOME, "name", "second", expected="first")
        assert bound.states.put(AWAY, "name", "theirs", new=True)
        assert bound.states.get(HOME, "name") == "second"

    def test_a_state_is_put_only_while_what_it_was_made_from_is_as_it_was(self, bound: Store) -> None:
        id = add_id(bound, "said", kind="message", session="s")
        assert bound.states.put(HOME, "name", "first", made_from=[(id, 1)])
        assert not bound.states.put(HOME, "name", "second", made_from=[(id, 2)])
        assert not bound.states.put(HOME, "name", "second", made_from=[(id, 1), ("no such", 1)])
        bound.forget(HOME, Selector(id=id))
        assert not bound.states.put(HOME, "name", "second", made_from=[(id, 1)])
        assert bound.states.get(HOME, "name") == "first"

    # -- queueing -----------------------------------------------------------------------------------------------------
    def test_a_job_is_queued_with_its_messages(self, bound: Store) -> None:
        before = times.now()
        ids = queue(bound, 3)
        (job,) = bound.jobs.list(HOME)
        assert (job.scope, job.kind, job.session, job.ids) == (HOME, KIND, "s", ids)
        assert (job.state, job.attempts, job.due, job.problem) == ("waiting", 0, NOON, None)
        assert before <= job.created_at <= times.now()
        assert [record.id for _, record in bound.message_log.page(HOME, "s")] == list(ids)
        assert queued(bound) == [("added", None, "system")]

    def test_a_write_that_fails_or_has_no_messages_leaves_no_job(self, bound: Store) -> None:
        bound.write(HOME, [], work())
        bound.jobs.add(HOME, work(), [])
        bound.write(HOME, [Write(draft("first"), idempotency_key="k", fingerprint="a")])
        clash = Write(draft("second"), idempotency_key="k", fingerprint="b")
        for _ in range(2):
            with pytest.raises(Conflict):
                bound.write(HOME, [*said("hello"), clash], work())
        assert (bound.jobs.list(), bound.message_log.count(HOME, "s"), queued(bound)) == ([], 0, [])
        ids = queue(bound)
        with pytest.raises(Conflict):
            bound.write(HOME, [*said("hello"), clash], work())
        assert waiting(bound) == [ids], "an open job must not have been extended"

    def test_a_job_that_waits_takes_more_messages(self, bound: Store) -> None:
        ids = queue(bound, 2) + queue(bound, 1, due=times.now())
        bound.jobs.add(HOME, work(), ["one more"])
        (job,) = bound.jobs.list()
        assert (job.ids, job.due) == ((*ids, "one more"), NOON)
        assert len(queued(bound)) == 1

    # -- claiming -----------------------------------------------------------------------------------------------------
    def test_a_claimed_job_is_running_until_it_is_finished(self, bound: Store) -> None:
        seen: list[int] = []
        for count in (2, 1):
            queue(bound, count)
            (before,) = bound.jobs.list()
            job = claimed(bound)
            assert (job.state, job.attempts) == ("running", 1)
            assert (job.number, job.ids, job.due, job.scope) == (before.number, before.ids, before.due, HOME)
            assert bound.jobs.list() == [job]
            assert bound.jobs.claim([KIND], HOUR, early=True) is None
            bound.jobs.finish(job)
            assert bound.jobs.list() == []
            seen.append(job.number)
        assert seen == sorted(set(seen)), "numbers never come twice"
        assert bound.message_log.count(HOME, "s") == 3

    def test_only_jobs_of_the_scope_and_the_kinds_asked_for_are_claimed(self, bound: Store) -> None:
        for kind in ("a", "b", "c"):
            queue(bound, kind=kind, scope=AWAY)
        for kinds, scope in (([], None), (["A", "%"], None), (["a"], HOME), (["a"], NOBODY)):
            assert bound.jobs.claim(kinds, HOUR, scope=scope) is None
        found = [bound.jobs.claim({"c", "b"}, HOUR, scope=scope) for scope in (AWAY, None, None)]
        assert [job and job.kind for job in found] == ["b", "c", None]

    def test_jobs_are_claimed_by_due_time_then_by_number_and_early_only_where_asked(self, bound: Store) -> None:
        due = times.now() + HOUR
        queue(bound, session="later", due=due)
        for session, hours in (("a", 3), ("b", 1), ("c", 2), ("d", 1)):
            queue(bound, session=session, due=NOON + hours * HOUR)
        assert [claimed(bound).session for _ in range(4)] == ["b", "d", "c", "a"]
        assert bound.jobs.claim([KIND], HOUR) is None
        assert claimed(bound, early=True).due == due

    def test_a_job_is_free_again_when_its_lease_ends(self, bound: Store) -> None:
        queue(bound)
        for attempt in (1, 2, 3):
            assert claimed(bound, OVER).attempts == attempt
        assert claimed(bound, HOUR).attempts == 4
        assert bound.jobs.claim([KIND], HOUR, early=True) is None

    def test_threads_claim_each_job_once(self, bound: Store) -> None:
        for number in range(12):
            queue(bound, session=f"s{number}")
        jobs = together(20, lambda _: bound.jobs.claim([KIND], HOUR))
        numbers = [job.number for job in jobs if job is not None]
        assert sorted(numbers) == [job.number for job in bound.jobs.list(state="running")]
        assert len(numbers) == 12

    # -- what becomes of it -------------------------------------------------------------------------------------------
    def test_a_job_that_is_put_back_waits_with_its_problem(self, bound: Store) -> None:
        queue(bound)
        later = times.now() + HOUR
        bound.jobs.put_back(claimed(bound), "the model was busy", later)
        (job,) = bound.jobs.list()
        assert (job.state, job.attempts, job.due, job.problem) == ("waiting", 1, later, "the model was busy")
        assert bound.jobs.claim([KIND], HOUR) is None
        again = claimed(bound, early=True)
        assert again.attempts == 2
        bound.jobs.put_back(again, "once more", NOON)
        assert claimed(bound).attempts == 3

    def test_a_job_that_is_given_up_stays_and_is_listed(self, bound: Store) -> None:
        ids = queue(bound)
        bound.jobs.give_up(claimed(bound), "it cannot be read")
        (job,) = bound.jobs.list(HOME, state="failed")
        assert (job.ids, job.state, job.attempts, job.problem) == (ids, "failed", 1, "it cannot be read")
        assert bound.jobs.claim([KIND], HOUR, early=True) is None
        assert (bound.jobs.list(state="waiting"), bound.jobs.list(state="running")) == ([], [])

    # -- looking after them -------------------------------------------------------------------------------------------
    def test_jobs_are_listed_oldest_first(self, bound: Store) -> None:
        for session, scope, hours in (("a", HOME, 3), ("b", AWAY, 2), ("c", HOME, 1)):
            queue(bound, session=session, scope=scope, due=NOON + hours * HOUR)
        claimed(bound)
        assert [job.session for job in bound.jobs.list()] == ["a", "b", "c"]
        assert [job.session for job in bound.jobs.list(HOME)] == ["a", "c"]
        assert [job.session for job in bound.jobs.list(limit=2)] == ["a", "b"]
        assert [job.session for job in bound.jobs.list(HOME, state="waiting")] == ["a"]
        assert [job.session for job in bound.jobs.list(state="running")] == ["c"]
        assert bound.jobs.list(NOBODY) == []

    def test_failed_jobs_are_retried_with_attempts_counted_anew(self, bound: Store) -> None:
        first, second, third = failed(bound, 3)
        assert bound.jobs.retry(HOME, second) == 1
        job = claimed(bound)
        assert (job.number, job.attempts) == (second, 1)
        assert bound.jobs.claim([KIND], HOUR, early=True) is None
        assert bound.jobs.retry(None) == 2
        assert [job.number for job in bound.jobs.list(state="waiting")] == [first, third]
        assert (bound.jobs.retry(None), bound.jobs.retry(None, second), bound.jobs.retry(HOME, 10**9)) == (0, 0, 0)

    def test_forgetting_a_session_or_everything_drops_its_jobs(self, bound: Store) -> None:
        for session in ("s", "t", None):
            queue(bound, session=session)
        failed(bound, 1)
        kept = queue(bound, session="s", scope=AWAY)
        bound.forget(HOME, Selector(session="s"))
        assert [job.session for job in bound.jobs.list(HOME)] == ["t", None, "failing 0"]
        bound.forget(HOME, Selector(session="t", kind="message"))
        assert [job.session for job in bound.jobs.list(HOME)] == [None, "failing 0"]
        bound.forget(HOME, Selector(everything=True))
        assert waiting(bound) == [kept]

    def test_when_the_next_job_is_due(self, bound: Store) -> None:
        soon = times.now() + HOUR
        queue(bound, session="a", due=soon + HOUR, kind="other")
        queue(bound, session="b", due=soon, kind="other")
        assert bound.jobs.next_due(["other"]) == soon
        queue(bound)
        assert bound.jobs.next_due([KIND]) == bound.jobs.next_due([KIND, "other"]) == NOON
        assert bound.jobs.next_due([]) is bound.jobs.next_due(["no such"]) is None
        before = times.now()
        job = claimed(bound)
        due = bound.jobs.next_due([KIND])
        assert due is not None
        assert before + HOUR <= due <= times.now() + HOUR, "a running job is due when its lease ends"
        bound.jobs.give_up(job, "hopeless")
        assert bound.jobs.next_due([KIND]) is None
