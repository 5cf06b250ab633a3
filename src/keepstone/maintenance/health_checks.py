"""The checks of the health report, one function each. Pure.

A check gets the `Shelf` and says what it found; which of it becomes a finding or a step is decided in `health`. A message is part
of a log: it is looked at for secrets, and counts as a parent, and that is all.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from keepstone.maintenance.health_claims import Claim, claim, opposed
from keepstone.maintenance.health_junk import junk_reason
from keepstone.maintenance.health_times import past_reason
from keepstone.text.words import STOP_WORDS, terms
from keepstone.types import MESSAGE, UNTRUSTED

if TYPE_CHECKING:
    from keepstone.maintenance.health import Item

Action = Literal["put aside", "redact", "review", "nothing"]
_PLANS = frozenset("task tasks plan plans todo todos to-do reminder reminders".split())
_SPACES = re.compile(r"\s+")
_SUBJECT = frozenset(terms("user users you your yours their they assistant my me mine"))
_COMPARED = 50  # claims of one thing that each is held against
_NEVER = datetime.max.replace(tzinfo=UTC)


class Found(NamedTuple):
    """One thing a check found: the ids it is about, those that may stay (the one to keep first), and what should be done."""

    go: tuple[str, ...]
    reason: str
    action: Action
    stay: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shelf:
    """Everything that is examined: `every` item by its id, the `memories` that are active and no messages, and the ids that
    earlier checks would take away."""

    every: dict[str, Item]
    memories: tuple[Item, ...]
    now: datetime
    gone: set[str]
    _words: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def words(self, item: Item) -> tuple[str, ...]:
        """The terms of an item's content, in order, each once."""
        found = self._words.get(item.id)
        if found is None:
            found = self._words[item.id] = tuple(dict.fromkeys(terms(item.content)))
        return found

    def meant(self, item: Item) -> set[str]:
        """The terms that carry what an item says, whoever it says it of."""
        return set(self.words(item)) - _SUBJECT - STOP_WORDS

    def worth(self, item: Item) -> tuple[bool, float, int, datetime, str]:
        """Sorts the one to keep first: what stays anyway, the most trusted, then the most read, then the oldest."""
        return item.id in self.gone, -item.trust, -(item.access_count or 0), moment(item.created_at) or _NEVER, item.id


def moment(at: datetime | None) -> datetime | None:
    """A time that can be compared: one without a zone is read as UTC."""
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def plain(text: str) -> str:
    """A text as duplicates are compared: without odd spaces, the last full stop and the case of its first letter."""
    said = _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip().rstrip(".").rstrip()
    return said[:1].lower() + said[1:]


def place(item: Item) -> tuple[str, str, str]:
    """What is compared with each other: never two users' memories, nor a success with a failure."""
    return item.user, item.kind, item.tag if item.kind == "episode" else ""


def secrets(shelf: Shelf, find: Callable[[str], Sequence[Any]] | None, redacts: Collection[str]) -> Iterator[Found]:
    """Whatever `find` sees in a text, messages included, of the kinds that are to be redacted."""
    if find is None:
        return
    for item in shelf.every.values():
        found = (each for text in (item.content, *item.past) for each in find(text))
        kinds = sorted({str(each.kind) for each in found}.intersection(redacts))
        if kinds:
            yield Found((item.id,), f"holds what looks like sensitive text of the kind {' and '.join(kinds)}", "redact")


def junk(shelf: Shelf) -> Iterator[Found]:
    """What is no memory at all; a value under a key may be a single word."""
    for item in shelf.memories:
        reason = junk_reason(item.content) if item.key is None else None
        if reason is not None:
            yield Found((item.id,), reason, "put aside")


def expired(shelf: Shelf) -> Iterator[Found]:
    """What has passed its own end and is still listed."""
    for item in shelf.memories:
        end = moment(item.expires_at)
        if end is not None and end <= shelf.now:
            yield Found((item.id,), "its time to live has passed and it is still listed", "put aside")


