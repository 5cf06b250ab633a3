"""Tasks: started with the lessons of similar ones, recorded step by step, ended as an episode.

A step is a message of the task's own session (tag "step"), on disk when it is recorded. What a task came to, success or failure,
is one memory of kind "episode" that names its steps: ten tasks leave ten episodes, not a hundred.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from keepstone.errors import ValidationError
from keepstone.learning.flow import Learner
from keepstone.ports.stores import Store
from keepstone.recall.flow import RecallFlow
from keepstone.recall.query import RecallQuery
from keepstone.tasks.working_memory import WorkingMemory, check_task
from keepstone.types import STEP, Hit, Message, Receipt, Scope
from keepstone.write.flow import WriteFlow, message_request
from keepstone.write.request import WriteRequest

EPISODE = "episode"
MAX_LESSONS = 3
_MAX_PART_CHARS = 240  # characters of a step's parts in an episode
_MAX_SHOWN_STEPS = 20  # steps in an episode: the first and the last
_MAX_OUTCOME_CHARS = 4000  # characters of a task or an outcome in an episode
_MAX_MESSAGE_BYTES = 60_000  # bytes of a message or an episode
_PAGE_RECORDS = 500


@dataclass(frozen=True, slots=True)
class Task:
    """A task under way: its id, the session its steps are kept in, and what similar tasks have taught."""

    id: str
    task: str
    session: str
    lessons: tuple[Hit, ...] = ()


class Tasks:
    """`memory.tasks`: the task of one working memory, recorded step by step."""

    def __init__(self, scope: Scope, working: WorkingMemory, learner: Learner, recalling: RecallFlow, writing: WriteFlow) -> None:
        self._scope = scope
        self._working = working
        self._learner = learner
        self._recalling = recalling
        self._writing = writing

    def start(self, task: str, *, goal: str | None = None) -> Task:
        """Start a task in working memory. The `lessons` of the result are episodes of similar tasks, failures included."""
        check_task(task, goal)
        with self._working.lock:
            id = secrets.token_hex(8)
            query = RecallQuery.parse(task[:4000], limit=MAX_LESSONS, kinds={EPISODE})
            lessons = self._recalling.recall(self._scope, query).hits
            self._say(id, Message("user", _clip(task)))
            self._working.start(task, task_id=id, goal=goal)  # what was in hand is replaced only once the task has begun
            self._working.lessons = [hit.id for hit in lessons]
            _save(self._working)
        return Task(id, task, session_of(id), tuple(lessons))

    def record(self, thought: str, action: str = "", result: str = "") -> Receipt:
        """Store one step of the current task: it is on disk when this returns. Raises ValidationError without a task."""
        id, working = _current_task(self._working), self._working
        parts = {"thought": thought, "action": action, "result": result}
        for name, value in parts.items():
            if not isinstance(value, str):
                raise ValidationError(f"{name} must be text, got {type(value).__name__}: describe it in words or as JSON.")
        if not any(value.strip() for value in parts.values()):
            raise ValidationError("a step is empty: give at least one of thought, action, result.")
        with working.lock:
            _check_current(working, id)
            about = {"step": working.done + 1}
            receipt = self._say(id, Message("assistant", [{"type": STEP, **parts}], metadata=about))
            working.did(_line(thought, action, result), receipt.id)
            if thought.strip():
                working.think(thought)
            problem = _save(working)
        return receipt if problem is None else replace(receipt, reasons=(*receipt.reasons, problem))

    def end(self, success: bool, outcome: str) -> Receipt:
        """End the current task: its steps and its outcome become an episode. Raises ValidationError without a task."""
        id, working = _current_task(self._working), self._working
        if success not in (True, False):
            raise ValidationError(f"success is {success!r:.40}: use True or False.")
        if not isinstance(outcome, str) or not outcome.strip():
            raise ValidationError(f"outcome is {outcome!r:.60}: say in words how it ended.")
        with working.lock:
            _check_current(working, id)
            request = WriteRequest(
                _clip(_episode_text(working, bool(success), outcome)),
                kind=EPISODE,
                tag="success" if success else "failure",
                importance=0.7,
                metadata={"task_id": id, "success": bool(success), "steps": working.done},
                source="agent",
                session=session_of(id),
                parents=tuple(working.step_ids),
            )
            last = Message("assistant", _clip(outcome), metadata={"success": bool(success)})
            requests = [message_request(last, session_of(id), STEP), request]  # in one commit: a task ends with its episode
            receipt = self._writing.remember(self._scope, requests)[1]
            if receipt.action == "refused":
                return receipt  # the task stays in hand: it can be ended again
            name = _saved_as(working)
            working.clear()
            working.drop(name)
        return receipt

    def _say(self, id: str, message: Message) -> Receipt:
        return self._learner.ingest(self._scope, [message], session_of(id), tag=STEP)[0]


def session_of(task_id: str) -> str:
    """The session that a task's steps are kept in."""
    return f"task:{task_id}"


