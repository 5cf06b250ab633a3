"""What a session comes to: facts about the user, decisions made, tasks left open. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from keepstone.ports.chat import Prompt
from keepstone.prompts import read_text
from keepstone.prompts.answers import closed_object, json_object
from keepstone.prompts.extraction import Line, conversation, moment, same_text, statement

VERSION = "2"
MAX_STATEMENTS = 12  # under each heading
_MAX_ITEMS = 50  # under each heading that are looked at
_HEADINGS = {"facts": "Facts", "decisions": "Decisions", "open_tasks": "Open tasks"}

SYSTEM = read_text("consolidation").replace("{{max_statements}}", str(MAX_STATEMENTS))

_ENTRY = closed_object({"turns": {"type": "array", "items": {"type": "integer"}}, "text": {"type": "string"}})
SCHEMA = closed_object({name: {"type": "array", "items": _ENTRY} for name in _HEADINGS})


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a session comes to; `problems` has a sentence for each thing in the answer that was not taken, without its content."""

    facts: tuple[str, ...]
    decisions: tuple[str, ...]
    open_tasks: tuple[str, ...]
    problems: tuple[str, ...] = ()


def render(lines: Sequence[Line], *, now: datetime, max_tokens: int = 800) -> Prompt:
    """The prompt for the turns of a session."""
    parts = [f"<now>{moment(now)}</now>", conversation(lines), "Write down what should outlast this session, as JSON."]
    return Prompt([{"role": "user", "content": "\n\n".join(parts)}], SYSTEM, max_tokens=max_tokens, schema=SCHEMA)


def read(text: str, lines: Sequence[Line]) -> Consolidation | None:
    """What can be taken of a model's answer to the prompt for these lines. None: it holds no usable JSON, so ask again."""
    found = json_object(text, ("facts",)) or json_object(text)
    if found is None or not _HEADINGS.keys() & found.value.keys():
        return None
    problems = ["The answer ended in the middle."] if found.cut else []
    taken = {name: _statements(found.value.get(name), heading, lines, problems) for name, heading in _HEADINGS.items()}
    return Consolidation(**taken, problems=tuple(problems))


def _statements(entries: Any, heading: str, lines: Sequence[Line], problems: list[str]) -> tuple[str, ...]:
    """The sentences of one list, each once; what is wrong with the others goes to the problems."""
    if entries is None:
        return ()
    if not isinstance(entries, list):
        problems.append(f"{heading}: not a list.")
        return ()
    kept: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        if len(kept) == MAX_STATEMENTS or number > _MAX_ITEMS:
            problems.append(f"{heading}: entries {number} to {len(entries)} were left out, at most {MAX_STATEMENTS} are taken.")
            break
        taken = statement(entry.get("text"), entry.get("turns"), lines) if isinstance(entry, dict) else "is not an object"
        if isinstance(taken, str):
            problems.append(f"{heading}: entry {number} {taken}.")
        else:
            kept.setdefault(same_text(taken[0]), taken[0])
    return tuple(kept.values())


def as_text(consolidation: Consolidation) -> str:
    """A consolidation as plain lines under its headings, those without lines left out; "" for none.

    >>> print(as_text(Consolidation(("Dana lives in Porto.",), (), ("Dana has to call the school.",))))
    Facts:
    - Dana lives in Porto.
    <BLANKLINE>
    Open tasks:
    - Dana has to call the school.
    """
    blocks = []
    for name, heading in _HEADINGS.items():
        sentences: tuple[str, ...] = getattr(consolidation, name)
        if sentences:
            blocks.append("\n".join([f"{heading}:", *(f"- {each}" for each in sentences)]))
    return "\n\n".join(blocks)
