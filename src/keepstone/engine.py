"""Engine: everything that the Memories on one store share, wired by open.py.

What every call needs is made at once; the flows of talking and doing are made, and imported, when one is first asked for, so that
a process that only recalls does not pay for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from os import PathLike
from pathlib import Path
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
    logging.getLogger(_name).addHandler(logging.NullHandler())  # who wants to see the log says so
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
        guard: Guard,
        rules: WriteRules,
        reranker: Reranker | None = None,
        model: ChatModel | None = None,
        buffer: Buffer | None = None,
        indexing: Indexing | None = None,
        segments: Segments | None = None,
    ) -> None:
        self.target = target
        self.store = store
        self.model = model
        self.makers = makers
        self.settings = settings
        self.clock = clock
        self._making = threading.RLock()
        self._buffer, self.indexing = buffer, indexing
        # With an index of vectors elsewhere nothing is held here: every question goes to it.
        self.cache = IndexCache(store, 0 if indexing is not None else settings.cache_mb * 1024 * 1024, segments)
        if segments is not None:
            segments.attach(self.cache.erase)
        self._accesses = AccessCounter(store)
        self.writing = WriteFlow(store, embedder, clock, guard, rules)
        least = (settings.min_similarity, reranker, settings.min_trust, None if indexing is None else indexing.nearest)
        self.recalling = RecallFlow(store, self.cache, embedder, self._accesses, clock, guard, *least)
        self.reading = Lookups(store, self._accesses)
        self.values = KeyValues(store, self.writing, self._read)
        self.eraser = Eraser(store, lambda scope, session: self.consolidator.consolidate(scope, session))
        self._guard = guard
        self._schedulers: list[Scheduler] = []
        self._closed = False
        if model is not None and store.jobs.next_due(("extract",)) is not None:
            self.queue.wake()  # work that an earlier process has left

    def _read(self, scope: Scope, record: Record) -> None:
        """Count the reading of a value, as recall does of memories."""
        sequence = self.store.sequence_of(scope, record.id)
        if sequence is not None:
            self._accesses.count_reads(scope, [(record.id, sequence)], self.clock())

    @property
    def unguarded_states(self) -> StateStore:
        """States that the guard does not look through: of what keepstone makes itself, such as keys."""
        states: StateStore = getattr(self.store, "unguarded_states", self.store.states)
        return states

    # -- made when they are first asked for -----------------------------------------------------------------------
    @cached_property
    def transfer(self) -> Transfer:
        from keepstone.maintenance.transfer import Transfer

        return Transfer(self.target, self.store, self.writing.embedder, self._accesses, self._beside)

    def _beside(self, progress: Progress | None) -> list[Finding]:
        """What is wrong with what stands beside the store."""
        found = [] if self.indexing is None else self.indexing.examine(progress)
        if self._buffer is not None:
            self._buffer.window(Scope("local", "doctor", ""), None)  # a request, so that `problem` is current
            if self._buffer.problem is not None:
                remedy = "see that it runs and can be reached; until then everything is read from the store"
                found.append(Finding("buffer", f"{self._buffer.name}: {self._buffer.problem}", remedy))
        return found

    def index(self) -> Indexing:
        """The index of vectors; ConfigurationError where there is none."""
        if self.indexing is None:
            raise ConfigurationError("this memory has no index of its own: open it with index='chroma:…' or set KEEPSTONE_INDEX.")
        return self.indexing

    @cached_property
    def queue(self) -> Queue:
        from keepstone.learning.extraction import FactExtractor
        from keepstone.learning.jobs import Queue

        with self._making:  # a second one would have a second thread
            if "queue" not in self.__dict__:
                lease = timedelta(seconds=self.settings.model_timeout * (self.settings.model_retries + 2) + 60)
                extractor = FactExtractor(self.store, self.writing, self.recalling, self.model, self.clock)
                self.__dict__["queue"] = Queue(self.store, extractor, self.clock, lease, self.settings.worker)
            made: Queue = self.__dict__["queue"]
            return made

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

    # -- what a Memory has of its own -----------------------------------------------------------------------------
    def conversation(self, scope: Scope, session: str, limits: dict[str, Any], *, withhold: bool = False) -> Conversation:
        """One session of a scope. `withhold`: what waits for a review is not shown."""
        from keepstone.conversation.conversation import Conversation

        chosen = replace(self.limits(limits), withhold=withhold)
        return Conversation(self.store, scope, session, chosen, self.window_builder, self.learner, self.consolidator)

    def limits(self, given: dict[str, Any]) -> Limits:
        """Limits as they were asked for; a model may be named."""
        from keepstone.conversation.conversation import checked
        from keepstone.conversation.flow import Limits

        if given.get("model") is not None:
            given = {**given, "model": self.makers.model(given["model"])}
        return checked(Limits(), given)

    def working(self, scope: Scope) -> WorkingMemory:
        """A working memory that is saved in a scope."""
        from keepstone.tasks.flow import brought_up_to_date, session_of
        from keepstone.tasks.working_memory import WorkingMemory

        states = self.store.states
        return WorkingMemory(
            lambda name, value, task: states.put(scope, name, value, session=None if task is None else session_of(task)),
            lambda name: states.get(scope, name),
            lambda name: states.drop(scope, name),
            lambda working: brought_up_to_date(self.store, scope, working),
        )

    def export_chats(self, scope: Scope, path: Path, format: str, only_successes: bool) -> int:
        """Conversations and tasks as training data."""
        return self.transfer.write_lines(path, self.chat_export.lines(scope, format, only_successes))

    def system_prompt(self, scope: Scope, working: WorkingMemory, query: str, max_tokens: int) -> str:
        """The rules of remembering, and what is known where something is asked or in hand."""
        about = query if query and query.strip() else working.task or ""
        context = self.contexts.block(scope, about[:4000], max_tokens, working) if about else ""
        return f"{self.rules(scope)}\n\n{context}" if context else self.rules(scope)

    def rules(self, scope: Scope) -> str:
        """The rules of remembering with the tags in use: the same from call to call while no new tag comes up."""
        from keepstone.agent.prompt import system_prompt

        return system_prompt(sorted(tag for tag, _ in self.store.tags(scope, _TAGS)))

    def upkeep(self, scope: Scope) -> Upkeep:
        """The jobs that keep a store in order, and one scope of it."""
        from keepstone.maintenance.upkeep import Upkeep

        return Upkeep(scope, self._upkeep)

    @cached_property
    def _upkeep(self) -> UpkeepJobs:
        from keepstone.guard.sensitive import find_sensitive
        from keepstone.maintenance.checkup import HealthChecker
        from keepstone.maintenance.compaction import Compactor
        from keepstone.maintenance.policy import PolicyRunner
        from keepstone.maintenance.retention import Retention
        from keepstone.maintenance.upkeep import UpkeepJobs
        from keepstone.maintenance.verification import Verifier

        retention = Retention(self.store, self._accesses, self.clock)
        compactor = Compactor(self.store, self.writing, self.model, self.clock)
        verifier = Verifier(self.store, self.clock)
        health = HealthChecker(self.store, retention, self._accesses, self.clock, find_sensitive, self._guard.redacts)
        policy_runner = PolicyRunner(
            self.store, retention, compactor, verifier, lambda progress, scope=None: self.queue.run(scope, progress)
        )
        return UpkeepJobs(
            self.store,
            retention,
            compactor,
            verifier,
            health,
            policy_runner,
            self._reembed,
            self._scheduled,
            self.index,
            lambda progress: self.transfer.doctor(progress),
        )

    def run_upkeep(self, tenant: str, policy: UpkeepPolicy, dry_run: bool) -> RunReport:
        """A run of upkeep over one tenant, for who may not touch the rest of the store."""
        return self._upkeep.policy_runner.run(policy, dry_run, None, tenant)

    def _scheduled(self, scheduler: Scheduler) -> Scheduler:
        self._schedulers.append(scheduler)
        return scheduler

    def review(self, scope: Scope) -> ReviewList:
        """What a person should look at in a scope."""
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
            lambda path, format, only_successes: self.export_chats(scope, path, format, only_successes),
        )

    def tasks(self, scope: Scope, working: WorkingMemory) -> Tasks:
        """The task of a working memory."""
        from keepstone.tasks.flow import Tasks

        return Tasks(self.task_flow, scope, working)

    def export_everything(self, scope: Scope, path: str | PathLike[str], progress: Progress | None) -> int:
        """All that is kept of a user."""
        from keepstone.maintenance.subject_access import everything

        self._accesses.flush()
        return self.transfer.write_lines(path, everything(self.store, scope), 0, progress)

    def jobs(self, scope: Scope) -> ScopeJobs:
        """The queued work of a scope."""
        from keepstone.learning.jobs import ScopeJobs

        return ScopeJobs(self.queue, self.store, scope, self.queue.wake)

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
        """From now on everything here is embedded by this one."""
        self.store.bind_embedder(embedder.id, embedder.dimension)
        self.writing.embedder = self.recalling.embedder = self.transfer.embedder = embedder

    def flush(self) -> None:
        """Write what is buffered."""
        if not self._closed:
            self._accesses.flush()

    def close(self) -> None:
        """Let the work in hand end, write what is buffered and close the store."""
        if not self._closed:
            self._closed = True
            try:
                for scheduler in self._schedulers:
                    scheduler.stop(_PATIENCE)
                if "queue" in self.__dict__:
                    self.queue.stop(_PATIENCE)
                self._accesses.flush()
            finally:
                self.cache.close()
                self.store.close()
