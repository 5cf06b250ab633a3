"""`memory.jobs` and `upkeep.run`: the queue as a caller sees it, and the thread that works on it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ModelError, NotFound, ValidationError
from keepstone.ports.chat import Answer, Prompt
from keepstone.types import Usage
from tests.surfaces.support import START, Clock, contents, timed
from tests.surfaces.test_learning_by_model import answers, at_rest, facts, proposed, user

WAIT = 30  # seconds after which a thread that should have said something has failed


def broken(prompt: Prompt) -> Any:
    raise RuntimeError("the secret is 4471")


class Leaping(Clock):
    """A clock that is an hour further each time it is asked: whatever was put off is due at the next look."""

    def __call__(self) -> Any:
        return self.forward(hours=1)


def given_up(path: Path, sessions: str = "a") -> None:
    """A store with a failed job for each session."""
    done = threading.Semaphore(0)

    def model(prompt: Prompt) -> Any:
        done.release()
        raise RuntimeError("the secret is 4471")

    with timed(path, Leaping(), model=model, settings={"extract_after": 0}) as memory:
        for session in sessions:
            memory.conversation(session).add("user", "I live in Porto.")
        for _ in range(5 * len(sessions)):
            assert done.acquire(timeout=WAIT)


# -- reports -------------------------------------------------------------------------------------------------------------
def test_a_report_says_what_was_done_learned_refused_and_spent(path: Path) -> None:
    text = '{"facts": [{"turns": [1], "content": "The user lives in Porto.", "key": "home"}, {"turns": [7], "content": "No."}]}'
    spent = Usage(input_tokens=100, output_tokens=20, cached_tokens=5, calls=1, retries=1, cost=0.25)
    with at_rest(path, lambda prompt: Answer(({"type": "text", "text": text},), "end", spent)) as memory:
        for session in "abc":
            memory.conversation(session).add("user", "I live in Porto.")
        seen: list[tuple[int, int]] = []
        report = memory.upkeep.run(progress=lambda done, total: seen.append((done, total)))
        assert (report.done, report.failed, report.problems) == (3, 0, ())
        assert report.learned == (facts(memory)[0].id,)
        assert report.refused == ("Item 2 rests on no turn that was shown.",) * 3
        assert report.usage == Usage(300, 60, 15, 3, 3, 0.75)
        assert seen == [(1, 3), (2, 3), (3, 3)]
        assert list(memory.jobs.list()) == []


def test_a_scope_works_on_its_own_jobs_and_upkeep_on_all(path: Path) -> None:
    with at_rest(path, answers(proposed("The user lives in Porto."))) as memory:
        dana, omar = memory.with_scope(user="dana"), memory.with_scope(user="omar")
        for one in (dana, omar):
            one.conversation("s").add("user", "I live in Porto.")
        assert dana.jobs.run().done == 1
        assert (len(dana.jobs.list()), len(omar.jobs.list()), len(memory.jobs.list())) == (0, 1, 0)
        assert len(facts(omar)) == 0
        assert memory.upkeep.run().done == 1
        assert len(facts(omar)) == len(facts(dana)) == 1


def test_what_a_process_without_a_model_finds_in_the_queue_waits_for_one_that_has(path: Path) -> None:
    with at_rest(path, answers()) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
    with Memory.open(path) as without:
        assert without.upkeep.run().done == 0
        (job,) = without.jobs.list()
        assert (job.state, job.attempts) == ("waiting", 0)
    with at_rest(path, answers(proposed("The user lives in Porto."))) as memory:
        assert memory.jobs.run().done == 1


# -- failures ------------------------------------------------------------------------------------------------------------
def test_a_job_that_fails_waits_and_says_why_without_what_was_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with timed(path, clock, model=broken, settings={"worker": False}) as memory, caplog.at_level(logging.INFO, "keepstone"):
        memory.conversation("s").add("user", "I live in Porto.")
        report = memory.jobs.run()
        assert (report.done, report.failed, report.learned) == (0, 1, ())
        (job,) = memory.jobs.list()
        assert (job.state, job.session, job.kind) == ("waiting", "s", "extract")
        assert job.due == START + timedelta(seconds=30)
        assert job.problem == report.problems[0]
        assert "RuntimeError" in job.problem
        told = f"{report} {job} {caplog.text}"
        assert "Porto" not in told
        assert "4471" not in told
        assert contents(memory.recall("Where does the user live?", limit=1)) == ["I live in Porto."]


def test_after_five_tries_a_job_is_given_up_and_can_be_tried_again_or_dropped(path: Path) -> None:
    given_up(path, "ab")
    with at_rest(path, answers(proposed("The user lives in Porto."))) as memory:
        first, second = memory.jobs.list(state="failed")
        assert [(job.session, job.attempts) for job in (first, second)] == [("a", 5), ("b", 5)]
        assert "RuntimeError" in (first.problem or "")
        assert "4471" not in repr((first, second))
        assert memory.jobs.run().done == 0  # what was given up is left alone
        assert list(memory.jobs.list(state="waiting")) == []
        assert memory.jobs.retry(first.number) == 1
        (waiting,) = memory.jobs.list(state="waiting")
        assert (waiting.number, waiting.attempts, waiting.problem) == (first.number, 0, None)
        assert memory.jobs.run().done == 1
        memory.jobs.drop(second.number)
        assert list(memory.jobs.list()) == []
        assert len(memory.conversation.recent()) == 2
        assert len(facts(memory)) == 1


def test_all_failed_jobs_of_a_scope_are_tried_again_at_once(path: Path) -> None:
    given_up(path, "abc")
    with at_rest(path, answers()) as memory:
        assert memory.with_scope(user="omar").jobs.retry() == 0
        assert memory.jobs.retry() == 3
        assert memory.jobs.retry() == 0
        assert memory.jobs.run().done == 3


def test_another_scopes_jobs_cannot_be_touched(path: Path) -> None:
    given_up(path)
    with at_rest(path, answers()) as memory:
        (job,) = memory.jobs.list()
        other = memory.with_scope(user="omar")
        for act in (other.jobs.retry, other.jobs.drop):
            with pytest.raises(NotFound, match=f"job {job.number} "):
                act(job.number)
        assert list(other.jobs.list()) == []
        assert [each.state for each in memory.jobs.list()] == ["failed"]
        with pytest.raises(NotFound, match="no failed job"):
            memory.jobs.retry(job.number + 1000)


@pytest.mark.parametrize("number", [0, -1, True, "1", 1.5, 2**63])
def test_a_number_that_is_none_is_refused(memory: Memory, number: Any) -> None:
    for act in (memory.jobs.retry, memory.jobs.drop):
        with pytest.raises(ValidationError, match="number is"):
            act(number)


def test_a_list_is_asked_for_with_a_state_and_a_limit_there_are(path: Path) -> None:
    with at_rest(path, answers()) as memory:
        for session in "abc":
            memory.conversation(session).add("user", "I live in Porto.")
        assert [job.session for job in memory.jobs.list(limit=2)] == ["a", "b"]
        assert [len(memory.jobs.list(state=state)) for state in ("waiting", "running", "failed")] == [3, 0, 0]
        with pytest.raises(ValidationError, match="waiting, running or failed"):
            memory.jobs.list(state="done")  # type: ignore[arg-type]
        for limit in (0, True, 10_001, "5"):
            with pytest.raises(ValidationError, match="limit"):
                memory.jobs.list(limit=limit)  # type: ignore[arg-type]


def test_one_failing_job_does_not_keep_the_others_from_being_done(path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        if "apple" in prompt.messages[-1]["content"]:
            raise RuntimeError
        return {"facts": [proposed("The user likes pears.")]}

    with at_rest(path, model) as memory:
        for session, fruit in zip("abc", ("pears", "apples", "pears"), strict=True):
            memory.conversation(session).add("user", f"I like {fruit}.")
        report = memory.jobs.run()
        assert (report.done, report.failed) == (2, 1)
        assert [job.session for job in memory.jobs.list()] == ["b"]
        assert len(memory.conversation.recent()) == 3


def test_a_run_counts_one_try_and_each_try_is_put_off_for_longer(path: Path) -> None:
    with timed(path, Clock(), model=broken, settings={"worker": False}) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
        seen = []
        for _ in range(5):
            assert memory.jobs.run().failed == 1
            (job,) = memory.jobs.list()
            seen.append((job.state, job.attempts, (job.due - START).total_seconds()))
        assert seen[:4] == [("waiting", 1, 30), ("waiting", 2, 120), ("waiting", 3, 480), ("waiting", 4, 1920)]
        assert seen[4][:2] == ("failed", 5)


def test_a_run_tries_every_job_whenever_it_is_due_and_each_keeps_its_own_problem(path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        raise ModelError(f"service {prompt.messages[-1]['content'].count('apple')} is down")

    with timed(path, Clock(), model=model, settings={"worker": False, "extract_after": 3600}) as memory:
        for number, session in enumerate("abc"):
            memory.conversation(session).add("user", "apple " * number + "pie")
        assert memory.jobs.run().failed == 3
        assert [job.problem for job in memory.jobs.list()] == [f"service {number} is down" for number in range(3)]


# -- in the background ---------------------------------------------------------------------------------------------------
def named_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "keepstone-learning"]


def test_a_thread_learns_in_the_background_and_ends_with_the_memory(path: Path) -> None:
    asked = threading.Event()

    def model(prompt: Prompt) -> Any:
        asked.set()
        return {"facts": [proposed("The user lives in Porto.")]}

    with Memory.open(path, model=model, settings={"extract_after": 0}) as memory:
        assert named_threads() == []  # there was nothing to do yet
        memory.conversation("s").add("user", "I live in Porto.")
        assert asked.wait(WAIT)
    assert named_threads() == []  # closing let it finish the job in hand
    with Memory.open(path) as memory:
        assert contents(facts(memory)) == ["The user lives in Porto."]
        assert list(memory.jobs.list()) == []


def test_a_thread_goes_on_after_a_model_has_failed(path: Path) -> None:
    calls, asked = count(), threading.Event()

    def model(prompt: Prompt) -> Any:
        if next(calls) == 0:
            raise RuntimeError
        asked.set()
        return {"facts": [proposed("The user lives in Porto.")]}

    with timed(path, Leaping(), model=model, settings={"extract_after": 0}) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
        assert asked.wait(WAIT)
    with Memory.open(path) as memory:
        assert list(memory.jobs.list()) == []
        assert len(facts(memory)) == 1


def test_work_that_an_earlier_process_left_is_taken_up_on_opening(path: Path) -> None:
    with at_rest(path, answers(), settings={"extract_after": 0}) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
    asked = threading.Event()

    def model(prompt: Prompt) -> Any:
        asked.set()
        return {"facts": []}

    with Memory.open(path, model=model):
        assert asked.wait(WAIT)


def test_closing_does_not_wait_for_a_model_that_hangs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstone.engine._CLOSE_TIMEOUT_SECONDS", 0.05)
    clock, asked, go = Clock(), threading.Event(), threading.Event()

    def model(prompt: Prompt) -> Any:
        asked.set()
        assert go.wait(WAIT)
        return {"facts": [proposed("The user lives in Porto.")]}

    memory = timed(path, clock, model=model, settings={"extract_after": 0})
    memory.conversation("s").add("user", "I live in Porto.")
    assert asked.wait(WAIT)
    (thread,) = named_threads()
    memory.close()
    assert thread.is_alive()
    go.set()
    thread.join(WAIT)
    assert not thread.is_alive()  # it found the store closed and ended without a word
    with timed(path, clock, model=answers(proposed("The user lives in Porto.")), settings={"worker": False}) as memory:
        assert facts(memory) == []
        assert [job.state for job in memory.jobs.list()] == ["running"]
        assert memory.jobs.run().done == 0  # its lease still runs
        clock.forward(hours=1)
        assert memory.jobs.run().done == 1
        assert len(facts(memory)) == 1


def test_no_thread_without_a_model_or_where_it_is_turned_off(path: Path) -> None:
    with Memory.open(path) as memory, at_rest(path, answers()) as quiet:
        for one in (memory, quiet):
            one.ingest([user("I live in Porto.")], session="s")
        assert named_threads() == []
