"""How an agent's memory reaches the model: four patterns across sessions. Imports: converse's values, types.

- tools: the model recalls and writes by itself; what is known of the user is in the prompt from the start.
- buffer: the user's last messages, across sessions, in front of the new one.
- summary: the older history as a summary, the recent part as it was, across sessions.
- vector: only the past exchanges that matter for the question, with the session they come from.

Each puts the user's profile and preferences into the system prompt, where they change rarely. What a question brings back stands
before the user's words in a block of its own, apart from the instructions, so that the system prompt stays the same and can be
cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recollect.chat import ChatModel
from recollect.errors import ConfigurationError
from recollect.types import Usage
from recollect.work.context import composed

if TYPE_CHECKING:
    from recollect.memory import Memory

NAMES = ("tools", "buffer", "summary", "vector")
BOOT = ("profile", "preference", "preferences")
_BOOT_FACTS = 20


@dataclass(frozen=True, slots=True)
class Window:
    """The messages a model is given, the ids of their records, and what a summary of the rest took."""

    messages: list[dict[str, Any]]
    ids: tuple[str, ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Given:
    """Everything memory brings to a turn."""

    window: Window
    system: str = ""
    block: str = ""
    recalled: tuple[str, ...] = ()

    def saying(self, text: str) -> Given:
        """The same with a message that could not be saved at its end."""
        return replace(self, window=replace(self.window, messages=[*self.window.messages, {"role": "user", "content": text}]))

    def messages(self) -> list[dict[str, Any]]:
        """The messages with what was recalled before the user's last words."""
        messages = [dict(message) for message in self.window.messages]
        if self.block and messages and messages[-1]["role"] == "user":
            said = messages[-1]["content"]
            blocks = [{"type": "text", "text": said}] if isinstance(said, str) else list(said)
            messages[-1] = {"role": "user", "content": [{"type": "text", "text": self.block}, *blocks]}
        return messages


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

    @property
    def tools(self) -> bool:
        """Whether the model has the memory tools."""
        return self.name == "tools"

    def rules(self, memory: Memory) -> str:
        """What the model is told about memory; the same from turn to turn while no new tag comes into use."""
        return memory.system_prompt() if self.tools else ""

    def gather(self, memory: Memory, text: str, session: str, model: ChatModel | None) -> Given:
        """Memory for an answer to what a user has just said (and what is stored already); `model` summarises."""
        engine = memory._engine  # of the same house: windows over all sessions are not for callers to build
        limits = engine.limits({"max_messages": self.max_messages, "max_tokens": self.window_tokens})
        limits = replace(limits, model=model, summarise=self.name != "buffer")
        everywhere = self.name in ("buffer", "summary")
        built = engine.conversing.build(memory.scope, None if everywhere else session, limits)
        window = Window(built.messages, built.ids, built.usage)
        booted, known = self.booted(memory)
        block, recalled = self.known(memory, text, (*built.ids, *known))
        system = "\n\n".join(part for part in (self.rules(memory), booted) if part)
        return Given(window, system, block, (*known, *recalled))

    def booted(self, memory: Memory) -> tuple[str, list[str]]:
        """What an agent knows before the first word: the newest facts of its categories as a block, and their ids."""
        records = [record for name in self.boot for record in memory.category(name)]
        newest = sorted(records, key=lambda record: record.updated_at, reverse=True)[:_BOOT_FACTS]
        return composed(newest, [], [], self.memory_tokens)

    def known(self, memory: Memory, text: str, shown: Sequence[str] = ()) -> tuple[str, list[str]]:
        """What is known for a question as a block, and the ids in it; nothing where the window holds the past anyway."""
        if self.name in ("buffer", "summary"):
            return "", []
        contexts = memory._engine.contexts
        said_only = self.name == "vector"
        return contexts.gathered(memory.scope, text[:4000], self.memory_tokens, memory.working, shown, said_only)
