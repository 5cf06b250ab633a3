"""Working through the queue: a job at a time, in this process, or on request.

Settled jobs leave; failed ones stay, with what was wrong, until somebody retries or drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from keepstone.errors import NotFound, ValidationError
from keepstone.learning.extraction import KIND, FactExtractor, JobReport
from keepstone.learning.worker import Worker
from keepstone.ports.queue import Job, JobState
from keepstone.ports.stores import Clock, Progress, Store
from keepstone.types import Scope, Usage

_MOST = 100_000  # jobs in one run: a bound, should they come faster than they are done


@dataclass(frozen=True, slots=True)
class WorkReport:
    """What a run through the queue came to: jobs done, jobs that failed and wait or were given up, facts learned, a sentence for
    each proposal that was not taken, what the model took."""

    done: int = 0
    failed: int = 0
    learned: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    usage: Usage = Usage()
    problems: tuple[str, ...] = ()


class Queue:
    """The queue of one store, and the thread that works on it."""

    def __init__(self, store: Store, extractor: FactExtractor, clock: Clock, lease: timedelta, background: bool) -> None:
        self._store = store
        self._extractor = extractor
        self._clock = clock
        self._lease = lease
        self._worker = Worker(self._step, self._until_due) if background else None

    def wake(self) -> None:
        """Work has been queued."""
        if self._worker is not None and self._extractor.model is not None:
            self._worker.wake()

    def stop(self, patience: float) -> None:
        """Let the thread end."""
        if self._worker is not None:
            self._worker.stop(patience)

    def run(self, scope: Scope | None = None, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits, due or not; what fails is not tried twice in one run."""
        if self._extractor.model is None:
            waiting = self._store.jobs.list(scope, state="waiting", limit=1)
            return WorkReport(problems=("jobs wait for a model: open the memory with model=…",) if waiting else ())
        total = len(self._store.jobs.list(scope, state="waiting", limit=_MOST))
        tried: set[int] = set()
        reports: list[JobReport] = []
        for _ in range(_MOST):
            job = self._store.jobs.claim((KIND,), self._lease, early=True, scope=scope, exclude=tried)
            if job is None:
                break
            tried.add(job.number)
            reports.append(self._extractor.work(job))
            if progress is not None:
                progress(len(reports), max(total, len(reports)))
        return _summed(reports)

    def list(self, scope: Scope | None, state: JobState | None, limit: int) -> Sequence[Job]:
        return self._store.jobs.list(scope, state=state, limit=limit)

    def _step(self) -> bool:
        """Do one job that is due; False if there is none."""
        job = self._store.jobs.claim((KIND,), self._lease)
        if job is None:
            return False
        self._extractor.work(job)
        return True

    def _until_due(self) -> float | None:
        due = self._store.jobs.next_due((KIND,))
        return None if due is None else (due - self._clock()).total_seconds()


def _summed(reports: Sequence[JobReport]) -> WorkReport:
    usage = Usage()
    for report in reports:
        usage = usage + report.usage
    problems = tuple(dict.fromkeys(report.problem for report in reports if report.problem is not None))
    return WorkReport(
        done=sum(report.problem is None for report in reports),
        failed=sum(report.problem is not None for report in reports),
        learned=tuple(dict.fromkeys(id for report in reports for id in report.learned)),
        refused=tuple(sentence for report in reports for sentence in report.refused),
        usage=usage,
        problems=problems,
    )


class ScopeJobs:
    """What `memory.jobs` offers: the queued work of one scope."""

    def __init__(self, queue: Queue, store: Store, scope: Scope, wake: Callable[[], None]) -> None:
        self._queue = queue
        self._store = store
        self._scope = scope
        self._wake = wake

    def list(self, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        """Jobs, oldest first: those that wait, run, or have been given up ("failed")."""
        if state not in (None, "waiting", "running", "failed"):
            raise ValidationError(f"state is {state!r:.40}: use waiting, running or failed.")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10_000:
            raise ValidationError(f"limit is {limit!r:.40}: use a whole number from 1 to 10000.")
        return self._queue.list(self._scope, state, limit)

    def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits, now and in this process."""
        return self._queue.run(self._scope, progress)

    def retry(self, number: int | None = None) -> int:
        """Let one failed job, or all, wait again. How many. Raises NotFound."""
        count = self._store.jobs.retry(self._scope, _number(number))
        if number is not None and not count:
            raise NotFound(f"there is no failed job {number} in this scope: the list of jobs shows what there is.")
        self._wake()
        return count

    def drop(self, number: int) -> None:
        """Take a job out of the queue; its messages stay. Raises NotFound."""
        if not self._store.jobs.drop(self._scope, _number(number) or 0):
            raise NotFound(f"there is no job {number} in this scope: the list of jobs shows what there is.")


def _number(number: int | None) -> int | None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**62):
        raise ValidationError(f"a job's number is {number!r:.40}: use one of the list of jobs.")
    return number
