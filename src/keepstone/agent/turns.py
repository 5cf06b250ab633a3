"""One turn of an agent: gather memory, ask the model and run its tools in a loop, store the messages.

A failure of memory never prevents an answer: it is noted, and the turn goes on without memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from keepstone.agent.effects import Ask, Result, Turn, Use
from keepstone.agent.functions import Tool
from keepstone.agent.outcomes import Check, judge
from keepstone.agent.strategies import AgentAccess, GatheredMemory, Strategy
from keepstone.agent.tools import FORGET, RECALL, TASK, UPDATE, WRITE, schemas
from keepstone.errors import KeepstoneError
from keepstone.ports.chat import Answer, Block, ChatModel, Prompt
from keepstone.types import Receipt, Usage

log = logging.getLogger("keepstone.agent")
T = TypeVar("T")
MEMORY_TOOLS = (RECALL, WRITE, UPDATE, FORGET)
MAX_RESULT_BYTES = 20_000  # bytes of a tool's result that the model sees, and that are kept
MAX_ALL_RESULTS_BYTES = 48_000  # bytes of all results of one turn


@dataclass(frozen=True, slots=True)
class Step:
    """One use of a tool."""

    thought: str
    tool: str
    input: Mapping[str, Any]
    result: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of an agent, its steps, and the ids of the memories that it was given. `notes` says where memory failed."""

    text: str
    session: str
    steps: tuple[Step, ...] = ()
    recalled: tuple[str, ...] = ()
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    complete: bool = True

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended. `receipt` is that of its episode."""

    success: bool
    text: str
    task_id: str | None
    steps: tuple[Step, ...] = ()
    lessons: tuple[str, ...] = ()
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    receipt: Receipt | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Setup:
    """What every turn of an agent has in common."""

    strategy: Strategy
    tools: Mapping[str, Tool]
    system: str
    max_steps: int
    max_tokens: int
    allow_forget: bool
    cheap: ChatModel | None = None

    def schemas(self) -> tuple[Mapping[str, Any], ...]:
        """The schemas of all tools that the model may use."""
        memory_tools = schemas(self.allow_forget) if self.strategy.tools else []
        return (*memory_tools, *(tool.schema for tool in self.tools.values()))


@dataclass(slots=True)
class TurnState:
    """One turn: what it works on, and what it gathers as it goes."""

    access: AgentAccess
    setup: Setup
    session: str | None = None  # of a chat
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    notes: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    shown: Sequence[str] = ()  # ids of the messages that the model sees
    misled: bool = False  # a tool has answered with what waits for a review

    def safely(self, work: Callable[[], T], otherwise: T, what: str) -> T:
        """Use memory; note a failure and go on with `otherwise`."""
        try:
            return work()
        except KeepstoneError as error:
            log.warning("%s: %s", what, error)
            self.notes.append(f"{what}: {error}")
        except Exception as error:  # of the caller's embedder or reranker, for instance: it must not cost the answer
            log.exception("%s", what)
            self.notes.append(f"{what}: {type(error).__name__}")
        return otherwise

    def save(self, work: Callable[[], Receipt], what: str) -> Receipt | None:
        """Write to memory; note a failure, and a write that a limit or the policy refused."""
        receipt = self.safely(work, None, what)
        if receipt is not None and receipt.action == "refused":
            self.notes.append(f"{what}: {'; '.join(receipt.reasons)}")
        return receipt

    def notice(self, receipt: Receipt | None) -> None:
        """Remember that a tool's result was quarantined."""
        self.misled = self.misled or (receipt is not None and receipt.action == "quarantined")


