"""One of the two stores of a move: what it is known by, how much it holds, whether its trail is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from keepstone.errors import StoreDamaged, StoreUnreachable
from keepstone.stores.common.audit_log import StoredAuditLog
from keepstone.stores.common.scope_catalog import ScopeCatalog
from keepstone.stores.common.store import CommonStore
from keepstone.stores.common.store_copy_rows import Tally, View
from keepstone.stores.common.transaction import Driver, Transaction
from keepstone.stores.common.write_context import STORE_OWNER
from keepstone.text import times

MARK = "moving"  # the fact about a store that is being moved into
OWN = (MARK, "analyser", "schema", "schema done")  # facts that are the engine's or the version's, and stay
_TRIES = 5


class Side:
    """A store as the mover sees it; `only` is the one tenant that counts, instead of all."""

    def __init__(self, store: CommonStore, only: str | None = None) -> None:
        self.driver: Driver = store._catalog.driver
        self.label = self.driver.label
        self.only = only

    def parts(self) -> list[str]:
        """What is read at one moment each. What was done to the whole store comes last: none of its numbers is missing."""
        found = {tenant for tenant in self.driver.tenants() if self.only in (None, tenant)} - {STORE_OWNER[0]}
        return [*sorted(found), STORE_OWNER[0]]

    def knows(self, tenant: str) -> bool:
        """Whether a tenant has ever written here."""
        with self.driver.reading(tenant) as db:
            return bool(db.all("moving_scope", {"a": 0, "tenant": tenant, "limit": 1}))

    def count(self) -> tuple[int, int]:
        """(rows, records)."""
        rows = records = 0
        for part in self.parts():
            with self.driver.reading(part) as db:
                more = db.one("moving_count", {"tenant": self.only, "limit": 1})
            rows, records = rows + int(more[0]), records + int(more[1])
        return rows, records

    # -- what it is known by --------------------------------------------------------------------------------------
    def meta(self) -> dict[str, str]:
        """All facts about the store."""
        with self.driver.reading(STORE_OWNER[0]) as db:
            return dict(db.all("meta_all"))

    def facts(self) -> dict[str, str]:
        """What is true of it wherever it is."""
        with self.driver.reading(STORE_OWNER[0]) as db:
            return facts_of(db)

    def ends(self) -> dict[str, tuple[int, int, bytes]]:
        """Where each tenant's trail ends: (where the chain begins, its rows, its last hash)."""
        found: dict[str, tuple[int, int, bytes]] = {}
        for part in self.parts():
            with self.driver.reading(part) as db:
                rows: list[Any] = db.all("moving_chain", {"a": None, "tenant": self.only})
            found |= {tenant: (start, count, bytes(head)) for tenant, start, count, head in rows}
        return found

    def state(self) -> str:
        """Its facts and the ends of its trails as one hash: whatever leaves a row in a trail changes it."""
        return hashlib.sha256(repr((sorted(self.facts().items()), sorted(self.ends().items()))).encode()).hexdigest()

    # -- what it holds --------------------------------------------------------------------------------------------
    def view(self, db: Transaction, facts: dict[str, str]) -> View:
        """What a moment of reading shows, of vectors as wide as the facts say."""
        present, coming = facts.get("embedder"), facts.get("next embedder")
        widths = int(present.split(" ")[1]) if present else None, int(coming.split(" ")[0]) if coming else None
        return View(db, self.label, self.only, widths)

    def tally(self, facts: dict[str, str], read: Callable[[int], None]) -> Tally:
        """All rows, counted and hashed as they are by now; `read` hears how many more were read, now and then."""
        tally = Tally()
        for part in self.parts():
            tally.rows |= self._part(part, facts, read, tally).rows
        return tally

    def _part(self, part: str, facts: dict[str, str], read: Callable[[int], None], whole: Tally) -> Tally:
        """A part's rows; once more from the beginning if the server has gone away under it."""
        for tried in range(_TRIES):
            tally = Tally()
            try:
                with self.driver.reading(part, consistent=True) as db:
                    for more in self.view(db, facts).tally(tally):
                        read(more)
                break
            except StoreUnreachable:
                if tried == _TRIES - 1:
                    raise
                self.meta()  # waits for the server
        whole.last = max(whole.last, tally.last)
        return tally

    def check_trail(self, tenants: Sequence[str]) -> None:
        """The trails are whole; StoreDamaged if not."""
        audit_log = StoredAuditLog(ScopeCatalog(self.driver, times.now))
        for tenant in tenants:
            report = audit_log.verify(tenant)
            if not report.whole:
                raise StoreDamaged(
                    f"{self.label}: the audit trail of {f'tenant {tenant!r}' if tenant else 'the whole store'} is not whole "
                    f"({report.problem}), so the store is not moved. Restore a backup, or take the records alone with "
                    "'keepstone export' and 'keepstone import'."
                )


def facts_of(db: Transaction) -> dict[str, str]:
    """What is true of a store wherever it is: its id, its embedders."""
    return {name: value for name, value in db.all("meta_all") if name not in OWN}
