"""The audit trail beyond what is listed of it: notes, foreign ids, the chain walked. Imports: care, moment, desk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from recollect.care import ChainReport
from recollect.stores.sqlite.desk import Place
from recollect.stores.sqlite.driver import all_rows, one_row
from recollect.stores.sqlite.moment import GENESIS, audit, chained, sql
from recollect.times import instant, micros
from recollect.types import Scope

_NEVER = 2**62  # where the chain begins of a tenant that has written nothing since there are chains


class SqliteTrail:
    """Notes in the trail, and whether it is whole."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def note(self, scope: Scope, verb: str, action: str, source: str, reasons: Sequence[str] = (), id: str | None = None) -> int:
        def work(db: apsw.Connection) -> int:
            return audit(db, self._place.moment(db, scope), verb, action, None, id, 0, source, reasons)

        return int(self._place.write(work))

    def foreign(self, scope: Scope, asked: Sequence[tuple[str, str]]) -> int:
        def work(db: apsw.Connection) -> int:
            number = self._place.number(db, scope)
            theirs = [each for each in asked if one_row(db, sql.audit_foreign, (number or 0, each[1])) is not None]
            for verb, id in theirs:
                at = self._place.moment(db, scope)
                audit(db, at, verb, "denied", None, id, 0, "system", ("the id belongs to another scope",))
            return len(theirs)

        return int(self._place.write(work)) if asked else 0

    def days(self, scope: Scope, since: datetime) -> Sequence[datetime]:
        with self._place.driver.reading() as db:
            return [instant(row[0]) for row in all_rows(db, sql.audit_days, (self._place.number(db, scope), micros(since)))]

    def verify(self, tenant: str, head: str | None = None) -> ChainReport:
        with self._place.driver.reading(consistent=True) as db:
            try:
                return _walked(db, tenant, head)
            except UnicodeDecodeError as error:
                return ChainReport(False, 0, 0, "", f"a row cannot be read ({error})")


def _walked(db: apsw.Connection, tenant: str, wanted: str | None) -> ChainReport:
    """Every row of a tenant's trail, hashed again."""
    start, counted, kept = one_row(db, sql.chain_of, (tenant,)) or (_NEVER, 0, GENESIS)
    head, rows, unchained = GENESIS, 0, 0
    problem = None if isinstance(start, int) else "where the chain begins is not what was written"
    start = start if isinstance(start, int) else 0
    seen = wanted is None or wanted == GENESIS.hex()
    for *row, link in db.execute(sql.chain_walk, (tenant,)):
        if link is None and not rows and 0 < row[0] <= start:
            unchained += 1
            continue
        rows += 1
        expected = _again(head, row)
        if problem is None and (link != expected or row[0] <= start):
            problem = f"row {row[0]} is not what was written, or a row before it is missing"
        head = link if isinstance(link, bytes) else expected
        seen = seen or head.hex() == wanted
    if problem is None and rows != counted:
        problem = f"the trail has {rows} rows and should have {counted}"
    if problem is None and head != kept:
        problem = "the last row is not the one that was written last"
    if problem is None and not seen:
        problem = f"the hash {wanted:.16}… is not in this trail: it was written anew, or belongs to another store"
    return ChainReport(problem is None, rows, unchained, head.hex(), problem)


def _again(head: bytes, row: list[Any]) -> bytes:
    """The hash that a row should have; of one that cannot be hashed, none that fits."""
    try:
        return chained(head, row)
    except (TypeError, ValueError):
        return GENESIS
