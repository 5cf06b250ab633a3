"""The health report of a scope or of another system's export, and the execution of its plan.

Every step of a plan but redaction can be undone: archived records have a ticket, reviews are added to the review list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from keepstone.errors import ValidationError
from keepstone.maintenance.external_exports import read_export
from keepstone.maintenance.health import CHECKS, HealthReport, Item, Step, examine
from keepstone.maintenance.retention import Retention
from keepstone.ports.maintenance import ArchiveReason, Flag, FlagKind
from keepstone.ports.stores import Clock, Progress, Store
from keepstone.ports.values import ImportRow, RecordExport
from keepstone.recall.access import AccessCounter
from keepstone.recall.query import check_int
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


class HealthChecker(Retention):
    """Makes the health report of a scope and carries out its plan. `find` finds the sensitive passages of a text, `redacts` are
    the kinds of them that are redacted."""

    def __init__(
        self,
        scope: Scope,
        store: Store,
        accesses: AccessCounter,
        clock: Clock,
        find: Callable[[str], Sequence[Any]],
        redacts: Collection[str],
    ) -> None:
        super().__init__(scope, store, accesses, clock)
        self._find = find
        self._redacts = redacts

    def health(
        self,
        path: str | PathLike[str] | None = None,
        *,
        format: str = "auto",
        most: int = 100,
        progress: Progress | None = None,
    ) -> HealthReport:
        """Look for duplicates, junk and secrets, and for memories that are stale, contradicted, orphaned or never recalled. No
        model is used. With a path, an export of mem0, Letta, LangMem or keepstone is examined. `plan` says what `fix` would do.

        >>> memory.upkeep.health().score
        100"""
        most = check_int(most, "the limit", 1, 1_000_000)
        if path is None:
            self._accesses.flush()
            expected = self._store.count(self._scope)
            items: Iterable[Item] = map(_item, self._store.export_records(self._scope))
        else:
            expected, items = 0, read_export(path, format)[1]
        return examine(
            items, now=self._clock(), find=self._find, redacts=self._redacts, most=most, expected=expected, progress=progress
        )

    def fix(self, *, checks: Collection[str] | None = None, dry_run: bool = False) -> FixReport:
        """Carry out the plan of the health report, for these checks or all: archive, redact, flag for review.

        >>> memory.upkeep.fix(checks=["duplicates"], dry_run=True).archived
        0"""
        unknown = sorted(set(checks or ()) - set(CHECKS))
        if isinstance(checks, str) or unknown:
            raise ValidationError(f"checks is {(unknown or checks)!r:.60}: use a list of {', '.join(CHECKS)}.")
        plan = [step for step in self.health().plan if checks is None or step.check in checks]
        steps = tuple(step for step in plan if step.action != "nothing")
        counts = dict.fromkeys(("archive", "redact", "review"), 0)
        tickets: list[int] = []
        for step in steps:
            if dry_run:
                counts[step.action] += len(step.ids)
            elif step.action == "archive":
                found = [self._store.get(self._scope, id) for id in step.ids]
                reason = _ARCHIVE_REASONS.get(step.check, "duplicate")
                report = self._archive([record for record in found if record is not None], reason)
                counts["archive"] += len(report.ids)
                tickets += [report.ticket] if report.ticket else []
            elif step.action == "redact":
                counts["redact"] += self._redact(step.ids)
            else:
                kind = _FLAG_KINDS.get(step.check, "duplicate")
                flags = [Flag(id, kind, step.reason, _others(step.ids, id)) for id in step.ids]
                counts["review"] += self._store.reviews.add(self._scope, flags)
        return FixReport(counts["archive"], counts["redact"], counts["review"], tuple(tickets), dry_run, steps)

    def _redact(self, ids: Sequence[str]) -> int:
        """Redact the sensitive passages of records and of their history."""
        done = 0
        for archive in list(self._store.export_records(self._scope, ids)):
            record = archive.record
            row = ImportRow(
                archive, record_terms(record.content, record.key), None, gist_of(record.content, record.kind, record.key)
            )
            done += self._store.redact(self._scope, row)
        return done


def _item(archive: RecordExport) -> Item:
    """A record as an item, with its earlier wordings, metadata and names."""
    record = archive.record
    about = [json.dumps(version.metadata, ensure_ascii=False) for version in archive.versions if version.metadata]
    names = [name for name in (record.key, record.tag, record.session, record.source, record.name) if name]
    under = [f"{name}: {record.content}" for name in (record.key, record.tag) if name and name != "general"]
    past = (*(version.content for version in archive.versions[:-1]), *about, *names, *under)
    return Item.of(record, past, archive.dedup_key)


def _others(ids: Sequence[str], id: str) -> tuple[str, ...]:
    return tuple(other for other in ids if other != id)[:8]
