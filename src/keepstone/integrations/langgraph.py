"""KeepstoneStore: a LangGraph store that keeps its items in a memory.

An item is a document of the shelf "langgraph" under its namespace and key: versioned, audited, and found by recall beside
everything else that is remembered. Without an index of its own a search is ranked by keepstone; with one, by its embeddings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    validate_op_namespace,
)

from keepstone.errors import ConfigurationError
from keepstone.integrations.coerce import as_sync_memory, open_memory
from keepstone.integrations.document_store import Document, DocumentStore
from keepstone.integrations.langgraph_items import (
    Count,
    Done,
    Field,
    Sweeper,
    Sweeping,
    best_likeness,
    check_filter,
    fields_of,
    holds,
    item_of,
    matched,
    narrowed,
    packed,
    said_by,
    search_item_of,
    texts_of,
)
from keepstone.ports.values import Vector
from keepstone.write.request import has_visible_text

_MOST_RANKED = 100  # hits of one recall
_LONGEST = 36_525 * 86_400.0  # seconds that anything is kept for, if it is not for ever
_WORTH = 0.01  # of its time to live: what a read has to add before it is written down
_SWEEP_EVERY = 5.0  # minutes


class KeepstoneStore(BaseStore):
    """LangGraph's long-term memory in keepstone.

    >>> from keepstone import Memory
    >>> store = KeepstoneStore(Memory.open(":memory:"))
    >>> store.put(("users", "dana"), "theme", {"content": "Dana prefers dark mode."})
    >>> store.search(("users",), query="Which theme does Dana like?")[0].key
    'theme'

    `index` is LangGraph's: with `embed`, its vectors rank a search; `fields` says what of an item is found, here or there.
    `ttl` is LangGraph's too. What has expired is never given back, swept or not."""

    supports_ttl = True

    def __init__(self, memory: Any, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self._memory = as_sync_memory(memory)
        self._shelf = DocumentStore(self._memory, "langgraph")
        self._opened_here = False
        self.index_config: dict[str, Any] | None = dict(index) if index else None
        self.ttl_config = ttl
        asked = self.index_config or {}
        if asked.get("distance_type", "cosine") != "cosine":
            raise ConfigurationError(
                f"distance_type {asked['distance_type']!r:.40} is not known here: vectors are ranked by cosine."
            )
        self.embeddings = ensure_embeddings(asked["embed"]) if asked.get("embed") is not None else None
        paths = asked.get("fields") or asked.get("text_fields") or ["$"]  # the second is what LangGraph's SQLite store reads
        self._fields = fields_of([paths] if isinstance(paths, str) else paths)
        self._sweeping = Sweeping(self._shelf)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None, **options: Any
    ) -> Opening:
        """A store of its own for `with` or `async with`: of a path, ":memory:" or "postgresql://…". `options` are those of
        Memory.open: user, agent, tenant, embedder and others."""
        return Opening(cls, conn_string, index, ttl, options)

    # -- operations -----------------------------------------------------------------------------------------------
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: reads see what was there before, of several writes under a key the last one counts."""
        asked = _checked(ops)
        texts, queries = self._to_embed(asked)
        vectors: dict[str, Sequence[float]] = {}
        searched: dict[str, Vector] = {}
        if self.embeddings is not None:
            if texts:
                vectors = dict(zip(texts, self.embeddings.embed_documents(texts), strict=True))
            searched = {query: _vector(self.embeddings.embed_query(query)) for query in queries}
        return self._done(asked, vectors, searched)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same without blocking the loop."""
        asked = _checked(ops)
        texts, queries = self._to_embed(asked)
        vectors: dict[str, Sequence[float]] = {}
        searched: dict[str, Vector] = {}
        if self.embeddings is not None:
            if texts:
                vectors = dict(zip(texts, await self.embeddings.aembed_documents(texts), strict=True))
            found = await asyncio.gather(*(self.embeddings.aembed_query(query) for query in queries))
            searched = {query: _vector(each) for query, each in zip(queries, found, strict=True)}
        return await asyncio.to_thread(self._done, asked, vectors, searched)

    # -- upkeep ---------------------------------------------------------------------------------------------------
    def setup(self) -> Done:
        """Nothing is left to do: the memory is open, and made its tables then. May be awaited."""
        return Done()

    async def asetup(self) -> None:
        """The same."""

    def sweep_ttl(self) -> Count:
        """Erase what has expired, with its history; how many items. May be awaited; `asweep_ttl` does not block the loop."""
        return Count(self._shelf.sweep())

    async def asweep_ttl(self) -> int:
        """The same in a thread."""
        return await asyncio.to_thread(self._shelf.sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Sweeper:
        """Sweep every so often in a thread, if there is a ttl. The future ends with it; cancelling it stops it."""
        if not self.ttl_config:
            done = Sweeper()
            done.set_result(None)
            return done
        return self._sweeping.start(
            float(sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or _SWEEP_EVERY)
        )

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool | Count:
        """Stop sweeping; whether it has stopped within so many seconds."""
        stopped = self._sweeping.stop(timeout)
        return Count(stopped) if _in_loop() else stopped

    def close(self) -> None:
        """Stop sweeping, and close the memory if from_conn_string opened it."""
        self._sweeping.stop(None)
        if self._opened_here:
            self._memory.close()

    def __enter__(self) -> KeepstoneStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> KeepstoneStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)

    def __del__(self) -> None:
        sweeping: Sweeping | None = getattr(self, "_sweeping", None)
        if sweeping is not None:
            sweeping.end.set()

    # -- parts ----------------------------------------------------------------------------------------------------
    def _to_embed(self, ops: Sequence[Op]) -> tuple[list[str], list[str]]:
        """The texts of items and the queries that need a vector, each once."""
        if self.embeddings is None:
            return [], []
        written = [op for op in ops if isinstance(op, PutOp) and op.value is not None and op.index is not False]
        texts = [text for op in written for text in texts_of(op.value or {}, self._fields_for(op))]
        queries = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        return list(dict.fromkeys(texts)), list(dict.fromkeys(queries))

    def _fields_for(self, op: PutOp) -> list[Field]:
        if op.index is False:
            return []
        return self._fields if op.index is None else fields_of(op.index)

    def _done(self, ops: Sequence[Op], vectors: Mapping[str, Sequence[float]], searched: Mapping[str, Vector]) -> list[Result]:
        results: list[Result] = []
        for op in ops:
            if isinstance(op, GetOp):
                results.append(self._got(op))
            elif isinstance(op, SearchOp):
                results.append(self._searched(op, searched.get(op.query or "")))
            elif isinstance(op, ListNamespacesOp):
                results.append(self._namespaces(op))
            else:
                results.append(None)
        self._write({(*op.namespace, str(op.key)): op for op in ops if isinstance(op, PutOp)}, vectors)
        return results

    def _got(self, op: GetOp) -> Result:
        path = (*op.namespace, str(op.key))
        document = self._shelf.get(path)
        if document is None or not _whole(document):
            return None
        self._read(op, [document])
        return item_of(document, path)

    def _write(self, last: Mapping[tuple[str, ...], PutOp], vectors: Mapping[str, Sequence[float]]) -> None:
        self._shelf.put_many(self._document(path, op, vectors) for path, op in last.items() if op.value is not None)
        for path, op in last.items():
            if op.value is None:
                self._shelf.delete(path)

    def _document(self, path: tuple[str, ...], op: PutOp, vectors: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        fields, value = self._fields_for(op), op.value or {}
        rows = [vectors[text] for text in texts_of(value, fields)] if vectors else []
        ttl = None if op.ttl is None else min(max(op.ttl * 60.0, 1e-6), _LONGEST)
        return {
            "path": path,
            "value": packed(value, rows),
            "text": said_by(value, fields) or None,
            "labels": None if ttl is None else {"ttl": ttl},
            "ttl": ttl,
        }

    def _searched(self, op: SearchOp, vector: Vector | None) -> list[SearchItem]:
        end = op.offset + op.limit
        if not op.query or not has_visible_text(op.query):
            ranked: list[tuple[Document, float]] = []
        elif vector is not None:
            ranked = self._by_vector(op, vector)
        else:
            ranked = self._by_recall(op, end)
        found: list[tuple[Document, float | None]] = list(ranked)
        if len(found) < end:  # LangGraph's own stores fill up with what no score was found for
            seen = {document.id for document, _ in ranked}
            rest = self._documents(op, whole=bool(op.filter))
            found += [(document, None) for document in rest if document.id not in seen]
        chosen = [(self._filled(document), score) for document, score in (found[op.offset : end] if op.limit > 0 else ())]
        self._read(op, [document for document, _ in chosen if document is not None])
        prefix = tuple(op.namespace_prefix)
        return [search_item_of(document, prefix, score) for document, score in chosen if document is not None]

    def _filled(self, document: Document) -> Document | None:
        """A document with what does not stand in its record; None if it has gone meanwhile."""
        held = self._shelf.get(document.path) if document.value is None else document
        return held if held is not None and _whole(held) else None

    def _by_recall(self, op: SearchOp, end: int) -> list[tuple[Document, float]]:
        most = _MOST_RANKED if op.filter else min(max(end, 1), _MOST_RANKED)
        hits = self._shelf.search(op.query or "", tuple(op.namespace_prefix), filter=narrowed(op.filter), limit=most)
        return [(document, score) for document, score in hits if _meant(op, document)]

    def _by_vector(self, op: SearchOp, vector: Vector) -> list[tuple[Document, float]]:
        scored = [(document, best_likeness(document, vector)) for document in self._documents(op)]
        ranked = [(document, score) for document, score in scored if score is not None]
        return sorted(ranked, key=lambda pair: -pair[1])

    def _documents(self, op: SearchOp, *, whole: bool = True) -> list[Document]:
        """What a search may find, the last changed first."""
        found = self._shelf.list(tuple(op.namespace_prefix), filter=narrowed(op.filter), whole=whole)
        return sorted((each for each in found if _meant(op, each)), key=lambda each: each.updated_at, reverse=True)

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        begins = [tuple(each.path) for each in conditions if each.match_type == "prefix" and "*" not in each.path]
        prefix = max(begins, key=len, default=())
        spaces = {(*prefix, *path[len(prefix) : -1]) for path in self._shelf.paths(prefix) if len(path) > len(prefix)}
        found = {space[: op.max_depth] for space in spaces if matched(space, conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _read(self, op: GetOp | SearchOp, documents: Iterable[Document]) -> None:
        """Start the time to live of items anew where reading them does that."""
        if not (op.refresh_ttl and self.ttl_config and self.ttl_config.get("refresh_on_read")):
            return
        for document in documents:
            ttl = document.labels.get("ttl")
            if ttl is None or document.expires_at is None:
                continue
            until = datetime.now(UTC) + timedelta(seconds=ttl)
            if (until - document.expires_at).total_seconds() > ttl * _WORTH:
                self._shelf.renew(document.path, ttl)


class Opening:
    """A store that is opened by `with` or `async with`, and closed at its end."""

    def __init__(
        self,
        kind: type[KeepstoneStore],
        target: str,
        index: IndexConfig | None,
        ttl: TTLConfig | None,
        options: Mapping[str, Any],
    ) -> None:
        self._kind, self._target, self._options = kind, target, options
        self._index, self._ttl = index, ttl
        self._store: KeepstoneStore | None = None

    def __enter__(self) -> KeepstoneStore:
        _make_room(self._target)
        memory = open_memory(self._target, **self._options)
        try:
            store = self._kind(memory, index=self._index, ttl=self._ttl)
        except BaseException:
            memory.close()
            raise
        store._opened_here = True
        self._store = store
        return store

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._store is not None:
            self._store.close()

    async def __aenter__(self) -> KeepstoneStore:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _checked(ops: Iterable[Op]) -> list[Op]:
    """Operations that can be done; nothing is, if one cannot."""
    asked = list(ops)
    for op in asked:
        if not isinstance(op, (GetOp, SearchOp, PutOp, ListNamespacesOp)):
            raise ValueError(f"Unknown operation type: {type(op).__name__}. Use GetOp, SearchOp, PutOp or ListNamespacesOp.")
        validate_op_namespace(op)
        if isinstance(op, SearchOp):
            check_filter(op.filter)
    return asked


def _meant(op: SearchOp, document: Document) -> bool:
    """Whether a document is an item below the namespace that the filter lets through; the last of a path is its key."""
    below = len(document.path) > len(op.namespace_prefix)
    return below and (not op.filter or (_whole(document) and holds(op.filter, document.value["item"])))


def _whole(document: Document) -> bool:
    return isinstance(document.value, Mapping) and isinstance(document.value.get("item"), Mapping)


def _vector(numbers: Sequence[float]) -> Vector:
    return np.asarray(numbers, dtype=np.float32)


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _make_room(target: str) -> None:
    """Take an empty file away, as tempfile makes them: a store is never empty, so it is none."""
    path = Path(target)
    if "://" in target or target == ":memory:" or any(Path(f"{target}{end}").exists() for end in ("-wal", "-shm")):
        return
    if path.is_file() and not path.is_symlink() and path.stat().st_size == 0:
        path.unlink()
