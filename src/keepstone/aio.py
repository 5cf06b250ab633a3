"""AsyncMemory: the verbs of Memory for asyncio, run in worker threads.

The core is synchronous because a call into the embedded store takes microseconds. Each class here lists the verbs of its
synchronous counterpart; `in_thread` takes signature, documentation and types from there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from keepstone.conversation.conversation import Conversation, Conversations
from keepstone.errors import StoreClosed
from keepstone.learning.jobs import ScopeJobs
from keepstone.maintenance.audit import Audit
from keepstone.maintenance.review import ReviewList
from keepstone.maintenance.upkeep import Upkeep
from keepstone.memory import Memory
from keepstone.ports.coroutines import CALLER_LOOP
from keepstone.tasks.flow import Tasks
from keepstone.types import Message, Receipt, Scope

if TYPE_CHECKING:
    from keepstone.agent.strategies import AgentAccess
    from keepstone.tasks.working_memory import WorkingMemory

Target = TypeVar("Target")
Result = TypeVar("Result")
Params = ParamSpec("Params")


class Threaded(Generic[Target]):
    """An object whose verbs run on a synchronous object in a worker thread; `target` returns that object, in the thread."""

    def __init__(self, target: Callable[[], Target]) -> None:
        self._target = target

    async def _run(self, work: Callable[[Target], Result]) -> Result:
        token = CALLER_LOOP.set(asyncio.get_running_loop())
        try:
            return await asyncio.to_thread(lambda: _complete(work(self._target())))
        finally:
            CALLER_LOOP.reset(token)


def _complete(result: Result) -> Result:
    """The result, with what a receipt would look up when it is read: that is work for the thread, not for the loop."""
    if isinstance(result, Receipt):
        len(result.may_replace)
    return result


def in_thread(
    verb: Callable[Concatenate[Target, Params], Result],
) -> Callable[Concatenate[Threaded[Target], Params], Coroutine[Any, Any, Result]]:
    """The coroutine function that runs a verb of the target in a worker thread."""

    @wraps(verb)
    async def call(self: Threaded[Target], /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return await self._run(lambda target: verb(target, *args, **kwargs))

    return call


class AsyncUpkeep(Threaded[Upkeep]):
    """What `AsyncMemory.upkeep` offers."""

    repair_index = in_thread(Upkeep.repair_index)
    rebuild_index = in_thread(Upkeep.rebuild_index)
    run = in_thread(Upkeep.run)
    schedule = in_thread(Upkeep.schedule)
    age = in_thread(Upkeep.age)
    archive = in_thread(Upkeep.archive)
    lapse = in_thread(Upkeep.lapse)
    fade = in_thread(Upkeep.fade)
    cap = in_thread(Upkeep.cap)
    archived = in_thread(Upkeep.archived)
    undo = in_thread(Upkeep.undo)
    restore = in_thread(Upkeep.restore)
    purge = in_thread(Upkeep.purge)
    compact = in_thread(Upkeep.compact)
    verify = in_thread(Upkeep.verify)
    reembed = in_thread(Upkeep.reembed)
    doctor = in_thread(Upkeep.doctor)
    health = in_thread(Upkeep.health)
    fix = in_thread(Upkeep.fix)


class AsyncReview(Threaded[ReviewList]):
    """What `AsyncMemory.review` offers."""

    list = in_thread(ReviewList.list)
    resolve = in_thread(ReviewList.resolve)
    resolve_many = in_thread(ReviewList.resolve_many)


class AsyncJobs(Threaded[ScopeJobs]):
    """What `AsyncMemory.jobs` offers."""

    list = in_thread(ScopeJobs.list)
    run = in_thread(ScopeJobs.run)
    retry = in_thread(ScopeJobs.retry)
    drop = in_thread(ScopeJobs.drop)


class AsyncTasks(Threaded[Tasks]):
    """What `AsyncMemory.tasks` offers."""

    start = in_thread(Tasks.start)
    record = in_thread(Tasks.record)
    end = in_thread(Tasks.end)


class AsyncAudit(Threaded[Audit]):
    """What `AsyncMemory.audit` offers. Awaiting a call of it lists the entries."""

    __call__ = in_thread(Audit.__call__)
    verify = in_thread(Audit.verify)
    diff = in_thread(Audit.diff)


class AsyncConversation(Threaded[Conversation]):
    """One session, for asyncio: `async for` gives its messages, oldest first."""

    def __init__(self, target: Callable[[], Conversation], session: str) -> None:
        super().__init__(target)
        self._session = session

    @property
    def session(self) -> str:
        """The name of the session."""
        return self._session

    add = in_thread(Conversation.add)
    messages = in_thread(Conversation.messages)
    build = in_thread(Conversation.build)
    tokens = in_thread(Conversation.tokens)
    summary = in_thread(Conversation.summary)
    last = in_thread(Conversation.last)
    search = in_thread(Conversation.search)
    consolidate = in_thread(Conversation.consolidate)
    export = in_thread(Conversation.export)
    import_ = in_thread(Conversation.import_)
    clear = in_thread(Conversation.clear)

    async def count(self) -> int:
        """The number of messages."""
        return await self._run(len)

    async def __aiter__(self) -> AsyncIterator[Message]:
        for message in await self._run(list):
            yield message


class AsyncConversations(Threaded[Conversations]):
    """What `AsyncMemory.conversation` offers. Calling it with the name of a session gives one of them."""

    def __call__(self, session: str, **limits: Any) -> AsyncConversation:
        return AsyncConversation(lambda: self._target()(session, **limits), session)

    list = in_thread(Conversations.list)
    recent = in_thread(Conversations.recent)
    export_chats = in_thread(Conversations.export_chats)


class OpensLater(Generic[Params]):
    """`AsyncMemory.open`: takes the arguments of `Memory.open` and opens the store when it is first needed."""

    def __init__(self, open_memory: Callable[Params, Memory]) -> None:
        self._open_memory = open_memory
        self._signature = signature(open_memory)

    def __get__(self, instance: object, owner: type[AsyncMemory]) -> Callable[Params, AsyncMemory]:
        @wraps(self._open_memory)
        def open(*args: Params.args, **kwargs: Params.kwargs) -> AsyncMemory:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            scope = Scope(*(bound.arguments[name] for name in ("tenant", "agent", "user")))
            return owner(Opener(lambda: self._open_memory(*args, **kwargs)), scope)

        return open


class AsyncMemory(Threaded[Memory]):
    """The methods of Memory as coroutines. The store is opened by the first call that needs it, by `await AsyncMemory.open(…)`,
    or by `async with AsyncMemory.open(…) as memory`.

        async with AsyncMemory.open("agent.db", user="dana") as memory:
            await memory.remember("Dana prefers dark mode.")"""

    def __init__(self, opener: Opener, scope: Scope, view: bool = False) -> None:
        super().__init__(opener)
        self._opener = opener
        self._scope = scope
        self._view = view  # made by with_scope: closing it leaves the store open

    open = OpensLater(Memory.open)

    @property
    def scope(self) -> Scope:
        """Whose memory this is."""
        return self._scope

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> AsyncMemory:
        """The same store seen from another scope, as `Memory.with_scope`."""
        opener = Opener(lambda: self._target().with_scope(tenant=tenant, agent=agent, user=user))
        return AsyncMemory(opener, self._scope.narrowed(tenant, agent, user), view=True)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """Jobs that keep the store in order."""
        return AsyncUpkeep(lambda: self._target().upkeep)

    @property
    def review(self) -> AsyncReview:
        """The review list: what is quarantined, stale, contradicted or unsupported."""
        return AsyncReview(lambda: self._target().review)

    @property
    def jobs(self) -> AsyncJobs:
        """Work on this scope's messages that waits for a model, or has failed."""
        return AsyncJobs(lambda: self._target().jobs)

    @property
    def tasks(self) -> AsyncTasks:
        """The current task: `tasks.start()`, `tasks.record()`, `tasks.end()`."""
        return AsyncTasks(lambda: self._target().tasks)

    @property
    def audit(self) -> AsyncAudit:
        """The audit log of this scope: `audit()`, `audit.verify()`, `audit.diff()`."""
        return AsyncAudit(lambda: self._target().audit)

    @property
    def conversation(self) -> AsyncConversations:
        """The conversations of this scope; `conversation("session")` is one of them."""
        return AsyncConversations(lambda: self._target().conversation)

    @property
    def working(self) -> WorkingMemory:
        """The working memory: task, goals, results, thoughts, variables. Opens the store if nothing has opened it yet."""
        return self._target().working

    def _agent_access(self) -> AgentAccess:
        """What a MemoryAgent works with. Opens the store if nothing has opened it yet."""
        return self._target()._agent_access()

    remember = in_thread(Memory.remember)
    remember_many = in_thread(Memory.remember_many)
    update = in_thread(Memory.update)
    forget = in_thread(Memory.forget)
    feedback = in_thread(Memory.feedback)
    promote = in_thread(Memory.promote)
    demote = in_thread(Memory.demote)
    recall = in_thread(Memory.recall)
    get = in_thread(Memory.get)
    list = in_thread(Memory.list)
    history = in_thread(Memory.history)
    why = in_thread(Memory.why)
    scopes = in_thread(Memory.scopes)
    entities = in_thread(Memory.entities)
    costs = in_thread(Memory.costs)
    add_cost = in_thread(Memory.add_cost)
    set = in_thread(Memory.set)
    value = in_thread(Memory.value)
    ingest = in_thread(Memory.ingest)
    learn = in_thread(Memory.learn)
    context = in_thread(Memory.context)
    tools = in_thread(Memory.tools)
    call_tool = in_thread(Memory.call_tool)
    system_prompt = in_thread(Memory.system_prompt)
    export = in_thread(Memory.export)
    import_ = in_thread(Memory.import_)
    backup = in_thread(Memory.backup)

    async def close(self) -> None:
        """Write what is buffered and close the store; a view made by with_scope() leaves it open. Safe to call twice."""
        if not self._view:
            await asyncio.to_thread(self._opener.close)
        elif self._opener.opened:
            await self._run(Memory.close)

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncMemory:
        await self._run(lambda memory: None)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


class Opener:
    """Opens a Memory once, on the first call."""

    def __init__(self, open_memory: Callable[[], Memory]) -> None:
        self._open_memory = open_memory
        self._lock = threading.Lock()
        self._memory: Memory | None = None
        self._closed = False

    @property
    def opened(self) -> bool:
        """Whether the store was opened."""
        return self._memory is not None

    def __call__(self) -> Memory:
        with self._lock:
            if self._memory is None:
                if self._closed:
                    raise StoreClosed("this memory was closed: open it again.")
                self._memory = self._open_memory()
            return self._memory

    def close(self) -> None:
        """Close the Memory, if it was opened; it cannot be opened again."""
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()
