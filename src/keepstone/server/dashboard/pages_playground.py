"""The playground: a chat with the memory of the current scope, with what was recalled, what was learned, and the whole prompt.

The server's model answers. Without one, the message is stored, facts are learned by rules, and the prompt is shown that a model
would get. Every read and write passes the table of rights, as on any other surface.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from keepstone.agent import MemoryAgent, Reply
from keepstone.agent.strategies import NAMES, AgentAccess, GatheredMemory, Strategy
from keepstone.errors import ModelError, ValidationError
from keepstone.ports.chat import Answer, ChatModel, Prompt
from keepstone.server.dashboard.context import Page, PageRequest
from keepstone.server.dashboard.formatting import TEXTS, message_text, plural, with_query
from keepstone.server.identity import WRITE
from keepstone.text.token_count import estimate_tokens
from keepstone.types import MESSAGE, Message, Receipt, Record

_DEFAULT_SESSION, _DEFAULT_STRATEGY = "playground", "tools"
_SHOWN_MESSAGES, _MAX_MESSAGE_CHARS, _MAX_WRITES = 30, 20_000, 100
_INSTRUCTIONS = "You are a helpful assistant. Answer briefly."


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a prompt, with the text as the model gets it."""

    name: str
    label: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One message and what followed from it. `reply` is None where no model answered; `problem` says why one failed."""

    parts: Sequence[Part]
    recalled: Sequence[Record]
    reply: Reply | None = None
    learned: Sequence[Record] = ()
    requests: int = 0
    problem: str | None = None
    notes: Sequence[str] = ()
    stored: bool = False

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


class _Recorder:
    """A chat model that keeps the prompts it is given."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.id = model.id
        self.prompts: list[Prompt] = []

    def ask(self, prompt: Prompt) -> Answer:
        self.prompts.append(replace(prompt, messages=list(prompt.messages)))  # the turn goes on adding to its list
        return self._model.ask(prompt)

    async def aask(self, prompt: Prompt) -> Answer:
        return self.ask(prompt)

    def stream(self, prompt: Prompt) -> Iterator[str | Answer]:
        yield self.ask(prompt)

    async def astream(self, prompt: Prompt) -> AsyncIterator[str | Answer]:
        yield self.ask(prompt)


