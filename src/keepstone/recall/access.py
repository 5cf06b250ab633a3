"""Counts which memories were read, without delaying the read.

Reads are counted in memory and written together by a timer a second later, and before the store is closed. Until then
`with_pending` adds them to a record, so that a process sees its own reads at once. A process that is killed loses the counts of
the last second, never a memory.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from keepstone.errors import KeepstoneError
from keepstone.ports.forks import reset_after_fork
from keepstone.ports.stores import Store
from keepstone.types import Record, Scope

_FLUSH_SECONDS = 1.0


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
        return replace(record, access_count=record.access_count + pending[1], last_accessed_at=pending[2])

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
