"""Whole records with their past, out of the file and into it; and writing the words anew. Imports: ports, rows, words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from recollect.ports import Archive, ImportRow, Support
from recollect.stores.sqlite import lineage
from recollect.stores.sqlite.aside import flag
from recollect.stores.sqlite.driver import all_rows, one_row
from recollect.stores.sqlite.moment import Moment, audit, sql
from recollect.stores.sqlite.rows import content_hash, packed, record_of, versions_of
from recollect.times import instant, micros
from recollect.types import Record, Scope
from recollect.words import record_terms, term_hashes


def archives(db: apsw.Connection, scope: Scope, number: int | None, ids: Sequence[str] | None) -> Iterator[Archive]:
    """Every record of a scope, or these, with its past, in order."""
    for row in db.execute(sql.record_walk, (number, None if ids is None else packed(list(ids)))):
        sequence, record = record_of(row, scope)
        past = all_rows(db, sql.history_list, (sequence,)) if record.version > 1 else []
        present = all_rows(db, sql.history_present, (sequence,))
        how: Any = one_row(db, sql.aside_how, (sequence,)) if record.status == "expired" else (None, "")
        aside = None if how[0] is None else (instant(how[0]), str(how[1]))
        held = tuple(
            Support(version, number, parents, session)
            for version in (*(row[0] for row in past), record.version)
            for number, parents, session in lineage.supports(db, sequence, version)
        )
        plain = held == (Support(record.version, 0, tuple(sorted(record.parents)), record.session),)
        yield Archive(record, tuple(versions_of(past + present)), aside, () if plain else held)


def restore(db: apsw.Connection, at: Moment, row: ImportRow) -> bool:
    """Store one archive as it is; False if it is there already."""
    record = row.archive.record
    if _taken(db, at, record):
        return False
    blob = at.blob(row.vector)
    sequence = audit(db, at, "import", "added", None, record.id, record.version, record.source)
    db.execute(sql.record_restore, (
        sequence, at.scope, record.id, record.kind, record.tag, record.key, record.content, content_hash(record.content),
        packed(record.metadata), record.importance, record.source, record.trust, record.session, record.role, record.name,
        micros(record.occurred_at), micros(record.created_at), micros(record.updated_at), micros(record.valid_from),
        None if record.expires_at is None else micros(record.expires_at), record.version, record.status,
        packed(record.parents), row.archive.versions[-1].action, row.gist,
        None if record.blocks is None else packed(record.blocks), packed(record.sensitive),
        *_aside(at, row.archive),
    ))  # fmt: skip
    if row.archive.supports:
        for each in row.archive.supports:
            lineage.restored(db, at, sequence, each)
    else:
        lineage.derived(db, at, sequence, record.version, record.parents, record.session)
    if record.status == "quarantined":
        flag(db, at, sequence, record.version, "quarantined", "it was imported in quarantine")
    db.execute(sql.vector_add, (sequence, record.version, term_hashes(row.terms).tobytes(), at.model if blob else None, blob))
    db.execute(sql.words_add, (sequence, at.token, " ".join(row.terms)))
    for version in row.archive.versions[:-1]:
        terms = term_hashes(record_terms(version.content, record.key)).tobytes()
        db.execute(sql.history_put, (
            sequence, version.version, version.content, content_hash(version.content), packed(version.metadata),
            version.importance, version.kind, version.tag, version.source, version.trust, version.session, version.role,
            version.name, micros(version.valid_from), micros(version.valid_from), micros(version.known_from),
            None if version.expires_at is None else micros(version.expires_at), version.action, terms,
        ))  # fmt: skip
    if record.access_count and record.last_accessed_at is not None:
        db.execute(sql.access_restore, (sequence, record.access_count, micros(record.last_accessed_at)))
    return True


def _aside(at: Moment, archive: Archive) -> tuple[int | None, str | None]:
    """Since when and why a record is aside."""
    if archive.record.status != "expired":
        return None, None
    return (at.now, "faded") if archive.aside is None else (micros(archive.aside[0]), archive.aside[1])


def _taken(db: apsw.Connection, at: Moment, record: Record) -> bool:
    """Whether the scope has this record, its key or its content already."""
    if one_row(db, sql.record_sequence, (at.scope, record.id)) is not None:
        return True
    if record.status != "active":
        return False
    if record.key is not None:
        return one_row(db, sql.record_state_by_key, (at.scope, record.key)) is not None
    return one_row(db, sql.record_same, (at.scope, content_hash(record.content), record.kind, record.tag)) is not None


def reindex(db: apsw.Connection, analyser: str) -> None:
    """Split every text into words anew, in one transaction: for a version of recollect that splits differently."""
    if dict(all_rows(db, sql.meta_all))["analyser"] == analyser:
        return  # another process was first
    db.execute(sql.words_delete_all)
    number = audit(db, Moment(0, 0, None, None), "reindex", "updated", None, None, 0, "system")
    for sequence, scope, content, key in all_rows(db, sql.reindex_walk):
        terms = record_terms(content, key)
        db.execute(sql.words_add, (sequence, f"s{scope}", " ".join(terms)))
        db.execute(sql.reindex_terms, (sequence, term_hashes(terms).tobytes()))
    for sequence, version, content, key in all_rows(db, sql.reindex_history_walk):
        terms = record_terms(content, key)
        db.execute(sql.reindex_history_terms, (sequence, version, term_hashes(terms).tobytes()))
    db.execute(sql.vector_rechange, (number,))
    db.execute(sql.meta_set, ("analyser", analyser))
