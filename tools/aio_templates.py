"""What stands around the methods that make_aio.py writes: the heads of aio.py, aio_verbs.py and aio_parts.py, with {slots}."""

from __future__ import annotations

PARTS_HEAD = '''"""What AsyncMemory gives out: upkeep, reviews, jobs, conversations. Made by tools/make_aio.py; do not edit."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.ports.maintenance import ArchivedRecord, ArchiveReason, ReviewItem, ReviewState
from keepstone.ports.queue import Job, JobState
from keepstone.errors import StoreClosed
from keepstone.ports.stores import Progress
from keepstone.types import ForgetReceipt, Message, Receipt

if TYPE_CHECKING:
    from keepstone.aio import AsyncMemory
    from keepstone.conversation.flow import Built
    from keepstone.learning.jobs import WorkReport
    from keepstone.memory import Memory
    from keepstone.vector_sync.drift import Repaired
    from keepstone.maintenance.checkup import FixReport
    from keepstone.maintenance.compaction import CompactReport
    from keepstone.maintenance.health import HealthReport
    from keepstone.maintenance.upkeep import Policy
    from keepstone.maintenance.reembedding import ReembedReport
    from keepstone.maintenance.retention import ArchiveReport, PurgeReport
    from keepstone.maintenance.review import Decision
    from keepstone.maintenance.policy_run import RunReport
    from keepstone.maintenance.scheduler import Scheduler
    from keepstone.maintenance.verification import VerifyReport


class AsyncUpkeep:
    """What `AsyncMemory.upkeep` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

{upkeep}

class AsyncReview:
    """What `AsyncMemory.review` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

{review}

class AsyncJobs:
    """What `AsyncMemory.jobs` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

{jobs}

class AsyncConversation:
    """One session, for asyncio: `async for` gives its messages, oldest first."""

    def __init__(self, memory: AsyncMemory, session: str, limits: Mapping[str, Any]) -> None:
        self._memory = memory
        self._session = session
        self._limits = dict(limits)

    @property
    def session(self) -> str:
        """The name of the session."""
        return self._session

{conversation}
    async def count(self) -> int:
        """How many messages there are."""
        return await self._memory._run(lambda memory: len(memory.conversation(self._session, **self._limits)))

    async def __aiter__(self) -> AsyncIterator[Message]:
        for message in await self._memory._run(lambda memory: list(memory.conversation(self._session, **self._limits))):
            yield message


class Opener:
    """Opens a Memory once, whoever asks first."""

    def __init__(self, make: Callable[[], Memory]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._memory: Memory | None = None
        self._closed = False

    @property
    def opened(self) -> bool:
        return self._memory is not None

    def __call__(self) -> Memory:
        with self._lock:
            if self._memory is None:
                if self._closed:
                    raise StoreClosed("this memory was closed: open it again.")
                self._memory = self._make()
            return self._memory

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()
'''

VERBS_HEAD = '''"""The half of AsyncMemory that is about talking and doing. Made by tools/make_aio.py; do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from keepstone.ports.queue import Session
from keepstone.memory import Memory, Path, Time
from keepstone.types import Message, Receipt

if TYPE_CHECKING:
    from keepstone.tasks.flow import Task

T = TypeVar("T")


class AsyncVerbs(ABC):
    """Learning, tasks, tools and prompts in one scope."""

    @abstractmethod
    async def _run(self, work: Callable[[Memory], T]) -> T:
        """Do something with the memory, off the event loop."""

{methods}
'''

HEAD = '''"""AsyncMemory: the verbs of Memory for asyncio, run in worker threads. Made by tools/make_aio.py; do not edit.

The core is synchronous because a call into the embedded store takes microseconds; here it is kept off the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from keepstone.aio_parts import AsyncConversation, AsyncJobs, AsyncReview, AsyncUpkeep, Opener
from keepstone.aio_verbs import AsyncVerbs
from keepstone.ports.maintenance import ChainReport
from keepstone.memory import Memory, Path, Time
from keepstone.ports.stores import Progress, Reranker
from keepstone.types import {types}

if TYPE_CHECKING:
    from keepstone.settings import Settings
    from keepstone.maintenance.diff import Diff
    from keepstone.tasks.working_memory import WorkingMemory

T = TypeVar("T")


class AsyncMemory(AsyncVerbs):
    """What one agent remembers for one scope, for asyncio. The store is opened by the first call that needs it, or by
    `await AsyncMemory.open(…)`, or by `async with AsyncMemory.open(…) as memory`."""

    def __init__(self, opener: Opener, scope: Scope, view: bool = False) -> None:
        self._opener = opener
        self._scope = scope
        self._view = view  # made by with_scope: closing it leaves the store open
        self._opened: Memory | None = None
        self._lock = threading.Lock()

    @classmethod
    def open{open_signature}:
        """{open_doc}"""
        opener = Opener(
            lambda: Memory.open({open_arguments})
        )
        return cls(opener, Scope(tenant, agent, user))

    @property
    def scope(self) -> Scope:
        """{scope_doc}"""
        return self._scope

    def with_scope{with_scope_signature}:
        """{with_scope_doc}"""
        return AsyncMemory(self._opener, self._scope.narrowed(tenant, agent, user), view=True)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """{upkeep_doc}"""
        return AsyncUpkeep(self)

    @property
    def review(self) -> AsyncReview:
        """{review_doc}"""
        return AsyncReview(self)

    @property
    def jobs(self) -> AsyncJobs:
        """{jobs_doc}"""
        return AsyncJobs(self)

    @property
    def working(self) -> WorkingMemory:
        """{working_doc} Opens the store if nothing has yet."""
        return self._memory().working

    def conversation(self, session: str, **limits: Any) -> AsyncConversation:
        """{conversation_doc}"""
        return AsyncConversation(self, session, limits)

    def _memory(self) -> Memory:
        memory = self._opener()
        if not self._view:
            return memory
        with self._lock:  # one view, so that it has one working memory
            if self._opened is None:
                scope = self._scope
                self._opened = memory.with_scope(tenant=scope.tenant, agent=scope.agent, user=scope.user)
            return self._opened

    async def _run(self, work: Callable[[Memory], T]) -> T:
        return await asyncio.to_thread(lambda: work(self._memory()))

{methods}
    async def close(self) -> None:
        """{close_doc}"""
        if not self._view:
            await asyncio.to_thread(self._opener.close)
        elif self._opener.opened:
            await self._run(lambda memory: memory.close())

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncMemory:
        await asyncio.to_thread(self._opener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

'''