def chat(access: AgentAccess, setup: Setup, text: str, session: str) -> Turn[Reply]:
    """Answer what a user says."""
    state, memory = TurnState(access, setup, session), access.memory
    conversation = memory.conversation(session)
    saved = state.save(lambda: conversation.add("user", text), "the message was not saved")
    id = None if saved is None else saved.id
    nothing = GatheredMemory([{"role": "user", "content": text}])
    gathered = state.safely(
        lambda: access.gather(setup.strategy, text, session, setup.cheap, id), nothing, "memory could not be read"
    )
    if gathered is not nothing and (id is None or gathered.ids[-1:] != (id,)):
        gathered = gathered.saying(text)  # it could not be saved, or was cleared away meanwhile: it is answered all the same
    elif saved is not None and saved.action == "redacted":
        record = state.safely(lambda: memory.get(saved.id or ""), None, "memory could not be read")
        gathered = gathered if record is None else gathered.as_said(record.content, text)
    state.recalled, state.shown, state.usage = list(gathered.recalled), gathered.ids, gathered.usage

    def keep(role: str, blocks: Sequence[Block]) -> None:
        metadata = {"recalled": state.recalled[:50]} if role == "assistant" and state.recalled else {}
        plain = [_clean(_plain(block)) for block in blocks]
        only_text = len(plain) == 1 and plain[0].get("type") == "text"
        add = partial(conversation.add, role, str(plain[0]["text"]) if only_text else plain, **metadata)
        state.notice(state.save(add, "what was said was not saved"))

    system = "\n\n".join(filter(None, (setup.system, gathered.system)))
    answer, ended = yield from _loop(state, system, gathered.with_block(), keep)
    complete = ended and answer.stop == "end"
    return Reply(answer.text, session, tuple(state.steps), tuple(state.recalled), state.usage, tuple(state.notes), complete)


def task(access: AgentAccess, setup: Setup, text: str, goal: str | None, check: Check | None = None) -> Turn[Outcome]:
    """Work on a task until the model ends its turn; every step is recorded and the outcome becomes a memory."""
    state, memory = TurnState(access, setup), access.memory
    begun = state.safely(lambda: memory.tasks.start(text, goal=goal), None, "the task was not saved")
    lessons = tuple(hit.id for hit in begun.lessons) if begun else ()
    gathered = state.safely(lambda: access.gather_for_task(setup.strategy, text), GatheredMemory([]), "memory could not be read")
    state.recalled = list(gathered.recalled)
    system = "\n\n".join(filter(None, (setup.system, TASK, gathered.system)))
    blocks = [{"type": "text", "text": part} for part in (gathered.block, text) if part]

    def record(step: Step) -> None:
        state.notice(state.safely(partial(_record, memory, step), None, "a step was not saved"))

    def end(success: bool, outcome: str) -> Receipt | None:
        return state.safely(lambda: memory.tasks.end(success, outcome) if begun else None, None, "the outcome was not saved")

    try:
        messages = [{"role": "user", "content": blocks}]
        answer, ended = yield from _loop(state, system, messages, record=record if begun else None)
        stopped = None if ended else f"stopped after {setup.max_steps} steps"
        judged = yield from judge(answer, stopped, Prompt(messages, system, setup.schemas(), setup.max_tokens), check)
    except BaseException as error:  # an interruption too: what was tried is worth keeping
        end(False, f"it was cut off by {type(error).__name__}")
        raise
    receipt = end(judged.success, judged.outcome)
    id = begun.id if begun else None
    usage, notes = state.usage + judged.usage, tuple(state.notes)
    return Outcome(judged.success, judged.account, id, tuple(state.steps), lessons, usage, notes, receipt)


