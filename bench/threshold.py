"""What the threshold of recall keeps out and what it costs. Run with `python -m bench quality --dataset own --curve`.

Beside the questions that a conversation answers, two kinds are asked which it does not: `absent` ones about the same people
and topics, and `unrelated` ones, which belong to other conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Protocol

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from bench.datasets import Case, Question
from bench.retrieval import Asked, Found, means, rank_units, scored
from keepstone.recall.fusion import RelevanceThreshold, chance_relevance

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(46))
UNRELATED = 200  # questions in all
SIZES = (10, 100, 1000, 2700)  # turns a store
STORES = 10  # of each size
FIRST = 5  # hits a question
_SEED = 11


class Results(Protocol):
    """What a run of cases gives back."""

    @property
    def asked(self) -> list[Asked]:
        """The questions with their hits."""
        ...


def measure(cases: Sequence[Case], run: Callable[[Sequence[Case]], Results]) -> dict[str, Any]:
    """The curve, the default threshold as it really is, and what chance reaches in stores of several sizes.
    `run` asks for the first five hits of every question."""
    asked = run(with_unrelated(cases)).asked
    usual = {"threshold": round(float(np.mean([chance_relevance(_turns(case)) for case in cases])), 4)}
    sizes = [by_size(cases, size, run) for size in SIZES] if len(cases) > 1 else []
    return {"curve": curve(asked), "default_gate": usual | default(asked), "by_size": sizes}


def _turns(case: Case) -> int:
    return sum(len(session.turns) for session in case.sessions)


# -- questions that belong elsewhere ------------------------------------------------------------------------------
def with_unrelated(cases: Sequence[Case]) -> list[Case]:
    """Every case with its share of 200 questions of the others: the same in every run."""
    luck = Random(_SEED)
    found = []
    for at, case in enumerate(cases):
        others = [each for other in cases if other is not case for each in other.questions]
        count = UNRELATED * (at + 1) // len(cases) - UNRELATED * at // len(cases)
        found.append(replace(case, questions=(*case.questions, *_unrelated(others, count, case.questions[0], luck))))
    return found


def _unrelated(others: Sequence[Question], count: int, like: Question, luck: Random) -> Iterator[Question]:
    """Some of the others' questions, asked here at the time of our own."""
    for each in luck.sample(others, min(count, len(others))):
        yield Question(f"unrelated:{each.id}", "unrelated", each.text, like.asked, frozenset(), absent=True)