def _current_task(working: WorkingMemory) -> str:
    if working.task is None or working.task_id is None:
        raise ValidationError("no task is under way: call tasks.start first, or working.restore() after a restart.")
    return working.task_id


def _check_current(working: WorkingMemory, id: str) -> None:
    if working.task_id != id:
        raise ValidationError("the task was ended, or another was started, while this waited: nothing was recorded.")


def catch_up(store: Store, scope: Scope, working: WorkingMemory) -> bool:
    """Compare a working memory that was restored with the steps on disk, which a crash may have left ahead of it. False if the
    task had been ended: then there is nothing to go on with."""
    if working.task_id is None:
        return True
    after, number = 0, 0
    while page := store.message_log.page(scope, session_of(working.task_id), after=after, limit=_PAGE_RECORDS, oldest=True):
        after = page[-1][0]
        for _, record in page:
            if "success" in record.metadata:
                return False
            step = record.blocks[0] if record.blocks else {}
            if step.get("type") == STEP:
                number += 1
                if number > working.done:
                    parts = [str(step.get(name, "")) for name in ("thought", "action", "result")]
                    working.did(_line(*parts), record.id)
    return True


def open_working_memory(store: Store, scope: Scope) -> WorkingMemory:
    """A working memory that is saved in a scope."""
    states = store.states
    return WorkingMemory(
        lambda name, value, task: states.put(scope, name, value, session=None if task is None else session_of(task)),
        lambda name: states.get(scope, name),
        lambda name: states.drop(scope, name),
        lambda working: catch_up(store, scope, working),
    )


def _saved_as(working: WorkingMemory) -> str:
    return working.saved_as or f"task:{working.task_id}"


def _save(working: WorkingMemory) -> str | None:
    """Put what is in hand on disk; what keeps it from that is said, and costs no step."""
    try:
        working.save(_saved_as(working))
    except ValidationError as error:
        return f"the step is kept, but what is in hand could not be saved: {error}"
    return None


def _clip(text: str) -> str:
    """A text that fits into a record, whatever its characters."""
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= _MAX_MESSAGE_BYTES else f"{raw[:_MAX_MESSAGE_BYTES].decode('utf-8', 'ignore')}…"


def _line(thought: str, action: str, result: str) -> str:
    done = _short(action) or _short(thought)
    return f"{done} -> {_short(result)}" if result.strip() else done


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= _MAX_PART_CHARS else f"{one[:_MAX_PART_CHARS]}…"


def _episode_text(working: WorkingMemory, success: bool, outcome: str) -> str:
    """A task as a memory: what was wanted, what was tried, how it ended."""
    steps, half = working.steps, _MAX_SHOWN_STEPS // 2
    lines = [f"{at}. {step}" for at, step in enumerate(steps, 1)]
    if working.done > _MAX_SHOWN_STEPS:
        last = [f"{at}. {step}" for at, step in enumerate(steps[-half:], working.done - half + 1)]
        lines = [*lines[:half], f"… {working.done - _MAX_SHOWN_STEPS} more steps …", *last]
    ended = "It worked" if success else "It failed"
    parts = [f"Task: {(working.task or '')[:_MAX_OUTCOME_CHARS]}", f"{ended}: {outcome[:_MAX_OUTCOME_CHARS]}"]
    return "\n".join([*parts, *(["What was tried:", *lines] if lines else [])])