def _loop(
    state: TurnState,
    system: str,
    messages: list[dict[str, Any]],
    keep: Callable[[str, Sequence[Block]], None] = lambda role, blocks: None,
    record: Callable[[Step], None] | None = None,
) -> Turn[tuple[Answer, bool]]:
    """Ask the model and use its tools until it ends its turn: (its last answer, whether it did end it). Messages are kept with
    `keep`, steps with `record`."""
    setup, tools = state.setup, state.setup.schemas()
    for left in range(setup.max_steps, -1, -1):
        last = left == 0
        answer = yield Ask(Prompt(list(messages), system, tools, setup.max_tokens, may_use=not last))
        assert isinstance(answer, Answer)
        state.usage = state.usage + answer.usage
        if not answer.tool_uses or last:
            said = [block for block in answer.blocks if block["type"] != "tool_use"]  # it gets no result
            if said:
                keep("assistant", said)
            return answer, not last
        keep("assistant", [_without_memories(block) for block in answer.blocks])
        messages.append({"role": "assistant", "content": [_clean(_plain(block)) for block in answer.blocks]})
        results: list[Block] = []
        stored: list[Block] = []
        room = min(MAX_RESULT_BYTES, MAX_ALL_RESULTS_BYTES // len(answer.tool_uses))
        for block in answer.tool_uses:
            result = yield from _use_tool(state, block)
            step = Step(answer.text, str(block["name"]), block["input"], _fit_result(result.text, room), result.failed)
            state.steps.append(step)
            own = setup.strategy.tools and step.tool in MEMORY_TOOLS and not step.failed
            kept = replace(step, input=_hide_content(step.input), result=_ids_only(step.result)) if own else step
            if record is not None:
                record(kept)
            failed = {"is_error": True} if step.failed else {}
            answered: Block = {"type": "tool_result", "tool_use_id": block["id"], "content": step.result, **failed}
            results.append(answered)
            stored.append({**answered, "content": kept.result})
        keep("user", stored)
        messages.append({"role": "user", "content": results})
    raise AssertionError("the loop ends inside")


def _use_tool(state: TurnState, block: Block) -> Turn[Result]:
    """The result of one tool use: a memory tool's, a user's tool's, or what is wrong with it."""
    setup = state.setup
    name, input = str(block["name"]), block["input"]
    if block.get("error"):
        return Result(f"the arguments could not be read: {block['error']}", failed=True)
    if setup.strategy.tools and name in MEMORY_TOOLS:
        lost: dict[str, Any] = {"error": "memory cannot be reached just now: go on without it."}
        more = {"leave_out": state.shown, "session": state.session, "misled": state.misled}
        call = partial(state.access.call_tool, name, input, allow_forget=setup.allow_forget, **more)
        answer = state.safely(call, lost, f"{name} failed")
        state.recalled += [found["id"] for found in answer.get("memories", ()) if found["id"] not in state.recalled]
        return Result(json.dumps(answer, ensure_ascii=False), failed="error" in answer)
    tool = setup.tools.get(name)
    if tool is None:
        known = ", ".join([*(MEMORY_TOOLS[:3] if setup.strategy.tools else ()), *setup.tools]) or "none"
        return Result(f"there is no tool {name!r:.60}; there are: {known}", failed=True)
    result = yield Use(tool, input)
    assert isinstance(result, Result)
    return result


def _fit_result(text: str, room: int) -> str:
    """A result as the model sees it and as it is kept: without what no store can hold, and cut if it is too long."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    size = len(json.dumps(clean, ensure_ascii=False).encode("utf-8"))  # as it is stored
    if size <= room:
        return clean
    shown = clean[: max(1, int(len(clean) * room / size * 0.9))]
    while len(json.dumps(shown, ensure_ascii=False).encode("utf-8")) > room:
        shown = shown[: len(shown) * 3 // 4]
    return f"{shown} … [cut: {len(clean) - len(shown)} more characters]"


def _clean(value: Any) -> Any:
    """What a model said, without what no store can hold."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_clean(name): _clean(each) for name, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, (list, tuple)) else value


def _ids_only(result: str) -> str:
    """What is kept of a memory tool's answer: which memories, not what they say. They have their own place, and can be forgotten
    there."""
    try:
        answer = json.loads(result)
        ids = [answer.get("id"), *(memory.get("id") for memory in answer.get("memories", ()))]
    except (ValueError, AttributeError, TypeError):
        return "(memories)"
    named = [str(id) for id in dict.fromkeys(ids) if id]
    return json.dumps({"action": answer.get("action", "recalled"), "ids": named})


def _hide_content(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a memory tool's input: all but the memory's own words."""
    return {name: "(kept as a memory)" if name == "content" else value for name, value in given.items()}


def _without_memories(block: Block) -> Block:
    if block.get("type") == "tool_use" and block.get("name") in MEMORY_TOOLS and isinstance(block.get("input"), Mapping):
        return {**block, "input": _hide_content(block["input"])}
    return block


def _record(memory: Any, step: Step) -> Receipt:
    action = f"{step.tool}({json.dumps(_clean(step.input), ensure_ascii=False, default=str)[:4000]})"
    thought = _fit_result(step.thought, MAX_RESULT_BYTES)
    receipt: Receipt = memory.tasks.record(thought, action, f"failed: {step.result}" if step.failed else step.result)
    return receipt


def _plain(block: Block) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "error"}
