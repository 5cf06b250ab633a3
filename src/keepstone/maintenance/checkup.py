"""The health report of a scope or of another system's export, and the execution of its plan.

Every step of a plan but redaction can be undone: archived records have a ticket, reviews are added to the review list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, get_args

from keepstone.errors import ValidationError
from keepstone.maintenance.external_exports import read_export
from keepstone.maintenance.health import Check, HealthReport, Item, Step, examine
from keepstone.maintenance.retention import Retention
from keepstone.ports.maintenance import ArchiveReason, Flag, FlagKind
from keepstone.ports.stores import Clock, Store
from keepstone.ports.values import ImportRow, RecordExport
from keepstone.recall.access import AccessCounter
from keepstone.text.words import record_terms
from keepstone.types import Scope
from keepstone.write.request import gist_of

_ARCHIVE_REASONS: dict[str, ArchiveReason] = {"junk": "junk", "expired": "expired"}  # the others are duplicates
_FLAG_KINDS: dict[str, FlagKind] = {"stale": "stale", "contradictions": "contradicted", "orphans": "unsupported"}


@dataclass(frozen=True, slots=True)
class FixReport:
    """The result of a plan, or with a dry run its forecast: the number of records archived (`tickets` undo that), redacted and
    flagged for review."""

    archived: int = 0
    redacted: int = 0
    flagged: int = 0
    tickets: tuple[int, ...] = ()
    dry_run: bool = False
    steps: tuple[Step, ...] = ()


class HealthChecker:
    """Makes the health report of a scope and carries out its plan."""

    def __init__(
        self,
        store: Store,
        retention: Retention,
        accesses: AccessCounter,
        clock: Clock,
        find: Callable[[str], Sequence[Any]],
        redacts: Collection[str],
    ) -> None:
        self._store = store
        self._retention = retention
        self._accesses = accesses
        self._clock = clock
        self._find = find
        self._redacts = redacts

    def health(self, scope: Scope, most: int = 100) -> HealthReport:
        """The health report of a scope."""
        self._accesses.flush()
        items = [_item(archive) for archive in self._store.export_records(scope)]
        return self._examine(items, most)

    def health_of(self, path: str | PathLike[str], format: str, most: int = 100) -> HealthReport:
        """The health report of another system's export."""
        return self._examine(read_export(path, format)[1], most)

    def _examine(self, items: Sequence[Item], most: int) -> HealthReport:
        return examine(items, now=self._clock(), find=self._find, redacts=self._redacts, most=most)

    def fix(self, scope: Scope, checks: Collection[str] | None, dry_run: bool) -> FixReport:
        """Carry out the plan for these checks; None: for all."""
        known = get_args(Check)
        unknown = sorted(set(checks or ()) - set(known))
        if isinstance(checks, str) or unknown:
            raise ValidationError(f"checks is {(unknown or checks)!r:.60}: use a list of {', '.join(known)}.")
        plan = [step for step in self.health(scope).plan if checks is None or step.check in checks]
        steps = tuple(step for step in plan if step.action != "nothing")
        if dry_run:
            counts = {action: sum(len(step.ids) for step in steps if step.action == action) for action in ("archive", "redact")}
            flagged = sum(len(step.ids) for step in steps if step.action == "review")
            return FixReport(counts["archive"], counts["redact"], flagged, (), True, steps)
        archived, redacted, flags, tickets = 0, 0, 0, []
        for step in steps:
            if step.action == "archive":
                report = self._retention.archive(scope, step.ids, _ARCHIVE_REASONS.get(step.check, "duplicate"))
                archived += len(report.ids)
                tickets += [report.ticket] if report.ticket else []
            elif step.action == "redact":
                redacted += self._redact(scope, step.ids)
            else:
                kind = _FLAG_KINDS.get(step.check, "duplicate")
                flags += self._store.reviews.add(scope, [Flag(id, kind, step.reason, _others(step.ids, id)) for id in step.ids])
        return FixReport(archived, redacted, flags, tuple(tickets), False, steps)

    def _redact(self, scope: Scope, ids: Sequence[str]) -> int:
        """Redact the sensitive passages of records and of their history."""
        done = 0
        for archive in list(self._store.export_records(scope, ids)):
            record = archive.record
            row = ImportRow(
                archive, record_terms(record.content, record.key), None, gist_of(record.content, record.kind, record.key)
            )
            done += self._store.redact(scope, row)
        return done


def _item(archive: RecordExport) -> Item:
    """A record as an item, with its earlier wordings, metadata and names."""
    record = archive.record
    about = [json.dumps(version.metadata, ensure_ascii=False) for version in archive.versions if version.metadata]
    names = [name for name in (record.key, record.tag, record.session, record.source, record.name) if name]
    under = [f"{name}: {record.content}" for name in (record.key, record.tag) if name and name != "general"]
    past = (*(version.content for version in archive.versions[:-1]), *about, *names, *under)
    return replace(Item.of(record), past=past)


def _others(ids: Sequence[str], id: str) -> tuple[str, ...]:
    return tuple(other for other in ids if other != id)[:8]
