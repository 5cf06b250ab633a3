"""A copy of a store's file, made without opening the store: not a byte of it changes, no read of it is counted, and no file is
left beside it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from keepstone.errors import ConfigurationError, StoreBusy, StoreDamaged, StoreError

_TRIES = 5
State = tuple[tuple[int, int] | None, ...]


def copied(store: str, target: Path) -> None:
    """Copy the store, as it is at this moment, to a new file; others may be using it meanwhile."""
    path = Path(store).resolve()  # its log lies beside the file itself, not beside a link to it
    if not path.is_file():
        raise ConfigurationError(f"there is no store at {store}: check the path; without a store the tests have a fresh memory.")
    try:
        for _ in range(_TRIES):
            before = _state(path)
            if before[2] is not None:
                return _read(path, target)
            _files(path, target)
            if _state(path) == before:
                return None
    except sqlite3.Error as error:
        raise StoreDamaged(
            f"{store} cannot be copied ({error}): is it a keepstone store? 'keepstone doctor' checks it."
        ) from None
    except OSError as error:
        raise StoreError(
            f"{store} cannot be copied ({error.strerror}): check its mode, and the space for temporary files."
        ) from None
    raise StoreBusy(f"{store} was changed while it was copied, {_TRIES} times: try again, or test a backup of it.")


def _read(path: Path, target: Path) -> None:
    """Somebody has the store open: SQLite reads it as it is, with what is only in its log."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def _files(path: Path, target: Path) -> None:
    """Nobody has it open: SQLite would make files beside it even to read, so they are copied as they are."""
    shutil.copyfile(path, target)
    log, beside = Path(f"{path}-wal"), Path(f"{target}-wal")
    beside.unlink(missing_ok=True)
    if log.exists():  # left by a process that was killed
        shutil.copyfile(log, beside)


def _state(path: Path) -> State:
    """What tells that a store was written to: of its file, its log, and of what is there while somebody has it open."""
    found = []
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        held = each.stat() if each.exists() else None
        found.append(None if held is None else (held.st_mtime_ns, held.st_size))
    return tuple(found)
