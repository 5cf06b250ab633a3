"""BlobStore: a store whose bytes are kept as named blobs, by anything that can load and save them.

The rules of a store run on a SQLite database in memory, whose pages are the blobs. A commit saves the changed pages first, so
what was acknowledged is saved, and what could not be saved is not committed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import apsw

from keepstone.errors import KeepstoneError, StoreDamaged, StoreError
from keepstone.ports.stores import Clock
from keepstone.ports.values import StoreOptions
from keepstone.stores.sqlite import migrate
from keepstone.stores.sqlite.connections import Driver, translated
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.stores.sqlite.transaction import SqliteTransaction
from keepstone.text import times

_PAGE_BYTES = 4096
_NAME = "page-{:08}"


class BlobStore(SqliteStore):
    """A store of your own: implement `load` and `save`, and call `super().__init__(label)` when they can be used.

    It is held in memory, and one process at a time may use it. A commit compares all pages with those saved before, so this is
    for stores of up to some hundred megabytes."""

    def __init__(self, label: str = "a store of blobs", *, clock: Clock = times.now) -> None:
        self._label = label
        self._pages: list[bytes] = []  # as they were saved last
        driver = Driver(":memory:", StoreOptions())
        try:
            with driver.reading() as db:
                self._fill(db.db, dict(self.load()))
            driver.before_commit = self._save_changes
            super().__init__(driver, clock)
            driver.writing("", lambda db: None)  # saves a new or migrated store
        except BaseException:
            driver.close()
            raise

    @abstractmethod
    def load(self) -> Mapping[str, bytes]:
        """Every blob that was saved, by its name; none for a new store."""

    @abstractmethod
    def save(self, changed: Mapping[str, bytes | None]) -> None:
        """Keep these blobs, and delete those that are None: all of them, or none and raise. When this returns, a crash must not
        lose them."""

    @property
    def label(self) -> str:
        return self._label

    def _fill(self, connection: apsw.Connection, blobs: Mapping[str, bytes]) -> None:
        """Build the database from its pages."""
        if not blobs:
            migrate.fill(connection)
            return
        self._pages = [blobs.get(_NAME.format(number), b"") for number in range(len(blobs))]
        if not all(len(page) == _PAGE_BYTES for page in self._pages):
            raise StoreDamaged(f"{self._label} has lost blobs, or others than it saved: restore a backup.")
        with translated(self._label):
            image = apsw.Connection(":memory:")
            image.deserialize("main", b"".join(self._pages))
            try:
                with connection.backup("main", image, "main") as copy:
                    copy.step()
                migrate.check_schema(connection, self._label)
                migrate.migrate(connection, self._label)
            finally:
                image.close()

    def _save_changes(self, connection: apsw.Connection) -> None:
        """Save the pages that differ from those saved before."""
        connection.execute("SAVEPOINT pages; RELEASE pages")  # FTS5 writes what it has gathered
        image = connection.serialize("main")
        pages = [image[start : start + _PAGE_BYTES] for start in range(0, len(image), _PAGE_BYTES)]
        saved = self._pages
        changed: dict[str, bytes | None] = {
            _NAME.format(number): page for number, page in enumerate(pages) if number >= len(saved) or saved[number] != page
        }
        changed |= {_NAME.format(number): None for number in range(len(pages), len(saved))}
        if not changed:
            return
        try:
            self.save(changed)
        except KeepstoneError:
            raise
        except Exception as error:
            raise StoreError(
                f"{self._label} could not be saved ({type(error).__name__}: {error}): nothing of this write was stored."
            ) from error
        self._pages = pages

    def _erase(self) -> None:
        """Rewrite the word index and all pages, so that no page has a byte of what was deleted."""
        self._driver.writing("", _optimize)
        self._driver.vacuum()
        self._driver.writing("", lambda db: None)


def _optimize(db: SqliteTransaction) -> None:
    db.run("words_optimize")
