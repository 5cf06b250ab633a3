"""A whole run of upkeep by a policy: every scope, one job after the other, by one process at a time.

Every job is safe to kill and to repeat, so a run that is cut off is simply run again.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from keepstone.errors import KeepstoneError
from keepstone.learning.jobs import WorkReport
from keepstone.maintenance.compaction import Compactor
from keepstone.maintenance.policy import UpkeepPolicy
from keepstone.maintenance.retention import ArchiveReport, Retention
from keepstone.maintenance.verification import Verifier
from keepstone.ports.stores import Progress, Store
from keepstone.types import Scope

log = logging.getLogger("keepstone.maintenance")
LEASE = "upkeep"
Did = tuple[int, tuple[int, ...]]  # how many records a job touched, and the tickets that undo it
_HELD = timedelta(minutes=30)  # taken again before every scope


@dataclass(frozen=True, slots=True)
class Done:
    """What one job of a run did in one scope: how many records it touched; `tickets` undo it, where that can be."""

    scope: Scope
    job: str
    records: int
    tickets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunReport(WorkReport):
    """What a run came to: what was learned from the queue, and what each job did where it did anything. `ran` is False where
    another process was at it already."""

    ran: bool = True
    scopes: int = 0
    jobs: tuple[Done, ...] = ()
    dry_run: bool = False
    tuned: tuple[str, ...] = ()  # what the engine was given, or what somebody else has to give it


class Learn(Protocol):
    """Works on what waits for a model: in one scope, or in the whole store."""

    def __call__(self, progress: Progress | None, scope: Scope | None = None, /) -> WorkReport: ...


class PolicyRunner:
    """Runs policies over a store, or over one tenant of it."""

    def __init__(
        self,
        store: Store,
        retention: Retention,
        compactor: Compactor,
        verifier: Verifier,
        learn: Learn,
    ) -> None:
        self._store = store
        self._retention = retention
        self._compactor = compactor
        self._verifier = verifier
        self._learn = learn

    def run(self, policy: UpkeepPolicy, dry_run: bool, progress: Progress | None, tenant: str | None = None) -> RunReport:
        """Do what the policy says in every scope of the store, or of a tenant; nothing if another process is doing so. A
        tenant's run is held up by its own alone, and leaves alone what belongs to the whole store."""
        holder = f"{os.getpid()}-{secrets.token_hex(6)}"
        lease = LEASE if tenant is None else f"{LEASE} of {tenant}"
        if not self._store.leases.acquire(lease, holder, _HELD):
            where = "store" if tenant is None else "tenant"
            return RunReport(ran=False, problems=(f"another process is running upkeep on this {where}: try again later",))
        try:
            work = self._learned(tenant, progress) if policy.learn and not dry_run else WorkReport()
            scopes = self._store.retention.scopes(tenant)
            done: list[Done] = []
            problems = list(work.problems)
            for at, scope in enumerate(scopes):
                if not self._store.leases.acquire(lease, holder, _HELD):
                    problems.append("another process has taken over: the run was too slow for its lease")
                    break
                done += self._scope(scope, policy, dry_run, problems)
                if progress is not None and not work.done and not work.failed:
                    progress(at + 1, len(scopes))
            tuned = () if dry_run or tenant is not None else tuple(self._store.tune())
        finally:
            self._store.leases.release(lease, holder)
        told = (work.done, work.failed, work.learned, work.refused, work.usage, tuple(problems))
        return RunReport(*told, True, len(scopes), tuple(done), dry_run, tuned)

    def _learned(self, tenant: str | None, progress: Progress | None) -> WorkReport:
        """Work on what waits for a model: everywhere, or in a tenant's scopes and in no other."""
        if tenant is None:
            return self._learn(progress)
        whole = WorkReport()
        for scope in self._store.retention.scopes(tenant):
            part = self._learn(progress, scope)
            whole = WorkReport(
                whole.done + part.done, whole.failed + part.failed, tuple(dict.fromkeys(whole.learned + part.learned)),
                whole.refused + part.refused, whole.usage + part.usage, tuple(dict.fromkeys(whole.problems + part.problems)),
            )  # fmt: skip
        return whole

    def _scope(self, scope: Scope, policy: UpkeepPolicy, dry_run: bool, problems: list[str]) -> list[Done]:
        keep = self._retention
        days = timedelta(days=1)
        jobs: list[tuple[str, bool, Callable[[], Did]]] = [
            ("lapse", policy.lapse, lambda: _archive(keep.lapse(scope, dry_run))),
            ("age", policy.age_days > 0, lambda: _archive(keep.age(scope, policy.age_days * days, None, False, dry_run))),
            (
                "age messages",
                policy.age_days > 0 and policy.age_messages,
                lambda: _archive(keep.age(scope, policy.age_days * days, ("message",), False, dry_run)),
            ),
            (
                "consolidate",
                policy.consolidate_days > 0,
                lambda: _archive(
                    keep.fade(
                        scope, policy.consolidate_importance, policy.consolidate_reads, policy.consolidate_days * days, dry_run
                    )
                ),
            ),
            ("compact", policy.compact_days > 0, lambda: self._compact(scope, policy, dry_run, problems)),
            ("cap", policy.cap > 0, lambda: _archive(keep.cap(scope, policy.cap, None, dry_run))),
            ("verify", policy.verify, lambda: self._verify(scope, dry_run)),
            ("purge", policy.purge_days > 0, lambda: self._purge(scope, policy, dry_run, problems)),
        ]
        done = []
        for name, wanted, job in jobs:
            if not wanted:
                continue
            try:
                records, tickets = job()
            except KeepstoneError as error:  # one job's trouble keeps no other from being done
                log.warning("upkeep: %s failed: %s", name, error)
                problems.append(f"{name}: {error}")
                continue
            if records:
                done.append(Done(scope, name, records, tickets))
        return done

    def _verify(self, scope: Scope, dry_run: bool) -> Did:
        report = self._verifier.verify(scope, only_new=True, dry_run=dry_run)
        return len(report.flags) if dry_run else report.flagged, ()

    def _purge(self, scope: Scope, policy: UpkeepPolicy, dry_run: bool, problems: list[str]) -> Did:
        window = timedelta(days=policy.purge_days)
        report = self._retention.purge(scope, window, None, dry_run, policy.trust_clock)
        problems.extend(f"purge: {reason}" for reason in report.reasons)
        return len(report.ids), ()

    def _compact(self, scope: Scope, policy: UpkeepPolicy, dry_run: bool, problems: list[str]) -> Did:
        report = self._compactor.compact(scope, older_than=timedelta(days=policy.compact_days), dry_run=dry_run)
        problems.extend(report.problems)
        return sum(len(group) for group in report.groups), report.tickets


def _archive(report: ArchiveReport) -> Did:
    return len(report.ids), (report.ticket,) if report.ticket else ()
