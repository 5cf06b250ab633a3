"""The doctor: does the file hold what it should, and do text, words and vectors agree?

It only reads. Each finding says what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import get_args

import apsw
import numpy as np

from keepstone.errors import KeepstoneError
from keepstone.ports.stores import Progress
from keepstone.stores.common.rows import content_hash
from keepstone.stores.sqlite.transaction import SqliteTransaction
from keepstone.text.words import MARKS, term_hashes
from keepstone.types import Diagnosis, Finding, Status

CHECKS = ("engine", "content hashes", "history", "words", "vectors", "upkeep")
_RESTORE = "restore the newest backup, or export what can be read and import it into a new store"
_REEMBED = "run 'keepstone upkeep reembed'"
_STATUSES = get_args(Status)
_MAX_FINDINGS = 20  # maximum findings of one check
Analyse = Callable[[str, str | None], Sequence[str]]


def examine(db: SqliteTransaction, embedder: tuple[str, int] | None, analyse: Analyse, progress: Progress) -> Diagnosis:
    """Run every check and report what is wrong."""
    findings = list(_engine(db))
    progress(1, len(CHECKS))
    records: dict[int, tuple[str, list[str]]] = {}
    if not findings:
        versions: dict[int, int] = {}
        findings += _cut(CHECKS[1], _records(db, analyse, records, versions))
        progress(2, len(CHECKS))
        findings += _cut(CHECKS[2], _history(db))
        progress(3, len(CHECKS))
        findings += _cut(CHECKS[3], _words(db, records))
        progress(4, len(CHECKS))
        findings += _cut(CHECKS[4], _vectors(db, records, versions, embedder))
        progress(5, len(CHECKS))
        findings += _cut(CHECKS[5], _upkeep(db))
    progress(len(CHECKS), len(CHECKS))
    return Diagnosis(not findings, len(records), CHECKS, tuple(findings))


def _cut(check: str, findings: Iterator[Finding]) -> list[Finding]:
    listed: list[Finding] = []
    try:
        listed.extend(findings)
    except KeepstoneError:
        raise
    except Exception as error:  # damaged bytes may raise anything
        listed.append(Finding(check, f"some of it cannot be read ({error})", _RESTORE))
    if len(listed) > _MAX_FINDINGS:
        more = Finding(listed[0].check, f"and {len(listed) - _MAX_FINDINGS} more of the kind", listed[0].remedy)
        return [*listed[:_MAX_FINDINGS], more]
    return listed


def _engine(db: SqliteTransaction) -> Iterator[Finding]:
    try:
        for (line,) in db.all("doctor_integrity"):
            if line != "ok":
                yield Finding("engine", str(line), _RESTORE)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Finding("engine", str(error), _RESTORE)


def _records(
    db: SqliteTransaction, analyse: Analyse, records: dict[int, tuple[str, list[str]]], versions: dict[int, int]
) -> Iterator[Finding]:
    for sequence, scope, id, key, content, hash, version, status in db.walk("doctor_records"):
        records[sequence] = (f"s{scope}", list(analyse(content, key)))
        versions[sequence] = version
        if content_hash(content) != hash:
            yield Finding("content hashes", f"record {id}: its content is not what was stored", _RESTORE)
        if status not in _STATUSES:
            yield Finding(
                "content hashes", f"record {id} has the status {status!r:.40}, which there is not: it is hidden", _RESTORE
            )


def _history(db: SqliteTransaction) -> Iterator[Finding]:
    for sequence, version, content, hash, orphan in db.walk("doctor_history"):
        if orphan:
            yield Finding("history", f"version {version} of record number {sequence}, which does not exist", _RESTORE)
        elif content_hash(content) != hash:
            yield Finding("history", f"version {version} of record number {sequence} is not what was stored", _RESTORE)


def _words(db: SqliteTransaction, records: dict[int, tuple[str, list[str]]]) -> Iterator[Finding]:
    db.run("doctor_words_table")
    try:
        unseen = {sequence for sequence, (_, terms) in records.items()}
        for sequence, rows in groupby(db.walk("doctor_words"), key=lambda row: row[0]):
            found = [(column, term) for _, column, term, _ in rows]
            unseen.discard(sequence)
            expected = records.get(sequence)
            if expected is None:
                yield Finding("words", f"words of record number {sequence}, which does not exist", _RESTORE)
            elif found != [("scope", expected[0]), *(("text", term) for term in expected[1] if term not in MARKS)]:
                yield Finding("words", f"record number {sequence} is indexed under other words than its text has", _RESTORE)
        for sequence in sorted(unseen):
            yield Finding("words", f"record number {sequence} is not in the full-text index", _RESTORE)
    finally:
        db.run("doctor_words_drop")


def _vectors(
    db: SqliteTransaction,
    records: dict[int, tuple[str, list[str]]],
    versions: dict[int, int],
    embedder: tuple[str, int] | None,
) -> Iterator[Finding]:
    unseen = set(records)
    for sequence, orphan, version, _, terms, blob in db.walk("doctor_vectors"):
        unseen.discard(sequence)
        if orphan:
            yield Finding("vectors", f"a vector of record number {sequence}, which does not exist", _RESTORE)
            continue
        if sequence not in records:
            continue  # its record is unreadable, which is reported already
        if version != versions[sequence]:
            yield Finding("vectors", f"record number {sequence} is at another version than its vector", _REEMBED)
        if terms != term_hashes(records[sequence][1]).tobytes():
            yield Finding("vectors", f"record number {sequence} is ranked by other words than its text has", _RESTORE)
        if blob is not None and not _usable(blob, embedder):
            yield Finding("vectors", f"the vector of record number {sequence} cannot be used", _REEMBED)
    for sequence in sorted(unseen):
        yield Finding("vectors", f"record number {sequence} has no vector row", _RESTORE)


def _upkeep(db: SqliteTransaction) -> Iterator[Finding]:
    """Find rows of records that do not exist."""
    for place, sequence in db.walk("doctor_orphans"):
        yield Finding("upkeep", f"{place} of record number {sequence}, which does not exist", _RESTORE)


def _usable(blob: bytes, embedder: tuple[str, int] | None) -> bool:
    if embedder is None or len(blob) != embedder[1] * 4:
        return False
    norm = float(np.linalg.norm(np.frombuffer(blob, dtype="<f4")))
    return bool(np.isfinite(norm)) and abs(norm - 1) < 1e-3
