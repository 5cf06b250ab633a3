"""The doctor: do the tables hold what they should, do text, words and vectors agree, are the policies in force?

It only reads, one tenant after the other. Each finding says what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from keepstone.ports.stores import Progress
from keepstone.stores.common.rows import content_hash
from keepstone.stores.common.scope_catalog import embedder_of
from keepstone.stores.postgres.connections import PostgresDriver
from keepstone.stores.postgres.transaction import PostgresTransaction
from keepstone.text.words import MARKS, term_hashes
from keepstone.types import Diagnosis, Finding

CHECKS = ("engine", "content hashes", "history", "words", "vectors", "upkeep")
_RESTORE = "restore the newest backup, or export what can be read and import it into a new store"
_REEMBED = "run 'keepstone upkeep reembed'"
_SETUP = "run 'keepstone postgres setup' with the role that owns the schema"
_MAX_FINDINGS = 20  # maximum findings of one check
Analyse = Callable[[str, str | None], Sequence[str]]
Records = dict[int, tuple[int, int, list[str]]]  # sequence -> scope, version, terms


def examine(driver: PostgresDriver, analyse: Analyse, progress: Progress) -> Diagnosis:
    """Run every check on every tenant and report what is wrong."""
    with driver.reading("", consistent=True) as db:
        findings = _cut(_engine(db, driver.target.schema))
        embedder = embedder_of(db)[1]
    tenants = driver.tenants()
    total, seen = 1 + len(tenants), 0
    progress(1, total)
    for done, tenant in enumerate(tenants, 2):
        with driver.reading(tenant, consistent=True) as db:
            records: Records = {}
            for check in (
                _records(db, analyse, records),
                _history(db),
                _words(db, records),
                _vectors(db, records, embedder),
                _upkeep(db),
            ):
                findings += _cut(check)
        seen += len(records)
        progress(done, total)
    return Diagnosis(not findings, seen, CHECKS, tuple(findings))


def _cut(findings: Iterator[Finding]) -> list[Finding]:
    listed = list(findings)
    if len(listed) > _MAX_FINDINGS:
        more = Finding(listed[0].check, f"and {len(listed) - _MAX_FINDINGS} more of the kind", listed[0].remedy)
        return [*listed[:_MAX_FINDINGS], more]
    return listed


def _engine(db: PostgresTransaction, schema: str) -> Iterator[Finding]:
    for table, enabled, forced in db.all("doctor_policies", (schema,)):
        if not (enabled and forced):
            yield Finding("engine", f"row-level security is not in force on table {table}", _SETUP)
    for (index,) in db.all("doctor_indexes", (schema,)):
        yield Finding("engine", f"index {index} was not finished", f"drop it, then {_SETUP}")


def _records(db: PostgresTransaction, analyse: Analyse, records: Records) -> Iterator[Finding]:
    for sequence, scope, id, key, content, hash, version in db.walk("doctor_records"):
        records[sequence] = (scope, version, list(analyse(content, key)))
        if content_hash(content) != hash:
            yield Finding("content hashes", f"record {id}: its content is not what was stored", _RESTORE)


def _history(db: PostgresTransaction) -> Iterator[Finding]:
    for sequence, version, content, hash, orphan in db.walk("doctor_history"):
        if orphan:
            yield Finding("history", f"version {version} of record number {sequence}, which does not exist", _RESTORE)
        elif content_hash(content) != hash:
            yield Finding("history", f"version {version} of record number {sequence} is not what was stored", _RESTORE)


def _words(db: PostgresTransaction, records: Records) -> Iterator[Finding]:
    unseen = set(records)
    for sequence, scope, text, whole in db.walk("doctor_words"):
        unseen.discard(sequence)
        expected = records.get(sequence)
        if expected is None:
            yield Finding("words", f"words of record number {sequence}, which does not exist", _RESTORE)
        elif scope != expected[0] or text != " ".join(term for term in expected[2] if term not in MARKS) or not whole:
            yield Finding("words", f"record number {sequence} is indexed under other words than its text has", _RESTORE)
    for sequence in sorted(unseen):
        yield Finding("words", f"record number {sequence} is not in the full-text index", _RESTORE)


def _vectors(db: PostgresTransaction, records: Records, embedder: tuple[str, int] | None) -> Iterator[Finding]:
    unseen = set(records)
    for sequence, orphan, version, _, terms, vector in db.walk("doctor_vectors"):
        unseen.discard(sequence)
        if orphan or sequence not in records:
            yield Finding("vectors", f"a vector of record number {sequence}, which does not exist", _RESTORE)
            continue
        if version != records[sequence][1]:
            yield Finding("vectors", f"record number {sequence} is at another version than its vector", _REEMBED)
        if terms != term_hashes(records[sequence][2]).tobytes():
            yield Finding("vectors", f"record number {sequence} is ranked by other words than its text has", _RESTORE)
        if vector is not None and not _usable(db, vector, embedder):
            yield Finding("vectors", f"the vector of record number {sequence} cannot be used", _REEMBED)
    for sequence in sorted(unseen):
        yield Finding("vectors", f"record number {sequence} has no vector row", _RESTORE)


def _upkeep(db: PostgresTransaction) -> Iterator[Finding]:
    """Find rows of records that do not exist."""
    for place, sequence in db.walk("doctor_orphans"):
        yield Finding("upkeep", f"{place} of record number {sequence}, which does not exist", _RESTORE)


def _usable(db: PostgresTransaction, vector: bytes, embedder: tuple[str, int] | None) -> bool:
    if embedder is None:
        return False
    norm = float(np.linalg.norm(db.read([vector], embedder[1])[0]))
    return bool(np.isfinite(norm)) and abs(norm - 1) < 5e-3
