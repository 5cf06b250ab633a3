"""An agent's turn as a generator: it yields what it needs (an answer of the model, a tool's result) and is sent it. So a turn is
written once, and run with or without asyncio, streamed or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from keepstone.agent.functions import Tool, ToolFailed
from keepstone.errors import ModelError
from keepstone.ports.chat import Answer, ChatModel, Prompt
from keepstone.ports.coroutines import iterate_blocking, run_blocking

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """The model is to be asked."""

    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Use:
    """A tool is to be used."""

    tool: Tool
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool gave, as text for the model."""

    text: str
    failed: bool = False


Effect = Ask | Use
Reaction = Answer | Result | ModelError | None  # None only to begin with; an error is raised in the turn
Turn = Generator[Effect, Answer | Result | None, T]


# What follows is a coroutine for both: with `blocking` it is never suspended, and run to its end at once.
async def _use(effect: Use, blocking: bool) -> Result:
    """Use a tool; not blocking, without holding up the event loop."""
    try:
        return Result(effect.tool.call(effect.input) if blocking else await effect.tool.acall(effect.input))
    except ToolFailed as error:
        return Result(str(error), failed=True)


async def _send(turn: Turn[Any], answer: Reaction, blocking: bool) -> tuple[bool, Any]:
    """What a turn needs or gave; its own work (the store's) is done in a worker thread if an event loop waits."""
    return _sent(turn, answer) if blocking else await asyncio.to_thread(_sent, turn, answer)


def _sent(turn: Turn[Any], answer: Reaction) -> tuple[bool, Any]:
    """(whether it has ended, what it needs or gave): a StopIteration cannot cross from a thread into a coroutine."""
    try:
        return False, turn.throw(answer) if isinstance(answer, ModelError) else turn.send(answer)
    except StopIteration as done:
        return True, done.value


def run(turn: Turn[T], model: ChatModel) -> T:
    """Run a turn to its end."""
    return run_blocking(_run(turn, model, blocking=True))


async def run_async(turn: Turn[T], model: ChatModel) -> T:
    """Run a turn to its end on an event loop."""
    return await _run(turn, model, blocking=False)


async def _run(turn: Turn[T], model: ChatModel, *, blocking: bool) -> T:
    answer: Reaction = None
    while True:
        ended, value = await _send(turn, answer, blocking)
        if ended:
            result: T = value
            return result
        if isinstance(value, Use):
            answer = await _use(value, blocking)
            continue
        try:
            answer = model.ask(value.prompt) if blocking else await model.aask(value.prompt)
        except ModelError as error:
            answer = error


async def _streamed(model: ChatModel, prompt: Prompt, blocking: bool) -> AsyncGenerator[str | Answer, None]:
    if blocking:
        for piece in model.stream(prompt):
            yield piece
    else:
        async for piece in model.astream(prompt):
            yield piece


class _Pieces(Generic[T]):
    """What both streams are made of."""

    def __init__(self, turn: Turn[T], model: ChatModel) -> None:
        self._turn = turn
        self._model = model
        self._begun = False
        self._said = False  # whether there has been any text
        self._between = False  # whether the next piece is another answer's first
        self.reply: T | None = None

    async def _read(self, blocking: bool) -> AsyncGenerator[str, None]:
        if self._begun:
            return  # it can be read once; its reply stays
        self._begun = True
        answer: Reaction = None
        while True:
            ended, value = await _send(self._turn, answer, blocking)
            if ended:
                self.reply = value
                return
            self._between = self._said
            if isinstance(value, Use):
                answer = await _use(value, blocking)
                continue
            answer = None
            try:
                async with aclosing(_streamed(self._model, value.prompt, blocking)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, str):
                            yield self._apart(piece)
                        else:
                            answer = piece
                if answer is None:
                    raise ModelError(f"{self._model.id} ended its stream without an answer: try again.")
            except ModelError as error:
                answer = error

    def _apart(self, piece: str) -> str:
        """A piece, with a blank line before it where it begins another answer of the same turn."""
        gap = "\n\n" if self._between and piece else ""
        self._between = self._between and not piece
        self._said = self._said or bool(piece)
        return gap + piece


class Stream(_Pieces[T]):
    """The text of a turn piece by piece; `reply` is there when it has ended. It can be read once."""

    def __iter__(self) -> Iterator[str]:
        return iterate_blocking(self._read(blocking=True))


class AsyncStream(_Pieces[T]):
    """The same on an event loop."""

    def __aiter__(self) -> AsyncIterator[str]:
        return self._read(blocking=False)
