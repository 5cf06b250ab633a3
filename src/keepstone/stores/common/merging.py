"""Merging of a record that another store has as well, inside a transaction.

Versions are compared by the time they became known, so both stores come to the same result, whichever merges first: the union of
their versions, without those that either erased. The status and what else is not part of a version is that of the last change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from keepstone.ports.values import ImportRow, RecordExport, Stamp, Support
from keepstone.stores.common import record_export
from keepstone.stores.common.archiving import archive, flag
from keepstone.stores.common.rows import content_hash, packed, unpacked
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import State, WriteContext, audit
from keepstone.stores.common.writes import add_passages, head_stop, remove_words
from keepstone.text.passages import passage_range
from keepstone.text.sentences import is_long
from keepstone.text.times import EPOCH, instant, micros, parse_time
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import MESSAGE, Scope, Version

_CHANGED, _ERASED = "changed there ", "erased there "  # reasons of an audit entry, with the time
_BOTH = "it was changed in two stores at once: the later wording is current, the other one is in its history"
_KEY = "two stores had a memory under its key: the older one is archived"


class Place(NamedTuple):
    """What identifies a version of a record in every store: when it became known, and its place among those of that instant."""

    known_from: datetime
    number: int


@dataclass(frozen=True, slots=True)
class _Side:
    export: RecordExport
    stamp: Stamp
    versions: Mapping[Place, Version]

    @property
    def erased(self) -> datetime:
        return self.stamp.erased or EPOCH


def read_stamps(db: Transaction, scope: int | None, ids: Collection[str]) -> dict[str, Stamp]:
    """When records were changed and something of them was erased, in whichever store that was."""
    listed = packed(sorted(ids))
    erased: dict[str, datetime] = {}
    for id, verb, at, reasons in db.all("merge_erased", (scope, listed)):
        when = _reason_time(unpacked(reasons), _ERASED) or (instant(at) if verb != "sync" else None)
        if when is not None:
            erased[id] = max(when, erased.get(id, when))
    return {
        id: Stamp(_reason_time(unpacked(reasons), _CHANGED) or instant(at), erased.get(id))
        for id, at, reasons in db.all("merge_changed", (scope, listed))
    }


def _reason_time(reasons: Sequence[str], head: str) -> datetime | None:
    return next((parse_time(each.removeprefix(head), "a time") for each in reasons if each.startswith(head)), None)


def merge_rows(db: Transaction, context: WriteContext, rows: Sequence[ImportRow]) -> tuple[int, bool]:
    """Merge records of another store into this one. Returns how many changed, and whether texts were erased. A record that was
    forgotten here stays forgotten."""
    ids = packed([row.archive.record.id for row in rows])
    gone = {id for (id,) in db.all("merge_forgotten", (context.scope, ids))}
    changed, erased = 0, False
    for row in rows:
        if row.archive.record.id not in gone:
            done, texts = _merge_row(db, context, row)
            changed += done
            erased = erased or texts
    return changed, erased


def _merge_row(db: Transaction, context: WriteContext, row: ImportRow) -> tuple[bool, bool]:
    scope, id, stamp = Scope(*context.owner), row.archive.record.id, row.stamp or Stamp(instant(context.now))
    found = list(record_export.export_records(db, scope, context.scope, [id]))  # read to the end: an open row locks
    local = found[0] if found else None
    if local is None:
        merged, conflict = row.archive, False
    else:
        mine = _side(local, read_stamps(db, context.scope, [id])[id])
        merged, conflict = merge(mine, _side(row.archive, stamp))
    wanted = merged
    merged, rival = _settle_rival(db, context, merged)
    if merged is not wanted:
        stamp = replace(stamp, changed=instant(context.now))  # decided here and now
    if local is not None and merged.fingerprint == local.fingerprint:
        return False, False
    if local is None:
        record_export.insert_new(db, context, replace(row, archive=merged), "sync", _reasons(stamp))
        lost = False
    else:
        kept = {(each.content, packed(each.metadata)) for each in merged.versions}
        lost = any((each.content, packed(each.metadata)) not in kept for each in local.versions)
        stamp = replace(stamp, changed=max(stamp.changed, mine.stamp.changed))
        _replace(db, context, local, replace(row, archive=merged), lost, stamp)
    if conflict or rival:
        sequence = db.one("record_sequence", (context.scope, id))[0]
        if db.one("review_known", (sequence, "conflict", merged.record.version)) is None:
            flag(db, context, sequence, merged.record.version, "conflict", _BOTH if conflict else _KEY, rival)
    return True, lost


def _reasons(stamp: Stamp) -> list[str]:
    reasons = [f"{_CHANGED}{stamp.changed.isoformat()}"]
    return reasons if stamp.erased is None else [*reasons, f"{_ERASED}{stamp.erased.isoformat()}"]


def _side(export: RecordExport, stamp: Stamp) -> _Side:
    seen: Counter[datetime] = Counter()
    versions = {}
    for version in export.versions:
        versions[Place(version.known_from, seen[version.known_from])] = version
        seen[version.known_from] += 1
    return _Side(export, stamp, versions)


def merge(mine: _Side, theirs: _Side) -> tuple[RecordExport, bool]:
    """What both stores have of a record, and whether both had changed its wording. The same from either side."""
    left = {place for place in mine.versions if place in theirs.versions or place.known_from > theirs.erased}
    right = {place for place in theirs.versions if place in mine.versions or place.known_from > mine.erased}
    last = [(side.stamp.changed, side.export.fingerprint) for side in (mine, theirs)]
    latest = theirs if last[1] > last[0] else mine
    base = theirs if left < right else mine if right < left else latest
    order = [place for place in base.versions if place in left | right]
    conflict = not (left <= right or right <= left)
    if conflict:
        order = sorted(left | right)
        base = next((side for side in (mine, theirs) if order[-1] not in _other(side, mine, theirs).versions), latest)
        conflict = mine.export.record.content != theirs.export.record.content
    if not order:
        return base.export, False
    redacted = theirs if theirs.erased > mine.erased else mine if mine.erased > theirs.erased else base
    versions, supports = [], []
    for number, place in enumerate(order, 1):
        side = redacted if place in redacted.versions else _other(redacted, mine, theirs)
        versions.append(replace(side.versions[place], version=number))
        was = side.versions[place].version
        supports += [replace(each, version=number) for each in _supports(side.export) if each.version == was]
    return RecordExport(_shown(base.export, versions[-1]), tuple(versions), base.export.archived, tuple(supports)), conflict


def _other(side: _Side, mine: _Side, theirs: _Side) -> _Side:
    return theirs if side is mine else mine


def _supports(export: RecordExport) -> Sequence[Support]:
    record = export.record
    plain = (Support(record.version, 0, record.parents, record.session),) if record.parents else ()
    return export.supports or plain


def _shown(export: RecordExport, version: Version) -> Any:
    """The record as its last version has it."""
    names = ("content", "version", "metadata", "importance", "kind", "tag", "source", "trust", "session", "role", "name")
    return export.record.with_(**{name: getattr(version, name) for name in names})


def _settle_rival(db: Transaction, context: WriteContext, merged: RecordExport) -> tuple[RecordExport, tuple[str, ...]]:
    """Of two active records with one key or one content the one that changed last stays active. Returns the record as it may be
    stored, and the id of the other one if their contents differ."""
    record = merged.record
    if record.status != "active" or (record.kind == MESSAGE and record.key is None):
        return merged, ()
    if record.key is not None:
        row = db.one("record_state_by_key", (context.scope, record.key))
    else:
        row = db.one("record_same", (context.scope, content_hash(record.content), record.kind, record.tag))
    rival = None if row is None else State(*row)
    if rival is None or rival.id == record.id:
        return merged, ()
    differs = (rival.id,) if rival.content != record.content else ()
    if (rival.updated_at, rival.id) > (micros(record.updated_at), record.id):
        archived = (instant(context.now), "duplicate")
        return replace(merged, record=record.with_(status="archived"), archived=archived), differs
    archive(db, context, [rival.id], "duplicate")
    return merged, differs


def _replace(db: Transaction, context: WriteContext, local: RecordExport, row: ImportRow, lost: bool, stamp: Stamp) -> None:
    """Put a merged record in the place of the one that is there."""
    record, was = row.archive.record, local.record
    sequence = db.one("record_sequence", (context.scope, record.id))[0]
    verb, action = ("unsay", "forgotten") if lost else ("sync", "updated")
    number = audit(db, context, verb, action, sequence, record.id, record.version, "system", _reasons(stamp))
    moved = (was.content, was.key) != (record.content, record.key)
    if moved:
        remove_words(db, context, sequence, was.content, was.key)
    db.run("record_delete", (sequence,))
    db.run("history_delete", (sequence,))
    db.run("lineage_drop", (sequence,))
    record_export.insert_record(db, context, sequence, row)
    db.run("record_changed", (sequence, number))
    if not moved:
        db.run("vector_version", (sequence, record.version))
        if is_long(record.content):
            db.run("passages_version", (context.scope, *passage_range(sequence), record.version))
        return
    if record.kind == MESSAGE:
        db.all("state_derived", (context.scope, record.session or "", True))
    terms = record_terms(record.content, record.key)
    same = row.terms == tuple(terms)  # else the vector is not of this wording
    vector = context.kept(db, row.vector) if same else (None, None)
    db.run("words_add", (sequence, context.token, " ".join(terms)))
    db.run("vector_change", (sequence, record.version, term_hashes(terms).tobytes(), *vector, head_stop(record.content)))
    add_passages(db, context, sequence, record.version, record.content, record.key, row.passages if same else ())
    db.run("next_delete", (sequence,))
