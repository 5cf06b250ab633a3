"""Upkeep, reviews, jobs and the audit log on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import read, read_all
from keepstone.client.plans import OMIT, Asynchronous, Plan, Remote, Synchronous, route, verb
from keepstone.client.request_args import check_int, check_job
from keepstone.errors import ConfigurationError
from keepstone.learning.jobs import ScopeJobs, WorkReport
from keepstone.maintenance.audit import Audit, Diff
from keepstone.maintenance.checkup import FixReport
from keepstone.maintenance.compaction import CompactReport
from keepstone.maintenance.health import HealthReport
from keepstone.maintenance.policy import RunReport, UpkeepPolicy
from keepstone.maintenance.reembedding import ReembedReport
from keepstone.maintenance.retention import ArchiveReport, PurgeReport
from keepstone.maintenance.review import ReviewList
from keepstone.maintenance.upkeep import Policy, Upkeep
from keepstone.maintenance.verification import VerifyReport
from keepstone.ports.maintenance import ArchivedRecord, ChainReport, ReviewItem
from keepstone.ports.queue import Job
from keepstone.types import AuditRow, Diagnosis, Receipt
from keepstone.vector_sync.indexing import Repaired

if TYPE_CHECKING:
    from keepstone.client.transport import Transport
    from keepstone.maintenance.policy import Scheduler

_PAGE_ITEMS = 500
_MAX_NUMBER = 2**62


def _limit(most: int, name: str = "limit") -> Callable[[Any], int]:
    return lambda value: check_int(value, name, 1, most)


def _embedder_name(embedder: Any) -> str | None:
    if embedder is not None and not isinstance(embedder, str):
        raise ConfigurationError("an embedder that is no name cannot be sent to a server: name one, such as 'static'.")
    return embedder


def _policy(policy: Policy) -> dict[str, Any] | None:
    return None if policy is None else asdict(UpkeepPolicy.of(policy))


def _refuse(value: Any, message: str) -> Any:
    """Leave an argument out that cannot be sent; ConfigurationError where it was given."""
    if value is not None:
        raise ConfigurationError(message)
    return OMIT


def _archive_report(response: Any) -> ArchiveReport:
    return read(ArchiveReport, response)


class Group(Remote):
    """Verbs that a client offers under one name."""

    def __init__(self, wire: Transport) -> None:
        self._wire = wire


class UpkeepVerbs(Group):
    """Maintenance jobs over HTTP."""

    # -- the whole store ------------------------------------------------------------------------------------------
    repair_index = route(
        Upkeep.repair_index,
        "POST",
        "/upkeep/repair_index",
        lambda response: read(Repaired, response),
        count=lambda report: report.put + report.dropped,
        long=True,
        right="operator",
    )
    rebuild_index = route(
        Upkeep.rebuild_index,
        "POST",
        "/upkeep/rebuild_index",
        lambda response: int(response["count"]),
        count=lambda count: count,
        long=True,
        right="operator",
    )
    reembed = route(
        Upkeep.reembed,
        "POST",
        "/upkeep/reembed",
        lambda response: read(ReembedReport, response),
        encode={"embedder": _embedder_name},
        count=lambda report: report.embedded,
        long=True,
        right="operator",
    )
    doctor = route(
        Upkeep.doctor,
        "GET",
        "/store/doctor",
        lambda response: read(Diagnosis, response),
        count=lambda report: report.records,
        long=True,
        right="operator",
    )

    # -- by a policy ----------------------------------------------------------------------------------------------
    run = route(
        Upkeep.run,
        "POST",
        "/upkeep/run",
        lambda response: read(RunReport, response),
        encode={"policy": _policy},
        count=lambda report: report.scopes,
        long=True,
        right="admin",
    )

    @verb(Upkeep.schedule)
    def schedule(self, policy: Policy = None, *, every: timedelta | float = 86_400) -> Plan[Scheduler]:
        raise ConfigurationError(
            "a schedule needs a process on the store's machine: run 'keepstone upkeep run --every 24h --db …' there, or call "
            "upkeep.run at intervals."
        )

    # -- retention ------------------------------------------------------------------------------------------------
    age = route(Upkeep.age, "POST", "/upkeep/age", _archive_report, long=True)
    lapse = route(Upkeep.lapse, "POST", "/upkeep/lapse", _archive_report, long=True)
    fade = route(Upkeep.fade, "POST", "/upkeep/fade", _archive_report, long=True)
    cap = route(Upkeep.cap, "POST", "/upkeep/cap", _archive_report, long=True)
    archived = route(
        Upkeep.archived,
        "GET",
        "/upkeep/archived",
        lambda response: read_all(ArchivedRecord, response["archived"]),
        encode={"limit": _limit(1_000_000, "the limit")},
    )
    undo = route(Upkeep.undo, "POST", "/upkeep/undo", lambda response: tuple(read_all(str, response["ids"])), long=True)
    restore = route(Upkeep.restore, "POST", "/upkeep/restore", lambda response: int(response["count"]), long=True)
    purge = route(Upkeep.purge, "POST", "/upkeep/purge", lambda response: read(PurgeReport, response), long=True)

    # -- content --------------------------------------------------------------------------------------------------
    compact = route(
        Upkeep.compact,
        "POST",
        "/upkeep/compact",
        lambda response: read(CompactReport, response),
        count=lambda report: report.before,
        long=True,
    )
    verify = route(
        Upkeep.verify,
        "POST",
        "/upkeep/verify",
        lambda response: read(VerifyReport, response),
        encode={
            "handlers": lambda handlers: _refuse(
                handlers,
                "handlers are functions of this process and cannot be sent to a server: leave them out, or open the store with "
                "Memory.open on its machine and verify there.",
            )
        },
        count=lambda report: report.checked,
        long=True,
    )
    health = route(
        Upkeep.health,
        "GET",
        "/upkeep/health",
        lambda response: read(HealthReport, response),
        encode={
            "path": lambda path: _refuse(
                path,
                "a server does not examine files: use Memory.open(':memory:').upkeep.health(path), or 'keepstone health FILE'.",
            ),
            "format": lambda _: OMIT,
            "most": _limit(1_000_000, "the limit"),
        },
        long=True,
    )
    fix = route(Upkeep.fix, "POST", "/upkeep/fix", lambda response: read(FixReport, response), long=True)


class RemoteUpkeep(UpkeepVerbs, Synchronous):
    """What `client.upkeep` offers."""


class AsyncRemoteUpkeep(UpkeepVerbs, Asynchronous):
    """What `client.upkeep` offers, for asyncio."""


class ReviewVerbs(Group):
    """The review list over HTTP."""

    list = route(
        ReviewList.list,
        "GET",
        "/review",
        lambda response: read_all(ReviewItem, response["items"]),
        encode={"limit": _limit(10_000), "after": lambda after: check_int(after, "after", 0, _MAX_NUMBER)},
    )
    resolve = route(
        ReviewList.resolve,
        "POST",
        "/review/{number}",
        lambda response: read(Receipt, response),
        encode={"number": _limit(_MAX_NUMBER, "number")},
    )


class RemoteReview(ReviewVerbs, Synchronous):
    """What `client.review` offers. `len` counts the open items, iterating gives them oldest first."""

    def __iter__(self) -> Iterator[ReviewItem]:
        after = 0
        while page := self.list(limit=_PAGE_ITEMS, after=after):
            yield from page
            after = page[-1].number

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True


class AsyncRemoteReview(ReviewVerbs, Asynchronous):
    """What `client.review` offers, for asyncio. `count()` counts the open items, `async for` gives them oldest first."""

    async def count(self) -> int:
        """The number of open items."""
        return len([item async for item in self])

    async def __aiter__(self) -> AsyncIterator[ReviewItem]:
        after = 0
        while page := await self.list(limit=_PAGE_ITEMS, after=after):
            for item in page:
                yield item
            after = page[-1].number


class JobVerbs(Group):
    """The queued work of one scope over HTTP."""

    list = route(
        ScopeJobs.list,
        "GET",
        "/jobs",
        lambda response: read_all(Job, response["jobs"]),
        encode={"limit": _limit(10_000)},
    )
    run = route(
        ScopeJobs.run,
        "POST",
        "/jobs/run",
        lambda response: read(WorkReport, response),
        count=lambda report: report.done + report.failed,
        long=True,
    )
    retry = route(ScopeJobs.retry, "POST", "/jobs/retry", lambda response: int(response["count"]), encode={"number": check_job})
    drop = route(ScopeJobs.drop, "DELETE", "/jobs/{number}", lambda response: None, encode={"number": check_job})


class RemoteJobs(JobVerbs, Synchronous):
    """What `client.jobs` offers."""


class AsyncRemoteJobs(JobVerbs, Asynchronous):
    """What `client.jobs` offers, for asyncio."""


class AuditVerbs(Group):
    """The audit log over HTTP."""

    verify = route(Audit.verify, "GET", "/audit/chain", lambda response: read(ChainReport, response), long=True, right="admin")
    diff = route(Audit.diff, "GET", "/diff", lambda response: read(Diff, response))
    __call__ = route(
        Audit.__call__,
        "GET",
        "/audit",
        lambda response: read_all(AuditRow, response["rows"]),
        encode={"limit": _limit(10_000)},
    )


class RemoteAudit(AuditVerbs, Synchronous):
    """What `client.audit` offers. Calling it lists the entries."""


class AsyncRemoteAudit(AuditVerbs, Asynchronous):
    """What `client.audit` offers, for asyncio."""
