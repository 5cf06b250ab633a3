"""KeepstoneStorage: the storage of CrewAI's memory on keepstone.

CrewAI makes the vectors and ranks by them; they are stored with each record and compared exactly. Each record's content is the
text of a document, so that `memory.recall` and every other integration find what a crew has learned, and its history is kept.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

from keepstone.integrations.bridge import as_sync_memory, in_thread
from keepstone.integrations.document_store import Document, DocumentStore

if TYPE_CHECKING:
    from keepstone.integrations.bridge import MemoryOrClient

_SHELF = "crewai"
_RECORD, _VECTOR = "record", "vector"

Found = list[tuple[MemoryRecord, float]]


class KeepstoneStorage:
    """Give it as `crewai.Memory(storage=KeepstoneStorage(memory), embedder=embedder())`."""

    def __init__(self, memory: Any) -> None:
        self._memory: MemoryOrClient = as_sync_memory(memory)
        self._documents = DocumentStore(self._memory, _SHELF)
        self._vectors: dict[str, tuple[int, np.ndarray[Any, Any] | None]] = {}  # by id: the version they are of
        self._lock = Lock()

    # -- writing --------------------------------------------------------------------------------------------------
    def save(self, records: list[MemoryRecord]) -> None:
        """Keep records; each is on disk when this returns. Raises EmbeddingDimensionMismatchError."""
        self._check_dimensions(records)
        self._put(records)

    def update(self, record: MemoryRecord) -> None:
        """Keep a record in the place of the one of its id, which stays in the history."""
        self._check_dimensions([record])
        self._put([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Count records as read now, which makes no new version."""
        for id in record_ids:
            found = self._documents.get((_RECORD, id))
            if found is not None:
                held = self._memory.get(found.id)
                if held is not None and held.key is not None:
                    self._memory.value(held.key)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Erase records that meet all conditions, with their history; returns their number."""
        gone = [
            record.id
            for record in self._records(scope_prefix, categories, metadata_filter)
            if record_ids is None or record.id in record_ids
            if older_than is None or _to_naive_utc(record.created_at) < _to_naive_utc(older_than)
        ]
        for id in gone:
            self._documents.delete((_RECORD, id))
            self._documents.delete((_VECTOR, id))
        return len(gone)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase everything in a scope, or everything that came through CrewAI."""
        self.delete(scope_prefix=scope_prefix)

    # -- reading --------------------------------------------------------------------------------------------------
    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> Found:
        """The records nearest to a vector, best first; the score is the cosine, 0 at least."""
        query = np.asarray(query_embedding, dtype=np.float32)
        found: Found = []
        for record in self._records(scope_prefix, categories, metadata_filter):
            vector = self._vector(record.id)
            if vector is None:
                continue
            if vector.shape != query.shape:
                raise EmbeddingDimensionMismatchError(len(vector), len(query))
            score = _cosine(vector, query)
            if score >= min_score:
                record.embedding = vector.tolist()
                found.append((record, score))
        found.sort(key=lambda each: each[1], reverse=True)
        return found[: max(0, limit)]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """One record with its vector, or None."""
        found = self._documents.get((_RECORD, record_id))
        if found is None:
            return None
        record = _to_record(found)
        vector = self._vector(record_id)
        record.embedding = None if vector is None else vector.tolist()
        return record

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Records of a scope, newest first."""
        if limit <= 0 or offset < 0:
            return []
        found = sorted(self._records(scope_prefix), key=lambda record: _to_naive_utc(record.created_at), reverse=True)
        return found[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """How many records a scope has, their categories and times, and the scopes below."""
        path = _path(scope) or "/"
        found = list(self._records(path))
        times = [record.created_at for record in found]
        return ScopeInfo(
            path=path,
            record_count=len(found),
            categories=sorted({category for record in found for category in record.categories}),
            oldest_record=min(times, key=_to_naive_utc, default=None),
            newest_record=max(times, key=_to_naive_utc, default=None),
            child_scopes=_children(path, found),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes right below a scope."""
        return _children(_path(parent) or "/", list(self._records(parent)))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """How many records have each category."""
        counts: dict[str, int] = {}
        for record in self._records(scope_prefix):
            for category in record.categories:
                counts[category] = counts.get(category, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        """How many records a scope has, those below included."""
        return sum(1 for _ in self._records(scope_prefix))

    asave, asearch, adelete = in_thread(save), in_thread(search), in_thread(delete)

    # -- parts ----------------------------------------------------------------------------------------------------
    def _put(self, records: Sequence[MemoryRecord]) -> None:
        """Vectors first: a record that is there can be found. Raises TypeError for metadata that JSON does not have."""
        for record in records:
            json.dumps(record.metadata)
        packed = {record.id: np.asarray(record.embedding, dtype="<f4").tobytes() for record in records if record.embedding}
        self._documents.put_many(
            {"path": (_VECTOR, id), "value": {"f4": base64.b64encode(each).decode()}} for id, each in packed.items()
        )
        self._documents.put_many(
            {
                "path": (_RECORD, record.id),
                "value": record.model_dump(mode="json"),  # leaves the vector out
                "text": record.content,
                "labels": {"scope": _path(record.scope) or "/", "categories": record.categories},
            }
            for record in records
        )
        with self._lock:
            for record in records:
                self._vectors.pop(record.id, None)

    def _check_dimensions(self, records: Sequence[MemoryRecord]) -> None:
        """Vectors of two models are never mixed."""
        sizes = [len(record.embedding) for record in records if record.embedding]
        if not sizes:
            return
        stored = next(
            (vector for each in self._documents.list((_VECTOR,), limit=1) if (vector := _unpack(each)) is not None), None
        )
        first = sizes[0] if stored is None else len(stored)
        for size in sizes:
            if size != first:
                raise EmbeddingDimensionMismatchError(first, size)

    def _records(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> Iterator[MemoryRecord]:
        prefix = _path(scope_prefix)
        for document in self._documents.list((_RECORD,)):
            scope = str(document.labels.get("scope", "/"))
            if prefix and scope != prefix and not scope.startswith(prefix + "/"):
                continue
            record = _to_record(document)
            if categories and not set(categories) & set(record.categories):
                continue
            if metadata_filter and any(record.metadata.get(name) != value for name, value in metadata_filter.items()):
                continue
            with self._lock:
                if self._vectors.get(record.id, (document.version,))[0] != document.version:
                    del self._vectors[record.id]  # another version may have another vector
                self._vectors.setdefault(record.id, (document.version, None))
            yield record

    def _vector(self, id: str) -> np.ndarray[Any, Any] | None:
        with self._lock:
            version, vector = self._vectors.get(id, (0, None))
        if vector is None:
            found = self._documents.get((_VECTOR, id))
            vector = None if found is None else _unpack(found)
            with self._lock:
                self._vectors[id] = (version, vector)
        return vector


def embedder() -> Callable[[list[str]], list[list[float]]]:
    """keepstone's own embedder for `crewai.Memory(embedder=…)`: no key, no download."""
    from keepstone.embedders.registry import make_embedder

    made = make_embedder("static")
    assert made is not None
    return lambda texts: np.asarray(made.embed(list(texts))).tolist()


def _to_record(document: Document) -> MemoryRecord:
    record: MemoryRecord = MemoryRecord.model_validate(document.value)
    if document.accessed_at is not None:
        record.last_accessed = max(_to_naive_utc(record.last_accessed), _to_naive_utc(document.accessed_at))
    return record


def _unpack(document: Document) -> np.ndarray[Any, Any] | None:
    if not isinstance(document.value, dict) or "f4" not in document.value:
        return None
    return np.frombuffer(base64.b64decode(document.value["f4"]), dtype="<f4")


def _cosine(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return max(0.0, float(one @ other) / length) if length else 0.0


def _path(scope: str | None) -> str:
    """A scope as it is compared: with a slash before and none behind; "" for all."""
    inner = (scope or "").strip("/")
    return f"/{inner}" if inner else ""


def _children(path: str, records: Sequence[MemoryRecord]) -> list[str]:
    prefix = "/" if path == "/" else f"{path}/"
    below = {_path(record.scope).removeprefix(prefix) for record in records if _path(record.scope).startswith(prefix)}
    return sorted({prefix + each.split("/", 1)[0] for each in below if each})


def _to_naive_utc(time: datetime) -> datetime:
    """Times without a zone are UTC there."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
