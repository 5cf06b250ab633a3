"""Maintenance policies: a policy as data, a run over every scope, and a scheduler.

Every maintenance job is safe to kill and to repeat, so an interrupted run is run again. One process at a time runs a policy on a
store.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from keepstone.errors import ConfigurationError, KeepstoneError
from keepstone.learning.jobs import WorkReport
from keepstone.maintenance.compaction import Compactor
from keepstone.maintenance.retention import ArchiveReport, Retention
from keepstone.maintenance.verification import Verifier
from keepstone.ports.stores import Progress, Store
from keepstone.ports.worker import Worker
from keepstone.types import MESSAGE, Scope

log = logging.getLogger("keepstone.maintenance")
RUN_LEASE = "upkeep"
_PERIOD_LEASE = "upkeep period"
_LEASE_TIME = timedelta(minutes=30)  # renewed before every scope
_JITTER = 0.1  # of the period, so that processes do not all wake at once
JobResult = tuple[int, tuple[int, ...]]  # how many records a job changed, and the tickets that undo it


@dataclass(frozen=True, slots=True)
class UpkeepPolicy:
    """What a run does in each scope; 0 days and a cap of 0 mean never.

    learn: process the jobs that wait for a model. lapse: archive what has outlived its time to live. prune_days: archive what
    was created so many days ago, read or not. age_days: archive what was not changed or read for so many days. With age_messages
    both apply to messages too. fade_days: the same for memories below fade_importance
    that were read at most fade_reads times. cap: the maximum number of memories of a scope, without messages and keyed values.
    compact_days: condense what was not changed for so many days. verify: flag what is stale, contradicted or unsupported.
    purge_days: erase what has been archived for so many days; until then it can be restored. trust_clock: accept a clock that
    jumped by more than a week."""

    learn: bool = True
    lapse: bool = True
    prune_days: float = 0.0
    age_days: float = 0.0
    age_messages: bool = False
    fade_days: float = 90.0
    fade_importance: float = 0.3
    fade_reads: int = 1
    cap: int = 0
    compact_days: float = 0.0
    verify: bool = True
    purge_days: float = 30.0
    trust_clock: bool = False

    @classmethod
    def of(cls, policy: UpkeepPolicy | Mapping[str, Any] | str | PathLike[str] | None) -> UpkeepPolicy:
        """A policy from its values by name, or from a TOML file; None is the default."""
        if policy is None or isinstance(policy, UpkeepPolicy):
            return policy or cls()
        if isinstance(policy, (str, PathLike)):
            policy = _read_toml(Path(policy))
        if not isinstance(policy, Mapping):
            raise ConfigurationError(f"policy is {type(policy).__name__}: use a dictionary, a TOML file or None for the default.")
        known = {field.name: field for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in policy.items():
            if name not in known:
                raise ConfigurationError(f"the policy has no {name!r:.60}: use {', '.join(sorted(known))}.")
            values[name] = _check_value(str(name), value, type(known[name].default))
        return cls(**values)


def _check_value(name: str, value: Any, kind: type) -> Any:
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigurationError(f"the policy's {name} is {value!r:.40}: use true or false.")
        return value
    number = not isinstance(value, bool) and isinstance(value, (int, float) if kind is float else int)
    if not number or not 0 <= value < 1e9 or (name == "fade_importance" and value > 1):
        raise ConfigurationError(f"the policy's {name} is {value!r:.40}: use a number from 0.")
    return kind(value)


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError) as error:
        raise ConfigurationError(f"the policy {str(path)!r:.100} cannot be read ({error}): name a TOML file.") from None


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one maintenance job in one scope: the number of records it changed, and the tickets that undo it."""

    scope: Scope
    job: str
    records: int
    tickets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunReport(WorkReport):
    """The result of a run: what was learned from the queue, and each job that changed something. `ran` is False where another
    process was running already."""

    ran: bool = True
    scopes: int = 0
    jobs: tuple[Done, ...] = ()
    dry_run: bool = False
    tuned: tuple[str, ...] = ()  # database settings that were changed, or that an administrator has to change


class Learn(Protocol):
    """Processes the jobs that wait for a model: in one scope, or in the whole store."""

    def __call__(self, progress: Progress | None, scope: Scope | None = None, /) -> WorkReport: ...


