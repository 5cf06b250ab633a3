"""The scored candidates of one question, and what hits show of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Snapshot, Vector
from keepstone.recall import explain
from keepstone.recall.candidates import Column
from keepstone.recall.confidence import Confidence
from keepstone.recall.features import Features
from keepstone.recall.fusion import RelevanceThreshold
from keepstone.recall.question import Question
from keepstone.recall.supersession import MIN_CLAIM, Supersession
from keepstone.scope_index.columns import View
from keepstone.text.sentences import MAX_PASSAGE_CHARS, first_stop
from keepstone.types import Passage, Record


@dataclass(slots=True)
class Ranking:
    """The scored candidates of one question; `order` lists the positions of those that are recalled, best first: none, where the
    confidence is too low."""

    view: View
    question: Question
    features: Features
    usable: NDArray[np.bool_]
    relevance: Column
    sums: Column
    order: NDArray[np.int64]
    threshold: RelevanceThreshold
    confidence: Confidence
    min_confidence: float
    notes: tuple[str, ...]
    ranked_at: datetime
    snapshot: Snapshot | None = None
    population: int | None = None  # records of the scope, where only a part of it was scored
    superseded: Supersession | None = None
    passed: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # what is recalled without a reader
    vector: Vector | None = None  # of the question, where the judgement of replacements reads such vectors
    read: dict[int, float] = field(default_factory=dict)  # what the reader says of candidates, by position

    @property
    def sureness(self) -> float:
        """The probability that a hit answers."""
        return round(self.confidence.any, 4)

    def sequences(self, positions: NDArray[np.int64]) -> list[int]:
        """The sequences of candidates."""
        found: list[int] = self.view.sequences[self.features.slots[positions]].tolist()
        return found

    def show(self, position: int, record: Record | None) -> tuple[Record, Passage | None] | None:
        """A record as a hit shows it: of a long text the passage that it was ranked by."""
        if record is None or len(record.content) <= MAX_PASSAGE_CHARS:
            return None if record is None else (record, None)
        slot = int(self.features.shown[position])
        start, stop = int(self.view.passage_starts[slot]), int(self.view.passage_stops[slot]) or first_stop(record.content)
        text = record.content[start:stop]
        return record.with_(content=text, blocks=None), Passage(text, start, stop, len(record.content))

    def signals(self, positions: NDArray[np.int64]) -> list[dict[str, float]]:
        """The parts of candidates' scores by name."""
        signals = explain.hit_signals(self.features, positions, self.relevance)
        points = {} if self.superseded is None else self.superseded.points
        for position, parts in zip(positions.tolist(), signals, strict=True):
            if position in points:
                parts["current"] = points[position]
            if position in self.read:
                parts["reader"] = round(self.read[position], 4)
        return signals

    def superseded_by(self, position: int) -> str | None:
        """The id of the record that replaces a candidate."""
        replacement = None if self.superseded is None else self.superseded.replacements.get(position)
        return None if replacement is None or replacement.probability < MIN_CLAIM else replacement.newer_id
