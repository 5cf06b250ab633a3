"""Is a history of one key linearizable? Every call must seem to happen at one instant between its beginning and its end.

The search is Wing's and Gong's with Lowe's memory of configurations: calls are put in order one after another, each time one that
began before every other open call had ended. A call without an answer (its process was killed) may have happened or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

State = tuple[str, str] | None  # id and content of the record under the key; None: there is none
MAX_CONFIGURATIONS = 2_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call on one key. `end` and `answer` are None where none came."""

    verb: str  # remember, update, forget, get, recall
    begin: int
    end: int | None
    id: str = ""  # of update and get: whose; of remember: what it answered
    content: str = ""  # of remember and update
    answer: str | int | None = None  # remember: the action; update: "updated" or "absent"; forget: how many; reads: content

    @property
    def answered(self) -> bool:
        return self.end is not None


def apply(state: State, call: Call) -> tuple[bool, State]:
    """Whether a call can have given its answer in a state, and the state after it."""
    match call.verb:
        case "remember" if not call.answered:
            return True, (call.id if state is None else state[0], call.content)
        case "remember" if state is None:
            return call.answer == "added", (call.id, call.content)
        case "remember":
            return call.answer in ("superseded", "updated") and state[0] == call.id, (call.id, call.content)
        case "update":
            here = state is not None and state[0] == call.id
            fits = not call.answered or here == (call.answer == "updated")
            return fits, (call.id, call.content) if here else state
        case "forget":
            return not call.answered or call.answer == (0 if state is None else 1), None
        case "get":
            here = state[1] if state is not None and state[0] == call.id else None
            return call.answer == here, state
        case "recall":
            return (call.id, call.answer) == (("", None) if state is None else state), state
    raise ValueError(f"there is no verb {call.verb!r}")


def violation(calls: Sequence[Call], start: State = None) -> str | None:
    """What is wrong with a history of one key; None: it is linearizable."""
    history = sorted(_relevant(calls), key=lambda call: call.begin)
    needed = sum(1 << number for number, call in enumerate(history) if call.answered)
    stack: list[tuple[int, State]] = [(0, start)]
    seen = set(stack)
    furthest = 0
    while stack:
        done, state = stack.pop()
        if done & needed == needed:
            return None
        furthest = max(furthest, (done & needed).bit_count())
        for number in _next(history, done):
            fits, after = apply(state, history[number])
            if fits and (entry := (done | 1 << number, after)) not in seen:
                seen.add(entry)
                stack.append(entry)
        if len(seen) > MAX_CONFIGURATIONS:
            return f"not decided: more than {MAX_CONFIGURATIONS:,} configurations"
    return f"no order explains more than {furthest} of {needed.bit_count()} answers"


def _next(history: Sequence[Call], done: int) -> list[int]:
    """The calls that may come next: they began before any other that is left had ended."""
    found: list[int] = []
    ends = None
    for number, call in enumerate(history):
        if ends is not None and call.begin > ends:
            break
        if not done >> number & 1:
            found.append(number)
            ends = call.end if ends is None or (call.end is not None and call.end < ends) else ends
    return [number for number in found if ends is None or history[number].begin <= ends]


def _relevant(calls: Sequence[Call]) -> list[Call]:
    """Without reads that have no answer, and writes without one whose content was never read: they may never have happened. An id
    that was not answered is taken from where the content was read."""
    seen = {str(call.answer): call.id for call in calls if call.verb in ("get", "recall") and call.answer is not None}
    kept: list[Call] = []
    for call in calls:
        if call.answered or call.verb == "forget":
            kept.append(call)
        elif call.verb in ("remember", "update") and call.content in seen:
            kept.append(replace(call, id=seen[call.content]))
    return kept
