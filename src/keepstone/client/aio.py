"""AsyncClient: a memory on a server, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keepstone.client.aio_agent_verbs import AsyncDoing
from keepstone.client.aio_transport import AsyncTransport
from keepstone.client.aio_verbs import AsyncVerbs
from keepstone.client.codec import read
from keepstone.client.responses import shown_url
from keepstone.client.transport import Transport
from keepstone.client.working_memory import working_over
from keepstone.errors import ConfigurationError, Forbidden
from keepstone.settings import provider_variable
from keepstone.types import Scope, clean_name

if TYPE_CHECKING:
    import httpx2

    from keepstone.tasks.working_memory import WorkingMemory


class AsyncClient(AsyncVerbs, AsyncDoing):
    """What one agent remembers for one scope, kept by a server: the verbs of AsyncMemory over HTTP, without threads.

        async with AsyncClient("http://127.0.0.1:8700", "ks_…") as memory:
            await memory.remember("Dana prefers dark mode.")

    `async with` and `await` ask the server whose memory it is. What holds for Client holds here."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        timeout: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`url` and `key` default to KEEPSTONE_URL and KEEPSTONE_KEY. Nothing is sent yet. Raises ConfigurationError."""
        chosen = provider_variable("KEEPSTONE_URL") if url is None else url
        held = provider_variable("KEEPSTONE_KEY") if key is None else key
        self._agent, self._user = agent, user or None
        self._root = AsyncTransport(chosen, held, timeout, transport)
        self._wire = self._root.seen_as(self._agent, self._user)
        self._beside = _Beside(self._root.url, held, timeout, usable=transport is None)
        self._view = False
        self._scope: Scope | None = None
        self._working = None
        self._may_forget = False
        self._step = asyncio.Lock()

    @property
    def scope(self) -> Scope:
        """Whose memory this is, as the server sees it. It is known after `async with` or `await`; before that this waits for the
        server."""
        if self._scope is None:
            self._scope = read(Scope, self._beside.wire(self._agent, self._user).get("/v1/me")["scope"])
        return self._scope

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> AsyncClient:
        """The same server seen from another scope, as far as the key may; connections are shared, so this is cheap. None keeps a
        part of the scope as it is. Closing the view leaves the connections open. Raises Forbidden for another tenant."""
        if tenant is not None and clean_name(tenant, "tenant") != self.scope.tenant:
            raise Forbidden(f"a key belongs to one tenant, and this one is not of {tenant!r:.60}: use a key of that tenant.")
        view = object.__new__(type(self))
        view._agent = self._agent if agent is None else agent
        view._user = self._user if user is None else user or None
        view._root, view._beside, view._view, view._scope = self._root, self._beside, True, None
        view._wire = self._root.seen_as(view._agent, view._user)
        view._working, view._may_forget, view._step = None, False, asyncio.Lock()
        if user == "" and view.scope.user:
            raise Forbidden(f"this key is bound to the user {view.scope.user!r:.60}: it cannot act for nobody.")
        return view

    @property
    def working(self) -> WorkingMemory:
        """What is in hand: task, goals, results, thoughts, variables. One for each client. `save`, `restore` and `drop` go to the
        server and wait for it: call them in a thread where the event loop must not be held up."""
        if self._working is None:
            self._working = working_over(lambda: self._beside.wire(self._agent, self._user))
        return self._working

    async def close(self) -> None:
        """Let go of the connections; a view made by with_scope() leaves them open. Safe to call twice."""
        if not self._view:
            self._beside.close()
            await self._root.close()

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncClient:
        if self._scope is None:
            found = await self._wire.get("/v1/me")
            self._scope = read(Scope, found["scope"])
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        named = [f", {name}={value!r}" for name, value in (("agent", self._agent), ("user", self._user)) if value is not None]
        return f"AsyncClient({shown_url(self._root.url)!r}{''.join(named)})"


class _Beside:
    """A transport that waits, for what is no coroutine in AsyncMemory either: `scope`, and saving what is in hand."""

    def __init__(self, url: str, key: str | None, timeout: float, usable: bool) -> None:
        self._given = (url, key, timeout)
        self._usable = usable
        self._made: Transport | None = None

    def wire(self, agent: str | None, user: str | None) -> Transport:
        if not self._usable:
            raise ConfigurationError(
                "this goes over a connection of its own, which a client with transport= has not: use 'async with', and save by "
                "record_step."
            )
        if self._made is None:
            self._made = Transport(*self._given, None)
        return self._made.seen_as(agent, user)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
