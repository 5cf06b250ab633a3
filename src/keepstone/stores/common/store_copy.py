"""Copy of a whole store into another of any engine: resumable, with history and audit log, and verified.

One transaction writes a page of rows and, in `meta`, the progress of the copy: a kill costs a page, and the next run resumes. The
target keeps its own facts until every row is compared; then it takes over the source's id and embedder and drops the mark.
Numbers are kept, because the audit log hashes them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from keepstone.errors import ConfigurationError, Conflict, NotFound, StoreBusy, StoreDamaged, StoreUnreachable
from keepstone.ports.stores import Progress
from keepstone.stores.common.audit_log import StoredAuditLog
from keepstone.stores.common.scope_catalog import ScopeCatalog
from keepstone.stores.common.store import CommonStore
from keepstone.stores.common.store_copy_rows import TABLES, Item, Key, Owner, Table, Tally, View
from keepstone.stores.common.transaction import Driver, Transaction
from keepstone.stores.common.write_context import STORE_OWNER
from keepstone.text import times
from keepstone.text.passages import further_passages, passage_number
from keepstone.text.words import record_terms

MARK = "moving"  # the meta name of a store that is the target of an unfinished copy
OWN = (MARK, "analyser", "schema", "schema done")  # meta names that belong to the engine or the version
_SCOPES_PER_COMMIT = 200
_MAX_ATTEMPTS = 5
_RETRY = "Stop all writers, then run the same command again: it clears the target and starts over."


@dataclass(frozen=True, slots=True)
class Moved:
    """The report of a copy. `digest`: one hash over all rows, equal for every copy; `resumed`: an earlier run was continued."""

    source: str
    target: str
    tenants: int
    records: int
    rows: int
    tables: Mapping[str, int]
    digest: str
    seconds: float
    resumed: bool


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of a copy: the last row written."""

    part: str = ""
    table: str = ""
    last: Key = ()
    done: int = 0


