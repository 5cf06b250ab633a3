"""The doctor of a SQLite file: its integrity, its tables and its full-text index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, groupby

import apsw

from keepstone.ports.stores import Progress
from keepstone.stores.common.doctor import CHECKS, RESTORE, Analyse, Expected, Records, check_records, check_words
from keepstone.stores.sqlite.free_space import CLEARED, uncleared_pages
from keepstone.stores.sqlite.migrate import foreign_objects
from keepstone.stores.sqlite.transaction import SqliteTransaction
from keepstone.text.words import MARKS
from keepstone.types import Diagnosis, Finding

_VACUUM = "run VACUUM with the sqlite3 shell while nothing else has the file open"


def examine(db: SqliteTransaction, analyse: Analyse, progress: Progress) -> Diagnosis:
    """Run every check and report what is wrong."""
    findings = list(_engine(db))
    progress(1, len(CHECKS))
    seen, done = 0, count(2)
    if not findings:
        # Damaged bytes may raise anything.
        seen, findings = check_records(db, partial(_words, db), analyse, Exception, lambda: progress(next(done), len(CHECKS)))
        findings = [*_free_space(db), *findings]  # it keeps no other check from reading the file
    progress(len(CHECKS), len(CHECKS))
    return Diagnosis(not findings, seen, CHECKS, tuple(findings))


def _engine(db: SqliteTransaction) -> Iterator[Finding]:
    try:
        for (line,) in db.all("doctor_integrity"):
            if line != "ok":
                yield Finding("engine", str(line), RESTORE)
        for name in foreign_objects(db.db):
            yield Finding("engine", f"{name} was not created by keepstone", RESTORE)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Finding("engine", str(error), RESTORE)


def _free_space(db: SqliteTransaction) -> Iterator[Finding]:
    try:
        if (CLEARED, "1") in db.all("meta_all") and (pages := uncleared_pages(db.db)):
            yield Finding("engine", f"{pages} pages hold bytes of deleted rows: another program wrote the file", _VACUUM)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Finding("engine", str(error), RESTORE)


def _words(db: SqliteTransaction, records: Records) -> Iterator[Finding]:
    db.run("doctor_words_table")
    try:
        rows = groupby(db.walk("doctor_words"), key=lambda row: row[0])
        indexed = ((sequence, [(column, term) for _, column, term, _ in group]) for sequence, group in rows)
        yield from check_words(records, ((sequence, partial(_holds, words)) for sequence, words in indexed))
    finally:
        db.run("doctor_words_drop")


def _holds(words: list[tuple[str, str]], expected: Expected) -> bool:
    return words == [("scope", f"s{expected.scope}"), *(("text", term) for term in expected.terms if term not in MARKS)]
