"""Encryption of a file by SQLite3 Multiple Ciphers: every page and every frame of the log with ChaCha20-Poly1305.

The first 16 bytes of a file are its salt. A passphrase becomes a key by PBKDF2 once, not once a connection; 64 hexadecimal
digits are the key itself. What connections are given is "raw:" with key and salt.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from functools import lru_cache
from pathlib import Path

import apsw

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, StoreBusy
from keepstone.stores.sqlite import files
from keepstone.stores.sqlite.free_space import CLEARED, vfs_for
from keepstone.stores.sqlite.transaction import sql

_ITERATIONS = 600_000  # of PBKDF2-HMAC-SHA256, as OWASP advises; 'PRAGMA kdf_iter' for other programs that open the file
_SALT_BYTES = 16
_KEY = re.compile(r"[0-9a-fA-F]{64}\Z")


def require_cipher() -> None:
    """ConfigurationError unless the installed apsw can encrypt."""
    if not hasattr(apsw, "mc_version"):
        raise ConfigurationError(
            f"an encryption key is set, and the installed apsw cannot encrypt: run {install_command('encrypted')}, then "
            "pip install --force-reinstall --no-deps apsw-sqlite3mc (it takes the place of apsw)."
        )


def raw_key(key: str, salt: bytes) -> str:
    """What a connection is given: the key of a file with this salt."""
    return f"raw:{key if _KEY.match(key) else _derived(key, salt)}{salt.hex()}"


def new_raw_key(key: str) -> str:
    """The same for a new file."""
    return raw_key(key, secrets.token_bytes(_SALT_BYTES))


@lru_cache(maxsize=64)
def _derived(passphrase: str, salt: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, _ITERATIONS, 32).hex()


def unlock(connection: apsw.Connection, path: str, raw: str) -> None:
    """Give a connection its key; ConfigurationError if the key is not the file's."""
    connection.pragma("cipher", "chacha20")
    connection.pragma("key", raw)
    try:
        connection.pragma("schema_version")  # reads the first page
    except apsw.NotADBError:
        raise ConfigurationError(
            f"the encryption key does not open {path} (or its first page is damaged): nothing was changed. Check encryption_key, "
            "and that the file is the one that was encrypted with it."
        ) from None


def change_key(path: str, old: str | None, new: str | None, busy_timeout: float) -> None:
    """Write a store anew under another key (None: not encrypted) and put it in the place of the old file.

    The old file stays as it is until the new one is whole and on disk. No other process may have the store open."""
    require_cipher()
    target = Path(path).absolute()
    if not files.check(target, encrypted=old is not None):
        raise ConfigurationError(f"there is no store at {target}: check the path.")
    old_raw = None if old is None else raw_key(old, files.read_salt(target))
    handle = os.open(target, os.O_RDWR)  # closed last: closing it lets go of this process's locks on the file
    try:
        source = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs_for(old))
        try:
            _lock_alone(source, str(target), old_raw, busy_timeout)
            with files.replacing(target) as draft:
                _write(source, draft, old_raw, new)
        finally:
            source.close()
        _discard(handle)
    finally:
        os.close(handle)
    for leftover in (f"{target}-wal", f"{target}-shm", f"{target}-journal"):
        with contextlib.suppress(OSError):
            os.unlink(leftover)
    if new is not None:  # an encrypted store has its index in memory
        shutil.rmtree(f"{target}-index", ignore_errors=True)


def _lock_alone(source: apsw.Connection, path: str, raw: str | None, busy_timeout: float) -> None:
    """Keep every other process out, with all of the log in the file."""
    source.set_busy_timeout(int(busy_timeout * 1000))
    if raw is not None:
        unlock(source, path, raw)
    source.pragma("locking_mode", "exclusive")
    try:
        emptied = source.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0] == 0
        alone = emptied and source.pragma("journal_mode", "delete") == "delete"
        if alone:
            source.execute("BEGIN EXCLUSIVE; COMMIT")  # this mode keeps the lock; a copy needs no open transaction
    except apsw.BusyError:
        alone = False
    if not alone:
        raise StoreBusy(f"{path} is in use: stop every process that has it open, then try again. Nothing was changed.")


def _write(source: apsw.Connection, draft: Path, old_raw: str | None, new: str | None) -> None:
    """Copy a store into a draft and give the copy its new key."""
    copy = apsw.Connection(str(draft))
    try:
        copy.pragma("secure_delete", 1)
        copy.pragma("temp_store", "MEMORY")
        copy.pragma("synchronous", "FULL")
        copy.pragma("journal_mode", "memory")  # a draft: a kill discards it
        if old_raw is not None:
            unlock(copy, str(draft), old_raw)
        with copy.backup("main", source, "main") as pages:
            pages.step()
        if new is None:
            copy.pragma("rekey", "")
        else:
            copy.pragma("rekey", new_raw_key(new))
        copy.execute(sql.texts["meta_drop"], (CLEARED,))  # the copy is not written through that VFS
        copy.pragma("journal_mode", "wal")
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        copy.close()


def _discard(handle: int) -> None:
    """Empty the old file, which has no name any more: a process that waited for it must not write to it."""
    size = os.fstat(handle).st_size
    block = bytes(1024 * 1024)
    os.lseek(handle, 0, os.SEEK_SET)
    for at in range(0, size, len(block)):
        os.write(handle, block[: size - at])
    os.fsync(handle)
    os.ftruncate(handle, 0)
