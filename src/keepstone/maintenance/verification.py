"""Verification end to end: memories are held against newer messages, the calendar, what they rest on and the probes attached to
them, and what does not hold is flagged for a person.

Nothing is changed but the review list. Messages are never flagged: they are what was said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from keepstone.learning.echo_guard import strip_fences
from keepstone.maintenance.contradictions import Claim
from keepstone.maintenance.message_index import MessageIndex
from keepstone.maintenance.probes import PROBE, Handlers, checked_handlers, run
from keepstone.maintenance.staleness import has_ended
from keepstone.ports.maintenance import Flag, FlagKind
from keepstone.ports.stores import Clock, Progress, Store
from keepstone.ports.values import ListQuery
from keepstone.recall.query import check_int
from keepstone.text.times import lifetime
from keepstone.text.words import terms
from keepstone.types import MESSAGE, STEP, UNTRUSTED, Record, Scope

_PAGE = 500
_VERIFIED = "upkeep:verified"  # the state that says up to which message memories were checked
_MOST_MESSAGES = 50_000  # of a user that are read, the newest
_MOST_PROBLEMS = 100
_TELLING = frozenset({"fact", "note", "value"})  # kinds that state something; episodes and summaries tell what was
_TASKS = frozenset({"task", "plan", "todo"})
_DONE = frozenset({"done", "closed", "cancelled", "canceled", "finished", "completed"})
_GENERIC = frozenset(terms("user users asks prefers prefer likes"))
_HALF_A_YEAR = timedelta(days=180)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How many memories were checked, what was found wrong with them, and how many of these flags are new on the review list
    (none after a dry run). `probed` counts the probes that were run, `problems` says which could not be."""

    checked: int
    flagged: int
    flags: tuple[Flag, ...]
    probed: int = 0
    problems: tuple[str, ...] = ()


class Verifier:
    """verify: one scope's memories against all that can be held against them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def verify(
        self,
        scope: Scope,
        *,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        stale_after: timedelta | float = _HALF_A_YEAR,
        limit: int = 10_000,
        only_new: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check at most `limit` memories, the oldest first. Without `handlers` no probe is run. With `only_new` memories are held
        against what was said since the last such check: nothing said before that can be news to them."""
        asked = checked_handlers(handlers)
        untouched = lifetime(stale_after, "stale_after")
        seen = self._store.states.get(scope, _VERIFIED) if only_new else None
        memories, said, last = self._read(scope, check_int(limit, "limit", 1, 10_000_000), int(seen or 0))
        round_ = _Round(self._store, scope, self._clock(), untouched, MessageIndex(said), asked)
        for done, record in enumerate(memories, 1):
            round_.check(record)
            if progress is not None and (done % 100 == 0 or done == len(memories)):
                progress(done, len(memories))
        flags = tuple(round_.flags.values())
        added = 0 if dry_run or not flags else self._store.reviews.add(scope, flags)
        if only_new and not dry_run and str(last) != seen:
            self._store.states.put(scope, _VERIFIED, str(last))
        return VerifyReport(len(memories), added, flags, round_.probed, round_.problems())

    def _read(self, scope: Scope, limit: int, after: int) -> tuple[list[Record], list[Claim], int]:
        """(memories, oldest first; what users said after a message, newest first; the number of the last message)."""
        memories: deque[Record] = deque(maxlen=limit)
        before: int | None = None
        while page := self._store.list(scope, ListQuery(limit=_PAGE, before=before, exclude_kind=MESSAGE)):
            before = page[-1][0]
            memories.extend(record for _, record in page if record.status == "active")
        said: list[Claim] = []
        last, before = after, None
        while turns := self._store.message_log.page(scope, None, after=after, before=before, limit=_PAGE):
            last, before = max(last, turns[-1][0]), turns[0][0]
            for _, record in reversed(turns):
                if _users_word(record):
                    said.append(Claim(record.id, strip_fences(record.content), record.occurred_at, record.name or "user"))
            if len(said) >= _MOST_MESSAGES:
                break
        return list(reversed(memories)), said[:_MOST_MESSAGES], last


