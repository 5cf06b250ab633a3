"""What AsyncMemory gives out: its upkeep, its jobs, its conversations. Made by tools/make_aio.py; do not edit."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from recollect.desk import Job, JobState
from recollect.errors import StoreClosed
from recollect.ports import Progress
from recollect.types import ForgetReceipt, Message, Receipt

if TYPE_CHECKING:
    from recollect.aio import AsyncMemory
    from recollect.converse.flow import Built
    from recollect.learn.jobs import WorkReport
    from recollect.memory import Memory
    from recollect.upkeep.fading import FadeReport
    from recollect.upkeep.reembedding import ReembedReport


class AsyncUpkeep:
    """What `AsyncMemory.upkeep` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

    async def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits in the store's queue, now and in this process; nothing, where no model is set."""
        return await self._memory._run(lambda memory: memory.upkeep.run(progress=progress))

    async def consolidate(
        self, *, importance: float = 0.3, reads: int = 1, older_than: timedelta | float = 2592000, dry_run: bool = False
    ) -> FadeReport:
        """Put aside this scope's facts that matter less than `importance`, were read at most `reads` times, and were neither
        changed nor read for `older_than` (a timedelta or seconds; 30 days). They are no longer recalled; `bring_back` undoes
        it. A `dry_run` only says what would go."""
        return await self._memory._run(
            lambda memory: memory.upkeep.consolidate(importance=importance, reads=reads, older_than=older_than, dry_run=dry_run)
        )

    async def bring_back(self, ids: Iterable[str]) -> int:
        """Undo a consolidation for these records, unless the same has been remembered anew. How many came back."""
        return await self._memory._run(lambda memory: memory.upkeep.bring_back(ids))

    async def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Embed every record of the store that waits for its vector; with `embedder`, move the store to that one first.

        Can be stopped and run again: it goes on where it was. Words answer meanwhile."""
        return await self._memory._run(lambda memory: memory.upkeep.reembed(embedder=embedder, progress=progress))


class AsyncJobs:
    """What `AsyncMemory.jobs` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

    async def list(self, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        """Jobs, oldest first: those that wait, run, or have been given up ("failed")."""
        return await self._memory._run(lambda memory: memory.jobs.list(state=state, limit=limit))

    async def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits, now and in this process."""
        return await self._memory._run(lambda memory: memory.jobs.run(progress=progress))

    async def retry(self, number: int | None = None) -> int:
        """Let one failed job, or all, wait again. How many. Raises NotFound."""
        return await self._memory._run(lambda memory: memory.jobs.retry(number))

    async def drop(self, number: int) -> None:
        """Take a job out of the queue; its messages stay. Raises NotFound."""
        return await self._memory._run(lambda memory: memory.jobs.drop(number))


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

    async def add(self, role: str, content: str | Sequence[Mapping[str, Any]], **metadata: Any) -> Receipt:
        """Store a message: text, or blocks as the Messages API has them (images by reference). `name=` is who spoke and `at=`
        when, where it was not just now; everything else is kept with it as metadata. Raises ValidationError, TooLarge."""
        return await self._memory._run(
            lambda memory: memory.conversation(self._session, **self._limits).add(role, content, **metadata)
        )

    async def messages(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> list[dict[str, Any]]:
        """What to send to a model: the summary of the older part in front, where there is one, then the recent messages as they
        were. Never more than the limits, never beginning with a tool result whose use is missing."""
        return await self._memory._run(
            lambda memory: memory.conversation(self._session, **self._limits).messages(
                max_tokens=max_tokens, max_messages=max_messages
            )
        )

    async def build(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> Built:
        """The same with the ids of the messages, the tokens they take, and what a model took for a summary."""
        return await self._memory._run(
            lambda memory: memory.conversation(self._session, **self._limits).build(
                max_tokens=max_tokens, max_messages=max_messages
            )
        )

    async def tokens(self) -> int:
        """About how many tokens `messages()` takes."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).tokens())

    async def summary(self) -> str:
        """The summary of the older part; "" while everything fits the window."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).summary())

    async def last(self, n: int = 10) -> list[Message]:
        """The last n messages, oldest first."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).last(n))

    async def search(self, words: str, *, limit: int = 20) -> list[Message]:
        """The newest messages in which all the words stand, oldest first; capitals do not matter, parts of words do."""
        return await self._memory._run(
            lambda memory: memory.conversation(self._session, **self._limits).search(words, limit=limit)
        )

    async def consolidate(self) -> Receipt | None:
        """Store what the session came to (facts about the user, decisions, open tasks) as one memory of kind "summary" that
        names the messages it was made from. None if too little was said."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).consolidate())

    async def export(self) -> dict[str, Any]:
        """The whole conversation as plain data that JSON can hold."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).export())

    async def import_(self, data: Mapping[str, Any] | str) -> int:
        """Append an exported conversation, all of it or, if anything is wrong, nothing. How many messages."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).import_(data))

    async def clear(self) -> ForgetReceipt:
        """Erase the session's messages and every summary made of them. Facts that were learned from them stay;
        `memory.forget(session=…)` erases those too."""
        return await self._memory._run(lambda memory: memory.conversation(self._session, **self._limits).clear())

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
