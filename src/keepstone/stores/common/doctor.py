"""The doctor: do the tables hold what they should, and do text, words and vectors agree?

It only reads. Each finding says what to do about it. An engine adds the checks of its own files and of its word index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, get_args

import numpy as np

from keepstone.errors import KeepstoneError
from keepstone.stores.common.rows import content_hash
from keepstone.stores.common.scope_catalog import embedder_of
from keepstone.stores.common.transaction import Transaction
from keepstone.text.passages import passage_number
from keepstone.text.sentences import split_passages
from keepstone.text.words import term_hashes
from keepstone.types import Finding, Status

CHECKS = ("engine", "content hashes", "history", "words", "vectors", "upkeep")
RESTORE = "restore the newest backup, or export what can be read and import it into a new store"
_REEMBED = "run 'keepstone upkeep reembed'"
_MAX_FINDINGS = 20  # of one check
_NORM_TOLERANCE = 5e-3  # an engine may store half-precision floats
Analyse = Callable[[str, str | None], Sequence[str]]


class Expected(NamedTuple):
    """What the word index and the vectors should hold of a record."""

    scope: int
    version: int
    terms: Sequence[str]


Records = dict[int, Expected]  # by sequence


def check_records(
    db: Transaction,
    words: Callable[[Records], Iterator[Finding]],
    analyse: Analyse,
    damage: type[Exception],
    step: Callable[[], None] = lambda: None,
) -> tuple[int, list[Finding]]:
    """Run every check but that of the engine. `words` checks the word index; an error of type `damage` becomes a finding.
    Returns (number of records, findings)."""
    records: Records = {}
    checks = (_records(db, analyse, records), _history(db), words(records), _vectors(db, records), _orphans(db))
    findings: list[Finding] = []
    for name, check in zip(CHECKS[1:], checks, strict=True):
        findings += first_findings(name, check, damage)
        step()
    return sum(number > 0 for number in records), findings


def first_findings(check: str, findings: Iterable[Finding], damage: type[Exception]) -> list[Finding]:
    """The first findings of a check, and how many more there are."""
    listed: list[Finding] = []
    try:
        listed.extend(findings)
    except KeepstoneError:
        raise
    except damage as error:
        listed.append(Finding(check, f"some of it cannot be read ({error})", RESTORE))
    if len(listed) > _MAX_FINDINGS:
        more = Finding(listed[0].check, f"and {len(listed) - _MAX_FINDINGS} more of the kind", listed[0].remedy)
        return [*listed[:_MAX_FINDINGS], more]
    return listed


def _records(db: Transaction, analyse: Analyse, records: Records) -> Iterator[Finding]:
    for sequence, scope, id, key, content, hash, version, status in db.walk("doctor_records"):
        records[sequence] = Expected(scope, version, analyse(content, key))
        for place, (start, stop) in enumerate(split_passages(content)):
            if place:
                records[passage_number(sequence, place)] = Expected(scope, version, analyse(content[start:stop], key))
        if content_hash(content) != hash:
            yield Finding("content hashes", f"record {id}: its content is not what was stored", RESTORE)
        if status not in get_args(Status):
            problem = f"record {id} has the status {status!r:.40}, which there is not: it is hidden"
            yield Finding("content hashes", problem, RESTORE)


def _history(db: Transaction) -> Iterator[Finding]:
    for sequence, version, content, hash, orphan in db.walk("doctor_history"):
        if orphan:
            yield Finding("history", f"version {version} of record number {sequence}, which does not exist", RESTORE)
        elif content_hash(content) != hash:
            yield Finding("history", f"version {version} of record number {sequence} is not what was stored", RESTORE)


def check_words(records: Records, rows: Iterable[tuple[int, Callable[[Expected], bool]]]) -> Iterator[Finding]:
    """Compare the word index with the records. `rows` has for each indexed sequence whether it holds what is expected."""
    unseen = set(records)
    for sequence, holds in rows:
        unseen.discard(sequence)
        if sequence not in records:
            yield Finding("words", f"words of record number {sequence}, which does not exist", RESTORE)
        elif not holds(records[sequence]):
            yield Finding("words", f"record number {sequence} is indexed under other words than its text has", RESTORE)
    for sequence in sorted(unseen):
        yield Finding("words", f"record number {sequence} is not in the full-text index", RESTORE)


def _vectors(db: Transaction, records: Records) -> Iterator[Finding]:
    embedder = embedder_of(db)[1]
    unseen = set(records)
    for sequence, orphan, version, _, terms, vector in db.walk("doctor_vectors"):
        unseen.discard(sequence)
        if orphan:
            yield Finding("vectors", f"a vector of record number {sequence}, which does not exist", RESTORE)
            continue
        if sequence not in records:
            continue  # its record is unreadable, which is reported already
        if version != records[sequence].version:
            yield Finding("vectors", f"record number {sequence} is at another version than its vector", _REEMBED)
        if terms != term_hashes(records[sequence].terms).tobytes():
            yield Finding("vectors", f"record number {sequence} is ranked by other words than its text has", RESTORE)
        if vector is not None:
            norm = 0.0 if embedder is None else float(np.linalg.norm(db.read([vector], embedder[1])[0]))
            if not abs(norm - 1) < _NORM_TOLERANCE:  # false for NaN, too
                yield Finding("vectors", f"the vector of record number {sequence} cannot be used", _REEMBED)
    for sequence in sorted(unseen):
        yield Finding("vectors", f"record number {sequence} has no vector row", RESTORE)


def _orphans(db: Transaction) -> Iterator[Finding]:
    """Find rows of records that do not exist."""
    for place, sequence in db.walk("doctor_orphans"):
        yield Finding("upkeep", f"{place} of record number {sequence}, which does not exist", RESTORE)
