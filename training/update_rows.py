"""Statements and what is asked of them, written row by row: `updates/*.tsv` and `answers/*.tsv`.

The columns of `updates` are the attribute, an earlier statement, a later one that replaces it in other words, two questions about
now, a later statement that replaces nothing, a question about the same subject that none of them answers, and a question with a
false premise. Those of `answers` are the attribute, a statement, a question that it answers, the same asked without its words, a
task that needs it, a statement about the same subject that does not answer, one that tells the attribute of somebody or something
else, a question that none of them answers, and one with a false premise.

Rows are drawn into stores of people who said all of it. What a question, or a statement, is most like in its store and what does
not answer or replace it is what the reader meets in a recall: those are the negative pairs. Others tell of the same person or
thing: what another row tells, with its name changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from keepstone.embedders.registry import make_embedder
from keepstone.ports.vectors import embed_texts
from training.personas import vary

Pair = tuple[str, str, int]
UNLABELLED = 255  # in place of a label
_ROUNDS = 6  # times that each row is drawn
_STORE = 35  # rows of a store
_SAME = 0.5  # similarity of two questions from which they may ask for the same
_SAMPLE = 6000  # statements of other rows among which those most like a text are looked for, to be labelled by a teacher
_NAME = re.compile(r"\b[A-Z][a-zà-ÿ]{2,}\b")
_NO_NAMES = frozenset(
    "The This That They There Then What When Where Which Who Why How Does Did Should Can Could Will Would Are Has Have Had Our "
    "My Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August September "
    "October November December Christmas Easter".split()
)


class UpdateRow(NamedTuple):
    """A row of `updates`."""

    attribute: str
    earlier: str
    later: str
    question: str
    reworded: str
    not_replacing: str
    never_said: str
    false_premise: str

    @property
    def told(self) -> tuple[str, str, str]:
        """What is said: what may answer first."""
        return self.later, self.earlier, self.not_replacing

    @property
    def answered(self) -> tuple[str, ...]:
        """The columns of the questions that have an answer."""
        return "question", "reworded"


class AnswerRow(NamedTuple):
    """A row of `answers`."""

    attribute: str
    statement: str
    question: str
    reworded: str
    task: str
    near: str
    other: str
    never_said: str
    false_premise: str

    @property
    def told(self) -> tuple[str, str, str]:
        return self.statement, self.near, self.other

    @property
    def answered(self) -> tuple[str, ...]:
        return "question", "reworded", "task"


Row = UpdateRow | AnswerRow


def _read(folder: str, names: str = "") -> Iterator[list[str]]:
    paths = sorted((Path(__file__).parent / folder).glob("*.tsv"))
    for path in [path for path in paths if not names or path.stem in names.split(",")]:
        lines = path.read_text(encoding="utf-8").splitlines()
        yield from (line.split("\t") for line in lines if line and not line.startswith("#"))


def load_updates(names: str = "") -> list[UpdateRow]:
    """The rows of `updates`; `names`: of these files only, separated by commas."""
    return [UpdateRow(*row) for row in _read("updates", names)]


def load_answers() -> list[AnswerRow]:
    """Every row of `answers`."""
    return [AnswerRow(*row) for row in _read("answers")]


def with_question(question: str, older: str) -> str:
    """The first text of a pair of statements that are read for a question."""
    return f"{question} {older}"


def find_name(row: Row) -> str:
    """A name that stands in what the row tells first and in a question; "" where there is none."""
    told = row.earlier if isinstance(row, UpdateRow) else row.statement
    asked = f"{row.question} {row.reworded} {row.never_said}"
    return next((name for name in _NAME.findall(told) if name not in _NO_NAMES and re.search(rf"\b{name}\b", asked)), "")


class Stores:
    """Draws stores of rows and the pairs of each."""

    def __init__(self, rows: list[UpdateRow] | list[AnswerRow]) -> None:
        self._rows: list[Row] = list(rows)
        self._names = [find_name(row) for row in rows]
        embedder = make_embedder("auto")

        def embed(texts: list[str]) -> np.ndarray:
            return np.stack([np.asarray(vector) for vector in embed_texts(embedder, texts, "document")])

        columns = rows[0]._fields[1:]
        self._vectors = {column: embed([getattr(row, column) for row in rows]) for column in columns}
        self._told = [embed([row.told[part] for row in rows]) for part in range(3)]

    def pairs(self, rng: Random) -> tuple[list[Pair], list[Pair]]:
        """Pairs (question, statement, 1 where it answers) and, of updates, (earlier, later, 1 where it replaces)."""
        answers: list[Pair] = []
        replacements: list[Pair] = []
        for _ in range(_ROUNDS):
            order = rng.sample(range(len(self._rows)), len(self._rows))
            for at in range(0, len(order), _STORE):
                store = order[at : at + _STORE]
                for number in store:
                    answers += self._answers(number, store, rng)
                    replacements += self._replacements(number, store, rng)
        return answers, replacements

    def _like(self, number: int, column: str, store: list[int], count: int) -> list[str]:
        """What others in the store said that is most like a text of this row; not of rows that may be about the same."""
        row = self._rows[number]
        others = np.array([each for each in store if self._rows[each].attribute != row.attribute], dtype=np.intp)
        asked = self._vectors["question"]
        others = others[asked[others] @ asked[number] < _SAME]
        if column in ("never_said", "false_premise"):
            others = others[asked[others] @ self._vectors[column][number] < _SAME]
        if not len(others):  # the last store may have a single row
            return []
        points = np.concatenate([told[others] @ self._vectors[column][number] for told in self._told])
        best = np.argsort(-points)[:count]
        return [self._rows[int(others[at % len(others)])].told[at // len(others)] for at in best.tolist()]

    def _renamed(self, number: int, column: str, rng: Random, count: int) -> list[str]:
        """What other rows tell of a person or thing, told of this row's; the most like a text of this row among some."""
        name, row = self._names[number], self._rows[number]
        if not name:
            return []
        others = [each for each in rng.sample(range(len(self._rows)), 60) if self._names[each]]
        asked = self._vectors["question"]
        others = [each for each in others if self._rows[each].attribute != row.attribute and asked[each] @ asked[number] < _SAME]
        told = [(each, rng.randrange(3)) for each in others]
        told.sort(key=lambda entry: -float(self._told[entry[1]][entry[0]] @ self._vectors[column][number]))
        texts = [re.sub(rf"\b{self._names[each]}\b", name, self._rows[each].told[part]) for each, part in told[: 3 * count]]
        return rng.sample(texts, min(count, len(texts)))

    def unlabelled(self, rng: Random, count: int) -> tuple[list[Pair], list[Pair]]:
        """Questions, and earlier statements, with what is most like them of other rows: only a teacher says which answers or
        replaces."""
        answers, replacements = [], []
        for at in range(0, len(self._rows), 1000):
            sample = rng.sample([(row, part) for row in range(len(self._rows)) for part in range(3)], _SAMPLE)
            told = np.stack([self._told[part][row] for row, part in sample])
            for number in range(at, min(at + 1000, len(self._rows))):
                row = self._rows[number]

                def alike(
                    column: str, most: int, number: int = number, sample: list = sample, told: np.ndarray = told
                ) -> list[str]:
                    points = told @ self._vectors[column][number]
                    near = np.argpartition(-points, most)[:most].tolist()
                    return [self._rows[row].told[part] for row, part in (sample[each] for each in near)]

                for column in (rng.choice(row.answered), rng.choice(row.answered), rng.choice(("never_said", "false_premise"))):
                    asked = vary(getattr(row, column), rng)
                    answers += [(asked, vary(text, rng), UNLABELLED) for text in alike(column, count)]
                    answers += [(asked, vary(text, rng), UNLABELLED) for text in rng.sample(row.told, 1)]
                if isinstance(row, UpdateRow):
                    asked = rng.choice(("", row.question, row.reworded))
                    first = with_question(asked, row.earlier) if asked else row.earlier
                    near = {*alike("earlier", count // 2), *alike("question", count // 2)}
                    replacements += [(first, vary(text, rng), UNLABELLED) for text in sorted(near)]
        return answers, replacements

    def _answers(self, number: int, store: list[int], rng: Random) -> Iterator[Pair]:
        row = self._rows[number]
        column = rng.choice(row.answered)
        asked = vary(getattr(row, column), rng)
        answer, second, third = row.told
        yield asked, vary(answer, rng), 1
        if isinstance(row, UpdateRow):
            if rng.random() < 0.6:
                yield asked, vary(second, rng), 1
        elif column != "task":  # what helps with a task is not always plain
            yield asked, vary(second, rng), 0
        if column != "task":
            yield asked, vary(third, rng), 0
        near = self._like(number, column, store, 8)
        like = [*rng.sample(near, min(4, len(near))), *self._renamed(number, column, rng, 2)]
        yield from ((asked, vary(text, rng), 0) for text in like)
        for column in ("never_said", "false_premise"):
            asked = vary(getattr(row, column), rng)
            told = [*rng.sample(row.told, 2), *self._like(number, column, store, 4)[:1]]
            told += self._renamed(number, column, rng, 2)
            yield from ((asked, vary(text, rng), 0) for text in told)

    def _replacements(self, number: int, store: list[int], rng: Random) -> Iterator[Pair]:
        row = self._rows[number]
        if not isinstance(row, UpdateRow):
            return
        asked = rng.choice(("", row.question, row.question, row.question, row.reworded))
        older = vary(row.earlier, rng)
        first = with_question(asked, older) if asked else older
        yield first, vary(row.later, rng), 1
        yield first, vary(row.not_replacing, rng), 0
        like = {*self._like(number, "earlier", store, 5), *self._like(number, "question", store, 5)}
        told = [*rng.sample(sorted(like), min(4, len(like))), *self._renamed(number, "earlier", rng, 3)]
        yield from ((first, vary(text, rng), 0) for text in told)
