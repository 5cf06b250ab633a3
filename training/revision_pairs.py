"""Pairs of an earlier and a later statement for training the reader's second judgement: does the later one replace the earlier?

Made from `relations/`, `changes.tsv`, `unchanged.tsv` and `episodes.txt`, all written by hand for keepstone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from training.fit_revisions import PEOPLE, changes, episodes, fill, of_person
from training.personas import PEOPLE as NAMES
from training.personas import tidy, vary
from training.relations import Relation
from training.update_rows import with_question

SCENES = 40_000
_ROUNDS = 50  # times that each row of the two tables is drawn
_APART = 12  # rows of changes.tsv between two that are surely about different things
_OF_SELF = re.compile(r"\b(?:I|we|my|our|me|us)\b", re.IGNORECASE)
_RELATIVES = [person for person in PEOPLE if person not in NAMES and " " in person]
Pair = tuple[str, str, int]


def revision_pairs(relations: list[Relation], rng: Random) -> Iterator[Pair]:
    """Pairs (earlier, later, 1 where the later one replaces the earlier)."""
    others = episodes()
    for _ in range(SCENES):
        yield from _scene(relations, others, rng)
    rows = [(each.statements[0], each.changes[0]) for each in changes()]
    lines = (Path(__file__).parent / "unchanged.tsv").read_text(encoding="utf-8").splitlines()
    unchanged = [line.split("\t") for line in lines if line and not line.startswith("#")]
    for _ in range(_ROUNDS):
        for at, (older, newer) in enumerate(rows):
            yield vary(older, rng), _surrounded(vary(newer, rng), others, rng), 1
            for _ in range(2):
                far = (at + rng.randrange(_APART, len(rows) - _APART)) % len(rows)
                yield vary(older, rng), vary(rows[far][1], rng), 0
            relation = rng.choice(relations)
            yield vary(older, rng), vary(rng.choice([rng.choice(others), _own(relation, relation.statements, rng)]), rng), 0
        for older, newer in unchanged:
            yield vary(older, rng), vary(newer, rng), 0
            yield vary(older, rng), vary(rng.choice(rng.choice(unchanged)), rng), 0


def _scene(relations: list[Relation], others: list[str], rng: Random) -> Iterator[Pair]:
    """Something that was said, what replaces it and what does not."""
    relation = rng.choice(relations)
    value, other = rng.sample(relation.values, 2)
    person = "" if rng.random() < 0.65 else _person(rng)
    if person:
        older = tidy(fill(rng.choice(relation.about), value, other, person))
    else:
        older = fill(rng.choice(relation.statements if rng.random() < 0.85 else relation.changes), value, other)
    asked = tidy(fill(rng.choice(relation.questions_about if person else relation.questions), "", "", person))
    asked = asked if rng.random() < 0.6 else ""

    def first() -> str:
        shown = vary(older, rng)
        return with_question(asked, shown) if asked else shown

    def revision(of: str = "", by: Relation = relation) -> str:
        forms = rng.choice((by.changes, by.changes, by.changes, by.corrections, by.ends, by.ends))
        new, old = (other, value) if by is relation else rng.sample(by.values, 2)
        text = fill(rng.choice(forms), new, old)
        return of_person(text, of, rng) if of else text

    for _ in range(2):
        known_as = rng.choice(_RELATIVES) if person in NAMES and rng.random() < 0.3 else person
        yield first(), _surrounded(vary(revision(known_as), rng), others, rng), 1
    # A relative may be the person who was named before: only two names, or two relatives, are surely two people.
    stranger = next(name for name in iter(lambda: _person(rng), None) if name != person and (name in NAMES) >= (person in NAMES))
    far = [each for each in rng.sample(relations, 6) if _is_far(each, relation)]
    kept = [
        fill(rng.choice(relation.past), other, value),
        fill(rng.choice(relation.wishes), other, value),
        tidy(fill(rng.choice(relation.about), other, value, stranger)),
        _of_named(revision(), stranger, rng),
        fill(rng.choice(relation.additions or relation.past), other, value),
        *([own] if person and _OF_SELF.search(own := revision()) else []),
        *([] if person else [fill(rng.choice(relation.statements), value, other)]),
        rng.choice(others),
        *(revision(person, each) for each in far[:2]),
        *(_own(each, each.statements, rng) for each in far[2:3]),
        *(revision(rng.choice(["", stranger]), each) for each in far[3:4]),
    ]
    for newer in rng.sample(kept, min(6, len(kept))):
        yield first(), vary(newer, rng), 0


def _is_far(one: Relation, other: Relation) -> bool:
    return one.attribute != other.attribute and one.name not in other.near and other.name not in one.near


def _own(relation: Relation, templates: tuple[str, ...], rng: Random) -> str:
    return fill(rng.choice(templates), *rng.sample(relation.values, 2))


def _person(rng: Random) -> str:
    return rng.choice(PEOPLE) if rng.random() < 0.4 else rng.choice(NAMES)


def _of_named(text: str, person: str, rng: Random) -> str:
    """A change of another person, who is named: a pronoun could mean anyone."""
    told = of_person(text, person, rng)
    return told if person in told else f"{tidy(person)}: {told}"


def _surrounded(text: str, others: list[str], rng: Random) -> str:
    """At times with something else that was said in the same breath."""
    draw = rng.random()
    if draw > 0.15 or text[-1] not in ".!?":
        return text
    other = rng.choice(others)
    return f"{text} {other}" if draw < 0.08 else f"{other} {text}"
