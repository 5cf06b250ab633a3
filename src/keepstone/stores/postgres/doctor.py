"""The doctor of a database: its policies and indexes, then the tables and the word index of each tenant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from keepstone.ports.stores import Progress
from keepstone.stores.common.doctor import CHECKS, Analyse, Expected, Records, check_records, check_words, first_findings
from keepstone.stores.postgres.connections import PostgresDriver
from keepstone.stores.postgres.transaction import PostgresTransaction
from keepstone.text.words import MARKS
from keepstone.types import Diagnosis, Finding

_SETUP = "run 'keepstone postgres setup' with the role that owns the schema"


def examine(driver: PostgresDriver, analyse: Analyse, progress: Progress) -> Diagnosis:
    """Run every check on every tenant and report what is wrong."""
    with driver.reading("", consistent=True) as db:
        findings = first_findings("engine", _engine(db, driver.target.schema), ValueError)
    tenants = driver.tenants()
    total, seen = 1 + len(tenants), 0
    progress(1, total)
    for done, tenant in enumerate(tenants, 2):
        with driver.reading(tenant, consistent=True) as db:
            records, found = check_records(db, partial(_words, db), analyse, ValueError)
        seen += records
        findings += found
        progress(done, total)
    return Diagnosis(not findings, seen, CHECKS, tuple(findings))


def _engine(db: PostgresTransaction, schema: str) -> Iterator[Finding]:
    for table, enabled, forced in db.all("doctor_policies", (schema,)):
        if not (enabled and forced):
            yield Finding("engine", f"row-level security is not in force on table {table}", _SETUP)
    for (index,) in db.all("doctor_indexes", (schema,)):
        yield Finding("engine", f"index {index} was not finished", f"drop it, then {_SETUP}")


def _words(db: PostgresTransaction, records: Records) -> Iterator[Finding]:
    rows = db.walk("doctor_words")
    return check_words(records, ((sequence, partial(_holds, *rest)) for sequence, *rest in rows))


def _holds(scope: int, text: str, whole: bool, expected: Expected) -> bool:
    return whole and scope == expected.scope and text == " ".join(term for term in expected.terms if term not in MARKS)
