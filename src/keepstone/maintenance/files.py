"""Files that are written whole or not at all, and files that are read in chunks."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from keepstone.errors import ConfigurationError, StorageFull

_CHUNK_BYTES = 256 * 1024


@contextmanager
def whole(path: str | PathLike[str], *, new: bool = False) -> Iterator[BinaryIO]:
    """A draft to write to, which takes the place of the file when the block ends well. `new`: there must be no such file yet."""
    target = check_writable(path)
    taken = f"{target} exists already: choose another path, or delete it first."
    if new and os.path.lexists(target):
        raise ConfigurationError(taken)
    draft = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.new")
    try:
        with open(draft, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:  # readable by its owner only
            yield file
            file.flush()
            os.fsync(file.fileno())
        if new and os.path.lexists(target):
            raise ConfigurationError(taken)
        os.replace(draft, target)
    except OSError as error:
        kind = StorageFull if error.errno == 28 else ConfigurationError
        raise kind(f"cannot write {target}: {error.strerror}: choose a path that can be written.") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def check_writable(path: str | PathLike[str]) -> Path:
    """The path of a file that can be written; ConfigurationError for any other."""
    try:
        target = Path(path).absolute()
        target.resolve()  # raises if the name cannot be used at all
        if target.name and not target.is_dir() and target.parent.is_dir():
            return target
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{str(path)!r:.100} cannot be written ({error}): choose another path.") from None
    raise ConfigurationError(f"{str(path)!r:.100} is not a file in an existing folder: name one such as memories.jsonl.")


@contextmanager
def open_for_reading(path: str | PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """A file to read from, and its size."""
    try:
        there = Path(path).is_file()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{str(path)!r:.100} cannot be read ({error}): check the path.") from None
    if not there:
        raise ConfigurationError(
            f"cannot read {str(path)!r:.100}: it is not an ordinary file. Check the path; save a pipe to a file first."
        )
    try:
        opened = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r:.100} cannot be read ({error.strerror}): check the path.") from None
    with opened as file:
        yield file, os.fstat(file.fileno()).st_size


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """A file, a piece at a time."""
    while piece := file.read(_CHUNK_BYTES):
        yield piece


async def async_chunks_of(file: BinaryIO) -> AsyncIterator[bytes]:
    """The same for asyncio."""
    while piece := file.read(_CHUNK_BYTES):
        yield piece
