"""Several related memories as fewer statements: the prompt, its schema, and the reader that refuses an answer that lost anything.
Pure.

The model may only reword. Every memory it was shown must be named by a statement, and every number, name, identifier and
quotation of a memory must stand in a statement that names it, and none may be new: else the answer is refused, since the
memories themselves are put aside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from keepstone.ports.chat import Prompt
from keepstone.prompts import read_text
from keepstone.prompts.answers import closed_object, json_object
from keepstone.prompts.extraction import Line, escaped, moment, statement
from keepstone.text.english import STOP_WORDS
from keepstone.text.words import terms

VERSION = "1"
MAX_STATEMENTS = 16

SYSTEM = read_text("compaction").replace("{{max_statements}}", str(MAX_STATEMENTS))

_NUMBERS = {"type": "array", "items": {"type": "integer"}}
SCHEMA = closed_object(
    {"statements": {"type": "array", "items": closed_object({"memories": _NUMBERS, "text": {"type": "string"}})}}
)

_QUOTED = re.compile(r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|«[^»\n]{1,200}»|`[^`\n]{1,200}`|「[^」\n]{1,200}」")
_WORD = re.compile(r"[^\s\"“”«»`「」()\[\]{}<>,;!?。，、]+")
_TRIM = ".:'’‘…-–—*_"
_OWNED = re.compile(r"['’]s?$")
_IDENTIFIES = re.compile(r"[\d@_/\\]|\w\.\w")
_OPENING = re.compile(r"^\W*\w+")  # a capital that only opens a sentence tells nothing
_NEGATIONS = frozenset(("not", "no", "never"))


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory shown to the model; its number is its place in the list, from 1."""

    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, and the numbers of the memories it rests on."""

    text: str
    memories: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model made of some memories. Where `problem` is set it may not take their place: the sentence says why, without
    content."""

    statements: tuple[Statement, ...] = ()
    problem: str | None = None


def render(memories: Sequence[Memory], *, max_tokens: int = 4096) -> Prompt:
    """The prompt for memories that belong together."""
    shown = [
        f'<memory number="{number}" at="{moment(each.at)}">{escaped(each.text.strip())}</memory>'
        for number, each in enumerate(memories, 1)
    ]
    parts = ["\n".join(["<memories>", *shown, "</memories>"]), "Write these memories down as fewer statements, as JSON."]
    return Prompt([{"role": "user", "content": "\n\n".join(parts)}], SYSTEM, max_tokens=max_tokens, schema=SCHEMA)


def read(text: str, memories: Sequence[Memory]) -> Reading | None:
    """The statements in a model's answer to the prompt for these memories. None: it holds no usable JSON."""
    found = json_object(text, ("statements",))
    if found is None or not isinstance(found.value["statements"], list):
        return None
    items = found.value["statements"]
    if found.cut:
        return Reading(problem="the answer ended in the middle")
    if not 1 <= len(items) <= MAX_STATEMENTS:
        return Reading(problem=f"the answer has {len(items)} statements, from 1 to {MAX_STATEMENTS} are taken")
    lines = [Line("user", each.text) for each in memories]
    taken: dict[str, Statement] = {}
    for number, item in enumerate(items, 1):
        fit = statement(item.get("text"), item.get("memories"), lines) if isinstance(item, dict) else "is not an object"
        if isinstance(fit, str):
            return Reading(problem=f"statement {number} {fit.replace('turn', 'memory')}")
        before = taken.get(fit[0])
        resting = fit[1] if before is None else tuple(sorted({*before.memories, *fit[1]}))
        taken[fit[0]] = Statement(fit[0], resting)
    for number, memory in enumerate(memories, 1):
        said = [each.text for each in taken.values() if number in each.memories]
        if not said:
            return Reading(problem=f"no statement rests on memory {number}")
        if lost := count_missing(memory.text, "\n".join(said)):
            return Reading(problem=f"the statements lose {lost} particulars of memory {number}")
    for number, each in enumerate(taken.values(), 1):
        given = [f"{memories[place - 1].text} {moment(memories[place - 1].at)}" for place in each.memories]
        if added := count_missing(_OPENING.sub("", each.text), "\n".join(given)):
            return Reading(problem=f"statement {number} adds {added} particulars that its memories do not have")
    return Reading(tuple(taken.values()))


def count_missing(text: str, said: str) -> int:
    """How many of a text's numbers, names, identifiers, quotations and negations are not in what was made of it.

    >>> count_missing("Dana has 3 cats in Oslo.", "In Oslo, Dana has cats.")
    1
    """
    there = _fold(said)
    lost = sum(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", there) is None for each in find_particulars(text))
    turned = not _NEGATIONS.isdisjoint(terms(text)) and _NEGATIONS.isdisjoint(terms(said))
    return lost + turned


def find_particulars(text: str) -> frozenset[str]:
    """What of a text must be kept to the letter: what has digits, capitals or signs in it, and what is quoted; folded, so that
    only case and the signs around it may differ. Words that every text has are none, however they are written.

    >>> sorted(find_particulars('The user has 3 cats in "Villa Rosa", Oslo; Dana uses snake_case.'))
    ['3', 'dana', 'oslo', 'snake_case', 'villa rosa']
    """
    found = {_fold(each[0][1:-1]) for each in _QUOTED.finditer(text)}
    for word in _WORD.finditer(_QUOTED.sub(" ", text)):
        token = _OWNED.sub("", word[0].strip(_TRIM))
        if (_IDENTIFIES.search(token) or token != token.lower()) and token.lower() not in STOP_WORDS:
            found.add(_fold(token))
    return frozenset(found - {""})


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").casefold().split())
