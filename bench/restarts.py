"""A Postgres that is stopped and started again and again while it is written to. Run with `python -m bench restarts`.

Several stores, each with connections of its own as another process would have, write in two tenants; some of the writes have an
idempotency key and are said twice. `lost` counts acknowledged writes that are not there afterwards, `doubled` those that are
there more often than once or were done twice inside the store. `recovery_s` is the time from the server being ready to the first
write that a waiting caller gets back.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import percentile, progress
from bench.texts import name
from keepstone import KeepstoneError, Memory
from tests.server_processes import PostgresServer

STORES, CALLERS = 3, 3  # callers that write with each store; one more reads
TENANTS = ("north", "south")
PATIENCE = 60.0  # seconds until every caller must have got its answer after a restart
SHORT = 5.0  # the shortest busy timeout there is


@dataclass(slots=True)
class Result:
    """What the restarts came to."""

    restarts: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    errors: int = 0
    whole: bool = False
    healthy: bool = False
    recovery: list[float] = field(default_factory=list)  # until the first waiting caller has its receipt
    all_back: list[float] = field(default_factory=list)  # until the last one has
    impatient: dict[str, int] = field(default_factory=dict)  # what callers with a short busy timeout were told
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        nothing = not (self.lost or self.doubled or self.errors or self.problems)
        return nothing and self.whole and self.healthy and max(self.recovery, default=0.0) < 5

    def as_json(self) -> dict[str, Any]:
        return {
            "bench": "restarts", "restarts": dict(self.restarts), "seconds": round(self.seconds, 1),
            "acknowledged": self.acknowledged, "lost": self.lost, "doubled": self.doubled, "errors": self.errors,
            "whole": self.whole, "healthy": self.healthy, "recovery_s": _spread(self.recovery),
            "all_back_s": _spread(self.all_back), "impatient": self.impatient, "problems": self.problems[:20],
        }  # fmt: skip


def _spread(values: list[float]) -> dict[str, float]:
    return {"p50": round(percentile(values, 0.5), 3), "max": round(max(values, default=0.0), 3)}


class Caller:
    """A thread that writes until it is told to stop, one write after the other, and keeps the ledger of what it was promised."""

    def __init__(self, memory: Memory, label: str, keyed: bool) -> None:
        self._memory = memory
        self._label = label
        self._keyed = keyed
        self._random = random.Random(label)
        self._count = 0
        self.facts: dict[str, tuple[str, int]] = {}  # id -> content, version
        self.messages: dict[str, str] = {}
        self.value: str | None = None
        self.begun: float | None = None  # when the call that is under way was begun
        self.answers: list[tuple[float, float]] = []  # when each call was begun and when it was over
        self.problems: list[str] = []
        self.doubled: list[str] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=label, daemon=True)

    @property
    def scope(self) -> Memory:
        return self._memory

    @property
    def acknowledged(self) -> int:
        return len(self.answers)

    def _run(self) -> None:
        verbs = [self._remember] * 4 + [self._say] * 3 + [self._update] * 2 + [self._set]
        while not self.stop.is_set():
            self.begun = time.monotonic()
            try:
                self._random.choice(verbs)()
            except KeepstoneError as error:
                self.problems.append(f"{self._label}: {type(error).__name__}: {error}")
            else:
                self.answers.append((self.begun, time.monotonic()))

    def _text(self) -> str:
        self._count += 1
        who, other = name(self._random), name(self._random)
        return f"{who} keeps item zq{self._label}n{self._count}q in box {self._random.randint(10, 99999)} at {other}'s."

    def _remember(self) -> None:
        text = self._text()
        key = f"{self._label} {self._count}" if self._keyed else None
        receipt = self._memory.remember(text, idempotency_key=key)
        if receipt.action != "added":  # without a key, a fact that is written twice is found to be there already
            self.doubled.append(f"{self._label}: {receipt.action} ({', '.join(receipt.reasons)}): {text}")
        self.facts[str(receipt.id)] = (text, receipt.version)
        if key is not None and self._random.random() < 0.3:
            again = self._memory.remember(text, idempotency_key=key)
            if again.id != receipt.id:
                self.doubled.append(f"{self._label}: key {key!r} gave {receipt.id} and then {again.id}")

    def _say(self) -> None:
        text = self._text()
        receipt = self._memory.conversation("desk").add("user", text)
        self.messages[str(receipt.id)] = text

    def _update(self) -> None:
        if not self.facts:
            return self._remember()
        text, id = self._text(), self._random.choice(list(self.facts))
        version = self.facts[id][1]
        receipt = self._memory.update(id, text)
        if receipt.version != version + 1:
            self.doubled.append(f"{self._label}: version {version} of {id} became {receipt.version} by one update")
        self.facts[id] = (text, receipt.version)
        return None

    def _set(self) -> None:
        text = self._text()
        self._memory.set(f"own {self._label}", text)
        self.value = text


class Reader:
    """A thread that reads all the while; what it is told by an outage it must never see."""

    def __init__(self, memory: Memory, label: str) -> None:
        self._memory = memory
        self.problems: list[str] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=label, daemon=True)
        self._label = label

    def _run(self) -> None:
        talk = self._memory.conversation("desk")
        looks: list[Callable[[], object]] = [
            lambda: self._memory.recall("Who keeps an item in a box?"), talk.messages, lambda: talk.last(20),
            lambda: self._memory.list(limit=20), lambda: self._memory.value("own"),
        ]  # fmt: skip
        at = 0
        while not self.stop.wait(0.02):
            at += 1
            try:
                looks[at % len(looks)]()
            except KeepstoneError as error:
                self.problems.append(f"{self._label}: {type(error).__name__}: {error}")


class Restarts:
    """Restarts a server under callers and checks what they were promised."""

    def __init__(self, server: PostgresServer, seed: int = 1) -> None:
        self._server = server
        self._random = random.Random(seed)
        self.result = Result()
        self._callers: list[Caller] = []
        self._readers: list[Reader] = []

    def run(self, modes: list[str], longest: float = 3.0, impatient: bool = False) -> Result:
        """One restart for each mode ("immediate", "fast", "kill"), each up to `longest` seconds long."""
        begun = time.monotonic()
        url = self._server.database("restarts")
        with ExitStack() as stack:
            stores = [stack.enter_context(Memory.open(url, tenant=TENANTS[0])) for _ in range(STORES)]
            self._begin(stores)
            try:
                for mode in modes:
                    self._restart(mode, self._random.uniform(0.0, longest))
            finally:
                self._end()
            self._check(stores[0])
        if impatient:
            self.result.impatient = self._impatient(url)
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _begin(self, stores: list[Memory]) -> None:
        for at, store in enumerate(stores):
            for number in range(CALLERS):
                mine = store.with_scope(tenant=TENANTS[(at + number) % len(TENANTS)], user="everybody")
                self._callers.append(Caller(mine, f"s{at}c{number}", keyed=number % 2 == 0))
            self._readers.append(Reader(store.with_scope(user="everybody"), f"reader {at}"))
        for each in (*self._callers, *self._readers):
            each.thread.start()
        self._progressed()

    def _restart(self, mode: str, seconds: float) -> None:
        time.sleep(self._random.uniform(0.05, 0.3))  # at another instant of their work each time
        if mode == "kill":
            self._server.kill()
        else:
            self._server.stop(mode)
        self.result.restarts[mode] += 1
        time.sleep(seconds)
        self._server.start()
        ready = time.monotonic()
        self._progressed(ready)
        waited = [self._waited(caller, ready) for caller in self._callers]
        back = [each for each in waited if each is not None]
        if back:
            self.result.recovery.append(min(back))
            self.result.all_back.append(max(back))
        else:
            self.result.problems.append("no caller waited for the server: nothing was measured")

    def _waited(self, caller: Caller, ready: float) -> float | None:
        """How long after the server was ready a caller that had waited for it had its receipt."""
        for begun, over in list(caller.answers):
            if over >= ready:
                return over - ready if begun < ready else None
        return None

    def _progressed(self, since: float = 0.0) -> None:
        """Wait until every caller has got an answer to something it asked since."""
        deadline = time.monotonic() + PATIENCE
        for caller in self._callers:
            while not (caller.answers and caller.answers[-1][0] >= since):
                if time.monotonic() > deadline:
                    self.result.problems.append(f"caller {caller.thread.name} had no answer for {PATIENCE:g} s")
                    return
                time.sleep(0.01)

    def _end(self) -> None:
        for each in (*self._callers, *self._readers):
            each.stop.set()
        for each in (*self._callers, *self._readers):
            each.thread.join(PATIENCE)
            self.result.errors += len(each.problems)
            self.result.problems += each.problems
        for caller in self._callers:
            self.result.doubled += len(caller.doubled)
            self.result.problems += caller.doubled
            self.result.acknowledged += caller.acknowledged

    def _check(self, memory: Memory) -> None:
        for tenant in TENANTS:
            seen = memory.with_scope(tenant=tenant, user="everybody")
            records = everything(seen)
            contents = Counter(record.content for record in records)
            self.result.doubled += sum(count - 1 for count in contents.values())
            self.result.problems += [f"{count} times: {content}" for content, count in contents.items() if count > 1]
            there = {record.id: record.content for record in records}
            for caller in (each for each in self._callers if each.scope.scope.tenant == tenant):
                promised = {**{id: text for id, (text, _) in caller.facts.items()}, **caller.messages}
                gone = [f"{id}: {text}" for id, text in promised.items() if there.get(id) != text]
                if caller.value is not None and caller.value not in contents:
                    gone.append(f"a value: {caller.value}")
                if not caller.problems:  # nothing else may be there: an unacknowledged write would be one too many
                    mine = {id for id, text in there.items() if f"zq{caller.thread.name}n" in text and text != caller.value}
                    extra = sorted(mine - set(promised))
                    self.result.doubled += len(extra)
                    self.result.problems += [f"not acknowledged: {there[id]}" for id in extra]
                self.result.lost += len(gone)
                self.result.problems += [f"lost: {each}" for each in gone]
        reports = [memory.with_scope(tenant=tenant).audit.verify() for tenant in TENANTS]
        self.result.whole = all(report.whole for report in reports)
        diagnosis = memory.upkeep.doctor()
        self.result.healthy = diagnosis.healthy
        self.result.problems += [f"the trail: {report.problem}" for report in reports if not report.whole]
        self.result.problems += [f"doctor, {each.check}: {each.problem}" for each in diagnosis.findings]

    def _impatient(self, url: str) -> dict[str, int]:
        """What callers are told by an outage that is longer than their patience, and whether the store can be used afterwards."""
        told: Counter[str] = Counter()

        def attempt(verb: Callable[[], object]) -> None:
            try:
                verb()
                told["an answer"] += 1
            except KeepstoneError as error:
                told[type(error).__name__] += 1

        with Memory.open(url, user="impatient", settings={"busy_timeout": SHORT}) as memory:
            before = memory.remember("Before the long outage, item zqlong1q was in box 7.")
            self._server.stop()
            verbs = [
                lambda: memory.remember("In the long outage, item zqlong2q was in box 8."),
                lambda: memory.get(str(before.id)),
            ]
            threads = [threading.Thread(target=attempt, args=(verb,)) for verb in verbs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self._server.start()
            attempt(lambda: memory.remember("After the long outage, item zqlong3q was in box 9."))
            if memory.get(str(before.id)) is None:
                self.result.lost += 1
        if told != {"StoreUnreachable": 2, "an answer": 1}:
            self.result.problems.append(f"with a busy timeout of {SHORT:g} s callers were told {dict(told)}")
        return dict(told)


def everything(memory: Memory) -> list[Any]:
    """Every record of a scope."""
    records: list[Any] = []
    cursor = None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        records += page
        if page.cursor is None:
            return records
        cursor = page.cursor


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); exit status 1 if anything was lost, doubled or told wrongly."""
    parser = argparse.ArgumentParser(prog="bench restarts", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how many restarts (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="another seed stops at other instants")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    progress(f"{options.times} restarts under {STORES * CALLERS} writers and {STORES} readers")
    with (
        tempfile.TemporaryDirectory(prefix="keepstone-restarts-") as folder,
        PostgresServer(Path(folder) / "postgres", durable=True) as server,
    ):
        result = Restarts(server, options.seed).run(["immediate"] * options.times, impatient=True)
    found = result.as_json()
    if not options.json:
        print(f"{sum(result.restarts.values())} restarts in {found['seconds']} s, {result.acknowledged} acknowledged writes")
        print(f"lost {result.lost}, doubled {result.doubled}, errors seen by callers {result.errors}")
        print(f"trail whole: {result.whole}, doctor: {'healthy' if result.healthy else 'not healthy'}")
        print(f"the first waiting caller was back after {found['recovery_s']} s, the last after {found['all_back_s']} s")
        print(f"with a busy timeout of {SHORT:g} s callers were told: {result.impatient}")
        for problem in found["problems"]:
            print(f"  {problem}")
    print(json.dumps(found))
    return 0 if result.good else 1
