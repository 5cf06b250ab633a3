"""Listening to what a vendor's client gives back: answers, streams, raw responses.

Nothing is held back: a stream's events go on as they come, and are only heard. When it ends, however it ends, what was said until
then is kept. A stream that is left early ends when it is closed; one that is merely dropped, when Python clears it away.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from keepstone.integrations.wrap_keeper import Keeper, safely
from keepstone.integrations.wrap_wires import Wire

T = TypeVar("T")
_UNHEARD = "the answer was not heard"
_PATIENCE = 5.0  # seconds that a dropped stream waits for its answer to be kept


class Tape:
    """What was heard of one answer; it is kept once."""

    def __init__(self, wire: Wire, keeper: Keeper) -> None:
        self._wire = wire
        self._keeper = keeper
        self._pieces: list[str] = []
        self._done = False
        self.dropped = False

    def hear(self, event: Any) -> None:
        self._pieces.append(safely(lambda: self._wire.piece(event), "", _UNHEARD))

    def whole(self, result: Any) -> None:
        """An answer that came in one piece, as an object or as JSON."""
        self._pieces = [safely(lambda: self._wire.answer(result), "", _UNHEARD)]

    def keep(self) -> None:
        if self._done:
            return
        self._done = True
        text = "".join(self._pieces).strip()
        if not self.dropped:
            self._keeper.after(text)
            return
        # Python may clear a stream away at any moment, in the middle of a call to the store too: another thread can wait.
        thread = threading.Thread(target=self._keeper.after, args=(text,), daemon=True)
        safely(thread.start, None, "the answer was not saved")
        if thread.ident is not None:
            thread.join(_PATIENCE)


async def archived(work: Callable[[], T]) -> T:
    """Wait for the store in a thread; where asyncio has none to give, under another event loop or at its end, here."""
    try:
        return await asyncio.to_thread(work)
    except RuntimeError:  # of asyncio: what fails in memory does not get here
        return work()


def heard(result: T, tape: Tape) -> T:
    """The same result, with its answer kept: at once, or when its stream ends."""
    if _is_stream(result):
        safely(lambda: _taped(result, tape), None, _UNHEARD)
    elif not _is_raw(result):
        tape.whole(result)
        tape.keep()
    elif not _read(result, tape):
        safely(lambda: _parsing(result, tape), None, _UNHEARD)
    else:
        tape.keep()
    return result


async def aheard(result: T, tape: Tape) -> T:
    """`heard` for clients of asyncio."""
    if _is_stream(result):
        safely(lambda: _ataped(result, tape), None, _UNHEARD)
    elif not _is_raw(result):
        tape.whole(result)
        await archived(tape.keep)
    elif not _read(result, tape):
        safely(lambda: _aparsing(result, tape), None, _UNHEARD)
    else:
        await archived(tape.keep)
    return result


def _is_stream(result: Any) -> bool:
    return hasattr(type(result), "__stream__") and hasattr(result, "response")


def _is_raw(result: Any) -> bool:
    return hasattr(result, "http_response") and callable(getattr(result, "parse", None))


def _inner(stream: Any) -> Any:
    """A stream's events, from a copy of it: an iterator that held the stream itself would keep it from being cleared away."""
    twin = copy.copy(stream)
    vars(twin).pop("_iterator", None)
    return twin.__stream__()


def _taped(stream: Any, tape: Tape) -> None:
    response, inner = stream.response, _inner(stream)
    close = response.close

    def closed() -> None:
        close()
        tape.keep()

    def events() -> Iterator[Any]:
        try:
            for event in inner:
                tape.hear(event)
                yield event
        except GeneratorExit:
            tape.dropped = True
            raise
        finally:
            inner.close()
            tape.keep()

    response.close = closed  # the vendors' helpers close the response, not the stream
    stream._iterator = events()


def _ataped(stream: Any, tape: Tape) -> None:
    response, inner = stream.response, _inner(stream)
    close = response.aclose

    async def closed() -> None:
        await close()
        await archived(tape.keep)

    async def events() -> AsyncIterator[Any]:
        try:
            async for event in inner:
                tape.hear(event)
                yield event
        finally:
            await inner.aclose()
            await archived(tape.keep)

    response.aclose = closed
    stream._iterator = events()


def _read(result: Any, tape: Tape) -> bool:
    """Take the answer from a raw response whose body is there already; False if it is still to come."""
    if not result.http_response.is_closed:
        return False
    safely(lambda: tape.whole(json.loads(result.http_response.content)), None, _UNHEARD)
    return True


def _parsing(result: Any, tape: Tape) -> None:
    """Listen when a raw response is parsed, which is when it is read."""
    parse = result.parse
    first = [True]

    def parsed(*args: Any, **options: Any) -> Any:
        value = parse(*args, **options)
        return heard(value, tape) if first and first.pop() else value

    result.parse = parsed


def _aparsing(result: Any, tape: Tape) -> None:
    parse = result.parse
    first = [True]

    async def parsed(*args: Any, **options: Any) -> Any:
        value = await parse(*args, **options)
        return await aheard(value, tape) if first and first.pop() else value

    def at_once(*args: Any, **options: Any) -> Any:  # openai's raw responses are parsed without waiting
        value = parse(*args, **options)
        if first and first.pop() and _is_stream(value):
            safely(partial(_ataped, value, tape), None, _UNHEARD)
        return value

    result.parse = parsed if inspect.iscoroutinefunction(parse) else at_once
