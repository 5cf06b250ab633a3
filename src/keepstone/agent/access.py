"""What an agent needs of a memory beside its public verbs: a port, and its form for a store in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from keepstone.agent.strategies import GatheredMemory, Strategy
from keepstone.backend import backend_of
from keepstone.memory import Memory
from keepstone.ports.chat import ChatModel
from keepstone.types import Receipt


class AgentAccess(Protocol):
    """A memory as an agent uses it. `memory` has the synchronous verbs; `model` is its own model."""

    memory: Any
    model: ChatModel | None
    make_model: Callable[[Any], ChatModel | None] | None  # None: models are made with the default settings

    def for_task(self) -> AgentAccess:
        """The same with a working memory of its own, so that several tasks can run at once."""

    def gather(self, strategy: Strategy, text: str, session: str, model: ChatModel | None, until: str | None) -> GatheredMemory:
        """Memory for an answer to what a user has just said."""

    def gather_for_task(self, strategy: Strategy, text: str) -> GatheredMemory:
        """Memory for a task."""

    def call_tool(self, name: str, input: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The result of a memory tool; the options are those of `Toolbox.call`."""

    def consolidate(self, session: str, model: ChatModel | None) -> Receipt | None:
        """Store what a session came to."""


class LocalAccess:
    """Access to a Memory in this process."""

    def __init__(self, memory: Memory) -> None:
        self.memory: Any = memory
        self._backend = backend_of(memory)
        self.model = self._backend.model
        self.make_model: Callable[[Any], ChatModel | None] | None = self._backend.make_model

    def for_task(self) -> LocalAccess:
        own = self.memory.with_scope()
        own.working.saved_as = None
        return LocalAccess(own)

    def gather(self, strategy: Strategy, text: str, session: str, model: ChatModel | None, until: str | None) -> GatheredMemory:
        return strategy.gather(self.memory, text, session, model, until)

    def gather_for_task(self, strategy: Strategy, text: str) -> GatheredMemory:
        return strategy.gather_for_task(self.memory, text)

    def call_tool(self, name: str, input: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        return self._backend.call_tool(self.memory.scope, name, input, **options)

    def consolidate(self, session: str, model: ChatModel | None) -> Receipt | None:
        return self._backend.consolidate(self.memory.scope, session, model)
