"""SqliteStore: the embedded store, one file. Imports: ports, types, errors, and the rooms beside it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from recollect import times
from recollect.desk import JobDraft
from recollect.errors import ConfigurationError, EmbedderMismatch
from recollect.filters import Filter
from recollect.ports import (
    Archive,
    Changes,
    Clock,
    ImportRow,
    IndexRows,
    ListQuery,
    Narrow,
    Pending,
    Progress,
    Revision,
    Selector,
    Snapshot,
    StoreOptions,
    Vector,
    Write,
)
from recollect.stores.sqlite import (
    archive,
    building,
    doctor,
    erasure,
    files,
    forgetting,
    migrate,
    ranking,
    redacting,
    reembedding,
    writes,
)
from recollect.stores.sqlite.conditions import Conditions
from recollect.stores.sqlite.desk import Place, SqliteJobs, SqliteStates, SqliteTurns, queue_written
from recollect.stores.sqlite.driver import Driver, all_rows, connect, one_row, translated
from recollect.stores.sqlite.forgetting import Forgotten
from recollect.stores.sqlite.keeping import SqliteKeeping, SqliteLeases, SqliteReviews
from recollect.stores.sqlite.moment import Moment, sql
from recollect.stores.sqlite.rows import audit_row, packed, record_of, vector_blob, versions_of
from recollect.stores.sqlite.trail import SqliteTrail
from recollect.times import micros
from recollect.types import AuditRow, Diagnosis, ForgetReceipt, Receipt, Record, Scope, Version
from recollect.words import ANALYSER, index_text

T = TypeVar("T")
_ERASE_WAIT = 1.0  # seconds a forget waits, and with it every writer, for readers of the old pages
_LAST = 2**62


class SqliteStore:
    """Records in one SQLite file that many processes may share; ":memory:" lives as long as the object."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._scopes: dict[Scope, int] = {}
        self._written: set[Scope] = set()  # by the transaction under way, which may yet be rolled back
        self._erasure_due = False
        self._bound: tuple[str, int] | None = None
        place = Place(driver, clock, self._scope, self._moment, self._write)
        self.turns = SqliteTurns(place)
        self.states = SqliteStates(place)
        self.jobs = SqliteJobs(place)
        self.keeping = SqliteKeeping(place)
        self.reviews = SqliteReviews(place)
        self.leases = SqliteLeases(place)
        self.trail = SqliteTrail(place)
        driver.after_commit = self._committed
        with driver.reading() as db:
            self._meta: dict[str, str] = dict(all_rows(db, sql.meta_all))

    @classmethod
    def open(cls, path: str, options: StoreOptions = StoreOptions(), *, clock: Clock = times.now) -> SqliteStore:
        """Open the store at a path, creating it on first use. What is there and is no healthy store is refused and
        left untouched."""
        if path != ":memory:":
            path = str(Path(path).absolute())
            if not files.check(Path(path)):
                files.create(Path(path), building.build)
                files.check(Path(path))
            connection = connect(path, options)
            try:
                with translated(path, connection):
                    migrate.migrate(connection, path)
            finally:
                connection.close()
            store = cls(Driver(path, options), clock)
        else:
            driver = Driver(path, options)
            with driver.reading() as db:
                building.fill(db)
            store = cls(driver, clock)
        if store._meta["analyser"] != ANALYSER:  # words are split differently now: write them all anew
            store._driver.writing(lambda db: archive.reindex(db, ANALYSER))
        return store

    @property
    def id(self) -> str:
        return str(self._meta["id"])

    # -- scopes and moments ---------------------------------------------------------------------------------------
    def _committed(self, db: apsw.Connection) -> None:
        """Remember the numbers of scopes only now that they are certain: a number that is rolled back goes to another."""
        while self._written:
            self._scope(db, self._written.pop())

    def _scope(self, db: apsw.Connection, scope: Scope) -> int | None:
        """The number of a scope, None if it has never been written to."""
        number = self._scopes.get(scope)
        if number is None:
            row = one_row(db, sql.scope_find, (scope.tenant, scope.agent, scope.user))
            if row is None:
                return None
            number = int(row[0])
            if db.getautocommit():  # inside a transaction it may yet be rolled back
                self._scopes[scope] = number
        return number

    def _moment(self, db: apsw.Connection, scope: Scope) -> Moment:
        if scope not in self._scopes:
            self._written.add(scope)
        number = self._scope(db, scope)
        if number is None:
            number = int(one_row(db, sql.scope_add, (scope.tenant, scope.agent, scope.user))[0])
        model, bound = self._model(db)
        usable = bound is not None and bound == self._bound
        moved = bound is not None and self._bound is not None and bound != self._bound
        dimension = bound[1] if usable and bound else None
        owner = (scope.tenant, scope.agent, scope.user)
        return Moment(number, micros(self._clock()), model if usable else None, dimension, moved, owner)

    _model = staticmethod(building.embedder_of)

    # -- the embedder ---------------------------------------------------------------------------------------------
    def embedder(self) -> tuple[str, int] | None:
        with self._driver.reading() as db:
            return self._model(db)[1]

    def bind_embedder(self, id: str, dimension: int) -> None:
        wanted = (id, dimension)
        present = self.embedder()
        if present is None:
            self._driver.writing(lambda db: self._set_embedder(db, wanted))
            present = self.embedder()
        if present is not None and present != wanted:
            raise EmbedderMismatch(
                f"the vectors in {self._driver.path} were made by {present[0]!r} ({present[1]} dimensions) and you opened it "
                f"with {id!r} ({dimension} dimensions); vectors of two models cannot be compared. Open it with the embedder it "
                f"has, or move it to the new one: 'recollect upkeep reembed --db {self._driver.path} --embedder NAME', or in "
                "Python Memory.open(path, embedder='none').upkeep.reembed(embedder=…)."
            )
        self._bound = wanted

    def _set_embedder(self, db: apsw.Connection, wanted: tuple[str, int]) -> None:
        model, present = self._model(db)
        if present is None:
            db.execute(sql.meta_set, ("embedder", f"{model + 1} {wanted[1]} {wanted[0]}"))

    def next_embedder(self) -> tuple[str, int] | None:
        with self._driver.reading() as db:
            return building.next_embedder(db)

    def prepare_embedder(self, id: str, dimension: int) -> None:
        self._driver.writing(lambda db: reembedding.prepare(db, (id, dimension)))

    def change_embedder(self, id: str, dimension: int) -> int:
        left = self._driver.writing(lambda db: reembedding.switch(db, (id, dimension), micros(self._clock())))
        self._bound = (id, dimension)
        return left

    def pending(self, limit: int, after: int = 0, *, next: bool = False) -> Sequence[Pending]:
        with self._driver.reading() as db:
            rows = all_rows(db, sql.next_pending if next else sql.pending_list, (after, limit))
            return [Pending(Scope(*row[:3]), row[3], row[4], index_text(row[5], row[6])) for row in rows]

    def pending_count(self, *, next: bool = False) -> int:
        with self._driver.reading() as db:
            return int(one_row(db, sql.next_count if next else sql.pending_count)[0])

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        attach = reembedding.gather if next else reembedding.attach
        return self._driver.writing(lambda db: attach(db, self._moment, vectors))

    # -- writing --------------------------------------------------------------------------------------------------
    def write(self, scope: Scope, items: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        def work(db: apsw.Connection) -> Sequence[Receipt]:
            at = self._moment(db, scope)
            before = 0 if job is None else int(one_row(db, sql.audit_last)[0] or 0)
            receipts = [writes.write(db, at, scope, item) for item in items]
            if job is not None:
                queue_written(db, at, job, before)
            return receipts

        return self._write(work)

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        return self._write(lambda db: writes.revise(db, self._moment(db, scope), id, revision))

    def touch(self, scope: Scope, sequences: Mapping[int, int], at: datetime) -> None:
        def work(db: apsw.Connection) -> None:
            number = self._scope(db, scope)
            for sequence, count in sequences.items():
                db.execute(sql.access_add, (number, sequence, count, micros(at)))

        if sequences:
            self._write(work)

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        selector.check()

        def work(db: apsw.Connection) -> Forgotten:
            return Forgotten() if self._scope(db, scope) is None else forgetting.forget(db, self._moment(db, scope), selector)

        gone = self._driver.writing(work)
        if not gone.texts:
            return ForgetReceipt(0)
        self._erasure_due = not erasure.erase(self._driver, gone.texts, _ERASE_WAIT)
        if not self._erasure_due:
            return ForgetReceipt(len(gone.ids), tuple(gone.ids), places=dict(gone.places), summarised=tuple(gone.summarised))
        late = "the log's old pages are still being read; they are erased by the next write or close"
        return ForgetReceipt(
            len(gone.ids), tuple(gone.ids), False, (late,), places=dict(gone.places), summarised=tuple(gone.summarised)
        )

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        texts = self._driver.writing(lambda db: redacting.redact(db, self._moment(db, scope), row))
        if texts:
            self._erasure_due = not erasure.erase(self._driver, texts, _ERASE_WAIT)
        return bool(texts)

    def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Commit some work, and finish an erasure that had to wait."""
        result = self._driver.writing(work)
        if self._erasure_due:
            self._erasure_due = not self._driver.checkpoint(0)
        return result

    # -- reading --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None:
        with self._driver.reading() as db:
            row = one_row(db, sql.record_by_id, (self._scope(db, scope), id))
            return None if row is None else record_of(row, scope)[1]

    def by_key(self, scope: Scope, key: str) -> Record | None:
        with self._driver.reading() as db:
            row = one_row(db, sql.record_by_key, (self._scope(db, scope), key, micros(self._clock())))
            return None if row is None else record_of(row, scope)[1]

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        with self._driver.reading() as db:
            rows = all_rows(db, sql.record_by_sequences, (self._scope(db, scope), packed(list(sequences))))
            found = dict(record_of(row, scope) for row in rows)
        return [found.get(sequence) for sequence in sequences]

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        conditions = Conditions()
        statement = sql.record_page.replace("{filter}", conditions.of(query.filter))
        with self._driver.reading() as db:
            values = {
                "scope": self._scope(db, scope), "before": _LAST if query.before is None else query.before,
                "now": micros(self._clock()), "tag": query.tag, "kind": query.kind, "session": query.session,
                "without": query.without, "limit": query.limit, **conditions.values,
            }  # fmt: skip
            return [record_of(row, scope) for row in all_rows(db, statement, values)]

    def count(self, scope: Scope) -> int:
        with self._driver.reading() as db:
            return int(one_row(db, sql.record_count, (self._scope(db, scope), micros(self._clock())))[0])

    def tags(self, scope: Scope, limit: int = 100) -> Sequence[tuple[str, int]]:
        with self._driver.reading() as db:
            return [(tag, n) for tag, n in all_rows(db, sql.tags, (self._scope(db, scope), micros(self._clock()), limit))]

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        with self._driver.reading(consistent=True) as db:
            row = one_row(db, sql.record_sequence, (self._scope(db, scope), id))
            if row is None:
                return None
            past = all_rows(db, sql.history_list, row)
            return versions_of(past + all_rows(db, sql.history_present, row))

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        start = -_LAST if since is None else micros(since)
        with self._driver.reading() as db:
            rows = all_rows(db, sql.audit_list, (self._scope(db, scope), start, limit))
            return [audit_row(row) for row in rows]

    # -- what ranking reads ---------------------------------------------------------------------------------------
    def stamp(self) -> tuple[Hashable, Hashable]:
        return self._bound, self._driver.stamp()

    def _dimension(self, db: apsw.Connection) -> int:
        """The width of vectors that may be used: 0 unless the store still has the embedder it is bound to."""
        bound = self._model(db)[1]
        return bound[1] if bound is not None and bound == self._bound else 0

    def changes(self, scope: Scope, after: int) -> Changes:
        with self._driver.reading(consistent=True) as db:
            return ranking.changes(db, self._scope(db, scope), after, self._dimension(db))

    def matching(self, scope: Scope, filter: Filter) -> NDArray[np.int64]:
        conditions = Conditions()
        statement = sql.record_matching.replace("{filter}", conditions.of(filter))
        with self._driver.reading() as db:
            rows = all_rows(db, statement, {"scope": self._scope(db, scope), **conditions.values})
        return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))

    def sequence_of(self, scope: Scope, id: str) -> int | None:
        with self._driver.reading() as db:
            row = one_row(db, sql.record_sequence, (self._scope(db, scope), id))
        return None if row is None else int(row[0])

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        with self._driver.reading(consistent=True) as db:
            return ranking.snapshot(db, scope, self._scope(db, scope), as_of, known_at, self._dimension(db))

    def search_words(self, scope: Scope, terms: Sequence[str], limit: int, narrow: Narrow = Narrow()) -> Sequence[int]:
        with self._driver.reading() as db:
            return ranking.search_words(db, self._scope(db, scope), terms, limit, micros(self._clock()), narrow)

    def search_recent(self, scope: Scope, limit: int, narrow: Narrow = Narrow()) -> Sequence[int]:
        with self._driver.reading() as db:
            return ranking.search_recent(db, self._scope(db, scope), limit, micros(self._clock()), narrow)

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        with self._driver.reading() as db:
            return ranking.document_frequencies(db, self._scope(db, scope), terms)

    def search_vectors(self, scope: Scope, vector: Vector, limit: int, narrow: Narrow = Narrow()) -> Sequence[int]:
        with self._driver.reading() as db:
            dimension = self._dimension(db)
            vector_blob(vector, dimension or len(vector))  # an unusable one is refused before it is compared with anything
            number = self._scope(db, scope)
            return ranking.search_vectors(db, number, vector, limit, micros(self._clock()), narrow) if dimension else []

    def index_rows(self, scope: Scope, sequences: Sequence[int]) -> IndexRows:
        with self._driver.reading() as db:
            return ranking.index_rows_of(db, self._scope(db, scope), sequences, self._dimension(db))

    def neighbours(self, scope: Scope, sequences: Sequence[int], reach: int) -> Sequence[int]:
        with self._driver.reading() as db:
            return ranking.neighbours(db, self._scope(db, scope), sequences, reach)

    def index_size(self, scope: Scope) -> int:
        with self._driver.reading() as db:
            rows = int(one_row(db, sql.index_size, (self._scope(db, scope),))[0])
            return rows * (self._dimension(db) * 4 + ranking.ROW_BYTES)

    # -- moving and keeping ---------------------------------------------------------------------------------------
    def archives(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[Archive]:
        with self._driver.reading(consistent=True) as db:
            found = archive.archives(db, scope, self._scope(db, scope), ids)
            yield from list(found) if self._driver.path == ":memory:" else found  # one connection has only one view

    def restore(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        def work(db: apsw.Connection) -> tuple[int, int]:
            at = self._moment(db, scope)
            outcomes = [archive.restore(db, at, row) for row in rows]
            return sum(outcomes), len(outcomes) - sum(outcomes)

        return self._driver.writing(work)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        target = Path(path).absolute()
        if files.check_free(target) and files.create(
            target, lambda draft: self._driver.backup_to(str(draft), progress or (lambda done, total: None))
        ):
            return
        raise ConfigurationError(f"{target} exists already: choose another path, or delete it first.")

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        with self._driver.reading(consistent=True, fresh=True) as db:
            return doctor.examine(db, self._model(db)[1], analyse, progress or (lambda done, total: None))

    def close(self) -> None:
        if self._erasure_due:
            self._driver.checkpoint(0)
        self._driver.close()
