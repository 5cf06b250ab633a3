"""Run a blocking call in a thread to its end, even if the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_to_completion(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call in a thread; a cancellation is raised only after the call has ended, when its result is known."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # retrieved, so that asyncio does not log it
        raise cancelled
    return task.result()
