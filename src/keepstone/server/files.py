"""Files on their way in or out: in a folder of their own that nobody else can read, gone when the request is.

A file is whole before the first byte of it is sent, so that what was cut off can be told from what was short. One key has only so
many on their way at a time: whoever begins uploads and ends none would fill the disk for all.
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
from keepstone.server.problems import Refused
from keepstone.server.service import Caller

JSONL = "application/jsonl"
_CHUNK = 262_144
_PREFIX = "keepstone-"
_NAME = "file"
_AT_ONCE = 8  # files of one key
_LATER = 5.0  # seconds


class Handed(StreamingResponse):
    """A file as an attachment. It goes when it has been sent, and when whoever wanted it has gone."""

    def __init__(self, folder: TemporaryDirectory[str], media: str, name: str, gone: Callable[[], object]) -> None:
        path = Path(folder.name) / _NAME
        headers = {
            "content-length": str(path.stat().st_size),
            "content-disposition": f'attachment; filename="{name}"',
            "cache-control": "no-store",
        }
        self._folder, self._chunks = folder, _chunks(path)
        self._gone = weakref.finalize(self, gone)  # whatever becomes of the answer, once
        super().__init__(self._chunks, 200, headers, media)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._chunks.aclose()  # closes the file, wherever the sending was cut off
            self._folder.cleanup()
            self._gone()


async def _chunks(path: Path) -> AsyncGenerator[bytes, None]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(_CHUNK):
            yield chunk


async def handed(asking: Caller, write: Callable[[str], Any], media: str, name: str) -> Handed:
    """What `write` writes to the path that it is given."""

    def work() -> Handed:
        folder = _folder()
        try:
            write(str(Path(folder.name) / _NAME))
            return Handed(folder, media, name, gone)
        except BaseException:
            folder.cleanup()
            raise

    gone = _one_more(asking)
    try:
        return await asking.run(work)
    except BaseException:
        gone()
        raise


def _one_more(asking: Caller) -> Callable[[], None]:
    """Count a file of a key; what is given back takes it off again. RateLimited where it has as many as it may."""
    under_way, id = asking.service.files, asking.identity.id
    if under_way[id] >= _AT_ONCE:
        raise RateLimited(f"{_AT_ONCE} files of this key are on their way already: wait until one of them is through.", _LATER)
    under_way[id] += 1

    def gone() -> None:
        under_way[id] -= 1
        if under_way[id] <= 0:
            del under_way[id]

    return gone


@asynccontextmanager
async def spooled(asking: Caller, request: Request) -> AsyncIterator[str]:
    """The path of a file with the body of a request in it."""
    gone = _one_more(asking)
    try:
        folder = await asking.run(_folder)
    except BaseException:
        gone()
        raise
    try:
        path = Path(folder.name) / _NAME
        try:
            async with await anyio.open_file(path, "xb", buffering=_CHUNK) as file:
                async for chunk in request.stream():
                    await file.write(chunk)
        except ClientDisconnect:
            raise Refused(400, "the body ended before all of it had come: send it again.") from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("there is no room for the file on the server: make some, then send it again.") from error
            raise
        yield str(path)
    finally:
        folder.cleanup()
        gone()


def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
