"""What AsyncMemory gives out: upkeep, reviews, jobs, conversations. Made by tools/make_aio.py; do not edit."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.errors import StoreClosed
from keepstone.ports.maintenance import ArchivedRecord, ArchiveReason, ReviewItem, ReviewState
from keepstone.ports.queue import Job, JobState
from keepstone.ports.stores import Progress
from keepstone.types import ForgetReceipt, Message, Receipt

if TYPE_CHECKING:
    from keepstone.aio import AsyncMemory
    from keepstone.conversation.flow import Built
    from keepstone.learning.jobs import WorkReport
    from keepstone.maintenance.checkup import FixReport
    from keepstone.maintenance.compaction import CompactReport
    from keepstone.maintenance.health import HealthReport
    from keepstone.maintenance.policy_run import RunReport
    from keepstone.maintenance.reembedding import ReembedReport
    from keepstone.maintenance.retention import ArchiveReport, PurgeReport
    from keepstone.maintenance.review import Decision
    from keepstone.maintenance.scheduler import Scheduler
    from keepstone.maintenance.upkeep import Policy
    from keepstone.maintenance.verification import VerifyReport
    from keepstone.memory import Memory
    from keepstone.vector_sync.drift import Repaired


class AsyncUpkeep:
    """What `AsyncMemory.upkeep` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

    async def repair_index(self, *, progress: Progress | None = None) -> Repaired:
        """Put into the index of vectors what is missing there, and take out what should not be. IndexUnavailable."""
        return await self._memory._run(lambda memory: memory.upkeep.repair_index(progress=progress))

    async def rebuild_index(self, *, progress: Progress | None = None) -> int:
        """Empty the index of vectors and put every memory in again. How many. IndexUnavailable."""
        return await self._memory._run(lambda memory: memory.upkeep.rebuild_index(progress=progress))

    async def run(self, policy: Policy = None, *, dry_run: bool = False, progress: Progress | None = None) -> RunReport:
        """Do what a policy says in every scope of the store, and work on what waits for a model. The policy is a dictionary, a
        TOML file, or None for the default. Of several processes one runs it; in the others the report's `ran` is False."""
        return await self._memory._run(lambda memory: memory.upkeep.run(policy, dry_run=dry_run, progress=progress))

    async def schedule(self, policy: Policy = None, *, every: timedelta | float = 86400) -> Scheduler:
        """Run a policy every so often (a timedelta or seconds) in a thread of this process, until the memory is closed or the
        scheduler stopped. Of several processes on one store one runs it in each period."""
        return await self._memory._run(lambda memory: memory.upkeep.schedule(policy, every=every))

    async def age(
        self,
        *,
        older_than: timedelta | float = 31536000.0,
        kinds: Iterable[str] | None = None,
        keyed: bool = False,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Put aside what was neither changed nor read for `older_than` (a timedelta or seconds; a year): of these kinds, or of
        all but messages; values under keys only where `keyed` is set."""
        return await self._memory._run(
            lambda memory: memory.upkeep.age(older_than=older_than, kinds=kinds, keyed=keyed, dry_run=dry_run)
        )

    async def lapse(self, *, dry_run: bool = False) -> ArchiveReport:
        """Put aside what has outlived its time to live, so that `purge` can erase it in time."""
        return await self._memory._run(lambda memory: memory.upkeep.lapse(dry_run=dry_run))

    async def consolidate(
        self, *, importance: float = 0.3, reads: int = 1, older_than: timedelta | float = 2592000.0, dry_run: bool = False
    ) -> ArchiveReport:
        """Put aside this scope's facts that matter less than `importance`, were read at most `reads` times, and were neither
        changed nor read for `older_than` (a timedelta or seconds; 30 days)."""
        return await self._memory._run(
            lambda memory: memory.upkeep.consolidate(importance=importance, reads=reads, older_than=older_than, dry_run=dry_run)
        )

    async def cap(self, most: int, *, kinds: Iterable[str] | None = None, dry_run: bool = False) -> ArchiveReport:
        """Put aside what is over where the scope may have `most` memories of these kinds (facts, notes, episodes, summaries): the
        least important, least read, longest untouched first. Values under keys stay."""
        return await self._memory._run(lambda memory: memory.upkeep.cap(most, kinds=kinds, dry_run=dry_run))

    async def archived(self, *, limit: int = 1000) -> Sequence[ArchivedRecord]:
        """What is put aside at present, the longest first, with why and since when."""
        return await self._memory._run(lambda memory: memory.upkeep.archived(limit=limit))

    async def undo(self, ticket: int) -> tuple[str, ...]:
        """Take back what one job has put aside, by the `ticket` of its report. The ids that came back."""
        return await self._memory._run(lambda memory: memory.upkeep.undo(ticket))

    async def restore(self, ids: Iterable[str]) -> int:
        """Bring back these records, unless the same has been remembered anew. How many came back."""
        return await self._memory._run(lambda memory: memory.upkeep.restore(ids))

    async def purge(
        self,
        *,
        after: timedelta | float = 2592000.0,
        why: Collection[ArchiveReason] | None = None,
        dry_run: bool = False,
        trust_clock: bool = False,
    ) -> PurgeReport:
        """Erase what has been aside for longer than `after` (a timedelta or seconds; 30 days); what was compacted stays. A clock
        that has jumped ahead is not believed unless `trust_clock` is set."""
        return await self._memory._run(
            lambda memory: memory.upkeep.purge(after=after, why=why, dry_run=dry_run, trust_clock=trust_clock)
        )

    async def compact(
        self,
        *,
        older_than: timedelta | float = 2592000.0,
        kinds: Collection[str] = ("fact", "note"),
        tag: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CompactReport:
        """Condense related memories that were not changed for `older_than` into fewer: by the model, or by their own sentences
        where there is none. The originals are put aside for good, as parents of what replaces them."""
        return await self._memory._run(
            lambda memory: memory.upkeep.compact(older_than=older_than, kinds=kinds, tag=tag, dry_run=dry_run, progress=progress)
        )

    async def verify(
        self,
        *,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        stale_after: timedelta | float = 15552000,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check memories against newer messages, and against the probes in their metadata for which `handlers` has a function.
        What is stale, contradicted or unsupported goes on the review list."""
        return await self._memory._run(
            lambda memory: memory.upkeep.verify(handlers=handlers, stale_after=stale_after, dry_run=dry_run, progress=progress)
        )

    async def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Embed every record of the store that waits for its vector; with `embedder`, move the store to that one: new vectors are
        gathered beside the old, which answer meanwhile, then the store changes over at once.

        Can be stopped and run again: it goes on where it was."""
        return await self._memory._run(lambda memory: memory.upkeep.reembed(embedder=embedder, progress=progress))

    async def health(self, path: str | PathLike[str] | None = None, *, format: str = "auto", most: int = 100) -> HealthReport:
        """Look for duplicates, echoes, junk, secrets, what is stale, contradicted, orphaned or never recalled, without any model.
        With a path: in an export of mem0, Letta, LangMem or keepstone. The report's plan says what `fix` would do."""
        return await self._memory._run(lambda memory: memory.upkeep.health(path, format=format, most=most))

    async def fix(self, *, checks: Collection[str] | None = None, dry_run: bool = False) -> FixReport:
        """Carry out the health report's plan, for these checks or all: put aside (can be undone), redact, flag for review."""
        return await self._memory._run(lambda memory: memory.upkeep.fix(checks=checks, dry_run=dry_run))


class AsyncReview:
    """What `AsyncMemory.review` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

    async def list(self, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        """What waits for a decision, oldest first; `state` shows what was decided ("kept", "corrected", "retired"). `after` is
        the number of the last item that was seen."""
        return await self._memory._run(lambda memory: memory.review.list(state=state, limit=limit, after=after))

    async def resolve(self, number: int, decision: Decision, *, content: str | None = None, by: str = "user") -> Receipt:
        """Decide about one item: "keep" (it is right: quarantine ends, and what would have expired unconfirmed stays), "correct"
        (it says `content` from now on, the old wording stays in its history) or "retire" (it is put aside; bring_back undoes it).

        Raises NotFound for a number that is not open, Conflict if the memory was reworded since it was flagged."""
        return await self._memory._run(lambda memory: memory.review.resolve(number, decision, content=content, by=by))


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
        """Append an exported conversation, all of it or, if anything is wrong, nothing. How many messages: those that the policy
        for sensitive data refuses are left out."""
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
