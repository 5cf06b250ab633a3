"""Connections to a SQLite file: pragmas, reader pool, group-committing writer, and translation of apsw errors."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

import apsw

from keepstone.errors import Conflict, KeepstoneError, StorageFull, StoreBusy, StoreClosed, StoreDamaged, StoreError
from keepstone.ports.forks import reset_after_fork
from keepstone.ports.values import StoreOptions
from keepstone.stores.common.rows import Unreadable
from keepstone.stores.common.transaction import Lookups, PendingWrite
from keepstone.stores.sqlite.encryption import unlock
from keepstone.stores.sqlite.free_space import CLEARED, uncleared_pages, vfs_for
from keepstone.stores.sqlite.transaction import SqliteTransaction

T = TypeVar("T")
BATCH = 256  # maximum writes in one commit, to bound the wait
_READERS_KEPT = 8
_NUMBERED = ("audit.number", "record.sequence", "job.number", "review.number", "scope.scope")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError, json.JSONDecodeError, OverflowError, Unreadable)
_CLOSED = (apsw.ConnectionClosedError, apsw.CursorClosedError, apsw.ThreadingViolationError)
_UNWRITABLE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)
_inherited: list[Any] = []  # connections of a parent process: closing them would release its locks


def connect(path: str, options: StoreOptions) -> apsw.Connection:
    """Open a connection to an existing file with the pragmas of a store."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if path == ":memory:" else 0)
    with translated(path):
        connection = apsw.Connection(path, flags=flags, vfs=vfs_for(options.encryption_key), statementcachesize=150)
    try:
        with translated(path, connection):
            connection.set_busy_timeout(int(options.busy_timeout * 1000))
            if options.encryption_key is not None and path != ":memory:":
                unlock(connection, path, options.encryption_key)
            connection.pragma("synchronous", "FULL" if options.durable else "NORMAL")
            connection.pragma("secure_delete", 1)
            connection.pragma("cache_size", -8000)
            connection.pragma("temp_store", "MEMORY")  # no text of the store in temporary files
            connection.pragma("trusted_schema", 0)
            for option in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_VIEW):
                connection.config(option, 0)  # the schema has none: those of a crafted file must not run
            # Plans must not depend on bound values: SQLite would prepare a join again for every call, 20 µs each.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    except BaseException:
        with contextlib.suppress(apsw.Error):  # the first error is reported
            connection.close()
        raise
    return connection


class translated:
    """A context that translates errors of apsw into errors of keepstone that name the file and the next step. A generator would
    take three times as long, and every read has one."""

    __slots__ = ("_connection", "_path")

    def __init__(self, path: str, connection: apsw.Connection | None = None) -> None:
        self._path = path
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        told = None if error is None else _translate(self._path, self._connection, error)
        if told is not None:
            raise told from error


def _translate(path: str, connection: apsw.Connection | None, error: BaseException) -> KeepstoneError | None:
    """The error of keepstone that stands for another; None for one that is raised as it is."""
    if isinstance(error, KeepstoneError):
        return None
    if isinstance(error, apsw.BusyError):
        return StoreBusy(
            f"{path} stayed locked by another process: try again, or raise the busy timeout (KEEPSTONE_BUSY_TIMEOUT)."
        )
    if isinstance(error, apsw.FullError):
        return _full(path)
    if isinstance(error, _DAMAGE):
        return _damaged(path, error)
    if isinstance(error, _CLOSED):
        return StoreClosed(f"{path} was closed: open it again.")
    if isinstance(error, _UNWRITABLE):
        return StoreError(f"{path} cannot be written ({error}): check the file, its folder and their mode.")
    if isinstance(error, apsw.IOError):
        if connection is not None and _last_errno(connection) in _NO_SPACE:
            return _full(path)
        return StoreError(f"{path}: the disk failed ({error}); no partial write was stored. Check the disk.")
    if isinstance(error, apsw.ConstraintError):
        if any(name in str(error) for name in _NUMBERED):  # numbers are assigned inside an exclusive transaction
            return _damaged(path, error)
        return Conflict(f"{path}: a concurrent write conflicts ({error}): try again.")
    if isinstance(error, apsw.SQLError):  # the statements are tested, so the schema of the file is wrong
        return _damaged(path, error)
    return StoreError(f"{path}: {type(error).__name__}: {error}") if isinstance(error, apsw.Error) else None


