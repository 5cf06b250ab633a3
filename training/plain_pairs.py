"""Pairs of a plain question and a plain statement, made from `plain_facts.tsv`: what is asked in the words of the statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from training.personas import vary

Pair = tuple[str, str, int]
_ROUNDS = 60  # times that each line is drawn
_PEOPLE = (
    "Dana", "Marek", "Aisha", "Tom", "Ingrid", "Yusuf", "Chen", "Paula", "Viktor", "Nkechi", "my sister", "my boss",
    "our neighbour", "my brother Leo", "my wife", "Uncle Pete", "my flatmate", "Dr. Sato", "the new intern", "my mother",
    "Grandpa",
)  # fmt: skip


class PlainFact(NamedTuple):
    """A verb, its third person, what stands before an object, the question word, what follows the verb in a question, objects."""

    verb: str
    third: str
    before: str
    asks: str
    after: str
    objects: tuple[str, ...]

    def tell(self, subject: str, value: str) -> str:
        """The statement."""
        words = (subject, self.verb if subject in ("I", "we") else self.third, self.before, value)
        text = " ".join(word for word in words if word)
        return text[0].upper() + text[1:] + "."

    def ask(self, subject: str) -> str:
        """The question."""
        words = (self.asks, "do" if subject in ("I", "we") else "does", subject, self.verb, self.after)
        return " ".join(word for word in words if word) + "?"


def load_plain_facts() -> list[PlainFact]:
    """Every line of the file."""
    lines = (Path(__file__).parent / "plain_facts.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [PlainFact(*row[:5], tuple(row[5].split(";"))) for row in rows]


def plain_pairs(rng: Random) -> Iterator[Pair]:
    """Pairs (question, statement, 1 where it answers): the statement, the same of another person, another verb."""
    facts = load_plain_facts()
    for _ in range(_ROUNDS):
        for fact in facts:
            person, other = rng.sample(_PEOPLE, 2)
            subject = "I" if rng.random() < 0.35 else person
            question, value = vary(fact.ask(subject), rng), rng.choice(fact.objects)
            yield question, vary(fact.tell(subject, value), rng), 1
            yield question, vary(fact.tell(other, value), rng), 0
            unrelated = rng.choice([each for each in facts if each.verb != fact.verb])
            yield question, vary(unrelated.tell(subject, rng.choice(unrelated.objects)), rng), 0
