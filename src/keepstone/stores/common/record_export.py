"""Export and import of records with their history, and rebuilding of the word index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from keepstone.ports.values import ImportRow, RecordExport, Support
from keepstone.stores.common import lineage
from keepstone.stores.common.archiving import flag
from keepstone.stores.common.rows import content_hash, packed, record_of, versions_of
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER, WriteContext, audit
from keepstone.stores.common.writes import add_passages, head_stop
from keepstone.text.passages import Passage, further_passages, passage_number, passage_range
from keepstone.text.sentences import is_long
from keepstone.text.times import instant, micros
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import Record, Scope


def export_records(db: Transaction, scope: Scope, number: int | None, ids: Sequence[str] | None) -> Iterator[RecordExport]:
    """Every record of a scope, or those with these ids, with its history, in order."""
    for row in db.walk("record_walk", (number, None if ids is None else packed(list(ids)))):
        sequence, record = record_of(row, scope)
        past = db.all("history_list", (sequence,)) if record.version > 1 else []
        present = db.all("history_present", (sequence,))
        how: Any = db.one("archived_how", (sequence,)) if record.status == "archived" else (None, "")
        archived = None if how[0] is None else (instant(how[0]), str(how[1]))
        held = tuple(
            Support(version, number, parents, session)
            for version in (*(row[0] for row in past), record.version)
            for number, parents, session in lineage.supports(db, sequence, version)
        )
        plain = held == (Support(record.version, 0, tuple(sorted(record.parents)), record.session),)
        yield RecordExport(record, tuple(versions_of(past + present)), archived, () if plain else held, present[0][15])


def import_records(db: Transaction, context: WriteContext, row: ImportRow) -> bool:
    """Store one exported record; False if it exists."""
    if _taken(db, context, row.archive.record):
        return False
    insert_new(db, context, row, "import")
    return True


def insert_new(db: Transaction, context: WriteContext, row: ImportRow, verb: str, reasons: Sequence[str] = ()) -> None:
    """Store a record that the scope does not have, with its words and vector."""
    record = row.archive.record
    vector = context.kept(db, row.vector)
    sequence = audit(db, context, verb, "added", None, record.id, record.version, record.source, reasons)
    insert_record(db, context, sequence, row)
    if record.status == "quarantined":
        flag(db, context, sequence, record.version, "quarantined", "it was imported in quarantine")
    hashes = term_hashes(row.terms).tobytes()
    db.run("vector_add", (sequence, record.version, hashes, *vector, None, head_stop(record.content)))
    db.run("words_add", (sequence, context.token, " ".join(row.terms)))
    add_passages(db, context, sequence, record.version, record.content, record.key, row.passages)
    if record.access_count and record.last_accessed_at is not None:
        db.run("access_restore", (sequence, record.access_count, micros(record.last_accessed_at)))


def insert_record(db: Transaction, context: WriteContext, sequence: int, row: ImportRow) -> None:
    """Store the row of a record, its lineage and its history."""
    record = row.archive.record
    db.run("record_restore", (
        sequence, context.scope, record.id, record.kind, record.tag, record.key, record.content, content_hash(record.content),
        packed(record.metadata), record.importance, record.source, record.trust, record.session, record.role, record.name,
        micros(record.occurred_at), micros(record.created_at), micros(record.updated_at), micros(record.valid_from),
        None if record.expires_at is None else micros(record.expires_at), record.version, record.status,
        packed(record.parents), row.archive.versions[-1].action, row.dedup_key,
        None if record.blocks is None else packed(record.blocks), packed(record.sensitive),
        *_archive(context, row.archive),
    ))  # fmt: skip
    if row.archive.supports:
        for each in row.archive.supports:
            lineage.import_support(db, context, sequence, each)
    else:
        lineage.add_first_support(db, context, sequence, record.version, record.parents, record.session)
    for version in row.archive.versions[:-1]:
        terms = term_hashes(record_terms(version.content, record.key)).tobytes()
        db.run("history_put", (
            sequence, version.version, version.content, content_hash(version.content), packed(version.metadata),
            version.importance, version.kind, version.tag, version.source, version.trust, version.session, version.role,
            version.name, micros(version.valid_from), micros(version.valid_from), micros(version.known_from),
            None if version.expires_at is None else micros(version.expires_at), version.action, terms,
        ))  # fmt: skip


def _archive(context: WriteContext, archive: RecordExport) -> tuple[int | None, str | None]:
    """When and why a record was archived."""
    if archive.record.status != "archived":
        return None, None
    return (context.now, "faded") if archive.archived is None else (micros(archive.archived[0]), archive.archived[1])


def _taken(db: Transaction, context: WriteContext, record: Record) -> bool:
    """Whether the scope has this record, its key or its content."""
    if db.one("record_sequence", (context.scope, record.id)) is not None:
        return True
    if record.status != "active":
        return False
    if record.key is not None:
        return db.one("record_state_by_key", (context.scope, record.key)) is not None
    return db.one("record_same", (context.scope, content_hash(record.content), record.kind, record.tag)) is not None


def _reindex_passages(db: Transaction, scope: int, sequence: int, version: int, passages: Sequence[Passage]) -> None:
    """Write the words of passages; where they begin and end elsewhere than before, they wait for new vectors."""
    held = [(row[1], row[2]) for row in db.each("index_passages", [sequence], {"scope": scope})]
    same = held == [(passage.start, passage.stop) for passage in passages]
    if not same:
        db.run("passages_delete", (scope, *passage_range(sequence)))
        db.run("next_delete_passages", passage_range(sequence))
    for place, passage in enumerate(passages, 1):
        number = passage_number(sequence, place)
        db.run("words_add", (number, f"s{scope}", passage.words))
        if same:
            db.run("reindex_terms", (number, passage.hashes, passage.stop))
        else:
            db.run("vector_add", (number, version, passage.hashes, None, None, passage.start, passage.stop))


def reindex(db: Transaction, tenants: Sequence[str], analyser: str) -> None:
    """Rebuild the word index in one transaction, after a change of the analyser."""
    if dict(db.all("meta_all"))["analyser"] == analyser:
        return  # another process was first
    db.switch_tenant(STORE_OWNER[0])
    number = audit(db, WriteContext(0, 0, None, None), "reindex", "updated", None, None, 0, "system")
    for tenant in tenants:
        db.switch_tenant(tenant)
        db.run("words_delete_all")
        for sequence, scope, content, key, version in db.all("reindex_walk"):
            terms = record_terms(content, key)
            db.run("words_add", (sequence, f"s{scope}", " ".join(terms)))
            db.run("reindex_terms", (sequence, term_hashes(terms).tobytes(), head_stop(content)))
            if is_long(content):
                _reindex_passages(db, scope, sequence, version, further_passages(content, key))
        for sequence, version, content, key in db.all("reindex_history_walk"):
            terms = record_terms(content, key)
            db.run("reindex_history_terms", (sequence, version, term_hashes(terms).tobytes()))
        db.run("vector_rechange", (number,))
    db.run("meta_set", ("analyser", analyser))
