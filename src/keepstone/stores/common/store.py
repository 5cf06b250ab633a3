"""CommonStore: the verbs of a store over the driver of an engine.

An engine adds opening, search by words and vectors, backup, checks and erasure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import EmbedderMismatch
from keepstone.ports.filters import Filter
from keepstone.ports.queue import JobDraft
from keepstone.ports.values import (
    Changes,
    ImportRow,
    IndexRows,
    ListQuery,
    Pending,
    RecordExport,
    Revision,
    SearchFilter,
    Selector,
    Snapshot,
    Vector,
    Write,
)
from keepstone.stores.common import forgetting, merging, record_export, reembedding, writes
from keepstone.stores.common.audit_log import StoredAuditLog
from keepstone.stores.common.forgetting import Forgotten
from keepstone.stores.common.queue import StoredJobs, StoredMessageLog, StoredStates, queue_written
from keepstone.stores.common.retention import StoredLeases, StoredRetention, StoredReviews
from keepstone.stores.common.rows import (
    Passages,
    audit_row,
    index_rows,
    packed,
    record_of,
    records_of,
    snapshot_record,
    versions_of,
)
from keepstone.stores.common.scope_catalog import ScopeCatalog, embedder_of, next_embedder
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER, WriteContext
from keepstone.text.passages import record_number
from keepstone.text.sentences import first_stop
from keepstone.text.times import FOREVER, micros
from keepstone.text.words import ANALYSER, index_text
from keepstone.types import AuditRow, Receipt, Record, Scope, Version

_MAX_SEQUENCE = 2**62
ROW_BYTES = 320  # approximate memory of a record without its vector


class CommonStore:
    """The verbs that all engines share."""

    def __init__(self, catalog: ScopeCatalog) -> None:
        self._catalog = catalog
        self._clock = catalog.clock
        self._no_rows: dict[int, IndexRows] = {}  # by dimension, for scopes in which nothing has changed: the usual case
        self.message_log = StoredMessageLog(catalog)
        self.states = StoredStates(catalog)
        self.jobs = StoredJobs(catalog)
        self.retention = StoredRetention(catalog)
        self.reviews = StoredReviews(catalog)
        self.leases = StoredLeases(catalog)
        self.audit_log = StoredAuditLog(catalog)
        with catalog.driver.reading(STORE_OWNER[0]) as db:
            self._meta: dict[str, str] = dict(db.all("meta_all"))
        if self._meta["analyser"] != ANALYSER:  # the analyser changed: rebuild the word index
            catalog.driver.for_every_tenant(lambda db, tenants: record_export.reindex(db, tenants, ANALYSER))

    @property
    def id(self) -> str:
        return str(self._meta["id"])

    @property
    def label(self) -> str:
        """A display name: the path, or the URL without its password."""
        return self._catalog.driver.label

    # -- the embedder ---------------------------------------------------------------------------------------------
    def embedder(self) -> tuple[str, int] | None:
        with self._catalog.driver.reading(STORE_OWNER[0]) as db:
            return embedder_of(db)[1]

    def bind_embedder(self, id: str, dimension: int) -> None:
        wanted = (id, dimension)
        present = self.embedder()
        if present is None:
            self._catalog.driver.for_every_tenant(lambda db, tenants: _set_embedder(db, wanted))
            present = self.embedder()
        if present is not None and present != wanted:
            label = self._catalog.driver.label
            raise EmbedderMismatch(
                f"the vectors in {label} were made by {present[0]!r} ({present[1]} dimensions) and you opened it "
                f"with {id!r} ({dimension} dimensions); vectors of two models cannot be compared. Open it with the embedder it "
                f"has, or move it to the new one: 'keepstone upkeep reembed --db {label} --embedder NAME', any command with "
                "--reembed, or in Python Memory.open(…, reembed=True)."
            )
        self._catalog.bound = wanted

    def next_embedder(self) -> tuple[str, int] | None:
        with self._catalog.driver.reading(STORE_OWNER[0]) as db:
            return next_embedder(db)

    def prepare_embedder(self, id: str, dimension: int) -> None:
        self._catalog.driver.for_every_tenant(lambda db, tenants: reembedding.prepare(db, tenants, (id, dimension)))

    def change_embedder(self, id: str, dimension: int) -> int:
        now = micros(self._clock())
        left = self._catalog.driver.for_every_tenant(lambda db, tenants: reembedding.switch(db, tenants, (id, dimension), now))
        self._catalog.bound = (id, dimension)
        return left

    def pending(self, limit: int, after: int = 0, *, next: bool = False) -> Sequence[Pending]:
        found: list[Pending] = []
        for tenant in self._catalog.driver.tenants("" if next else "pending"):
            with self._catalog.driver.reading(tenant) as db:
                rows = db.all("next_pending" if next else "pending_list", (after, limit)) if after >= 0 else []
                found += [Pending(Scope(*row[:3]), row[3], row[4], _head_text(row[5], row[6])) for row in rows]
                if len(rows) < limit:
                    passages = db.all("next_passages" if next else "pending_passages", (min(after, 0), limit))
                    found += _pending_passages(db, passages)
        return sorted(found, key=lambda each: (each.sequence < 0, abs(each.sequence)))[:limit]

    def pending_count(self, *, next: bool = False) -> int:
        total = 0
        for tenant in self._catalog.driver.tenants("" if next else "pending"):
            with self._catalog.driver.reading(tenant) as db:
                total += int(db.one("next_count" if next else "pending_count")[0])
        return total

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        attach = reembedding.gather if next else reembedding.attach
        done = 0
        for tenant in dict.fromkeys(pending.scope.tenant for pending, _ in vectors):
            theirs = [each for each in vectors if each[0].scope.tenant == tenant]
            done += self._catalog.write(tenant, partial(attach, context_of=self._catalog.write_context, vectors=theirs))
        return done

    # -- writing --------------------------------------------------------------------------------------------------
    def write(self, scope: Scope, items: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        def work(db: Transaction, context: WriteContext) -> Sequence[Receipt]:
            before = 0 if job is None else int(db.one("audit_last")[0] or 0)
            receipts = [writes.write(db, context, scope, item) for item in items]
            if job is not None:
                queue_written(db, context, job, before)
            return receipts

        return self._catalog.change(scope, work, lambda: writes.lookups(self._catalog.known(scope), items, micros(self._clock())))

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        return self._catalog.change(scope, lambda db, context: writes.revise(db, context, id, revision))

    def touch(self, scope: Scope, sequences: Mapping[int, int], at: datetime) -> None:
        def work(db: Transaction) -> None:
            number = self._catalog.number(db, scope)
            for sequence, count in sequences.items():
                db.run("access_add", (number, sequence, count, micros(at)))

        if sequences:
            self._catalog.write(scope.tenant, work)

    def _forget(self, scope: Scope, selector: Selector) -> Forgotten:
        """Delete the selected records and return what was deleted."""
        selector.check()

        def work(db: Transaction) -> Forgotten:
            known = self._catalog.number(db, scope) is not None
            return forgetting.forget(db, self._catalog.write_context(db, scope), selector) if known else Forgotten()

        return self._catalog.driver.writing(scope.tenant, work)

    def _redact(self, scope: Scope, row: ImportRow) -> list[str]:
        """Redact a record. Returns the texts that must not be found any more."""
        return self._catalog.driver.writing(
            scope.tenant, lambda db: forgetting.redact(db, self._catalog.write_context(db, scope), row)
        )

    # -- reading --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None:
        with self._catalog.reading(scope) as (db, number):
            row = db.one("record_by_id", (number, id))
            return None if row is None else record_of(row, scope)[1]

    def by_key(self, scope: Scope, key: str) -> Record | None:
        with self._catalog.reading(scope) as (db, number):
            row = db.one("record_by_key", (number, key, micros(self._clock())))
            return None if row is None else record_of(row, scope)[1]

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        if not sequences:
            return []
        with self._catalog.driver.reading(scope.tenant) as db:  # one context less: every recall reads its hits here
            rows = db.all("record_by_sequences", (self._catalog.number(db, scope), packed(list(sequences))))
        found = dict(records_of(rows, scope))
        return [found.get(sequence) for sequence in sequences]

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        with self._catalog.reading(scope) as (db, number):
            filter, bound = db.filtered(query.filter)
            values = {
                "scope": number, "before": _MAX_SEQUENCE if query.before is None else query.before,
                "now": micros(self._clock()), "tag": query.tag, "kind": query.kind, "session": query.session,
                "without": query.exclude_kind, "prefix": query.prefix, "limit": query.limit, **bound,
            }  # fmt: skip
            page = "record_page_occurred" if query.order == "occurred" else "record_page"
            return records_of(db.all(page, values, filter=filter), scope)

    def count(self, scope: Scope) -> int:
        with self._catalog.reading(scope) as (db, number):
            return int(db.one("record_count", (number, micros(self._clock())))[0])

    def tags(self, scope: Scope, limit: int = 100) -> Sequence[tuple[str, int]]:
        with self._catalog.reading(scope) as (db, number):
            return [(tag, count) for tag, count in db.all("tags", (number, micros(self._clock()), limit))]

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        def read(db: Transaction, number: int | None) -> Sequence[Version] | None:
            row = db.one("record_sequence", (number, id))
            if row is None:
                return None
            past = db.all("history_list", row)
            return versions_of(past + db.all("history_present", row))

        return self._catalog.consistently(scope, read)

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        start = -_MAX_SEQUENCE if since is None else micros(since)
        with self._catalog.reading(scope) as (db, number):
            return [audit_row(row) for row in db.all("audit_list", (number, start, limit))]

    # -- what ranking reads ---------------------------------------------------------------------------------------
    def all_rows(self, scope: Scope, max_bytes: int) -> Changes | None:
        return self._catalog.consistently(
            scope, lambda db, number: None if self._index_size(db, number) > max_bytes else self._read_changes(db, number, 0)
        )

    def changes(self, scope: Scope, after: int) -> Changes:
        return self._catalog.consistently(scope, lambda db, number: self._read_changes(db, number, after))

    def _read_changes(self, db: Transaction, number: int | None, after: int) -> Changes:
        removed = db.all("index_removed", (number, after)) if after else []
        newest, dimension = db.one("index_latest", (number,))[0] or 0, self._catalog.dimension(db)
        rows = None if newest > after else self._no_rows.get(dimension)
        if rows is None:
            rows = index_rows(db, db.stream("index_changed", (number, after)), dimension, read_passages(db, number))
        if not len(rows):
            self._no_rows[dimension] = rows
        return Changes(max(after, newest, removed[-1][1] if removed else 0), rows, tuple(row[0] for row in removed))

    def matching(self, scope: Scope, filter: Filter) -> NDArray[np.int64]:
        with self._catalog.reading(scope) as (db, number):
            condition, bound = db.filtered(filter)
            rows = db.all("record_matching", {"scope": number, **bound}, filter=condition)
            return np.array([row[0] for row in rows], dtype=np.int64)

    def sequence_of(self, scope: Scope, id: str) -> int | None:
        with self._catalog.reading(scope) as (db, number):
            row = db.one("record_sequence", (number, id))
            return None if row is None else int(row[0])

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        bounds = {"as_of": _bound(as_of), "known_at": _bound(known_at)}

        def read(db: Transaction, number: int | None) -> Snapshot:
            rows = db.all("snapshot", {"scope": number, **bounds})
            columns = index_rows(db, [row[:15] for row in rows], self._catalog.dimension(db), read_passages(db, number))
            records = {int(row[0]): snapshot_record(row, scope) for row in rows}
            return Snapshot(columns, tuple(records[sequence] for sequence in columns.sequences.tolist()))

        return self._catalog.consistently(scope, read)

    def search_recent(self, scope: Scope, limit: int, search_filter: SearchFilter = SearchFilter()) -> Sequence[int]:
        with self._catalog.reading(scope) as (db, number):
            return self._search(db, "recent_search", number, search_filter, {"limit": limit})

    def _search(
        self, db: Transaction, name: str, number: int | None, search_filter: SearchFilter, values: Mapping[str, Any], **parts: str
    ) -> Sequence[int]:
        """The sequences that a search finds."""
        condition, bound = self._filter(db, number, search_filter)
        return [row[0] for row in db.all(name, {**bound, **values}, filter=condition, **parts)]

    def _filter(self, db: Transaction, number: int | None, search_filter: SearchFilter) -> tuple[str, dict[str, Any]]:
        """The SQL condition of a search filter and its values."""
        condition, bound = db.filtered(search_filter.filter)
        return condition, {
            "scope": number,
            "now": micros(self._clock()),
            "kinds": None if search_filter.kinds is None else packed(search_filter.kinds),
            "tag": search_filter.tag,
            "session": search_filter.session,
            "min_importance": search_filter.min_importance,
            "min_trust": search_filter.min_trust,
            "steps": search_filter.steps,
            **bound,
        }

    def index_rows(self, scope: Scope, numbers: Sequence[int], *, whole: bool = False) -> IndexRows:
        records = list(dict.fromkeys(map(record_number, numbers)))
        some = [number for number in numbers if number < 0]
        with self._catalog.reading(scope) as (db, number):
            rows = db.each("index_one", records, {"scope": number})
            every = read_passages(db, number)
            passages = every if whole else lambda _: db.each("index_passage", some, {"scope": number})
            return index_rows(db, rows, self._catalog.dimension(db), passages)

    def neighbours(self, scope: Scope, sequences: Sequence[int], reach: int) -> Sequence[int]:
        with self._catalog.reading(scope) as (db, number):
            return sorted({row[0] for row in db.each("neighbours", sequences, {"scope": number, "reach": reach})})

    def index_size(self, scope: Scope) -> int:
        with self._catalog.reading(scope) as (db, number):
            return self._index_size(db, number)

    def _index_size(self, db: Transaction, number: int | None) -> int:
        rows = int(db.one("index_size", (number,))[0]) + int(db.one("passages_count", (number,))[0])
        return rows * (self._catalog.dimension(db) * 4 + ROW_BYTES)

    # -- export and import ----------------------------------------------------------------------------------------
    def export_records(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[RecordExport]:
        with self._catalog.reading(scope, consistent=True) as (db, number):
            yield from record_export.export_records(db, scope, number, ids)

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        def work(db: Transaction, context: WriteContext) -> tuple[int, bool]:
            outcomes = [record_export.import_records(db, context, row) for row in held if row.stamp is None]
            merged, erased = merging.merge_rows(db, context, [row for row in held if row.stamp is not None])
            return sum(outcomes) + merged, erased

        held = list(rows)  # a repeated transaction reads them again
        done, erased = self._catalog.change(scope, work)
        if erased:
            self._erase_texts(scope)
        return done, len(held) - done

    def _erase_texts(self, scope: Scope) -> None:
        """Called after a commit that took texts out of the scope."""


def read_passages(db: Transaction, number: int | None) -> Passages:
    """Reads the further passages of records of a scope."""
    return lambda sequences: db.each("index_passages", sequences, {"scope": number})


def _head_text(content: str, key: str | None) -> str:
    return index_text(content[: first_stop(content)], key)


def _pending_passages(db: Transaction, rows: Sequence[Sequence[Any]]) -> Iterator[Pending]:
    """Passages that wait for their vectors, with their texts; the text of each record is read once."""
    for sequence, passages in groupby(rows, key=lambda row: record_number(row[3])):
        content, key = db.one("record_text", (sequence,))
        for tenant, agent, user, number, version, start, stop in passages:
            yield Pending(Scope(tenant, agent, user), number, version, index_text(content[start:stop], key))


def _set_embedder(db: Transaction, wanted: tuple[str, int]) -> None:
    model, present = embedder_of(db)
    if present is None:
        db.run("meta_set", ("embedder", f"{model + 1} {wanted[1]} {wanted[0]}"))


def _bound(at: datetime | None) -> int:
    return FOREVER if at is None else micros(at)
