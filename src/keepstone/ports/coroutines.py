"""Running coroutines from code that cannot await."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio  # 10 ms that only callers with coroutines pay

T = TypeVar("T")
CALLER_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("CALLER_LOOP", default=None)
"""The event loop that waits for the work of this thread, so that what the work awaits can run there."""


def run_blocking(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable that never waits for an event loop."""
    try:
        next(awaitable.__await__())
    except StopIteration as done:
        value: T = done.value
        return value
    raise RuntimeError("a coroutine without an event loop has waited for one")


def iterate_blocking(pieces: AsyncGenerator[T, None]) -> Iterator[T]:
    """What an asynchronous generator gives that never waits for an event loop."""
    try:
        while True:
            yield run_blocking(anext(pieces))
    except StopAsyncIteration:
        return
    finally:
        run_blocking(pieces.aclose())


def run_in_lasting_loop(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable, from the event loop that waits for this thread, or else from one that lasts as long as the
    process: a client that keeps connections open needs the same loop in every call."""

    import asyncio

    async def wait() -> T:
        return await awaitable

    loop = CALLER_LOOP.get()
    if loop is None or not loop.is_running():
        loop = _lasting_loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(wait(), loop).result()


@lru_cache(maxsize=1)
def _lasting_loop(process: int) -> asyncio.AbstractEventLoop:
    """An event loop in a thread of its own; a forked process makes its own."""
    import asyncio

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="keepstone.loop", daemon=True).start()
    return loop


def run_in_loop(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable, from a loop of its own; where a loop runs in this thread, in a thread of its own."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> T:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, wait()).result()