class Mover:
    """Copies a store into another. `only`: the tenant to copy, instead of all. Audit entries about the whole store are included,
    because they are part of the numbering."""

    def __init__(self, source: CommonStore, only: str | None = None, progress: Progress | None = None) -> None:
        self._began = time.monotonic()
        self._source = Side(source, only)
        self._progress = progress or (lambda done, total: None)
        self._facts = self._source.facts()
        self._total = self._source.count()[0]
        self._run = secrets.token_hex(8)
        self._state = ""  # of the source when the copy began
        self._mark = ""  # the last mark written to the target: another process may take over
        self._at = Step()
        self._compared = 0
        if MARK in self._source.meta():
            raise ConfigurationError(f"{self._source.label} is itself the target of an unfinished move: finish that first.")
        if only is not None and not self._source.knows(only):
            raise NotFound(f"there is no tenant {only!r:.80} in {self._source.label}: check the name, or move all of them.")

    # -- the two ways to move -------------------------------------------------------------------------------------
    def into(self, target: CommonStore) -> Moved:
        """Copy a store without writers, or resume an earlier run."""
        self._target = Side(target)
        resumed = self._begin()
        parts = self._source.parts()
        try:
            for part in parts[parts.index(self._at.part) if self._at.table else 0 :]:
                self._copy_part(part)
            was = self._source.tally(self._facts, self._count_compared)
        except (Conflict, StoreDamaged):
            self._check_unchanged()  # rows read at two times may not fit together
            raise
        self._check_unchanged()
        return self._finish(was, resumed)

    def snapshot(self, target: CommonStore) -> Moved:
        """Copy a store with writers into a new one, each tenant as one consistent view."""
        self._target = Side(target)
        for _ in range(_MAX_ATTEMPTS):
            self._enter(self._mark, fresh=True)
            was = Tally()
            for part in self._source.parts():
                with self._source.driver.reading(part, consistent=True) as db:
                    if read_facts(db) != self._facts:
                        break
                    view = self._source.view(db, self._facts)
                    self._copy(part, view)
                    for more in view.tally(was):
                        self._count_compared(more)
            else:
                return self._finish(was, False)
            self._facts = self._source.facts()  # the embedder changed: vectors of two models must not be mixed
        raise StoreBusy(f"the embedder of {self._source.label} changed repeatedly during the copy: try again later.")

    # -- beginning ------------------------------------------------------------------------------------------------
    def _begin(self) -> bool:
        """Check the target. Returns whether an earlier run is resumed."""
        self._state = self._source.state()
        mark = self._target.meta().get(MARK)
        if mark is None:
            self._check_free()
            self._source.check_audit_log(sorted(self._source.ends()))
            self._enter("", fresh=True)
            return False
        held = json.loads(mark)
        if held["source"] != self._facts["id"]:
            raise ConfigurationError(
                f"{self._target.label} holds an unfinished move of another store: finish that one, or choose another target."
            )
        if (held["tenant"], held["state"]) != (self._source.only, self._state):
            self._enter(mark, fresh=True)  # the source or the request changed: start over
            return False
        self._check_untouched()
        self._at = Step(held["part"], held["table"], held["last"], held["done"])
        self._enter(mark, fresh=False)
        return True

    def _check_free(self) -> None:
        """Check that the source has rows and the target has none."""
        if not self._total:
            raise ConfigurationError(f"there is nothing in {self._source.label} to move: check its name.")
        rows, records = self._target.count()
        if rows:
            same = self._target.facts()["id"] == self._facts["id"]
            there = "holds this very store already, or a copy of it" if same else "is not empty"
            raise ConfigurationError(
                f"{self._target.label} {there} ({records} records): a store is moved into an empty one. Choose another target, "
                "or empty that one; to add records to it, use 'keepstone export' and 'keepstone import'."
            )

    def _check_untouched(self) -> None:
        """Check that nothing else wrote to the target: its audit logs must end where those of the source do."""
        ends = self._source.ends()
        for tenant, end in self._target.ends().items():
            if ends.get(tenant) != end:
                raise ConfigurationError(
                    f"{self._target.label} was written to (tenant {tenant!r:.80}) before the move into it was finished: choose "
                    "another target, or empty that one."
                )

    def _check_unchanged(self) -> None:
        """Check that the source did not change since the copy began."""
        if self._source.state() != self._state:
            self._invalidate()
            raise Conflict(
                f"{self._source.label} was written to while it was moved, so the copy is incomplete. {_RETRY}"
            ) from None

    def _enter(self, mark: str, *, fresh: bool) -> None:
        """Claim the target for this run; `fresh` removes the rows of earlier runs."""
        if fresh:
            self._at = Step()
            self._compared = 0

        entered = self._mark_of(self._at)

        def work(db: Transaction, tenants: Sequence[str]) -> None:
            if self._owns(db, mark, entered):
                if fresh and mark:
                    for tenant in tenants:
                        db.switch_tenant(tenant)
                        db.run("moving_clear")
                db.run("meta_set", (MARK, entered))

        self._target.driver.for_every_tenant(work)
        self._mark = entered

    # -- copying --------------------------------------------------------------------------------------------------
    def _copy_part(self, part: str) -> None:
        """Copy one part; after a lost connection resume, as long as there is progress."""
        stuck = 0
        while True:
            before = self._at
            try:
                with self._source.driver.reading(part, consistent=True) as db:
                    return self._copy(part, self._source.view(db, self._facts))
            except StoreUnreachable:
                stuck = stuck + 1 if self._at == before else 0
                if stuck == _MAX_ATTEMPTS:
                    raise
                self._source.meta()  # waits for the server

    def _copy(self, part: str, view: View) -> None:
        """Write the rows of one part, table by table, from where an earlier run stopped."""
        numbers = self._scopes(view)
        stopped = self._at if self._at.table and self._at.part == part else None
        names = [table.name for table in TABLES]
        for table in TABLES[names.index(stopped.table) if stopped else 0 :]:
            for page in view.pages(table, stopped.last if stopped and stopped.table == table.name else None):
                last = [page[-1].row[at] for at in table.key]
                self._write(table, page, numbers, Step(part, table.name, last, self._at.done + len(page)))
                self._report()

    def _scopes(self, view: View) -> dict[int, int]:
        """Scope numbers of the source mapped to those of the target, where missing scopes are created."""
        owners = sorted((owner, number) for number, owner in view.owners.items() if owner != STORE_OWNER)
        numbers = {0: 0}
        for at in range(0, len(owners), _SCOPES_PER_COMMIT):
            numbers |= self._create_scopes(owners[at : at + _SCOPES_PER_COMMIT])
        return numbers

    def _create_scopes(self, owners: Sequence[tuple[Owner, int]]) -> dict[int, int]:
        def work(db: Transaction, tenants: Sequence[str]) -> dict[int, int]:
            self._owns(db, self._mark)
            made = {}
            for owner, number in owners:
                db.switch_tenant(owner[0])
                made[number] = int((db.one("scope_find", owner) or db.one("scope_add", owner))[0])
            return made

        return self._target.driver.for_every_tenant(work)

    def _write(self, table: Table, page: Sequence[Item], numbers: Mapping[int, int], step: Step) -> None:
        rows = sorted(page, key=lambda item: item.owner[0])  # one switch for each tenant
        mark = self._mark_of(step)

        def work(db: Transaction, tenants: Sequence[str]) -> None:
            if not self._owns(db, self._mark, mark):
                return
            for tenant, items in groupby(rows, key=lambda item: item.owner[0]):
                db.switch_tenant(tenant)
                for item in items:
                    scope = 0 if table.scope is None else numbers[item.row[table.scope]]
                    db.run(table.writes, item.written(db, table, scope))
                    if table.words is not None:
                        content, key = (item.row[at] for at in table.words)
                        db.run("words_add", (item.row[0], f"s{scope}", " ".join(record_terms(content, key))))
                        for place, passage in enumerate(further_passages(content, key), 1):
                            db.run("words_add", (passage_number(item.row[0], place), f"s{scope}", passage.words))
            db.run("meta_set", (MARK, mark))

        try:
            self._target.driver.for_every_tenant(work)
        except (Conflict, StoreDamaged):
            self._explain(table, page)
            raise
        self._at, self._mark = step, mark

    def _explain(self, table: Table, page: Sequence[Item]) -> None:
        """Raise a clear error if two tenants use one audit number: SQLite numbers the whole store."""
        for item in page if table.name == "audit" else ():
            with self._target.driver.reading(item.owner[0]) as db:
                found = db.one("moving_owner", (item.row[0],))
            if found is not None and found[0] != item.owner[0]:
                raise ConfigurationError(
                    f"tenants {found[0]!r:.80} and {item.owner[0]!r:.80} of {self._source.label} both have a row {item.row[0]} "
                    f"in their audit logs, and {self._target.label} holds one row per number. Move each tenant into its own "
                    "store, with --tenant."
                ) from None

    # -- the mark -------------------------------------------------------------------------------------------------
    def _mark_of(self, step: Step) -> str:
        """The mark that is stored for a step."""
        whose = {"source": self._facts["id"], "tenant": self._source.only, "state": self._state, "run": self._run}
        return json.dumps({**whose, "part": step.part, "table": step.table, "last": list(step.last), "done": step.done})

    def _owns(self, db: Transaction, before: str, after: str | None = None) -> bool:
        """Check that no other process took over. Returns False if the step is already committed: its response was lost."""
        mark: str = dict(db.all("meta_all")).get(MARK, "")
        if mark not in (before, after):
            raise Conflict(f"another process is moving a store into {self._target.label}: let one of them finish.")
        return mark == before

    def _invalidate(self) -> None:
        """Make the next run start over."""
        self._state = ""
        self._target.driver.for_every_tenant(lambda db, tenants: db.run("meta_set", (MARK, self._mark_of(self._at))))

    def _count_compared(self, rows: int) -> None:
        self._compared += rows
        self._report()

    def _report(self) -> None:
        """Report progress: every row is read three times, for the copy and on both sides for the comparison."""
        done = self._at.done + self._compared
        self._progress(done, max(3 * self._total, done))

    # -- finishing ------------------------------------------------------------------------------------------------
    def _finish(self, was: Tally, resumed: bool) -> Moved:
        """Compare every row, then give the target the identity of the source."""
        now = self._target.tally(self._facts, self._count_compared)
        differences = was.differences(now)
        if differences:
            self._invalidate()
            raise Conflict(
                f"{self._target.label} does not hold what {self._source.label} holds ({'; '.join(differences[:5])}): one of them "
                f"was written to while it was moved. {_RETRY}"
            )
        self._target.check_audit_log(sorted(tenant for tenant, table in now.rows if table == "chain"))
        self._target.driver.for_every_tenant(lambda db, tenants: self._settle(db, now.last))
        self._progress(1, 1)
        tables, tenants = now.tables(), {tenant for tenant, _ in now.rows if tenant}
        took = round(time.monotonic() - self._began, 3)
        return Moved(
            self._source.label, self._target.label, len(tenants), tables["record"], sum(tables.values()), tables, now.digest(),
            took, resumed,
        )  # fmt: skip

    def _settle(self, db: Transaction, last: int) -> None:
        """Take over the source's facts and continue its numbering."""
        if not self._owns(db, self._mark, ""):
            return
        db.one("moving_numbers", (last,))
        for name in dict(db.all("meta_all")):
            if name not in OWN and name not in self._facts:
                db.run("meta_drop", (name,))
        for name, value in self._facts.items():
            db.run("meta_set", (name, value))
        db.run("meta_drop", (MARK,))