class PolicyRunner:
    """Runs policies on a store, or on one tenant of it."""

    def __init__(
        self, store: Store, retention: Callable[[Scope], Retention], compactor: Compactor, verifier: Verifier, learn: Learn
    ) -> None:
        self._store = store
        self._retention = retention
        self._compactor = compactor
        self._verifier = verifier
        self._learn = learn

    def run(self, policy: UpkeepPolicy, dry_run: bool, progress: Progress | None, tenant: str | None = None) -> RunReport:
        """Run a policy in every scope of the store, or of a tenant; nothing if another process is doing so. A tenant's run
        excludes only other runs of that tenant, and does not tune the store."""
        holder = f"{os.getpid()}-{secrets.token_hex(6)}"
        lease = RUN_LEASE if tenant is None else f"{RUN_LEASE} of {tenant}"
        if not self._store.leases.acquire(lease, holder, _LEASE_TIME):
            where = "store" if tenant is None else "tenant"
            return RunReport(ran=False, problems=(f"another process is running upkeep on this {where}: try again later",))
        try:
            work = self._learn_all(tenant, progress) if policy.learn and not dry_run else WorkReport()
            scopes = self._store.retention.scopes(tenant)
            done: list[Done] = []
            problems = list(work.problems)
            for at, scope in enumerate(scopes):
                if not self._store.leases.acquire(lease, holder, _LEASE_TIME):
                    problems.append("another process took over the run: its lease expired")
                    break
                done += self._run_scope(scope, policy, dry_run, problems)
                if progress is not None and not work.done and not work.failed:
                    progress(at + 1, len(scopes))
            tuned = () if dry_run or tenant is not None else tuple(self._store.tune())
        finally:
            self._store.leases.release(lease, holder)
        learned = (work.done, work.failed, work.learned, work.refused, work.usage, tuple(problems))
        return RunReport(*learned, True, len(scopes), tuple(done), dry_run, tuned)

    def _learn_all(self, tenant: str | None, progress: Progress | None) -> WorkReport:
        """Process the jobs that wait for a model: everywhere, or in a tenant's scopes."""
        if tenant is None:
            return self._learn(progress)
        parts = (self._learn(progress, scope) for scope in self._store.retention.scopes(tenant))
        return sum(parts, WorkReport())

    def _run_scope(self, scope: Scope, policy: UpkeepPolicy, dry_run: bool, problems: list[str]) -> list[Done]:
        retention = self._retention(scope)
        day = timedelta(days=1)
        prune = partial(retention.age, older_than=policy.prune_days * day, since="created", dry_run=dry_run)
        age, fade = policy.age_days * day, policy.fade_days * day
        importance, reads = policy.fade_importance, policy.fade_reads
        jobs: list[tuple[str, float, Callable[[], ArchiveReport | JobResult]]] = [
            ("lapse", policy.lapse, lambda: retention.lapse(dry_run=dry_run)),
            ("prune", policy.prune_days, prune),
            ("prune messages", policy.prune_days and policy.age_messages, lambda: prune(kinds=(MESSAGE,))),
            ("age", policy.age_days, lambda: retention.age(older_than=age, dry_run=dry_run)),
            (
                "age messages",
                policy.age_days and policy.age_messages,
                lambda: retention.age(older_than=age, kinds=(MESSAGE,), dry_run=dry_run),
            ),
            (
                "fade",
                policy.fade_days,
                lambda: retention.fade(importance=importance, reads=reads, older_than=fade, dry_run=dry_run),
            ),
            ("compact", policy.compact_days, lambda: self._compact(scope, policy, dry_run, problems)),
            ("cap", policy.cap, lambda: retention.cap(policy.cap, dry_run=dry_run)),
            ("verify", policy.verify, lambda: self._verify(scope, dry_run)),
            ("purge", policy.purge_days, lambda: self._purge(retention, policy, dry_run, problems)),
        ]
        done = []
        for name, wanted, job in jobs:
            if not wanted:
                continue
            try:
                result = job()
            except KeepstoneError as error:  # the other jobs still run
                log.warning("maintenance job %s failed: %s", name, error)
                problems.append(f"{name}: {error}")
                continue
            if isinstance(result, ArchiveReport):
                result = len(result.ids), (result.ticket,) if result.ticket else ()
            records, tickets = result
            if records:
                done.append(Done(scope, name, records, tickets))
        return done

    def _verify(self, scope: Scope, dry_run: bool) -> JobResult:
        report = self._verifier.verify(scope, only_new=True, dry_run=dry_run)
        return len(report.flags) if dry_run else report.flagged, ()

    def _purge(self, retention: Retention, policy: UpkeepPolicy, dry_run: bool, problems: list[str]) -> JobResult:
        window = timedelta(days=policy.purge_days)
        report = retention.purge(after=window, dry_run=dry_run, trust_clock=policy.trust_clock)
        problems.extend(f"purge: {reason}" for reason in report.reasons)
        return len(report.ids), ()

    def _compact(self, scope: Scope, policy: UpkeepPolicy, dry_run: bool, problems: list[str]) -> JobResult:
        report = self._compactor.compact(scope, older_than=timedelta(days=policy.compact_days), dry_run=dry_run)
        problems.extend(report.problems)
        return sum(len(group) for group in report.groups), report.tickets


class Scheduler:
    """Calls `run` once in each period until it is stopped. Of several processes on one store one runs it in each period."""

    def __init__(self, store: Store, run: Callable[[], object], every: timedelta, rng: random.Random | None = None) -> None:
        self._store = store
        self._run = run
        self._every = every
        self._rng = rng or random.Random()
        self._holder = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._due = False  # the first period begins now
        self.runs = 0
        self._worker = Worker("keepstone.maintenance", self._step)
        self._worker.wake()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Stop; a run in progress may finish within the timeout."""
        self._worker.stop(timeout_seconds)

    def _step(self) -> float:
        if self._due:
            try:
                self.turn()
            except KeepstoneError as error:  # a busy or full store: retry in the next period
                log.warning("the maintenance run failed: %s", error)
            except Exception:  # a bug must not end the schedule
                log.exception("the maintenance run failed")
        self._due = True
        return self._next_wait_seconds()

    def turn(self) -> bool:
        """Run once, unless another process ran in this period. Returns whether it ran."""
        if not self._store.leases.acquire(_PERIOD_LEASE, f"{self._holder}-{self.runs}", self._every * (1 - _JITTER)):
            return False
        self._run()
        self.runs += 1
        return True

    def _next_wait_seconds(self) -> float:
        return self._every.total_seconds() * (1 + _JITTER * self._rng.random())
