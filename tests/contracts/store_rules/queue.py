"""States and jobs in combination."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector
from keepstone.testing.builders import AWAY, HOME, NOON, NeedsStore, add, add_id, wording
from keepstone.testing.stores.queue import (
    HOUR,
    KIND,
    NAMES,
    NOBODY,
    OVER,
    claimed,
    derived,
    failed,
    left,
    queue,
    queued,
    waiting,
)
from keepstone.text import times


class QueueRules(NeedsStore):
    def test_states_stay_when_no_message_of_theirs_goes(self, bound: Store) -> None:
        derived(bound)
        derived(bound, AWAY)
        fact = add_id(bound, "a fact", session="s", key="k", source="web")
        add(bound, "another fact", session="s")
        for selector in (
            Selector(id="no such"),
            Selector(session="no such"),
            Selector(id=fact),
            Selector(source="web"),
            Selector(key="k"),
        ):
            bound.forget(HOME, selector)
            assert left(bound) == list(NAMES), selector
        bound.forget(AWAY, Selector(session="s"))
        assert (left(bound), left(bound, AWAY)) == (list(NAMES), ["of t", "of none"])

    def test_states_go_when_a_message_is_reworded(self, bound: Store) -> None:
        said = derived(bound)
        for revision in (Revision(importance=0.9), Revision(metadata={"a": 1}), wording("s user")):
            bound.revise(HOME, said[0], revision)
            assert left(bound) == list(NAMES), revision
        assert bound.revise(HOME, said[0], wording("quite other words")).action == "updated"
        assert left(bound) == ["of t", "of none"]

    def test_the_session_of_a_state_is_that_of_its_last_put(self, bound: Store) -> None:
        said = derived(bound)
        bound.states.put(HOME, "of s", "made anew from t", session="t")
        bound.states.put(HOME, "of all", "made anew from nothing")
        bound.forget(HOME, Selector(id=said[0]))
        assert left(bound) == list(NAMES)
        bound.forget(HOME, Selector(session="t"))
        assert left(bound) == ["of all", "of none"]

    def test_a_job_takes_only_what_is_like_it(self, bound: Store) -> None:
        queue(bound)
        queue(bound, session="t")
        queue(bound, session=None)
        queue(bound, kind="summarise")
        queue(bound, scope=AWAY)
        assert [len(ids) for ids in waiting(bound)] == [1] * 5
        queue(bound, session=None)
        queue(bound)
        assert [len(ids) for ids in waiting(bound)] == [2, 1, 2, 1, 1]

    def test_more_messages_than_a_job_may_have_make_further_jobs(self, bound: Store) -> None:
        ids = queue(bound, 11, most=4)
        assert waiting(bound) == [ids[:4], ids[4:8], ids[8:]]
        assert len(queued(bound)) == 3
        more = queue(bound, 3, most=4)
        assert waiting(bound) == [ids[:4], ids[4:8], (*ids[8:], more[0]), more[1:]]
        queue(bound, 2, most=4)
        assert [len(each) for each in waiting(bound)] == [4, 4, 4, 4]
        queue(bound, 1, most=2)
        assert [len(each) for each in waiting(bound)] == [4, 4, 4, 4, 1]

    @pytest.mark.parametrize("how", ["running", "put back", "abandoned", "given up"])
    def test_a_job_that_was_tried_takes_no_more_messages(self, bound: Store, how: str) -> None:
        first = queue(bound)
        job = claimed(bound, OVER if how == "abandoned" else HOUR)
        if how == "put back":
            bound.jobs.put_back(job, "busy", NOON)
        elif how == "given up":
            bound.jobs.give_up(job, "hopeless")
        second = queue(bound)
        assert waiting(bound) == [first, second]

    def test_times_of_a_clock_that_ran_ahead_hold_nothing_up(self, bound: Store) -> None:
        """Nothing is put off or leased for longer than a day, so a later time was not meant."""
        queue(bound, session="far", due=times.now() + timedelta(days=400))
        queue(bound, session="near", due=times.now() + timedelta(hours=23))
        job = claimed(bound, timedelta(days=400))
        assert job.session == "far"
        again = claimed(bound, timedelta(hours=23))
        assert (again.number, again.attempts) == (job.number, 2)
        assert bound.jobs.claim([KIND], HOUR) is None

    @pytest.mark.parametrize("verb", ["finish", "put_back", "give_up"])
    @pytest.mark.parametrize(
        "since",
        ["claimed by another", "put back", "put back by itself", "given up", "given up by itself", "dropped", "forgotten"],
    )
    def test_a_worker_that_lost_a_job_changes_nothing(self, bound: Store, verb: str, since: str) -> None:
        queue(bound)
        lost = claimed(bound, OVER)
        match since:
            case "claimed by another":
                claimed(bound, HOUR)
            case "put back":
                bound.jobs.put_back(claimed(bound), "busy", NOON)
            case "put back by itself":
                bound.jobs.put_back(lost, "busy", NOON)
            case "given up":
                bound.jobs.give_up(claimed(bound), "hopeless")
            case "given up by itself":
                bound.jobs.give_up(lost, "hopeless")
            case "dropped":
                bound.jobs.drop(HOME, lost.number)
            case "forgotten":
                bound.forget(HOME, Selector(session="s"))
        before = bound.jobs.list()
        rest: Sequence[Any] = {"finish": (), "put_back": ("late", NOON), "give_up": ("late",)}[verb]
        getattr(bound.jobs, verb)(lost, *rest)
        assert bound.jobs.list() == before

    def test_a_job_is_retried_and_dropped_in_its_own_scope(self, bound: Store) -> None:
        (mine,), (theirs,) = failed(bound, 1), failed(bound, 1, AWAY)
        assert (bound.jobs.retry(HOME, theirs), bound.jobs.retry(NOBODY), bound.jobs.retry(HOME)) == (0, 0, 1)
        assert [job.number for job in bound.jobs.list(state="failed")] == [theirs]
        assert (bound.jobs.drop(HOME, theirs), bound.jobs.drop(NOBODY, mine), bound.jobs.drop(None, 10**9)) == (False,) * 3
        assert (bound.jobs.drop(HOME, mine), bound.jobs.drop(HOME, mine), bound.jobs.drop(None, theirs)) == (True, False, True)
        assert bound.jobs.list() == []
