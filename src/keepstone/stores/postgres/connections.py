"""Connections: the pool, one transaction a call, writers of a tenant gathered into one commit, and what is done when the server
goes away.

A writer in a tenant holds its row until the commit, so the audit log is one chain in the order of the commits. Callers of one
process that come together share that commit. A connection lost before the commit costs nothing: the work is run again. One that
is lost while committing may have been in time: a retry holds the tenant first, so that attempt has ended, and then
looks for the last audit entry that it wrote. So nothing is done twice, and nothing is taken for done that was not. What
leaves no row there (read counts, states, leases, claims of jobs) may be done again without harm.
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from keepstone.errors import StoreClosed, StoreError, StoreUnreachable
from keepstone.ports.forks import reset_after_fork
from keepstone.stores.common.transaction import Lookups, PendingWrite
from keepstone.stores.postgres.errors import AGAIN, lost, translated, unprepared
from keepstone.stores.postgres.statements import statement
from keepstone.stores.postgres.target import Target
from keepstone.stores.postgres.transaction import PostgresTransaction, Proof, ReadTransaction
from keepstone.stores.postgres.wire import PipelinedConnection

T = TypeVar("T")
BATCH = 64  # writes in one commit at most, so that no caller waits behind an endless queue
CONNECTIONS = 16
_WAIT = 1.0  # seconds
_POOLERS = 10  # times that an unknown prepared statement is tried again; the connections of before run out
_PAUSE = 0.05  # seconds before a lost connection is tried again, more each time
_LONGEST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Session:
    """What each transaction is begun with: where its names are looked up, as whom, and how long it may take."""

    path: str
    role: str  # "none": as who connected
    patience: float = 30.0  # seconds to wait for others, and for a server that is away
    statement_timeout: float = 60.0
    durable: bool = True
    bounded: bool = False  # whether the server can end a transaction that takes too long


class BatchFailed(Exception):
    """One of several in a transaction has made a statement that the server refused."""


class _Queue:
    """The writers of one tenant in this process."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: deque[PendingWrite[Any]] = deque()


