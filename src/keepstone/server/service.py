"""Service: what every surface of the server works with, and Caller: one request's share of it.

A surface (HTTP, MCP, dashboard) turns a credential into a Caller and does everything else through it: `caller.memory` is the
facade in the caller's own scope, `await caller.run(...)` calls it in a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread

from keepstone.errors import Forbidden, StoreError, Unauthenticated
from keepstone.memory import Memory, engine_of
from keepstone.server.identity import Identity
from keepstone.server.keys import PREFIXES, Keys
from keepstone.settings import Settings
from keepstone.types import Scope
from keepstone.write.request import trust_of

T = TypeVar("T")
log = logging.getLogger("keepstone.server")
_SCOPES = 10_000  # scopes in which the use of one key is noted: names can be invented without end
_NOTED = 3600.0  # seconds after which the use of a key is worth a new line of the trail
_THREADS = 40
_SHARE = 32  # of them for one key at a time: whatever it asks for, some are left for the others
_LANES = 1  # of what computes on a file, at a time
_IN_LINE = 2  # of one key that may stand in that line: the others wait for two of its questions, not for a thousand
_DOORS = 8  # threads that tokens are checked in: an issuer that does not answer holds up no other


class Verifier(Protocol):
    """Tells whom a token of an outside issuer stands for."""

    def verify(self, token: str) -> Identity:
        """Unauthenticated for a token that is not valid here."""


class Rates(Protocol):
    """Counts requests."""

    def take(self, id: str, per_minute: int) -> None:
        """RateLimited where a key has made as many as it may."""


class Meter(Protocol):
    """Counts verbs."""

    def verb(self, verb: str, status: int, seconds: float) -> None:
        """A verb was answered, with this status or what would have been it."""


@dataclass(slots=True)
class _Share:
    """What one key may have in hand at a time, and how many requests ask for it."""

    turns: asyncio.Semaphore
    asking: int = 0


@dataclass(slots=True)
class _Pool:
    """Worker threads for one end, and each key's share of them; made when the first is needed, in the loop that needs it."""

    most: int
    each: int
    limiter: anyio.CapacityLimiter | None = None
    shares: dict[str, _Share] = field(default_factory=dict)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        if self.limiter is None:
            self.limiter = anyio.CapacityLimiter(self.most)
        return await anyio.to_thread.run_sync(work, *given, limiter=self.limiter)

    @asynccontextmanager
    async def share(self, id: str) -> AsyncIterator[None]:
        """Wait until one key has no more in hand than it may."""
        held = self.shares.get(id)
        if held is None:
            held = self.shares[id] = _Share(asyncio.Semaphore(self.each))
        held.asking += 1
        try:
            async with held.turns:
                yield
        finally:
            held.asking -= 1
            if not held.asking:
                del self.shares[id]

    def busy(self) -> int:
        return 0 if self.limiter is None else self.limiter.borrowed_tokens


