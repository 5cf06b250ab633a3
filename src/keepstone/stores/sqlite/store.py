"""SqliteStore: the embedded store, one file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from keepstone.errors import ConfigurationError, StoreError
from keepstone.ports.stores import Clock, Progress
from keepstone.ports.values import Changes, ImportRow, RecordExport, SearchFilter, Selector, StoreOptions, Vector
from keepstone.stores.common.rows import checked, index_rows
from keepstone.stores.common.scope_catalog import ScopeCatalog
from keepstone.stores.common.store import CommonStore, read_passages
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.sqlite import doctor, encryption, files, migrate
from keepstone.stores.sqlite.connections import Driver, connect, translated
from keepstone.text import times
from keepstone.types import Diagnosis, ForgetReceipt, Record, Scope

_CHUNK = 4096  # vectors compared at a time
_ERASE_WAIT_SECONDS = 1.0  # seconds a forget, and with it every writer, waits for readers of the old pages


class SqliteStore(CommonStore):
    """A store in one SQLite file that several processes may share; ":memory:" lives as long as the object."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._erasure_due = False
        self.erased: Callable[[Scope], bool] = lambda scope: True
        super().__init__(ScopeCatalog(driver, clock, self._finish_erasing))

    @classmethod
    def open(cls, path: str, options: StoreOptions = StoreOptions(), *, clock: Clock = times.now) -> SqliteStore:
        """Open the store at a path, creating it on first use. What is there and is no healthy store is refused and
        left untouched."""
        if path == ":memory:":
            driver = Driver(path, options)
            with driver.reading() as transaction:
                migrate.fill(transaction.db)
            return cls(driver, clock)
        path = str(Path(path).absolute())
        key = options.encryption_key
        if key is not None:
            encryption.require_cipher()
        if not files.check(Path(path), encrypted=key is not None):
            raw = None if key is None else encryption.new_raw_key(key)
            files.create(Path(path), lambda draft: migrate.build(draft, raw))
            files.check(Path(path), encrypted=key is not None)
        if key is not None:
            options = replace(options, encryption_key=encryption.raw_key(key, files.read_salt(Path(path))))
        connection = connect(path, options)
        try:
            with translated(path, connection):
                migrate.migrate(connection, path)
                migrate.check_schema(connection, path)
        finally:
            with translated(path):
                connection.close()
        return cls(Driver(path, options), clock)

    is_embedded = True

    def stamp(self, scope: Scope) -> tuple[Hashable, Hashable]:
        return self._catalog.bound, self._driver.stamp()

    def fetch_stamped(self, scope: Scope, sequences: Sequence[int]) -> tuple[Sequence[Record | None], tuple[Hashable, Hashable]]:
        records = self.fetch(scope, sequences)
        return records, self.stamp(scope)

    # -- for scopes that are kept in segments ---------------------------------------------------------------------
    def index_page(self, scope: Scope, after: int, limit: int) -> Changes:
        def read(db: Transaction, number: int | None) -> Changes:
            latest = int(db.one("index_latest", (number,))[0] or 0)
            rows = db.stream("index_page", (number, after, limit))
            return Changes(latest, index_rows(db, rows, self._catalog.dimension(db), read_passages(db, number)))

        return self._catalog.consistently(scope, read)

    def index_mark(self, scope: Scope, number: int) -> str | None:
        with self._driver.reading() as db:
            row = db.one("index_mark", (number,))
            return None if row is None else str(row[0])

    def index_erased(self, scope: Scope, after: int) -> Sequence[int]:
        with self._catalog.reading(scope) as (db, number):
            return [int(row[0]) for row in db.all("index_erased", (number, after))]

    def index_count(self, scope: Scope) -> int:
        with self._catalog.reading(scope) as (db, number):
            return int(db.one("index_size", (number,))[0]) + int(db.one("passages_count", (number,))[0])

    # -- erasing --------------------------------------------------------------------------------------------------
    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        gone = self._forget(scope, selector)
        if not gone.texts:
            return ForgetReceipt(0)
        overwritten = self.erased(scope)
        self._erase()
        late: tuple[str, ...] = () if overwritten else ("the index beside the store could not be overwritten: delete its folder",)
        late += ("the log's old pages are still being read; they are erased by the next write or close",) * self._erasure_due
        return ForgetReceipt(
            len(gone.ids), tuple(gone.ids), not late, late,
            places=dict(gone.places), summarised=tuple(gone.summarised),
        )  # fmt: skip

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        texts = self._redact(scope, row)
        if texts:
            self._erase_texts(scope)
        return bool(texts)

    def _erase_texts(self, scope: Scope) -> None:
        self.erased(scope)
        self._erase()

    def _erase(self) -> None:
        """Erase after the commit: a failing disk only delays the erasure."""
        self._erasure_due = True
        with contextlib.suppress(StoreError, OSError):
            self._erasure_due = not self._driver.clear_free_space(_ERASE_WAIT_SECONDS)

    def _finish_erasing(self) -> None:
        """Retry a delayed erasure after each write."""
        if self._erasure_due:
            self._erasure_due = not self._driver.clear_free_space(0)

    # -- searching scopes too large to hold in memory -------------------------------------------------------------
    def search_words(
        self, scope: Scope, terms: Sequence[str], limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        if not terms:
            return []
        with self._catalog.reading(scope) as (db, number):
            return self._search(db, "words_search", number, search_filter, {"match": _match(number, terms), "limit": limit})

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        with self._catalog.reading(scope) as (db, number):
            return [int(db.one("words_count", (_match(number, [term]),))[0]) for term in terms]

    def search_vectors(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        """An exact scan, a chunk at a time, so that memory stays small."""
        best_scores = np.empty(0, dtype=np.float32)
        best = np.empty(0, dtype=np.int64)
        with self._catalog.reading(scope) as (db, number):
            dimension = self._catalog.dimension(db)
            checked(vector, dimension or len(vector))  # refuse an invalid vector
            if limit <= 0 or not dimension:
                return []
            condition, values = self._filter(db, number, search_filter)
            walks = (db.walk(name, values, filter=condition) for name in ("vectors_walk", "passages_walk"))
            rows = chain.from_iterable(walks)
            while chunk := list(islice(rows, _CHUNK)):
                matrix = db.read([row[1] for row in chunk], dimension)
                scores = np.concatenate([best_scores, np.vecdot(matrix, vector)])
                sequences = np.concatenate([best, np.array([row[0] for row in chunk], dtype=np.int64)])
                keep = np.argsort(-scores, kind="stable")[:limit]
                best_scores, best = scores[keep], sequences[keep]
        return [int(sequence) for sequence in best]

    # -- export and maintenance -----------------------------------------------------------------------------------
    def export_records(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[RecordExport]:
        found = super().export_records(scope, ids)
        return iter(list(found)) if self._driver.path == ":memory:" else found  # one connection has one view

    def backup(self, path: str, progress: Progress | None = None) -> None:
        target = Path(path).absolute()

        def copy(draft: Path) -> None:
            self._driver.backup_to(str(draft), progress or (lambda done, total: None))
            connection = connect(str(draft), self._driver.options)
            try:
                migrate.check_schema(connection, self._driver.path)
            finally:
                connection.close()

        if files.check_free(target) and files.create(target, copy):
            return
        raise ConfigurationError(f"{target} exists already: choose another path, or delete it first.")

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        with self._driver.reading(consistent=True, fresh=True) as db:
            return doctor.examine(db, analyse, progress or (lambda done, total: None))

    def tune(self, progress: Progress | None = None) -> Sequence[str]:
        self._driver.optimize()
        return []

    def close(self) -> None:
        if self._erasure_due:
            self._driver.checkpoint(0)
        self._driver.close()


def _match(scope: int | None, terms: Sequence[str]) -> str:
    """The FTS5 query for any of the terms in a scope."""
    either = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    return f'scope : "s{scope}" AND text : ({either})'
