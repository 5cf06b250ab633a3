"""MemoryAgent: a model with a memory, for chats and for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any

from keepstone.agent import effects, turns
from keepstone.agent.functions import Tool, tools_of
from keepstone.agent.outcomes import Check
from keepstone.agent.strategies import BOOT, AgentAccess, Strategy
from keepstone.agent.turns import MEMORY_TOOLS, Outcome, Reply, Setup
from keepstone.backend import make_model
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.memory import Memory
from keepstone.ports.chat import ChatModel
from keepstone.types import Receipt


class MemoryAgent:
    """A model with a memory: `chat` answers a user, `run` works on a task with tools. Both store what they learn.

    >>> agent = MemoryAgent(memory, lambda prompt: "Noted.", strategy="buffer")  # or "anthropic:NAME", "openai:NAME"
    >>> str(agent.chat("My name is Dana.", session="monday"))
    'Noted.'
    >>> memory.value("user.name")
    "The user's name is Dana."
    """

    def __init__(
        self,
        memory: Memory | Any,
        model: ChatModel | Callable[..., Any] | str,
        *,
        strategy: str = "tools",
        tools: Iterable[Callable[..., Any] | Mapping[str, Any] | Tool] = (),
        instructions: str = "",
        boot: Sequence[str] = BOOT,
        max_steps: int = 10,
        max_tokens: int = 4096,
        max_messages: int = 50,
        window_tokens: int = 8000,
        memory_tokens: int = 1500,
        allow_forget: bool = False,
        cheap_model: ChatModel | Callable[..., Any] | str | None = None,
    ) -> None:
        """`memory` is a Memory, AsyncMemory, Client or AsyncClient; over a client, the server's own model makes summaries.
        `strategy` is one of tools, buffer, summary, vector; `tools` are your own functions; `instructions` lead the system
        prompt; `boot` names the tags and keys whose memories are always known; `cheap_model` makes summaries (None: the
        memory's own model, else this one). Raises ConfigurationError."""
        made = tools_of(tools)
        taken = sorted(set(made) & set(MEMORY_TOOLS))
        if taken:
            raise ConfigurationError(f"the tool name {taken[0]} belongs to memory: give your function another.")
        if isinstance(max_steps, bool) or not isinstance(max_steps, int) or not 1 <= max_steps <= 1000:
            raise ConfigurationError(f"max_steps is {max_steps!r:.40}: use a whole number from 1 to 1000.")
        self._memory = memory
        access: Callable[[], AgentAccess] | None = getattr(memory, "_agent_access", None)
        if access is None:
            raise ConfigurationError(
                f"an agent needs a memory, got {type(memory).__name__}: pass a Memory, AsyncMemory, Client or AsyncClient."
            )
        self._access = access()
        make = self._access.make_model or make_model
        made_model = make(model)
        if made_model is None:
            raise ConfigurationError("an agent needs a model: name one such as 'anthropic:…', or pass a ChatModel or a function.")
        self._model = made_model
        self._cheap = make(cheap_model) or self._access.model or made_model
        chosen = Strategy(strategy, boot if isinstance(boot, str) else tuple(boot), max_messages, window_tokens, memory_tokens)
        self._setup = Setup(chosen, made, instructions, max_steps, max_tokens, allow_forget, self._cheap)

    @property
    def memory(self) -> Any:
        """The memory that was passed."""
        return self._memory

    # -- talking --------------------------------------------------------------------------------------------------
    def chat(self, text: str, *, session: str = "default") -> Reply:
        """Answer a user in a session. If the memory fails, the turn goes on without it. Raises ModelError if the model fails.

        >>> str(agent.chat("I prefer dark mode.", session="monday"))
        'Noted.'"""
        return effects.run(self._chat(text, session), self._model)

    async def achat(self, text: str, *, session: str = "default") -> Reply:
        """`chat` as a coroutine.

        >>> str(asyncio.run(agent.achat("I prefer dark mode.")))
        'Noted.'"""
        return await effects.run_async(self._chat(text, session), self._model)

    def stream(self, text: str, *, session: str = "default") -> effects.Stream[Reply]:
        """Answer piece by piece: iterate over the result. After that, its `reply` is the whole reply.

        >>> "".join(agent.stream("I prefer dark mode."))
        'Noted.'"""
        return effects.Stream(self._chat(text, session), self._model)

    def astream(self, text: str, *, session: str = "default") -> effects.AsyncStream[Reply]:
        """`stream` for `async for`.

        >>> async def answer(text):
        ...     return [piece async for piece in agent.astream(text)]
        >>> asyncio.run(answer("I prefer dark mode."))
        ['Noted.']"""
        return effects.AsyncStream(self._chat(text, session), self._model)

    def consolidate(self, session: str = "default") -> Receipt | None:
        """Store the outcome of a session as a summary; None if there are too few messages.

        >>> agent.consolidate("monday") is None
        True"""
        return self._access.consolidate(session, self._cheap)

    # -- working --------------------------------------------------------------------------------------------------
    def run(self, task: str, *, goal: str | None = None, check: Check | None = None) -> Outcome:
        """Work on a task with the tools until the model ends its turn, or `max_steps` are done. Each step is stored, and the
        outcome becomes an episode that similar tasks start with. `check` is a function that gets the model's account and says
        whether the task was done: False, a text with the reason, or an exception means that it was not. By default the model
        decides.

        >>> agent.run("Book a table", check=lambda account: "Noted" in account).success
        True"""
        return effects.run(self._task(task, goal, check), self._model)

    async def arun(self, task: str, *, goal: str | None = None, check: Check | None = None) -> Outcome:
        """`run` as a coroutine.

        >>> asyncio.run(agent.arun("Book a table", check=lambda account: "the table is taken")).success
        False"""
        return await effects.run_async(self._task(task, goal, check), self._model)

    def _chat(self, text: str, session: str) -> effects.Turn[Reply]:
        if not isinstance(text, str) or not text.strip():
            raise ValidationError(f"text is {text!r:.60}: say something.")
        return turns.chat(self._access, self._setup, text, session)

    def _task(self, task: str, goal: str | None, check: Check | None) -> effects.Turn[Outcome]:
        if not isinstance(task, str) or not task.strip():
            raise ValidationError(f"task is {task!r:.60}: say in words what is to be done.")
        if check is not None and (not callable(check) or iscoroutinefunction(check)):
            raise ValidationError("check must be a plain function from the account to True or False.")
        return turns.task(self._access.for_task(), self._setup, task, goal, check)

    def __repr__(self) -> str:
        return f"MemoryAgent({self._memory!r}, {self._model.id!r}, strategy={self._setup.strategy.name!r})"
