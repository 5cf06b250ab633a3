"""DocumentStore: JSON documents of any size under paths, stored as records with keys.

A document with a text is found by recall; one without is a step, which is listed but never recalled. Values that do not fit into
a record's metadata are stored in a session, in every version.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.integrations.bridge import as_sync_memory, digest, to_name
from keepstone.integrations.message_items import SessionItem, SessionItems, is_storable, to_searchable_text
from keepstone.memory import list_all
from keepstone.ports.caches import sized_batches
from keepstone.ports.filters import matches, parse
from keepstone.text.words import has_visible_text
from keepstone.types import MESSAGE, STEP, Receipt, Record, Version
from keepstone.write.request import MAX_DEPTH, MAX_METADATA

_MAX_INLINE_BYTES = MAX_METADATA - 6 * 1024  # of a value in the metadata, which also holds paths and labels
_PAGE_RECORDS = 100
_ORPHAN_AGE = timedelta(minutes=10)  # of a value without a document, after which no writer is still storing it
_MAX_BATCH_BYTES = 512 * 1024  # a server accepts a megabyte

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A value under a path. `text` is what recall finds it by, or ""; `labels` are metadata for filters."""

    path: Path
    value: Any
    text: str
    labels: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    id: str
    version: int
    accessed_at: datetime | None = None


