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
from keepstone.agent.prompt import TASK
from keepstone.agent.strategies import GatheredMemory, Strategy, Window
from keepstone.agent.tools import FORGET, RECALL, UPDATE, WRITE, schemas
from keepstone.backend import backend_of
from keepstone.errors import KeepstoneError
from keepstone.memory import Memory
from keepstone.ports.chat import Answer, Block, ChatModel, Prompt
from keepstone.types import Receipt, Usage

log = logging.getLogger("keepstone.agent")
T = TypeVar("T")
MEMORY_TOOLS = (RECALL, WRITE, UPDATE, FORGET)
MAX_RESULT_BYTES = 20_000  # bytes of a tool's result that the model sees, and that are kept
MAX_ALL_RESULTS_BYTES = 48_000  # bytes of all results of one turn
FAILED = "FAILED:"


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
    """What an agent answered, how it came to it, and which memories it was given. `notes` say where memory failed it."""

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


@dataclass(slots=True)
class TurnState:
    """What a turn gathers as it goes."""

    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    notes: list[str] = field(default_factory=list)
    misled: bool = False  # a tool has answered with what waits for a review

    def safely(self, work: Callable[[], T], otherwise: T, what: str) -> T:
        """Do something with memory; if it fails, say so and go on."""
        try:
            return work()
        except KeepstoneError as error:
            log.warning("%s: %s", what, error)
            self.notes.append(f"{what}: {error}")
        except Exception as error:  # a fault of ours, or of an embedder or reranker of the caller's: it must not cost the answer
            log.exception("%s", what)
            self.notes.append(f"{what}: {type(error).__name__}")
        return otherwise

    def refused(self, receipt: Receipt | None, what: str) -> None:
        """Say so where a limit or the policy has refused a write."""
        if receipt is not None and receipt.action == "refused":
            self.notes.append(f"{what}: {'; '.join(receipt.reasons)}")


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

    def offered(self) -> list[Mapping[str, Any]]:
        """The schemas of all tools that the model may use."""
        own = schemas(self.allow_forget) if self.strategy.tools else []
        return [*own, *(tool.schema for tool in self.tools.values())]


def chat(memory: Memory, setup: Setup, text: str, session: str) -> Turn[Reply]:
    """Answer what a user says."""
    doing = TurnState()
    conversation = memory.conversation(session)
    kept = doing.safely(lambda: conversation.add("user", text), None, "the message was not saved")
    nothing = GatheredMemory(Window([{"role": "user", "content": text}]))
    doing.refused(kept, "the message was not saved")
    id = None if kept is None else kept.id
    given = doing.safely(
        lambda: setup.strategy.gather(memory, text, session, setup.cheap, id), nothing, "memory could not be read"
    )
    if given is not nothing and (id is None or given.window.ids[-1:] != (id,)):
        given = given.saying(text)  # it could not be saved, or was cleared away meanwhile: it is answered all the same
    elif kept is not None and kept.action == "redacted":
        record = doing.safely(lambda: memory.get(kept.id or ""), None, "memory could not be read")
        given = given if record is None else given.as_said(record.content, text)
    system = "\n\n".join(part for part in (setup.system, given.system) if part)
    messages = given.messages()
    recalled = list(given.recalled)
    doing.usage = doing.usage + given.window.usage

    def keep(role: str, blocks: Sequence[Block]) -> None:
        about = {"recalled": recalled[:50]} if role == "assistant" and recalled else {}
        what = "what was said was not saved"
        kept = doing.safely(lambda: conversation.add(role, _stored_blocks(blocks), **about), None, what)
        doing.refused(kept, what)
        doing.misled = doing.misled or (kept is not None and kept.action == "quarantined")

    answer, complete = yield from _loop(memory, setup, doing, system, messages, keep, recalled, False, given.window.ids, session)
    complete = complete and answer.stop == "end"
    return Reply(answer.text, session, tuple(doing.steps), tuple(recalled), doing.usage, tuple(doing.notes), complete)


def task(memory: Memory, setup: Setup, text: str, goal: str | None) -> Turn[Outcome]:
    """Work on a task until the model ends its turn; every step is recorded and the outcome becomes a memory."""
    doing = TurnState()
    begun = doing.safely(lambda: memory.tasks.start(text, goal=goal), None, "the task was not saved")
    lessons = tuple(hit.id for hit in begun.lessons) if begun else ()
    nothing: tuple[str, list[str]] = ("", [])
    boot_block, always = doing.safely(lambda: setup.strategy.boot_block(memory), nothing, "memory could not be read")
    known, recalled = doing.safely(lambda: setup.strategy.for_task(memory, text, always), nothing, "memory could not be read")
    rules = doing.safely(lambda: setup.strategy.rules(memory), "", "memory could not be read")
    system = "\n\n".join(part for part in (setup.system, TASK, rules, boot_block) if part)
    blocks = [{"type": "text", "text": each} for each in (known, text) if each]
    messages: list[dict[str, Any]] = [{"role": "user", "content": blocks}]

    def keep(role: str, blocks: Sequence[Block]) -> None:
        """Steps are recorded as they are done, below."""

    try:
        answer, complete = yield from _loop(memory, setup, doing, system, messages, keep, recalled, record=begun is not None)
    except BaseException as error:  # an interruption too: what was tried is worth keeping
        ended = f"it was cut off by {type(error).__name__}"
        doing.safely(lambda: memory.tasks.end(False, ended) if begun else None, None, "the outcome was not saved")
        raise
    said = answer.text.strip()
    given_up = said.upper().startswith(FAILED)
    success = complete and answer.stop == "end" and bool(said) and not given_up
    said = (said[len(FAILED) :].strip() if given_up else said) or "(no account was given)"
    told = said if complete else f"stopped after {setup.max_steps} steps: {said}"
    if complete and answer.stop != "end":
        told = f"the model ended with {answer.stop!r}: {said}"
    receipt = doing.safely(lambda: memory.tasks.end(success, told) if begun else None, None, "the outcome was not saved")
    return Outcome(
        success, said, begun.id if begun else None, tuple(doing.steps), lessons, doing.usage, tuple(doing.notes), receipt
    )


