"""Service: the open store, authentication and worker threads that all surfaces of the server share.

A surface (HTTP, MCP, dashboard) turns a credential into a Caller. `caller.memory` is the facade in the caller's scope, and
`await caller.run(...)` calls it in a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from keepstone.errors import Forbidden, NotFound, StoreError, Unauthenticated
from keepstone.memory import Memory
from keepstone.server.facade import grant
from keepstone.server.identity import Identity
from keepstone.server.keys import PREFIXES, Keys
from keepstone.server.problems import RequestRefused
from keepstone.server.rate_limit import RateLimiter
from keepstone.settings import Settings
from keepstone.types import Record, Scope
from keepstone.write.request import trust_of

if TYPE_CHECKING:
    from keepstone.backend import Backend
    from keepstone.server.metrics import Metrics
    from keepstone.server.tokens import TokenVerifier

T = TypeVar("T")
log = logging.getLogger("keepstone.server")
_WORKER_THREADS, _WORKER_THREADS_PER_KEY = 40, 32
_COMPUTE_THREADS, _COMPUTE_CALLS_PER_KEY = 1, 2  # on an embedded store: parallel recalls only compete for the interpreter
_AUTH_THREADS = 8  # an unreachable token issuer blocks these, and no others
_USE_AUDIT_SECONDS = 3600.0
_MAX_AUDITED_SCOPES_PER_KEY = 10_000  # a service key can name users without end
_MAX_REMEMBERED_USES = 100_000
_ACTIVE_SECONDS = 1.0  # that a key counts as active after a request
_REST_TIMES, _MAX_REST_SECONDS = 19.0, 2.0  # how many times as long as it took a key rests after a page
_DENIAL_SECONDS, _MAX_DENIALS_PER_HOUR = 3600.0, 60


@dataclass(slots=True)
class ThreadPool:
    """Worker threads, of which one key may use `per_key` at a time."""

    size: int
    per_key: int
    _limiter: anyio.CapacityLimiter | None = None  # created in the event loop that uses it
    _unlimited: anyio.CapacityLimiter | None = None
    _slots: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary)  # of keys with calls

    async def run(
        self, work: Callable[..., T], *args: Any, key: str | None = None, is_gone: Callable[[], Awaitable[bool]] | None = None
    ) -> T:
        """Call something in a thread; with a key, when the key has a free slot. Work that had to wait is dropped if its caller
        has disconnected meanwhile."""
        if self._limiter is None:
            self._limiter, self._unlimited = anyio.CapacityLimiter(self.size), anyio.CapacityLimiter(math.inf)
        if key is None:
            return await anyio.to_thread.run_sync(work, *args, limiter=self._limiter)
        slots = self._slots.setdefault(key, asyncio.Semaphore(self.per_key))
        must_wait = slots.locked() or self._limiter.available_tokens < 1
        async with slots, self._limiter:
            if must_wait and is_gone is not None and await is_gone():
                raise RequestRefused(499, "the caller has disconnected.")
            return await anyio.to_thread.run_sync(work, *args, limiter=self._unlimited)

    @property
    def busy(self) -> int:
        return 0 if self._limiter is None else self._limiter.borrowed_tokens


class PageTurns:
    """Lets a key's pages be made one after the other. While other keys are active, a key rests after a page, so that its pages
    take at most a twentieth of the time: a page costs many times what a request of an agent does."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by key, while a page uses or awaits it
        self._rests: dict[str, float] = {}  # by key: until when
        self._latest, self._before = ("", -math.inf), ("", -math.inf)  # the last two keys that were active, and when

    def note_use(self, key: str) -> None:
        """A key is active."""
        if key != self._latest[0]:
            self._before = self._latest
        self._latest = (key, self._ticks())

    def others_active(self, key: str) -> bool:
        return any(other != key and self._ticks() - at < _ACTIVE_SECONDS for other, at in (self._latest, self._before))

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """The key's turn to make a page."""
        async with self._turns.setdefault(key, asyncio.Lock()):
            rest = self._rests.get(key, 0.0) - self._ticks()
            if rest > 0 and self.others_active(key):
                await asyncio.sleep(rest)
            start = self._ticks()
            try:
                yield
            finally:
                end = self._ticks()
                if len(self._rests) > _MAX_REMEMBERED_USES:
                    self._rests.clear()
                self._rests[key] = end + min(_REST_TIMES * (end - start), _MAX_REST_SECONDS)


