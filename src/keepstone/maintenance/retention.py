"""Retention: archive old, expired, faded or surplus records; erase what has been archived long enough.

An archived record can be restored within a window; only `purge` erases. A wrong clock archives too early at worst: the next job
restores what was archived at a future time. Purging counts only observed time, from one audit entry or job of the scope to the
next: a gap of more than a week may be a jump of the clock and does not count, unless the caller trusts the clock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from keepstone.errors import ValidationError
from keepstone.ports.maintenance import ARCHIVE_REASONS, KEPT, Age, ArchiveReason
from keepstone.ports.stores import Clock, Store
from keepstone.ports.values import Selector
from keepstone.recall.access import AccessCounter
from keepstone.recall.query import check_fraction, check_int
from keepstone.text.times import instant, lifetime, micros
from keepstone.types import Record, Scope, clean_name

MONTH = 2_592_000.0  # seconds
CAPPED = ("fact", "note", "episode", "summary")
_CLOCK_STATE = "upkeep:clock"  # the name of the state with the observed spans of time
_CLOCK_JUMPED = (
    "{} records are due by the clock, which jumped by more than a week since they were archived: run maintenance at least weekly "
    "to observe that time, or erase them now with trust_clock"
)
_MAX_SPANS = 50
Span = tuple[datetime, datetime]
_MAX_GAP = timedelta(days=8)  # between two observations: a weekly job is enough
_CLOCK_TOLERANCE = timedelta(hours=1)
_MAX_ARCHIVED = 1_000_000
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BY_CLOCK: tuple[ArchiveReason, ...] = ("aged", "expired", "faded", "capped")
_PURGE_BATCH = 500  # records per transaction


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The records that were archived, or with a dry run would be. `upkeep.undo(ticket)` restores them."""

    ids: tuple[str, ...]
    records: tuple[Record, ...]
    dry_run: bool
    ticket: int = 0
    why: str = "faded"


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """The records that were erased after the whole window, and how many archived records still wait."""

    ids: tuple[str, ...] = ()
    waiting: int = 0
    dry_run: bool = False
    erased: bool = True
    reasons: tuple[str, ...] = ()


