"""Redaction of a record and its history inside a transaction."""

from __future__ import annotations

from keepstone.ports.values import ImportRow
from keepstone.stores.common.archiving import archive, find_living
from keepstone.stores.common.rows import content_hash, packed
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import State, WriteContext, audit
from keepstone.stores.common.writes import remove_words
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import MESSAGE


def redact(db: Transaction, context: WriteContext, row: ImportRow) -> list[str]:
    """Overwrite a record and its versions by those of the row. Returns the texts that must not be found any more. A record that
    changed meanwhile is left alone."""
    record = row.archive.record
    found = db.one("record_state", (context.scope, record.id))
    state = None if found is None else State(*found)
    if state is None or state.version != record.version:
        return []
    texts = [state.content, state.metadata, state.key, state.session, *db.one("forget_texts", (state.sequence,))]
    digest = content_hash(record.content)
    number = audit(db, context, "redact", "redacted", state.sequence, record.id, state.version, "system", _said(row))
    if state.status == "active" and state.key is None and state.kind != MESSAGE:
        same = find_living(db, context, "record_same", (context.scope, digest, state.kind, state.tag))
        if same is not None and same.sequence != state.sequence:  # redacted, the two have the same content
            archive(db, context, [record.id], "duplicate")
    remove_words(db, context, state.sequence, state.content, state.key)
    terms = record_terms(record.content, record.key)
    db.run("record_rewrite", (
        state.sequence, number, record.content, digest, packed(record.metadata), row.dedup_key,
        None if record.blocks is None else packed(record.blocks), packed(record.sensitive), record.kind, record.tag, record.key,
        record.source, record.session, record.role, record.name,
    ))  # fmt: skip
    db.run("words_add", (state.sequence, context.token, " ".join(terms)))
    vector = context.kept(db, row.vector)
    hashes = term_hashes(terms).tobytes()
    db.run("vector_change", (state.sequence, state.version, hashes, *vector))
    db.run("next_delete", (state.sequence,))
    for version in row.archive.versions[:-1]:
        old = db.one("history_texts", (state.sequence, version.version))
        if old is not None:
            texts += old
            hashes = term_hashes(record_terms(version.content, record.key)).tobytes()
            db.run("history_rewrite", (
                state.sequence, version.version, version.content, content_hash(version.content), packed(version.metadata), hashes,
                version.kind, version.tag, version.source, version.session, version.role, version.name,
            ))  # fmt: skip
    if state.kind == MESSAGE:
        texts += [value for value, _ in db.all("state_derived", (context.scope, state.session or "", True))]
    kept = {record.content, packed(record.metadata), record.key, record.session, record.tag, record.source, record.name}
    return [text for text in texts if text and text not in kept]


def _said(row: ImportRow) -> tuple[str, ...]:
    return () if row.screening is None else row.screening.reasons
