"""AsyncMemory: the verbs of Memory for asyncio, run in worker threads. Made by tools/make_aio.py; do not edit.

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
from keepstone.memory import Memory, Path, Time
from keepstone.ports.maintenance import ChainReport
from keepstone.ports.stores import Progress, Reranker
from keepstone.types import (
    AuditRow,
    Diagnosis,
    Explanation,
    ForgetReceipt,
    ImportReport,
    Page,
    Recall,
    Receipt,
    Record,
    Scope,
    Version,
)

if TYPE_CHECKING:
    from keepstone.maintenance.diff import Diff
    from keepstone.settings import Settings
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
    def open(
        cls,
        target: Path = "keepstone.db",
        *,
        tenant: str = "local",
        agent: str = "default",
        user: str = "",
        embedder: Any = "auto",
        model: Any = None,
        buffer: Any = None,
        index: Any = None,
        settings: Settings | Mapping[str, Any] | None = None,
        reranker: Reranker | None = None,
    ) -> AsyncMemory:
        """Open a store, creating it on first use, and act in one scope of it.

        `target` is a file path or ":memory:". `embedder` is a name ("auto", "static", "none"), an Embedder or a
        callable from texts to vectors. `model` finds facts and makes summaries: "anthropic:NAME", "openai:NAME",
        "openai:NAME@URL", "ollama:NAME", a ChatModel or a function; without one, rules do. `reranker` is a function from
        (query, texts) to scores from 0 to 1 that reads the best hits again; without one nothing is read twice.
        Raises ConfigurationError, StoreDamaged, EmbedderMismatch."""
        opener = Opener(
            lambda: Memory.open(
                target,
                tenant=tenant,
                agent=agent,
                user=user,
                embedder=embedder,
                model=model,
                buffer=buffer,
                index=index,
                settings=settings,
                reranker=reranker,
            )
        )
        return cls(opener, Scope(tenant, agent, user))

    @property
    def scope(self) -> Scope:
        """Whose memory this is."""
        return self._scope

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> AsyncMemory:
        """The same store seen from another scope; connections and caches are shared, so this is cheap. None keeps a part
        of the scope as it is. Closing the view leaves the store open for the Memory it came from."""
        return AsyncMemory(self._opener, self._scope.narrowed(tenant, agent, user), view=True)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """Jobs that keep the store in order."""
        return AsyncUpkeep(self)

    @property
    def review(self) -> AsyncReview:
        """What a person should look at: quarantined, stale, contradicted, unsupported; `list()` and `resolve()` work through."""
        return AsyncReview(self)

    @property
    def jobs(self) -> AsyncJobs:
        """Work on this scope's messages that waits for a model, or has failed."""
        return AsyncJobs(self)

    @property
    def working(self) -> WorkingMemory:
        """What is in hand: task, goals, results, thoughts, variables. One for each Memory. Opens the store if nothing has yet."""
        return self._memory().working

    def conversation(self, session: str, **limits: Any) -> AsyncConversation:
        """One session's messages, kept as they are said, and what a model is given of them.

        Limits: `max_messages` and `max_tokens` of what a model is given, `counter` (a function that counts a text's tokens),
        `model` (for summaries; None: the memory's own, or sentences picked out), `summarise` (False: older messages are only
        left out)."""
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

    async def remember(
        self,
        content: str,
        *,
        kind: str = "fact",
        tag: str = "general",
        key: str | None = None,
        importance: float = 0.5,
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | float | None = None,
        source: str = "user",
        session: str | None = None,
        occurred_at: Time | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Store one memory and say what became of it. When this returns, the content is on disk.

        Raises ValidationError for content that cannot be taken, Conflict for an idempotency key used before with
        another body, StoreError when the store cannot write."""
        return await self._run(
            lambda memory: memory.remember(
                content,
                kind=kind,
                tag=tag,
                key=key,
                importance=importance,
                metadata=metadata,
                ttl=ttl,
                source=source,
                session=session,
                occurred_at=occurred_at,
                idempotency_key=idempotency_key,
            )
        )

    async def remember_many(self, items: Iterable[str | Mapping[str, Any]]) -> list[Receipt]:
        """Store up to 100 memories in one transaction, all or none; an item is text or remember()'s arguments."""
        return await self._run(lambda memory: memory.remember_many(items))

    async def update(
        self,
        id: str,
        content: str | None = None,
        *,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        occurred_at: Time | None = None,
    ) -> Receipt:
        """Change a record; what it was stays in its history. `occurred_at` says since when the new content holds, where that is
        not from now on: the past as known now changes, the past as it was known then does not. Raises NotFound, Conflict,
        ValidationError."""
        return await self._run(
            lambda memory: memory.update(
                id, content, importance=importance, metadata=metadata, expected_version=expected_version, occurred_at=occurred_at
            )
        )

    async def forget(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        source: str | None = None,
        session: str | None = None,
        everything: bool = False,
    ) -> ForgetReceipt:
        """Erase one record, a key, all that came from a source or a session, or everything in this scope.

        Text, words, vector and history go, with whatever was derived from it and nobody said elsewhere, and no byte of the text
        stays in the file; the receipt counts what went where. Exactly one of the arguments is needed. Raises NotFound for an
        unknown id or key, ValidationError for none or several arguments."""
        return await self._run(lambda memory: memory.forget(id, key=key, source=source, session=session, everything=everything))

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        kinds: Iterable[str] | None = None,
        tag: str | None = None,
        filter: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
        min_importance: float = 0.0,
        max_tokens: int | None = None,
        as_of: Time | None = None,
        known_at: Time | None = None,
        min_trust: float | None = None,
        session: str | None = None,
        asked_at: Time | None = None,
    ) -> Recall:
        """The memories that answer a query, best first, each with the parts of its score.

        `min_similarity` keeps out what is not relevant (None: the default, 0: nothing is kept out). `as_of` asks what
        was true then, `known_at` what was known then. "Last week" and the like are read as of `asked_at` (None: now).
        Raises ValidationError."""
        return await self._run(
            lambda memory: memory.recall(
                query,
                limit=limit,
                kinds=kinds,
                tag=tag,
                filter=filter,
                min_similarity=min_similarity,
                min_importance=min_importance,
                max_tokens=max_tokens,
                as_of=as_of,
                known_at=known_at,
                min_trust=min_trust,
                session=session,
                asked_at=asked_at,
            )
        )

    async def get(self, id: str | None = None, *, key: str | None = None) -> Record | None:
        """One record by its id, or the one that stands under a key now; None where there is none."""
        return await self._run(lambda memory: memory.get(id, key=key))

    async def list(
        self,
        *,
        tag: str | None = None,
        kind: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        """Records, newest first, a page at a time. Raises ValidationError for a cursor of another query or scope."""
        return await self._run(lambda memory: memory.list(tag=tag, kind=kind, filter=filter, limit=limit, cursor=cursor))

    async def history(self, id: str) -> Sequence[Version]:
        """Every version of a record, oldest first. Raises NotFound."""
        return await self._run(lambda memory: memory.history(id))

    async def why(self, query: str, id: str) -> Explanation:
        """How a record scores for a query, part by part. Raises NotFound."""
        return await self._run(lambda memory: memory.why(query, id))

    async def why_not(self, query: str, id: str) -> Explanation:
        """What kept a record out of the hits of a query. Raises NotFound."""
        return await self._run(lambda memory: memory.why_not(query, id))

    async def audit(self, *, since: Time | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """What was done in this scope, newest first; never content."""
        return await self._run(lambda memory: memory.audit(since=since, limit=limit))

    async def verify_audit(self, *, head: str | None = None) -> ChainReport:
        """Whether this tenant's audit trail is what was written: every row holds a hash of the one before. Keep the report's
        `head` elsewhere and give it to a later check, and nobody can have written the whole trail anew."""
        return await self._run(lambda memory: memory.verify_audit(head=head))

    async def diff(self, since: Time, until: Time | None = None, *, kinds: Sequence[str] | None = None) -> Diff:
        """What came, changed and went between what was known at two times; until None: now."""
        return await self._run(lambda memory: memory.diff(since, until, kinds=kinds))

    async def set(self, key: str, value: Any, *, category: str = "general") -> Receipt:
        """Save a value under a key; the old value stays in history. Any JSON value can be saved."""
        return await self._run(lambda memory: memory.set(key, value, category=category))

    async def value(self, key: str, default: Any = None) -> Any:
        """The current value of a key, or the default."""
        return await self._run(lambda memory: memory.value(key, default))

    async def category(self, name: str) -> Sequence[Record]:
        """Every fact of a category (a tag), the last updated first; messages are left out."""
        return await self._run(lambda memory: memory.category(name))

    async def export(self, path: Path, *, progress: Progress | None = None) -> int:
        """Write the scope as JSONL, a record with its history on each line. Returns the number of records."""
        return await self._run(lambda memory: memory.export(path, progress=progress))

    async def export_everything(self, path: Path, *, progress: Progress | None = None) -> int:
        """Write all that is kept of this user in this tenant, with every agent: memories with their past, states, jobs, reviews
        and the trail, one JSON object a line. For access requests; `export` is what can be imported. Returns the lines."""
        return await self._run(lambda memory: memory.export_everything(path, progress=progress))

    async def import_(self, path: Path, *, source: str | None = None, progress: Progress | None = None) -> ImportReport:
        """Read an export into this scope: all lines or, if any is bad, none. Records that exist are skipped. Sources stay as the
        file has them, none trusted more than its class; with `source`, everything counts as that source's word."""
        return await self._run(lambda memory: memory.import_(path, source=source, progress=progress))

    async def backup(self, path: Path, *, progress: Progress | None = None) -> None:
        """A consistent copy of the whole store, made while it is in use."""
        return await self._run(lambda memory: memory.backup(path, progress=progress))

    async def doctor(self, *, progress: Progress | None = None) -> Diagnosis:
        """Check the whole store: engine, content hashes, text = words = vectors."""
        return await self._run(lambda memory: memory.doctor(progress=progress))

    async def close(self) -> None:
        """Write what is buffered and close the store; a view made by with_scope() leaves it open. Safe to call twice."""
        if not self._view:
            await asyncio.to_thread(self._opener.close)
        elif self._opener.opened:
            await self._run(lambda memory: memory.close())

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncMemory:
        await asyncio.to_thread(self._opener)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