class Service:
    """One open store, its keys, and the threads that work on it."""

    def __init__(
        self,
        backend: Backend,
        *,
        verifier: TokenVerifier | None = None,
        rate_limiter: RateLimiter | None = None,
        address: str = "http://127.0.0.1:8700",
        tracer_provider: Any = None,
    ) -> None:
        self.backend = backend
        self._is_embedded = self.backend.is_embedded
        self.settings: Settings = self.backend.settings
        self.keys = Keys(backend)
        self.address = (self.settings.public_url or address).rstrip("/")
        self.worker_pool = ThreadPool(_WORKER_THREADS, _WORKER_THREADS_PER_KEY)
        self.compute_pool = self.worker_pool
        if self._is_embedded:
            self.compute_pool = ThreadPool(_COMPUTE_THREADS, _COMPUTE_CALLS_PER_KEY)
        self.pages = PageTurns()
        self.auth_pool = ThreadPool(_AUTH_THREADS, _AUTH_THREADS)
        self.open_files: Counter[str] = Counter()  # uploads and downloads in progress, by key
        self.metrics: Metrics | None = None  # set by the application
        self.on_result: Callable[[object], None] | None = None  # tracing: called with the result of every call
        self.tracer_provider = tracer_provider  # None: the process's
        self._verifier = verifier
        self._rate_limiter = rate_limiter
        self._audited_uses: dict[tuple[str, Scope], float] = {}
        self._audited_scopes: Counter[str] = Counter()
        self._denials: dict[tuple[str, Scope], tuple[float, int]] = {}  # since when, and how many
        self._denials_lock = threading.Lock()
        self._pending_denials: set[asyncio.Task[None]] = set()

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call something in a worker thread."""
        return await self.worker_pool.run(work, *args)

    def busy_threads(self) -> int:
        compute = self.compute_pool.busy if self.compute_pool is not self.worker_pool else 0
        return self.worker_pool.busy + compute + self.auth_pool.busy

    # -- authentication --------------------------------------------------------------------------------------------------
    async def authenticate(self, credential: str | None, agent: str | None = None, user: str | None = None) -> Caller:
        """The caller of a request with these headers. Unauthenticated, Forbidden, RateLimited."""
        is_key = (credential or "").startswith(PREFIXES)
        if is_key and self._is_embedded:  # reading a key takes less time than switching threads
            identity = self.identify(credential)
            if agent is None and user is None and (identity.id, identity.scope()) in self._audited_uses:
                return self.caller_for(identity)
            return await self.worker_pool.run(self.caller_for, identity, agent, user)
        pool = self.worker_pool if is_key else self.auth_pool
        return await pool.run(lambda: self.caller_for(self.identify(credential), agent, user))

    def identify(self, credential: str | None) -> Identity:
        """The identity of a key or a token; counts the request. Unauthenticated, RateLimited."""
        if not credential:
            raise Unauthenticated(
                "the request has no key: send 'Authorization: Bearer ks_…' with a key made by 'keepstone keys create'."
            )
        if self._verifier is None or credential.startswith(PREFIXES):
            identity = self.keys.check(credential)
        else:
            identity = self._verifier.verify(credential)
        self.count_request(identity)
        return identity

    def count_request(self, identity: Identity) -> None:
        """RateLimited if the key has used up its requests."""
        per_minute = self.settings.requests_per_minute if identity.rate is None else identity.rate
        if per_minute and self._rate_limiter is not None:
            self._rate_limiter.take(identity.id, per_minute)

    def caller_for(self, identity: Identity, agent: str | None = None, user: str | None = None) -> Caller:
        """The caller in the scope that it names; a refusal is written to the audit log."""
        try:
            scope = identity.scope(agent, user)
        except Forbidden as error:
            self.audit_denial(identity, identity.scope(), str(error))
            raise
        self._audit_use(identity, scope)
        return Caller(self, identity, scope)

    # -- audit log -------------------------------------------------------------------------------------------------------
    def audit_denial(self, identity: Identity, scope: Scope, reason: str) -> None:
        """Write a refusal to the audit log. In the event loop a worker thread writes it, and `flush_denials` waits for it; the
        request is refused even if the entry cannot be written."""
        who = f"{identity.via} {identity.id} ({identity.name})"
        with self._denials_lock:
            summary, is_counted = self._count_denial(identity.id, scope, who)
        if is_counted and summary is None:
            return

        def write() -> None:
            if summary is not None:
                self._write_audit(scope, "denied", summary)
            if not is_counted:
                self._write_audit(scope, "denied", f"{who}: {reason}")

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            write()
            return
        task = loop.create_task(self.worker_pool.run(write))
        self._pending_denials.add(task)
        task.add_done_callback(self._pending_denials.discard)

    def _count_denial(self, id: str, scope: Scope, who: str) -> tuple[str | None, bool]:
        """A refusal of a key: (a summary of the hour before that is due, whether this one is only counted). The log is permanent,
        so a key writes a bounded number of refusals an hour to it."""
        now = time.monotonic()
        start, count = self._denials.get((id, scope), (now, 0))
        summary = None
        if now - start >= _DENIAL_SECONDS:
            left = count - _MAX_DENIALS_PER_HOUR
            summary = f"{who}: {left} more refusals in the hour before" if left > 0 else None
            start, count = now, 0
        if len(self._denials) > _MAX_REMEMBERED_USES:
            self._denials.clear()
        self._denials[id, scope] = (start, count + 1)
        if count == _MAX_DENIALS_PER_HOUR:
            return f"{who}: further refusals of this hour are counted", True
        return summary, count > _MAX_DENIALS_PER_HOUR

    async def flush_denials(self) -> None:
        """Wait until refusals are in the audit log, so that a reader of the response finds them there."""
        if self._pending_denials:
            await asyncio.wait(set(self._pending_denials))

    def _audit_use(self, identity: Identity, scope: Scope) -> None:
        """Write the use of a key to the audit log, once an hour for each key and scope."""
        now = time.monotonic()
        last = self._audited_uses.get((identity.id, scope))
        if last is not None and now - last < _USE_AUDIT_SECONDS:
            return
        if len(self._audited_uses) > _MAX_REMEMBERED_USES:
            self._audited_uses.clear()
            self._audited_scopes.clear()
        self._audited_uses[identity.id, scope] = now
        self._audited_scopes[identity.id] += 1
        if self._audited_scopes[identity.id] > _MAX_AUDITED_SCOPES_PER_KEY:
            return
        if not self._write_audit(scope, "used", f"{identity.via} {identity.id} ({identity.name})"):
            self._audited_uses.pop((identity.id, scope), None)  # the next request tries again; reads go on with a full disk

    def _write_audit(self, scope: Scope, action: str, text: str) -> bool:
        try:
            self.backend.audit(scope, action, text)
        except StoreError as error:
            log.warning("the audit entry 'key %s' could not be written", action, exc_info=error)
            return False
        return True


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity behind one request, and the scope it acts in."""

    service: Service
    identity: Identity
    scope: Scope
    is_gone: Callable[[], Awaitable[bool]] | None = None  # whether the caller has disconnected

    @property
    def memory(self) -> Memory:
        """The facade in the caller's scope, with the caller's rights."""
        return grant(self._store.memory(self.scope), self)

    @property
    def backend(self) -> Backend:
        """The store with the caller's rights, in the caller's scope."""
        return grant(self._store, self)

    @property
    def keys(self) -> Keys:
        """The keys of the caller's tenant, for an admin."""
        return grant(self.service.keys, self)

    @property
    def _store(self) -> Backend:
        """The store as the caller may see it: an agent's key sees no quarantined text."""
        backend = self.service.backend
        return backend.withholding if self.identity.bound_to_agent else backend

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call the memory in a worker thread, within the key's quota."""
        self.service.pages.note_use(self.identity.id)
        return self.observe(await self.service.worker_pool.run(work, *args, key=self.identity.id, is_gone=self.is_gone))

    async def compute(self, work: Callable[..., T], *args: Any) -> T:
        """Call something that mostly computes, such as a recall."""
        self.service.pages.note_use(self.identity.id)
        return self.observe(await self.service.compute_pool.run(work, *args, key=self.identity.id, is_gone=self.is_gone))

    async def make_page(self, work: Callable[..., T], *args: Any) -> T:
        """Make a page, in the key's turn; dropped if its caller has disconnected meanwhile."""
        async with self.service.pages.turn(self.identity.id):
            if self.is_gone is not None and await self.is_gone():
                raise RequestRefused(499, "the caller has disconnected.")
            return await self.service.compute_pool.run(work, *args, key=self.identity.id, is_gone=self.is_gone)

    def observe(self, result: T) -> T:
        """Report a result to the tracer."""
        if self.service.on_result is not None:
            self.service.on_result(result)
        return result

    # -- rights ----------------------------------------------------------------------------------------------------------
    def require(self, *rights: str, person: str | None = None) -> None:
        """Forbidden, and audited, if the key lacks a right, or is an agent's and `person` names what agents may not do."""
        with self.audit_denials():
            self.identity.require(*rights)
            if person is not None:
                self.identity.require_person(person)

    @contextmanager
    def audit_denials(self) -> Iterator[None]:
        """Write a Forbidden that is raised inside to the audit log."""
        try:
            yield
        except Forbidden as error:
            self.service.audit_denial(self.identity, self.scope, str(error))
            raise

    def find(self, id: str) -> Record:
        """A record by its id; NotFound if there is none that the caller may see."""
        record = self.memory.get(id)
        if record is None:
            raise no_record(id)
        return record

    # -- trust -----------------------------------------------------------------------------------------------------------
    @property
    def max_source(self) -> str:
        return self.identity.max_source

    def source(self, requested: str | None, default: str = "user") -> str:
        """The source of a write. An agent's key may claim the source agent or a less trusted one; else Forbidden."""
        maximum = self.max_source
        if requested is None and maximum == "user":
            return default
        if requested is None:
            return default if trust_of(default) <= trust_of(maximum) else maximum
        with self.audit_denials():
            self.identity.require_source(requested)
        return requested


def no_record(id: str) -> NotFound:
    """The error for an id that does not exist, or that the caller may not see."""
    return NotFound(f"record {id!r:.80} does not exist in this scope: list the memories to see which do.")
