"""`memory.upkeep`: the maintenance jobs of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import Any, Protocol

from keepstone.errors import ValidationError
from keepstone.maintenance.checkup import FixReport, HealthChecker
from keepstone.maintenance.compaction import Compactor, CompactReport
from keepstone.maintenance.health import HealthReport
from keepstone.maintenance.policy import PolicyRunner, RunReport, Scheduler, UpkeepPolicy
from keepstone.maintenance.reembedding import ReembedReport
from keepstone.maintenance.retention import MONTH, ArchiveReport, PurgeReport, Retention
from keepstone.maintenance.verification import Verifier, VerifyReport
from keepstone.ports.maintenance import ArchivedRecord, ArchiveReason
from keepstone.ports.stores import Progress, Store
from keepstone.text.times import lifetime
from keepstone.types import Diagnosis, Scope
from keepstone.vector_sync.indexing import Repaired

YEAR = 31_536_000.0  # seconds
Policy = UpkeepPolicy | Mapping[str, Any] | str | PathLike[str] | None


class Indexed(Protocol):
    """An external vector index."""

    def repair(self, progress: Progress | None = None) -> Repaired: ...

    def rebuild(self, progress: Progress | None = None) -> int: ...


@dataclass(frozen=True, slots=True)
class UpkeepJobs:
    """The parts of `Upkeep`, wired by the engine."""

    store: Store
    retention: Retention
    compactor: Compactor
    verifier: Verifier
    health: HealthChecker
    policy_runner: PolicyRunner
    reembed: Callable[[Any, Progress | None], ReembedReport]
    scheduled: Callable[[Scheduler], Scheduler]
    index: Callable[[], Indexed]
    doctor: Callable[[Progress | None], Diagnosis]


class Upkeep:
    """`memory.upkeep`: maintenance of one scope. An archived record is no longer recalled and keeps its text;
    `undo(report.ticket)` or `restore(ids)` restore it until `purge` erases it. A `dry_run` changes nothing."""

    def __init__(self, scope: Scope, jobs: UpkeepJobs) -> None:
        self._scope = scope
        self._jobs = jobs

    # -- the index of vectors -------------------------------------------------------------------------------------
    def repair_index(self, *, progress: Progress | None = None) -> Repaired:
        """Add to the vector index what is missing, and remove what should not be there. Raises IndexUnavailable."""
        return self._jobs.index().repair(progress)

    def rebuild_index(self, *, progress: Progress | None = None) -> int:
        """Empty the vector index and add every memory again. Returns their number. Raises IndexUnavailable."""
        return self._jobs.index().rebuild(progress)

    # -- by a policy ----------------------------------------------------------------------------------------------
    def run(self, policy: Policy = None, *, dry_run: bool = False, progress: Progress | None = None) -> RunReport:
        """Run a policy in every scope of the store, and process the jobs that wait for a model. The policy is a dictionary, a
        TOML file, or None for the default. Of several processes one runs it; in the others the report's `ran` is False."""
        return self._jobs.policy_runner.run(UpkeepPolicy.of(policy), dry_run, progress)

    def schedule(self, policy: Policy = None, *, every: timedelta | float = 86_400) -> Scheduler:
        """Run a policy once in each period (a timedelta or seconds) in a thread of this process, until the memory is closed or
        the scheduler stopped. Of several processes on one store one runs it in each period."""
        period, chosen = lifetime(every, "every"), UpkeepPolicy.of(policy)
        run = self._jobs.policy_runner.run
        return self._jobs.scheduled(Scheduler(self._jobs.store, lambda: run(chosen, False, None), period))

    # -- retention ------------------------------------------------------------------------------------------------
    def age(
        self,
        *,
        older_than: timedelta | float = YEAR,
        kinds: Iterable[str] | None = None,
        keyed: bool = False,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Archive what was neither changed nor read for `older_than` (a timedelta or seconds; a year): of these kinds, or of
        all but messages; values under keys only where `keyed` is set."""
        return self._jobs.retention.age(self._scope, older_than, kinds, keyed, dry_run)

    def lapse(self, *, dry_run: bool = False) -> ArchiveReport:
        """Archive what has outlived its time to live, so that `purge` can erase it later."""
        return self._jobs.retention.lapse(self._scope, dry_run)

    def fade(
        self,
        *,
        importance: float = 0.3,
        reads: int = 1,
        older_than: timedelta | float = MONTH,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Archive facts below `importance` that were read at most `reads` times, and were neither changed nor read for
        `older_than` (a timedelta or seconds; 30 days)."""
        return self._jobs.retention.fade(self._scope, importance, reads, older_than, dry_run)

    def cap(self, most: int, *, kinds: Iterable[str] | None = None, dry_run: bool = False) -> ArchiveReport:
        """Archive what exceeds `most` memories of these kinds (facts, notes, episodes, summaries): the least important, least
        read, longest untouched first. Values under keys stay."""
        return self._jobs.retention.cap(self._scope, most, kinds, dry_run)

    def archived(self, *, limit: int = 1000) -> Sequence[ArchivedRecord]:
        """The archived records, the longest archived first, each with its reason and time."""
        return self._jobs.store.retention.archived(self._scope, limit=_whole(limit))

    def undo(self, ticket: int) -> tuple[str, ...]:
        """Restore what one job archived, by the `ticket` of its report. Returns the restored ids."""
        return self._jobs.retention.undo(self._scope, ticket)

    def restore(self, ids: Iterable[str]) -> int:
        """Restore these records, unless the same was remembered again. Returns the number restored."""
        return self._jobs.retention.restore(self._scope, ids)

    def purge(
        self,
        *,
        after: timedelta | float = MONTH,
        why: Collection[ArchiveReason] | None = None,
        dry_run: bool = False,
        trust_clock: bool = False,
    ) -> PurgeReport:
        """Erase what has been archived for longer than `after` (a timedelta or seconds; 30 days); compacted records stay. A clock
        that jumped ahead is not trusted unless `trust_clock` is set."""
        return self._jobs.retention.purge(self._scope, after, why, dry_run, trust_clock)

    # -- content --------------------------------------------------------------------------------------------------
    def compact(
        self,
        *,
        older_than: timedelta | float = MONTH,
        kinds: Collection[str] = ("fact", "note"),
        tag: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CompactReport:
        """Condense related memories that were not changed for `older_than` into fewer: by the model, or by their own sentences
        where there is none. The originals are archived for good, as parents of their digest."""
        return self._jobs.compactor.compact(
            self._scope, older_than=older_than, kinds=kinds, tag=tag, dry_run=dry_run, progress=progress
        )

    def verify(
        self,
        *,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        stale_after: timedelta | float = 15_552_000,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check memories against newer messages, and against the probes in their metadata for which `handlers` has a function.
        What is stale, contradicted or unsupported is added to the review list."""
        return self._jobs.verifier.verify(
            self._scope, handlers=handlers, stale_after=stale_after, dry_run=dry_run, progress=progress
        )

    def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Embed every record that has no vector yet; with `embedder`, move the store to that one: the new vectors are computed
        while the old ones serve, then the store switches in one transaction.

        An interrupted call continues where it stopped."""
        return self._jobs.reembed(embedder, progress)

    # -- health ---------------------------------------------------------------------------------------------------
    def doctor(self, *, progress: Progress | None = None) -> Diagnosis:
        """Check the whole store: engine, content hashes, and that text, words and vectors agree."""
        return self._jobs.doctor(progress)

    def health(self, path: str | PathLike[str] | None = None, *, format: str = "auto", most: int = 100) -> HealthReport:
        """Look for duplicates, echoes, junk, secrets, what is stale, contradicted, orphaned or never recalled, without any model.
        With a path: in an export of mem0, Letta, LangMem or keepstone. The report's plan says what `fix` would do."""
        if path is not None:
            return self._jobs.health.health_of(path, format, _whole(most))
        return self._jobs.health.health(self._scope, _whole(most))

    def fix(self, *, checks: Collection[str] | None = None, dry_run: bool = False) -> FixReport:
        """Carry out the health report's plan, for these checks or all: archive (can be undone), redact, flag for review."""
        return self._jobs.health.fix(self._scope, checks, dry_run)


def _whole(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1_000_000:
        raise ValidationError(f"the limit is {limit!r:.40}: use a whole number from 1 to 1000000.")
    return limit
