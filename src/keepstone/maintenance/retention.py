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
from keepstone.ports.maintenance import KEPT, Age, ArchivedRecord, ArchiveReason, with_places
from keepstone.ports.stores import Clock, Store
from keepstone.ports.values import Selector
from keepstone.recall.access import AccessCounter
from keepstone.recall.query import check_fraction, check_int
from keepstone.text.times import EPOCH, instant, lifetime, micros
from keepstone.types import PINNED, Record, Scope, clean_name

MONTH, YEAR = 2_592_000.0, 31_536_000.0  # seconds
SINCE = ("used", "created")  # what an age is counted from
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
    """Archives, restores and erases the records of one scope."""

    def __init__(self, scope: Scope, store: Store, accesses: AccessCounter, clock: Clock) -> None:
        self._scope = scope
        self._store = store
        self._accesses = accesses
        self._clock = clock

    # -- archiving ------------------------------------------------------------------------------------------------
    def age(
        self,
        *,
        older_than: timedelta | float = YEAR,
        since: str = "used",
        kinds: Iterable[str] | None = None,
        keyed: bool = False,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Archive records that were neither changed nor read for `older_than` (a timedelta or seconds; default a year), or with
        since="created" all that are older, read or not. `kinds` selects the kinds (None: all but messages); values under keys
        are archived only if `keyed` is set.

        >>> memory.upkeep.age(older_than=timedelta(days=365), dry_run=True).ids
        ()"""
        if since not in SINCE:
            raise ValidationError(f"since is {since!r:.40}: use {' or '.join(SINCE)}.")
        self._accesses.flush()  # buffered reads count too
        chosen = None if kinds is None else tuple(sorted({clean_name(kind, "kinds") for kind in _as_list(kinds)}))
        before = self._clock() - lifetime(older_than, "older_than", may_be_zero=True)
        self._undo_future(dry_run)
        return self._archive(
            self._store.retention.old(self._scope, Age(before, chosen, keyed, created=since == "created")), "aged", dry_run
        )

    def lapse(self, *, dry_run: bool = False) -> ArchiveReport:
        """Archive records whose time to live has ended, so that `purge` can erase them later.

        >>> memory.upkeep.lapse().ids
        ()"""
        self._undo_future(dry_run)
        return self._archive(self._store.retention.lapsed(self._scope), "expired", dry_run)

    def fade(
        self, *, importance: float = 0.3, reads: int = 1, older_than: timedelta | float = MONTH, dry_run: bool = False
    ) -> ArchiveReport:
        """Archive facts below `importance` that were read at most `reads` times, and were neither changed nor read for
        `older_than` (a timedelta or seconds; 30 days).

        >>> memory.upkeep.fade(importance=0.3, older_than=timedelta(days=30)).ids
        ()"""
        importance, reads = check_fraction(importance, "importance"), check_int(reads, "reads", 0, 2**53)
        self._accesses.flush()
        before = self._clock() - lifetime(older_than, "older_than", may_be_zero=True)
        self._undo_future(dry_run)
        return self._archive(self._store.retention.faded(self._scope, importance, reads, before), "faded", dry_run)

    def cap(self, most: int, *, kinds: Iterable[str] | None = None, dry_run: bool = False) -> ArchiveReport:
        """Archive the records above a maximum number (`most`) of these kinds (facts, notes, episodes, summaries): the least
        important, least read, longest unchanged first. Values under keys stay.

        >>> memory.upkeep.cap(10_000, dry_run=True).ids
        ()"""
        most = check_int(most, "most", 0, 2**53)
        chosen = CAPPED if kinds is None else sorted({clean_name(kind, "kinds") for kind in _as_list(kinds)})
        self._accesses.flush()
        self._undo_future(dry_run)
        return self._archive(self._store.retention.excess(self._scope, most, chosen), "capped", dry_run)

    def archive(self, ids: Iterable[str]) -> ArchiveReport:
        """Archive these records by a person's decision; unknown ids are ignored.

        >>> memory.upkeep.archive([receipt.id]).ids == (receipt.id,)
        True"""
        wanted = dict.fromkeys(clean_name(id, "id") for id in _as_list(ids))
        found = [record for id in wanted if (record := self._store.get(self._scope, id)) is not None]
        return self._archive([record for record in found if record.status != "archived"], "retired")

    def archived(self, *, limit: int = 1000) -> Sequence[ArchivedRecord]:
        """The archived records, the longest archived first, each with its reason and time.

        >>> [(each.why, each.record.content) for each in memory.upkeep.archived()]
        []"""
        found = self._store.retention.archived(self._scope, limit=check_int(limit, "the limit", 1, _MAX_ARCHIVED))
        return with_places(self._store.audit_log, self._scope, found, "ticket")

    def _archive(self, found: Sequence[Record], why: ArchiveReason, dry_run: bool = False) -> ArchiveReport:
        if why in ("aged", "faded", "capped"):
            found = [record for record in found if record.importance < PINNED]
        ids = tuple(record.id for record in found)
        ticket = self._store.retention.archive(self._scope, ids, why)[1] if ids and not dry_run else 0
        if ticket and self._store.states.get(self._scope, _CLOCK_STATE) is None:
            self._store_spans([(self._clock(), self._clock())])
        shown = self._store.audit_log.places(self._scope, [ticket])[ticket]
        return ArchiveReport(ids, tuple(found), dry_run, shown, why)

    # -- restoring ------------------------------------------------------------------------------------------------
    def undo(self, ticket: int) -> tuple[str, ...]:
        """Restore what one job archived, by the `ticket` of its report. Returns the restored ids.

        >>> report = memory.upkeep.archive([receipt.id])
        >>> memory.upkeep.undo(report.ticket) == report.ids
        True"""
        stored = self._store.audit_log.number_at(self._scope, check_int(ticket, "ticket", 1, 2**62))
        return tuple(self._store.retention.undo(self._scope, stored))

    def restore(self, ids: Iterable[str]) -> int:
        """Restore these records, unless the same content was stored again meanwhile. Returns the number restored.

        >>> report = memory.upkeep.archive([receipt.id])
        >>> memory.upkeep.restore(report.ids)
        1"""
        return self._store.retention.restore(self._scope, [clean_name(id, "id") for id in _as_list(ids)])

    def _undo_future(self, dry_run: bool) -> int:
        """Restore what was archived at a future time, when a clock ran ahead. What a person decided, or what does not depend on
        time, stays archived."""
        if dry_run:
            return 0
        ahead = self._clock() + _CLOCK_TOLERANCE
        early = [
            archived.record.id
            for archived in self._store.retention.archived(self._scope, why=_BY_CLOCK, limit=_MAX_ARCHIVED)
            if archived.at > ahead
        ]
        return self._store.retention.restore(self._scope, early, keep_expiry=True) if early else 0

    # -- erasing --------------------------------------------------------------------------------------------------
    def purge(
        self,
        *,
        after: timedelta | float = MONTH,
        why: Collection[ArchiveReason] | None = None,
        dry_run: bool = False,
        trust_clock: bool = False,
    ) -> PurgeReport:
        """Erase records that have been archived for longer than `after` (a timedelta or seconds; default 30 days); originals of
        digests stay. If the clock has jumped ahead, nothing is erased unless `trust_clock` is set.

        >>> memory.upkeep.purge(after=timedelta(days=90), dry_run=True).ids
        ()"""
        known: list[ArchiveReason] = [reason for reason in get_args(ArchiveReason) if reason not in KEPT]
        chosen = known if why is None else list(why)
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            raise ValidationError(f"why is {unknown[0]!r:.40}: use {', '.join(known)}.")
        self._undo_future(dry_run)
        window = lifetime(after, "after")
        spans = self._observe(trust_clock, dry_run)
        archived = self._store.retention.archived(self._scope, why=chosen, limit=_MAX_ARCHIVED)
        due = [entry.record.id for entry in archived if observed_since(spans, entry.at) >= window]
        now = self._clock()
        late = sum(now - entry.at >= window for entry in archived) - len(due)
        reasons = [_CLOCK_JUMPED.format(late)] if late > 0 else []
        if dry_run:
            return PurgeReport(tuple(due), len(archived) - len(due), True, True, tuple(reasons))
        erased = True
        for start in range(0, len(due), _PURGE_BATCH):
            part = Selector(ids=tuple(due[start : start + _PURGE_BATCH]), archived=True, keep_derived=True)
            receipt = self._store.forget(
                self._scope, part
            )  # what was restored meanwhile stays, and so does what was learned from it
            erased = receipt.erased or not receipt.forgotten
            reasons += [reason for reason in receipt.reasons if reason not in reasons]
        return PurgeReport(tuple(due), len(archived) - len(due), False, erased, tuple(reasons))

    def _observe(self, trust_clock: bool, dry_run: bool) -> list[Span]:
        """The spans of time that were observed up to now."""
        now = self._clock()
        spans = _parse_spans(self._store.states.get(self._scope, _CLOCK_STATE)) or [(now, now)]
        if trust_clock:
            spans = [(_BEGINNING, now)]
        elif spans[-1][1] > now:  # the clock was set back
            spans.append((now, now))
        else:
            for day in (*self._store.audit_log.days(self._scope, spans[-1][1]), now):
                first, last = spans[-1]
                if day > now:
                    continue  # written while a clock ran ahead
                if day - last <= _MAX_GAP:
                    spans[-1] = (first, max(last, day))
                else:
                    spans.append((day, day))
        if not dry_run:
            self._store_spans([(max(first, EPOCH), last) for first, last in spans[-_MAX_SPANS:]])
        return spans

    def _store_spans(self, spans: Sequence[Span]) -> None:
        self._store.states.put(self._scope, _CLOCK_STATE, json.dumps([[micros(first), micros(last)] for first, last in spans]))


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
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValidationError(f"ids and kinds are lists, got {values!r:.40}: pass a list of names.")
    return list(values)
