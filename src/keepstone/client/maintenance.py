"""Upkeep, reviews, jobs and the audit log on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from keepstone.client.plans import Asynchronous, Plan, RemoteGroup, Synchronous, Verb, route, verb
from keepstone.errors import ConfigurationError
from keepstone.learning.jobs import ScopeJobs, check_job_number
from keepstone.maintenance.audit import Audit
from keepstone.maintenance.policy import UpkeepPolicy
from keepstone.maintenance.review import ReviewList
from keepstone.maintenance.upkeep import Policy, Upkeep
from keepstone.ports.maintenance import ReviewItem

if TYPE_CHECKING:
    from keepstone.maintenance.policy import Scheduler

P = ParamSpec("P")
T = TypeVar("T")
_PAGE_ITEMS = 500
_MAX_NUMBER = 2**53  # the largest integer that JSON numbers hold exactly


def _embedder_name(embedder: Any) -> str | None:
    if embedder is not None and not isinstance(embedder, str):
        raise ConfigurationError("an embedder that is no name cannot be sent to a server: name one, such as 'static'.")
    return embedder


def _policy(policy: Policy) -> dict[str, Any] | None:
    return None if policy is None else asdict(UpkeepPolicy.of(policy))


def _job(like: Callable[Concatenate[Any, P], T], method: str = "POST", *, long: bool = True, **options: Any) -> Verb[P, T]:
    """A verb of maintenance, under an address with its name."""
    name = like.__name__
    return route(like, method, f"/upkeep/{name}", f"upkeep_{name}", long=long, **options)


class UpkeepVerbs(RemoteGroup):
    """Maintenance jobs over HTTP."""

    # -- the whole store ------------------------------------------------------------------------------------------
    repair_index = _job(Upkeep.repair_index, count=lambda report: report.put + report.dropped)
    rebuild_index = _job(Upkeep.rebuild_index, result="count", count=lambda count: count)
    reembed = _job(Upkeep.reembed, encode={"embedder": _embedder_name}, count=lambda report: report.embedded)
    doctor = route(Upkeep.doctor, "GET", "/store/doctor", count=lambda report: report.records, long=True)

    # -- by a policy ----------------------------------------------------------------------------------------------
    run = _job(Upkeep.run, encode={"policy": _policy}, count=lambda report: report.scopes)

    @verb(Upkeep.schedule)
    def schedule(self, policy: Policy = None, *, every: timedelta | float = 86_400) -> Plan[Scheduler]:
        raise ConfigurationError(
            "a schedule needs a process on the store's machine: run 'keepstone upkeep run --every 24h --db …' there, or call "
            "upkeep.run at intervals."
        )

    # -- retention ------------------------------------------------------------------------------------------------
    age = _job(Upkeep.age)
    lapse = _job(Upkeep.lapse)
    fade = _job(Upkeep.fade, bounds={"importance": (0, 1), "reads": (0, _MAX_NUMBER)})
    cap = _job(Upkeep.cap, bounds={"most": (0, _MAX_NUMBER)})
    archive = _job(Upkeep.archive)
    archived = _job(Upkeep.archived, "GET", result="archived", bounds={"limit": (1, 1_000_000)}, long=False)
    undo = _job(Upkeep.undo, result="ids", bounds={"ticket": (1, _MAX_NUMBER)})
    restore = _job(Upkeep.restore, result="count")
    purge = _job(Upkeep.purge)

    # -- content --------------------------------------------------------------------------------------------------
    compact = _job(Upkeep.compact, count=lambda report: report.before)
    verify = _job(
        Upkeep.verify,
        local={
            "handlers": "handlers are functions of this process and cannot be sent to a server: leave them out, or open the "
            "store with Memory.open on its machine and verify there."
        },
        count=lambda report: report.checked,
    )
    health = _job(
        Upkeep.health,
        "GET",
        bounds={"most": (1, 1_000_000)},
        local={
            "path": "a server does not examine files: use Memory.open(':memory:').upkeep.health(path), or "
            "'keepstone health FILE'.",
            "format": "",
        },
    )
    fix = _job(Upkeep.fix)


class RemoteUpkeep(UpkeepVerbs, Synchronous):
    """What `client.upkeep` offers."""


class AsyncRemoteUpkeep(UpkeepVerbs, Asynchronous):
    """What `client.upkeep` offers, for asyncio."""


class ReviewVerbs(RemoteGroup):
    """The review list over HTTP."""

    list = route(
        ReviewList.list,
        "GET",
        "/review",
        "review_list",
        result="items",
        bounds={"limit": (1, 10_000), "after": (0, _MAX_NUMBER)},
    )
    resolve = route(ReviewList.resolve, "POST", "/review/{number}", "review_resolve", bounds={"number": (1, _MAX_NUMBER)})
    resolve_many = route(ReviewList.resolve_many, "POST", "/review", "review_resolve_many", result="receipts")


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


class JobVerbs(RemoteGroup):
    """The queued work of one scope over HTTP."""

    list = route(ScopeJobs.list, "GET", "/jobs", "jobs_list", result="jobs", bounds={"limit": (1, 10_000)})
    run = route(
        ScopeJobs.run,
        "POST",
        "/jobs/run",
        "jobs_run",
        count=lambda report: report.done + report.failed,
        long=True,
    )
    retry = route(
        ScopeJobs.retry,
        "POST",
        "/jobs/retry",
        "jobs_retry",
        result="count",
        bounds={"number": (1, _MAX_NUMBER)},
        encode={"number": lambda number: None if number is None else check_job_number(number)},
    )
    drop = route(
        ScopeJobs.drop,
        "DELETE",
        "/jobs/{number:int}",
        "jobs_drop",
        bounds={"number": (1, _MAX_NUMBER)},
        encode={"number": check_job_number},
    )


class RemoteJobs(JobVerbs, Synchronous):
    """What `client.jobs` offers."""


class AsyncRemoteJobs(JobVerbs, Asynchronous):
    """What `client.jobs` offers, for asyncio."""


class AuditVerbs(RemoteGroup):
    """The audit log over HTTP."""

    verify = route(Audit.verify, "GET", "/audit/chain", "verify_audit", long=True)
    diff = route(Audit.diff, "GET", "/diff")
    __call__ = route(Audit.__call__, "GET", "/audit", "audit", result="rows", bounds={"limit": (1, 10_000)})


class RemoteAudit(AuditVerbs, Synchronous):
    """What `client.audit` offers. Calling it lists the entries."""


class AsyncRemoteAudit(AuditVerbs, Asynchronous):
    """What `client.audit` offers, for asyncio."""
