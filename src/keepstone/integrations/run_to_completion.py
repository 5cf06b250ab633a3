"""Waiting for a memory in an event loop: its verbs run in a thread, to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def settled(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Run in a thread to the end: a caller that is cancelled hears of it when it is known what was written."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *given, **named))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # looked at: the cancellation is what the caller hears of
        raise cancelled
    return task.result()
