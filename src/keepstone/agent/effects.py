"""An agent's turn as a generator: it yields what it needs (an answer of the model, a tool's result) and is sent it. So a turn is
written once, and run with or without asyncio, streamed or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from keepstone.agent.functions import Tool, ToolFailed
from keepstone.errors import ModelError
from keepstone.ports.chat import Answer, ChatModel, Prompt

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


def used(effect: Use) -> Result:
    """Use a tool."""
    try:
        return Result(effect.tool.call(effect.input))
    except ToolFailed as error:
        return Result(str(error), failed=True)


async def used_async(effect: Use) -> Result:
    """Use a tool without holding up the event loop."""
    try:
        return Result(await effect.tool.acall(effect.input))
    except ToolFailed as error:
        return Result(str(error), failed=True)


def run(turn: Turn[T], model: ChatModel) -> T:
    """Run a turn to its end."""
    answer: Reaction = None
    while True:
        ended, value = _sent(turn, answer)
        if ended:
            result: T = value
            return result
        if isinstance(value, Use):
            answer = used(value)
            continue
        try:
            answer = model.ask(value.prompt)
        except ModelError as error:
            answer = error


async def run_async(turn: Turn[T], model: ChatModel) -> T:
    """Run a turn to its end on an event loop; its own work (the store's) is done in worker threads."""
    answer: Reaction = None
    while True:
        ended, value = await asyncio.to_thread(_sent, turn, answer)
        if ended:
            result: T = value
            return result
        if isinstance(value, Use):
            answer = await used_async(value)
            continue
        try:
            answer = await model.aask(value.prompt)
        except ModelError as error:
            answer = error


def _sent(turn: Turn[Any], answer: Reaction) -> tuple[bool, Any]:
    """(whether it has ended, what it needs or gave): a StopIteration cannot cross from a thread into a coroutine."""
    try:
        return False, turn.throw(answer) if isinstance(answer, ModelError) else turn.send(answer)
    except StopIteration as done:
        return True, done.value


class _Pieces(Generic[T]):
    """What both streams are made of."""

    def __init__(self, turn: Turn[T], model: ChatModel) -> None:
        self._turn = turn
        self._model = model
        self._begun = False
        self._said = False  # whether there has been any text
        self._between = False  # whether the next piece is another answer's first
        self.reply: T | None = None

    def _apart(self, piece: str) -> str:
        """A piece, with a blank line before it where it begins another answer of the same turn."""
        gap = "\n\n" if self._between and piece else ""
        self._between = self._between and not piece
        self._said = self._said or bool(piece)
        return gap + piece


class Stream(_Pieces[T]):
    """The text of a turn piece by piece; `reply` is there when it has ended. It can be read once."""

    def __iter__(self) -> Iterator[str]:
        if self._begun:
            return  # it can be read once; its reply stays
        self._begun = True
        answer: Reaction = None
        while True:
            ended, value = _sent(self._turn, answer)
            if ended:
                self.reply = value
                return
            self._between = self._said
            if isinstance(value, Use):
                answer = used(value)
                continue
            answer = None
            try:
                for piece in self._model.stream(value.prompt):
                    if isinstance(piece, str):
                        yield self._apart(piece)
                    else:
                        answer = piece
                if answer is None:
                    raise ModelError(f"{self._model.id} ended its stream without an answer: try again.")
            except ModelError as error:
                answer = error


class AsyncStream(_Pieces[T]):
    """The same on an event loop."""

    async def __aiter__(self) -> AsyncIterator[str]:
        if self._begun:
            return
        self._begun = True
        answer: Reaction = None
        while True:
            ended, value = await asyncio.to_thread(_sent, self._turn, answer)
            if ended:
                self.reply = value
                return
            self._between = self._said
            if isinstance(value, Use):
                answer = await used_async(value)
                continue
            answer = None
            try:
                async for piece in self._model.astream(value.prompt):
                    if isinstance(piece, str):
                        yield self._apart(piece)
                    else:
                        answer = piece
                if answer is None:
                    raise ModelError(f"{self._model.id} ended its stream without an answer: try again.")
            except ModelError as error:
                answer = error
