"""Client and AsyncClient: a memory on a server, with the verbs of Memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from keepstone.client.codec import path_segment, read
from keepstone.client.plans import Asynchronous, Synchronous, run, run_async
from keepstone.client.transport import Transport, public_url
from keepstone.client.verbs import RemoteVerbs
from keepstone.client.working_memory import remote_working_memory
from keepstone.errors import ConfigurationError, Forbidden, ValidationError
from keepstone.settings import provider_variable
from keepstone.types import Receipt, Scope, clean_name

if TYPE_CHECKING:
    import httpx2

    from keepstone.agent.strategies import AgentAccess, GatheredMemory, Strategy
    from keepstone.client.conversation import AsyncRemoteConversations, RemoteConversations
    from keepstone.client.maintenance import (
        AsyncRemoteAudit,
        AsyncRemoteJobs,
        AsyncRemoteReview,
        AsyncRemoteUpkeep,
        RemoteAudit,
        RemoteJobs,
        RemoteReview,
        RemoteUpkeep,
    )
    from keepstone.client.tasks import AsyncRemoteTasks, RemoteTasks
    from keepstone.ports.chat import ChatModel
    from keepstone.tasks.working_memory import WorkingMemory

Self = TypeVar("Self", bound="RemoteMemory")
OfThread = TypeVar("OfThread")
OfLoop = TypeVar("OfLoop")


class Group(property, Generic[OfThread, OfLoop]):
    """A group of verbs: of one class in a Client, of another, whose name begins with Async, in an AsyncClient. The classes are
    imported when they are first used."""

    def __init__(self, module: str, name: str, text: str) -> None:
        def make_group(client: RemoteMemory) -> Any:
            prefix = "Async" if isinstance(client, Asynchronous) else ""
            return getattr(import_module(f"keepstone.client.{module}"), prefix + name)(client)

        super().__init__(make_group, doc=text)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: Synchronous, owner: type) -> OfThread: ...
        @overload
        def __get__(self, instance: Asynchronous, owner: type) -> OfLoop: ...
        @overload
        def __get__(self, instance: None, owner: type) -> property: ...
        def __get__(self, instance: object, owner: type) -> Any: ...


class RemoteMemory(RemoteVerbs):
    """What both clients have: a transport, a scope, a working memory."""

    conversation: Group[RemoteConversations, AsyncRemoteConversations] = Group(
        "conversation", "RemoteConversations", 'The conversations of this scope; `conversation("session")` is one of them.'
    )
    tasks: Group[RemoteTasks, AsyncRemoteTasks] = Group(
        "tasks", "RemoteTasks", "The current task: `tasks.start()`, `tasks.record()`, `tasks.end()`."
    )
    upkeep: Group[RemoteUpkeep, AsyncRemoteUpkeep] = Group("maintenance", "RemoteUpkeep", "Jobs that keep the memories in order.")
    review: Group[RemoteReview, AsyncRemoteReview] = Group(
        "maintenance", "RemoteReview", "The review list: what is quarantined, stale, contradicted or unsupported."
    )
    jobs: Group[RemoteJobs, AsyncRemoteJobs] = Group(
        "maintenance", "RemoteJobs", "Work on this scope's messages that waits for a model, or has failed."
    )
    audit: Group[RemoteAudit, AsyncRemoteAudit] = Group(
        "maintenance",
        "RemoteAudit",
        "The audit log of this scope: `audit()` lists it, `audit.verify()` checks it, `audit.diff()` compares two times.",
    )

    def __init__(
        self,
        url: str | None,
        key: str | None,
        agent: str | None,
        user: str | None,
        timeout: float,
        transport: Any,
        *,
        asynchronous: bool,
    ) -> None:
        self._key = provider_variable("KEEPSTONE_KEY") if key is None else key
        self._timeout = timeout
        self._root = Transport(
            provider_variable("KEEPSTONE_URL") if url is None else url,
            self._key,
            timeout,
            transport,
            asynchronous=asynchronous,
        )
        self._agent, self._user = agent, user or None
        self._wire = self._root.seen_as(self._agent, self._user)
        self._view = False  # made by with_scope: closing it leaves the connections open
        self._reset()

    def _reset(self) -> None:
        self._scope: Scope | None = None
        self._working = None
        self._may_forget = False

    def _task_lock(self) -> Any:
        return self.working.lock

    def _blocking(self) -> Transport:
        """The transport of what is synchronous in both clients: the scope, and saving the working memory."""
        return self._wire

    @property
    def scope(self) -> Scope:
        """Whose memory this is, as the server sees it. The server is asked once; an AsyncClient asks it in `async with` or
        `await`, and before that this waits for it."""
        if self._scope is None:
            self._scope = read(Scope, run(self._blocking().request("GET", "/v1/me"))["scope"])
        return self._scope

    def _with_scope(self: Self, tenant: str | None, agent: str | None, user: str | None) -> Self:
        if tenant is not None and clean_name(tenant, "tenant") != self.scope.tenant:
            raise Forbidden(f"a key belongs to one tenant, and this one is not of {tenant!r:.60}: use a key of that tenant.")
        view = copy.copy(self)
        view._agent = self._agent if agent is None else agent
        view._user = self._user if user is None else user or None
        view._wire = self._root.seen_as(view._agent, view._user)
        view._view = True
        view._reset()
        if user == "" and view.scope.user:
            raise Forbidden(f"this key is bound to the user {view.scope.user!r:.60}: it cannot act without a user.")
        return view

    @property
    def working(self) -> WorkingMemory:
        """The working memory: task, goals, results, thoughts, variables. One for each client. `save`, `restore` and `drop` go to
        the server and wait for it."""
        if self._working is None:
            self._working = remote_working_memory(self._blocking)
        return self._working

    def __repr__(self) -> str:
        named = [f", {name}={value!r}" for name, value in (("agent", self._agent), ("user", self._user)) if value is not None]
        return f"{type(self).__name__}({public_url(self._root.url)!r}{''.join(named)})"


class Client(RemoteMemory, Synchronous):
    """A memory on a server: the methods of Memory over HTTP.

        with Client("http://127.0.0.1:8700", "ks_…") as memory:
            memory.remember("Dana prefers dark mode.")

    The key decides which scope is used. With a key that is not bound to an agent you may name the agent, with a service key
    also the user. Values and errors are those of Memory. In addition, AccessError is raised if the key lacks a right, and
    ServerError if the server cannot be reached. Requests that can be repeated safely are sent again after a failure."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        timeout: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """`url` and `key` default to KEEPSTONE_URL and KEEPSTONE_KEY. Nothing is sent yet. Raises ConfigurationError."""
        super().__init__(url, key, agent, user, timeout, transport, asynchronous=False)

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> Client:
        """The same server seen from another scope, as far as the key may; connections are shared, so this is cheap. None keeps a
        part of the scope as it is. Closing the view leaves the connections open. Raises Forbidden for another tenant."""
        return self._with_scope(tenant, agent, user)

    def _agent_access(self) -> AgentAccess:
        """What a MemoryAgent works with."""
        return RemoteAccess(self)

    def _request(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a response to a request that no verb makes."""
        return run(self._wire.request(method, path, fields))

    def close(self) -> None:
        """Close the connections; a view made by with_scope() leaves them open. Safe to call twice."""
        if not self._view:
            run(self._root.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncClient(RemoteMemory, Asynchronous):
    """A memory on a server, for asyncio: the methods of AsyncMemory over HTTP, without threads.

        async with AsyncClient("http://127.0.0.1:8700", "ks_…") as memory:
            await memory.remember("Dana prefers dark mode.")

    `async with` and `await` ask the server for the scope of the key. Otherwise it behaves like Client."""

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
        self._shared: list[Transport] = []  # the synchronous transport, once one is needed; views share it
        self._has_transport = transport is not None
        super().__init__(url, key, agent, user, timeout, transport, asynchronous=True)

    def _reset(self) -> None:
        import asyncio

        super()._reset()
        self._lock = asyncio.Lock()

    def _task_lock(self) -> Any:
        return self._lock

    def _blocking(self) -> Transport:
        if self._has_transport:
            raise ConfigurationError(
                "this needs a second connection, which a client with transport= does not have: use 'async with', and save by "
                "tasks.record."
            )
        if not self._shared:
            self._shared.append(Transport(self._root.url, self._key, self._timeout, None, asynchronous=False))
        return self._shared[0].seen_as(self._agent, self._user)

    def _agent_access(self) -> AgentAccess:
        """What a MemoryAgent works with: a synchronous client on the second connection, as its turns run in threads."""
        wire = self._blocking()
        client = Client(self._root.url, self._key, agent=self._agent, user=self._user, timeout=self._timeout)
        client._root, client._wire, client._view = self._shared[0], wire, True
        return RemoteAccess(client)

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> AsyncClient:
        """The same server seen from another scope, as far as the key may; connections are shared, so this is cheap. None keeps a
        part of the scope as it is. Closing the view leaves the connections open. Raises Forbidden for another tenant."""
        return self._with_scope(tenant, agent, user)

    async def close(self) -> None:
        """Close the connections; a view made by with_scope() leaves them open. Safe to call twice."""
        if not self._view:
            for transport in self._shared:
                run(transport.close())
            await run_async(self._root.close())

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncClient:
        if self._scope is None:
            response = await run_async(self._wire.request("GET", "/v1/me"))
            self._scope = read(Scope, response["scope"])
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


class RemoteAccess:
    """A memory on a server as an agent uses it. The server gathers what the prompt shows, with its own model for summaries."""

    model: ChatModel | None = None
    make_model: Callable[[Any], ChatModel | None] | None = None

    def __init__(self, client: Client) -> None:
        self.memory: Any = client

    def for_task(self) -> RemoteAccess:
        own = self.memory.with_scope()
        own.working.saved_as = None
        return RemoteAccess(own)

    def gather(self, strategy: Strategy, text: str, session: str, model: ChatModel | None, until: str | None) -> GatheredMemory:
        return self._gather(strategy, text, session=session, until=until)

    def gather_for_task(self, strategy: Strategy, text: str) -> GatheredMemory:
        return self._gather(strategy, text)

    def _gather(self, strategy: Strategy, text: str, **fields: str | None) -> GatheredMemory:
        from keepstone.agent.strategies import GatheredMemory

        body = {"text": text, **asdict(strategy), "boot": list(strategy.boot), **fields}
        return read(GatheredMemory, run(self.memory._with_working_memory("/v1/agent/prompt", body)))

    def call_tool(self, name: str, input: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        fields = {"input": input, **options, "leave_out": list(options.get("leave_out", ()))}
        try:
            return dict(run(self.memory._wire.request("POST", f"/v1/tools/{path_segment(name)}", fields, long=True)))
        except ValidationError as error:
            return {"error": str(error)}

    def consolidate(self, session: str, model: ChatModel | None) -> Receipt | None:
        receipt: Receipt | None = self.memory.conversation(session).consolidate()
        return receipt
