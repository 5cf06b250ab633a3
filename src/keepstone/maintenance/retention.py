"""Retention: what is old, lapsed, faded or too much is put aside; what has been aside for long enough is erased.

Putting aside can be undone within a window; only `purge` erases. A clock that is wrong puts things aside too early at worst, and
they come back when it is right again: what was put aside at a time to come is brought back by the next job. Erasing counts only
time that has been seen to pass, from one sign of life in the scope to the next: a gap of more than a week counts for nothing,
as it may be a jump of the clock, until somebody says that the clock is right.
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
_SEEN = "upkeep:clock"  # the state in which is kept what time a scope has seen to pass
_NOT_SEEN = (
    "{} records are due by the clock, which has jumped by more than a week since they were put aside: they are erased when so "
    "much time has been seen to pass, with upkeep at least weekly, or now with trust_clock"
)
_MOST_SPANS = 50
Span = tuple[datetime, datetime]
_STEP = timedelta(days=8)  # between two signs of life: a weekly job keeps pace, however little else is done
_AHEAD = timedelta(hours=1)
_ALL = 1_000_000
_EVER = datetime.min.replace(tzinfo=UTC)
_OLDEST = datetime(1970, 1, 1, tzinfo=UTC)
_BY_CLOCK: tuple[ArchiveReason, ...] = ("aged", "expired", "faded", "capped")
_BATCH = 500  # records that are erased at a time


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Which records were put aside, or with a dry run would be. `ticket` undoes it: `upkeep.undo(ticket)`."""

    ids: tuple[str, ...]
    records: tuple[Record, ...]
    dry_run: bool
    ticket: int = 0
    why: str = "faded"


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What was erased after it had been aside for the whole window, and how many records still wait for that."""

    ids: tuple[str, ...] = ()
    waiting: int = 0
    dry_run: bool = False
    erased: bool = True
    reasons: tuple[str, ...] = ()


class Retention:
    """age, lapse, fade, cap, undo, bring_back, purge: what a scope keeps."""

    def __init__(self, store: Store, accesses: AccessCounter, clock: Clock) -> None:
        self._store = store
        self._accesses = accesses
        self._clock = clock

    # -- putting aside --------------------------------------------------------------------------------------------
    def age(
        self, scope: Scope, older_than: timedelta | float, kinds: Iterable[str] | None, keyed: bool, dry_run: bool
    ) -> ArchiveReport:
        """What was neither changed nor read for so long."""
        self._accesses.flush()  # a read of the last second counts too
        chosen = None if kinds is None else tuple(sorted({clean_name(kind, "kinds") for kind in _listed(kinds)}))
        before = self._clock() - lifetime(older_than, "older_than")
        self._heal(scope, dry_run)
        return self._archive(scope, self._store.retention.old(scope, Age(before, chosen, keyed)), "aged", dry_run)

    def lapse(self, scope: Scope, dry_run: bool) -> ArchiveReport:
        """What has outlived its own time to live."""
        self._heal(scope, dry_run)
        return self._archive(scope, self._store.retention.lapsed(scope), "expired", dry_run)

    def fade(self, scope: Scope, importance: float, reads: int, older_than: timedelta | float, dry_run: bool) -> ArchiveReport:
        """What is below an importance, was read at most so often, and has been left alone for some time."""
        importance, reads = check_fraction(importance, "importance"), check_int(reads, "reads", 0, 2**53)
        self._accesses.flush()
        before = self._clock() - lifetime(older_than, "older_than")
        self._heal(scope, dry_run)
        return self._archive(scope, self._store.retention.faded(scope, importance, reads, before), "faded", dry_run)

    def cap(self, scope: Scope, most: int, kinds: Iterable[str] | None, dry_run: bool) -> ArchiveReport:
        """What is over, where a scope may have so many memories: the least important, least read, longest untouched."""
        most = check_int(most, "most", 0, 2**53)
        chosen = CAPPED if kinds is None else sorted({clean_name(kind, "kinds") for kind in _listed(kinds)})
        self._accesses.flush()
        self._heal(scope, dry_run)
        return self._archive(scope, self._store.retention.excess(scope, most, chosen), "capped", dry_run)

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason, dry_run: bool = False) -> ArchiveReport:
        """These records, for this reason."""
        found = [self._store.get(scope, clean_name(id, "id")) for id in ids]
        return self._archive(scope, [record for record in found if record is not None], why, dry_run)

    def _archive(self, scope: Scope, found: Sequence[Record], why: ArchiveReason, dry_run: bool) -> ArchiveReport:
        ids = tuple(record.id for record in found)
        ticket = self._store.retention.archive(scope, ids, why)[1] if ids and not dry_run else 0
        if ticket and self._store.states.get(scope, _SEEN) is None:
            self._keep(scope, [(self._clock(), self._clock())])
        return ArchiveReport(ids, tuple(found), dry_run, ticket, why)

    # -- bringing back --------------------------------------------------------------------------------------------
    def undo(self, scope: Scope, ticket: int) -> tuple[str, ...]:
        """Take back what one job has put aside. The ids that came back."""
        return tuple(self._store.retention.undo(scope, check_int(ticket, "ticket", 1, 2**62)))

    def restore(self, scope: Scope, ids: Iterable[str]) -> int:
        """Undo it for some records; those that others say again by now stay aside. How many came back."""
        return self._store.retention.restore(scope, [clean_name(id, "id") for id in _listed(ids)])

    def _heal(self, scope: Scope, dry_run: bool) -> int:
        """Bring back what was put aside at a time that has not come yet: a clock had run ahead then. What a person has decided,
        or what does not depend on the time, stays aside."""
        if dry_run:
            return 0
        ahead = self._clock() + _AHEAD
        early = [each.record.id for each in self._store.retention.archived(scope, why=_BY_CLOCK, limit=_ALL) if each.at > ahead]
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
        """Erase what has been aside for longer than the window; what was compacted stays."""
        chosen = [each for each in get_args(ArchiveReason) if each not in KEPT] if why is None else list(why)
        known = [each for each in ARCHIVE_REASONS if each not in KEPT]
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            raise ValidationError(f"why is {unknown[0]!r:.40}: use {', '.join(known)}.")
        self._heal(scope, dry_run)
        window = lifetime(after, "after")
        spans = self._watched(scope, trust_clock, dry_run)
        archived = self._store.retention.archived(scope, why=chosen, limit=_ALL)
        due = [each.record.id for each in archived if watched_since(spans, each.at) >= window]
        now = self._clock()
        late = sum(now - each.at >= window for each in archived) - len(due)
        reasons = [_NOT_SEEN.format(late)] if late > 0 else []
        if dry_run:
            return PurgeReport(tuple(due), len(archived) - len(due), True, True, tuple(reasons))
        erased = True
        for start in range(0, len(due), _BATCH):
            part = Selector(ids=tuple(due[start : start + _BATCH]), archived=True, keep_derived=True)
            receipt = self._store.forget(scope, part)  # what was brought back meanwhile stays, and what was learned from it
            erased = receipt.erased or not receipt.forgotten
            reasons += [reason for reason in receipt.reasons if reason not in reasons]
        return PurgeReport(tuple(due), len(archived) - len(due), False, erased, tuple(reasons))

    def _watched(self, scope: Scope, trust_clock: bool, dry_run: bool) -> list[Span]:
        """The stretches of time that have been seen to pass, up to now: each from one sign of life to the next."""
        now = self._clock()
        spans = _spans(self._store.states.get(scope, _SEEN)) or [(now, now)]
        if trust_clock:
            spans = [(_EVER, now)]
        elif spans[-1][1] > now:  # the clock has stepped back
            spans.append((now, now))
        else:
            for day in (*self._store.audit_log.days(scope, spans[-1][1]), now):
                first, last = spans[-1]
                if day > now:
                    continue  # written by a clock that ran ahead
                if day - last <= _STEP:
                    spans[-1] = (first, max(last, day))
                else:
                    spans.append((day, day))
        if not dry_run:
            self._keep(scope, [(max(first, _OLDEST), last) for first, last in spans[-_MOST_SPANS:]])
        return spans

    def _keep(self, scope: Scope, spans: Sequence[Span]) -> None:
        self._store.states.put(scope, _SEEN, json.dumps([[micros(first), micros(last)] for first, last in spans]))


def watched_since(spans: Sequence[Span], start: datetime) -> timedelta:
    """How much time has certainly passed since then: the longest stretch that was seen of it. Stretches that overlap are one;
    those of different clocks may have passed side by side, so they are not added up."""
    longest = timedelta()
    begin = reach = start
    for first, last in sorted((max(first, start), last) for first, last in spans if last > start):
        if first > reach:
            begin = first
        reach = max(reach, last)
        longest = max(longest, reach - begin)
    return longest


def _spans(state: str | None) -> list[Span]:
    try:
        return [(instant(first), instant(last)) for first, last in json.loads(state or "[]")]
    except (ValueError, TypeError):
        return []


def _listed(given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise ValidationError("ids and kinds are lists, not a single text.")
    return list(given)