def _loop(
    memory: Memory,
    setup: Setup,
    doing: TurnState,
    system: str,
    messages: list[dict[str, Any]],
    keep: Callable[[str, Sequence[Block]], None],
    recalled: list[str],
    record: bool = False,
    shown: Sequence[str] = (),
    session: str | None = None,
) -> Turn[tuple[Answer, bool]]:
    """Ask the model and do what it asks for until it ends its turn: (its last answer, whether it did end it)."""
    offered = setup.offered()
    for left in range(setup.max_steps, -1, -1):
        last = left == 0
        answer = yield Ask(Prompt(list(messages), system, tuple(offered), setup.max_tokens, may_use=not last))
        assert isinstance(answer, Answer)
        doing.usage = doing.usage + answer.usage
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
            result = yield from _use_tool(memory, setup, doing, block, recalled, shown, session)
            result = Result(_fit_result(result.text, room), result.failed)
            done = Step(answer.text, str(block["name"]), block["input"], result.text, result.failed)
            doing.steps.append(done)
            own = setup.strategy.tools and done.tool in MEMORY_TOOLS and not result.failed
            told = replace(done, input=_hide_content(done.input), result=_ids_only(result.text)) if own else done
            if record:
                step = doing.safely(partial(_record, memory, told), None, "a step was not saved")
                doing.misled = doing.misled or (step is not None and step.action == "quarantined")
            failed = {"is_error": True} if result.failed else {}
            answered: Block = {"type": "tool_result", "tool_use_id": block["id"], "content": result.text, **failed}
            results.append(answered)
            stored.append({**answered, "content": told.result})
        keep("user", stored)
        messages.append({"role": "user", "content": list(results)})
    raise AssertionError("the loop ends inside")


def _use_tool(
    memory: Memory, setup: Setup, doing: TurnState, block: Block, recalled: list[str], shown: Sequence[str], session: str | None
) -> Turn[Result]:
    """The result of one tool use: a memory tool's, a user's tool's, or what is wrong with it."""
    name, given = str(block["name"]), block["input"]
    if block.get("error"):
        return Result(f"the arguments could not be read: {block['error']}", failed=True)
    if setup.strategy.tools and name in MEMORY_TOOLS:
        lost: dict[str, Any] = {"error": "memory cannot be reached just now: go on without it."}
        options = {"allow_forget": setup.allow_forget, "leave_out": shown, "session": session, "misled": doing.misled}
        backend = backend_of(memory)
        answer = doing.safely(lambda: backend.call_tool(memory.scope, name, given, **options), lost, f"{name} failed")
        recalled += [each["id"] for each in answer.get("memories", ()) if each["id"] not in recalled]
        return Result(json.dumps(answer, ensure_ascii=False), failed="error" in answer)
    tool = setup.tools.get(name)
    if tool is None:
        known = ", ".join([*(MEMORY_TOOLS[:3] if setup.strategy.tools else ()), *setup.tools]) or "none"
        return Result(f"there is no tool {name!r:.60}; there are: {known}", failed=True)
    result = yield Use(tool, given)
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
        held = [answer.get("id"), *(each.get("id") for each in answer.get("memories", ()))]
    except (ValueError, AttributeError, TypeError):
        return "(memories)"
    named = [str(each) for each in dict.fromkeys(held) if each]
    return json.dumps({"action": answer.get("action", "recalled"), "ids": named})


def _hide_content(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a memory tool's input: all but the memory's own words."""
    return {name: "(kept as a memory)" if name == "content" else value for name, value in given.items()}


def _without_memories(block: Block) -> Block:
    if block.get("type") == "tool_use" and block.get("name") in MEMORY_TOOLS and isinstance(block.get("input"), Mapping):
        return {**block, "input": _hide_content(block["input"])}
    return block


def _record(memory: Memory, step: Step) -> Receipt:
    action = f"{step.tool}({json.dumps(_clean(step.input), ensure_ascii=False, default=str)[:4000]})"
    thought = _fit_result(step.thought, MAX_RESULT_BYTES)
    return memory.tasks.record(thought, action, f"failed: {step.result}" if step.failed else step.result)


def _plain(block: Block) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "error"}


def _stored_blocks(blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
    """Blocks as they are stored: text alone as text."""
    plain = [_clean(_plain(block)) for block in blocks]
    return str(plain[0]["text"]) if len(plain) == 1 and plain[0].get("type") == "text" else plain
