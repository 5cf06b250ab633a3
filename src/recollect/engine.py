"""Engine: everything that the Memories on one store share, wired by open.py. Imports: flows, ports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from recollect.agent.handlers import Toolbox
from recollect.agent.prompt import system_prompt
from recollect.chat import ChatModel
from recollect.converse.conversation import Conversation, checked
from recollect.converse.flow import Conversing, Limits, message_of_record
from recollect.desk import Session
from recollect.errors import ConfigurationError
from recollect.learn.consolidation import Consolidating
from recollect.learn.extraction import Extraction
from recollect.learn.flow import Learning
from recollect.learn.jobs import Queue, ScopeJobs
from recollect.ports import Clock, Embedder, Progress, Reranker, Store
from recollect.recall.access import AccessLog
from recollect.recall.flow import Recalling
from recollect.recall.query import whole
from recollect.recall.reading import Reading
from recollect.scopeindex.cache import IndexCache
from recollect.settings import Settings
from recollect.types import Message, Scope
from recollect.upkeep.fading import Fading
from recollect.upkeep.forgetting import Forgetting
from recollect.upkeep.jobs import Upkeep
from recollect.upkeep.moving import Moving
from recollect.upkeep.reembedding import ReembedReport, reembed
from recollect.work.context import Contexts
from recollect.work.tasks import Tasks, brought_up_to_date, session_of
from recollect.work.trail import Trail
from recollect.work.working import WorkingMemory
from recollect.write.flow import Writing
from recollect.write.values import Values

logging.getLogger("recollect").addHandler(logging.NullHandler())  # who wants to see the log says so
_TAGS = 40  # named in a prompt
_PATIENCE = 2.0  # seconds that closing waits for the job in hand; what is not done stays in the queue


@dataclass(frozen=True, slots=True)
class Makers:
    """How an engine makes adapters that are named after it was opened."""

    embedder: Callable[[Any], Embedder | None]
    model: Callable[[Any], ChatModel | None]


class Engine:
    """One store with its embedder, model, caches and flows; closed once for all."""

    def __init__(
        self,
        target: str,
        store: Store,
        embedder: Embedder | None,
        settings: Settings,
        clock: Clock,
        makers: Makers,
        reranker: Reranker | None = None,
        model: ChatModel | None = None,
    ) -> None:
        self.target = target
        self.store = store
        self.model = model
        self.makers = makers
        self.cache = IndexCache(store, settings.cache_mb * 1024 * 1024)
        self._accesses = AccessLog(store)
        self.writing = Writing(store, embedder, clock)
        self.recalling = Recalling(store, self.cache, embedder, self._accesses, clock, settings.min_similarity, reranker)
        self.reading = Reading(store, self._accesses)
        self.values = Values(store, self.writing)
        self.forgetting = Forgetting(store)
        self.moving = Moving(target, store, embedder, self._accesses)
        self.queue = self._queue(settings, clock)
        wake = self.queue.wake
        self.learning = Learning(store, self.writing, model, clock, wake, settings.extract_after, settings.extract)
        self.conversing = Conversing(store, model)
        self.consolidating = Consolidating(store, self.writing, model, clock)
        self.tasks = Tasks(self.learning, self.recalling, self.writing)
        self.trail = Trail(store)
        self.contexts = Contexts(self.recalling, clock)
        self.toolbox = Toolbox(store, self.writing, self.recalling, self.forgetting, clock, settings.tool_writes_per_minute)
        self._fading = Fading(store, self._accesses, clock)
        self._closed = False
        if model is not None and store.jobs.next_due(("extract",)) is not None:
            self.queue.wake()  # work that an earlier process has left

    def _queue(self, settings: Settings, clock: Clock) -> Queue:
        lease = timedelta(seconds=settings.model_timeout * (settings.model_retries + 2) + 60)
        extraction = Extraction(self.store, self.writing, self.recalling, self.model, clock)
        return Queue(self.store, extraction, clock, lease, settings.worker)

    # -- what a Memory has of its own -----------------------------------------------------------------------------
    def conversation(self, scope: Scope, session: str, limits: dict[str, Any]) -> Conversation:
        """One session of a scope."""
        return Conversation(self.store, scope, session, self.limits(limits), self.conversing, self.learning, self.consolidating)

    def limits(self, given: dict[str, Any]) -> Limits:
        """Limits as they were asked for; a model may be named."""
        if given.get("model") is not None:
            given = {**given, "model": self.makers.model(given["model"])}
        return checked(Limits(), given)

    def working(self, scope: Scope) -> WorkingMemory:
        """A working memory that is saved in a scope."""
        states = self.store.states
        return WorkingMemory(
            lambda name, value, task: states.put(scope, name, value, session=None if task is None else session_of(task)),
            lambda name: states.get(scope, name),
            lambda name: states.drop(scope, name),
            lambda working: brought_up_to_date(self.store, scope, working),
        )

    def recent(self, scope: Scope, n: int) -> list[Message]:
        """A user's last messages across sessions."""
        found = self.store.turns.page(scope, None, limit=whole(n, "n", 0, 100_000)) if n else []
        return [message_of_record(record) for _, record in found]

    def sessions(self, scope: Scope, limit: int) -> Sequence[Session]:
        """The conversations of a scope."""
        return self.store.turns.sessions(scope, whole(limit, "limit", 1, 10_000))

    def export_chats(self, scope: Scope, path: Path, format: str, only_successes: bool) -> int:
        """Conversations and tasks as training data."""
        return self.moving.write_lines(path, self.trail.lines(scope, format, only_successes))

    def system_prompt(self, scope: Scope, working: WorkingMemory, query: str, max_tokens: int) -> str:
        """The rules of remembering, and what is known where something is asked or in hand."""
        about = query if query and query.strip() else working.task or ""
        context = self.contexts.block(scope, about[:4000], max_tokens, working) if about else ""
        return f"{self.rules(scope)}\n\n{context}" if context else self.rules(scope)

    def rules(self, scope: Scope) -> str:
        """The rules of remembering with the tags in use: the same from call to call while no new tag comes up."""
        return system_prompt(sorted(tag for tag, _ in self.store.tags(scope, _TAGS)))

    def upkeep(self, scope: Scope) -> Upkeep:
        """The jobs that keep a store in order, and one scope of it."""
        return Upkeep(scope, self._reembed, lambda progress: self.queue.run(None, progress), self._fading)

    def jobs(self, scope: Scope) -> ScopeJobs:
        """The queued work of a scope."""
        return ScopeJobs(self.queue, self.store, scope, self.queue.wake)

    def _reembed(self, spec: Any, progress: Progress | None) -> ReembedReport:
        embedder = self.writing.embedder if spec is None else self.makers.embedder(spec)
        if embedder is None:
            raise ConfigurationError("this memory was opened without an embedder: name one, reembed(embedder='static').")
        if spec is not None:
            self.store.change_embedder(embedder.id, embedder.dimension)
            self.writing.embedder = self.recalling.embedder = self.moving.embedder = embedder
        elif self.store.embedder() is None:
            self.store.bind_embedder(embedder.id, embedder.dimension)
        return reembed(self.store, embedder, progress)

    def flush(self) -> None:
        """Write what is buffered."""
        if not self._closed:
            self._accesses.flush()

    def close(self) -> None:
        """Let the work in hand end, write what is buffered and close the store."""
        if not self._closed:
            self._closed = True
            try:
                self.queue.stop(_PATIENCE)
                self._accesses.flush()
            finally:
                self.store.close()
