"""WorkingMemory: what an agent has in hand while it works on a task.

It lives in the process; `save` puts it on disk and `restore` brings it back, so that a task goes on where a crash cut it off.
Starting, recording and ending a task save it by themselves.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from keepstone.errors import TooLarge, ValidationError
from keepstone.recall.render import escape_text
from keepstone.text.token_count import estimate_tokens
from keepstone.types import clean_name
from keepstone.write.request import check_text, plain_json

MAX_SHOWN_CHARS = 300  # characters of a value that are shown
SHOWN_THOUGHTS = 5  # the last so many are shown
MAX_SAVED_CHARS = 1024 * 1024  # characters saved
_MAX_THOUGHTS = 100
_MAX_STEPS = 400  # the first tenth and the last of them; all are in the task's own session
_MAX_THOUGHT_CHARS = 2000  # characters
_MAX_DONE_STEPS = 1_000_000  # steps that a document may speak of
_MAX_DEPTH = 32  # levels of a result or a variable in a document
_MAX_VALUES = 64 * 1024
_LISTS = {"subgoals": 1000, "thoughts": _MAX_THOUGHTS, "steps": _MAX_STEPS, "step_ids": _MAX_STEPS, "lessons": 1000}
_FIELDS = ("task", "task_id", "goal", "subgoals", "results", "thoughts", "variables", "steps", "done", "step_ids", "lessons")


class WorkingMemory:
    """The state of the current task: its goal and subgoals, results by name, thoughts, variables.

    >>> working = memory.working
    >>> working.start("Book a table", goal="a table for two")
    >>> working.set("day", "Friday")
    >>> working.save()
    >>> working.restore(), working.get("day")
    (True, 'Friday')"""

    def __init__(
        self,
        keep: Callable[[str, str, str | None], object] = lambda name, value, task_id: None,
        kept: Callable[[str], str | None] = lambda name: None,
        drop: Callable[[str], bool] = lambda name: False,
        mend: Callable[[WorkingMemory], bool] = lambda working: True,
    ) -> None:
        self._keep, self._kept, self._drop, self._mend = keep, kept, drop, mend
        self.saved_as: str | None = "default"  # what tasks save it under by themselves; None: the task's id
        self.lock = threading.RLock()  # held while a task's step is recorded
        self.task: str | None = None
        self.task_id: str | None = None
        self.goal: str | None = None
        self.clear()

    def start(self, task: str, *, task_id: str | None = None, goal: str | None = None) -> None:
        """Begin a task; the previous content is cleared."""
        check_task(task, goal)
        self.clear()
        self.task = task
        self.task_id = task_id
        self.goal = goal

    def clear(self) -> None:
        """Empty everything; what was saved stays until it is saved again or dropped."""
        self.task = self.task_id = self.goal = None
        self.subgoals: list[str] = []
        self.results: dict[str, Any] = {}
        self.thoughts: list[str] = []
        self.variables: dict[str, Any] = {}
        self.steps: list[str] = []  # what was done, a line each: the first and the last
        self.done = 0  # steps in all
        self.step_ids: list[str] = []
        self.lessons: list[str] = []

    # -- goals ----------------------------------------------------------------------------------------------------
    def set_goal(self, goal: str) -> None:
        """Set the goal of the task; subgoals are cleared."""
        self.goal, self.subgoals = _text(goal, "a goal"), []

    def push(self, subgoal: str) -> None:
        """Add a subgoal, which is the current one until it is popped."""
        self.subgoals.append(_text(subgoal, "a subgoal"))

    def pop(self) -> str | None:
        """Remove and return the current subgoal; the one before it is current again. None if there was none."""
        return self.subgoals.pop() if self.subgoals else None

    @property
    def current_goal(self) -> str | None:
        """The innermost subgoal, else the goal."""
        return self.subgoals[-1] if self.subgoals else self.goal

    # -- what was found -------------------------------------------------------------------------------------------
    def result(self, name: str, value: Any) -> None:
        """Keep an intermediate result under a name."""
        self.results[clean_name(name, "the name of a result")] = value

    def think(self, thought: str) -> None:
        """Add a thought to the scratchpad."""
        self.thoughts.append(_text(thought, "a thought")[:_MAX_THOUGHT_CHARS])
        del self.thoughts[:-_MAX_THOUGHTS]

    def did(self, step: str, id: str | None) -> None:
        """Note a step that was recorded."""
        self.done += 1
        self.steps.append(step)
        if len(self.steps) > _MAX_STEPS:
            del self.steps[_MAX_STEPS // 10]
        if id is not None:
            self.step_ids.append(id)
            del self.step_ids[:-_MAX_STEPS]

    def set(self, name: str, value: Any) -> None:
        """Set a variable."""
        self.variables[clean_name(name, "the name of a variable")] = value

    def get(self, name: str, default: Any = None) -> Any:
        """A variable, or the default."""
        return self.variables.get(name, default)

    # -- for a model ----------------------------------------------------------------------------------------------
    def context(self, *, max_tokens: int = 600) -> str:
        """The content as lines for a prompt: escaped, long values cut, the last thoughts only; "" when it is empty."""
        kept: list[str] = []
        spent = 0
        for line in self.lines():
            cost = estimate_tokens(line) + 3
            if spent + cost > max_tokens:
                continue
            kept.append(f"- {line}")
            spent += cost
        return "\n".join(kept)

    def lines(self) -> list[str]:
        """The same, a line each, the most important first."""
        shown = []
        if self.task:
            shown.append(f"task: {_shorten(self.task)}")
        if self.goal:
            shown.append(f"goal: {_shorten(self.goal)}")
        shown += [f"subgoal: {_shorten(each)}" for each in reversed(self.subgoals)]  # the present one first
        last = self.steps[-SHOWN_THOUGHTS:]
        shown += [f"step {at} done: {_shorten(step)}" for at, step in enumerate(last, self.done - len(last) + 1)]
        shown += [f"result {escape_text(name)}: {_shorten(value)}" for name, value in self.results.items()]
        shown += [f"variable {escape_text(name)} = {_shorten(value)}" for name, value in self.variables.items()]
        shown += [f"thought: {_shorten(each)}" for each in self.thoughts[-SHOWN_THOUGHTS:]]
        return shown

    # -- across restarts ------------------------------------------------------------------------------------------
    def document(self) -> dict[str, Any]:
        """The content as plain data; `load` reads it."""
        return {each: copy(getattr(self, each)) for each in _FIELDS}

    def load(self, document: Mapping[str, Any]) -> None:
        """Replace the content by what `document` returned; fields that are left out are empty. Raises ValidationError or TooLarge
        for anything else, and changes nothing then."""
        held = _check_document(document)
        self.clear()
        for name, value in held.items():
            setattr(self, name, value)

    def save(self, name: str = "default") -> None:
        """Store the content under a name. Raises ValidationError for what JSON cannot hold."""
        name = clean_name(name, "the name of a working memory")
        try:
            held = self.document()
            value = json.dumps(held, ensure_ascii=False, allow_nan=False)
            if not _storable(value):
                value = json.dumps(held, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValidationError(f"working memory cannot be saved ({error}): keep text, numbers, lists, dictionaries.") from None
        if len(value) > MAX_SAVED_CHARS:
            raise TooLarge(f"working memory has {len(value)} characters, the limit is {MAX_SAVED_CHARS}: keep less in hand.")
        self._keep(f"working:{name}", value, self.task_id)

    def restore(self, name: str = "default") -> bool:
        """Bring back what was saved under a name, with the steps of its task that are on disk; False if nothing was saved, or
        the task has been ended."""
        value = self._kept(f"working:{clean_name(name, 'the name of a working memory')}")
        if value is None:
            return False
        saved = json.loads(value)
        for each in _FIELDS:
            setattr(self, each, saved[each])
        if self._mend(self):
            return True
        self.clear()
        return False

    def drop(self, name: str = "default") -> bool:
        """Delete what was saved under a name."""
        return self._drop(f"working:{clean_name(name, 'the name of a working memory')}")

    def __repr__(self) -> str:
        return f"WorkingMemory(task={self.task!r:.60}, goal={self.current_goal!r:.60})"


def check_task(task: str, goal: str | None) -> None:
    """ValidationError for a task that says nothing."""
    if not isinstance(task, str) or not task.strip():
        raise ValidationError(f"task is {task!r:.60}: say in words what is to be done.")
    if goal is not None:
        _text(goal, "a goal")


def _check_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document from outside, each of its type and within bounds."""
    if not isinstance(document, Mapping):
        raise ValidationError(f"a working memory must be a dictionary, got {type(document).__name__}: pass what document() gave.")
    unknown = sorted(str(name) for name in document if name not in _FIELDS)
    if unknown:
        raise ValidationError(f"a working memory has no field {unknown[0]!r:.60}: use {', '.join(_FIELDS)}.")
    held: dict[str, Any] = {}
    for name, value in document.items():
        if name in ("results", "variables"):
            held[name] = _named(value, name)
        elif name in _LISTS:
            held[name] = _texts(value, name)
        elif name == "done":
            held[name] = _counted(value)
        else:
            held[name] = None if value is None else check_text(_text(value, name), name)
    task, id = held.get("task"), held.get("task_id")
    if task is not None:
        check_task(task, held.get("goal"))
    if id is not None:
        if task is None:
            raise ValidationError("task_id is given without a task: say what the task is, or leave task_id out.")
        held["task_id"] = clean_name(id, "task_id")
    return held


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise ValidationError(f"{name} must be a list of texts, got {type(value).__name__}.")
    if len(value) > _LISTS[name]:
        raise ValidationError(f"{name} has {len(value)} entries, the limit is {_LISTS[name]}: keep the last ones.")
    return [check_text(_text(each, f"each of {name}"), name) for each in value]


def _named(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValidationError(f"{name} must be a dictionary, got {type(value).__name__}.")
    plain = plain_json(value, name, _MAX_DEPTH, _MAX_VALUES)
    return {clean_name(each, f"a name in {name}"): held for each, held in plain.items()}


def _counted(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_DONE_STEPS:
        raise ValidationError(f"done is {value!r:.40}: use the number of steps so far, from 0 to {_MAX_DONE_STEPS}.")
    return value


def _text(value: str, what: str) -> str:
    if not isinstance(value, str):
        raise ValidationError(f"{what} must be text, got {type(value).__name__}.")
    return value


def _storable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shorten(value: Any) -> str:
    """A value as one escaped line of bounded length."""
    text = value if isinstance(value, str) else _json(value)
    return escape_text(text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…")


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return repr(value)[: MAX_SHOWN_CHARS + 1]
