"""PostgresStore: records in PostgreSQL with pgvector."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import RawCursor

from keepstone.errors import ConfigurationError
from keepstone.ports.stores import Clock, Progress
from keepstone.ports.values import Changes, ImportRow, SearchFilter, Selector, StoreOptions, Vector
from keepstone.stores.common.rows import checked, index_rows, record_of
from keepstone.stores.common.scope_catalog import ScopeCatalog, embedder_of, parse_embedder
from keepstone.stores.common.store import ROW_BYTES, CommonStore, read_passages
from keepstone.stores.common.store_copy import Mover
from keepstone.stores.postgres import doctor, scope_indexes, setup
from keepstone.stores.postgres.connections import PostgresDriver, Session
from keepstone.stores.postgres.errors import translated
from keepstone.stores.postgres.standby import Standby
from keepstone.stores.postgres.target import Target
from keepstone.stores.postgres.transaction import PostgresTransaction
from keepstone.text import times
from keepstone.types import Diagnosis, ForgetReceipt, Record, Scope

T = TypeVar("T")
_LAST = 2**62
_BOUNDED = 170_000  # the version of PostgreSQL that ends transactions by the clock
_KEPT = (
    "its rows are deleted; PostgreSQL overwrites their space when it vacuums, its log and your backups keep them for their time"
)


class PostgresStore(CommonStore):
    """A store in one PostgreSQL database that many processes share."""

    def __init__(self, driver: PostgresDriver, clock: Clock, standby: Standby | None = None) -> None:
        self._driver = driver
        self._standby = standby
        super().__init__(ScopeCatalog(driver, clock))

    @classmethod
    def open(cls, url: str, options: StoreOptions = StoreOptions(), *, clock: Clock = times.now) -> PostgresStore:
        """Open the store a URL names; its tables are made on first use, where the role may make them."""
        target = Target.of(url)
        with translated(target.label), connected(target) as connection:
            setup.prepare(connection, target)
            role, path = setup.acting_as(connection, target), setup.path_of(connection, target)
            bounded = connection.info.server_version >= _BOUNDED
        session = Session(path, role, options.busy_timeout, options.statement_timeout, options.durable, bounded)
        driver = PostgresDriver(target, session)
        standby = Standby(driver, options.read_url, options.read_staleness) if options.read_url else None
        try:
            return cls(driver, clock, standby)
        except BaseException:
            driver.close()
            if standby is not None:
                standby.close()
            raise

    # -- ranking, with few round trips ------------------------------------------------------------------------------
    is_embedded = False

    def _recall(self, tenant: str, work: Callable[[PostgresTransaction], T]) -> T:
        """Read for a recall: from the standby, where there is one that is recent enough."""
        if self._standby is not None:
            return self._standby.read(tenant, work)
        with self._driver.reading(tenant) as db:
            return work(db)

    def read_notes(self) -> tuple[str, ...]:
        """How old what this thread has read may be; nothing where it was the primary."""
        behind = None if self._standby is None else self._standby.take_behind()
        return () if behind is None else (f"read from a standby, at most {behind:.1f} s behind",)

    def stamp(self, scope: Scope) -> tuple[Hashable, Hashable]:
        number, embedder, last = self._recall(scope.tenant, lambda db: db.one("stamp", (scope.agent, scope.user)))
        if number is not None:
            self._catalog.learned(scope, number)
        return self._catalog.bound, (embedder, last)

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        if self._standby is not None and sequences:
            found, _ = self.fetch_stamped(scope, sequences)
            if None not in found:
                return found
        return super().fetch(scope, sequences)

    def fetch_stamped(self, scope: Scope, sequences: Sequence[int]) -> tuple[Sequence[Record | None], tuple[Hashable, Hashable]]:
        rows = self._recall(
            scope.tenant, lambda db: db.all("records_stamped", (self._catalog.number(db, scope), list(sequences)))
        )
        embedder, last = rows[0][:2]
        found = dict(record_of(row[2:], scope) for row in rows if row[2] is not None)
        return [found.get(sequence) for sequence in sequences], (self._catalog.bound, (embedder, last))

    def all_rows(self, scope: Scope, max_bytes: int) -> Changes | None:
        dimension = 0 if self._catalog.bound is None else self._catalog.bound[1]
        return self._changes(scope, 0, max_bytes // (dimension * 4 + ROW_BYTES))

    def changes(self, scope: Scope, after: int) -> Changes:
        found = self._changes(scope, after, _LAST)
        assert found is not None
        return found

    def _changes(self, scope: Scope, after: int, most: int) -> Changes | None:
        """What happened after a number; None if that is more than so many records. The last audit number is read first, so it
        promises no more than the rest holds: numbers come in the order of the commits, and what comes in between is given again
        the next time."""

        def read(db: PostgresTransaction) -> Changes | None:
            number, bound = self._catalog.number(db, scope), self._catalog.bound
            (last,), embedder, rows, removed = db.together(
                ("audit_newest", (number,)), ("meta_embedder", ()), ("index_changed", (number, after, most + 1)),
                ("index_removed", (number, after)),
            )  # fmt: skip
            if len(rows) > most or (any(row[14] for row in rows) and len(rows) + db.one("passages_count", (number,))[0] > most):
                return None
            usable = bound is not None and bound == parse_embedder(embedder[0] if embedder else None)[1]
            gone = tuple(row[0] for row in removed) if after else ()
            columns = index_rows(db, rows, bound[1] if usable and bound else 0, read_passages(db, number))
            return Changes(max(after, last[0] or 0), columns, gone)

        return self._recall(scope.tenant, read)

    # -- erasing --------------------------------------------------------------------------------------------------
    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        gone = self._forget(scope, selector)
        if not gone.texts:
            return ForgetReceipt(0)
        return ForgetReceipt(
            len(gone.ids), tuple(gone.ids), False, (_KEPT,), places=dict(gone.places), summarised=tuple(gone.summarised)
        )

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        return bool(self._redact(scope, row))

    # -- searching scopes too large to hold in memory -------------------------------------------------------------
    def search_words(
        self, scope: Scope, terms: Sequence[str], limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        words = [term for term in dict.fromkeys(terms) if term]
        found = self.document_frequencies(scope, words)
        with self._catalog.reading(scope) as (db, number):
            if not words or number is None:
                return []
            population = int(db.one("index_size", (number,))[0])
            match = " | ".join(map(_quote_term, words))
            values = {"match": match, "terms": words, "found": found, "population": population, "limit": limit}
            return self._search(db, "words_search", number, search_filter, values)

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        words = [term for term in terms if term]
        if not words:
            return [0 for _ in terms]
        quoted = list(map(_quote_term, words))
        with self._catalog.reading(scope) as (db, number):
            rows = db.all("words_count", (number, quoted, " | ".join(quoted)))
        counts = dict(zip(words, (int(row[1]) for row in rows), strict=True))
        return [counts.get(term, 0) for term in terms]

    def search_vectors(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        with self._catalog.reading(scope) as (db, number):
            model, bound = embedder_of(db)
            usable = bound is not None and bound == self._catalog.bound
            checked(vector, bound[1] if usable and bound else len(vector))  # refuse an invalid vector
            if limit <= 0 or not usable:
                return []
            values = {"vector": db.stored(vector), "model": model, "limit": limit}
            return self._search(db, "vectors_search", number, search_filter, values, dimension=str(len(vector)))

    # -- maintenance ----------------------------------------------------------------------------------------------
    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Copy the store into a SQLite file, each tenant as one consistent view."""
        from keepstone.stores.sqlite import files, migrate
        from keepstone.stores.sqlite.store import SqliteStore

        mover, target = Mover(self, progress=progress), Path(path).absolute()

        def build(draft: Path) -> None:
            migrate.build(draft)
            with closing(SqliteStore.open(str(draft), StoreOptions(durable=False))) as copy:  # closing makes it durable
                mover.snapshot(copy)

        if not (files.check_free(target) and files.create(target, build)):
            raise ConfigurationError(f"{target} exists already: choose another path, or delete it first.")

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        return doctor.examine(self._driver, analyse, progress or (lambda done, total: None))

    def tune(self, progress: Progress | None = None) -> Sequence[str]:
        with translated(self._driver.label), connected(self._driver.target) as connection:
            return scope_indexes.tune(self._driver, connection, progress)

    def close(self) -> None:
        if self._standby is not None:
            self._standby.close()
        self._driver.close()


def connected(target: Target) -> psycopg.Connection[tuple[object, ...]]:
    """A connection of its own, for what is done once."""
    return psycopg.connect(target.conninfo, autocommit=True, cursor_factory=RawCursor, prepare_threshold=None, connect_timeout=10)


def _quote_term(term: str) -> str:
    """A term as text search reads it."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
