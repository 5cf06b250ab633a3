"""Engine: everything that the Memories on one store share, wired by open.py.

The flows that every call needs are made at once. The others are imported and made on first use, so that a process that only
recalls does not pay for them.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from keepstone.guard.guard import Guard
from keepstone.guard.guarded_store import GuardedStore
from keepstone.maintenance.forgetting import Eraser
from keepstone.ports.caches import Buffer
from keepstone.ports.chat import ChatModel
from keepstone.ports.stores import Clock, Embedder, Reader, Reranker
from keepstone.recall.access import AccessCounter, Feedback
from keepstone.recall.flow import RecallFlow
from keepstone.recall.lookups import Lookups, ReplacedRecords
from keepstone.recall.supersession import PairReader
from keepstone.scope_index.cache import IndexCache
from keepstone.scope_index.segments import Segments
from keepstone.settings import Settings
from keepstone.write.flow import WriteFlow, WriteRules
from keepstone.write.key_values import KeyValues

if TYPE_CHECKING:
    from keepstone.agent.handlers import Toolbox
    from keepstone.conversation.conversation import Sessions
    from keepstone.conversation.flow import WindowBuilder
    from keepstone.guard.withholding import WithholdingStore
    from keepstone.learning.consolidation import ConversationConsolidator
    from keepstone.learning.flow import Learner
    from keepstone.learning.jobs import Queue
    from keepstone.maintenance.policy import Scheduler
    from keepstone.maintenance.reembedding import Embeds
    from keepstone.maintenance.transfer import Transfer
    from keepstone.maintenance.upkeep import UpkeepJobs
    from keepstone.tasks.context import Contexts
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
    store: GuardedStore
    embedder: Embedder | None
    model: ChatModel | None
    buffer: Buffer
    indexing: Indexing | None
    segments: Segments | None
    reranker: Reranker | None
    reader: Reader | None
    clock: Clock
    makers: Makers
    read_notes: Callable[[], tuple[str, ...]] = tuple  # on where the store reads from


class Engine:
    """One store with its embedder, model, caches and flows; closed once for all."""

    def __init__(self, adapters: Adapters, settings: Settings, guard: Guard, rules: WriteRules) -> None:
        store, embedder, indexing, clock = adapters.store, adapters.embedder, adapters.indexing, adapters.clock
        self.target = adapters.target
        self.store: GuardedStore | WithholdingStore = store
        self.model = adapters.model
        self.makers = adapters.makers
        self.settings = settings
        self.clock = clock
        self._lock = threading.RLock()
        self._buffer, self._indexing = adapters.buffer, indexing
        # With an external vector index nothing is cached: every query goes to it.
        self.cache = IndexCache(store, 0 if indexing is not None else settings.cache_mb * 1024 * 1024, adapters.segments)
        if adapters.segments is not None:
            adapters.segments.attach(self.cache.erase)
        self._accesses = AccessCounter(store)
        self._pairs = PairReader(adapters.reader)
        replaced = ReplacedRecords(store, self.cache, embedder)
        self.writing = WriteFlow(store, embedder, clock, guard, rules, replaced.find)
        nearest = None if indexing is None else indexing.nearest
        least = (settings.min_similarity, settings.min_confidence, adapters.reranker, settings.min_trust, nearest)
        reads = (adapters.reader, settings.reader == "always")
        self.recalling = RecallFlow(
            store, self.cache, embedder, self._accesses, clock, guard, *least, adapters.read_notes, *reads
        )
        self.reading = Lookups(store, self._accesses)
        self.values = KeyValues(store, self.writing, self.recalling.count_reads)
        self.feedback = Feedback(store, self.writing.update)
        self.eraser = Eraser(store, lambda scope, session: self.consolidator.consolidate(scope, session))
        self._embedding: list[Embeds] = [self.writing, self.recalling, replaced]  # flows that follow a change of the embedder
        self._guard = guard
        self._schedulers: list[Scheduler] = []
        self._closed = False
        if adapters.model is not None and store.jobs.next_due(("extract",)) is not None:
            self.queue.wake()  # an earlier process has left work

    # -- made on first use ----------------------------------------------------------------------------------------
    @cached_property
    def transfer(self) -> Transfer:
        from keepstone.maintenance.transfer import Transfer

        beside = (self._indexing, self._buffer, self.settings.encrypted)
        transfer = Transfer(self.target, self.store, self.writing.embedder, self._accesses, *beside)
        self._embedding.append(transfer)
        return transfer

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
    def sessions(self) -> Sessions:
        from keepstone.conversation.conversation import Sessions
        from keepstone.tasks.chat_export import chat_lines

        return Sessions(
            self.store,
            self.window_builder,
            self.learner,
            self.consolidator,
            self.makers.model,
            lambda scope, path, plain, *choice: self.transfer.write_lines(path, chat_lines(self.store, scope, *choice), plain),
        )

    @cached_property
    def contexts(self) -> Contexts:
        from keepstone.tasks.context import Contexts

        return Contexts(self.recalling, self.clock)

    @cached_property
    def toolbox(self) -> Toolbox:
        from keepstone.agent.handlers import Toolbox

        return Toolbox(self.store, self.writing, self.recalling, self.eraser, self.clock)

    @cached_property
    def upkeep_jobs(self) -> UpkeepJobs:
        from keepstone.guard.sensitive import find_sensitive
        from keepstone.maintenance.compaction import Compactor
        from keepstone.maintenance.policy import PolicyRunner
        from keepstone.maintenance.reembedding import Reembedder
        from keepstone.maintenance.retention import Retention
        from keepstone.maintenance.upkeep import UpkeepJobs
        from keepstone.maintenance.verification import Verifier

        store, clock = self.store, self.clock
        compactor = Compactor(store, self.writing, self.model, clock)
        verifier = Verifier(store, clock, self.model, self.recalling.embedder, self._pairs)
        policy_runner = PolicyRunner(
            store,
            lambda scope: Retention(scope, store, self._accesses, clock),
            compactor,
            verifier,
            lambda progress, scope=None: self.queue.run(scope, progress),
        )
        return UpkeepJobs(
            store,
            self._accesses,
            clock,
            find_sensitive,
            self._guard.redacts,
            compactor,
            verifier,
            policy_runner,
            Reembedder(store, self.makers.embedder, self._embedding),
            self.transfer,
            self._indexing,
            self._schedulers,
        )

    @cached_property
    def withholding(self) -> Engine:
        """This engine without quarantined text, as an agent's key sees it: flows that show or erase records have a store of their
        own, the others are shared."""
        from keepstone.guard.withholding import WithholdingStore

        shared = ("queue", "learner", "consolidator", "contexts", "transfer", "upkeep_jobs")
        view = copy.copy(self)
        view.__dict__ = {
            name: value for name, value in self.__dict__.items() if name not in ("window_builder", "sessions", "toolbox")
        }
        view.__dict__ |= {name: getattr(self, name) for name in shared}
        assert isinstance(self.store, GuardedStore)
        view.store = WithholdingStore(self.store)
        view.writing = self.writing.on_store(view.store)
        self._embedding.append(view.writing)
        view.reading = Lookups(view.store, self._accesses)
        view.values = KeyValues(view.store, view.writing, self.recalling.count_reads)
        view.feedback = Feedback(view.store, view.writing.update)
        view.eraser = Eraser(view.store, self.consolidator.consolidate)
        return view

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
