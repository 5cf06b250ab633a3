"""The people of the everyday set, read from their files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.datasets import DatasetError

ROOT = Path(__file__).parent
SPLITS = ("development", "test")
UNANSWERABLE = ("unrelated", "premise", "attribute")
_STOP_WORDS = frozenset(
    "a an the and or but if then so as of at by for from in into on onto to up out off with about than that this these those it "
    "its is am are was were be been being do does did done have has had having will would shall should can could may might must "
    "i me my mine we us our ours you your yours he him his she her hers they them their who whom whose what which when where why "
    "how there here also just very too not no never s t d ll m re ve now again still any some all more after before over".split()
)


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that was told, and when."""

    id: str
    said_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, when it is asked, and the statements that answer it. Any gold answers alone, unless `whole` asks for all of
    them. `few_words`: it shares at most one content word with each gold statement."""

    text: str
    asked_at: datetime
    gold: tuple[str, ...] = ()
    kind: str = ""
    few_words: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """A statement, a later one that replaces it, and a question about now. `no_words`: they share no content word."""

    question: Question
    old: str
    new: str
    no_words: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """A standing instruction and a task to which it applies."""

    statement: str
    task: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A statement and a later message that contradicts it. They are in a store of their own."""

    old: Statement
    new: Statement


@dataclass(frozen=True, slots=True)
class Person:
    """A person or a team: what was told, in that order, and what is asked."""

    name: str
    about: str
    statements: tuple[Statement, ...]
    answerable: tuple[Question, ...]
    unanswerable: tuple[Question, ...]
    updates: tuple[Update, ...]
    traps: tuple[Question, ...]
    times: tuple[Question, ...]
    instructions: tuple[Instruction, ...]
    contradictions: tuple[Contradiction, ...]


def content_words(text: str) -> frozenset[str]:
    """The words of a text without stop words and endings.

    >>> sorted(content_words("My sister's cats are sleeping."))
    ['cat', 'sister', 'sleep']
    """
    words = re.findall(r"[^\W_]+", re.sub(r"['’]s\b", "", text.lower()))
    return frozenset(re.sub(r"(?<=[a-z]{3})(?:ing|ed|es|s)$", "", word) for word in words if word not in _STOP_WORDS)


def load(split: str, names: Sequence[str] = ()) -> list[Person]:
    """The people of a split, or those of them that are named. Raises DatasetError for a name that is not there."""
    people = [read(path) for path in sorted((ROOT / split).glob("*.json"))]
    known = [person.name for person in people]
    for name in names:
        if name not in known:
            raise DatasetError(f"the {split} split has no {name!r}: use {', '.join(known)}.")
    return [person for person in people if not names or person.name in names]


def read(path: Path) -> Person:
    """One person. Raises DatasetError for a file that is not in the form of the set."""
    try:
        return _person(path.stem, json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(f"{path} is not in the form of the everyday set: {error!r}.") from None


def _person(name: str, entry: Mapping[str, Any]) -> Person:
    now = datetime.fromisoformat(entry["asked_at"])
    statements = tuple(_statement(each) for each in entry["statements"])
    texts = {each.id: each.text for each in statements}

    def question(each: Mapping[str, Any]) -> Question:
        gold = tuple(each.get("gold", ()))
        shared = [len(content_words(each["question"]) & content_words(texts[id])) for id in gold]
        asked_at = datetime.fromisoformat(each["asked_at"]) if "asked_at" in each else now
        return Question(
            each["question"], asked_at, gold, each.get("kind", ""), max(shared, default=0) <= 1, bool(each.get("whole"))
        )

    def update(each: Mapping[str, Any]) -> Update:
        old, new = each["old"], each["new"]
        no_words = not content_words(texts[old]) & content_words(texts[new])
        return Update(question({"question": each["question"], "gold": [new]}), old, new, no_words)

    return Person(
        name,
        entry["about"],
        statements,
        tuple(question(each) for each in entry["answerable"]),
        tuple(question(each) for each in entry["unanswerable"]),
        tuple(update(each) for each in entry["updates"]),
        tuple(question(each) for each in entry["traps"]),
        tuple(question(each) for each in entry["times"]),
        tuple(Instruction(each["statement"], each["task"]) for each in entry["instructions"]),
        tuple(Contradiction(_statement(each["old"]), _statement(each["new"])) for each in entry["contradictions"]),
    )


def _statement(entry: Mapping[str, Any]) -> Statement:
    return Statement(entry["id"], datetime.fromisoformat(entry["said_at"]), entry["text"])
