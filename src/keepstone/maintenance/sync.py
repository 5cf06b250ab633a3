"""What changed in a scope, for another store, and what changed there, for this one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from keepstone.errors import ValidationError
from keepstone.maintenance.transfer import Transfer, line_of, read_record
from keepstone.ports.stores import Store
from keepstone.ports.values import RecordExport, Selector, Stamp
from keepstone.text.times import parse_time
from keepstone.types import Scope, clean_name
from keepstone.write.request import trust_of

MAX_RECORDS = 500  # of a page


def read_changes(store: Store, scope: Scope, after: int, limit: int = MAX_RECORDS) -> tuple[int, dict[str, Any]]:
    """(the audit number it goes to, a page of changes): changed records with their histories, ids of forgotten ones, and whether
    there is `more`."""
    page = store.audit_log.feed(scope, after, limit)
    records = _documents(store, scope, list(store.export_records(scope, page.changed)) if page.changed else [])
    return page.latest, {"records": records, "forgotten": list(page.forgotten), "more": page.more}


def apply_changes(
    store: Store, transfer: Transfer, scope: Scope, records: Sequence[Mapping[str, Any]], forgotten: Sequence[str]
) -> dict[str, Any]:
    """Merge a page of another store's changes. Returns a page with what this store has instead, where it differs: forgetting
    wins, and versions of both stores are kept. `received` and `erased` count what changed here."""
    exports = [_read(record, scope) for record in records]
    named = [clean_name(id, "forgotten") for id in forgotten]
    gone = [export.record.id for export in store.export_records(scope, named)] if named else []
    erased = store.forget(scope, Selector(ids=tuple(gone))).forgotten if gone else 0
    rows = [
        replace(row, stamp=stamp)
        for row, (_, stamp) in zip(transfer.import_rows([export for export, _ in exports], True), exports, strict=True)
    ]
    received = store.import_records(scope, rows)[0] if rows else 0
    sent = {export.record.id: export.fingerprint for export, _ in exports}
    held = list(store.export_records(scope, list(sent))) if sent else []
    differing = [export for export in held if export.fingerprint != sent[export.record.id]]
    lost = sorted(store.audit_log.forgotten(scope, sent)) if len(held) < len(sent) else []
    return {"records": _documents(store, scope, differing), "forgotten": lost, "received": received, "erased": erased}


def _documents(store: Store, scope: Scope, exports: Sequence[RecordExport]) -> list[dict[str, Any]]:
    stamps = store.audit_log.stamps(scope, [export.record.id for export in exports]) if exports else {}
    documents = []
    for export in exports:
        stamp = stamps.get(export.record.id)
        if stamp is not None:  # else it was forgotten a moment ago
            times = {"changed": stamp.changed.isoformat(), "erased": stamp.erased and stamp.erased.isoformat()}
            documents.append({**json.loads(line_of(export)), "stamp": times})
    return documents


def _read(data: Mapping[str, Any], scope: Scope) -> tuple[RecordExport, Stamp]:
    """A record of a page, checked; no source is trusted more than its class, or than the user."""
    try:
        export, times = read_record(data, scope), data["stamp"]
        stamp = Stamp(parse_time(times["changed"], "changed"), times["erased"] and parse_time(times["erased"], "erased"))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValidationError(f"this is not a page of changes ({error!r:.80}): send what another keepstone gave.") from None
    record = export.record
    versions = tuple(replace(each, trust=_capped(each.source, each.trust)) for each in export.versions)
    return replace(export, record=record.with_(trust=_capped(record.source, record.trust)), versions=versions), stamp


def _capped(source: str, trust: float) -> float:
    return min(trust, trust_of(source), trust_of("user"))
