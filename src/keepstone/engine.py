"""Engine: everything that the Memories on one store share, wired by open.py.

The flows that every call needs are made at once. The others are imported and made on first use, so that a process that only
recalls does not pay for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.errors import ConfigurationError
from keepstone.guard.guard import Guard
from keepstone.maintenance.forgetting import Eraser
from keepstone.ports.caches import Buffer
from keepstone.ports.chat import ChatModel
from keepstone.ports.queue import StateStore
from keepstone.ports.stores import Clock, Embedder, Progress, Reranker, Store
from keepstone.recall.access import AccessCounter
from keepstone.recall.flow import RecallFlow
from keepstone.recall.lookups import Lookups
from keepstone.scope_index.cache import IndexCache
from keepstone.scope_index.segments import Segments
from keepstone.settings import Settings
from keepstone.types import Finding, Record, Scope
from keepstone.write.flow import WriteFlow, WriteRules
from keepstone.write.key_values import KeyValues

if TYPE_CHECKING:
    from keepstone.agent.handlers import Toolbox
    from keepstone.agent.prompt import SystemPrompts
    from keepstone.conversation.conversation import Conversation
    from keepstone.conversation.conversations import Conversations
    from keepstone.conversation.flow import Limits, WindowBuilder
    from keepstone.learning.consolidation import ConversationConsolidator
    from keepstone.learning.flow import Learner
    from keepstone.learning.jobs import Queue, ScopeJobs
    from keepstone.maintenance.audit import Audit
    from keepstone.maintenance.policy import RunReport, Scheduler, UpkeepPolicy
    from keepstone.maintenance.reembedding import ReembedReport
    from keepstone.maintenance.review import ReviewList
    from keepstone.maintenance.transfer import Transfer
    from keepstone.maintenance.upkeep import Upkeep, UpkeepJobs
    from keepstone.tasks.chat_export import ChatExport
    from keepstone.tasks.context import Contexts
    from keepstone.tasks.flow import TaskFlow, Tasks
    from keepstone.tasks.working_memory import WorkingMemory
    from keepstone.vector_sync.indexing import Indexing

for _name in ("keepstone", "psycopg"):
    logging.getLogger(_name).addHandler(logging.NullHandler())  # applications that want the log add a handler
_CLOSE_TIMEOUT_SECONDS = 2.0  # that closing waits for the current job; the rest stays in the queue


@dataclass(frozen=True, slots=True)
class Makers:
    """How an engine makes adapters that are named after it was opened."""

    embedder: Callable[[Any], Embedder | None]
    model: Callable[[Any], ChatModel | None]


@dataclass(frozen=True, slots=True)
class Adapters:
    """What an engine is wired to: `target` names the store in messages, without a password."""

    target: str
    store: Store
    embedder: Embedder | None
    model: ChatModel | None
    buffer: Buffer
    indexing: Indexing | None
    segments: Segments | None
    reranker: Reranker | None
    clock: Clock
    makers: Makers


class Engine:
    """One store with its embedder, model, caches and flows; closed once for all."""

    def __init__(self, adapters: Adapters, settings: Settings, guard: Guard, rules: WriteRules) -> None:
        store, embedder, indexing, clock = adapters.store, adapters.embedder, adapters.indexing, adapters.clock
        self.target = adapters.target
        self.store = store
        self.model = adapters.model
        self.makers = adapters.makers
        self.settings = settings
        self.clock = clock
        self._lock = threading.RLock()
        self._buffer, self.indexing = adapters.buffer, indexing
        # With an external vector index nothing is cached: every query goes to it.
        self.cache = IndexCache(store, 0 if indexing is not None else settings.cache_mb * 1024 * 1024, adapters.segments)
        if adapters.segments is not None:
            adapters.segments.attach(self.cache.erase)
        self._accesses = AccessCounter(store)
        self.writing = WriteFlow(store, embedder, clock, guard, rules)
        least = (settings.min_similarity, adapters.reranker, settings.min_trust, None if indexing is None else indexing.nearest)
        self.recalling = RecallFlow(store, self.cache, embedder, self._accesses, clock, guard, *least)
        self.reading = Lookups(store, self._accesses)
        self.values = KeyValues(store, self.writing, self._read)
        self.eraser = Eraser(store, lambda scope, session: self.consolidator.consolidate(scope, session))
        self._guard = guard
        self._schedulers: list[Scheduler] = []
        self._closed = False
        if adapters.model is not None and store.jobs.next_due(("extract",)) is not None:
            self.queue.wake()  # an earlier process has left work

    def _read(self, scope: Scope, record: Record) -> None:
        """Count the reading of a value, as recall does of memories."""
        sequence = self.store.sequence_of(scope, record.id)
        if sequence is not None:
            self._accesses.count_reads(scope, [(record.id, sequence)], self.clock())

    @property
    def unguarded_states(self) -> StateStore:
        """States that the guard does not screen: those keepstone makes itself, such as keys."""
        states: StateStore = getattr(self.store, "unguarded_states", self.store.states)
        return states

    # -- made on first use ----------------------------------------------------------------------------------------
    @cached_property
    def transfer(self) -> Transfer:
        from keepstone.maintenance.transfer import Transfer

        return Transfer(self.target, self.store, self.writing.embedder, self._accesses, self._examine_adapters)

    def _examine_adapters(self, progress: Progress | None) -> list[Finding]:
        """What is wrong with the vector index and the buffer."""
        findings = [] if self.indexing is None else self.indexing.examine(progress)
        self._buffer.window(Scope("local", "doctor", ""), None)  # a request, so that `problem` is current
        if self._buffer.problem is not None:
            remedy = "see that it runs and can be reached; until then everything is read from the store"
            findings.append(Finding("buffer", f"{self._buffer.name}: {self._buffer.problem}", remedy))
        return findings

    def index(self) -> Indexing:
        """The vector index; ConfigurationError where there is none."""
        if self.indexing is None:
            raise ConfigurationError("this memory has no index of its own: open it with index='chroma:…' or set KEEPSTONE_INDEX.")
        return self.indexing

    @cached_property
    def queue(self) -> Queue:
        from keepstone.learning.extraction import FactExtractor
        from keepstone.learning.jobs import Queue

        with self._lock:  # a second one would have a second thread
            if "queue" not in self.__dict__:
                lease = timedelta(seconds=self.settings.model_timeout * (self.settings.model_retries + 2) + 60)
                extractor = FactExtractor(self.store, self.writing, self.recalling, self.model, self.clock)
                self.__dict__["queue"] = Queue(self.store, extractor, self.clock, lease, self.settings.worker)
            queue: Queue = self.__dict__["queue"]
            return queue

    @cached_property
    def learner(self) -> Learner:
        from keepstone.learning.flow import Learner

        after, extract = self.settings.extract_after, self.settings.extract
        return Learner(self.store, self.writing, self.model, self.clock, lambda: self.queue.wake(), after, extract)

    @cached_property
    def window_builder(self) -> WindowBuilder:
        from keepstone.conversation.flow import WindowBuilder

        return WindowBuilder(self.store, self.model)

    @cached_property
    def consolidator(self) -> ConversationConsolidator:
        from keepstone.learning.consolidation import ConversationConsolidator

        return ConversationConsolidator(self.store, self.writing, self.model, self.clock)

    @cached_property
    def task_flow(self) -> TaskFlow:
        from keepstone.tasks.flow import TaskFlow

        return TaskFlow(self.learner, self.recalling, self.writing)

    @cached_property
    def chat_export(self) -> ChatExport:
        from keepstone.tasks.chat_export import ChatExport

        return ChatExport(self.store)

    @cached_property
    def contexts(self) -> Contexts:
        from keepstone.tasks.context import Contexts

        return Contexts(self.recalling, self.clock)

    @cached_property
    def toolbox(self) -> Toolbox:
        from keepstone.agent.handlers import Toolbox

        return Toolbox(self.store, self.writing, self.recalling, self.eraser, self.clock)

    @cached_property
    def prompts(self) -> SystemPrompts:
        from keepstone.agent.prompt import SystemPrompts

        return SystemPrompts(self.store, self.contexts)

    # -- what a Memory has of its own -----------------------------------------------------------------------------
    def conversation(self, scope: Scope, session: str, limits: dict[str, Any], *, withhold: bool = False) -> Conversation:
        """One session of a scope. `withhold` leaves out what waits for a review."""
        from keepstone.conversation.conversation import Conversation

        chosen = replace(self.limits(limits), withhold=withhold)
        return Conversation(self.store, scope, session, chosen, self.window_builder, self.learner, self.consolidator)

    def limits(self, given: dict[str, Any]) -> Limits:
        """Limits of a conversation from keyword arguments; a model may be named."""
        from keepstone.conversation.conversation import checked
        from keepstone.conversation.flow import Limits

        if given.get("model") is not None:
            given = {**given, "model": self.makers.model(given["model"])}
        return checked(Limits(), given)

    def upkeep(self, scope: Scope) -> Upkeep:
        """Maintenance of a scope and its store."""
        from keepstone.maintenance.upkeep import Upkeep

        return Upkeep(scope, self._upkeep)

    @cached_property
    def _upkeep(self) -> UpkeepJobs:
        from keepstone.guard.sensitive import find_sensitive
        from keepstone.maintenance.compaction import Compactor
        from keepstone.maintenance.policy import PolicyRunner
        from keepstone.maintenance.retention import Retention
        from keepstone.maintenance.upkeep import UpkeepJobs
        from keepstone.maintenance.verification import Verifier

        compactor = Compactor(self.store, self.writing, self.model, self.clock)
        verifier = Verifier(self.store, self.clock)
        policy_runner = PolicyRunner(
            self.store,
            lambda scope: Retention(scope, self.store, self._accesses, self.clock),
            compactor,
            verifier,
            lambda progress, scope=None: self.queue.run(scope, progress),
        )
        return UpkeepJobs(
            self.store,
            self._accesses,
            self.clock,
            find_sensitive,
            self._guard.redacts,
            compactor,
            verifier,
            policy_runner,
            self._reembed,
            self._scheduled,
            self.index,
            lambda progress: self.transfer.doctor(progress),
        )

    def run_upkeep(self, tenant: str, policy: UpkeepPolicy, dry_run: bool) -> RunReport:
        """Run maintenance over one tenant."""
        return self._upkeep.policy_runner.run(policy, dry_run, None, tenant)

    def _scheduled(self, scheduler: Scheduler) -> Scheduler:
        self._schedulers.append(scheduler)
        return scheduler

    def review(self, scope: Scope) -> ReviewList:
        """The review list of a scope."""
        from keepstone.maintenance.review import ReviewList

        return ReviewList(self.store, self.writing, scope)

    def audit(self, scope: Scope) -> Audit:
        """The audit log of a scope."""
        from keepstone.maintenance.audit import Audit

        return Audit(self.store, self.reading, scope, self.clock)

    def conversations(self, scope: Scope) -> Conversations:
        """The sessions of a scope."""
        from keepstone.conversation.conversations import Conversations

        return Conversations(
            self.store,
            scope,
            lambda session, limits: self.conversation(scope, session, limits),
            lambda path, format, only_successes: self.transfer.write_lines(
                path, self.chat_export.lines(scope, format, only_successes)
            ),
        )

    def tasks(self, scope: Scope, working: WorkingMemory) -> Tasks:
        """The task of a working memory."""
        from keepstone.tasks.flow import Tasks

        return Tasks(self.task_flow, scope, working)

    def export_everything(self, scope: Scope, path: str | PathLike[str], progress: Progress | None) -> int:
        """Write everything stored about a user."""
        from keepstone.maintenance.transfer import everything

        self._accesses.flush()
        return self.transfer.write_lines(path, everything(self.store, scope), 0, progress)

    def jobs(self, scope: Scope) -> ScopeJobs:
        """The queued work of a scope."""
        from keepstone.learning.jobs import ScopeJobs

        return ScopeJobs(self.queue, self.store, scope)

    def _reembed(self, spec: Any, progress: Progress | None) -> ReembedReport:
        from keepstone.maintenance.reembedding import move, reembed

        embedder = self.writing.embedder if spec is None else self.makers.embedder(spec)
        if embedder is None:
            raise ConfigurationError("this memory was opened without an embedder: name one, reembed(embedder='static').")
        if spec is not None:
            return move(self.store, embedder, progress, lambda: self._use(embedder))
        if self.store.embedder() is None:
            self.store.bind_embedder(embedder.id, embedder.dimension)
        return reembed(self.store, embedder, progress)

    def _use(self, embedder: Embedder) -> None:
        """Embed everything with this embedder from now on."""
        self.store.bind_embedder(embedder.id, embedder.dimension)
        self.writing.embedder = self.recalling.embedder = self.transfer.embedder = embedder

    def flush(self) -> None:
        """Write what is buffered."""
        if not self._closed:
            self._accesses.flush()

    def close(self) -> None:
        """Let the current job end, write what is buffered and close the store."""
        if not self._closed:
            self._closed = True
            try:
                for scheduler in self._schedulers:
                    scheduler.stop(_CLOSE_TIMEOUT_SECONDS)
                if "queue" in self.__dict__:
                    self.queue.stop(_CLOSE_TIMEOUT_SECONDS)
                self._accesses.flush()
            finally:
                self.cache.close()
                self.store.close()
