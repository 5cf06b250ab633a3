"""A turn written once and run four ways: what it is sent, what is thrown into it, what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from keepstone.agent.effects import Ask, AsyncStream, Effect, Result, Stream, Turn, Use, run, run_async
from keepstone.agent.functions import tool_of
from keepstone.errors import ModelError
from keepstone.ports.chat import Answer, Prompt

PROMPT = Prompt([{"role": "user", "content": "Hi"}])


class Scripted:
    """A model that gives the next answer, or raises it; streams come letter by letter."""

    id = "scripted"

    def __init__(self, *answers: str | Exception, ends: bool = True) -> None:
        self._answers = list(answers)
        self._ends = ends
        self.prompts: list[Prompt] = []

    def ask(self, prompt: Prompt) -> Answer:
        self.prompts.append(prompt)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(({"type": "text", "text": answer},), "end")

    def stream(self, prompt: Prompt) -> Iterator[str | Answer]:
        answer = self.ask(prompt)
        yield from answer.text
        if self._ends:
            yield answer

    async def aask(self, prompt: Prompt) -> Answer:
        return self.ask(prompt)

    async def astream(self, prompt: Prompt) -> AsyncIterator[str | Answer]:
        for piece in self.stream(prompt):
            yield piece


def driven(turn: Turn[Any], model: Scripted) -> Any:
    return run(turn, model)


def driven_async(turn: Turn[Any], model: Scripted) -> Any:
    return asyncio.run(run_async(turn, model))


def drained(turn: Turn[Any], model: Scripted) -> Any:
    stream = Stream(turn, model)
    list(stream)
    return stream.reply


def drained_async(turn: Turn[Any], model: Scripted) -> Any:
    async def drain() -> Any:
        stream = AsyncStream(turn, model)
        async for _ in stream:
            pass
        return stream.reply

    return asyncio.run(drain())


all_drivers = pytest.mark.parametrize("drive", [driven, driven_async, drained, drained_async])
all_streams = pytest.mark.parametrize("drive", [drained, drained_async])


def double(number: int) -> int:
    """Twice a number."""
    return number * 2


async def later(number: int) -> int:
    """Twice a number, later."""
    await asyncio.sleep(0)
    return number * 2


def refuse() -> None:
    """Fails."""
    raise StopIteration("not today")


@all_drivers
def test_a_turn_is_sent_what_it_asks_for(drive: Any) -> None:
    def turn() -> Turn[list[object]]:
        first = yield Ask(PROMPT)
        second = yield Use(tool_of(double), {"number": 4})
        third = yield Use(tool_of(later), {"number": 5})
        fourth = yield Ask(PROMPT)
        return [first.text, second, third, fourth.text]

    model = Scripted("one", "two")
    assert drive(turn(), model) == ["one", Result("8"), Result("10"), "two"]
    assert model.prompts == [PROMPT, PROMPT]


@all_drivers
def test_a_turn_may_need_nothing(drive: Any) -> None:
    def turn() -> Turn[str]:
        needed: list[Effect] = []
        yield from needed
        return "nothing"

    assert drive(turn(), Scripted()) == "nothing"


@all_drivers
def test_a_tool_that_fails_gives_a_result(drive: Any) -> None:
    def turn() -> Turn[list[Result]]:
        results = []
        for tool, input in ((refuse, {}), (double, {"number": "x"}), (later, {}), (double, {"number": 1})):
            result = yield Use(tool_of(tool), input)
            assert isinstance(result, Result)
            results.append(result)
        return results

    results = drive(turn(), Scripted())
    assert [result.failed for result in results] == [True, True, True, False]
    assert "StopIteration: not today" in results[0].text
    assert "whole number" in results[1].text
    assert "missing" in results[2].text


@all_drivers
def test_what_the_model_raises_passes_through_the_turn(drive: Any) -> None:
    settled = []

    def turn() -> Turn[None]:
        try:
            yield Ask(PROMPT)
        except ModelError as error:
            settled.append(str(error))
            raise

    with pytest.raises(ModelError, match="no room"):
        drive(turn(), Scripted(ModelError("no room")))
    assert settled == ["no room"]


@all_drivers
def test_what_a_turn_raises_itself_is_raised(drive: Any) -> None:
    def turn() -> Turn[None]:
        yield Ask(PROMPT)
        raise LookupError("of its own")

    with pytest.raises(LookupError, match="of its own"):
        drive(turn(), Scripted("one"))


@all_streams
def test_a_stream_without_an_answer_at_its_end_is_an_error(drive: Any) -> None:
    settled = []

    def turn() -> Turn[None]:
        try:
            yield Ask(PROMPT)
        except ModelError:
            settled.append(True)
            raise

    with pytest.raises(ModelError, match="ended its stream without an answer"):
        drive(turn(), Scripted("one", ends=False))
    assert settled == [True]


def test_pieces_come_before_the_turn_goes_on() -> None:
    seen: list[str] = []

    def turn() -> Turn[str]:
        answer = yield Ask(PROMPT)
        assert isinstance(answer, Answer)
        seen.append("answered")
        return answer.text

    stream = Stream(turn(), Scripted("ab"))
    assert stream.reply is None
    for piece in stream:
        seen.append(piece)
    assert seen == ["a", "b", "answered"]
    assert stream.reply == "ab"
