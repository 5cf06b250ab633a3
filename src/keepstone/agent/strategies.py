"""How an agent's memory reaches the model: four patterns across sessions.

- tools: the model recalls and writes by itself; what is known of the user is in the prompt from the start.
- buffer: the user's last messages, across sessions, in front of the new one.
- summary: the older history as a summary, the recent part as it was, across sessions.
- vector: only the past exchanges that matter for the question, with the session they come from.

Each puts the user's standing instructions, profile and preferences into the system prompt, where they change rarely. What a
question brings back stands before the user's words in a block of its own, apart from the instructions, so that the system prompt
stays the same and can be cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from keepstone.backend import backend_of
from keepstone.errors import ConfigurationError
from keepstone.memory import Memory
from keepstone.ports.chat import ChatModel
from keepstone.tasks.context import compose_standing, composed
from keepstone.types import PINNED, UNTRUSTED, Receipt, Usage, clean_name

NAMES = ("tools", "buffer", "summary", "vector")
BOOT = ("profile", "preference", "preferences", "user.preferences")
_BOOT_FACTS = 20


@dataclass(frozen=True, slots=True)
class GatheredMemory:
    """Everything memory brings to a turn: the messages a model is given with the ids of their records, what a summary of the
    others took, the system prompt, the block of what was recalled with its ids."""

    messages: list[dict[str, Any]]
    ids: tuple[str, ...] = ()
    usage: Usage = Usage()
    system: str = ""
    block: str = ""
    recalled: tuple[str, ...] = ()

    def saying(self, text: str) -> GatheredMemory:
        """The same with a message that could not be saved at its end."""
        return replace(self, messages=[*self.messages, {"role": "user", "content": text}])

    def as_said(self, stored: str, text: str) -> GatheredMemory:
        """The same with the user's last words as they were said: what is not to be stored may still be answered."""
        blocks = self._last_blocks()
        return self._with_last(
            [{**part, "text": part["text"].replace(stored, text)} if "text" in part else part for part in blocks]
        )

    def with_block(self) -> list[dict[str, Any]]:
        """The messages with what was recalled before the user's last words."""
        if not self.block or not self.messages or self.messages[-1]["role"] != "user":
            return list(self.messages)
        return self._with_last([{"type": "text", "text": self.block}, *self._last_blocks()]).messages

    def _last_blocks(self) -> list[dict[str, Any]]:
        content = self.messages[-1]["content"]
        return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)

    def _with_last(self, blocks: list[dict[str, Any]]) -> GatheredMemory:
        return replace(self, messages=[*self.messages[:-1], {**self.messages[-1], "content": blocks}])


@dataclass(frozen=True, slots=True)
class Strategy:
    """One of the patterns, with its limits."""

    name: str
    boot: Sequence[str] = BOOT
    max_messages: int = 50
    window_tokens: int = 8000
    memory_tokens: int = 1500

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ConfigurationError(f"there is no strategy {self.name!r:.40}: use {', '.join(NAMES)}.")
        for name, least in (("max_messages", 1), ("window_tokens", 100), ("memory_tokens", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_000_000:
                raise ConfigurationError(f"{name} is {value!r:.40}: use a whole number of at least {least}.")
        if isinstance(self.boot, str):
            raise ConfigurationError(f"boot is {self.boot!r:.40}: use a list of tags and keys such as ('profile', 'user.name').")
        for name in self.boot:
            clean_name(name, "a name in boot")

    @property
    def tools(self) -> bool:
        """Whether the model has the memory tools."""
        return self.name == "tools"

    def rules(self, memory: Memory) -> str:
        """What the model is told about memory; the same from turn to turn while no new tag comes into use."""
        return backend_of(memory).tool_rules(memory.scope) if self.tools else ""

    def gather(self, memory: Memory, text: str, session: str, model: ChatModel | None, until: str | None) -> GatheredMemory:
        """Memory for an answer to what a user has just said; `model` summarises. `until` is the id of that message: what other
        sessions say meanwhile comes after it and does not belong here."""
        limits = {"max_messages": self.max_messages, "max_tokens": self.window_tokens, "summarise": self.name != "buffer"}
        everywhere = self.name in ("buffer", "summary")
        built = backend_of(memory).window(memory.scope, None if everywhere else session, limits, model, until)
        boot_block, known = self.boot_block(memory)
        block, recalled = "", list[str]()
        if not everywhere:  # else the window holds the past anyway
            block, recalled = self.context(memory, text, (*built.ids, *known), said_only=self.name == "vector")
        backend_of(memory).count_reads(memory.scope, [id for id in built.ids if id != until])
        system = "\n\n".join(filter(None, (self.rules(memory), boot_block)))
        return GatheredMemory(built.messages, built.ids, built.usage, system, block, (*known, *recalled))

    def gather_for_task(self, memory: Memory, text: str) -> GatheredMemory:
        """Memory for a task: the rules and what is always known as the system prompt, the rest as the block."""
        boot_block, known = self.boot_block(memory)
        block, recalled = self.context(memory, text, known, said_only=False)
        system = "\n\n".join(filter(None, (self.rules(memory), boot_block)))
        return GatheredMemory([], system=system, block=block, recalled=tuple(recalled))

    def boot_block(self, memory: Memory) -> tuple[str, list[str]]:
        """What an agent knows before the first word: the user's standing instructions and the newest memories with its tags and
        keys as blocks, and their ids, which count as read."""
        backend = backend_of(memory)
        tagged = [record for name in self.boot for record in backend.records_with_tag(memory.scope, name)]
        keyed = [record for name in self.boot if (record := memory.get(key=name)) is not None]
        trusted = {record.id: record for record in (*tagged, *keyed) if record.trust >= UNTRUSTED}
        instructions, given = compose_standing(backend.standing(memory.scope), self.memory_tokens)
        others = [record for record in trusted.values() if record.id not in given]
        newest = sorted(others, key=lambda record: (record.importance >= PINNED, record.updated_at), reverse=True)[:_BOOT_FACTS]
        block, ids = composed(newest, [], [], self.memory_tokens)
        backend.count_reads(memory.scope, [*given, *ids])
        return "\n".join(filter(None, (instructions, block))), [*given, *ids]

    def context(self, memory: Memory, text: str, shown: Sequence[str], *, said_only: bool) -> tuple[str, list[str]]:
        """What is known about a text as a block, and the ids in it: knowledge, lessons, what is in hand."""
        return backend_of(memory).context(memory.scope, text[:4000], self.memory_tokens, memory.working, shown, said_only)


# -- access to a memory -------------------------------------------------------------------------------------------
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
