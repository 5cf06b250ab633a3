"""The health report of a memory store: its faults, a score, and a plan to mend them. No model is asked.

It reads items of any system (`Item.of` makes one of a record) and changes nothing. What the plan archives can be restored; a
redaction cannot be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal, get_args

from keepstone.errors import ValidationError
from keepstone.maintenance import health_checks as checks
from keepstone.maintenance.health_checks import Action, Examination, Issue
from keepstone.ports.stores import Progress
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
WEIGHTS: Mapping[Check, int] = {  # of one faulty memory, where a sound one weighs two
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
_SOUND_WEIGHT = 2
_REPORTED_ITEMS = 1000  # read between two calls of `progress`
_REMOVING = ("archive", "redact")


@dataclass(frozen=True, slots=True)
class Item:
    """One memory of any system. What a system does not know is None."""

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
    occurred_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    past: tuple[str, ...] = ()  # earlier versions: only secrets are looked for there
    dedup_key: bytes | None = None  # what a store finds near-duplicates by; computed where it is None

    @classmethod
    def of(cls, record: Record, past: tuple[str, ...] = (), dedup_key: bytes | None = None) -> Item:
        """The item of a keepstone record."""
        values: list[Any] = [*_RECORD_VALUES(record), past, dedup_key]
        return cls(*values)


_RECORD_VALUES = attrgetter(
    *("scope.user" if each.name == "user" else each.name for each in fields(Item) if each.name not in ("past", "dedup_key"))
)


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One finding: a memory, or a group of them with the one to keep first. The reason holds no content."""

    check: Check
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan: an action and its ids. Everything but a redaction can be undone."""

    check: Check
    action: Action
    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The result of an examination. `score` is 0 to 100, and 100 only without findings; `counts` says for each check how many
    memories it would remove or flag; `findings` are the first of each check; the plan is complete."""

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
    redacts: Collection[str] = ("secret", "card", "ssn", "national_id", "iban"),
    most: int = 100,
    expected: int = 0,
    progress: Progress | None = None,
) -> HealthReport:
    """Examine all memories of a store. `find` returns the sensitive passages of a text, each with its `kind`; at most `most`
    findings of a check are listed, while counts and plan are complete. `progress` is called while items are read, if it is known
    how many are `expected`, and after each check; both halves count alike.

    >>> from datetime import UTC
    >>> report = examine([Item("a", "Ana likes tea"), Item("b", "Ana likes tea."), Item("c", "ok!")], now=datetime.now(UTC))
    >>> report.counts["duplicates"], report.counts["junk"], [step.ids for step in report.plan]
    (1, 1, [('c',), ('b',)])
    """
    if most < 0:
        raise ValidationError(f"most is {most}: list at least 0 findings of each check.")
    if progress is not None and expected:
        items = _count_items(items, expected, progress)
    examination = checks.read_items(items, checks.as_utc(now) or now, find, redacts)
    half = max(expected, len(CHECKS))
    issues: dict[Check, list[Issue]] = {}
    plan: list[Step] = []
    for check, results in _run_checks(examination):
        issues[check] = list(results)
        plan.extend(_plan_removals(check, issues[check], examination.removed))
        if progress is not None:
            progress(expected + half * len(issues) // len(CHECKS), expected + half)
    archived = {id for step in plan if step.action == "archive" for id in step.ids}
    plan.extend(step for check, results in issues.items() for step in _plan_reviews(check, results, archived))
    counts: dict[str, int] = {check: len({id for issue in issues[check] for id in issue.ids}) for check in CHECKS}
    findings = (
        HealthFinding(check, issue.kept_ids + issue.ids, issue.reason) for check in CHECKS for issue in issues[check][:most]
    )
    return HealthReport(_lower_score(examination, issues), len(examination.ids), counts, tuple(findings), tuple(plan))


def _count_items(items: Iterable[Item], expected: int, progress: Progress) -> Iterator[Item]:
    for done, item in enumerate(items):
        if done % _REPORTED_ITEMS == 0:
            progress(min(done, expected), 2 * expected)
        yield item


def score(counts: Mapping[str, int], sound: int) -> int:
    """How healthy a store is, 0 to 100: the weight of the sound memories in the weight of all. A sound memory is named by no
    check but "never recalled" and "untrusted" and weighs two; the others weigh what WEIGHTS says, once per fault. The result is
    rounded down, so one fault costs a point; findings without a weight cost one point altogether.

    More faults never raise it; more sound memories never lower it.

    >>> score({}, 10), score({"junk": 10}, 90), score({"secrets": 1}, 99), score({"untrusted": 10}, 90)
    (100, 90, 90, 99)
    """
    faults = sum(WEIGHTS[check] * counts.get(check, 0) for check in WEIGHTS)
    if faults:
        return 100 * _SOUND_WEIGHT * sound // (_SOUND_WEIGHT * sound + faults)
    return 99 if any(counts.values()) else 100


def _lower_score(examination: Examination, issues: Mapping[Check, Sequence[Issue]]) -> int:
    """The lower of the scores of the memories and of the log, so that a long log cannot hide faults of memories."""
    log = examination.ids.difference(item.id for item in examination.memories)
    named: dict[str, set[str]] = {check: {id for issue in issues[check] for id in issue.ids} for check in CHECKS}
    faulty = set().union(*(named[check] for check in WEIGHTS))
    in_memories = {check: len(ids - log) for check, ids in named.items()}
    in_log = {check: len(ids & log) for check, ids in named.items()}
    return min(score(in_memories, len(examination.memories) - len(faulty - log)), score(in_log, len(log - faulty)))


def _run_checks(examination: Examination) -> Iterator[tuple[Check, Iterable[Issue]]]:
    """The checks in the order in which they may remove something; a generator, as each reads what was removed before it."""
    yield "secrets", examination.secrets
    yield "junk", checks.find_junk(examination)
    yield "expired", checks.find_expired(examination)
    yield "duplicates", checks.find_duplicates(examination)
    yield "near duplicates", checks.find_near_duplicates(examination)
    yield "echoes", checks.find_echoes(examination)
    yield "contradictions", checks.find_contradictions(examination)
    yield "stale", checks.find_stale(examination, timedelta(days=180))
    yield "orphans", checks.find_orphans(examination)
    yield "never recalled", checks.find_never_recalled(examination, timedelta(days=90))
    yield "untrusted", checks.find_untrusted(examination)


def _plan_removals(check: Check, issues: Iterable[Issue], removed: set[str]) -> list[Step]:
    """The steps that archive or redact, one for each reason, without what an earlier check removes."""
    steps: dict[tuple[Action, str], list[str]] = {}
    for issue in issues:
        if issue.action in _REMOVING:
            new = [id for id in issue.ids if id not in removed]
            removed.update(new)
            steps.setdefault((issue.action, issue.reason), []).extend(new)
    return [Step(check, action, tuple(ids), reason) for (action, reason), ids in steps.items() if ids]


def _plan_reviews(check: Check, issues: Iterable[Issue], archived: Collection[str]) -> Iterator[Step]:
    """The steps that change nothing: one for each group to review, one for each reason that is only reported."""
    reported: dict[str, list[str]] = {}
    for issue in issues:
        ids = issue.kept_ids + issue.ids
        left = tuple(id for id in ids if id not in archived)
        if issue.action == "nothing":
            reported.setdefault(issue.reason, []).extend(left)
        elif issue.action == "review" and left and (len(left) > 1 or len(ids) == 1):
            yield Step(check, issue.action, left, issue.reason)
    yield from (Step(check, "nothing", tuple(ids), reason) for reason, ids in reported.items() if ids)
