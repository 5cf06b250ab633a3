"""Consolidation of knowledge: what matters little and was hardly ever read is put aside. Imports: ports, types, the access log.

Put aside is not erased: it is no longer recalled or listed, its text and history stay, and `bring_back` undoes it. Messages,
values under keys, episodes and summaries are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from recollect.errors import ValidationError
from recollect.ports import Clock, Store
from recollect.recall.access import AccessLog
from recollect.times import lifetime
from recollect.types import Record, Scope, clean_name


@dataclass(frozen=True, slots=True)
class FadeReport:
    """Which records were put aside; with a dry run, which would be."""

    ids: tuple[str, ...]
    records: tuple[Record, ...]
    dry_run: bool


class Fading:
    """consolidate, bring_back: one scope's faded knowledge."""

    def __init__(self, store: Store, accesses: AccessLog, clock: Clock) -> None:
        self._store = store
        self._accesses = accesses
        self._clock = clock

    def consolidate(
        self, scope: Scope, importance: float, reads: int, older_than: timedelta | float, dry_run: bool
    ) -> FadeReport:
        """Put aside what is below an importance, was read at most so often, and has been left alone for some time."""
        if isinstance(importance, bool) or not isinstance(importance, (int, float)) or not 0 <= importance <= 1:
            raise ValidationError(f"importance is {importance!r:.40}: use a number from 0 to 1.")
        if isinstance(reads, bool) or not isinstance(reads, int) or not 0 <= reads < 2**53:
            raise ValidationError(f"reads is {reads!r:.40}: use a whole number from 0.")
        self._accesses.flush()  # a read of the last second counts too
        before = self._clock() - lifetime(older_than, "older_than")
        found = self._store.faded(scope, float(importance), reads, before)
        ids = tuple(record.id for record in found)
        if ids and not dry_run:
            self._store.put_aside(scope, ids)
        return FadeReport(ids, tuple(found), dry_run)

    def bring_back(self, scope: Scope, ids: Iterable[str]) -> int:
        """Undo it for some records; those that others say again by now stay aside. How many came back."""
        if isinstance(ids, str):
            raise ValidationError("ids must be a list of ids, not a single text.")
        return self._store.bring_back(scope, [clean_name(id, "id") for id in ids])
