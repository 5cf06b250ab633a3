"""Asks a person's questions of a store, as a user would."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from bench.everyday.people import Contradiction, Instruction, Person, Question, Statement, Update
from keepstone import Memory, Recall

LIMIT = 5  # hits a question


@dataclass(frozen=True, slots=True)
class Answer:
    """The statements that a question brought, best first, and the score of the best; 0 where it brought nothing. A statement is
    several where the store merged them."""

    question: Question
    hits: tuple[frozenset[str], ...]
    score: float

    @property
    def silent(self) -> bool:
        """Whether nothing was recalled."""
        return not self.hits

    @property
    def first(self) -> bool:
        """Whether the best hit is gold."""
        return bool(self.hits) and not self.hits[0].isdisjoint(self.question.gold)

    @property
    def among(self) -> bool:
        """Whether a gold statement is among the hits; every one where the question needs them all."""
        recalled = set().union(*self.hits)
        needed = all if self.question.whole else any
        return needed(gold in recalled for gold in self.question.gold)


@dataclass(frozen=True, slots=True)
class Answers:
    """What a store made of everything that one person asked."""

    person: Person
    answerable: tuple[Answer, ...]
    unanswerable: tuple[Answer, ...]
    updates: tuple[tuple[Update, Answer], ...]
    traps: tuple[Answer, ...]
    times: tuple[Answer, ...]
    instructions: tuple[tuple[Instruction, bool], ...]
    contradictions: tuple[tuple[Contradiction, bool], ...]  # with a message
    stored_contradictions: tuple[tuple[Contradiction, bool], ...]  # with another memory
    alarms: int  # statements flagged though nothing contradicts them
    held: int  # statements that nothing contradicts


def ask(person: Person, embedder: str = "auto", reader: str = "auto") -> Answers:
    """Tell a store what a person said, in that order, and ask. Time questions are asked at their time, before the statements that
    were made later; the others after all statements."""
    with Memory.open(":memory:", embedder=embedder, settings={"reader": reader}) as memory:
        labels: dict[str, set[str]] = {}

        def tell(statements: Iterable[Statement]) -> None:
            for label, id in remember(memory, statements).items():
                labels.setdefault(id, set()).add(label)

        def answer(question: Question) -> Answer:
            hits = memory.recall(question.text, limit=LIMIT, asked_at=question.asked_at)
            return Answer(question, tuple(frozenset(labels[hit.id]) for hit in hits), _best_score(hits))

        times, told = [], 0
        for question in sorted(person.times, key=lambda each: each.asked_at):
            said = [each for each in person.statements[told:] if each.said_at <= question.asked_at]
            tell(said)
            told += len(said)
            times.append(answer(question))
        tell(person.statements[told:])
        texts = {each.id: each.text for each in person.statements}
        flags, held = verify(person, embedder)
        stored, _ = verify(person, embedder, as_messages=False)
        contradicted = {each.old.id for each in person.contradictions}
        return Answers(
            person,
            tuple(map(answer, person.answerable)),
            tuple(map(answer, person.unanswerable)),
            tuple((update, answer(update.question)) for update in person.updates),
            tuple(map(answer, person.traps)),
            tuple(times),
            tuple((each, contains_text(memory.context(each.task), texts[each.statement])) for each in person.instructions),
            tuple((each, each.old.id in flags) for each in person.contradictions),
            tuple((each, each.old.id in stored) for each in person.contradictions),
            len(flags - contradicted),
            held,
        )


def remember(memory: Memory, statements: Iterable[Statement]) -> dict[str, str]:
    """Store statements in the order they were told; the record of each."""
    return {each.id: memory.remember(each.text, occurred_at=each.said_at).id or "" for each in statements}


def _best_score(hits: Recall) -> float:
    return float(hits[0].score) if hits else 0.0


def contains_text(context: str, text: str) -> bool:
    """Whether a block for a prompt holds a text, without its escapes and line breaks.

    >>> shows("<memory>- [2026-01-05] Use  &lt;b&gt; for totals.</memory>", "Use <b> for totals.")
    True
    """
    return " ".join(text.split()) in " ".join(html.unescape(context).split())


def verify(person: Person, embedder: str, as_messages: bool = True) -> tuple[set[str], int]:
    """The statements that `upkeep.verify` takes for contradicted, and how many are still true. The store has the statements that
    answer a question and the old statement of each contradiction, then the new ones: as messages, or remembered like the rest."""
    gold = {id for question in person.answerable for id in question.gold}
    told = [each for each in person.statements if each.id in gold]
    old, new = [each.old for each in person.contradictions], [each.new for each in person.contradictions]
    with Memory.open(":memory:", embedder=embedder) as memory:
        ids = remember(memory, sorted([*told, *old], key=lambda each: each.said_at))
        if as_messages:
            for number, each in enumerate(new):
                memory.ingest([{"role": "user", "content": each.text, "at": each.said_at}], session=f"chat-{number}")
        else:
            ids |= remember(memory, new)
        labels = {id: label for label, id in ids.items()}
        report = memory.upkeep.verify(dry_run=True)
        named = {id for flag in report.flags if flag.flag == "contradicted" for id in (flag.id, *flag.evidence)}
        replaced = {id for id in ids.values() if (record := memory.get(id)) is None or record.status != "active"}
        return {labels[id] for id in named | replaced if id in labels} - {each.id for each in new}, len(told)