def duplicates(shelf: Shelf) -> Iterator[Found]:
    """The same text more than once."""
    for group in _same(shelf):
        if len(group) > 1:
            yield Found(_ids(group[1:]), "has exactly the text of another memory", "put aside", _ids(group[:1]))


def distinct(shelf: Shelf) -> list[Item]:
    """Of the memories each text once, the best of each group of duplicates."""
    return [group[0] for group in _same(shelf)]


def _same(shelf: Shelf) -> Iterable[list[Item]]:
    groups: dict[object, list[Item]] = defaultdict(list)
    for item in shelf.memories:
        groups[place(item), item.key, plain(item.content)].append(item)
    return [sorted(group, key=shelf.worth) for group in groups.values()]


def stale(shelf: Shelf, after: timedelta) -> Iterator[Found]:
    """What was tied to a time that has passed, and plans that nobody has touched for long."""
    for item in shelf.memories:
        since = moment(item.valid_from or item.created_at)
        reason = past_reason(item.content, since, shelf.now)
        if reason is None and not _PLANS.isdisjoint((item.tag.casefold(), item.kind.casefold())):
            touched = [moment(at) for at in (item.created_at, item.updated_at, item.last_accessed_at)]
            last = max((at for at in touched if at is not None), default=shelf.now)
            if shelf.now - last > after:
                reason = f"a plan that nobody has touched for more than {after.days} days"
        if reason is not None:
            yield Found((item.id,), reason, "review")


def never_recalled(shelf: Shelf, after: timedelta) -> Iterator[Found]:
    """What was never read although it had the time; systems that do not count reads are not asked."""
    for item in shelf.memories:
        since = moment(item.created_at)
        if item.access_count == 0 and since is not None and shelf.now - since > after:
            yield Found((item.id,), f"was never recalled in more than {after.days} days", "nothing")


def untrusted(shelf: Shelf) -> Iterator[Found]:
    """What came from a source that may not replace what others said and will expire unless somebody confirms it."""
    for item in shelf.memories:
        if item.trust < UNTRUSTED and item.expires_at is not None:
            yield Found((item.id,), "comes from a source that is trusted little, and nobody has confirmed it", "nothing")


def orphans(shelf: Shelf) -> Iterator[Found]:
    """What was derived from something that is no longer there."""
    for item in shelf.memories:
        lost = sum(parent not in shelf.every for parent in item.parents)
        if lost:
            yield Found((item.id,), f"{lost} of the {len(item.parents)} records it was derived from are not there", "review")


def contradictions(shelf: Shelf) -> Iterator[Found]:
    """More than one value at once under one key, or for what somebody can have only one of."""
    keyed: dict[object, dict[str, Item]] = defaultdict(dict)
    claimed: dict[object, list[tuple[Item, Claim]]] = defaultdict(list)
    for item in shelf.memories:
        if item.key is not None:
            keyed[item.user, item.key].setdefault(plain(item.content), item)
        elif (made := claim(item.content)) is not None:
            claimed[item.user, made.subject, made.attribute].append((item, made))
    for values in keyed.values():
        if len(values) > 1:
            yield Found(_ids(_newest(values.values())), f"{len(values)} values are active under one key", "review")
    for claims in claimed.values():
        against = [one for one, made in claims if any(opposed(made, other) for _, other in claims[:_COMPARED])]
        if len(against) > 1:
            yield Found(_ids(_newest(against)), "says another value than the others for what can have only one", "review")


def _newest(items: Iterable[Item]) -> list[Item]:
    """The newest first: it is the likeliest to hold."""
    early = datetime.min.replace(tzinfo=UTC)
    return sorted(items, key=lambda item: moment(item.valid_from or item.created_at) or early, reverse=True)


def _ids(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(item.id for item in items)


def is_log(item: Item) -> bool:
    """Whether an item is part of what was said, rather than a memory."""
    return item.kind == MESSAGE