class Service:
    """One open store, and who may use it how."""

    def __init__(
        self,
        memory: Memory,
        *,
        verifier: Verifier | None = None,
        rates: Rates | None = None,
        address: str = "http://127.0.0.1:8700",
        tracer_provider: Any = None,
    ) -> None:
        self.memory = memory
        self.engine = engine_of(memory)
        self.settings: Settings = self.engine.settings
        self.keys = Keys(self.engine)
        self.address = (self.settings.public_url or address).rstrip("/")
        self._embedded = self.engine.store.is_embedded
        self._verifier = verifier
        self._rates = rates
        self._noted: dict[tuple[str, Scope], float] = {}
        self._uses: Counter[str] = Counter()  # lines about each key
        self._threads = _Pool(_THREADS, _SHARE)
        self._lanes = _Pool(_LANES, _IN_LINE) if self._embedded else _Pool(_THREADS, _SHARE)
        self._doors = _Pool(_DOORS, _DOORS)
        self.files: Counter[str] = Counter()  # on their way, by key
        self._owed: set[asyncio.Task[None]] = set()  # lines of the trail that are being written
        self.tracer_provider = tracer_provider  # whose spans they are, where telemetry is on; None: the process's
        self.meter: Meter | None = None  # the application's; surfaces that are no routes count their verbs with it
        self.saw: Callable[[object], None] | None = None  # told what every call came to, where telemetry is on

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Call something that may take a while, in a worker thread."""
        return self._seen(await self._threads.run(work, *given))

    async def run_for(self, identity: Identity, work: Callable[..., T], *given: Any) -> T:
        """The same out of one key's share."""
        async with self._threads.share(identity.id):
            return self._seen(await self._threads.run(work, *given))

    async def compute_for(self, identity: Identity, work: Callable[..., T], *given: Any) -> T:
        """Call something that mostly computes, such as a recall: of those only a few run at a time. More of them would only
        take turns with each other, and with the thread that answers, and all would be slower."""
        async with self._lanes.share(identity.id):
            return self._seen(await self._lanes.run(work, *given))

    def busy(self) -> int:
        """How many worker threads are at work."""
        return sum(each.busy() for each in (self._threads, self._lanes, self._doors))

    def _seen(self, found: T) -> T:
        if self.saw is not None:
            self.saw(found)
        return found

    async def asked_by(self, credential: str | None, agent: str | None = None, user: str | None = None) -> Caller:
        """The share of a request with these headers. A file answers for a key in microseconds, less than another thread takes."""
        if self._embedded and (credential or "").startswith(PREFIXES):
            identity = self.identify(credential)
            if (identity.id, identity.scope()) in self._noted and agent is None and user is None:
                return self.caller(identity)
            return await self.run(self.caller, identity, agent, user)
        pool = self._threads if (credential or "").startswith(PREFIXES) else self._doors
        return await pool.run(lambda: self.caller(self.identify(credential), agent, user))

    # -- who is asking --------------------------------------------------------------------------------------------
    def identify(self, credential: str | None) -> Identity:
        """Whom a credential (a key, or a token) stands for; counts the request. Unauthenticated, RateLimited."""
        if not credential:
            raise Unauthenticated(
                "a key is needed: send 'Authorization: Bearer ks_…' with one that 'keepstone keys create' made."
            )
        identity = self.checked(credential)
        self.count(identity)
        return identity

    def checked(self, credential: str) -> Identity:
        """The same without counting."""
        if credential.startswith(PREFIXES) or self._verifier is None:
            return self.keys.check(credential)
        return self._verifier.verify(credential)

    def count(self, identity: Identity) -> None:
        """RateLimited where this request is one too many."""
        most = self.settings.requests_per_minute if identity.rate is None else identity.rate
        if most and self._rates is not None:
            self._rates.take(identity.id, most)

    def caller(self, identity: Identity, agent: str | None = None, user: str | None = None) -> Caller:
        """A request's share; what is refused leaves a line in the trail of whoever asked."""
        try:
            scope = identity.scope(agent, user)
        except Forbidden as error:
            self.denied(identity, identity.scope(), str(error))
            raise
        self._note_use(identity, scope)
        return Caller(self, identity, scope)

    def denied(self, identity: Identity, scope: Scope, why: str) -> None:
        """Into the trail: somebody asked for what is not theirs. They are refused whether or not that can be written. The thread
        that answers does not wait for the store: what is called there is written by another; `settled` waits for it."""
        said = f"{identity.via} {identity.id} ({identity.name}): {why}"

        def note() -> None:
            self._noted_down(scope, "denied", said)

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            note()
            return
        task = loop.create_task(self._threads.run(note))
        self._owed.add(task)
        task.add_done_callback(self._owed.discard)

    async def settled(self) -> None:
        """Wait until what was denied is in the trail."""
        if self._owed:
            await asyncio.wait(set(self._owed))

    def _noted_down(self, scope: Scope, action: str, said: str) -> bool:
        try:
            self.engine.store.audit_log.note(scope, "key", action, "system", (said,))
        except StoreError as error:
            log.warning("the trail does not tell that a key was %s", action, exc_info=error)
            return False
        return True

    def _note_use(self, identity: Identity, scope: Scope) -> None:
        """Into the trail: a key is in use. Once an hour for a key and a scope, or reading would be writing."""
        now = time.monotonic()
        last = self._noted.get((identity.id, scope))
        if last is not None and now - last < _NOTED:
            return
        if len(self._noted) > 100_000:
            self._noted.clear()
            self._uses.clear()
        self._noted[identity.id, scope] = now
        self._uses[identity.id] += 1
        if self._uses[identity.id] > _SCOPES:
            return
        if not self._noted_down(scope, "used", f"{identity.via} {identity.id} ({identity.name})"):
            self._noted.pop((identity.id, scope), None)  # a full disk is no reason not to read: the next request tries again


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks in one request, and whose memory is meant."""

    service: Service
    identity: Identity
    scope: Scope

    @property
    def memory(self) -> Memory:
        """The facade in the caller's scope."""
        scope = self.scope
        return self.service.memory.with_scope(tenant=scope.tenant, agent=scope.agent, user=scope.user)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Call the memory in a worker thread."""
        return await self.service.run_for(self.identity, work, *given)

    async def compute(self, work: Callable[..., T], *given: Any) -> T:
        """The same for what mostly computes."""
        return await self.service.compute_for(self.identity, work, *given)

    def need(self, *rights: str, person: str | None = None) -> None:
        """Forbidden unless the key has these rights, and is not an agent's where a `person` has to do it; denials are noted."""
        with self.noted():
            self.identity.need(*rights)
            if person is not None:
                self.identity.need_person(person)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Let a refusal leave a line in the trail."""
        try:
            yield
        except Forbidden as error:
            self.service.denied(self.identity, self.scope, str(error))
            raise

    @property
    def speaks_as(self) -> str:
        """As whose words everything counts at the most that the caller brings: an agent does not speak as the user."""
        return "agent" if self.identity.bound_to_agent else "user"

    def source(self, given: str | None, usual: str = "user") -> str:
        """Whose word a write is. An agent's key speaks as an agent, or as something less trusted, never as the user."""
        most = self.speaks_as
        if given is None:
            return usual if trust_of(usual) <= trust_of(most) else most
        if trust_of(given) > trust_of(most):
            with self.noted():
                said = f"this key cannot speak as {given!r:.40}: what it says is trusted as {most!r} at most."
                raise Forbidden(f"{said} Leave source out.")
        return given
