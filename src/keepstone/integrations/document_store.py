"""Shelf: JSON documents of any size under paths, as records with a key: versioned, audited, erased like any other.

A document with a text is found by recall. One without is a step: kept, listed, and never recalled. What does not fit a record's
metadata stands in a session of its own, every version of it.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.integrations.coerce import digest, named, plain
from keepstone.integrations.message_items import Turn, Turns, sayable
from keepstone.ports.filters import matches, parse
from keepstone.types import MESSAGE, STEP, Receipt, Record, Version
from keepstone.write.request import MAX_DEPTH, MAX_METADATA, has_visible_text

_INLINE = MAX_METADATA - 6 * 1024  # bytes of a document that stands in the metadata; paths and labels need room too
_PAGE = 100
_PUTTING = timedelta(minutes=10)  # what is older, and belongs to no document, nobody is putting any more
_BYTES = 512 * 1024  # about how many of them one call carries: a server takes a megabyte

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A value under a path. `text` is what it is found by ("": by nothing), `labels` what lists are narrowed by."""

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


class Shelf:
    """The documents of one framework in one scope. `name` is the kind and the tag of those that can be recalled."""

    def __init__(self, memory: Any, name: str) -> None:
        self._memory = plain(memory)
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
        """Store a document in the place of what stood there, which stays in its history. `text` is what it is found by, `labels`
        small data to filter by, `ttl` the seconds it is kept. `expected_version` is that of the document it takes the place of, 0
        where there may be none, and `expected_id` its id: a document that was deleted and put again begins with version 1. Raises
        ValidationError, for one that is refused as well, TooLarge, and Conflict where another came first."""
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
        return taken(receipt)

    def get(self, path: Sequence[str]) -> Document | None:
        """The document under a path, or None."""
        record = self._memory.get(key=self._key(tuple(path)))
        return None if record is None else self._document(record)

    def delete(self, path: Sequence[str]) -> bool:
        """Erase a document with its history; whether there was one."""
        record = self._memory.get(key=self._key(tuple(path)))
        return record is not None and self._erased(record)

    def list(
        self,
        under: Sequence[str] = (),
        *,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
        whole: bool = True,
    ) -> Iterator[Document]:
        """Documents whose path begins so, the newest first. `filter` speaks of `value.…` and `labels.…`. Not `whole`, a value
        that does not stand in the record itself is None, and not read."""
        given = 0
        for record in self._records(self._conditions(under, filter)):
            document = self._document(record, whole=whole or filter is not None)
            if self._holds(record, document, filter):
                yield document
                given += 1
                if given == limit:
                    return

    def paths(self, under: Sequence[str] = ()) -> Sequence[Path]:
        """The paths that there are, without reading what does not stand in the records themselves."""
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
        """Documents by what they say, best first, each with its score from 0 to 1; those without a text are never found."""
        hits = self._memory.recall(
            query, limit=max(1, min(limit, _PAGE)), kinds={self._name}, filter=self._conditions(under, filter),
            min_similarity=min_similarity,
        )  # fmt: skip
        found = [(hit.record, self._document(hit.record), hit.score) for hit in hits]
        return [(document, score) for record, document, score in found if self._holds(record, document, filter)][:limit]

    def history(self, path: Sequence[str]) -> Sequence[Document]:
        """Every version of a document, oldest first."""
        record = self._memory.get(key=self._key(tuple(path)))
        if record is None:
            return []
        return [self._document(record, version) for version in self._memory.history(record.id)]

    def put_many(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Store documents, each with put()'s arguments by name, in as few transactions as they fit in. Raises ValidationError for
        one that is refused as well."""
        batch: list[dict[str, Any]] = []
        held = 0
        for document in documents:
            try:
                fields = self._fields(**{**document, "path": tuple(document["path"])})
            except ValidationError:
                self._drop(batch)
                raise
            size = len(fields["content"]) + len(json.dumps(fields["metadata"]))
            if batch and (len(batch) == _PAGE or held + size > _BYTES):
                self._put(batch)
                batch, held = [], 0
            batch.append(fields)
            held += size
        if batch:
            self._put(batch)

    def renew(self, path: Sequence[str], ttl: float) -> bool:
        """Keep a document for so many seconds from now, where that is longer; it stays as it is. Whether it was there and did."""
        record = self._memory.get(key=self._key(tuple(path)))
        if record is None:
            return False
        receipt = self._memory.remember(
            record.content, kind=record.kind, tag=record.tag, key=record.key, importance=record.importance,
            metadata=record.metadata, ttl=ttl, source=record.source, occurred_at=record.occurred_at,
        )  # fmt: skip
        if receipt.action == "added" and receipt.id is not None:
            self._memory.forget(receipt.id)  # it was deleted between the two
        elif receipt.action == "superseded":
            self._put_back(receipt)
        return receipt.action == "duplicate"

    def sweep(self) -> int:
        """Erase the documents whose time is over, which nobody is shown any more; how many there were."""
        swept = 0
        while True:
            over = [each for each in self._memory.upkeep.lapse(dry_run=True).records if each.metadata.get("shelf") == self._name]
            gone = sum(self._erased(record) for record in over)
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
            taken(receipt)

    def _drop(self, batch: Iterable[Mapping[str, Any]]) -> None:
        """Take away what was stored for documents that were not."""
        for metadata in (fields["metadata"] for fields in batch if "kept" in fields["metadata"]):
            self._pieces(metadata).remove([metadata["kept"]])

    def _put_back(self, receipt: Receipt) -> None:
        """Let what another wrote between a look at a document and its renewal stand again."""
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
        """What remember() is given for a document; what does not fit a record is stored before."""
        said = sayable(text or "")
        metadata: dict[str, Any] = {"shelf": self._name, "path": list(path), "under": _above(path)}
        if labels:
            metadata["labels"] = dict(labels)
        if _fits(value):
            metadata["value"] = value
        else:
            metadata["kept"] = self._pieces(metadata).add([Turn("assistant", "", value)], extract=False)[0].id
        found = has_visible_text(said)
        return {
            "content": said if found else sayable(f"{self._name} {'/'.join(path)}"),
            "kind": self._name if found else MESSAGE,
            "tag": self._name if found else STEP,
            "key": self._key(path),
            "metadata": metadata,
            "ttl": ttl,
            "source": source,
        }

    def _erased(self, record: Record) -> bool:
        """Forget a record, and what stands elsewhere for it, now or in its past; what another is just putting stays."""
        pieces, held = self._pieces(record.metadata), self._versions(record)
        try:
            receipt = self._memory.forget(record.id)
        except NotFound:
            return False
        pieces.remove({str(each.metadata["kept"]) for each in held if "kept" in each.metadata})
        if self._memory.get(key=record.key) is None:
            late = receipt.places.get("versions", 0) >= len(held)  # one that was put meanwhile went with it
            pieces.clear(before=None if late else datetime.now(UTC) - _PUTTING)
        return True

    def _versions(self, record: Record) -> Sequence[Record | Version]:
        try:
            return self._memory.history(record.id) if record.version > 1 else [record]
        except NotFound:
            return [record]

    def _in_place(self, fields: Mapping[str, Any], expected: int, id: str | None) -> Receipt:
        """Write a document in the place of one version of it, or of none; Conflict where that is not what stands there."""
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
        try:  # of two that are first, one is
            return self._memory.remember(**fields, idempotency_key=named(f"new {key}"))
        except Conflict:
            if self._memory.get(key=key) is not None:
                raise
            return self._memory.remember(**fields)  # what it was used for was put aside

    def _key(self, path: Path) -> str:
        return named(f"{self._name}:{json.dumps(path, ensure_ascii=False, separators=(',', ':'))}")

    def _pieces(self, metadata: Mapping[str, Any]) -> Turns:
        """Where what does not fit a record is; its place is the digest of its whole path."""
        return Turns(self._memory, f"{self._name}-kept-{metadata['under'][-1]}", of=self._name)

    def _path(self, record: Record) -> Path:
        """The path of a record, of its key where it stands there: of what is sensitive, keys alone stay apart when it is taken
        out."""
        try:
            return tuple(json.loads((record.key or "").removeprefix(f"{self._name}:")))
        except ValueError:
            return tuple(record.metadata.get("path", ()))

    def _conditions(self, under: Sequence[str], filter: Mapping[str, Any] | None) -> dict[str, Any]:
        parts: list[Mapping[str, Any]] = [{"shelf": self._name}]
        if under:
            parts.append({"under": {"contains": _above(tuple(under))[-1]}})
        if filter:
            parts.append({"or": [filter, {"kept": {"exists": True}}]})  # what stands elsewhere is looked at when it is read
        return {"and": parts}

    def _records(self, conditions: Mapping[str, Any]) -> Iterator[Record]:
        """Those that can be recalled and those that cannot, the newest first."""
        kinds = (self._of_kind(self._name, None, conditions), self._of_kind(MESSAGE, STEP, conditions))
        return heapq.merge(*kinds, key=lambda record: record.created_at, reverse=True)

    def _of_kind(self, kind: str, tag: str | None, conditions: Mapping[str, Any]) -> Iterator[Record]:
        cursor: str | None = None
        while True:
            page = self._memory.list(kind=kind, tag=tag, filter=conditions, limit=_PAGE, cursor=cursor)
            yield from page
            cursor = page.cursor
            if cursor is None:
                return

    def _holds(self, record: Record, document: Document, filter: Mapping[str, Any] | None) -> bool:
        tree = parse(filter)
        if tree is None or "kept" not in record.metadata:
            return True
        return matches(tree, {"value": document.value, "labels": document.labels})

    def _document(self, record: Record, version: Version | None = None, *, whole: bool = True) -> Document:
        held = record if version is None else version
        metadata = held.metadata
        value = metadata.get("value")
        if "kept" in metadata and whole:
            turn = self._pieces(metadata).get(str(metadata["kept"]))
            value = None if turn is None else turn.value
        updated = (
            max(record.updated_at, record.occurred_at) if version is None else version.known_from
        )  # put again as it was: then
        return Document(
            self._path(record), value, held.content if held.kind == self._name else "", metadata.get("labels", {}),
            record.created_at, updated, held.expires_at, record.id, held.version, record.last_accessed_at,
        )  # fmt: skip


def taken(receipt: Receipt) -> Receipt:
    """A document that is not there afterwards would be lost to who does not read receipts. Raises ValidationError."""
    if receipt.action in ("refused", "quarantined"):
        raise ValidationError(f"what was given was {receipt.action}: {'; '.join(receipt.reasons)}.")
    return receipt


def _above(path: Path) -> list[str]:
    """Every beginning of a path, as one word each."""
    return [digest(json.dumps(path[: at + 1])) for at in range(len(path))]


def _fits(value: Any) -> bool:
    """Whether a value can stand in a record's metadata as it is."""
    try:
        packed = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return False
    return len(packed) <= _INLINE and _plain(value, MAX_DEPTH - 2)


def _plain(value: Any, depth: int) -> bool:
    if depth <= 0:
        return False
    if isinstance(value, Mapping):
        return all(
            isinstance(key, str) and 0 < len(key) <= 256 and _plain(key, depth) and _plain(each, depth - 1)
            for key, each in value.items()
        )
    if isinstance(value, (list, tuple)):
        return all(_plain(each, depth - 1) for each in value)
    if isinstance(value, str):
        return sayable(value[:_INLINE]) == value
    return not isinstance(value, int) or -(2**63) <= value < 2**63
