"""The reader's part in a recall: it reads the question and the first candidates together, orders them and decides whether any
answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.stores import Reader
from keepstone.recall.candidates import Column
from keepstone.recall.confidence import Confidence
from keepstone.recall.query import RecallQuery
from keepstone.recall.question import Question
from keepstone.recall.supersession import JudgePairs
from keepstone.text.words import only_asks
from keepstone.types import Record

MAX_READ = 20  # candidates that are read
_READ_FIRST = 8  # of them, where the best is a fact; the others only if none of these answers
MIN_CONFIDENCE, MIN_READ_CONFIDENCE = 0.1, 0.2  # without a reader and with one, unless the caller or the settings say otherwise


@dataclass(frozen=True, slots=True)
class ReadCandidates:
    """What the reader says of the first candidates: its logits by position, the sums of all candidates that follow from them,
    and the probability that any answers."""

    logits: dict[int, float]
    sums: Column
    order: NDArray[np.int64]
    confidence: float


def read_texts(reader: Reader, question: str, texts: Sequence[str], at_once: bool = False) -> list[float]:
    """The reader's logits of the first texts: of all where they are read `at_once`, or none of those read first answers."""
    first = len(texts) if at_once else _READ_FIRST
    logits = list(reader(question, texts[:first]))
    if first < len(texts) and max(logits) <= 0:
        logits += reader(question, texts[first:])
    return logits


@dataclass(frozen=True, slots=True)
class Reading:
    """Who reads, and how sure a recall must be."""

    reader: Reader | None
    always: bool  # plain recall too
    min_confidence: float | None

    def takes_part(self, query: RecallQuery, question: Question) -> bool:
        """Whether the reader judges: it knows English questions with an answer, and takes its time only where a model call
        follows."""
        wanted = self.reader is not None and (query.read or self.always)
        return wanted and not question.is_foreign and not question.wants_overview and only_asks(query.text, "")

    def required(self, query: RecallQuery, is_read: bool) -> float:
        """The confidence below which nothing is recalled."""
        given = self.min_confidence if query.min_confidence is None else query.min_confidence
        return given if given is not None else MIN_READ_CONFIDENCE if is_read else MIN_CONFIDENCE

    def judge_pairs(self, question: str) -> JudgePairs | None:
        """Judges whether later statements replace an earlier one as what answers a question; None: the reader does not."""
        replaces = getattr(self.reader, "replaces", None)
        return None if replaces is None else partial(replaces, question=question)

    def read(
        self,
        query: RecallQuery,
        confidence: Confidence,
        sums: Column,
        order: NDArray[np.int64],
        records: Sequence[tuple[int, Record]],
        at_once: bool,
    ) -> ReadCandidates:
        """Read the question with the first candidates, given as positions and records: all `at_once`, or as many as it takes to
        find one that answers. `sums` are the points of all candidates by position, `order` their positions.

        Raises EmbedderError when the reader's model cannot be read."""
        assert self.reader is not None
        texts = [f"{record.name}: {record.content}" if record.name else record.content for _, record in records]
        judged = np.array(read_texts(self.reader, query.text, texts, at_once), dtype=np.float32)
        positions = np.array([position for position, _ in records[: len(judged)]], dtype=np.int64)
        probability, read_sums = confidence.read(sums, positions, judged)
        arranged = order[np.argsort(-read_sums[order], kind="stable")]
        return ReadCandidates(dict(zip(positions.tolist(), judged.tolist(), strict=True)), read_sums, arranged, probability)
