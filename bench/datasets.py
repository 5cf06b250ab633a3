"""Conversations with questions about them, read from three formats into one shape.

`longmemeval` and `locomo` are read in the form their authors publish, plain or compressed; `own` is a folder of texts as in
`bench/data/conversations`. Names of sessions and turns are for scoring only: nothing of them is told to the memory.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

OWN = Path(__file__).parent / "data" / "conversations"
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_KINDS = ("people", "assistant", "group")
_MISSING = (KeyError, TypeError, AttributeError, ValueError, IndexError)


class DatasetError(ValueError):
    """A file that is not what it should be; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said; `unit` names it when turns are scored."""

    unit: str
    role: str
    text: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """Turns said at one time; `unit` names it when sessions are scored."""

    unit: str
    when: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """`gold` are the units that answer; `gold_turns` the turns within, where the units are sessions and turns are marked.
    `absent`: it has no answer in the conversation, though it may have sessions that come near one."""

    id: str
    type: str
    text: str
    asked: datetime
    gold: frozenset[str]
    gold_turns: frozenset[str] = frozenset()
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One store's worth of sessions and the questions about them; `unit` is what is scored, "session" or "turn"."""

    name: str
    unit: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]


def load(dataset: str, path: Path) -> list[Case]:
    """Every case of a dataset, in the order of the file."""
    if dataset not in READERS:
        raise DatasetError(f"there is no dataset {dataset!r}: use {', '.join(READERS)}.")
    cases = list(READERS[dataset](path))
    if not cases:
        raise DatasetError(f"{path} holds no conversation: is it the right file for {dataset}?")
    ids = [question.id for case in cases for question in case.questions]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise DatasetError(f"{path}: the question id {twice!r} comes twice: give every conversation its own name.")
    return cases


