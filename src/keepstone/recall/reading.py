"""The reader's part in a recall: it reads the question and the first hits together, and decides whether anything answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keepstone.errors import EmbedderError
from keepstone.ports.stores import Reader
from keepstone.recall.candidates import Column
from keepstone.recall.confidence import Confidence
from keepstone.recall.query import RecallQuery
from keepstone.recall.question import Question
from keepstone.text.words import only_asks
from keepstone.types import Hit

MAX_READ_HITS = 3  # further ones add nothing
MIN_CONFIDENCE, MIN_READ_CONFIDENCE = 0.1, 0.2  # without a reader and with one, unless the caller or the settings say otherwise
Positioned = list[tuple[int, Hit]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Who reads, and how sure a recall must be."""

    reader: Reader | None
    always: bool  # plain recall too
    min_confidence: float | None

    def takes_part(self, query: RecallQuery, question: Question) -> bool:
        """Whether the reader judges: it knows English questions, and takes its time only where a model call follows."""
        wanted = self.reader is not None and (query.read or self.always)
        return wanted and not question.is_foreign and only_asks(query.text, "")

    def required(self, query: RecallQuery, is_read: bool) -> float:
        """The confidence below which nothing is recalled."""
        given = self.min_confidence if query.min_confidence is None else query.min_confidence
        return given if given is not None else MIN_READ_CONFIDENCE if is_read else MIN_CONFIDENCE

    def judge(
        self,
        query: RecallQuery,
        question: Question,
        confidence: Confidence,
        sums: Column,
        hits: Positioned,
        keeps_all: bool,
        notes: tuple[str, ...],
    ) -> tuple[float, Positioned, tuple[str, ...]]:
        """The confidence, the hits and the notes once the first hits were read; no hits where the confidence is too low, unless
        all are kept. `sums` are the points of the candidates by position."""
        if self.reader is None or not hits or not self.takes_part(query, question):
            return round(confidence.any, 4), hits, notes
        first, rest = hits[:MAX_READ_HITS], hits[MAX_READ_HITS:]
        texts = [f"{hit.record.name}: {hit.content}" if hit.record.name else hit.content for _, hit in first]
        try:
            judged = np.array(self.reader(query.text, texts), dtype=np.float32)
        except EmbedderError as error:
            return round(confidence.any, 4), hits, (*notes, f"no reader took part: {error}")
        probability, scores = confidence.read(confidence.logits(sums[[position for position, _ in first]]), judged)
        silent = probability < self.required(query, is_read=True) and not keeps_all
        kept = [] if silent else _rescore(first, rest, scores.tolist(), judged.tolist())
        return round(probability, 4), kept, (*notes, f"a reader judged the first {len(first)} hits")


def _rescore(first: Positioned, rest: Positioned, scores: Sequence[float], judged: Sequence[float]) -> Positioned:
    """The hits that were read in the order of their new scores, superseded ones last, then the others; none scores higher than
    the one before it."""
    read = [
        (position, replace(hit, score=round(score, 4), signals={**hit.signals, "reader": round(logit, 4)}))
        for (position, hit), score, logit in zip(first, scores, judged, strict=True)
    ]
    read.sort(key=lambda entry: (entry[1].superseded_by is not None, -entry[1].score))
    ordered, most = [], 1.0
    for position, hit in (*read, *rest):
        most = min(most, hit.score)
        ordered.append((position, replace(hit, score=most)))
    return ordered