class Side:
    """One of the two stores of a copy; `only` restricts it to one tenant."""

    def __init__(self, store: CommonStore, only: str | None = None) -> None:
        self.driver: Driver = store._catalog.driver
        self.label = self.driver.label
        self.only = only

    def parts(self) -> list[str]:
        """The units that are read as one view each: the tenants, then the entries about the whole store."""
        found = {tenant for tenant in self.driver.tenants() if self.only in (None, tenant)} - {STORE_OWNER[0]}
        return [*sorted(found), STORE_OWNER[0]]

    def knows(self, tenant: str) -> bool:
        """Whether the tenant has data in the store."""
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

    # -- identity -------------------------------------------------------------------------------------------------
    def meta(self) -> dict[str, str]:
        """All meta values of the store."""
        with self.driver.reading(STORE_OWNER[0]) as db:
            return dict(db.all("meta_all"))

    def facts(self) -> dict[str, str]:
        """The meta values that a copy keeps."""
        with self.driver.reading(STORE_OWNER[0]) as db:
            return read_facts(db)

    def ends(self) -> dict[str, tuple[int, int, bytes]]:
        """The end of each tenant's audit log: (chain start, number of entries, last hash)."""
        found: dict[str, tuple[int, int, bytes]] = {}
        for part in self.parts():
            with self.driver.reading(part) as db:
                rows: list[Any] = db.all("moving_chain", {"a": None, "tenant": self.only})
            found |= {tenant: (start, count, bytes(head)) for tenant, start, count, head in rows}
        return found

    def state(self) -> str:
        """A hash of the facts and the ends of the audit logs: every audited change alters it."""
        return hashlib.sha256(repr((sorted(self.facts().items()), sorted(self.ends().items()))).encode()).hexdigest()

    # -- rows -----------------------------------------------------------------------------------------------------
    def view(self, db: Transaction, facts: dict[str, str]) -> View:
        """A view of a read transaction, with the vector dimensions of the facts."""
        present, coming = facts.get("embedder"), facts.get("next embedder")
        widths = int(present.split(" ")[1]) if present else None, int(coming.split(" ")[0]) if coming else None
        return View(db, self.label, self.only, widths)

    def tally(self, facts: dict[str, str], read: Callable[[int], None]) -> Tally:
        """Count and hash all rows; `read` is called with the number of further rows read."""
        tally = Tally()
        for part in self.parts():
            tally.rows |= self._part(part, facts, read, tally).rows
        return tally

    def _part(self, part: str, facts: dict[str, str], read: Callable[[int], None], whole: Tally) -> Tally:
        """Count and hash the rows of a part; start over after a lost connection."""
        for tried in range(_MAX_ATTEMPTS):
            tally = Tally()
            try:
                with self.driver.reading(part, consistent=True) as db:
                    for more in self.view(db, facts).tally(tally):
                        read(more)
                break
            except StoreUnreachable:
                if tried == _MAX_ATTEMPTS - 1:
                    raise
                self.meta()  # waits for the server
        whole.last = max(whole.last, tally.last)
        return tally

    def check_audit_log(self, tenants: Sequence[str]) -> None:
        """Raise StoreDamaged unless the audit logs of the tenants verify."""
        audit_log = StoredAuditLog(ScopeCatalog(self.driver, times.now))
        for tenant in tenants:
            report = audit_log.verify(tenant)
            if not report.whole:
                raise StoreDamaged(
                    f"{self.label}: the audit log of {f'tenant {tenant!r}' if tenant else 'the whole store'} is not whole "
                    f"({report.problem}), so the store is not moved. Restore a backup, or take the records alone with "
                    "'keepstone export' and 'keepstone import'."
                )


def read_facts(db: Transaction) -> dict[str, str]:
    """The meta values that a copy keeps: id and embedders."""
    return {name: value for name, value in db.all("meta_all") if name not in OWN}