def read_text(path: Path) -> str:
    """A text file; gzip and xz are told by their first bytes, whatever the name is."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        elif data[:6] == b"\xfd7zXZ\x00":
            data = lzma.decompress(data)
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(f"{path} is not UTF-8 text, gzip or xz: is it the right file?") from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _entries(path: Path, dataset: str) -> list[Any]:
    try:
        entries = json.loads(read_text(path))
    except ValueError as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path} is not JSON ({error}): give the file as {dataset} publishes it.") from None
    if not isinstance(entries, list):
        raise DatasetError(f"{path} holds a JSON {type(entries).__name__}, not a list: is it a {dataset} file?")
    return entries


def _converted(path: Path, dataset: str, convert: Callable[[Any], Case]) -> Iterator[Case]:
    for at, entry in enumerate(_entries(path, dataset)):
        try:
            yield convert(entry)
        except _MISSING as error:
            what = f"has no {error}" if isinstance(error, KeyError) else f"cannot be read ({error})"
            raise DatasetError(f"{path}: entry {at} {what}: is it a {dataset} file?") from None


# -- LongMemEval --------------------------------------------------------------------------------------------------
def longmemeval(path: Path) -> Iterator[Case]:
    """A case a question: each has a haystack of its own. Sessions are scored, and turns where they are marked."""
    return _converted(path, "longmemeval", _haystack)


def _haystack(entry: dict[str, Any]) -> Case:
    names, dates, said = entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"]
    sessions = tuple(
        Session(name, _slashed(date), tuple(Turn(f"{name}:{at}", t["role"], t["content"]) for at, t in enumerate(turns)))
        for name, date, turns in zip(names, dates, said, strict=True)
    )
    every = ((f"{name}:{at}", turn) for name, turns in zip(names, said, strict=True) for at, turn in enumerate(turns))
    question = Question(
        id=entry["question_id"],
        type=entry["question_type"],
        text=entry["question"],
        asked=_slashed(entry["question_date"]),
        gold=frozenset(entry["answer_session_ids"]) & frozenset(names),
        gold_turns=frozenset(unit for unit, turn in every if turn.get("has_answer")),
        absent=entry["question_id"].endswith("_abs"),
    )
    return Case(question.id, "session", sessions, (question,))


def _slashed(text: str) -> datetime:
    """A time such as "2023/05/30 (Tue) 23:40"."""
    return datetime.strptime(re.sub(r"\s*\(\w+\)\s*", " ", text), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


# -- LoCoMo -------------------------------------------------------------------------------------------------------
def locomo(path: Path) -> Iterator[Case]:
    """A case a conversation of two people, asked a day after their last session. Turns are scored."""
    return _converted(path, "locomo", _sample)


def _sample(entry: dict[str, Any]) -> Case:
    talk = entry["conversation"]
    numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
    sessions = tuple(
        Session(
            str(number),
            datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
            tuple(Turn(each["dia_id"], "user", _with_photo(each), each["speaker"]) for each in talk[f"session_{number}"]),
        )
        for number in numbers
    )
    asked = max(session.when for session in sessions) + timedelta(days=1)
    there = {turn.unit for session in sessions for turn in session.turns}
    questions = tuple(
        Question(
            id=f"{entry['sample_id']}:{at}",
            type=_CATEGORIES.get(each["category"], str(each["category"])),
            text=each["question"],
            asked=asked,
            gold=frozenset(found for text in each["evidence"] for found in re.findall(r"D\d+:\d+", text)) & there,
        )
        for at, each in enumerate(entry["qa"])
    )
    return Case(entry["sample_id"], "turn", sessions, questions)


def _with_photo(turn: dict[str, Any]) -> str:
    return f"{turn['text']} [photo: {turn['blip_caption']}]" if turn.get("blip_caption") else str(turn["text"])


# -- our own ------------------------------------------------------------------------------------------------------
def own(path: Path) -> Iterator[Case]:
    """A case a text file; a folder is read in the order of its file names. Turns are scored."""
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        if not files:
            raise DatasetError(f"the folder {path} holds no .txt file: give --data a folder of conversations, or one file.")
    else:
        files = [path]
    for file in files:
        yield _Reader(file).case()


class _Reader:
    """One conversation, line by line: a head, sessions, questions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 0
        self.head: dict[str, str] = {}
        self.sessions: list[tuple[datetime, list[tuple[str, str]]]] = []
        self.asked: datetime | None = None
        self.asking: list[tuple[str, str, list[str]]] = []

    def wrong(self, why: str) -> DatasetError:
        return DatasetError(f"{self.path}:{self.line}: {why}")

    def case(self) -> Case:
        for number, line in enumerate(read_text(self.path).splitlines(), 1):
            self.line = number
            if found := re.fullmatch(r"## session (\S+ \S+)\s*", line):
                self.check_head()
                self.sessions.append((self.date(found[1]), []))
            elif found := re.fullmatch(r"## questions asked (\S+)\s*", line):
                self.asked = self.date(found[1])
            elif line.strip():
                (self.question if self.asked else self.turn if self.sessions else self.heading)(line)
        if self.asked is None or not self.sessions:
            raise self.wrong("the file ends without sessions or without '## questions asked DATE'.")
        sessions, labels = self.labelled()
        return Case(self.head["conversation"], "turn", sessions, tuple(self.questions(labels)))

    def date(self, text: str) -> datetime:
        try:
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            raise self.wrong(f"{text!r} is not a date: write 2024-03-04 18:20 for a session, 2024-09-01 for questions.") from None

    def heading(self, line: str) -> None:
        found = re.fullmatch(r"(?:# )?(\w+):\s*(.*?)\s*", line)
        if not found:
            raise self.wrong(f"{line!r:.60} is no head line: write 'kind: people', 'speakers: Ines, Tobias' …")
        self.head[found[1]] = found[2]

    def check_head(self) -> None:
        missing = [name for name in ("conversation", "kind", "speakers") if not self.head.get(name)]
        if missing:
            raise self.wrong(f"the head lacks {missing[0]!r}: write it above the first session.")
        if self.head["kind"] not in _KINDS:
            raise self.wrong(f"kind is {self.head['kind']!r:.40}: use one of {', '.join(_KINDS)}.")

    def turn(self, line: str) -> None:
        turns = self.sessions[-1][1]
        if line.startswith("  ") and turns:
            turns[-1] = (turns[-1][0], f"{turns[-1][1]}\n{line[2:]}")
            return
        speaker, _, text = line.partition(":")
        if speaker not in (name.strip() for name in self.head["speakers"].split(",")):
            raise self.wrong(f"{speaker!r:.40} is not among the speakers: name them in the head, or indent by two spaces.")
        turns.append((speaker, text.strip()))

    def question(self, line: str) -> None:
        found = re.fullmatch(r"- ([\w-]+) \| (.+?) =>(.*)", line.rstrip())
        if not found:
            raise self.wrong(f"{line!r:.60} is no question: write '- kind | question? => label, label'.")
        labels = [label.strip() for label in found[3].split(",") if label.strip()]
        if (found[1] == "absent") == bool(labels):
            raise self.wrong("an absent question has no labels, every other has at least one.")
        self.asking.append((found[1], found[2], labels))

    def labelled(self) -> tuple[tuple[Session, ...], dict[str, str]]:
        """The sessions without the labels at the end of turns, and the turn that each label names."""
        labels: dict[str, str] = {}
        sessions = []
        for number, (when, said) in enumerate(self.sessions, 1):
            turns = []
            for at, (speaker, text) in enumerate(said, 1):
                unit = f"{number}:{at}"
                if found := re.search(r"\s*\{([a-z0-9-]+)\}\s*$", text):
                    if labels.setdefault(found[1], unit) != unit:
                        raise self.wrong(f"the label {{{found[1]}}} comes twice: labels are unique in a file.")
                    text = text[: found.start()]
                talks = self.head["kind"] == "assistant"
                turns.append(Turn(unit, speaker if talks else "user", text, None if talks else speaker))
            sessions.append(Session(str(number), when, tuple(turns)))
        return tuple(sessions), labels

    def questions(self, labels: dict[str, str]) -> Iterator[Question]:
        assert self.asked is not None
        for at, (kind, text, named) in enumerate(self.asking):
            unknown = [label for label in named if label not in labels]
            if unknown:
                raise self.wrong(f"no turn ends with {{{unknown[0]}}}, which {text!r:.60} names.")
            gold = frozenset(labels[label] for label in named)
            yield Question(f"{self.head['conversation']}:{at}", kind, text, self.asked, gold, absent=kind == "absent")


READERS: dict[str, Callable[[Path], Iterator[Case]]] = {"longmemeval": longmemeval, "locomo": locomo, "own": own}
