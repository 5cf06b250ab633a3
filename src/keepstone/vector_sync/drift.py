"""Does the index hold what the store says it should? Finding where it does not, and mending it.

`examine` only reads. What the index has not heard of yet is no drift: records that changed after the cursor, as it was before
the walk began, do not count, so that nothing has to stand still meanwhile. Memory holds the numbers of records that differ, and
the vectors of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keepstone.errors import EmbedderMismatch, IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.ports.stores import Progress, Store
from keepstone.types import Finding, Scope
from keepstone.vector_sync.compare import Difference, compare
from keepstone.vector_sync.sync import CHUNK, IndexSync

CHECK = "index"
_REPAIR = "run 'keepstone index repair'"
_REACH = "see that the index runs and can be reached; until then the store itself is searched"
_SHOWN = 20  # findings; more would not help anybody


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was mended: entries put, entries dropped."""

    put: int
    dropped: int


def examine(store: Store, index: VectorIndex, feeder: IndexSync, progress: Progress | None = None) -> list[Finding]:
    """Compare every scope; what is wrong and what to do about it. An index that cannot be reached is one finding."""
    if store.embedder() is None:
        return []
    found: list[Finding] = []
    scopes = store.retention.scopes()
    for done, scope in enumerate(scopes):
        try:
            found += _findings(store, feeder, scope)
        except IndexUnavailable as error:
            return [*found[:_SHOWN], Finding(CHECK, f"{index.name} cannot be compared with the store: {error}", _REACH)]
        except EmbedderMismatch as error:
            return [Finding(CHECK, str(error), "open the store with its embedder")]
        if progress is not None:
            progress(done + 1, len(scopes))
    if len(found) > _SHOWN:
        return [*found[:_SHOWN], Finding(CHECK, f"and {len(found) - _SHOWN} more of the kind", _REPAIR)]
    return found


def _findings(store: Store, feeder: IndexSync, scope: Scope) -> Iterator[Finding]:
    number = feeder.number(scope)
    if number == 0:
        yield from _never_fed(store, feeder, scope)
        return
    if feeder.far(scope):
        yield Finding(CHECK, f"{_where(scope)}: more than {feeder.large:,} changes are not in the index yet", _REPAIR)
        return
    with feeder.opened() as (index, dimension):
        found = compare(store, index, scope, dimension, CHUNK, _nothing)
    if found:
        found = found.without(_changed(store, scope, number))
    yield from (Finding(CHECK, f"{_where(scope)}: {problem}", _REPAIR) for problem in _problems(found))


def _never_fed(store: Store, feeder: IndexSync, scope: Scope) -> Iterator[Finding]:
    """Of a scope that the index has heard nothing of, it should have nothing, and the store should have nothing either."""
    with feeder.opened() as (index, _):
        some = next(iter(index.vector_hashes(scope)), None) is not None
    waiting = store.count(scope)
    if some:
        yield Finding(CHECK, f"{_where(scope)}: entries from before it was forgotten are still in the index", _REPAIR)
    if waiting:
        yield Finding(CHECK, f"{_where(scope)}: none of its {waiting:,} memories has been put into the index yet", _REPAIR)


def _changed(store: Store, scope: Scope, number: int) -> set[int]:
    """What happened to after a number, and is no drift."""
    changes = store.changes(scope, number)
    return {*changes.removed, *(int(each) for each in changes.rows.sequences)}


def _problems(found: Difference) -> Iterator[str]:
    for sequences, problem in (
        (found.missing, "{} not in the index"),
        (found.extra, "{} in the index and should not be"),
        (found.different, "{} in the index with another vector than in the store"),
    ):
        if sequences:
            yield problem.format("1 memory is" if len(sequences) == 1 else f"{len(sequences):,} memories are")


def _where(scope: Scope) -> str:
    return f"tenant {scope.tenant}, agent {scope.agent}" + (f", user {scope.user}" if scope.user else "")


def _nothing() -> None:
    """Nobody has to be told how far a walk is that only reads."""


def repair(store: Store, index: VectorIndex, feeder: IndexSync, progress: Progress | None = None) -> Repaired:
    """Mend what differs in every scope, and nothing else. IndexUnavailable where the index cannot be reached."""
    put = dropped = 0
    scopes = store.retention.scopes()
    for done, scope in enumerate(scopes):
        fed = feeder.mend(scope)
        put, dropped = put + fed.put, dropped + fed.dropped
        if progress is not None:
            progress(done + 1, len(scopes))
    return Repaired(put, dropped)


def rebuild(
    store: Store, index: VectorIndex, feeder: IndexSync, scope: Scope | None = None, progress: Progress | None = None
) -> int:
    """Clear a scope, or every scope, in the index and put all of it in again. How many entries were put."""
    put = 0
    scopes = store.retention.scopes() if scope is None else [scope]
    for done, each in enumerate(scopes):
        put += feeder.renew(each).put
        if progress is not None:
            progress(done + 1, len(scopes))
    return put
