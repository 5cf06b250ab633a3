"""Stores on one file, and what an index should hold of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np

from keepstone.ports.stores import Store
from keepstone.ports.values import StoreOptions
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import DIMENSION, EMBEDDER, vector
from keepstone.text import times
from keepstone.types import Scope
from keepstone.vector_sync.sync import IndexSync
from tests.vector_sync.exact_index import ExactIndex


class Killed(BaseException):
    """The process ends here."""


def opened(path: Path, embedder: tuple[str, int] | None = (EMBEDDER, DIMENSION), ahead: float = 0.0) -> SqliteStore:
    """A store on a file, as one process has it open; `ahead` is how many seconds its clock is ahead."""
    clock = (lambda: times.now() + timedelta(seconds=ahead)) if ahead else times.now
    store = SqliteStore.open(str(path), StoreOptions(durable=False), clock=clock)
    if embedder is not None:
        store.bind_embedder(*embedder)
    return store


def due(store: Store, scope: Scope) -> dict[int, str]:
    """What an index should hold of a scope: the vector hash of each active record with a vector."""
    rows = store.changes(scope, 0).rows
    return {
        int(rows.sequences[at]): hashlib.blake2b(np.asarray(rows.vectors[at], dtype="<f2").tobytes(), digest_size=8).hexdigest()
        for at in range(len(rows))
        if rows.active[at] and rows.embedded[at]
    }


def hashes(index: ExactIndex, scope: Scope, space: str | None = None) -> dict[int, str]:
    """What an index does hold of a scope."""
    return {sequence: entry.vector_hash for sequence, entry in index.entries(scope, space).items()}


def in_step(store: Store, index: ExactIndex, sync: IndexSync, scope: Scope) -> bool:
    """Whether the index holds what it should: same records, same vectors, same fields, and nothing in another space."""
    space = sync.space()
    held = index.entries(scope, space)
    rows = store.index_rows(scope, sorted(held))
    fields = [(entry.kind, entry.tag, entry.session) for _, entry in sorted(held.items())]
    return (
        hashes(index, scope, space) == due(store, scope)
        and fields == list(zip(rows.kinds, rows.tags, rows.sessions, strict=True))
        and all(np.array_equal(held[int(sequence)].vector, rows.vectors[at]) for at, sequence in enumerate(rows.sequences))
        and not any(index.entries(scope, other) for other in index.spaces - {space})
    )


def embed_pending(store: Store, dimension: int = DIMENSION, salt: str = "", *, next: bool = False) -> int:
    """Give every record that waits its vector."""
    return store.attach([(each, vector(salt + each.content, dimension)) for each in store.pending(1000, next=next)], next=next)


def once(at: int, job: Callable[[], None], calls: tuple[str, ...]) -> Callable[[str], None]:
    """A hook that does a job at the `at`-th of some calls, and never again."""
    seen = [0]

    def hook(call: str) -> None:
        if call in calls:
            seen[0] += 1
            if seen[0] == at:
                job()

    return hook
