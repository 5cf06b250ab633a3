"""Embedding of records without a vector, and the move of a store to another embedder.

The new vectors are stored next to those in use, a batch at a time. Once all are stored, the store switches in one transaction.
An interrupted move continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.ports.stores import Embedder, Progress, Store
from keepstone.ports.values import Matrix, Pending
from keepstone.ports.vectors import embed_texts

BATCH = 256
_MAX_FAILED_TEXTS = 8  # before a batch is given up
_MAX_ROUNDS = 20  # over records written meanwhile


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """How many records got a vector, and which could not be embedded, with the reason. `moved` is False while the store still
    has its old embedder, because the new one failed."""

    embedded: int
    failed: int
    problem: str | None = None
    moved: bool = True


class Embeds(Protocol):
    """A flow that uses an embedder."""

    embedder: Embedder | None


class Reembedder:
    """Embeds the records of a store that have no vector, or all of them with another embedder, which the flows then use."""

    def __init__(self, store: Store, make_embedder: Callable[[Any], Embedder | None], flows: Sequence[Embeds]) -> None:
        self._store = store
        self._make_embedder = make_embedder
        self._flows = flows

    def run(self, spec: Any, progress: Progress | None) -> ReembedReport:
        """Embed with the embedder that `spec` names; None for the present one."""
        embedder = self._flows[0].embedder if spec is None else self._make_embedder(spec)
        if embedder is None:
            raise ConfigurationError("this memory was opened without an embedder: name one, reembed(embedder='static').")
        if spec is not None:
            return move(self._store, embedder, progress, lambda: self._use(embedder))
        if self._store.embedder() is None:
            self._store.bind_embedder(embedder.id, embedder.dimension)
        return reembed(self._store, embedder, progress)

    def _use(self, embedder: Embedder) -> None:
        self._store.bind_embedder(embedder.id, embedder.dimension)
        for flow in self._flows:
            flow.embedder = embedder


def reembed(store: Store, embedder: Embedder, progress: Progress | None) -> ReembedReport:
    """Embed all pending records of a store."""
    done, problem = _fill(store, embedder, progress, next=False)
    return ReembedReport(done, store.pending_count() if problem else 0, problem)


def move(store: Store, embedder: Embedder, progress: Progress | None, changed: Callable[[], None]) -> ReembedReport:
    """Bring a store to another embedder; `changed` is called when it has it."""
    wanted = (embedder.id, embedder.dimension)
    if store.embedder() == wanted:
        changed()
        return reembed(store, embedder, progress)
    store.prepare_embedder(*wanted)
    total = 0
    for _ in range(_MAX_ROUNDS):
        done, problem = _fill(store, embedder, progress, next=True)
        total += done
        if problem is not None and not done:
            return ReembedReport(total, store.pending_count(next=True), problem, moved=False)
        if not done or problem is not None:
            break
    left = store.change_embedder(*wanted)
    changed()
    return ReembedReport(total, left, problem if left else None)


def _fill(store: Store, embedder: Embedder, progress: Progress | None, *, next: bool) -> tuple[int, str | None]:
    """Embed pending records in batches. A text that cannot be embedded does not stop the others."""
    done, after = 0, 0
    problem: str | None = None
    total = store.pending_count(next=next)
    while waiting := store.pending(BATCH, after, next=next):
        after = waiting[-1].sequence
        pairs, trouble = _embed_batch(embedder, waiting)
        problem = trouble or problem
        done += store.attach(pairs, next=next) if pairs else 0
        if progress is not None:
            progress(done, max(total, done))
        if not pairs:
            break  # a whole batch failed: the embedder is down
    return done, problem


def _embed_batch(embedder: Embedder, waiting: Sequence[Pending]) -> tuple[list[tuple[Pending, Matrix]], str | None]:
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
            if not pairs and tried >= _MAX_FAILED_TEXTS:
                break
    return pairs, problem
