"""A chat model made of a function, for tests and for models keepstone has no adapter for."""

from __future__ import annotations

import asyncio
import inspect
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keepstone.errors import ModelError
from keepstone.ports.chat import Answer, Block, Prompt, Usage
from keepstone.ports.coroutines import run_in_loop

Returned = str | Answer | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Function = Callable[[Prompt], Returned | Awaitable[Returned]]


class FunctionModel:
    """A model that asks a function: from a Prompt to text, blocks, one block, or a whole Answer; where the prompt has a schema, a
    dictionary is the JSON of the answer. The function may be asynchronous; one that is not runs in a worker thread when it is
    asked with `aask`. What it raises becomes a ModelError, with its own error as the cause.

    Example: `FunctionModel(lambda prompt: "Hello").ask(Prompt([])).text`
    """

    def __init__(self, function: Function, *, id: str | None = None) -> None:
        self._function = function
        named = function if hasattr(function, "__qualname__") else type(function)
        self._id = id or f"function:{named.__module__}.{named.__qualname__}"

    @property
    def id(self) -> str:
        return self._id

    def __repr__(self) -> str:
        return f"<{self._id}>"

    def ask(self, prompt: Prompt) -> Answer:
        """The function's answer."""
        try:
            returned = self._function(prompt)
            return self._answer(prompt, run_in_loop(returned) if inspect.isawaitable(returned) else returned)
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error) from error

    async def aask(self, prompt: Prompt) -> Answer:
        """The function's answer."""
        try:
            if inspect.iscoroutinefunction(self._function):
                return self._answer(prompt, await self._function(prompt))
            returned, failure = await asyncio.to_thread(self._attempt, prompt)
            if failure is not None:
                raise failure
            return self._answer(prompt, await returned if inspect.isawaitable(returned) else returned)
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error) from error

    def stream(self, prompt: Prompt) -> Iterator[str | Answer]:
        """The text in one piece, then the answer."""
        answer = self.ask(prompt)
        if answer.text:
            yield answer.text
        yield answer

    async def astream(self, prompt: Prompt) -> AsyncIterator[str | Answer]:
        """The text in one piece, then the answer."""
        answer = await self.aask(prompt)
        if answer.text:
            yield answer.text
        yield answer

    def _attempt(self, prompt: Prompt) -> tuple[Any, Exception | None]:
        """What the function returned or raised: a future cannot hold StopIteration, and would never end."""
        try:
            return self._function(prompt), None
        except Exception as error:
            return None, error

    def _answer(self, prompt: Prompt, returned: object) -> Answer:
        if isinstance(returned, Answer):
            calls = returned.usage if returned.usage.calls else replace(returned.usage, calls=1)
            return replace(returned, usage=calls, model=returned.model or self._id)
        blocks = self._blocks(prompt, returned)
        if not blocks:
            raise ModelError(f"{self._id} answered with nothing: return text, blocks or an Answer.")
        stop: Any = "tools" if any(block["type"] == "tool_use" for block in blocks) else "end"
        return Answer(tuple(blocks), stop, Usage(calls=1), self._id)

    def _blocks(self, prompt: Prompt, returned: object) -> list[Block]:
        if isinstance(returned, str):
            return [{"type": "text", "text": returned}] if returned else []
        if isinstance(returned, Mapping):
            if prompt.schema is not None and not _is_block(returned):
                return [{"type": "text", "text": json.dumps(returned, ensure_ascii=False)}]
            returned = [returned]
        if not isinstance(returned, Sequence) or not all(_is_block(each) for each in returned):
            raise ModelError(
                f"{self._id} returned {type(returned).__name__}, which is no answer: return text, blocks of type text "
                "and tool_use, or an Answer."
            )
        return [_with_id(block) for block in returned]

    def _failure(self, error: Exception) -> ModelError:
        return ModelError(f"{self._id} raised {type(error).__name__}: see the cause, and mend the function.")


def _is_block(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    if value.get("type") == "text":
        return isinstance(value.get("text"), str)
    return value.get("type") == "tool_use" and isinstance(value.get("name"), str) and isinstance(value.get("input"), Mapping)


def _with_id(block: Block) -> Block:
    if block["type"] != "tool_use" or block.get("id"):
        return dict(block)
    return {**block, "id": f"call_{uuid.uuid4().hex}"}
