"""KeepstoneStore: a LangGraph store that keeps its items in a memory.

An item is a document under its namespace and key: versioned, audited, and found by recall with every other memory. Without an
`index` a search is ranked by keepstone; with one, by its embeddings.
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import logging
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from keepstone.errors import ConfigurationError
from keepstone.integrations.bridge import as_sync_memory, open_memory
from keepstone.integrations.document_store import Document, DocumentStore
from keepstone.integrations.langgraph_filters import check_filter, matches_filter, matches_namespace, to_store_filter
from keepstone.ports.values import Vector
from keepstone.text.words import has_visible_text

Field = str | list[str]  # a tokenized path in an item; "$" is the whole item

_log = logging.getLogger("keepstone.langgraph")
_MAX_HITS = 100  # hits of one recall
_MAX_TTL_SECONDS = 36_525 * 86_400.0
_MIN_RENEWED_SHARE = 0.01  # of its time to live, below which a read does not extend it
_SWEEP_MINUTES = 5.0
_BARE = frozenset({"content", "data", "memory", "message", "text", "value"})  # names without a meaning of their own


class KeepstoneStore(BaseStore):
    """LangGraph's long-term memory in keepstone.

    >>> from keepstone import Memory
    >>> store = KeepstoneStore(Memory.open(":memory:"))
    >>> store.put(("users", "dana"), "theme", {"content": "Dana prefers dark mode."})
    >>> store.search(("users",), query="Which theme does Dana like?")[0].key
    'theme'

    `index` is LangGraph's: with `embed`, its vectors rank a search; `fields` names the searched parts of an item. `ttl` is
    LangGraph's too. Expired items are never returned."""

    supports_ttl = True

    def __init__(self, memory: Any, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self._memory = as_sync_memory(memory)
        self._documents = DocumentStore(self._memory, "langgraph")
        self._opened_here = False
        self.index_config: dict[str, Any] | None = dict(index) if index else None
        self.ttl_config = ttl
        asked = self.index_config or {}
        if asked.get("distance_type", "cosine") != "cosine":
            raise ConfigurationError(
                f"distance_type {asked['distance_type']!r:.40} is not known here: vectors are ranked by cosine."
            )
        self.embeddings: Any = ensure_embeddings(asked["embed"]) if asked.get("embed") is not None else None
        paths = asked.get("fields") or asked.get("text_fields") or ["$"]  # the second is what LangGraph's SQLite store reads
        self._fields = parse_fields([paths] if isinstance(paths, str) else paths)
        self._sweeping = Sweeping(self._documents)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None, **options: Any
    ) -> KeepstoneStore:
        """A store of its own for `with` or `async with`: of a path, ":memory:" or "postgresql://…". `options` are those of
        Memory.open: user, agent, tenant, embedder and others."""
        _remove_empty_file(conn_string)
        memory = open_memory(conn_string, **options)
        try:
            store = cls(memory, index=index, ttl=ttl)
        except BaseException:
            memory.close()
            raise
        store._opened_here = True
        return store

    # -- operations -----------------------------------------------------------------------------------------------
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run several operations: reads see the state before them; of several writes under a key the last one counts."""
        texts, queries = self._to_embed(ops := _check_ops(ops))
        vectors = self.embeddings.embed_documents(texts) if texts else []
        query_vectors = [self.embeddings.embed_query(query) for query in queries]
        return self._run(ops, dict(zip(texts, vectors, strict=True)), dict(zip(queries, query_vectors, strict=True)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same without blocking the loop."""
        texts, queries = self._to_embed(ops := _check_ops(ops))
        vectors = await self.embeddings.aembed_documents(texts) if texts else []
        query_vectors = await asyncio.gather(*(self.embeddings.aembed_query(query) for query in queries))
        by_text, by_query = dict(zip(texts, vectors, strict=True)), dict(zip(queries, query_vectors, strict=True))
        return await asyncio.to_thread(self._run, ops, by_text, by_query)

    # -- maintenance -----------------------------------------------------------------------------------------------
    def setup(self) -> Count:
        """Does nothing: an open memory has its tables. May be awaited."""
        return Count()

    async def asetup(self) -> None:
        """The same."""

    def sweep_ttl(self) -> Count:
        """Erase what has expired, with its history; how many items. May be awaited; `asweep_ttl` does not block the loop."""
        return Count(self._documents.sweep())

    async def asweep_ttl(self) -> int:
        """The same in a thread."""
        return await asyncio.to_thread(self._documents.sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Sweeper:
        """Sweep every so often in a thread, if there is a ttl. The future ends with it; cancelling it stops it."""
        if not self.ttl_config:
            done = Sweeper()
            done.set_result(None)
            return done
        return self._sweeping.start(
            float(sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or _SWEEP_MINUTES)
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

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> KeepstoneStore:
        return self

    async def __aexit__(self, *_: object) -> None:
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
        texts = [text for op in written for text in item_texts(op.value or {}, self._fields_for(op))]
        queries = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        return list(dict.fromkeys(texts)), list(dict.fromkeys(queries))

    def _fields_for(self, op: PutOp) -> list[Field]:
        if op.index is False:
            return []
        return self._fields if op.index is None else parse_fields(op.index)

    def _run(
        self, ops: Sequence[Op], vectors: Mapping[str, Sequence[float]], query_vectors: Mapping[str, Sequence[float]]
    ) -> list[Result]:
        results: list[Result] = []
        for op in ops:
            if isinstance(op, GetOp):
                results.append(self._get(op))
            elif isinstance(op, SearchOp):
                results.append(self._search(op, query_vectors.get(op.query or "")))
            elif isinstance(op, ListNamespacesOp):
                results.append(self._namespaces(op))
            else:
                results.append(None)
        last = {(*op.namespace, str(op.key)): op for op in ops if isinstance(op, PutOp)}
        self._documents.put_many(self._document(path, op, vectors) for path, op in last.items() if op.value is not None)
        for path, op in last.items():
            if op.value is None:
                self._documents.delete(path)
        return results

    def _get(self, op: GetOp) -> Result:
        path = (*op.namespace, str(op.key))
        document = self._documents.get(path)
        if document is None or not _is_complete(document):
            return None
        self._renew(op, [document])
        return Item(
            value=document.value["item"], key=path[-1], namespace=path[:-1],
            created_at=document.created_at, updated_at=document.updated_at,
        )  # fmt: skip

    def _document(self, path: tuple[str, ...], op: PutOp, vectors: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        fields, value = self._fields_for(op), op.value or {}
        rows = [vectors[text] for text in item_texts(value, fields)] if vectors else []
        ttl = None if op.ttl is None else min(max(op.ttl * 60.0, 1e-6), _MAX_TTL_SECONDS)
        return {
            "path": path,
            "value": pack_item(value, rows),
            "text": item_text(value, fields) or None,
            "labels": None if ttl is None else {"ttl": ttl},
            "ttl": ttl,
        }

    def _search(self, op: SearchOp, vector: Sequence[float] | None) -> list[SearchItem]:
        end = op.offset + op.limit
        if not op.query or not has_visible_text(op.query):
            ranked: list[tuple[Document, float]] = []
        elif vector is not None:
            ranked = self._by_vector(op, vector)
        else:
            ranked = self._by_recall(op, end)
        found: list[tuple[Document, float | None]] = list(ranked)
        if len(found) < end:  # LangGraph's own stores fill the page with items without a score
            seen = {document.id for document, _ in ranked}
            rest = self._candidates(op, whole=bool(op.filter))
            found += [(document, None) for document in rest if document.id not in seen]
        page = [(self._fill(document), score) for document, score in (found[op.offset : end] if op.limit > 0 else ())]
        chosen = [(document, score) for document, score in page if document is not None]
        self._renew(op, [document for document, _ in chosen])
        prefix = tuple(op.namespace_prefix)
        return [
            SearchItem(
                namespace=(*prefix, *document.path[len(prefix) : -1]), key=document.path[-1], value=document.value["item"],
                created_at=document.created_at, updated_at=document.updated_at, score=score,
            )
            for document, score in chosen
        ]  # fmt: skip

    def _fill(self, document: Document) -> Document | None:
        """A document with a value that is not in its record; None if it was deleted in the meantime."""
        held = self._documents.get(document.path) if document.value is None else document
        return held if held is not None and _is_complete(held) else None

    def _by_recall(self, op: SearchOp, end: int) -> list[tuple[Document, float]]:
        most = _MAX_HITS if op.filter else min(max(end, 1), _MAX_HITS)
        hits = self._documents.search(op.query or "", tuple(op.namespace_prefix), filter=to_store_filter(op.filter), limit=most)
        return [(document, score) for document, score in hits if _matches(op, document)]

    def _by_vector(self, op: SearchOp, vector: Sequence[float]) -> list[tuple[Document, float]]:
        query = np.asarray(vector, dtype=np.float32)
        scored = [(document, _similarity(document, query)) for document in self._candidates(op)]
        ranked = [(document, score) for document, score in scored if score is not None]
        return sorted(ranked, key=lambda pair: -pair[1])

    def _candidates(self, op: SearchOp, *, whole: bool = True) -> list[Document]:
        """What a search may find, the last changed first."""
        found = self._documents.list(tuple(op.namespace_prefix), filter=to_store_filter(op.filter), whole=whole)
        return sorted((each for each in found if _matches(op, each)), key=lambda each: each.updated_at, reverse=True)

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        begins = [tuple(each.path) for each in conditions if each.match_type == "prefix" and "*" not in each.path]
        prefix = max(begins, key=len, default=())
        spaces = {(*prefix, *path[len(prefix) : -1]) for path in self._documents.paths(prefix) if len(path) > len(prefix)}
        found = {space[: op.max_depth] for space in spaces if all(matches_namespace(space, each) for each in conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _renew(self, op: GetOp | SearchOp, documents: Iterable[Document]) -> None:
        """Start the time to live of items anew if reading them does that."""
        if not (op.refresh_ttl and self.ttl_config and self.ttl_config.get("refresh_on_read")):
            return
        for document in documents:
            ttl = document.labels.get("ttl")
            if ttl is None or document.expires_at is None:
                continue
            until = datetime.now(UTC) + timedelta(seconds=ttl)
            if (until - document.expires_at).total_seconds() > ttl * _MIN_RENEWED_SHARE:
                self._documents.renew(document.path, ttl)


def _check_ops(ops: Iterable[Op]) -> list[Op]:
    """The operations; raises ValueError if one of them is invalid."""
    checked = list(ops)
    for op in checked:
        if not isinstance(op, (GetOp, SearchOp, PutOp, ListNamespacesOp)):
            raise ValueError(f"Unknown operation type: {type(op).__name__}. Use GetOp, SearchOp, PutOp or ListNamespacesOp.")
        validate_op_namespace(op)
        if isinstance(op, SearchOp):
            check_filter(op.filter)
    return checked


def _matches(op: SearchOp, document: Document) -> bool:
    """Whether a document is an item below the namespace that matches the filter; the last part of a path is its key."""
    below = len(document.path) > len(op.namespace_prefix)
    return below and (not op.filter or (_is_complete(document) and matches_filter(op.filter, document.value["item"])))


def _is_complete(document: Document) -> bool:
    return isinstance(document.value, Mapping) and isinstance(document.value.get("item"), Mapping)


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _remove_empty_file(target: str) -> None:
    """Remove an empty file, as tempfile creates them: a store is never empty."""
    path = Path(target)
    if "://" in target or target == ":memory:" or any(Path(f"{target}{end}").exists() for end in ("-wal", "-shm")):
        return
    if path.is_file() and not path.is_symlink() and path.stat().st_size == 0:
        path.unlink()


# -- what is stored -----------------------------------------------------------------------------------------------------
def pack_item(value: Mapping[str, Any], vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    """An item as the value of its document."""
    if not vectors:
        return {"item": dict(value)}
    rows = np.asarray(vectors, dtype="<f4")
    return {"item": dict(value), "vectors": base64.b64encode(rows.tobytes()).decode("ascii"), "rows": len(rows)}


def _similarity(document: Document, query: Vector) -> float | None:
    """The cosine of a query with the most similar of an item's vectors; None if it has none of that size."""
    try:
        rows = np.frombuffer(base64.b64decode(document.value["vectors"]), dtype="<f4").reshape(document.value["rows"], -1)
    except (KeyError, TypeError, ValueError):
        return None
    if not len(rows) or rows.shape[1] != len(query):
        return None
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return float(np.max(np.divide(rows @ query, lengths, out=np.zeros(len(rows), dtype=np.float32), where=lengths > 0)))


# -- texts of items ------------------------------------------------------------------------------------------------------
def parse_fields(paths: Iterable[str]) -> list[Field]:
    """Paths in an item, taken apart."""
    return [path if path == "$" else tokenize_path(path) for path in paths]


def item_texts(value: Mapping[str, Any], fields: Iterable[Field]) -> list[str]:
    """The texts that are embedded, as LangGraph's own stores take them."""
    return [text for field in fields for text in get_text_at_path(dict(value), field)]


def item_text(value: Mapping[str, Any], fields: Iterable[Field]) -> str:
    """The searchable text of an item: the texts of its fields, or the whole item as lines.

    >>> item_text({"content": "Dana likes tea.", "since": {"year": 2021}}, ["$"])
    'Dana likes tea.\\nsince year: 2021'
    """
    lines = (_lines(value, ()) if field == "$" else get_text_at_path(dict(value), field) for field in fields)
    return "\n".join(line for each in lines for line in each)


def _lines(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _lines(each, names if name in _BARE else (*names, str(name)))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _lines(each, names)
    elif value is not None:
        yield f"{' '.join(names)}: {value}" if names else str(value)


# -- sweeping -----------------------------------------------------------------------------------------------------------
class Count(int):
    """A number that may be awaited."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield


class Sweeper(concurrent.futures.Future[None]):
    """Ends with the sweeping; cancelling it stops the sweeping. Awaiting it returns itself, like LangGraph's task."""

    def __await__(self) -> Generator[Any, None, Sweeper]:
        return self
        yield


class Sweeping:
    """The thread that erases expired items."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._thread: threading.Thread | None = None
        self.end = threading.Event()

    def start(self, minutes: float) -> Sweeper:
        sweeper = Sweeper()
        sweeper.add_done_callback(lambda future: self.end.set() if future.cancelled() else None)
        if self._thread is not None and self._thread.is_alive():
            return sweeper
        self.end.clear()
        self._thread = threading.Thread(target=self._run, args=(minutes * 60, sweeper), daemon=True, name="keepstone-ttl-sweeper")
        self._thread.start()
        return sweeper

    def stop(self, timeout: float | None) -> bool:
        self.end.set()
        if self._thread is None or not self._thread.is_alive():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self, seconds: float, sweeper: Sweeper) -> None:
        while not self.end.wait(seconds):
            try:
                self._documents.sweep()
            except Exception:  # the next sweep may succeed
                _log.warning("items that have expired could not be swept", exc_info=True)
        if not sweeper.cancelled():
            sweeper.set_result(None)
