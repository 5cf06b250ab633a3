"""What flows and agents ask of a chat model: the port, and the values that cross it.

The common tongue is the shape of the Messages API: a message is `{"role": "user" | "assistant", "content": text or blocks}`, a
block `{"type": "text" | "tool_use" | "tool_result" | "image", …}`, a tool `{"name", "description", "input_schema"}`. An adapter
translates to and from its provider's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from keepstone.types import Usage

Block = Mapping[str, Any]
Content = str | Sequence[Block]
Stop = Literal["end", "tools", "length", "refusal"]

__all__ = ["Answer", "Block", "ChatModel", "Content", "Prompt", "Stop", "Usage"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked. With a `schema` (JSON Schema of an object) the answer's text must be JSON of that shape. Without
    `may_use` it is told of the tools, which the messages before may speak of, and must not use them now."""

    messages: Sequence[Mapping[str, Any]]
    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int = 4096
    schema: Mapping[str, Any] | None = None
    may_use: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said: blocks of text and tool uses, and whatever else its provider wants back in the next call (thinking). A
    tool use whose arguments could not be read has an empty `input` and says so under `error`."""

    blocks: tuple[Block, ...]
    stop: Stop
    usage: Usage = field(default_factory=Usage)
    model: str = ""

    @property
    def text(self) -> str:
        return "".join(str(block["text"]) for block in self.blocks if block["type"] == "text")

    @property
    def tool_uses(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block["type"] == "tool_use")


@runtime_checkable
class ChatModel(Protocol):
    """A chat model. Raises only ModelError; timeouts and retries with backoff are its own affair."""

    @property
    def id(self) -> str: ...

    def ask(self, prompt: Prompt) -> Answer: ...

    def stream(self, prompt: Prompt) -> Iterator[str | Answer]:
        """The text piece by piece as it comes, the whole answer last."""

    async def aask(self, prompt: Prompt) -> Answer: ...

    def astream(self, prompt: Prompt) -> AsyncIterator[str | Answer]: ...