def _full(path: str) -> StorageFull:
    return StorageFull(
        f"no space left for {path}: nothing of this write was stored and reads go on. Free some space, then repeat it."
    )


def _damaged(path: str, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({error}). It was not changed. Run 'keepstone doctor --db {path}' to see what is wrong, "
        "then restore a backup, or save what can still be read with 'keepstone export'."
    )


def _last_errno(connection: apsw.Connection) -> int:
    try:
        return connection.system_errno
    except apsw.Error:
        return 0


class Driver:
    """The connections of one store in one process: a writer, readers, and one that watches for changes."""

    def __init__(self, path: str, options: StoreOptions) -> None:
        self.path = path
        self.options = options
        self._memory = path == ":memory:"
        self._closed = False
        self.before_commit: Callable[[apsw.Connection], None] | None = None  # if it raises, the transaction is rolled back
        self._connect()
        reset_after_fork(self._leave_to_parent)

    def _connect(self) -> None:
        self._inherited = False
        self._lock = threading.RLock()
        self._queue: deque[PendingWrite[Any]] = deque()
        self._readers: deque[apsw.Connection] = deque()
        self._watch_lock = threading.Lock()
        self._commits = 0
        self._writer = connect(self.path, self.options)
        self._watcher = self._writer if self._memory else connect(self.path, self.options)

    def _leave_to_parent(self) -> None:
        """In a forked child, keep the parent's connections and never use them."""
        if not self._memory:
            _inherited.append((self._writer, self._watcher, list(self._readers)))
            self._inherited = True

    def _check(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.path} was closed: open it again.")
        if self._inherited:
            self._connect()

    @contextlib.contextmanager
    def reading(self, tenant: str = "", *, consistent: bool = False, fresh: bool = False) -> Iterator[SqliteTransaction]:
        """A connection to read with; `consistent` makes all its statements see one state of the store. `fresh` opens a
        new one: FTS5's own integrity check trusts what a connection has cached of an older state."""
        self._check()
        if self._memory:
            with self._lock, translated(self.path, self._writer):
                yield SqliteTransaction(self._writer)
            return
        connection = None if fresh or not self._readers else self._pooled()
        if connection is None:
            connection = connect(self.path, self.options)
        try:
            with translated(self.path, connection):
                if consistent:
                    connection.execute("BEGIN")
                yield SqliteTransaction(connection)
        finally:
            with contextlib.suppress(apsw.Error):  # what was read is read, and what went wrong first is what is told
                if consistent and not connection.getautocommit():
                    connection.execute("ROLLBACK")
                reads = (
                    connection.txn_state() != apsw.SQLITE_TXN_NONE
                )  # a statement that was not read to its end holds an old view
                if fresh or self._closed or len(self._readers) >= _READERS_KEPT or reads:
                    connection.close()
                else:
                    self._readers.append(connection)

    def _pooled(self) -> apsw.Connection | None:
        try:
            return self._readers.popleft()
        except IndexError:
            return None

    def consistently(self, tenant: str, work: Callable[[SqliteTransaction], T]) -> T:
        """Run `work` on one consistent view of the file."""
        with self.reading(tenant, consistent=True) as transaction:
            return work(transaction)

    def for_every_tenant(self, work: Callable[[SqliteTransaction, Sequence[str]], T]) -> T:
        """Run `work` in one transaction; SQLite has one file for all tenants."""
        return self.writing("", lambda db: work(db, self.tenants()))

    def tenants(self, having: str = "") -> Sequence[str]:
        """One name for all tenants."""
        return ("",)

    @property
    def encrypted(self) -> bool:
        """Whether the file is encrypted."""
        return self.options.encryption_key is not None and not self._memory

    @property
    def label(self) -> str:
        """The file."""
        return self.path

    def writing(self, tenant: str, work: Callable[[SqliteTransaction], T], lookups: Lookups | None = None) -> T:
        """Run `work` in a transaction and return once it is committed. Concurrent callers share a commit; each has its own
        savepoint, so that a failure does not affect the others."""
        self._check()
        ticket = PendingWrite(work)
        self._queue.append(ticket)
        try:
            with self._lock:
                while not ticket.done:
                    self._drain()
        except BaseException:
            with contextlib.suppress(ValueError):
                self._queue.remove(ticket)  # interrupted: it must not be committed later
            raise
        return ticket.given()

    def _drain(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
        try:
            with translated(self.path, self._writer):
                self._writer.execute("BEGIN IMMEDIATE")
                if len(batch) == 1:
                    batch[0].result = self._work(batch[0])
                else:
                    for ticket in batch:
                        self._run(ticket)
                if self.before_commit is not None:
                    self.before_commit(self._writer)
                self._writer.execute("COMMIT")
            self._commits += 1
        except BaseException as error:
            with contextlib.suppress(apsw.Error):
                if not self._writer.getautocommit():
                    self._writer.execute("ROLLBACK")
            interrupted = None if isinstance(error, Exception) else StoreError("the write was interrupted: repeat it.")
            for ticket in batch:
                ticket.error = ticket.error or interrupted or error
            if interrupted:
                raise
        finally:
            for ticket in batch:
                ticket.done = True

    def _work(self, ticket: PendingWrite[T]) -> T:
        transaction = SqliteTransaction(self._writer)
        result = ticket.work(transaction)
        transaction.finish()
        return result

    def _run(self, ticket: PendingWrite[Any]) -> None:
        self._writer.execute("SAVEPOINT ticket")
        try:
            with translated(self.path, self._writer):
                ticket.result = self._work(ticket)
        except (StorageFull, StoreDamaged, StoreClosed):
            raise  # affects the whole transaction
        except Exception as error:  # affects this caller only
            self._writer.execute("ROLLBACK TO ticket")
            ticket.error = error
        self._writer.execute("RELEASE ticket")

    def stamp(self) -> tuple[int, Hashable]:
        """A value that changes with every commit of any process."""
        self._check()
        if self._memory:
            return (self._commits, 0)
        with self._watch_lock, translated(self.path, self._watcher):
            return (os.getpid(), self._watcher.execute("PRAGMA data_version").fetchall()[0][0])

    def checkpoint(self, timeout: float) -> bool:
        """Checkpoint and truncate the write-ahead log; False while another process reads from it."""
        if self._memory:
            return True
        with self._lock, translated(self.path, self._writer):
            self._writer.set_busy_timeout(int(timeout * 1000))
            try:
                busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
            except apsw.BusyError:
                return False
            finally:
                self._writer.set_busy_timeout(int(self.options.busy_timeout * 1000))
            return not busy

    def clear_free_space(self, timeout: float) -> bool:
        """Empty the log and make sure that no page of the file has bytes of deleted rows in its free space; False while another
        process reads the old pages. A file that is not encrypted is examined once, if an earlier version wrote it."""
        if not self.checkpoint(timeout):
            return False
        with self.reading() as db:
            if self._memory or (CLEARED, "1") in db.all("meta_all"):
                return True
        with self._lock, translated(self.path, self._writer):
            if uncleared_pages(self._writer, self.encrypted):
                self._writer.execute("VACUUM")
        if not self.encrypted:
            self.writing("", lambda db: db.run("meta_set", (CLEARED, "1")))
        return self.checkpoint(timeout)

    def optimize(self) -> None:
        """Run PRAGMA optimize."""
        with self._lock, translated(self.path, self._writer):
            self._writer.execute("PRAGMA optimize")

    def vacuum(self) -> None:
        """Rewrite the whole file without deleted content."""
        with self._lock, translated(self.path, self._writer):
            self._writer.execute("VACUUM")

    def backup_to(self, path: str, step: Callable[[int, int], None]) -> None:
        """Copy a consistent view of the store to a new file."""
        with self.reading(consistent=True) as source:
            source.all("meta_all")  # pins the view: later commits do not restart the copy
            target = apsw.Connection(path, vfs=vfs_for(self.options.encryption_key))
            try:
                if self.encrypted and self.options.encryption_key is not None:
                    unlock(target, path, self.options.encryption_key)  # the same salt, so that the same passphrase opens it
                with target.backup("main", source.db, "main") as copy:
                    while not copy.done:
                        copy.step(512)
                        step(copy.page_count - copy.remaining, copy.page_count)
            finally:
                target.close()

    def close(self) -> None:
        """Close every connection; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._inherited:
            return
        with self._lock, translated(self.path):
            while self._readers:
                self._readers.popleft().close()
            if not self._memory:
                self._watcher.close()
            self._writer.close()
