"""Rows to values and back."""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, ParamSpec, TypeVar

import numpy as np

from keepstone.errors import EmbedderError
from keepstone.ports.maintenance import ReviewItem
from keepstone.ports.queue import Job
from keepstone.ports.values import IndexRows, Vector
from keepstone.stores.common.transaction import Transaction
from keepstone.text.passages import place_of, record_number
from keepstone.text.times import EPOCH, FOREVER
from keepstone.types import AuditRow, Record, Scope, Version

Row = Sequence[Any]
Passages = Callable[[Sequence[int]], Sequence[Row]]  # sequences of records -> rows of the query `index_passages`
P = ParamSpec("P")
T = TypeVar("T")
_CHUNK = 256  # rows: what is read for them stays in the cache of a core
_PLAIN = ("sequences", "importances", "trusts", "occurred", "valid_from", "expires", "active")
_CODED = ("kinds", "tags", "sessions", "roles", "names")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode  # `dumps` would make one each time
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [one + other for one in _ALPHABET for other in _ALPHABET]


class Unreadable(ValueError):
    """A row that keepstone did not write; engines report it as damage."""


def _readable(read: Callable[P, T]) -> Callable[P, T]:
    """Raise Unreadable for a row of the wrong shape."""

    @functools.wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Unreadable(f"a row cannot be read: {error}") from error

    return reading


def new_id() -> str:
    """A fresh record id: 80 random bits, safe in shells, URLs and file names."""
    number = secrets.randbits(80)
    return "m_" + "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])


def content_hash(content: str) -> bytes:
    """The hash by which contents are compared and verified."""
    return hashlib.blake2b(content.encode("utf-8"), digest_size=16).digest()


def packed(value: Any) -> str:
    """JSON as it is stored."""
    if not value:  # by far the commonest: no metadata, no parents, no reasons
        return "{}" if isinstance(value, dict) else "[]" if isinstance(value, (list, tuple)) else json.dumps(value)
    return _encode(value)


def checked(vector: Vector, dimension: int | None) -> Vector:
    """The vector, if it can be stored. Raises EmbedderError."""
    if dimension is None:
        raise EmbedderError("the store is not bound to an embedder, so it cannot take a vector: call bind_embedder first.")
    if vector.shape != (dimension,):
        raise EmbedderError(f"a vector has shape {vector.shape}, the store holds {dimension} dimensions.")
    if not 0 < float(vector @ vector) < np.inf:
        raise EmbedderError("a vector is zero or has values that are not finite: the embedder is at fault.")
    return vector


def instant(at: int) -> datetime:
    """The time of a column that holds microseconds since 1970."""
    return EPOCH + timedelta(0, 0, at)  # a third faster than by name


@_readable
def records_of(rows: Iterable[Row], scope: Scope) -> list[tuple[int, Record]]:
    """(sequence, record) from the columns of the query `record`, for each row."""
    return [_record_of(row, scope) for row in rows]


@_readable
def record_of(row: Row, scope: Scope) -> tuple[int, Record]:
    """(sequence, record) from the columns of the query `record`."""
    return _record_of(row, scope)


def _record_of(row: Row, scope: Scope) -> tuple[int, Record]:
    (sequence, id, kind, tag, key, content, metadata, importance, source, trust, session, role, name, occurred, created,
     updated, valid, expires, last, count, version, status, parents, embedded, blocks, sensitive) = row  # fmt: skip
    at = instant(created)
    return sequence, Record(
        id, scope, kind, tag, key, content, _metadata(metadata), importance, source, trust, session, role, name,
        at if occurred == created else instant(occurred), at, at if updated == created else instant(updated),
        at if valid == created else instant(valid), None, None if expires is None else instant(expires),
        None if last is None else instant(last), count, version, status,
        () if parents == "[]" else tuple(json.loads(parents)), bool(embedded),
        None if blocks is None else tuple(json.loads(blocks)), () if sensitive == "[]" else tuple(json.loads(sensitive)),
    )  # fmt: skip


def _metadata(text: str) -> dict[str, Any]:
    return {} if text == "{}" else json.loads(text)


@_readable
def unpacked(text: str) -> list[Any]:
    """A stored list."""
    found: list[Any] = json.loads(text)
    return found


@_readable
def job_of(row: Row) -> Job:
    """A job from the columns of the query `job`."""
    number, tenant, agent, user, kind, session, ids, state, attempts, due, created, problem, claim = row
    return Job(
        number, Scope(tenant, agent, user), kind, session, tuple(unpacked(ids)), state, attempts, instant(due), instant(created),
        problem, claim,
    )  # fmt: skip


@_readable
def review_of(row: Row, record: Record | None) -> ReviewItem:
    """An entry of the review list, from the columns of the query `review`."""
    number, id, version, flag, reason, evidence, at, state = row
    return ReviewItem(number, id, version, flag, reason, tuple(unpacked(evidence)), instant(at), state, record)


@_readable
def audit_row(row: Row) -> AuditRow:
    """An audit entry, from the columns of the query `audit_list`."""
    number, at, verb, action, id, version, source, reasons = row
    return AuditRow(number, instant(at), verb, action, id, version, source, tuple(json.loads(reasons)))


