"""Moving a whole store into another, whatever their engines: resumable, with its history and its trail, and verified.

One transaction writes a page of rows and, in `meta`, how far the move has come; so a kill costs a page, and running it again goes
on. What is moved into keeps its own facts until the end: only when every row has been compared does it take over the source's id
and embedder, and drop the mark. Numbers stay what they are, because the trail hashes them.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from keepstone.errors import ConfigurationError, Conflict, NotFound, StoreBusy, StoreDamaged, StoreUnreachable
from keepstone.ports.stores import Progress
from keepstone.stores.common.store import CommonStore
from keepstone.stores.common.store_copy_rows import TABLES, Item, Key, Owner, Table, Tally, View
from keepstone.stores.common.store_copy_side import MARK, OWN, Side, facts_of
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER
from keepstone.text.words import record_terms

_SCOPES = 200  # made in one transaction
_TRIES = 5
_AGAIN = "Stop whoever writes to it, then run the same command again: it clears what it has put there and starts over."


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved and compared. `digest`: one hash over all rows, the same for every copy; `resumed`: an earlier run had
    begun."""

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
    """How far a move has come: the last row that was written."""

    part: str = ""
    table: str = ""
    last: Key = ()
    done: int = 0


class Mover:
    """One store on its way into another. `only`: the tenant to move, instead of all; what was done to the whole store goes along,
    because its numbers are part of the order."""

    def __init__(self, source: CommonStore, only: str | None = None, progress: Progress | None = None) -> None:
        self._began = time.monotonic()
        self._source = Side(source, only)
        self._progress = progress or (lambda done, total: None)
        self._facts = self._source.facts()
        self._total = self._source.count()[0]
        self._run = secrets.token_hex(8)
        self._state = ""  # what the source was when the move began
        self._mark = ""  # what the target's mark says as far as we know: another process may take the move over
        self._at = Step()
        self._compared = 0
        if MARK in self._source.meta():
            raise ConfigurationError(
                f"{self._source.label} is itself a target of a move that is not finished: finish that first."
            )
        if only is not None and not self._source.knows(only):
            raise NotFound(f"there is no tenant {only!r:.80} in {self._source.label}: check the name, or move all of them.")

    # -- the two ways to move -------------------------------------------------------------------------------------
    def into(self, target: CommonStore) -> Moved:
        """Move a store that nobody writes to, or go on where an earlier run has stopped."""
        self._target = Side(target)
        resumed = self._begin()
        parts = self._source.parts()
        try:
            for part in parts[parts.index(self._at.part) if self._at.table else 0 :]:
                self._through(part)
            was = self._source.tally(self._facts, self._more)
        except (Conflict, StoreDamaged):
            self._check_still()  # rows of two moments may not fit together
            raise
        self._check_still()
        return self._finish(was, resumed)

    def snapshot(self, target: CommonStore) -> Moved:
        """Copy a store that others may be writing to into a new one: each tenant as it is at one moment."""
        self._target = Side(target)
        for _ in range(_TRIES):
            self._enter(self._mark, fresh=True)
            was = Tally()
            for part in self._source.parts():
                with self._source.driver.reading(part, consistent=True) as db:
                    if facts_of(db) != self._facts:
                        break
                    view = self._source.view(db, self._facts)
                    self._copy(part, view)
                    for more in view.tally(was):
                        self._more(more)
            else:
                return self._finish(was, False)
            self._facts = self._source.facts()  # another embedder since: vectors of two models do not go together
        raise StoreBusy(f"the embedder of {self._source.label} was changed again and again while it was copied: try again later.")

    # -- beginning ------------------------------------------------------------------------------------------------
    def _begin(self) -> bool:
        """See what the target holds; whether an earlier run is gone on with."""
        self._state = self._source.state()
        mark = self._target.meta().get(MARK)
        if mark is None:
            self._check_free()
            self._source.check_trail(sorted(self._source.ends()))
            self._enter("", fresh=True)
            return False
        held = json.loads(mark)
        if held["source"] != self._facts["id"]:
            raise ConfigurationError(
                f"{self._target.label} holds an unfinished move of another store: finish that one, or choose another target."
            )
        if (held["tenant"], held["state"]) != (self._source.only, self._state):
            self._enter(mark, fresh=True)  # the source has moved on since, or something else is wanted: start over
            return False
        self._check_untouched()
        self._at = Step(held["part"], held["table"], held["last"], held["done"])
        self._enter(mark, fresh=False)
        return True

    def _check_free(self) -> None:
        """There is something to move, and nothing in the target."""
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
        """Whoever writes to a store adds to a trail; a move that is not finished has only ends of trails that the source has."""
        ends = self._source.ends()
        for tenant, end in self._target.ends().items():
            if ends.get(tenant) != end:
                raise ConfigurationError(
                    f"{self._target.label} was written to (tenant {tenant!r:.80}) before the move into it was finished: choose "
                    "another target, or empty that one."
                )

    def _check_still(self) -> None:
        """The source is what it was when the move began."""
        if self._source.state() != self._state:
            self._spoil()
            raise Conflict(
                f"{self._source.label} was written to while it was moved, so the copy is not whole. {_AGAIN}"
            ) from None

    def _enter(self, mark: str, *, fresh: bool) -> None:
        """Take the target for this run; with `fresh` it is emptied of what a move has put there."""
        if fresh:
            self._at = Step()
            self._compared = 0

        entered = self._said(self._at)

        def work(db: Transaction, tenants: Sequence[str]) -> None:
            if self._mine(db, mark, entered):
                if fresh and mark:
                    for tenant in tenants:
                        db.switch_tenant(tenant)
                        db.run("moving_clear")
                db.run("meta_set", (MARK, entered))

        self._target.driver.for_every_tenant(work)
        self._mark = entered

    # -- copying --------------------------------------------------------------------------------------------------
    def _through(self, part: str) -> None:
        """Copy one part, and go on with it when a server has gone away and come back, as long as it gets any further."""
        stuck = 0
        while True:
            before = self._at
            try:
                with self._source.driver.reading(part, consistent=True) as db:
                    return self._copy(part, self._source.view(db, self._facts))
            except StoreUnreachable:
                stuck = stuck + 1 if self._at == before else 0
                if stuck == _TRIES:
                    raise
                self._source.meta()  # waits for the server

    def _copy(self, part: str, view: View) -> None:
        """Write one part's rows, table by table, from where an earlier run has stopped."""
        numbers = self._scopes(view)
        stopped = self._at if self._at.table and self._at.part == part else None
        names = [table.name for table in TABLES]
        for table in TABLES[names.index(stopped.table) if stopped else 0 :]:
            for page in view.pages(table, stopped.last if stopped and stopped.table == table.name else None):
                last = [page[-1].row[at] for at in table.key]
                self._write(table, page, numbers, Step(part, table.name, last, self._at.done + len(page)))
                self._told()

    def _scopes(self, view: View) -> dict[int, int]:
        """The scopes' numbers here and there; those that are missing there are made."""
        owners = sorted((owner, number) for number, owner in view.owners.items() if owner != STORE_OWNER)
        numbers = {0: 0}
        for at in range(0, len(owners), _SCOPES):
            numbers |= self._made(owners[at : at + _SCOPES])
        return numbers

    def _made(self, owners: Sequence[tuple[Owner, int]]) -> dict[int, int]:
        def work(db: Transaction, tenants: Sequence[str]) -> dict[int, int]:
            self._mine(db, self._mark)
            made = {}
            for owner, number in owners:
                db.switch_tenant(owner[0])
                made[number] = int((db.one("scope_find", owner) or db.one("scope_add", owner))[0])
            return made

        return self._target.driver.for_every_tenant(work)

    def _write(self, table: Table, page: Sequence[Item], numbers: Mapping[int, int], step: Step) -> None:
        rows = sorted(page, key=lambda item: item.owner[0])  # each tenant is visited once
        mark = self._said(step)

        def work(db: Transaction, tenants: Sequence[str]) -> None:
            if not self._mine(db, self._mark, mark):
                return
            for tenant, items in groupby(rows, key=lambda item: item.owner[0]):
                db.switch_tenant(tenant)
                for item in items:
                    scope = 0 if table.scope is None else numbers[item.row[table.scope]]
                    db.run(table.writes, item.written(db, table, scope))
                    if table.words is not None:
                        content, key = (item.row[at] for at in table.words)
                        db.run("words_add", (item.row[0], f"s{scope}", " ".join(record_terms(content, key))))
            db.run("meta_set", (MARK, mark))

        try:
            self._target.driver.for_every_tenant(work)
        except (Conflict, StoreDamaged):
            self._explain(table, page)
            raise
        self._at, self._mark = step, mark

    def _explain(self, table: Table, page: Sequence[Item]) -> None:
        """Two tenants may have the same number only where each has numbers of its own."""
        for item in page if table.name == "audit" else ():
            with self._target.driver.reading(item.owner[0]) as db:
                found = db.one("moving_owner", (item.row[0],))
            if found is not None and found[0] != item.owner[0]:
                raise ConfigurationError(
                    f"tenants {found[0]!r:.80} and {item.owner[0]!r:.80} of {self._source.label} both have a row {item.row[0]} "
                    f"in their trails, and {self._target.label} holds one row of a number. Move each tenant into a store of its "
                    "own, with --tenant."
                ) from None

    # -- the mark -------------------------------------------------------------------------------------------------
    def _said(self, step: Step) -> str:
        """The mark of a step."""
        whose = {"source": self._facts["id"], "tenant": self._source.only, "state": self._state, "run": self._run}
        return json.dumps({**whose, "part": step.part, "table": step.table, "last": list(step.last), "done": step.done})

    def _mine(self, db: Transaction, before: str, after: str | None = None) -> bool:
        """Nobody else has gone on with this move. False if what is to be done is there: a commit whose answer was lost."""
        mark: str = dict(db.all("meta_all")).get(MARK, "")
        if mark not in (before, after):
            raise Conflict(f"another process moves into {self._target.label} as well: let one of them finish.")
        return mark == before

    def _spoil(self) -> None:
        """Make the next run start over."""
        self._state = ""
        self._target.driver.for_every_tenant(lambda db, tenants: db.run("meta_set", (MARK, self._said(self._at))))

    def _more(self, rows: int) -> None:
        self._compared += rows
        self._told()

    def _told(self) -> None:
        """Every row is read three times: to be copied, and on both sides to be compared."""
        done = self._at.done + self._compared
        self._progress(done, max(3 * self._total, done))

    # -- finishing ------------------------------------------------------------------------------------------------
    def _finish(self, was: Tally, resumed: bool) -> Moved:
        """Compare every row, then let the target be what the source was."""
        now = self._target.tally(self._facts, self._more)
        differences = was.differences(now)
        if differences:
            self._spoil()
            raise Conflict(
                f"{self._target.label} does not hold what {self._source.label} holds ({'; '.join(differences[:5])}): one of them "
                f"was written to while it was moved. {_AGAIN}"
            )
        self._target.check_trail(sorted(tenant for tenant, table in now.rows if table == "chain"))
        self._target.driver.for_every_tenant(lambda db, tenants: self._settle(db, now.last))
        self._progress(1, 1)
        tables, tenants = now.tables(), {tenant for tenant, _ in now.rows if tenant}
        took = round(time.monotonic() - self._began, 3)
        return Moved(
            self._source.label, self._target.label, len(tenants), tables["record"], sum(tables.values()), tables, now.digest(),
            took, resumed,
        )  # fmt: skip

    def _settle(self, db: Transaction, last: int) -> None:
        """The target is the store from now on: its next numbers come after the last, and it is known by the source's facts."""
        if not self._mine(db, self._mark, ""):
            return
        db.one("moving_numbers", (last,))
        for name in dict(db.all("meta_all")):
            if name not in OWN and name not in self._facts:
                db.run("meta_drop", (name,))
        for name, value in self._facts.items():
            db.run("meta_set", (name, value))
        db.run("meta_drop", (MARK,))
