"""Giving records the vectors they wait for. Imports: ports, vectors, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.errors import EmbedderError
from recollect.ports import Embedder, Matrix, Pending, Progress, Store
from recollect.vectors import embedded

BATCH = 256
_TRIES = 8


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """How many records got a vector, and which could not be embedded, with the reason."""

    embedded: int
    failed: int
    problem: str | None = None


def reembed(store: Store, embedder: Embedder, progress: Progress | None) -> ReembedReport:
    """Embed all pending records of a store, a batch at a time. A text that cannot be embedded holds up no other."""
    done, after = 0, 0
    problem: str | None = None
    total = store.pending_count()
    while waiting := store.pending(BATCH, after):
        after = waiting[-1].sequence
        pairs, trouble = _embedded(embedder, waiting)
        problem = trouble or problem
        done += store.attach(pairs) if pairs else 0
        if progress is not None:
            progress(done, max(total, done))
        if not pairs:
            break  # not one of a batch: the embedder is down
    left = store.pending_count() if problem else 0
    return ReembedReport(done, left, problem)


def _embedded(embedder: Embedder, waiting: Sequence[Pending]) -> tuple[list[tuple[Pending, Matrix]], str | None]:
    """Vectors of a batch; if the batch fails, of each text alone, giving up when the first few all fail."""
    try:
        vectors = embedded(embedder, [each.content for each in waiting])
        return list(zip(waiting, vectors, strict=True)), None
    except EmbedderError as error:
        problem = str(error)
    pairs: list[tuple[Pending, Matrix]] = []
    for tried, each in enumerate(waiting):
        try:
            pairs.append((each, embedded(embedder, [each.content])[0]))
        except EmbedderError as error:
            problem = str(error)
            if not pairs and tried >= _TRIES:
                break
    return pairs, problem
