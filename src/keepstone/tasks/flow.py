"""Tasks: started with the lessons of similar ones, recorded step by step, ended as an episode.

A step is a message of the task's own session (tag "step"), on disk when it is recorded. What a task came to, success or failure,
is one memory of kind "episode" that names its steps: ten tasks leave ten episodes, not a hundred. A task whose process ended
before it becomes a failure when the next one starts; it can still be restored and ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from keepstone.errors import ValidationError
from keepstone.learning.flow import Learner
from keepstone.ports.stores import Clock, Store
from keepstone.ports.values import ListQuery, Selector
from keepstone.recall.flow import RecallFlow
from keepstone.recall.query import RecallQuery
from keepstone.tasks.working_memory import WorkingMemory, check_task
from keepstone.types import HELD_BACK, STEP, Hit, Message, Receipt, Record, Scope
from keepstone.write.flow import WriteFlow, message_request
from keepstone.write.request import WriteRequest

EPISODE = "episode"
MAX_LESSONS = 3
_MAX_PART_CHARS = 240  # characters of a step's parts in an episode
_MAX_SHOWN_STEPS = 20  # steps in an episode: the first and the last
_MAX_OUTCOME_CHARS = 4000  # characters of a task or an outcome in an episode
_MAX_MESSAGE_BYTES = 60_000  # bytes of a message or an episode
_PAGE_RECORDS = 500
_ABANDONED_AFTER = timedelta(hours=1)  # since the last step, where it is not known whether the process still runs
_HOST = hashlib.blake2b(platform.node().encode("utf-8", "replace"), digest_size=4).hexdigest()
_PROCESS_TOKEN = secrets.token_hex(4)  # a later process may have the same number
_LESSON = "lesson"  # in the saved state of a task that was cut off: the id of its episode


@dataclass(frozen=True, slots=True)
class Task:
    """A current task: its id, the session that holds its steps, and the episodes of similar tasks as lessons."""

    id: str
    task: str
    session: str
    lessons: tuple[Hit, ...] = ()


class Tasks:
    """`memory.tasks`: the task of one working memory, recorded step by step."""

    def __init__(
        self,
        scope: Scope,
        store: Store,
        working: WorkingMemory,
        learner: Learner,
        recalling: RecallFlow,
        writing: WriteFlow,
        clock: Clock,
    ) -> None:
        self._scope = scope
        self._store = store
        self._working = working
        self._learner = learner
        self._recalling = recalling
        self._writing = writing
        self._clock = clock

    def start(self, task: str, *, goal: str | None = None) -> Task:
        """Start a task in working memory. The `lessons` of the result are episodes of similar tasks, failures included.

        >>> task = memory.tasks.start("Book a table", goal="a table for two on Friday")
        >>> [lesson.content for lesson in task.lessons]
        []"""
        check_task(task, goal)
        self._learn_from_cut_off()
        with self._working.lock:
            id = secrets.token_hex(8)
            query = RecallQuery.parse(task[:4000], limit=MAX_LESSONS, kinds={EPISODE})
            lessons = self._recalling.recall(self._scope, query).hits
            self._say(id, Message("user", _clip(task), metadata={"process": _process()}))
            self._working.start(task, task_id=id, goal=goal)  # what was in hand is replaced only once the task has begun
            self._working.lessons = [hit.id for hit in lessons]
            _save(self._working)
        return Task(id, task, session_of(id), tuple(lessons))

    def record(self, thought: str, action: str = "", result: str = "") -> Receipt:
        """Store one step of the current task: it is on disk when this returns. Raises ValidationError without a task.

        >>> task = memory.tasks.start("Book a table")
        >>> memory.tasks.record("The website is down.", "call the restaurant", "booked for 19:00").action
        'added'"""
        id, working = current_task(self._working), self._working
        parts = {"thought": thought, "action": action, "result": result}
        for name, value in parts.items():
            if not isinstance(value, str):
                raise ValidationError(f"{name} must be text, got {type(value).__name__}: describe it in words or as JSON.")
        if not any(value.strip() for value in parts.values()):
            raise ValidationError("a step is empty: give at least one of thought, action, result.")
        with working.lock:
            check_current(working, id)
            about = {"step": working.done + 1}
            receipt = self._say(id, Message("assistant", [{"type": STEP, **parts}], metadata=about))
            held_back = receipt.action == "quarantined"  # working memory is shown to models
            working.did(HELD_BACK if held_back else _line(thought, action, result), receipt.id)
            if thought.strip() and not held_back:
                working.think(thought)
            problem = _save(working)
        return receipt if problem is None else replace(receipt, reasons=(*receipt.reasons, problem))

    def end(self, success: bool, outcome: str) -> Receipt:
        """End the current task: its steps and its outcome become an episode. Raises ValidationError without a task.

        >>> task = memory.tasks.start("Book a table")
        >>> memory.tasks.end(True, "Booked for 19:00 by telephone.").action
        'added'"""
        id, working = current_task(self._working), self._working
        if success not in (True, False):
            raise ValidationError(f"success is {success!r:.40}: use True or False.")
        if not isinstance(outcome, str) or not outcome.strip():
            raise ValidationError(f"outcome is {outcome!r:.60}: say in words how it ended.")
        with working.lock:
            check_current(working, id)
            request = _episode(working, id, bool(success), outcome)
            last = Message("assistant", _clip(outcome), metadata={"success": bool(success)})
            requests = [message_request(last, session_of(id), STEP), request]  # in one commit: a task ends with its episode
            receipt = self._writing.remember(self._scope, requests)[1]
            if receipt.action == "refused":
                return receipt  # the task stays in hand: it can be ended again
            early = [episode.id for episode in self._episodes(id) if episode.metadata.get("cut_off")]
            if early:  # it was restored after all
                self._store.forget(self._scope, Selector(ids=tuple(early)))
            name = _saved_as(working)
            working.clear()
            working.drop(name)
        return receipt

    def _learn_from_cut_off(self) -> None:
        """Store an episode for each task whose process ended before the task did."""
        states = self._store.states
        for name, value in states.all(self._scope):
            saved = json.loads(value) if name.startswith("working:") else {}
            id = saved.get("task_id")
            if not id or _LESSON in saved or id == self._working.task_id:
                continue
            working = open_working_memory(self._store, self._scope)
            if not working.restore(name.removeprefix("working:")) or not self._is_cut_off(id):
                continue
            reason = "it was cut off: the process ended before the task did"
            receipt = self._writing.remember(self._scope, [_episode(working, id, False, reason, cut_off=True)])[0]
            states.put(self._scope, name, json.dumps({**saved, _LESSON: receipt.id}), session=session_of(id), expected=value)

    def _is_cut_off(self, id: str) -> bool:
        page = self._store.message_log.page
        first = page(self._scope, session_of(id), limit=1, oldest=True)
        last = page(self._scope, session_of(id), limit=1)
        if not first or self._episodes(id):
            return False
        return _is_over(str(first[0][1].metadata.get("process", "")), last[0][1].created_at, self._clock())

    def _episodes(self, id: str) -> list[Record]:
        found = self._store.list(self._scope, ListQuery(kind=EPISODE, session=session_of(id)))
        return [record for _, record in found]

    def _say(self, id: str, message: Message) -> Receipt:
        return self._learner.ingest(self._scope, [message], session_of(id), tag=STEP)[0]


def _process() -> str:
    """The name of this process: its host, its number, and a token of its own."""
    return f"{_HOST}:{os.getpid()}:{_PROCESS_TOKEN}"


def _is_over(process: str, last_step: datetime, now: datetime) -> bool:
    """Whether the process that worked on a task has ended, as far as can be seen from here."""
    host, _, rest = process.partition(":")
    number, _, token = rest.partition(":")
    if now - last_step >= _ABANDONED_AFTER:
        return True
    if host != _HOST or not number.isdigit() or token == _PROCESS_TOKEN or sys.platform == "win32":  # there, signal 0 is Ctrl-C
        return False
    if int(number) == os.getpid():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs as another user
        return False
    return False


def session_of(task_id: str) -> str:
    """The session that a task's steps are kept in."""
    return f"task:{task_id}"


def current_task(working: WorkingMemory) -> str:
    """The id of the current task; ValidationError without one."""
    if working.task is None or working.task_id is None:
        raise ValidationError("no task is under way: call tasks.start first, or working.restore() after a restart.")
    return working.task_id


def check_current(working: WorkingMemory, id: str) -> None:
    """ValidationError if the current task is another by now."""
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
                    working.did(HELD_BACK if record.status == "quarantined" else _line(*parts), record.id)
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
        return f"the step is stored, but the working memory could not be saved: {error}"
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


def _episode(working: WorkingMemory, id: str, success: bool, outcome: str, **metadata: bool) -> WriteRequest:
    return WriteRequest(
        _clip(_episode_text(working, success, outcome)),
        kind=EPISODE,
        tag="success" if success else "failure",
        importance=0.7,
        metadata={"task_id": id, "success": success, "steps": working.done, **metadata},
        source="agent",
        session=session_of(id),
        parents=tuple(working.step_ids),
    )


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