class Retention:
    """Archives, restores and erases the records of a scope."""

    def __init__(self, store: Store, accesses: AccessCounter, clock: Clock) -> None:
        self._store = store
        self._accesses = accesses
        self._clock = clock

    # -- archiving ------------------------------------------------------------------------------------------------
    def age(
        self, scope: Scope, older_than: timedelta | float, kinds: Iterable[str] | None, keyed: bool, dry_run: bool
    ) -> ArchiveReport:
        """Archive what was not changed or read for `older_than`."""
        self._accesses.flush()  # buffered reads count too
        chosen = None if kinds is None else tuple(sorted({clean_name(kind, "kinds") for kind in _as_list(kinds)}))
        before = self._clock() - lifetime(older_than, "older_than")
        self._undo_future(scope, dry_run)
        return self._archive(scope, self._store.retention.old(scope, Age(before, chosen, keyed)), "aged", dry_run)

    def lapse(self, scope: Scope, dry_run: bool) -> ArchiveReport:
        """Archive what has outlived its time to live."""
        self._undo_future(scope, dry_run)
        return self._archive(scope, self._store.retention.lapsed(scope), "expired", dry_run)

    def fade(self, scope: Scope, importance: float, reads: int, older_than: timedelta | float, dry_run: bool) -> ArchiveReport:
        """Archive what is below an importance, was read at most `reads` times, and was not touched for `older_than`."""
        importance, reads = check_fraction(importance, "importance"), check_int(reads, "reads", 0, 2**53)
        self._accesses.flush()
        before = self._clock() - lifetime(older_than, "older_than")
        self._undo_future(scope, dry_run)
        return self._archive(scope, self._store.retention.faded(scope, importance, reads, before), "faded", dry_run)

    def cap(self, scope: Scope, most: int, kinds: Iterable[str] | None, dry_run: bool) -> ArchiveReport:
        """Archive what exceeds `most` memories: the least important, least read, longest untouched first."""
        most = check_int(most, "most", 0, 2**53)
        chosen = CAPPED if kinds is None else sorted({clean_name(kind, "kinds") for kind in _as_list(kinds)})
        self._accesses.flush()
        self._undo_future(scope, dry_run)
        return self._archive(scope, self._store.retention.excess(scope, most, chosen), "capped", dry_run)

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason, dry_run: bool = False) -> ArchiveReport:
        """Archive these records for a reason."""
        found = [self._store.get(scope, clean_name(id, "id")) for id in ids]
        return self._archive(scope, [record for record in found if record is not None], why, dry_run)

    def _archive(self, scope: Scope, found: Sequence[Record], why: ArchiveReason, dry_run: bool) -> ArchiveReport:
        ids = tuple(record.id for record in found)
        ticket = self._store.retention.archive(scope, ids, why)[1] if ids and not dry_run else 0
        if ticket and self._store.states.get(scope, _CLOCK_STATE) is None:
            self._store_spans(scope, [(self._clock(), self._clock())])
        return ArchiveReport(ids, tuple(found), dry_run, ticket, why)

    # -- restoring ------------------------------------------------------------------------------------------------
    def undo(self, scope: Scope, ticket: int) -> tuple[str, ...]:
        """Restore what one job archived. Returns the restored ids."""
        return tuple(self._store.retention.undo(scope, check_int(ticket, "ticket", 1, 2**62)))

    def restore(self, scope: Scope, ids: Iterable[str]) -> int:
        """Restore some records; those that were remembered again stay archived. Returns the number restored."""
        return self._store.retention.restore(scope, [clean_name(id, "id") for id in _as_list(ids)])

    def _undo_future(self, scope: Scope, dry_run: bool) -> int:
        """Restore what was archived at a future time, when a clock ran ahead. What a person decided, or what does not depend on
        time, stays archived."""
        if dry_run:
            return 0
        ahead = self._clock() + _CLOCK_TOLERANCE
        early = [
            archived.record.id
            for archived in self._store.retention.archived(scope, why=_BY_CLOCK, limit=_MAX_ARCHIVED)
            if archived.at > ahead
        ]
        return self._store.retention.restore(scope, early, keep_expiry=True) if early else 0

    # -- erasing --------------------------------------------------------------------------------------------------
    def purge(
        self,
        scope: Scope,
        after: timedelta | float,
        why: Collection[ArchiveReason] | None,
        dry_run: bool,
        trust_clock: bool = False,
    ) -> PurgeReport:
        """Erase what has been archived for longer than the window; compacted records stay."""
        chosen = [reason for reason in get_args(ArchiveReason) if reason not in KEPT] if why is None else list(why)
        known = [reason for reason in ARCHIVE_REASONS if reason not in KEPT]
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            raise ValidationError(f"why is {unknown[0]!r:.40}: use {', '.join(known)}.")
        self._undo_future(scope, dry_run)
        window = lifetime(after, "after")
        spans = self._observe(scope, trust_clock, dry_run)
        archived = self._store.retention.archived(scope, why=chosen, limit=_MAX_ARCHIVED)
        due = [entry.record.id for entry in archived if observed_since(spans, entry.at) >= window]
        now = self._clock()
        late = sum(now - entry.at >= window for entry in archived) - len(due)
        reasons = [_CLOCK_JUMPED.format(late)] if late > 0 else []
        if dry_run:
            return PurgeReport(tuple(due), len(archived) - len(due), True, True, tuple(reasons))
        erased = True
        for start in range(0, len(due), _PURGE_BATCH):
            part = Selector(ids=tuple(due[start : start + _PURGE_BATCH]), archived=True, keep_derived=True)
            receipt = self._store.forget(scope, part)  # what was restored meanwhile stays, and so does what was learned from it
            erased = receipt.erased or not receipt.forgotten
            reasons += [reason for reason in receipt.reasons if reason not in reasons]
        return PurgeReport(tuple(due), len(archived) - len(due), False, erased, tuple(reasons))

    def _observe(self, scope: Scope, trust_clock: bool, dry_run: bool) -> list[Span]:
        """The spans of time that were observed up to now."""
        now = self._clock()
        spans = _parse_spans(self._store.states.get(scope, _CLOCK_STATE)) or [(now, now)]
        if trust_clock:
            spans = [(_BEGINNING, now)]
        elif spans[-1][1] > now:  # the clock was set back
            spans.append((now, now))
        else:
            for day in (*self._store.audit_log.days(scope, spans[-1][1]), now):
                first, last = spans[-1]
                if day > now:
                    continue  # written while a clock ran ahead
                if day - last <= _MAX_GAP:
                    spans[-1] = (first, max(last, day))
                else:
                    spans.append((day, day))
        if not dry_run:
            self._store_spans(scope, [(max(first, _EPOCH), last) for first, last in spans[-_MAX_SPANS:]])
        return spans

    def _store_spans(self, scope: Scope, spans: Sequence[Span]) -> None:
        self._store.states.put(scope, _CLOCK_STATE, json.dumps([[micros(first), micros(last)] for first, last in spans]))


def observed_since(spans: Sequence[Span], start: datetime) -> timedelta:
    """The time that has certainly passed since `start`: the longest observed span. Overlapping spans are joined; spans of
    different clocks may describe the same time, so they are not added."""
    longest = timedelta()
    begin = reach = start
    for first, last in sorted((max(first, start), last) for first, last in spans if last > start):
        if first > reach:
            begin = first
        reach = max(reach, last)
        longest = max(longest, reach - begin)
    return longest


def _parse_spans(state: str | None) -> list[Span]:
    try:
        return [(instant(first), instant(last)) for first, last in json.loads(state or "[]")]
    except (ValueError, TypeError):
        return []


def _as_list(values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise ValidationError("ids and kinds are lists, not a single text.")
    return list(values)
