"""Noting which memories were read, without making the read wait.

Reads are counted in memory and written together by a timer a second later, and before the store is closed. Until then
`with_waiting` adds them to what is read, so that a count is never behind in the process that made it. A process that is
killed loses the last second of counts, never a memory.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from datetime import datetime

from keepstone.errors import KeepstoneError
from keepstone.ports.stores import Store
from keepstone.types import Record, Scope

_DELAY = 1.0


class AccessCounter:
    """Counts of reads that are not in the store yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._start_anew()

    def _start_anew(self) -> None:
        """Nothing waits: at first, and in a forked child, whose parent writes what was waiting."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: dict[Scope, dict[str, tuple[int, int, datetime]]] = {}  # id -> sequence, count, last
        self._timer: threading.Timer | None = None

    def note(self, scope: Scope, read: Iterable[tuple[str, int]], at: datetime) -> None:
        """Count a read of each of these records, given as (id, sequence)."""
        read = list(read)
        if not read:
            return
        if os.getpid() != self._process:
            self._start_anew()
        with self._lock:
            counts = self._waiting.setdefault(scope, {})
            for id, sequence in read:
                counts[id] = (sequence, counts[id][1] + 1 if id in counts else 1, at)
            if self._timer is None and counts:
                self._timer = threading.Timer(_DELAY, self._late)
                self._timer.daemon = True
                self._timer.start()

    def with_waiting(self, record: Record) -> Record:
        """The record with the reads that are not in the store yet."""
        waiting = self._waiting.get(record.scope, {}).get(record.id)
        if waiting is None:
            return record
        return record.with_(access_count=record.access_count + waiting[1], last_accessed_at=waiting[2])

    def _late(self) -> None:
        with contextlib.suppress(KeepstoneError):  # a busy or full store: the counts wait for the next flush
            self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        if os.getpid() != self._process:
            self._start_anew()
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                scopes = list(self._waiting)
            for scope in scopes:
                self._write(scope)

    def _write(self, scope: Scope) -> None:
        with self._lock:
            counts = dict(self._waiting.get(scope, {}))
        if counts:
            reads = {sequence: count for sequence, count, _ in counts.values()}
            self._store.touch(scope, reads, max(last for _, _, last in counts.values()))
        with self._lock:
            waiting = self._waiting.get(scope, {})
            for id, (sequence, count, _) in counts.items():
                left = waiting[id][1] - count
                if left:
                    waiting[id] = (sequence, left, waiting[id][2])
                else:
                    del waiting[id]
            if not waiting:
                self._waiting.pop(scope, None)