class _Round:
    """One verification under way."""

    def __init__(
        self, store: Store, scope: Scope, now: datetime, untouched: timedelta, sayings: MessageIndex, handlers: Handlers
    ) -> None:
        self._store = store
        self._scope = scope
        self._now = now
        self._untouched = untouched
        self._sayings = sayings
        self._handlers = handlers
        self._parents: dict[str, Record | None] = {}
        self._problems: list[str] = []
        self._distrusted = 0
        self.flags: dict[tuple[str, str], Flag] = {}
        self.probed = 0

    def check(self, record: Record) -> None:
        """Flag what does not hold any more."""
        if record.kind in _TELLING and not (record.kind == "value" and record.role is not None):  # no setting of the application
            self._contradicted(record)
            self._stale(record)
        if record.parents:
            self._unsupported(record)
        if PROBE in record.metadata and self._handlers:
            self._probe(record)

    def problems(self) -> tuple[str, ...]:
        """Which probes gave no answer."""
        found = self._problems[:_MOST_PROBLEMS]
        if len(self._problems) > _MOST_PROBLEMS:
            found.append(f"{len(self._problems) - _MOST_PROBLEMS} more probes gave no answer")
        if self._distrusted:
            found.append(f"{self._distrusted} probes were not run: their memories come from sources that are not trusted")
        return tuple(found)

    def _flag(self, id: str, kind: FlagKind, reason: str, *evidence: str) -> None:
        held = self.flags.get((id, kind))
        if held is not None:
            reason, evidence = f"{held.reason}; {reason}", (*held.evidence, *evidence)
        self.flags[id, kind] = Flag(id, kind, reason, evidence)

    # -- the checks -----------------------------------------------------------------------------------------------
    def _contradicted(self, record: Record) -> None:
        claim = Claim(record.id, record.content, _told(record), key=record.key)
        found = self._sayings.against(claim, record.parents)
        if found is not None:
            self._flag(record.id, "contradicted", found.reason, found.id)

    def _stale(self, record: Record) -> None:
        if has_ended(record.content, _told(record), self._now):
            self._flag(record.id, "stale", "the time that it speaks of has passed")
        touched = max(record.updated_at, record.last_accessed_at or record.updated_at)
        if record.tag in _TASKS and _is_open(record) and touched <= self._now - self._untouched:
            self._flag(record.id, "stale", f"nobody has changed or read this {record.tag} for {self._untouched.days} days")

    def _unsupported(self, record: Record) -> None:
        rests_on = [parent for parent in map(self._parent, record.parents) if parent is not None]
        if not rests_on:
            self._flag(record.id, "unsupported", "nothing that it was derived from is there any more")
        elif record.kind in _TELLING and any(parent.version > 1 for parent in rests_on) and self._reworded(record, rests_on):
            evidence = [parent.id for parent in rests_on if parent.version > 1]
            self._flag(record.id, "unsupported", "what it was derived from was reworded and does not say it any more", *evidence)

    def _reworded(self, record: Record, parents: list[Record]) -> bool:
        """Whether what a record says stood in its parents before they were reworded, and stands there no more."""
        own = set(terms(record.content)) - _GENERIC
        numbers = {word for word in own if word[0].isdigit()}
        now = {word for parent in parents for word in terms(parent.content)}
        lost = own if own.isdisjoint(now) else numbers if numbers and numbers.isdisjoint(now) else set()
        if not lost:
            return False
        pasts = (self._store.history(self._scope, parent.id) or () for parent in parents if parent.version > 1)
        return any(not lost.isdisjoint(terms(version.content)) for past in pasts for version in past[:-1])

    def _parent(self, id: str) -> Record | None:
        if id not in self._parents:
            self._parents[id] = self._store.get(self._scope, id)
        return self._parents[id]

    def _probe(self, record: Record) -> None:
        if record.trust < UNTRUSTED:  # whoever wrote it must not choose what we run
            self._distrusted += 1
            return
        outcome = run(record.metadata, self._handlers)
        if outcome is None:
            return
        self.probed += outcome.ran
        if outcome.problem is not None:
            self._problems.append(f"memory {record.id}: {outcome.problem}"[:200])
        elif not outcome.holds:
            self._flag(record.id, "stale", f"its probe {outcome.name:.60} answers something else")


def _users_word(record: Record) -> bool:
    """Whether a message is what a user said, and can be held against a memory."""
    return (
        record.role == "user"
        and record.tag != STEP
        and record.source.partition(":")[0] == "user"
        and record.trust >= UNTRUSTED
        and bool(record.content)
    )


def _told(record: Record) -> datetime:
    """When a memory got its present wording."""
    return max(record.occurred_at, record.valid_from)


def _is_open(record: Record) -> bool:
    state = record.metadata.get("status")
    return not record.metadata.get("done") and not (isinstance(state, str) and state.lower() in _DONE)
