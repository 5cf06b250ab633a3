"""Uploads and downloads: files in a private temporary folder that is deleted with the request.

A file is complete before its first byte is sent, so a client can tell a broken download from a short file. One key may have a
limited number of files in progress, so that unfinished uploads cannot fill the disk.
"""

from __future__ import annotations

import errno
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from keepstone.errors import RateLimited, StorageFull
from keepstone.server.problems import RequestRefused
from keepstone.server.service import Caller

JSONL = "application/jsonl"
_CHUNK_BYTES = 262_144
_FOLDER_PREFIX = "keepstone-"
_FILE_NAME = "file"
_MEMORY_FOLDER = "/dev/shm"
_MAX_FILES_PER_KEY = 8
_RETRY_SECONDS = 5.0


class TemporaryFileResponse(StreamingResponse):
    """A temporary file as an attachment; deleted when it has been sent or the client has gone."""

    def __init__(self, folder: TemporaryDirectory[str], media_type: str, name: str, release: Callable[[], object]) -> None:
        path = Path(folder.name) / _FILE_NAME
        headers = {
            "content-length": str(path.stat().st_size),
            "content-disposition": f'attachment; filename="{name}"',
            "cache-control": "no-store",
        }
        self._folder, self._chunks = folder, _read_chunks(path)
        self._release = weakref.finalize(self, release)  # runs once, whatever happens to the response
        super().__init__(self._chunks, 200, headers, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._chunks.aclose()
            self._folder.cleanup()
            self._release()


async def _read_chunks(path: Path) -> AsyncGenerator[bytes, None]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(_CHUNK_BYTES):
            yield chunk


async def send_file(caller: Caller, write: Callable[[str], Any], media_type: str, name: str) -> TemporaryFileResponse:
    """A response with the file that `write` writes to a path."""

    def work() -> TemporaryFileResponse:
        folder = _make_folder(caller)
        try:
            write(str(Path(folder.name) / _FILE_NAME))
            return TemporaryFileResponse(folder, media_type, name, release)
        except BaseException:
            folder.cleanup()
            raise

    release = _acquire_slot(caller)
    try:
        return await caller.run(work)
    except BaseException:
        release()
        raise


def _acquire_slot(caller: Caller) -> Callable[[], None]:
    """Count a file of the key; returns what releases it. RateLimited if the key has too many in progress."""
    open_files, id = caller.service.open_files, caller.identity.id
    if open_files[id] >= _MAX_FILES_PER_KEY:
        raise RateLimited(f"this key has {_MAX_FILES_PER_KEY} files in progress: wait until one is finished.", _RETRY_SECONDS)
    open_files[id] += 1

    def release() -> None:
        open_files[id] -= 1
        if open_files[id] <= 0:
            del open_files[id]

    return release


@asynccontextmanager
async def save_body(caller: Caller, request: Request) -> AsyncIterator[str]:
    """The path of a temporary file with the body of a request."""
    release = _acquire_slot(caller)
    try:
        folder = await caller.run(lambda: _make_folder(caller))
    except BaseException:
        release()
        raise
    try:
        path = Path(folder.name) / _FILE_NAME
        try:
            async with await anyio.open_file(path, "xb", buffering=_CHUNK_BYTES) as file:
                async for chunk in request.stream():
                    await file.write(chunk)
        except ClientDisconnect:
            raise RequestRefused(400, "the body is incomplete: send it again.") from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("the server has no space for the file: free some, then send it again.") from error
            raise
        yield str(path)
    finally:
        folder.cleanup()
        release()


def _make_folder(caller: Caller) -> TemporaryDirectory[str]:
    """A folder for one file. With an encrypted store it is in memory, where the system has such a folder."""
    memory = _MEMORY_FOLDER if caller.service.settings.encrypted and Path(_MEMORY_FOLDER).is_dir() else None
    return TemporaryDirectory(prefix=_FOLDER_PREFIX, dir=memory, ignore_cleanup_errors=True)
