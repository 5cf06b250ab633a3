"""A function as a chat model: what it may return, asynchronous or not, and what becomes of its errors."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from typing import Any

import pytest

from keepstone.errors import ModelError
from keepstone.models.function import FunctionModel
from keepstone.ports.chat import Answer, ChatModel, Prompt, Usage

PROMPT = Prompt([{"role": "user", "content": "the password is heron"}])
TEXT = {"type": "text", "text": "tea"}
USE = {"type": "tool_use", "id": "u1", "name": "recall", "input": {}}
caller = contextvars.ContextVar("caller", default="nobody")


def every_way(model: FunctionModel, prompt: Prompt = PROMPT) -> list[Answer]:
    """The answers of ask, stream, aask and astream; streams must give the text first."""

    async def last() -> list[Any]:
        return [each async for each in model.astream(prompt)]

    streams = [list(model.stream(prompt)), asyncio.run(last())]
    for stream in streams:
        assert "".join(stream[:-1]) == stream[-1].text
    return [model.ask(prompt), asyncio.run(model.aask(prompt)), *(stream[-1] for stream in streams)]


@pytest.mark.parametrize(
    ("returned", "blocks", "stop"),
    [
        ("tea", (TEXT,), "end"),
        (TEXT, (TEXT,), "end"),
        (USE, (USE,), "tools"),
        ([TEXT, USE], (TEXT, USE), "tools"),
        ((TEXT,), (TEXT,), "end"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_function_may_return(returned: Any, blocks: Any, stop: str, asynchronous: bool) -> None:
    async def later(prompt: Prompt) -> Any:
        await asyncio.sleep(0)
        return returned

    model = FunctionModel(later if asynchronous else lambda prompt: returned, id="mine")
    for answer in every_way(model):
        assert (answer.blocks, answer.stop, answer.model, answer.usage) == (blocks, stop, "mine", Usage(calls=1))


def test_an_answer_is_kept() -> None:
    whole = Answer((TEXT,), "length", Usage(3, 2, 1, calls=1, cost=0.5), "claude")
    assert every_way(FunctionModel(lambda prompt: whole)) == [whole] * 4
    bare = FunctionModel(lambda prompt: Answer((TEXT,), "end"), id="mine").ask(PROMPT)
    assert (bare.usage.calls, bare.model) == (1, "mine")


def test_a_dictionary_is_json_where_a_schema_asks_for_it() -> None:
    model = FunctionModel(lambda prompt: {"drink": "grüner Tee"})
    for answer in every_way(model, Prompt([], schema={"type": "object"})):
        assert json.loads(answer.text) == {"drink": "grüner Tee"}
    with pytest.raises(ModelError, match="no answer"):
        model.ask(PROMPT)


def test_tool_uses_get_ids() -> None:
    use = {"type": "tool_use", "name": "recall", "input": {"query": "tea"}}
    first, second = FunctionModel(lambda prompt: [use, use]).ask(PROMPT).tool_uses
    assert first["id"] != second["id"]
    assert "id" not in use


@pytest.mark.parametrize("returned", [None, 5, "", [], {}, ["tea"], {"type": "text"}, {"type": "image"}, b"tea"])
def test_what_is_no_answer_is_a_model_error(returned: Any) -> None:
    model = FunctionModel(lambda prompt: returned)
    with pytest.raises(ModelError, match=r"function:.*<lambda>.*return text"):
        model.ask(PROMPT)


@pytest.mark.parametrize("raised", [ValueError("heron"), StopIteration("heron"), TimeoutError("heron")])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_function_raises_is_the_cause_of_a_model_error(raised: Exception, asynchronous: bool) -> None:
    def fail(prompt: Prompt) -> str:
        raise raised

    async def fail_later(prompt: Prompt) -> str:
        raise raised

    model = FunctionModel(fail_later if asynchronous else fail)
    for ask in (lambda: model.ask(PROMPT), lambda: list(model.stream(PROMPT)), lambda: asyncio.run(model.aask(PROMPT))):
        with pytest.raises(ModelError, match="raised") as caught:
            ask()
        assert "heron" not in str(caught.value)
        cause = caught.value.__cause__
        assert cause is not None
        assert raised in (cause, cause.__cause__)  # Python itself wraps StopIteration that leaves a coroutine


def test_a_model_error_passes_as_it_is() -> None:
    own = ModelError("the model is asleep")

    def fail(prompt: Prompt) -> str:
        raise own

    with pytest.raises(ModelError) as caught:
        FunctionModel(fail).ask(PROMPT)
    assert caught.value is own
    assert own.__cause__ is None


def test_an_asynchronous_function_asked_from_inside_a_loop() -> None:
    async def later(prompt: Prompt) -> str:
        await asyncio.sleep(0)
        return f"{caller.get()} in {threading.current_thread() is threading.main_thread()}"

    async def ask() -> str:
        caller.set("me")
        return FunctionModel(later).ask(PROMPT).text  # blocks this loop, which is the caller's choice

    assert asyncio.run(ask()) == "me in False"
    assert FunctionModel(later).ask(PROMPT).text == "nobody in True"


def test_a_slow_function_does_not_hold_the_loop() -> None:
    asked, released = threading.Event(), threading.Event()

    def wait(prompt: Prompt) -> str:
        asked.set()
        assert released.wait(120)
        return "tea"

    async def both() -> str:
        asking = asyncio.create_task(FunctionModel(wait).aask(PROMPT))
        while not asked.is_set():
            await asyncio.sleep(0)
        released.set()  # only a loop that still runs gets here
        return (await asking).text

    assert asyncio.run(both()) == "tea"


def test_objects_that_can_be_called_have_an_id_too() -> None:
    class Parrot:
        async def __call__(self, prompt: Prompt) -> str:
            return str(prompt.messages[-1]["content"])

    model = FunctionModel(Parrot())
    assert isinstance(model, ChatModel)
    assert model.id.startswith("function:")
    assert "Parrot" in model.id
    assert [answer.text for answer in every_way(model)] == ["the password is heron"] * 4
