"""Translation of psycopg errors."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from keepstone.errors import (
    ConfigurationError,
    Conflict,
    KeepstoneError,
    StorageFull,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreUnreachable,
)
from keepstone.stores.common.rows import Unreadable

# Errors after which the transaction can be repeated.
AGAIN = (pg.SerializationFailure, pg.DeadlockDetected)
_GONE = (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow, pg.TooManyConnections, pg.IdleInTransactionSessionTimeout)
_UNPREPARED = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
# Messages of a server that starts, stops, recovers or is full.
_PASSING = ("the database system is", "too many clients", "connection slots", "terminating connection", "server_login_retry",
            "server login has been failing", "query_wait_timeout", "no more connections allowed")  # fmt: skip
_NEVER = ("no password supplied", "certificate", "server does not support SSL", "invalid connection option", "invalid port")
_REFUSED = (pg.InvalidPassword, pg.InvalidAuthorizationSpecification, pg.InvalidCatalogName)


def refused(error: BaseException) -> bool:
    """Whether the server does not let us in: by the state, or, where an error of connecting has none, by what it says."""
    if isinstance(error, _REFUSED):
        return True
    said = str(error)
    unsaid = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    never = any(word in said for word in ("FATAL:", *_NEVER))
    return unsaid and never and not any(word in said for word in _PASSING)


def lost(error: BaseException) -> bool:
    """Whether the server or the way to it is gone, for now."""
    if refused(error) or isinstance(error, pg.PipelineAborted):
        return False
    if isinstance(error, (*_GONE, PoolTimeout)):
        return True
    # Without a state of its own it did not come from the server, but from the connection; class 08 is a pooler's word for that.
    state = getattr(error, "sqlstate", None)
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and (state is None or state.startswith("08"))


def unprepared(error: BaseException) -> bool:
    """Whether a pooler has moved us to another session, which does not know what we have prepared."""
    return isinstance(error, _UNPREPARED)


@contextlib.contextmanager
def translated(label: str) -> Iterator[None]:
    """Translate errors of psycopg into errors of keepstone that name the store and the next step."""
    try:
        yield
    except KeepstoneError:
        raise
    except PoolClosed as error:
        raise StoreClosed(f"{label} was closed: open it again.") from error
    except (psycopg.Error, PoolTimeout, json.JSONDecodeError, UnicodeDecodeError, Unreadable) as error:
        raise _ours(label, error) from error


def _ours(label: str, error: Exception) -> KeepstoneError:
    said = " ".join(str(error).split())[:300]
    if isinstance(error, (pg.LockNotAvailable, pg.QueryCanceled)):
        return StoreBusy(
            f"{label}: another process kept the tenant, or the statement took too long ({said}): try again, or raise the busy "
            "timeout (KEEPSTONE_BUSY_TIMEOUT)."
        )
    if isinstance(error, pg.DiskFull):
        return StorageFull(f"no space left for {label}: nothing of this write was stored and reads go on. Free some space.")
    if refused(error):
        return ConfigurationError(f"{label} refuses the connection ({said}): check user, password and database.")
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return ConfigurationError(f"{label}: an option of the URL is not known ({said.splitlines()[0]:.120}): leave it out.")
    if isinstance(error, pg.InsufficientPrivilege):
        return ConfigurationError(
            f"{label}: the role may not do this ({said}). Run 'keepstone postgres setup' once with a role that owns the schema."
        )
    if isinstance(error, pg.UniqueViolation):
        return Conflict(f"{label}: another write got in between ({said}): try again.")
    if lost(error):
        return StoreUnreachable(
            f"{label} cannot be reached ({said}). Nothing that was acknowledged is lost; try again in a moment, check that the "
            "server runs and the URL is right."
        )
    if isinstance(
        error, (pg.UndefinedTable, pg.UndefinedColumn, pg.InvalidSchemaName, json.JSONDecodeError, UnicodeDecodeError, Unreadable)
    ):
        return StoreDamaged(f"{label} does not hold what a store should ({said}). Run 'keepstone doctor', then restore a backup.")
    return StoreError(f"{label}: {type(error).__name__}: {said}")
