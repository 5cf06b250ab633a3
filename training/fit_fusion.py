"""Fits the weights of the ranking and writes src/keepstone/recall/weights.json.

    python -m training.fit_fusion --longmemeval longmemeval_s_dev50.json.xz [--locomo locomo10.json.xz]

Fitted on the 50 development questions of LongMemEval-S, each in its own haystack and all in one store of 2,321 sessions, and
on the conversations in bench/data/conversations. LoCoMo, if given, is only measured. The figures for "own" are of each half of
those conversations under weights fitted without it; those for LongMemEval are of questions that were fitted on.
The scores are calibrated on the development half of `bench everyday` (--calibrate does only that).
Listwise: every turn that answers must beat all that do not, the loss is the negative logarithm of its softmax share.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.datasets import OWN, Case, load
from bench.everyday import people as everyday
from bench.everyday.people import Person
from bench.quality import fill
from keepstone import Memory
from keepstone.recall import explain, fusion
from keepstone.recall.features import NAMES
from keepstone.recall.query import RecallQuery

WEIGHTS = Path(fusion.__file__).parent / "weights.json"
# Messages all have the same importance, and few questions date themselves by an event, so the data say little about these.
BY_HAND = {"importance": 0.6, "event": 0.8}
_FIGURES = ("any@5", "all@5", "any@10", "all@10", "frac@10")
SHRINK = 3e-4  # pulls weights towards 0
PRESENT = 0.2  # how much a turn counts against the gold ones of its own session, where sessions are what is scored


@dataclass(frozen=True, slots=True)
class Problem:
    """One question: the signals of its candidates, which of them are gold, and how much each of the others counts."""

    values: NDArray[np.float32]
    gold: NDArray[np.int64]
    against: NDArray[np.float64]
    sessions: NDArray[np.int64]
    gold_sessions: frozenset[int]
    missing: int  # gold turns that were no candidates


def problems(case: Case) -> list[Problem]:
    """What ranking measures for every question of a case that has marked turns."""
    found = []
    with Memory.open(":memory:") as memory:
        places, _ = fill(memory, case)
        engine, scope = memory._engine, memory.scope
        sequences = {engine.store.sequence_of(scope, id): unit for id, unit in places.items()}
        of_session = {turn.unit: at for at, session in enumerate(case.sessions) for turn in session.turns}
        for question in case.questions:
            gold = question.gold_turns if case.unit == "session" else question.gold
            if not gold:
                continue
            query = RecallQuery.parse(question.text, limit=100, kinds={"message"}, min_similarity=0, asked_at=question.asked)
            ranking = engine.recalling.rank(scope, query)
            turns = [sequences[int(each)][1] for each in ranking.view.sequences[ranking.features.slots]]
            sessions = np.array([of_session[turn] for turn in turns])
            at = np.array([place for place, turn in enumerate(turns) if turn in gold], dtype=np.int64)
            gold_sessions = frozenset(of_session[turn] for turn in gold)
            against = np.ones(len(turns))
            if case.unit == "session":
                against[np.isin(sessions, list(gold_sessions))] = PRESENT
            against[at] = 0.0
            found.append(Problem(ranking.features.values.copy(), at, against, sessions, gold_sessions, len(gold) - len(at)))
    return found


def pooled(cases: Sequence[Case]) -> Case:
    """Many cases as one store. Sessions that several have are taken once."""
    sessions = {session.unit: session for case in cases for session in case.sessions}
    return Case("pooled", cases[0].unit, tuple(sessions.values()), tuple(each for case in cases for each in case.questions))


def renamed(case: Case) -> Case:
    """A case whose units are its own, so that it can be pooled."""

    def unit(name: str) -> str:
        return f"{case.name}/{name}"

    sessions = tuple(
        replace(session, unit=unit(session.unit), turns=tuple(replace(turn, unit=unit(turn.unit)) for turn in session.turns))
        for session in case.sessions
    )
    questions = tuple(
        replace(each, gold=frozenset(map(unit, each.gold)), gold_turns=frozenset(map(unit, each.gold_turns)))
        for each in case.questions
    )
    return replace(case, sessions=sessions, questions=questions)


def fit(groups: Sequence[tuple[Sequence[Problem], float]], keep: Iterable[str] = NAMES) -> NDArray[np.float64]:
    """The weights with the least loss; each group of problems counts as its share says, however many they are."""
    keep = set(keep)
    total = sum(share for _, share in groups)
    rows = [(each, share / total / len(group)) for group, share in groups for each in group if len(each.gold)]
    values = np.concatenate([each.values for each, _ in rows]).astype(np.float64)
    free = np.array([name in keep and name not in BY_HAND for name in NAMES])
    by_hand = [BY_HAND.get(name, 0.0) if name in keep else 0.0 for name in NAMES]
    sizes = [len(each.values) for each, _ in rows]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    which = np.repeat(np.arange(len(rows)), sizes)
    against = np.concatenate([each.against for each, _ in rows])
    gold = np.concatenate([start + each.gold for start, (each, _) in zip(starts, rows, strict=True)])
    owner = which[gold]
    counts = np.array([count / len(each.gold) for each, count in rows])[owner]

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        sums = values @ weights
        highest = np.maximum.reduceat(sums, starts)
        powers = np.exp(sums - highest[which])
        others = np.add.reduceat(powers * against, starts)
        share = powers[gold] / (powers[gold] + others[owner])
        push = powers * against * np.bincount(owner, counts / (powers[gold] + others[owner]), minlength=len(rows))[which]
        np.add.at(push, gold, -counts * (1 - share))
        slope = push @ values + 2 * SHRINK * weights
        return float(-(counts * np.log(share + 1e-300)).sum() + SHRINK * weights @ weights), np.where(free, slope, 0.0)

    found = minimize(loss, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.where(free, found.x, by_hand)


def measured(group: Sequence[Problem], weights: NDArray[np.float64], unit: str) -> tuple[float, ...]:
    """any@5, all@5, any@10, all@10, frac@10 of problems under weights."""
    out = []
    for each in group:
        order = np.argsort(-(each.values @ weights), kind="stable")
        if unit == "session":
            ranked: list[int] = list(dict.fromkeys(each.sessions[order[:50]].tolist()))
            gold: frozenset[int] | set[int] = each.gold_sessions
            count = len(gold)
        else:
            ranked, gold, count = order.tolist(), set(each.gold.tolist()), len(each.gold) + each.missing
        five, ten = len(gold & set(ranked[:5])) / count, len(gold & set(ranked[:10])) / count
        out.append((five > 0, five == 1, ten > 0, ten == 1, ten))
    return tuple(np.array(out, dtype=float).mean(axis=0).tolist())


@dataclass(frozen=True, slots=True)
class Data:
    """The problems to fit on, and LoCoMo to measure on."""

    easy: list[Problem]
    hard: list[Problem]
    own: list[list[Problem]]  # two halves
    locomo: list[Problem]

    def fit(self, keep: Iterable[str] = NAMES, without: int | None = None) -> NDArray[np.float64]:
        """Weights of these signals, all data fitted on but one half of the conversations."""
        own = [each for at, half in enumerate(self.own) if at != without for each in half]
        return fit([(self.easy, 1.0), (self.hard, 1.0), (own, 2.0)], keep)

    def report(self, title: str, weights: NDArray[np.float64], keep: Iterable[str] = NAMES, out: TextIO | None = None) -> None:
        """One line a set: any@5, all@5, any@10, all@10, frac@10, and how many gold turns were no candidates. To `out` the
        same as JSON lines."""
        crossed = [np.array(measured(half, self.fit(keep, at), "turn")) * len(half) for at, half in enumerate(self.own)]
        rows = [
            ("LongMemEval dev", measured(self.easy, weights, "session"), self.easy),
            ("dev pooled", measured(self.hard, weights, "session"), self.hard),
            ("own, crossed", tuple(sum(crossed) / sum(map(len, self.own))), [each for half in self.own for each in half]),
        ]
        if self.locomo:
            rows.append(("LoCoMo", measured(self.locomo, weights, "turn"), self.locomo))
        for name, figures, group in rows:
            shown = " ".join(f"{value:.3f}" for value in figures)
            missing = sum(each.missing for each in group)
            print(f"{title:24} {name:16} {shown}  missing {missing}", flush=True)
            if out is not None:
                rounded = {metric: round(value, 4) for metric, value in zip(_FIGURES, figures, strict=True)}
                line = {"recipe": title.strip(), "set": name, **rounded, "missing": missing, "questions": len(group)}
                out.write(json.dumps(line) + "\n")


def recipes() -> dict[str, list[str]]:
    """Parts of the ranking to measure: each group of signals alone and left out, and each signal left out."""
    base = [*explain.GROUPS["semantic"], *explain.GROUPS["keywords"]]
    found = {
        "meaning, nearest": ["nearest"],
        "words, BM25": ["words"],
        "both": ["nearest", "words"],
        "meaning, with neighbours": list(explain.GROUPS["semantic"]),
        "words, with neighbours": list(explain.GROUPS["keywords"]),
        "meaning and words": base,
        "  and who": [*base, *explain.GROUPS["speaker"]],
        "  and who, form": [*base, *explain.GROUPS["speaker"], *explain.GROUPS["form"]],
    }
    for name in NAMES:
        if name not in BY_HAND:
            found[f"without {name}"] = [each for each in NAMES if each != name]
    return found


def calibrated(people: Sequence[Person]) -> tuple[float, float]:
    """The sum at which the best hit of an everyday question is right in half of the cases, and how steeply the odds rise there,
    with the weights in force. Questions that nothing answers count; those that bring nothing do not."""
    sums: list[float] = []
    is_right: list[bool] = []
    for person in people:
        with Memory.open(":memory:") as memory:
            labels: dict[str, set[str]] = {}
            for statement in person.statements:
                receipt = memory.remember(statement.text, occurred_at=statement.said_at)
                labels.setdefault(receipt.id or "", set()).add(statement.id)
            for question in (*person.answerable, *person.unanswerable):
                query = RecallQuery.parse(question.text, asked_at=question.asked_at)
                ranking = memory._engine.recalling.rank(memory.scope, query)
                for position in ranking.order[:1]:
                    (record,) = memory._engine.store.fetch(memory.scope, ranking.sequences(ranking.order[:1]))
                    sums.append(float(ranking.sums[position]))
                    is_right.append(record is not None and not labels[record.id].isdisjoint(question.gold))
    at, right = np.array(sums), np.array(is_right)

    def loss(line: NDArray[np.float64]) -> float:
        logit = line[1] * (at - line[0])
        return float((np.logaddexp(0, logit) - right * logit).mean())

    found = minimize(loss, np.array([float(at.mean()), 0.5]), method="Nelder-Mead").x
    return float(found[0]), float(found[1])


def main() -> None:
    """Fit, print what came out, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longmemeval", type=Path)
    parser.add_argument("--calibrate", action="store_true", help="keep the weights, fit only how their sums become scores")
    parser.add_argument("--locomo", type=Path, help="measured, never fitted")
    parser.add_argument("--ablate", action="store_true", help="also fit without each signal, and print what that costs")
    parser.add_argument("--out", type=Path, help="write the figures to this file too, as JSON lines")
    parser.add_argument("--dry-run", action="store_true", help="print the weights, do not write them")
    options = parser.parse_args()
    if options.calibrate:
        calibrate()
        return
    if options.longmemeval is None:
        parser.error("--longmemeval FILE is needed to fit the weights")
    easy = load("longmemeval", options.longmemeval)
    own = [renamed(case) for case in sorted(load("own", OWN), key=lambda case: case.name)]
    halves = [[each for case in stores(half) for each in problems(case)] for half in (own[0::2], own[1::2])]
    data = Data(
        [each for case in easy for each in problems(case)],
        problems(pooled(easy)),
        halves,
        [each for case in load("locomo", options.locomo) for each in problems(case)] if options.locomo else [],
    )
    weights = data.fit()
    with contextlib.nullcontext() if options.out is None else options.out.open("w", encoding="utf-8") as out:
        data.report("all signals", weights, out=out)
        if options.ablate:
            for title, keep in recipes().items():
                data.report(title, data.fit(keep), keep, out)
    document = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    document["weights"] = {name: round(float(value), 3) for name, value in zip(NAMES, weights, strict=True)}
    print(json.dumps(document))
    if not options.dry_run:
        WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        calibrate()


def calibrate() -> None:
    """Fit how sums become scores with the weights in force, and write it."""
    fusion.weights.cache_clear()
    half, steepness = calibrated(everyday.load("development"))
    document = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    document |= {"version": document["version"] + 1, "half": round(half, 3), "steepness": round(steepness, 3)}
    WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document))


def stores(cases: Sequence[Case]) -> list[Case]:
    """Conversations of people in stores of their own, those with an assistant in one, as of one user."""
    alone = [case for case in cases if any(turn.name for session in case.sessions for turn in session.turns)]
    rest = [case for case in cases if case not in alone]
    return [*alone, pooled(rest)] if rest else alone


if __name__ == "__main__":
    main()
