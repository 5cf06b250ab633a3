"""Giving records the vectors they wait for, and moving a store to another embedder.

The new embedder's vectors are gathered beside those in use, a batch at a time; the old ones answer meanwhile. Once all are there
the store changes over, in one transaction. A move that was cut off goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from keepstone.errors import EmbedderError
from keepstone.ports.stores import Embedder, Progress, Store
from keepstone.ports.values import Matrix, Pending
from keepstone.ports.vectors import embed_texts

BATCH = 256
_TRIES = 8
_ROUNDS = 20  # through what was written meanwhile; what is left then waits for its vector


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """How many records got a vector, and which could not be embedded, with the reason. `moved` is False while the store still
    has its old embedder, because the new one failed."""

    embedded: int
    failed: int
    problem: str | None = None
    moved: bool = True


def reembed(store: Store, embedder: Embedder, progress: Progress | None) -> ReembedReport:
    """Embed all pending records of a store."""
    done, problem = _filled(store, embedder, progress, next=False)
    return ReembedReport(done, store.pending_count() if problem else 0, problem)


def move(store: Store, embedder: Embedder, progress: Progress | None, changed: Callable[[], None]) -> ReembedReport:
    """Bring a store to another embedder; `changed` is called when it has it."""
    wanted = (embedder.id, embedder.dimension)
    if store.embedder() == wanted:
        changed()
        return reembed(store, embedder, progress)
    store.prepare_embedder(*wanted)
    total = 0
    for _ in range(_ROUNDS):
        done, problem = _filled(store, embedder, progress, next=True)
        total += done
        if problem is not None and not done:
            return ReembedReport(total, store.pending_count(next=True), problem, moved=False)
        if not done or problem is not None:
            break
    left = store.change_embedder(*wanted)
    changed()
    return ReembedReport(total, left, problem if left else None)


def _filled(store: Store, embedder: Embedder, progress: Progress | None, *, next: bool) -> tuple[int, str | None]:
    """Embed what waits, a batch at a time. A text that cannot be embedded holds up no other."""
    done, after = 0, 0
    problem: str | None = None
    total = store.pending_count(next=next)
    while waiting := store.pending(BATCH, after, next=next):
        after = waiting[-1].sequence
        pairs, trouble = _embedded(embedder, waiting)
        problem = trouble or problem
        done += store.attach(pairs, next=next) if pairs else 0
        if progress is not None:
            progress(done, max(total, done))
        if not pairs:
            break  # not one of a batch: the embedder is down
    return done, problem


def _embedded(embedder: Embedder, waiting: Sequence[Pending]) -> tuple[list[tuple[Pending, Matrix]], str | None]:
    """Vectors of a batch; if the batch fails, of each text alone, giving up when the first few all fail."""
    try:
        vectors = embed_texts(embedder, [each.content for each in waiting])
        return list(zip(waiting, vectors, strict=True)), None
    except EmbedderError as error:
        problem = str(error)
    pairs: list[tuple[Pending, Matrix]] = []
    for tried, each in enumerate(waiting):
        try:
            pairs.append((each, embed_texts(embedder, [each.content])[0]))
        except EmbedderError as error:
            problem = str(error)
            if not pairs and tried >= _TRIES:
                break
    return pairs, problem