@_readable
def versions_of(rows: Sequence[Row]) -> list[Version]:
    """Versions, oldest first, from the columns of the query `history_list`; each holds until the next begins."""
    found = []
    for at, row in enumerate(rows):
        (number, content, metadata, importance, kind, tag, source, trust, session, role, name, valid, known, expires,
         action) = row[:15]  # fmt: skip
        until = min((later[11] for later in rows[at + 1 :]), default=None)
        found.append(Version(
            version=number, content=content, metadata=_metadata(metadata), importance=importance, kind=kind, tag=tag,
            source=source, trust=trust, session=session, role=role, name=name, valid_from=instant(valid),
            valid_to=None if until is None else instant(max(valid, until)), known_from=instant(known),
            expires_at=None if expires is None else instant(expires), action=action,
        ))  # fmt: skip
    return found


@_readable
def index_rows(db: Transaction, rows: Iterable[Row], dimension: int, passages: Passages) -> IndexRows:
    """The columns that ranking reads, from the columns of the query `index`. Rows are taken in chunks, so that a large scope
    is never in memory twice. `passages` reads the further passages of the records with these sequences."""
    chunks: list[list[Any]] = []
    terms: list[bytes] = []
    matrix = np.empty((0, dimension), dtype=np.float32)
    stops: list[int | None] = []
    source = iter(rows)
    while chunk := list(islice(source, _CHUNK)):
        columns = [*map(list, zip(*chunk, strict=True))]
        matrix.resize((len(matrix) + len(chunk), dimension), refcheck=False)  # in place: joining parts would copy all of them
        matrix[-len(chunk) :] = db.read(columns[13], dimension)
        terms += columns[12]
        stops += columns[14]
        chunks.append(columns[:12])
    merged = chunks[0] if len(chunks) == 1 else [[*chain.from_iterable(parts)] for parts in zip(*chunks, strict=True)]
    merged = merged or [[] for _ in range(12)]
    sequences, kinds, tags, sessions, roles, names, importances, trusts, occurred, valid, expires, status = merged
    count = len(sequences)
    found = IndexRows(
        sequences=np.array(sequences, dtype=np.int64),
        kinds=kinds,
        tags=tags,
        sessions=sessions,
        roles=roles,
        names=names,
        importances=np.array(importances, dtype=np.float32),
        trusts=np.array(trusts, dtype=np.float32),
        occurred=np.array(occurred, dtype=np.int64),
        valid_from=np.array(valid, dtype=np.int64),
        expires=np.array([FOREVER if each is None else each for each in expires], dtype=np.int64),
        active=np.array([each == "active" for each in status], dtype=np.bool_),
        terms=np.frombuffer(b"".join(terms), dtype="<u4").astype(np.uint32, copy=False),
        ends=np.cumsum(np.fromiter(map(len, terms), dtype=np.int64, count=count)) // 4,
        embedded=np.asarray(np.vecdot(matrix, matrix) != 0),  # a tenth of the time of `any`
        vectors=matrix,
    )
    long = [at for at, stop in enumerate(stops) if stop is not None]
    if long:
        found.passage_stops[long] = [stop for stop in stops if stop is not None]
        return _with_passages(db, found, long, passages([sequences[at] for at in long]), dimension)
    return found


def _with_passages(db: Transaction, rows: IndexRows, long: Sequence[int], passages: Sequence[Row], dimension: int) -> IndexRows:
    """Rows with the further passages of some of them, each after its record."""
    if not passages:
        return rows
    at_of = {int(rows.sequences[at]): at for at in long}
    numbers, starts, stops, terms, vectors = zip(*passages, strict=True)
    heads = np.array([at_of[record_number(number)] for number in numbers])
    matrix = np.concatenate([rows.vectors, db.read(vectors, dimension)])
    lengths = np.concatenate([np.diff(rows.ends, prepend=0), [len(each) // 4 for each in terms]])
    places = np.concatenate([rows.places, [place_of(number) for number in numbers]]).astype(np.int16)
    joined = np.concatenate([rows.terms, np.frombuffer(b"".join(terms), dtype="<u4").astype(np.uint32, copy=False)])
    of = np.concatenate([np.arange(len(rows)), heads])  # the row of each one's record
    order = np.lexsort((places, of))
    ends = np.cumsum(lengths)
    pieces = [joined[ends[at] - lengths[at] : ends[at]] for at in order]
    of = of[order]
    plain: dict[str, Any] = {name: getattr(rows, name)[of] for name in _PLAIN}
    coded: dict[str, Any] = {name: [getattr(rows, name)[at] for at in of.tolist()] for name in _CODED}
    return IndexRows(
        **plain,
        **coded,
        terms=np.concatenate(pieces),
        ends=np.cumsum(lengths[order]),
        embedded=np.asarray(matrix.any(axis=1))[order],
        vectors=matrix[order],
        places=places[order],
        passage_starts=np.concatenate([rows.passage_starts, starts]).astype(np.int32)[order],
        passage_stops=np.concatenate([rows.passage_stops, stops]).astype(np.int32)[order],
    )


@_readable
def snapshot_record(row: Row, scope: Scope) -> Record:
    """A record as it was, from the columns of the query `snapshot`."""
    (_, kind, tag, session, role, name, importance, trust, occurred, valid, expires, status, _, vector, _, id, key, content,
     metadata, source, created, known, version, parents, until) = row  # fmt: skip
    return Record(
        id=id, scope=scope, kind=kind, tag=tag, key=key, content=content, metadata=_metadata(metadata),
        importance=importance, source=source, trust=trust, session=session, role=role, name=name,
        occurred_at=instant(occurred), created_at=instant(created), updated_at=instant(known), valid_from=instant(valid),
        valid_to=None if until is None else instant(max(until, valid)),
        expires_at=None if expires is None else instant(expires), last_accessed_at=None, access_count=0, version=version,
        status=status, parents=tuple(json.loads(parents)), embedded=vector is not None,
    )  # fmt: skip
