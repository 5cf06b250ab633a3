"""The health report of a memory store: what is wrong with it, how grave that is, and what would be done about it. Pure, and no
model is asked.

It reads items of whichever system (`Item.of` makes one of a record) and changes nothing. All that a plan puts aside can be
brought back; only a redaction cannot be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from keepstone.errors import ValidationError
from keepstone.maintenance import health_checks as checks
from keepstone.maintenance.health_checks import Action, Found, Shelf
from keepstone.maintenance.health_pairs import echoes, near_duplicates
from keepstone.types import Record

Check = Literal[
    "duplicates",
    "near duplicates",
    "echoes",
    "junk",
    "secrets",
    "stale",
    "never recalled",
    "contradictions",
    "orphans",
    "expired",
    "untrusted",
]
CHECKS: tuple[Check, ...] = get_args(Check)
WEIGHTS: Mapping[Check, int] = {  # what one memory costs, where a sound one counts for two; what is only said costs nothing
    "secrets": 20,
    "duplicates": 2,
    "echoes": 2,
    "junk": 2,
    "contradictions": 2,
    "near duplicates": 1,
    "stale": 1,
    "orphans": 1,
    "expired": 1,
}
_SOUND = 2
_TAKEN = ("put aside", "redact")


@dataclass(frozen=True, slots=True)
class Item:
    """One memory, of whichever system. What a system does not know is None."""

    id: str
    content: str
    kind: str = "fact"
    tag: str = "general"
    key: str | None = None
    user: str = ""
    source: str = "user"
    trust: float = 1.0
    importance: float = 0.5
    role: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_accessed_at: datetime | None = None
    access_count: int | None = None
    expires_at: datetime | None = None
    parents: tuple[str, ...] = ()
    status: str = "active"
    valid_from: datetime | None = None
    past: tuple[str, ...] = ()  # what it said before: only secrets are looked for there

    @classmethod
    def of(cls, record: Record) -> Item:
        """The item that a record of ours is."""
        return cls(
            id=record.id,
            content=record.content,
            kind=record.kind,
            tag=record.tag,
            key=record.key,
            user=record.scope.user,
            source=record.source,
            trust=record.trust,
            importance=record.importance,
            role=record.role,
            created_at=record.created_at,
            updated_at=record.updated_at,
            last_accessed_at=record.last_accessed_at,
            access_count=record.access_count,
            expires_at=record.expires_at,
            parents=record.parents,
            status=record.status,
            valid_from=record.valid_from,
        )


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One thing that was found: a memory, or a group of them with the one to keep first. The reason holds no content."""

    check: Check
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan: what would be done, with which ids. All of it can be undone but redaction."""

    check: Check
    action: Action
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What an examination found. `score` is 0 to 100, and 100 only where nothing was found; `counts` has for each check how many
    memories would go or need a look; `findings` are the first of each check; the plan is whole."""

    score: int
    items: int
    counts: Mapping[str, int]
    findings: tuple[HealthFinding, ...] = ()
    plan: tuple[Step, ...] = ()


def examine(
    items: Iterable[Item],
    *,
    now: datetime,
    find: Callable[[str], Sequence[Any]] | None = None,
    redacts: Collection[str] = ("secret", "card", "ssn", "iban"),
    stale_after: timedelta = timedelta(days=180),
    unread_after: timedelta = timedelta(days=90),
    most: int = 100,
) -> HealthReport:
    """Look at all memories of a store and say what is wrong with them. `find` tells sensitive passages of a text, each with its
    `kind`; at most `most` findings of a check are listed, while counts and plan have all.

    >>> from datetime import UTC
    >>> report = examine([Item("a", "Ana likes tea"), Item("b", "Ana likes tea."), Item("c", "ok!")], now=datetime.now(UTC))
    >>> report.counts["duplicates"], report.counts["junk"], [step.ids for step in report.plan]
    (1, 1, [('c',), ('b',)])
    """
    if most < 0:
        raise ValidationError(f"most is {most}: list at least 0 findings of each check.")
    every: dict[str, Item] = {}
    for item in items:
        every.setdefault(item.id, item)
    memories = tuple(item for item in every.values() if item.status == "active" and not checks.is_log(item))
    shelf = Shelf(every, memories, checks.moment(now) or now, set())
    found: dict[Check, list[Found]] = {}
    plan: list[Step] = []
    for check, founds in _checked(shelf, find, redacts, stale_after, unread_after):
        found[check] = list(founds)  # each knows what those before it would take away
        plan.extend(_taken(check, found[check], shelf.gone))
    archived = {id for step in plan if step.action == "put aside" for id in step.ids}
    plan.extend(step for check, founds in found.items() for step in _seen(check, founds, archived))
    counts: dict[str, int] = {check: len({id for each in found[check] for id in each.go}) for check in CHECKS}
    findings = (HealthFinding(check, each.stay + each.go, each.reason) for check in CHECKS for each in found[check][:most])
    return HealthReport(_worse(shelf, found), len(every), counts, tuple(findings), tuple(plan))


