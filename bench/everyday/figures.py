"""The figures of the everyday benchmark: shares, rank statistics, calibration, intervals. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.everyday.asking import Answer, Answers
from bench.everyday.people import UNANSWERABLE

BINS = 10
_RESAMPLES, _SEED = 2000, 11
Values = NDArray[np.float64]


def auroc(positive: Values, negative: Values) -> float:
    """The probability that a positive score is above a negative one; ties count half.

    >>> auroc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    both = np.concatenate([positive, negative])
    _, places, counts = np.unique(both, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[places]  # the mean rank of those that tie
    above = ranks[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(above / (len(positive) * len(negative)))


def calibration_error(scores: Values, right: Values) -> float:
    """The mean distance of score and share of right ones, bin by bin, weighted by the bins' sizes.

    >>> calibration_error(np.array([0.95, 0.95]), np.array([1.0, 0.0]))
    0.45
    """
    error = sum(len(part) * abs(scores[part].mean() - right[part].mean()) for part in _parts(scores) if len(part))
    return round(float(error) / max(1, len(scores)), 10)


def bins(scores: Values, right: Values) -> list[dict[str, float]]:
    """For each tenth of the scores: how many there are, their mean, and the share that is right."""
    return [
        {
            "from": at / BINS,
            "questions": len(part),
            "score": round(float(scores[part].mean()), 4) if len(part) else 0.0,
            "right": round(float(right[part].mean()), 4) if len(part) else 0.0,
        }
        for at, part in enumerate(_parts(scores))
    ]


def _parts(scores: Values) -> Iterator[NDArray[np.intp]]:
    which = np.clip((scores * BINS).astype(int), 0, BINS - 1)
    for at in range(BINS):
        yield np.flatnonzero(which == at)


def compute_figures(asked: Sequence[Answers], resamples: int = _RESAMPLES) -> dict[str, Any]:
    """Every figure of the people asked, with its interval and the number of questions by its path."""
    sheet = _Sheet(resamples)
    answerable = [answer for each in asked for answer in each.answerable]
    sheet.share("answerable.first", [answer.first for answer in answerable])
    sheet.share("answerable.five", [answer.among for answer in answerable])
    few = [answer for answer in answerable if answer.question.few_words]
    sheet.share("answerable.few_words.first", [answer.first for answer in few])
    sheet.share("answerable.few_words.five", [answer.among for answer in few])
    unanswerable = [answer for each in asked for answer in each.unanswerable]
    sheet.share("unanswerable.silent", [answer.silent for answer in unanswerable])
    kinds = {kind: [answer for answer in unanswerable if answer.question.kind == kind] for kind in UNANSWERABLE}
    for kind, part in kinds.items():
        sheet.share(f"unanswerable.{kind}", [answer.silent for answer in part])
    for name, part in {"unanswerable": unanswerable, **kinds}.items():
        sheet.compare(f"auroc.{name}", answerable, part)
    sheet.calibrate("calibration", [answer for answer in (*answerable, *unanswerable) if not answer.silent])
    updates = [pair for each in asked for pair in each.updates]
    sheet.share("updates.new_first", [answer.first for _, answer in updates])
    sheet.share("updates.new_five", [answer.among for _, answer in updates])
    sheet.share("updates.no_words.new_first", [answer.first for update, answer in updates if update.no_words])
    sheet.share("traps.needed_five", [answer.among for each in asked for answer in each.traps])
    times = [answer for each in asked for answer in each.times]
    sheet.share("times.five", [answer.among for answer in times])
    sheet.share("times.first", [answer.first for answer in times])
    sheet.share("instructions.in_context", [there for each in asked for _, there in each.instructions])
    sheet.share("contradictions.found", [found for each in asked for _, found in each.contradictions])
    sheet.share("contradictions.found_stored", [found for each in asked for _, found in each.stored_contradictions])
    alarms, held = sum(each.alarms for each in asked), sum(each.held for each in asked)
    sheet.share("contradictions.false_alarms", [True] * alarms + [False] * (held - alarms))
    return sheet.figures


class _Sheet:
    """Figures under their paths, each with its interval and the number of questions it rests on."""

    def __init__(self, resamples: int) -> None:
        self.figures: dict[str, Any] = {"intervals": {}, "questions": {}}
        self._resamples = resamples

    def share(self, path: str, held: Sequence[bool]) -> None:
        values = np.array(held, dtype=float)
        self._note(path, len(values), lambda draw: float(values[draw(len(values))].mean()))

    def compare(self, path: str, positive: Sequence[Answer], negative: Sequence[Answer]) -> None:
        high, low = _scores(positive), _scores(negative)
        self._note(path, min(len(high), 1) * len(low), lambda draw: auroc(high[draw(len(high))], low[draw(len(low))]))

    def calibrate(self, path: str, answers: Sequence[Answer]) -> None:
        scores, right = _scores(answers), np.array([answer.first for answer in answers], dtype=float)

        def error(draw: Callable[[int], NDArray[np.intp]]) -> float:
            drawn = draw(len(scores))
            return calibration_error(scores[drawn], right[drawn])

        self._note(f"{path}.error", len(scores), error)
        self.figures[path]["bins"] = bins(scores, right)

    def _note(self, path: str, questions: int, figure: Callable[[Callable[[int], NDArray[np.intp]]], float]) -> None:
        """Put a figure under its path, with the 95 % interval of questions drawn anew; nothing where there is no question."""
        if not questions:
            return
        *above, name = path.split(".")
        part = self.figures
        for step in above:
            part = part.setdefault(step, {})
        part[name] = round(figure(np.arange), 4)
        self.figures["questions"][path] = questions
        if self._resamples:
            chance = np.random.default_rng(_SEED)
            drawn = [figure(lambda size: chance.integers(0, size, size)) for _ in range(self._resamples)]
            self.figures["intervals"][path] = [round(float(bound), 4) for bound in np.percentile(drawn, [2.5, 97.5])]


def _scores(answers: Sequence[Answer]) -> Values:
    return np.array([answer.score for answer in answers], dtype=float)


def at(figures: dict[str, Any], path: str) -> Any:
    """A figure by its path; None where it is not there."""
    found: Any = figures
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


ROWS = {
    "answerable.first": "answerable: right one first",
    "answerable.five": "answerable: among five",
    "answerable.few_words.first": "… that share at most one word with the fact: first",
    "answerable.few_words.five": "… among five",
    "unanswerable.unrelated": "unanswerable, kept silent: unrelated",
    "unanswerable.premise": "… false premise",
    "unanswerable.attribute": "… attribute never said",
    "auroc.unanswerable": "AUROC, answerable against unanswerable",
    "auroc.unrelated": "… against unrelated",
    "auroc.premise": "… against false premise",
    "auroc.attribute": "… against attribute never said",
    "calibration.error": "calibration error of the best hit's score",
    "updates.new_first": "updates: new statement first",
    "updates.no_words.new_first": "… that shares no words with the old",
    "updates.new_five": "… new statement among five",
    "traps.needed_five": "traps: what is needed among five",
    "times.five": "time questions: right one among five",
    "times.first": "… right one first",
    "instructions.in_context": "standing instructions in context()",
    "contradictions.found": "contradictions found by upkeep.verify, said in a message",
    "contradictions.found_stored": "… remembered like the statement",
    "contradictions.false_alarms": "… false alarms, a true statement",
}
