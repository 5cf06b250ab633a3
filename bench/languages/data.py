"""Reads the facts and questions of a language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SPLITS = ("development", "test")
NAMES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "pt": "Portuguese", "it": "Italian", "nl": "Dutch",
    "pl": "Polish", "ru": "Russian", "tr": "Turkish", "ar": "Arabic", "zh": "Chinese", "ja": "Japanese", "ko": "Korean",
    "th": "Thai",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Statement:
    """What a user said, and the day."""

    text: str
    said: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the text that answers it; "" where nothing does. `kind` names the figure it counts for."""

    kind: str
    text: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Store:
    """What one store is told, and what it is asked."""

    name: str
    statements: tuple[Statement, ...]
    questions: tuple[Question, ...]


def load_language(language: str, split: str) -> Store:
    """The facts of a language, and its questions: answerable (some share a word with the fact), in English, unanswerable, and
    about what has changed."""
    data = _read(split, language)
    facts, updates = data["facts"], data["updates"]
    told = [Statement(each["text"], each["said"]) for each in facts]
    told += [Statement(each[which]["text"], each[which]["said"]) for each in updates for which in ("old", "new")]
    asked = [Question("own_word" if each.get("shares_word") else "own", each["question"], each["text"]) for each in facts]
    asked += [Question("cross", each["english"], each["text"]) for each in facts if "english" in each]
    for each in updates:
        asked.append(Question("update_shared" if each["shares_words"] else "update_other", each["question"], each["new"]["text"]))
    asked += [Question(kind, text) for kind in ("unrelated", "false_premise", "never_said") for text in data[kind]]
    return Store(language, tuple(sorted(told, key=lambda each: each.said)), tuple(asked))


def load_mixed(split: str) -> Iterator[Store]:
    """Stores with facts in several languages; half of the questions are in another language than the fact."""
    for data in _read(split, "mixed")["stores"]:
        facts = data["facts"]
        told = (Statement(each["text"], each["said"]) for each in facts)
        kinds = ("mixed_same" if each["asked_in"] == each["language"] else "mixed_other" for each in facts)
        asked = (Question(kind, each["question"], each["text"]) for kind, each in zip(kinds, facts, strict=True))
        yield Store(data["about"], tuple(told), tuple(asked))


def _read(split: str, name: str) -> Any:
    return json.loads((FOLDER / split / f"{name}.json").read_text(encoding="utf-8"))
