"""Running coroutines from code that cannot await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def run_blocking(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable that never waits for an event loop."""
    try:
        next(awaitable.__await__())
    except StopIteration as done:
        value: T = done.value
        return value
    raise RuntimeError("a coroutine without an event loop has waited for one")


def run_in_loop(awaitable: Awaitable[T]) -> T:
    """The result of an awaitable, from a loop of its own; where a loop runs in this thread, in a thread of its own."""

    async def wait() -> T:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, wait()).result()
