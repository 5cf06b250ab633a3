"""AgentVerbs: the half of Memory that is about talking and doing; each verb one short method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from keepstone.ports.queue import Session
from keepstone.types import Message, Receipt, Scope

if TYPE_CHECKING:  # the composition root imports the facade
    from keepstone.conversation.conversation import Conversation
    from keepstone.engine import Engine
    from keepstone.learning.jobs import ScopeJobs
    from keepstone.tasks.flow import Task
    from keepstone.tasks.working_memory import WorkingMemory

Path = str | PathLike[str]
Time = datetime | str


class AgentVerbs:
    """Conversations, learning, tasks, tools and prompts in one scope."""

    _engine: Engine
    _scope: Scope
    _working: WorkingMemory | None
    _may_forget: bool

    # -- talking --------------------------------------------------------------------------------------------------
    def conversation(self, session: str, **limits: Any) -> Conversation:
        """One session's messages, kept as they are said, and what a model is given of them.

        Limits: `max_messages` and `max_tokens` of what a model is given, `counter` (a function that counts a text's tokens),
        `model` (for summaries; None: the memory's own, or sentences picked out), `summarise` (False: older messages are only
        left out)."""
        return self._engine.conversation(self._scope, session, limits)

    def ingest(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        session: str,
        extract: bool = True,
        source: str | None = None,
    ) -> list[Receipt]:
        """Append what was said in a session, in order, as records of kind "message"; a receipt for each.

        Facts are then looked for in what users said: by the model in the background, where one is set, else at once by rules
        (`learned` in the receipt). `extract=False` only stores. `source`: as whose words they count at the most, whatever their
        roles say; "import:…" for what another product has kept."""
        return self._engine.learner.ingest(self._scope, messages, session, extract=extract, most=source or "user")

    def learn(
        self,
        content: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        source: str = "user",
        session: str | None = None,
        occurred_at: Time | None = None,
    ) -> Receipt:
        """Keep a text as it is, as a note, and look for facts in it as `ingest` does."""
        return self._engine.learner.learn(
            self._scope, content, metadata=metadata, source=source, session=session, occurred_at=occurred_at
        )

    def recent(self, n: int = 20) -> list[Message]:
        """The user's last n messages across all sessions, oldest first."""
        return self._engine.recent(self._scope, n)

    def sessions(self, *, limit: int = 100) -> Sequence[Session]:
        """The conversations there are, the last one spoken in first."""
        return self._engine.sessions(self._scope, limit)

    def export_chats(self, path: Path, *, format: str = "openai", only_successes: bool = False) -> int:
        """Write every conversation and task as a line of chat messages, ready for fine-tuning (JSONL). How many lines.

        `format` is "openai" or "anthropic"; `only_successes` leaves out tasks that failed."""
        return self._engine.export_chats(self._scope, FilePath(path), format, only_successes)

    # -- doing ----------------------------------------------------------------------------------------------------
    @property
    def working(self) -> WorkingMemory:
        """What is in hand: task, goals, results, thoughts, variables. One for each Memory."""
        if self._working is None:
            self._working = self._engine.working(self._scope)
        return self._working

    def start_task(self, task: str, *, goal: str | None = None) -> Task:
        """Begin a task in working memory; its `lessons` are what similar tasks came to, failures included."""
        return self._engine.tasks.start(self._scope, self.working, task, goal)

    def record_step(self, thought: str, action: str = "", result: str = "") -> Receipt:
        """Keep one step of the task under way: on disk when this returns. Raises ValidationError without a task."""
        return self._engine.tasks.record(self._scope, self.working, thought, action, result)

    def end_task(self, success: bool, outcome: str) -> Receipt:
        """End the task under way: what was tried and how it ended becomes an episode. Raises ValidationError without a task."""
        return self._engine.tasks.end(self._scope, self.working, success, outcome)

    def context(self, query: str, *, max_tokens: int = 1500) -> str:
        """What is known about a query, what similar tasks have taught, and what is in hand, as one block for a prompt: fenced,
        escaped, each line with its date and source, in a stable order, within the budget."""
        return self._engine.contexts.block(self._scope, query, max_tokens, self.working)

    @property
    def jobs(self) -> ScopeJobs:
        """Work on this scope's messages that waits for a model, or has failed."""
        return self._engine.jobs(self._scope)

    # -- for a model ----------------------------------------------------------------------------------------------
    def tools(self, *, allow_forget: bool = False, format: str = "anthropic") -> list[dict[str, Any]]:
        """The memory tools' schemas for a model: recall_memory, write_memory, update_memory, and forget_memory where it is
        allowed. `format` is "anthropic" or "openai"."""
        from keepstone.agent.tools import schemas

        self._may_forget = allow_forget
        return schemas(allow_forget, format)

    def call_tool(self, name: str, input: Mapping[str, Any], *, allow_forget: bool | None = None) -> dict[str, Any]:
        """Answer a model's use of a memory tool, in this Memory's scope whatever the input says; what is wrong with the input is
        in the answer under "error". `allow_forget` None: as it was last asked of `tools`."""
        may = self._may_forget if allow_forget is None else allow_forget
        return self._engine.toolbox.call(self._scope, name, input, may)

    def system_prompt(self, query: str = "", *, max_tokens: int = 1500) -> str:
        """The rules of remembering for a model with the memory tools, with examples and the tags in use. With a query, or a task
        under way, what is known for it follows: task, goal, what was done already, memories."""
        return self._engine.system_prompt(self._scope, self.working, query, max_tokens)