class PostgresDriver:
    """The connections of one store in one process."""

    def __init__(self, target: Target, session: Session) -> None:
        self.target = target
        self.session = session
        self.make_read: Callable[[PostgresDriver, str], ReadTransaction] = ReadTransaction
        self._closed = False
        self._finding_out = threading.Lock()
        self._prepares = target.prepare
        milliseconds = str(int(session.statement_timeout * 1000)), str(int(session.patience * 1000))
        constant = {
            "path": session.path, "role": session.role, "statement": milliseconds[0], "patience": milliseconds[1],
            "commit": "on" if session.durable else "off",
        }  # fmt: skip
        self._settings = statement("begin_settings", tuple((name, _quoted(value)) for name, value in constant.items())).text
        longest = int((session.statement_timeout + session.patience) * 1000)
        # Where the server can end it, a writer whose client has fallen silent does not hold its tenant for ever.
        self._bound = f", set_config('transaction_timeout', '{longest}', true)" if session.bounded else ""
        self._whole = zlib.crc32(target.schema.encode())  # the store's own advisory lock
        self._connect()
        reset_after_fork(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """In a forked child, never use the parent's connections."""
        self._inherited = True

    @property
    def label(self) -> str:
        return self.target.label

    # -- connections ----------------------------------------------------------------------------------------------
    def _connect(self) -> None:
        self._inherited = False
        self._queues: dict[str, _Queue] = {}
        self._halfvec: int | None = None
        self._pool: ConnectionPool[PipelinedConnection] = ConnectionPool(
            self.target.conninfo,
            connection_class=PipelinedConnection,
            kwargs={
                "autocommit": True,
                "connect_timeout": 10,
                "keepalives_idle": 15,
                "keepalives_interval": 5,
                "keepalives_count": 3,
            },
            min_size=0,
            max_size=CONNECTIONS,
            timeout=self.session.patience,
            reconnect_timeout=0.5,  # who needs a connection asks again; a long back-off would only delay it
            max_lifetime=1800,
            configure=self._configure,
            open=True,
            name="keepstone",
            num_workers=2,
        )

    def _configure(self, connection: PipelinedConnection) -> None:
        if self._halfvec is None:
            found = connection.execute(b"SELECT oid FROM pg_type WHERE typname = 'halfvec' LIMIT 1").fetchone()
            self._halfvec = None if found is None else found[0]
        connection.adapt(self._halfvec, self._prepares)

    def _check(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.label} was closed: open it again.")
        if self._inherited:
            self._connect()

    @contextlib.contextmanager
    def connection(self) -> Iterator[PipelinedConnection]:
        """A connection of the pool; one that fails is not given back."""
        pool = self._pool
        try:
            connection = pool.getconn(timeout=_WAIT)  # who waits longer asks again: the pool itself soon gives up
        except PoolTimeout:
            if not pool.get_stats().get("pool_size"):  # the pool does not say why it has none; this does
                psycopg.connect(self.target.conninfo, connect_timeout=2).close()
            raise
        try:
            connection.pgconn.enter_pipeline_mode()
            yield connection
            connection.pgconn.exit_pipeline_mode()
        except psycopg.Error:
            connection.close()  # what it has prepared is not certain any more either
            raise
        except BaseException:
            try:
                connection.queue("ROLLBACK")
                connection.exchange()
                connection.pgconn.exit_pipeline_mode()
            except psycopg.Error:
                connection.close()
            raise
        finally:
            pool.putconn(connection)

    def begin(self, connection: PipelinedConnection, tenant: str, how: str = "", *, bounded: bool = False) -> None:
        """Say whose the transaction is. Without `how` it is the one that the server makes of all that is sent together."""
        if how:
            connection.queue(how)
        connection.queue(self._settings + self._bound if bounded else self._settings, (tenant,))

    def again(self, error: BaseException, deadline: float, tries: int) -> None:
        """Wait before something is tried again; what cannot be mended by that, or has lasted too long, is raised."""
        if unprepared(error) and tries < _POOLERS:
            if tries:  # not one connection's mistake
                self._unprepare()
        elif (lost(error) or isinstance(error, AGAIN)) and not self._closed and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.Error):
                self._pool.check()  # what is left in the pool is as dead
            time.sleep(min(_PAUSE * 2**tries, _LONGEST_PAUSE))
        else:
            raise error

    def _unprepare(self) -> None:
        """There is a pooler between us and the server: from now on nothing is prepared. Several may find out at once."""
        with self._finding_out:
            if self._prepares:
                old, self._prepares = self._pool, False
                self._connect()
                old.close(timeout=0)

    # -- reading --------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def reading(self, tenant: str, *, consistent: bool = False) -> Iterator[PostgresTransaction]:
        """A read transaction on a tenant."""
        self._check()
        with translated(self.label):
            if not consistent:
                yield self.make_read(self, tenant)
                return
            deadline, tries = time.monotonic() + self.session.patience, 0
            while True:
                with contextlib.ExitStack() as stack:
                    try:
                        connection = stack.enter_context(self.connection())
                        self.begin(connection, tenant, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
                        connection.exchange()
                    except psycopg.Error as error:
                        with contextlib.suppress(psycopg.Error):
                            stack.close()
                        self.again(error, deadline, tries)
                        tries += 1
                        continue
                    yield PostgresTransaction(connection, tenant)
                    connection.queue("COMMIT")
                    connection.exchange()
                    return

    def consistently(self, tenant: str, work: Callable[[PostgresTransaction], T]) -> T:
        """Run `work` on one consistent view; repeat it after a lost connection."""
        deadline, tries = time.monotonic() + self.session.patience, 0
        while True:
            try:
                with self.reading(tenant, consistent=True) as transaction:
                    return work(transaction)
            except StoreUnreachable as error:
                self.again(error.__cause__ or error, deadline, tries)
                tries += 1

    # -- writing --------------------------------------------------------------------------------------------------
    def writing(self, tenant: str, work: Callable[[PostgresTransaction], T], lookups: Lookups | None = None) -> T:
        """Run `work` in a transaction and return once it is committed. Concurrent callers of one tenant share a commit; each has
        its own savepoint, so that a failure does not affect the others."""
        self._check()
        queue = self._queues.setdefault(tenant, _Queue())
        ticket = PendingWrite(work, () if lookups is None else lookups())
        queue.waiting.append(ticket)
        deadline = time.monotonic() + self.session.patience
        try:
            while not ticket.done:
                if queue.lock.acquire(timeout=max(deadline - time.monotonic(), _PAUSE)):
                    try:
                        if not ticket.done:
                            self._drain(tenant, queue, deadline)
                    finally:
                        queue.lock.release()
                elif ticket in queue.waiting:  # not started
                    raise StoreUnreachable(
                        f"{self.label}: those before this have waited for the server for {self.session.patience:g} s. Nothing "
                        "of this write was stored; try again in a moment, and check that the server runs."
                    )
        except BaseException:
            with contextlib.suppress(ValueError):
                queue.waiting.remove(ticket)  # interrupted: it must not be committed later
            raise
        return ticket.given()

    def for_every_tenant(self, work: Callable[[PostgresTransaction, Sequence[str]], T]) -> T:
        """Run `work` in one transaction with an exclusive lock on the store."""
        self._check()

        def whole(transaction: PostgresTransaction) -> T:
            return work(transaction, [row[0] for row in transaction.all("tenants_all")])

        ticket = PendingWrite(whole)
        self._commit("", [ticket], time.monotonic() + self.session.patience, alone=True)
        return ticket.given()

    def _drain(self, tenant: str, queue: _Queue, deadline: float) -> None:
        batch: list[PendingWrite[Any]] = []
        with contextlib.suppress(IndexError):  # an interrupted caller may have removed its own
            while len(batch) < BATCH:
                batch.append(queue.waiting.popleft())
        try:
            try:
                self._commit(tenant, batch, deadline)
            except BatchFailed:  # unknown which write failed: retry each alone
                for ticket in batch:
                    self._alone(tenant, ticket, deadline)
        except BaseException as error:
            interrupted = None if isinstance(error, Exception) else StoreError("the write was interrupted: repeat it.")
            for ticket in batch:
                ticket.error = ticket.error or interrupted or error
            if interrupted:
                raise
        finally:
            for ticket in batch:
                ticket.done = True

    def _alone(self, tenant: str, ticket: PendingWrite[Any], deadline: float) -> None:
        try:
            self._commit(tenant, [ticket], deadline)
        except Exception as error:
            ticket.error = error

    def _commit(self, tenant: str, batch: Sequence[PendingWrite[Any]], deadline: float, *, alone: bool = False) -> None:
        """Run writes in one transaction, and repeat it after a lost connection."""
        tries = 0
        doubt: list[Proof] = []  # the last audit entry of an attempt whose COMMIT was not acknowledged
        with translated(self.label):
            while True:
                try:
                    self._attempt(tenant, batch, alone, doubt)
                    return
                except psycopg.Error as error:
                    passing = lost(error) or unprepared(error) or isinstance(error, AGAIN)
                    if len(batch) > 1 and not passing:
                        raise BatchFailed from error
                    self.again(error, deadline, tries)
                    tries += 1

    def _attempt(self, tenant: str, batch: Sequence[PendingWrite[Any]], alone: bool, doubt: list[Proof]) -> None:
        done = False
        try:
            with self.connection() as connection:
                self.begin(connection, tenant, "BEGIN", bounded=not alone)
                connection.queue(statement("lock_whole" if alone else "lock_shared").text, (self._whole,))
                transaction = PostgresTransaction(connection, tenant, writing=True)
                transaction.hold([each for ticket in batch for each in ticket.lookups])
                if doubt and transaction.proved(doubt[-1]):  # this process holds the tenant now, so that attempt has ended
                    done = True
                    connection.queue("ROLLBACK")
                    connection.exchange()
                    return
                doubt.clear()
                self._work(batch, transaction)
                if transaction.proof is not None:
                    doubt.append(transaction.proof)
                commit = connection.queue("COMMIT")
                try:
                    connection.exchange()
                finally:
                    status = None if commit.result is None else commit.result.command_status
                    done = status == b"COMMIT"
                if not done:
                    raise StoreError(f"{self.label}: not committed ({status!r}): repeat the write.")
        except psycopg.Error:
            if not done:  # acknowledged: a lost connection cannot undo it
                raise

    def _work(self, batch: Sequence[PendingWrite[Any]], transaction: PostgresTransaction) -> None:
        for ticket in batch:
            ticket.error = None
            if len(batch) == 1:
                ticket.result = ticket.work(transaction)
            else:
                self._run(ticket, transaction)
            transaction.written(ticket.lookups)
        transaction.settle()

    def _run(self, ticket: PendingWrite[Any], transaction: PostgresTransaction) -> None:
        """Run one of several writes. Its own errors are reported to its caller; an error of the server fails the batch."""
        connection, kept = transaction.connection, transaction.kept()
        connection.queue("SAVEPOINT ticket")
        try:
            ticket.result = ticket.work(transaction)
        except psycopg.Error:
            raise
        except Exception as error:
            ticket.error = error
            connection.queue("ROLLBACK TO ticket")
            transaction.back(kept)
        connection.queue("RELEASE ticket")

    # -- the whole store ------------------------------------------------------------------------------------------
    def tenants(self, having: str = "") -> Sequence[str]:
        """The names of the tenants, or of those that have jobs or records without a vector."""
        with self.reading("") as transaction:
            return [row[0] for row in transaction.all(f"tenants_{having or 'all'}")]

    def close(self) -> None:
        """Close every connection; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if not self._inherited:
            self._pool.close(timeout=2)


def _quoted(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("'", "''") + "'"
