"""Counts which memories were read, without delaying the read, and takes feedback on whether they helped.

Reads are counted in memory and written together by a timer a second later, and before the store is closed. Until then
`with_pending` adds them to a record, so that a process sees its own reads at once. A process that is killed loses the counts of
the last second, never a memory. Feedback moves a memory's importance within a bound, and ranking and retention read that.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.ports.forks import reset_after_fork
from keepstone.ports.stores import Store
from keepstone.types import Receipt, Record, Scope, clean_name

_FLUSH_SECONDS = 1.0
STEP = 0.1  # of importance, for one piece of feedback
MAX_SHIFT = 0.4  # of importance, however much feedback there is
_LEAST_MOVED = 0.01  # the importance next to that of what is buried
_STATE = "feedback:"  # the state that holds a record's tally, followed by its id
_TRIES = 20  # while others give feedback on the same memory
_NAMES = [field.name for field in fields(Record)]
_values, _READ_AT = attrgetter(*_NAMES), _NAMES.index("last_accessed_at")  # of a record; the count of its reads comes next


class AccessCounter:
    """Counts of reads that were not written yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        """Start empty: at first, and in a forked child, whose parent writes what was pending."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[Scope, dict[str, tuple[int | None, int, datetime]]] = {}  # id -> sequence, count, last
        self._timer: threading.Timer | None = None

    def count_reads(self, scope: Scope, records: Iterable[tuple[str, int | None]], at: datetime) -> None:
        """Count a read of each of these records, given as (id, sequence); None: the sequence is looked up when it is written."""
        read = list(records)
        if not read:
            return
        with self._lock:
            counts = self._pending.setdefault(scope, {})
            for id, sequence in read:
                counts[id] = (sequence, counts[id][1] + 1 if id in counts else 1, at)
            if self._timer is None and counts:
                self._timer = threading.Timer(_FLUSH_SECONDS, self._flush_quietly)
                self._timer.daemon = True
                self._timer.start()

    def with_pending(self, record: Record) -> Record:
        """The record with the reads that were not written yet."""
        pending = self._pending.get(record.scope, {}).get(record.id)
        if pending is None:
            return record
        values: list[Any] = [*_values(record)]  # `replace` takes twice as long
        values[_READ_AT : _READ_AT + 2] = pending[2], record.access_count + pending[1]
        return Record(*values)

    def _flush_quietly(self) -> None:
        with contextlib.suppress(KeepstoneError):  # a busy or full store: the counts wait for the next flush
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                scopes = list(self._pending)
            for scope in scopes:
                self._write(scope)

    def _write(self, scope: Scope) -> None:
        with self._lock:
            counts = dict(self._pending.get(scope, {}))
        if counts:
            numbered = {id: sequence or self._store.sequence_of(scope, id) for id, (sequence, _, _) in counts.items()}
            reads = {sequence: counts[id][1] for id, sequence in numbered.items() if sequence is not None}
            if reads:  # else all of them were forgotten meanwhile
                self._store.touch(scope, reads, max(last for _, _, last in counts.values()))
        with self._lock:
            pending = self._pending.get(scope, {})
            for id, (sequence, count, _) in counts.items():
                left = pending[id][1] - count
                if left:
                    pending[id] = (sequence, left, pending[id][2])
                else:
                    del pending[id]
            if not pending:
                self._pending.pop(scope, None)


# -- feedback -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a memory helped and did not, and the importance it had before."""

    base: float
    helped: int = 0
    unhelped: int = 0

    @property
    def importance(self) -> float:
        shift = max(-MAX_SHIFT, min(MAX_SHIFT, STEP * (self.helped - self.unhelped)))
        least, most = min(self.base, _LEAST_MOVED), max(self.base, 1 - _LEAST_MOVED)  # feedback neither pins nor buries
        return round(max(least, min(most, self.base + shift)), 4)


class Feedback:
    """Takes feedback on the records of one store."""

    def __init__(self, store: Store, update: Callable[..., Receipt]) -> None:
        self._store = store
        self._update = update

    def give(self, scope: Scope, id: str, helped: bool) -> Receipt:
        """Count one piece of feedback and move the record's importance."""
        if not isinstance(helped, bool):
            raise ValidationError(f"helped is {helped!r:.40}: use True or False.")
        id = clean_name(id, "id")
        for _ in range(_TRIES):
            record = self._find(scope, id)
            said = self._store.states.get(scope, _STATE + id)
            tally = Tally(record.importance) if said is None else Tally(**json.loads(said))
            if abs(tally.importance - record.importance) > 1e-4:  # someone has set the importance since
                tally = Tally(record.importance)
            counted = replace(tally, helped=tally.helped + helped, unhelped=tally.unhelped + (not helped))
            text = json.dumps(asdict(counted))
            if self._store.states.put(scope, _STATE + id, text, expected=said, new=said is None):
                break
        if counted.importance == tally.importance:
            reason = f"counted; its importance stays at {tally.importance:g}, as far as feedback can move it"
            return Receipt("updated", id, record.version, (reason,))
        return self._update(scope, id, None, counted.importance, None, None)

    def _find(self, scope: Scope, id: str) -> Record:
        record = self._store.get(scope, id)
        if record is None or record.status != "active":
            raise NotFound(f"there is no record {id!r:.80} in this scope: list shows its records.")
        return record


def describe_feedback(store: Store, scope: Scope, id: str) -> list[str]:
    """What feedback has done to a record, in a sentence; nothing where there was none."""
    said = store.states.get(scope, _STATE + id)
    if said is None:
        return []
    tally = Tally(**json.loads(said))
    return [
        f"feedback: it helped {tally.helped} times and did not {tally.unhelped} times, which moved its importance from "
        f"{tally.base:.1f} to {tally.importance:.1f}"
    ]


def drop_feedback(store: Store, scope: Scope, ids: tuple[str, ...]) -> None:
    """Delete the tallies of records that were forgotten."""
    for id in ids:
        if store.states.get(scope, _STATE + id) is not None:
            store.states.drop(scope, _STATE + id)