class DocumentStore:
    """The documents of one framework in one scope. `name` is the kind and the tag of documents with a text."""

    def __init__(self, memory: Any, name: str) -> None:
        self._memory = as_sync_memory(memory)
        self._name = name

    def put(
        self,
        path: Sequence[str],
        value: Any,
        *,
        text: str | None = None,
        labels: Mapping[str, Any] | None = None,
        ttl: float | None = None,
        source: str = "agent",
        expected_version: int | None = None,
        expected_id: str | None = None,
    ) -> Receipt:
        """Store a document; the old one stays in its history. `text` is what recall finds it by, `labels` are metadata for
        filters, `ttl` is in seconds. `expected_version` is the version of the old document, 0 for none, and `expected_id` its
        id, since a document that was deleted and stored again begins with version 1. Raises ValidationError (also if it is
        refused), TooLarge, and Conflict if another writer was first."""
        fields = self._fields(tuple(path), value, text=text, labels=labels, ttl=ttl, source=source)
        try:
            if expected_version is None:
                receipt = self._memory.remember(**fields)
            else:
                receipt = self._in_place(fields, expected_version, expected_id)
        except (Conflict, ValidationError):
            self._drop([fields])
            raise
        if receipt.action == "refused":
            self._drop([fields])
        return require_accepted(receipt)

    def get(self, path: Sequence[str]) -> Document | None:
        """The document under a path, or None."""
        record = self._memory.get(key=self._key(tuple(path)))
        return None if record is None else self._document(record)

    def delete(self, path: Sequence[str]) -> bool:
        """Erase a document with its history; returns whether it existed."""
        record = self._memory.get(key=self._key(tuple(path)))
        return record is not None and self._erase(record)

    def list(
        self,
        under: Sequence[str] = (),
        *,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
        whole: bool = True,
    ) -> Iterator[Document]:
        """Documents whose path begins with `under`, newest first. `filter` names fields as `value.…` and `labels.…`. Without
        `whole`, a value that is not in the record itself is None."""
        given = 0
        for record in self._records(self._conditions(under, filter)):
            document = self._document(record, whole=whole or filter is not None)
            if self._matches(record, document, filter):
                yield document
                given += 1
                if given == limit:
                    return

    def paths(self, under: Sequence[str] = ()) -> Sequence[Path]:
        """The paths of all documents; values are not read."""
        return [self._path(each) for each in self._records(self._conditions(under, None))]

    def search(
        self,
        query: str,
        under: Sequence[str] = (),
        *,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        min_similarity: float | None = 0.0,
    ) -> Sequence[tuple[Document, float]]:
        """Documents whose text matches, best first, each with its score from 0 to 1."""
        hits = self._memory.recall(
            query, limit=max(1, min(limit, _PAGE_RECORDS)), kinds={self._name}, filter=self._conditions(under, filter),
            min_similarity=min_similarity,
        )  # fmt: skip
        found = [(hit.record, self._document(hit.record), hit.score) for hit in hits]
        return [(document, score) for record, document, score in found if self._matches(record, document, filter)][:limit]

    def put_many(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Store documents, each a mapping of put()'s arguments, in few transactions. Raises ValidationError, also if one is
        refused."""
        waiting: list[dict[str, Any]] = []  # made, and not stored yet

        def make() -> Iterator[dict[str, Any]]:
            for document in documents:
                waiting.append(self._fields(**{**document, "path": tuple(document["path"])}))
                yield waiting[-1]

        try:
            for batch in sized_batches(make(), _record_bytes, _PAGE_RECORDS, _MAX_BATCH_BYTES):
                del waiting[: len(batch)]
                self._put(batch)
        except ValidationError:
            self._drop(waiting)
            raise

    def renew(self, path: Sequence[str], ttl: float) -> bool:
        """Extend the time to live of a document to `ttl` seconds from now; returns whether it existed unchanged."""
        record = self._memory.get(key=self._key(tuple(path)))
        if record is None:
            return False
        receipt = self._memory.remember(
            record.content, kind=record.kind, tag=record.tag, key=record.key, importance=record.importance,
            metadata=record.metadata, ttl=ttl, source=record.source, occurred_at=record.occurred_at,
        )  # fmt: skip
        if receipt.action == "added" and receipt.id is not None:
            self._memory.forget(receipt.id)  # it was deleted in the meantime
        elif receipt.action == "superseded":
            self._put_back(receipt)
        return receipt.action == "duplicate"

    def sweep(self) -> int:
        """Erase expired documents; returns their number."""
        swept = 0
        while True:
            over = [each for each in self._memory.upkeep.lapse(dry_run=True).records if each.metadata.get("shelf") == self._name]
            gone = sum(self._erase(record) for record in over)
            swept += gone
            if not gone:
                return swept

    # -- parts ----------------------------------------------------------------------------------------------------
    def _put(self, batch: Sequence[Mapping[str, Any]]) -> None:
        try:
            receipts = self._memory.remember_many(batch)
        except ValidationError:
            self._drop(batch)
            raise
        self._drop(fields for fields, receipt in zip(batch, receipts, strict=True) if receipt.action == "refused")
        for receipt in receipts:
            require_accepted(receipt)

    def _drop(self, batch: Iterable[Mapping[str, Any]]) -> None:
        """Erase the values of documents that were not stored."""
        for metadata in (fields["metadata"] for fields in batch if "kept" in fields["metadata"]):
            self._pieces(metadata).remove([metadata["kept"]])

    def _put_back(self, receipt: Receipt) -> None:
        """Restore what another writer stored between the read and the renewal of a document."""
        record, versions = self._memory.get(receipt.id), self._memory.history(receipt.id or "")
        if record is None or len(versions) < 2 or record.version != receipt.version:
            return
        held = versions[-2]
        left = None if held.expires_at is None else (held.expires_at - datetime.now(UTC)).total_seconds()
        self._memory.remember(
            held.content, kind=held.kind, tag=held.tag, key=record.key, importance=held.importance, metadata=held.metadata,
            ttl=None if left is None else max(left, 0.001), source=held.source,
        )  # fmt: skip

    def _fields(
        self,
        path: Path,
        value: Any,
        *,
        text: str | None = None,
        labels: Mapping[str, Any] | None = None,
        ttl: float | None = None,
        source: str = "agent",
    ) -> dict[str, Any]:
        """The arguments of remember() for a document; a value that does not fit into a record is stored first."""
        said = to_searchable_text(text or "")
        metadata: dict[str, Any] = {"shelf": self._name, "path": list(path), "under": _path_digests(path)}
        if labels:
            metadata["labels"] = dict(labels)
        if _fits(value):
            metadata["value"] = value
        else:
            metadata["kept"] = self._pieces(metadata).add([SessionItem("assistant", "", value)], extract=False)[0].id
        found = has_visible_text(said)
        return {
            "content": said if found else to_searchable_text(f"{self._name} {'/'.join(path)}"),
            "kind": self._name if found else MESSAGE,
            "tag": self._name if found else STEP,
            "key": self._key(path),
            "metadata": metadata,
            "ttl": ttl,
            "source": source,
        }

    def _erase(self, record: Record) -> bool:
        """Forget a record and the values of all its versions; a value that another writer is storing stays."""
        pieces, held = self._pieces(record.metadata), self._versions(record)
        try:
            receipt = self._memory.forget(record.id)
        except NotFound:
            return False
        pieces.remove({str(each.metadata["kept"]) for each in held if "kept" in each.metadata})
        if self._memory.get(key=record.key) is None:
            late = receipt.places.get("versions", 0) >= len(held)  # a version stored in the meantime was erased too
            pieces.clear(before=None if late else datetime.now(UTC) - _ORPHAN_AGE)
        return True

    def _versions(self, record: Record) -> Sequence[Record | Version]:
        try:
            return self._memory.history(record.id) if record.version > 1 else [record]
        except NotFound:
            return [record]

    def _in_place(self, fields: Mapping[str, Any], expected: int, id: str | None) -> Receipt:
        """Replace one version of a document, or none; raises Conflict if another version is stored."""
        key = fields["key"]
        record = self._memory.get(key=key)
        if (0 if record is None else record.version) != expected or (record is not None and id not in (None, record.id)):
            raise Conflict(f"{key!r:.80} is not at version {expected}: read it again, then decide.")
        if record is not None and record.kind == fields["kind"] and fields["ttl"] is None:
            try:
                return self._memory.update(
                    record.id, fields["content"], metadata=fields["metadata"], expected_version=expected
                )  # fmt: skip
            except NotFound:
                raise Conflict(f"{key!r:.80} was forgotten meanwhile: read it again, then decide.") from None
        if record is not None:
            return self._memory.remember(**fields)
        try:  # of two concurrent first writers, one succeeds
            return self._memory.remember(**fields, idempotency_key=to_name(f"new {key}"))
        except Conflict:
            if self._memory.get(key=key) is not None:
                raise
            return self._memory.remember(**fields)  # the document of that key was archived

    def _key(self, path: Path) -> str:
        return to_name(f"{self._name}:{json.dumps(path, ensure_ascii=False, separators=(',', ':'))}")

    def _pieces(self, metadata: Mapping[str, Any]) -> SessionItems:
        """The session with the values that do not fit into a record, named by the digest of the path."""
        return SessionItems(self._memory, f"{self._name}-kept-{metadata['under'][-1]}", of=self._name)

    def _path(self, record: Record) -> Path:
        """The path of a record, from its key if it is there: redacted paths are distinguished only by their keys."""
        try:
            return tuple(json.loads((record.key or "").removeprefix(f"{self._name}:")))
        except ValueError:
            return tuple(record.metadata.get("path", ()))

    def _conditions(self, under: Sequence[str], filter: Mapping[str, Any] | None) -> dict[str, Any]:
        parts: list[Mapping[str, Any]] = [{"shelf": self._name}]
        if under:
            parts.append({"under": {"contains": _path_digests(tuple(under))[-1]}})
        if filter:
            parts.append({"or": [filter, {"kept": {"exists": True}}]})  # values outside the record are filtered when read
        return {"and": parts}

    def _records(self, conditions: Mapping[str, Any]) -> Iterator[Record]:
        """Documents with and without a text, newest first."""
        kinds = (
            list_all(self._memory, kind=kind, tag=tag, filter=conditions) for kind, tag in ((self._name, None), (MESSAGE, STEP))
        )
        return heapq.merge(*kinds, key=lambda record: record.created_at, reverse=True)

    def _matches(self, record: Record, document: Document, filter: Mapping[str, Any] | None) -> bool:
        tree = parse(filter)
        if tree is None or "kept" not in record.metadata:
            return True
        return matches(tree, {"value": document.value, "labels": document.labels})

    def _document(self, record: Record, *, whole: bool = True) -> Document:
        metadata = record.metadata
        value = metadata.get("value")
        if "kept" in metadata and whole:
            turn = self._pieces(metadata).get(str(metadata["kept"]))
            value = None if turn is None else turn.value
        updated = max(record.updated_at, record.occurred_at)  # the second if it was put again unchanged
        return Document(
            self._path(record), value, record.content if record.kind == self._name else "", metadata.get("labels", {}),
            record.created_at, updated, record.expires_at, record.id, record.version, record.last_accessed_at,
        )  # fmt: skip


def _record_bytes(fields: Mapping[str, Any]) -> int:
    return len(fields["content"]) + len(json.dumps(fields["metadata"]))


def require_accepted(receipt: Receipt) -> Receipt:
    """Raise ValidationError if a write was refused or quarantined: frameworks do not read receipts."""
    if receipt.action in ("refused", "quarantined"):
        raise ValidationError(f"the document was {receipt.action}: {'; '.join(receipt.reasons)}.")
    return receipt


def _path_digests(path: Path) -> list[str]:
    """A digest of every prefix of a path."""
    return [digest(json.dumps(path[: at + 1])) for at in range(len(path))]


def _fits(value: Any) -> bool:
    """Whether a record's metadata can hold a value unchanged."""
    try:
        packed = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return False
    return len(packed) <= _MAX_INLINE_BYTES and is_storable(value, MAX_DEPTH - 2)