def merge_stores(cases: Sequence[Case], size: int, first: int, luck: Random) -> Case:
    """The first so many turns of conversations, from one of them on, as one store; the last of them is never taken, and
    questions come from those of which nothing was."""
    order = [*cases[first:], *cases[:first]]
    sessions, taken, left = [], 0, size
    for case in order[:-1]:
        if not left:
            break
        taken += 1
        for session in case.sessions:
            turns = session.turns[:left]
            left -= len(turns)
            if turns:
                sessions.append(replace(session, turns=tuple(replace(turn, unit=f"{case.name}:{turn.unit}") for turn in turns)))
    others = [each for case in order[taken:] for each in case.questions]
    questions = _unrelated(others, UNRELATED // STORES, order[0].questions[0], luck)
    return Case(f"{size} turns from {order[0].name}", "turn", tuple(sessions), tuple(questions))


# -- figures ------------------------------------------------------------------------------------------------------
def groups(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """The questions by what is asked of them: unrelated, absent, answerable."""
    unrelated = [each for each in asked if each.type == "unrelated"]
    absent = [each for each in asked if each.absent and not each.gold and each.type != "unrelated"]
    return {"unrelated": unrelated, "absent": absent, "answerable": [each for each in asked if each.gold]}


def gate(found: float) -> RelevanceThreshold:
    """A gate like the default one, which opens at this relevance of the best hit."""
    usual = RelevanceThreshold.of(1000)
    return RelevanceThreshold(usual.minimum / usual.best_required * found, usual.share_of_best, found)


def curve(asked: Sequence[Asked], thresholds: Sequence[float] = THRESHOLDS) -> list[dict[str, float]]:
    """What gates would let through of the first five hits: the share of questions without an answer that bring anything
    back, and any@5 of the others. There are no unrelated questions where there is one conversation only."""

    def above_threshold(each: Asked, threshold: float) -> list[Found]:
        relevance = np.array([hit.similarity for hit in each.hits], dtype=np.float32)
        return [each.hits[at] for at in gate(threshold).select(np.arange(len(relevance)), relevance, FIRST)]

    parts = groups(asked)
    return [{"threshold": each, **_shares(parts, {id(one): above_threshold(one, each) for one in asked})} for each in thresholds]


def default(asked: Sequence[Asked]) -> dict[str, float]:
    """The same figures for what recall returns by default."""
    parts = groups(asked)
    answerable = parts["answerable"]
    nothing = round(sum(not each.default for each in answerable) / max(1, len(answerable)), 4)
    counts = {f"{name}_questions": len(part) for name, part in parts.items()}
    return {**_shares(parts, {id(each): each.default for each in asked}), "answerable_nothing_recalled": nothing, **counts}


def _shares(parts: dict[str, list[Asked]], returned: dict[int, Sequence[Found]]) -> dict[str, float]:
    found = {
        f"{name}_recalled": round(sum(bool(returned[id(each)]) for each in parts[name]) / len(parts[name]), 4)
        for name in ("unrelated", "absent")
        if parts[name]
    }
    return {
        **found,
        "any@5": means([scored(rank_units(returned[id(each)]), each.gold) for each in parts["answerable"]])["any@5"],
    }


def by_size(cases: Sequence[Case], size: int, run: Callable[[Sequence[Case]], Results]) -> dict[str, float]:
    """The best relevance that unrelated questions find in stores of a size, beside what counts as chance there."""
    luck = Random(_SEED + size)
    stores = [merge_stores(cases, size, at * len(cases) // STORES, luck) for at in range(STORES)]
    turns = round(float(np.mean([_turns(store) for store in stores])))
    asked = run(stores).asked
    best = np.array([max((hit.similarity for hit in each.hits), default=0.0) for each in asked])
    half, most = np.percentile(best, [50, 75]).tolist()
    return {
        "turns": turns,
        "questions": len(asked),
        "median": round(half, 4),
        "p75": round(most, 4),
        "chance": round(chance_relevance(turns), 4),
        "recalled": round(sum(bool(each.default) for each in asked) / max(1, len(asked)), 4),
    }


# -- tables -------------------------------------------------------------------------------------------------------
def show(found: dict[str, Any], console: Console) -> None:
    """The figures as tables."""
    points = Table(title="what brings something back, by threshold", title_justify="left", box=box.SIMPLE)
    for name in found["curve"][0]:
        points.add_column(name.removesuffix("_recalled"), justify="right", min_width=9)
    for point in found["curve"]:
        points.add_row(f"{point['threshold']:.2f}", *(f"{value:.1%}" for name, value in point.items() if name != "threshold"))
    real = found["default_gate"]
    points.add_section()
    points.add_row(
        f"default, {real['threshold']:.2f}", *(f"{real[name]:.1%}" for name in found["curve"][0] if name != "threshold")
    )
    console.print(points)
    counts = ", ".join(f"{real[f'{name}_questions']} {name}" for name in ("unrelated", "absent", "answerable"))
    nothing = f"{real['answerable_nothing_recalled']:.1%}"
    console.print(f"{counts} questions; by default {nothing} of the answerable bring nothing back", soft_wrap=True)
    console.print(f"the default threshold goes by the size of the store: {real['threshold']:.2f} is the mean", soft_wrap=True)
    if not found["by_size"]:
        return
    sizes = Table(title="best relevance of unrelated questions by size", title_justify="left", box=box.SIMPLE)
    for name in found["by_size"][0]:
        sizes.add_column(name, justify="right")
    for row in found["by_size"]:
        shown = (f"{row[name]:.2f}" for name in ("median", "p75", "chance"))
        sizes.add_row(str(row["turns"]), str(row["questions"]), *shown, f"{row['recalled']:.1%}")
    console.print(sizes)
