"""The job queue of learning: a background worker, runs on request, and `memory.jobs`.

Finished jobs are removed; failed ones stay with their problem until they are retried or dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from keepstone.errors import NotFound, ValidationError
from keepstone.learning.extraction import KIND, FactExtractor, JobReport
from keepstone.ports.maintenance import with_places
from keepstone.ports.queue import Job, JobState
from keepstone.ports.stores import Clock, Progress, Store
from keepstone.ports.worker import Worker
from keepstone.recall.query import check_int
from keepstone.types import Scope, Usage

_MAX_RUN_JOBS = 100_000  # a bound for jobs that arrive faster than they are processed
_POLL_SECONDS = 60.0  # other processes queue jobs too


@dataclass(frozen=True, slots=True)
class WorkReport:
    """The result of a run: jobs done, jobs that failed, facts learned, a reason for each rejected proposal, the model's usage."""

    done: int = 0
    failed: int = 0
    learned: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    usage: Usage = Usage()
    problems: tuple[str, ...] = ()

    def __add__(self, other: WorkReport) -> WorkReport:
        return WorkReport(
            self.done + other.done,
            self.failed + other.failed,
            tuple(dict.fromkeys(self.learned + other.learned)),
            self.refused + other.refused,
            self.usage + other.usage,
            tuple(dict.fromkeys(self.problems + other.problems)),
        )


class Queue:
    """The job queue of one store, and the thread that processes it."""

    def __init__(self, store: Store, extractor: FactExtractor, clock: Clock, lease: timedelta, background: bool) -> None:
        self._store = store
        self._extractor = extractor
        self._clock = clock
        self._lease = lease
        self._worker = Worker("keepstone-learning", self._step) if background else None

    def wake(self) -> None:
        """Tell the worker that a job was queued."""
        if self._worker is not None and self._extractor.model is not None:
            self._worker.wake()

    def stop(self, timeout_seconds: float) -> None:
        """End the worker thread."""
        if self._worker is not None:
            self._worker.stop(timeout_seconds)

    def run(self, scope: Scope | None = None, progress: Progress | None = None) -> WorkReport:
        """Process all waiting jobs, due or not; a failed job is not retried in the same run."""
        if self._extractor.model is None:
            waiting = self._store.jobs.list(scope, state="waiting", limit=1)
            return WorkReport(problems=("jobs wait for a model: open the memory with model=…",) if waiting else ())
        total = len(self._store.jobs.list(scope, state="waiting", limit=_MAX_RUN_JOBS))
        tried: set[int] = set()
        report = WorkReport()
        for _ in range(_MAX_RUN_JOBS):
            job = self._store.jobs.claim((KIND,), self._lease, early=True, scope=scope, exclude=tried)
            if job is None:
                break
            tried.add(job.number)
            report += _as_work(self._extractor.work(job))
            if progress is not None:
                progress(len(tried), max(total, len(tried)))
        return report

    def _step(self) -> float:
        """Process one due job. Returns the seconds until the next may be due."""
        job = self._store.jobs.claim((KIND,), self._lease)
        if job is not None:
            self._extractor.work(job)
            return 0.0
        due = self._store.jobs.next_due((KIND,))
        seconds = _POLL_SECONDS if due is None else (due - self._clock()).total_seconds()
        return min(max(seconds, 0.01), _POLL_SECONDS)


def _as_work(report: JobReport) -> WorkReport:
    if report.problem is not None:
        return WorkReport(failed=1, usage=report.usage, problems=(report.problem,))
    return WorkReport(1, 0, report.learned, report.refused, report.usage)


class ScopeJobs:
    """`memory.jobs`: the queued jobs of one scope."""

    def __init__(self, queue: Queue, store: Store, scope: Scope) -> None:
        self._queue = queue
        self._store = store
        self._scope = scope

    def list(self, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        """The jobs, oldest first: waiting, running or failed.

        >>> [(job.number, job.state) for job in memory.jobs.list(state="failed")]
        []"""
        if state not in (None, "waiting", "running", "failed"):
            raise ValidationError(f"state is {state!r:.40}: use waiting, running or failed.")
        found = self._store.jobs.list(self._scope, state=state, limit=check_int(limit, "limit", 1, 10_000))
        return with_places(self._store.audit_log, self._scope, found)

    def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Process all waiting jobs now, in this process.

        >>> memory.jobs.run().done
        0"""
        return self._queue.run(self._scope, progress)

    def retry(self, number: int | None = None) -> int:
        """Queue one failed job again, or all of them. Returns their number. Raises NotFound.

        >>> memory.jobs.retry()
        0"""
        count = self._store.jobs.retry(self._scope, None if number is None else self._stored_number(number))
        if number is not None and not count:
            raise NotFound(f"there is no failed job {number} in this scope: list the jobs to see their numbers.")
        self._queue.wake()
        return count

    def drop(self, number: int) -> None:
        """Remove a job from the queue; its messages stay. Raises NotFound.

        >>> for job in memory.jobs.list(state="failed"):
        ...     memory.jobs.drop(job.number)"""
        if not self._store.jobs.drop(self._scope, self._stored_number(number)):
            raise NotFound(f"there is no job {number} in this scope: list the jobs to see their numbers.")

    def _stored_number(self, number: int) -> int:
        return self._store.audit_log.number_at(self._scope, check_job_number(number))


def check_job_number(number: int) -> int:
    """The number of a job; ValidationError for anything else."""
    return check_int(number, "the job number", 1, 2**62)
