"""`memory.upkeep`: the maintenance jobs of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.errors import ConfigurationError
from keepstone.maintenance.checkup import HealthChecker
from keepstone.maintenance.compaction import Compactor, CompactReport
from keepstone.maintenance.policy import PolicyRunner, RunReport, Scheduler, UpkeepPolicy
from keepstone.maintenance.reembedding import Reembedder, ReembedReport
from keepstone.maintenance.retention import MONTH
from keepstone.maintenance.verification import Verifier, VerifyReport
from keepstone.ports.stores import Clock, Progress, Store
from keepstone.recall.access import AccessCounter
from keepstone.text.times import lifetime
from keepstone.types import Diagnosis, Scope

if TYPE_CHECKING:
    from keepstone.maintenance.transfer import Transfer
    from keepstone.vector_sync.indexing import Indexing, Repaired

Policy = UpkeepPolicy | Mapping[str, Any] | str | PathLike[str] | None


@dataclass(frozen=True, slots=True)
class UpkeepJobs:
    """The parts of `Upkeep`, wired by the engine."""

    store: Store
    accesses: AccessCounter
    clock: Clock
    find: Callable[[str], Sequence[Any]]
    redacts: Collection[str]
    compactor: Compactor
    verifier: Verifier
    policy_runner: PolicyRunner
    reembedder: Reembedder
    transfer: Transfer
    indexing: Indexing | None
    schedulers: list[Scheduler]  # stopped when the store is closed


class Upkeep(HealthChecker):
    """`memory.upkeep`: maintenance of one scope. An archived record is no longer recalled and keeps its text;
    `undo(report.ticket)` or `restore(ids)` restore it until `purge` erases it. A `dry_run` changes nothing."""

    def __init__(self, scope: Scope, jobs: UpkeepJobs) -> None:
        super().__init__(scope, jobs.store, jobs.accesses, jobs.clock, jobs.find, jobs.redacts)
        self._jobs = jobs

    # -- the index of vectors -------------------------------------------------------------------------------------
    def repair_index(self, *, progress: Progress | None = None) -> Repaired:
        """Add to the vector index what is missing, and remove what should not be there.

            report = memory.upkeep.repair_index()

        Raises IndexUnavailable, and ConfigurationError for a memory without an index."""
        return self._indexing().repair(progress)

    def rebuild_index(self, *, progress: Progress | None = None) -> int:
        """Empty the vector index and add every memory again. Returns their number.

            count = memory.upkeep.rebuild_index()

        Raises IndexUnavailable, and ConfigurationError for a memory without an index."""
        return self._indexing().rebuild(progress)

    def _indexing(self) -> Indexing:
        if self._jobs.indexing is None:
            raise ConfigurationError("this memory has no index of its own: open it with index='chroma:…' or set KEEPSTONE_INDEX.")
        return self._jobs.indexing

    # -- by a policy ----------------------------------------------------------------------------------------------
    def run(self, policy: Policy = None, *, dry_run: bool = False, progress: Progress | None = None) -> RunReport:
        """Run the jobs of a policy in every scope of the store, and the jobs that wait for a model. The policy is a dictionary,
        a TOML file, or None for the default. Of several processes only one runs it; in the others `ran` of the report is False.

        >>> memory.upkeep.run({"fade_days": 30, "purge_days": 90}, dry_run=True).ran
        True"""
        return self._jobs.policy_runner.run(UpkeepPolicy.of(policy), dry_run, progress)

    def schedule(self, policy: Policy = None, *, every: timedelta | float = 86_400) -> Scheduler:
        """Run a policy once in each period (a timedelta or seconds) in a thread of this process, until the memory is closed or
        the scheduler stopped. If several processes do this on one store, one of them runs it in each period.

        >>> scheduler = memory.upkeep.schedule(every=3600)
        >>> scheduler.stop()"""
        period, chosen = lifetime(every, "every"), UpkeepPolicy.of(policy)
        run = self._jobs.policy_runner.run
        scheduler = Scheduler(self._store, lambda: run(chosen, False, None), period)
        self._jobs.schedulers.append(scheduler)
        return scheduler

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
        """Replace groups of related memories that were not changed for `older_than` by digests, written by the model or,
        without one, from their own sentences. The originals are archived as parents of their digest and never purged.

        >>> memory.upkeep.compact(older_than=timedelta(days=90), dry_run=True).groups
        ()"""
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
        """Compare memories with newer messages, and run the probes in their metadata for which `handlers` has a function. If
        the memory was opened with a model, it looks for contradictions too. Findings are added to the review list.

        >>> memory.upkeep.verify(dry_run=True).flags
        ()"""
        return self._jobs.verifier.verify(
            self._scope, handlers=handlers, stale_after=stale_after, dry_run=dry_run, progress=progress
        )

    def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Compute the vector of every record that has none. With `embedder`, compute all vectors with that embedder; the store
        uses the old ones until the new ones are complete, and then switches in one transaction.

        After an interruption the next call continues.

        >>> memory.upkeep.reembed().embedded
        0"""
        return self._jobs.reembedder.run(embedder, progress)

    def doctor(self, *, progress: Progress | None = None) -> Diagnosis:
        """Check the whole store: engine, content hashes, and that text, words and vectors agree.

        >>> memory.upkeep.doctor().healthy
        True"""
        return self._jobs.transfer.doctor(progress)