def score(counts: Mapping[str, int], sound: int) -> int:
    """How healthy a store is, 0 to 100: the share of sound memories, those that no check but "never recalled" and "untrusted" has
    named, in all that counts. Each sound one counts for two, each other one as grave as it is: a secret for twenty, a duplicate,
    junk, an echo or a contradiction for two, the rest for one; what has two faults counts for both. Rounded down, so that a
    single fault costs a point; what is only said costs one point altogether.

    More faults never raise it, neither in memories that were sound nor in new ones; more sound memories never lower it.

    >>> score({}, 10), score({"junk": 10}, 90), score({"secrets": 1}, 99), score({"untrusted": 10}, 90)
    (100, 90, 90, 99)
    """
    faults = sum(WEIGHTS[check] * counts.get(check, 0) for check in WEIGHTS)
    if faults:
        return 100 * _SOUND * sound // (_SOUND * sound + faults)
    return 99 if any(counts.values()) else 100


def _worse(shelf: Shelf, found: Mapping[Check, Sequence[Found]]) -> int:
    """The score of the memories or of the log, whichever is worse, so that a long log cannot hide what is wrong with memories."""
    log = {item.id for item in shelf.every.values() if checks.is_log(item) or item.status != "active"}
    named: dict[str, set[str]] = {check: {id for each in found[check] for id in each.go} for check in CHECKS}
    faulty = set().union(*(named[check] for check in WEIGHTS))
    memories = {check: len(ids - log) for check, ids in named.items()}
    logged = {check: len(ids & log) for check, ids in named.items()}
    return min(score(memories, len(shelf.memories) - len(faulty - log)), score(logged, len(log - faulty)))


def _checked(
    shelf: Shelf,
    find: Callable[[str], Sequence[Any]] | None,
    redacts: Collection[str],
    stale_after: timedelta,
    unread_after: timedelta,
) -> Iterator[tuple[Check, Iterable[Found]]]:
    """The checks in the order in which they may take something away; a generator, as each must see what is gone by then."""
    yield "secrets", checks.secrets(shelf, find, redacts)
    yield "junk", checks.junk(shelf)
    yield "expired", checks.expired(shelf)
    yield "duplicates", checks.duplicates(shelf)
    yield "near duplicates", near_duplicates(shelf)
    yield "echoes", echoes(shelf)
    yield "contradictions", checks.contradictions(shelf)
    yield "stale", checks.stale(shelf, stale_after)
    yield "orphans", checks.orphans(shelf)
    yield "never recalled", checks.never_recalled(shelf, unread_after)
    yield "untrusted", checks.untrusted(shelf)


def _taken(check: Check, founds: Iterable[Found], gone: set[str]) -> list[Step]:
    """The steps that put aside or redact, one for each reason; what an earlier check has taken is left out."""
    steps: dict[tuple[Action, str], list[str]] = {}
    for each in founds:
        if each.action in _TAKEN:
            fresh = [id for id in each.go if id not in gone]
            gone.update(fresh)
            steps.setdefault((each.action, each.reason), []).extend(fresh)
    return [Step(check, action, tuple(ids), reason) for (action, reason), ids in steps.items() if ids]


def _seen(check: Check, founds: Iterable[Found], archived: Collection[str]) -> Iterator[Step]:
    """The steps that change nothing: one for each group to look at, one for all that is only said."""
    said: dict[str, list[str]] = {}
    for each in founds:
        left = tuple(id for id in each.stay + each.go if id not in archived)
        if each.action == "nothing":
            said.setdefault(each.reason, []).extend(left)
        elif each.action == "review" and left and (len(left) > 1 or len(each.stay + each.go) == 1):
            yield Step(check, each.action, left, each.reason)
    yield from (Step(check, "nothing", tuple(ids), reason) for reason, ids in said.items() if ids)
