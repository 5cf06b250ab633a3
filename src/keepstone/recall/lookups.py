"""Looking records up without ranking: get, list, history, audit."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from keepstone.errors import NotFound, ValidationError
from keepstone.ports.filters import parse
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery
from keepstone.recall.access import AccessCounter
from keepstone.recall.query import MAX_LIMIT, check_int
from keepstone.text.times import parse_time
from keepstone.types import AuditRow, Page, Record, Scope, ScopeSummary, Version, clean_name


class Lookups:
    """get, list, history, audit: one scope's look-ups."""

    def __init__(self, store: Store, accesses: AccessCounter) -> None:
        self._store = store
        self._accesses = accesses

    def get(self, scope: Scope, id: str | None, key: str | None = None) -> Record | None:
        """One record by its id or its key, or None."""
        if (id is None) == (key is None):
            raise ValidationError("get needs either an id or a key: name exactly one of them.")
        if id is not None:
            record = self._store.get(scope, clean_name(id, "id"))
        else:
            record = self._store.by_key(scope, clean_name(key or "", "key"))
        return None if record is None else self._accesses.with_pending(record)

    def list(
        self,
        scope: Scope,
        tag: str | None,
        kind: str | None,
        filter: Mapping[str, Any] | None,
        limit: int,
        cursor: str | None,
        prefix: str | None = None,
        exclude_kind: str | None = None,
    ) -> Page:
        """A page, newest first."""
        limit = check_int(limit, "limit", 1, MAX_LIMIT)
        tag = None if tag is None else clean_name(tag, "tag")
        kind = None if kind is None else clean_name(kind, "kind")
        prefix = None if prefix is None else clean_name(prefix, "prefix")
        tree = parse(filter)
        seal = self._seal(scope, tag, kind, tree, *(part for part in (prefix, exclude_kind) if part is not None))
        before = None if cursor is None else _opened(cursor, seal)
        query = ListQuery(tag, kind, None, tree, limit + 1, before, exclude_kind=exclude_kind, prefix=prefix)
        found = self._store.list(scope, query)
        more = len(found) > limit
        records = tuple(self._accesses.with_pending(record) for _, record in found[:limit])
        return Page(records, _closed(found[limit - 1][0], seal) if more else None)

    def scopes(self, tenant: str) -> Sequence[ScopeSummary]:
        """What each scope of a tenant holds; scopes whose names differ in case or spaces only name each other."""
        found = self._store.retention.summaries(tenant)
        alike: dict[tuple[str, ...], list[Scope]] = {}
        for each in found:
            alike.setdefault(_folded(each.scope), []).append(each.scope)
        return [
            replace(each, resembles=tuple(other for other in alike[_folded(each.scope)] if other != each.scope)) for each in found
        ]

    def sequence(self, scope: Scope, id: str) -> int:
        """The sequence of a record."""
        sequence = self._store.sequence_of(scope, clean_name(id, "id"))
        if sequence is None:
            raise NotFound(f"there is no record {id!r:.80} in this scope: it was never stored here, or it was forgotten.")
        return sequence

    def history(self, scope: Scope, id: str) -> Sequence[Version]:
        """Every version of a record."""
        versions = self._store.history(scope, clean_name(id, "id"))
        if versions is None:
            raise NotFound(f"there is no record {id!r:.80} in this scope: the list shows what there is.")
        return versions

    def audit(self, scope: Scope, since: datetime | str | None, limit: int) -> Sequence[AuditRow]:
        """The audit log, newest first. Entries are numbered within the scope: the store's numbers count what others do."""
        start = None if since is None else parse_time(since, "since")
        rows = self._store.audit(scope, since=start, limit=check_int(limit, "limit", 1, 10_000))
        total = self._store.audit_log.count(scope) if rows else 0
        return [replace(row, number=total - at) for at, row in enumerate(rows)]

    def close_cursor(self, scope: Scope, about: str, sequence: int) -> str:
        """A cursor of another list of the scope."""
        return _closed(sequence, self._seal(scope, about))

    def open_cursor(self, scope: Scope, about: str, cursor: str) -> int:
        """The position of such a cursor; ValidationError for one of another list or scope."""
        return _opened(cursor, self._seal(scope, about))

    def _seal(self, *parts: Any) -> bytes:
        """What binds a cursor to its store, scope and query."""
        return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), key=self._store.id.encode()[:64], digest_size=8).digest()


def _folded(scope: Scope) -> tuple[str, ...]:
    """The names of a scope without case and spaces."""
    return tuple("".join(name.casefold().split()) for name in (scope.agent, scope.user))


def _closed(sequence: int, seal: bytes) -> str:
    """A cursor: the position, hidden, because the numbers of a store count the records of others, and a mark that proves it."""
    mark = hashlib.blake2b(sequence.to_bytes(8, "big"), key=seal, digest_size=8).digest()
    return base64.urlsafe_b64encode(mark + _hide(sequence.to_bytes(8, "big"), mark, seal)).decode().rstrip("=")


def _hide(position: bytes, mark: bytes, seal: bytes) -> bytes:
    """A position under a pad that only the seal gives; twice is once not."""
    pad = hashlib.blake2b(mark, key=seal, digest_size=8, person=b"cursor").digest()
    return bytes(one ^ other for one, other in zip(position, pad, strict=True))


def _opened(cursor: str, seal: bytes) -> int:
    try:
        raw = base64.urlsafe_b64decode(cursor[:200] + "=" * (-len(cursor[:200]) % 4))
        sequence = int.from_bytes(_hide(raw[8:], raw[:8], seal), "big")
        if _closed(sequence, seal) == cursor.rstrip("="):
            return sequence
    except (ValueError, TypeError, AttributeError, OverflowError):
        pass
    raise ValidationError(f"cursor {cursor!r:.60} does not belong to this query: pass the cursor of the page before, unchanged.")
