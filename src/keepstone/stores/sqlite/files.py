"""The file on disk: safe opening, and creation that a kill cannot leave half done.

Everything here looks at the file without SQLite, so that a file that is not ours is never touched.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from keepstone.errors import ConfigurationError, StoreDamaged, StoreError

APPLICATION_ID = 0x7265636C  # "recl", at offset 68 of the header
_MAGIC = b"SQLite format 3\0"
# Bytes 16 to 23 stay readable in an encrypted file: pages of 4096 bytes, a journal or a log, 32 bytes for nonce and tag.
_ENCRYPTED = (b"\x10\0\x01\x01 @  ", b"\x10\0\x02\x02 @  ")


def check(path: Path, *, encrypted: bool = False) -> bool:
    """Whether a store is there (True) or nothing is (False); anything else at the path is refused, untouched. `encrypted`: the
    caller has a key, and only an encrypted store will do."""
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigurationError(f"{path} is a link to a file that does not exist: mend or remove the link.") from None
        _check_folder(path)
        return False
    except NotADirectoryError:
        raise ConfigurationError(f"{path}: a part of this path is a file, not a folder: choose another path.") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path!s:.200}: cannot be looked at ({error}): choose another path.") from None
    if stat.S_ISDIR(found.st_mode):
        raise ConfigurationError(f"{path} is a folder: name a file in it, such as {path / 'keepstone.db'}.")
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(f"{path} is not an ordinary file: choose another path.")
    if found.st_size == 0:
        raise StoreDamaged(
            f"{path} is empty (0 bytes), and a keepstone store never is: its content was lost, or another program made "
            "the file. Restore it from a backup, or delete it to start a new store there."
        )
    _check_header(path, encrypted)
    if not found.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise StoreError(f"{path} is read-only: make it writable (chmod u+w {path}), or copy it and open the copy.")
    return True


def check_free(path: Path) -> bool:
    """Whether nothing is at a path where something is to be written; ConfigurationError if it cannot be."""
    if "\0" in str(path):
        raise ConfigurationError(f"{str(path)!r:.200} holds a NUL character: choose another path.")
    try:
        if path.exists() or path.is_symlink():
            return False
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path!s:.200}: cannot be written ({error}): choose another path.") from None
    _check_folder(path)
    return True


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise ConfigurationError(f"the folder {path.parent} does not exist: create it, or choose another path.")
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"the folder {path.parent} is read-only: choose a path that can be written.")


def read_salt(path: Path) -> bytes:
    """The first bytes of an encrypted file, which are not encrypted."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC))


def _check_header(path: Path, encrypted: bool) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except PermissionError:
        raise StoreError(f"{path} may not be read by this user: check its owner and mode.") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); it was left untouched. Check the disk.") from error
    if len(header) == 100 and header[16:24] in _ENCRYPTED and not header.startswith(_MAGIC):
        if encrypted:
            return
        raise ConfigurationError(
            f"{path} is encrypted: set its key (encryption_key, encryption_key_file, encryption_key_command or "
            "encryption_key_keyring; KEEPSTONE_ENCRYPTION_KEY in the environment). It was left untouched."
        )
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise StoreDamaged(
            f"{path} is not a keepstone store (it does not begin like a SQLite file); it was left untouched. "
            "Choose another path; if a store was here, restore it from a backup."
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreDamaged(
            f"{path} is a SQLite file of another program, not a keepstone store; it was left untouched. Choose another path."
        )
    if encrypted:
        raise ConfigurationError(
            f"{path} is not encrypted, and an encryption key is set: encrypt it with 'keepstone encrypt --db {path}', or leave "
            "the key out. It was left untouched."
        )


def create(path: Path, build: Callable[[Path], None]) -> bool:
    """Build a new store beside `path` and move it there whole; False if another process was first: theirs stays."""
    try:
        with _draft(path) as draft:
            build(draft)
            _place(draft, path)
        return True
    except FileExistsError:
        return False
    except PermissionError as error:
        raise StoreError(f"cannot create {path}: {error.strerror}: choose a path that can be written.") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft to write, with the mode of the file that it replaces once it is whole and on disk."""
    with _draft(path) as draft:
        yield draft
        os.chmod(draft, stat.S_IMODE(path.stat().st_mode))
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """An empty file beside a path, for the block to fill and to move there."""
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.new")
    _sweep(path)
    try:
        # Memories are their owner's; the log takes this mode.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        _sync_folder(path.parent)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"), Path(f"{draft}-journal")):
            leftover.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Remove drafts that a killed process left an hour ago or more."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.new*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > 3600:
                leftover.unlink()


def _place(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)  # unlike a rename this never replaces what another process has put there
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        os.rename(draft, path)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