class _CallerAccess:
    """A memory as an agent uses it, with the rights of the caller."""

    def __init__(self, request: PageRequest) -> None:
        self.memory: Any = request.memory
        self.model = request.backend.model
        self.make_model: Callable[[Any], ChatModel | None] | None = None
        self.gathered: GatheredMemory | None = None
        self._request = request
        self._inner = request.memory._agent_access()

    def _agent_access(self) -> AgentAccess:
        return self

    def for_task(self) -> AgentAccess:
        return self

    def gather(self, strategy: Strategy, text: str, session: str, model: ChatModel | None, until: str | None) -> GatheredMemory:
        self.gathered = self._inner.gather(strategy, text, session, model, until)
        return self.gathered

    def gather_for_task(self, strategy: Strategy, text: str) -> GatheredMemory:
        return self._inner.gather_for_task(strategy, text)

    def call_tool(self, name: str, input: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        return self._request.backend.call_tool(self._request.caller.scope, name, input, **options)

    def consolidate(self, session: str, model: ChatModel | None) -> Receipt | None:
        return self._request.backend.consolidate(self._request.caller.scope, session, model)


def show_playground(request: PageRequest) -> Response:
    """The conversation so far."""
    return _page(request, *_read_choices(request, request.http.query), None, "")


def take_turn(request: PageRequest) -> Response:
    """Say something, learn from what was said so far, or only show the prompt, which stores nothing."""
    form = request.http.form
    session, strategy = _read_choices(request, form)
    if form.get("do") == "preview":
        text = _checked(form.get("message", "").strip())
        gathered = request.memory._agent_access().gather(Strategy(strategy), text, session, None, None)
        return _page(request, session, strategy, _without_model(request, gathered.saying(text), Strategy(strategy)), text)
    request.caller.require(WRITE, person="the playground's chat")
    if form.get("do") == "learn":
        report = request.memory.jobs.run()
        message = f"{plural(report.done, 'job')} done, {plural(len(report.learned), 'fact')} learned."
        path = with_query("/playground", {"session": session, "strategy": strategy})
        return request.redirect(path, " ".join([message, *report.problems]), "bad" if report.problems else "good")
    text = _checked(form.get("message", "").strip())
    model = request.backend.model
    turn = (
        _store(request, text, session, Strategy(strategy))
        if model is None
        else _converse(request, _Recorder(model), text, session, strategy)
    )
    return _page(request, session, strategy, turn, "")


def _checked(text: str) -> str:
    if not text or len(text) > _MAX_MESSAGE_CHARS:
        raise ValidationError(f"the message has {len(text)} characters: write 1 to {_MAX_MESSAGE_CHARS:,}.")
    return text


def _store(request: PageRequest, text: str, session: str, strategy: Strategy) -> Turn:
    """Store a message where no model answers, and gather the memory that a model would get."""
    receipt = request.memory.conversation(session).add("user", text)
    gathered = request.memory._agent_access().gather(strategy, text, session, None, receipt.id)
    if receipt.id is None:
        gathered = gathered.saying(text)
    learned = _records(request, receipt.learned)
    return replace(_without_model(request, gathered, strategy), learned=learned, notes=receipt.reasons, stored=True)


def _without_model(request: PageRequest, gathered: GatheredMemory, strategy: Strategy) -> Turn:
    tools = tuple(request.memory.tools()) if strategy.tools else ()
    prompt = Prompt(gathered.with_block(), "\n\n".join(filter(None, (_INSTRUCTIONS, gathered.system))), tools)
    return Turn(_split_prompt(request, prompt, gathered), _records(request, gathered.recalled))


def _converse(request: PageRequest, model: _Recorder, text: str, session: str, strategy: str) -> Turn:
    """Send a message to the model."""
    access = _CallerAccess(request)
    agent = MemoryAgent(access, model, strategy=strategy, instructions=_INSTRUCTIONS)
    newest = request.memory.audit(limit=1)
    before = newest[0].number if newest else 0
    reply, problem = None, None
    try:
        reply = agent.chat(text, session=session)
    except ModelError as error:
        problem = str(error)
    gathered = access.gathered or GatheredMemory([])
    parts = _split_prompt(request, model.prompts[0], gathered) if model.prompts else ()
    written = [row.id for row in request.memory.audit(limit=_MAX_WRITES) if row.number > before and row.id]
    learned = [record for record in _records(request, written) if record.kind != MESSAGE and record.session in (session, None)]
    recalled = _records(request, gathered.recalled if reply is None else reply.recalled)
    notes = () if reply is None else reply.notes
    return Turn(parts, recalled, reply, learned, len(model.prompts), problem, notes, stored=True)


def _split_prompt(request: PageRequest, prompt: Prompt, gathered: GatheredMemory) -> list[Part]:
    """The parts of a prompt in the order in which the model gets them."""
    rules = request.backend.tool_rules(request.caller.scope) if prompt.tools else ""
    *earlier, last = [(message["role"], _block_texts(message["content"])) for message in prompt.messages] or [("user", [])]
    parts = {
        "instructions": _INSTRUCTIONS,
        "rules": rules,
        "known": gathered.system.removeprefix(rules).strip(),
        "tools": "\n".join(json.dumps(tool, ensure_ascii=False) for tool in prompt.tools),
        "messages": "\n\n".join(f"{role}: " + "\n".join(texts) for role, texts in earlier),
        "recalled": gathered.block,
        "message": "\n".join(text for text in last[1] if text != gathered.block),
    }
    return [Part(name, TEXTS["prompt_parts"][name], text, estimate_tokens(text)) for name, text in parts.items() if text]


def _block_texts(content: Any) -> list[str]:
    """The blocks of a message; those without text as JSON."""
    if isinstance(content, str):
        return [content]
    return [str(block.get("text") or json.dumps(block, ensure_ascii=False, default=str)) for block in content]


def _records(request: PageRequest, ids: Sequence[str]) -> list[Record]:
    return request.backend.get_many(request.caller.scope, list(dict.fromkeys(ids)))


def _read_choices(request: PageRequest, fields: Mapping[str, str]) -> tuple[str, str]:
    strategy = fields.get("strategy", "") or _DEFAULT_STRATEGY
    if strategy not in NAMES:
        raise ValidationError(f"the strategy is {strategy!r:.40}: choose one of {', '.join(NAMES)}.")
    return request.memory.conversation(fields.get("session", "").strip() or _DEFAULT_SESSION).session, strategy


def _page(request: PageRequest, session: str, strategy: str, turn: Turn | None, text: str) -> Response:
    messages: Sequence[Message] = request.memory.conversation(session).last(_SHOWN_MESSAGES)
    waiting = [job for job in request.memory.jobs.list(state="waiting", limit=1000) if job.session == session]
    return request.page(
        "playground.html",
        session=session,
        strategy=strategy,
        strategies=TEXTS["strategies"],
        turn=turn,
        text=text,
        messages=messages,
        waiting=sum(len(job.ids) for job in waiting),
        model=None if request.backend.model is None else request.backend.model.id,
        may_chat=request.may(WRITE) and not request.identity.bound_to_agent,
        text_of=message_text,
    )


PAGES = (Page("/playground", get=show_playground, post=take_turn),)
