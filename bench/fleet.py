"""Several processes on one Postgres and one Redis, reading and writing in the same scopes. Run with `python -m bench fleet`.

Every acknowledged write goes over a pipe to the parent, which looks for it at the end. `lost` counts those that are not there
with their content, `duplicates` what is there more than once, `unseen` reads that did not show a message that had been
acknowledged before they began, in the same process or in another, and `errors` what callers were told. Without URLs it starts
servers of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import secrets
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from bench.measure import percentile, progress, table
from bench.restarts import everything
from bench.texts import name
from keepstone import KeepstoneError, Memory, Receipt
from tests.server_processes import PostgresServer, RedisServer

USERS, SESSIONS, KEYS = 4, 3, 3  # sessions and shared keys of each user
THREADS = 2  # callers in each process
KEPT = 40  # records a caller has at hand for updates and for forgetting
PATIENCE = 120.0  # seconds until a child must have come to its end


@dataclass(frozen=True, slots=True)
class Plan:
    """What a process of the fleet is told."""

    store: str
    buffer: str
    tenant: str
    number: int
    threads: int = THREADS


@dataclass(slots=True)
class Result:
    """What the fleet came to."""

    processes: int = 0
    threads: int = THREADS
    seconds: float = 0.0
    verbs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: int = 0
    forgotten: int = 0
    lost: int = 0
    duplicates: int = 0
    looks: Counter[str] = field(default_factory=Counter)  # reads that were to show a message, by who looked
    unseen: int = 0
    errors: int = 0
    whole: bool = False
    healthy: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.whole and self.healthy and not self.problems

    def as_json(self) -> dict[str, Any]:
        operations, mine = sum(map(len, self.verbs.values())), {each.name: getattr(self, each.name) for each in fields(self)}
        mine |= {"operations": operations, "per_second": round(operations / (self.seconds or 1), 1), "looks": dict(self.looks)}
        mine |= {"verbs": {verb: _spread(times) for verb, times in sorted(self.verbs.items())}}
        return {"bench": "fleet", **mine, "seconds": round(self.seconds, 1), "problems": self.problems[:20]}


def _spread(times: list[float]) -> dict[str, float]:
    shares = {"p50_ms": 0.5, "p95_ms": 0.95}
    return {"count": len(times), **{clock: round(percentile(times, share) * 1e3, 2) for clock, share in shares.items()}}


# -- a process of the fleet ---------------------------------------------------------------------------------------
class _Process:
    """One memory that several callers use; a listener does what the parent asks for."""

    def __init__(self, plan: Plan, pipe: Connection) -> None:
        self.plan = plan
        self._pipe = pipe
        self._sending = threading.Lock()
        self.stop = threading.Event()
        self.times: dict[str, list[float]] = defaultdict(list)

    @classmethod
    def begin(cls, plan: Plan, pipe: Connection) -> None:
        cls(plan, pipe).run()

    def run(self) -> None:
        with Memory.open(self.plan.store, tenant=self.plan.tenant, buffer=self.plan.buffer or None) as memory:
            self.views = [memory.with_scope(user=f"user{number}") for number in range(USERS)]
            self.tell("ready")
            self._pipe.recv()
            callers = [_Caller(self, number) for number in range(self.plan.threads)]
            threads = [threading.Thread(target=caller.run) for caller in callers]
            for thread in threads:
                thread.start()
            self._listen()
            for thread in threads:
                thread.join()
            self.tell("times", dict(self.times))
            self._pipe.recv()  # the parent has everything and asks no more
        self._pipe.close()

    def tell(self, *what: Any) -> None:
        with self._sending:
            self._pipe.send(what)

    def time_call(self, verb: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = work()
        self.times[verb].append(time.perf_counter() - begun)
        return found

    def report_errors(self, what: str, work: Callable[[], None]) -> None:
        """An error that a caller would see goes to the parent."""
        try:
            work()
        except KeepstoneError as error:
            self.tell("error", f"process {self.plan.number}, {what}: {type(error).__name__}: {error}")

    def _listen(self) -> None:
        while (asked := self._pipe.recv()) != ("stop",):
            match asked:
                case ("look", user, session, id, word):
                    self.report_errors("look", lambda: self.look(user, session, id, word, "another process"))
                case ("say", text):
                    self.report_errors("the same fact", lambda: self._say(text))  # as all the others do, at the same time
        self.stop.set()

    def look(self, user: int, session: str, id: str, word: str, who: str) -> None:
        """A message that was acknowledged must be on the last page of its session, and be found by its word."""
        view = self.views[user]
        page = self.time_call("conversation.last", lambda: view.conversation(session).last(200))
        if id not in [message.id for message in page]:
            self.tell("unseen", f"{who} did not see {word} on the last page of {session} of user{user}")
        hits = self.time_call("recall", lambda: view.recall(f"parcel {word}", limit=10))
        if id not in [hit.id for hit in hits]:
            self.tell("unseen", f"{who} did not recall {word} of user{user}")
        self.tell("looked", who)

    def _say(self, text: str) -> None:
        receipt = self.time_call("remember", lambda: self.views[0].remember(text))
        self.tell("same", text, str(receipt.id), receipt.action)


class _Caller:
    """A thread with work of its own in scopes that all share."""

    def __init__(self, process: _Process, number: int) -> None:
        self._process = process
        self._label = f"p{process.plan.number}t{number}"
        self._random = random.Random(f"{process.plan.tenant} {self._label}")
        self._count = 0
        self._own: dict[tuple[int, str], int] = {}  # (user, id) -> version

    def run(self) -> None:
        verbs = (
            [self._remember, self._say] * 6 + [self._recall, self._messages] * 4 + [self._update, self._set] * 3 + [self._forget]
        )
        while not self._process.stop.is_set():
            verb = self._random.choice(verbs)
            self._process.report_errors(verb.__name__.strip("_"), verb)

    def _text(self) -> tuple[int, str, str]:
        """Whose it is, a word that nothing else has, and a text with it."""
        self._count += 1
        word = f"zq{self._label}n{self._count}q"
        text = f"{name(self._random)} sends parcel {word} with {self._random.randint(10, 99999)} screws to {name(self._random)}."
        return self._random.randrange(USERS), word, text

    def _done(self, verb: str, user: int, receipt: Receipt, text: str, *expected: str) -> None:
        """Tell the parent what was acknowledged."""
        if receipt.action not in expected:
            self._process.tell("doubled", f"{self._label}: {verb} was {receipt.action} {receipt.reasons}: {text}")
        self._process.tell("done", verb, user, str(receipt.id), text)

    def _remember(self) -> None:
        user, word, text = self._text()
        view, key = self._process.views[user], word if self._count % 2 else None
        receipt = self._process.time_call("remember", lambda: view.remember(text, idempotency_key=key))
        self._done("remember", user, receipt, text, "added")
        if key is not None and self._count % 10 == 1:
            again = self._process.time_call("remember", lambda: view.remember(text, idempotency_key=key))
            self._done("repeat", user, again, text, *(["added"] if again.id == receipt.id else []))
        if len(self._own) < KEPT:
            self._own[user, str(receipt.id)] = receipt.version

    def _say(self) -> None:
        user, word, text = self._text()
        session = f"session{self._random.randrange(SESSIONS)}"
        talk = self._process.views[user].conversation(session)
        receipt = self._process.time_call("conversation.add", lambda: talk.add("user", text))
        self._done("say", user, receipt, text, "added")
        if self._count % 3 == 0:
            self._process.tell("look", user, session, str(receipt.id), word)
        if self._count % 2 == 0:
            self._process.look(user, session, str(receipt.id), word, "the same process")

    def _recall(self) -> None:
        view, query = self._random.choice(self._process.views), f"Who sends a parcel to {name(self._random)}?"
        self._process.time_call("recall", lambda: view.recall(query))

    def _messages(self) -> None:
        talk = self._random.choice(self._process.views).conversation(f"session{self._random.randrange(SESSIONS)}")
        self._process.time_call("conversation.messages", talk.messages)

    def _update(self) -> None:
        if not self._own:
            return self._remember()
        (user, id), version, text = *self._random.choice(list(self._own.items())), self._text()[2]
        receipt = self._process.time_call("update", lambda: self._process.views[user].update(id, text, expected_version=version))
        self._own[user, id] = receipt.version
        return self._done("update", user, receipt, text, "updated")

    def _set(self) -> None:
        """A key of this caller's own, which it reads at once, or one that everybody sets."""
        user, _, text = self._text()
        view, own = self._process.views[user], self._random.random() < 0.7
        key = f"own {self._label}" if own else f"shared {self._random.randrange(KEYS)}"
        receipt = self._process.time_call("set", lambda: view.set(key, text))
        self._done("set", user, receipt, text, "added", "superseded")
        if own and self._process.time_call("value", lambda: view.value(key)) != text:
            self._process.tell("unseen", f"{self._label} set {key!r} of user{user} and read another value")

    def _forget(self) -> None:
        if len(self._own) < KEPT // 4:
            return self._remember()
        user, id = self._random.choice(list(self._own))
        del self._own[user, id]
        self._process.time_call("forget", lambda: self._process.views[user].forget(id))
        return self._process.tell("forgotten", user, id)


# -- the parent ---------------------------------------------------------------------------------------------------
class Fleet:
    """Runs the processes, hands messages between them and checks what they were promised."""

    def __init__(self, store: str, buffer: str = "", *, processes: int = 4, threads: int = THREADS) -> None:
        self._store, self._buffer = store, buffer
        self._tenant = f"fleet{secrets.token_hex(4)}"  # a run of its own, whatever else is in the store
        self._processes, self._threads = processes, threads
        self.result = Result(processes, threads)
        self._records: dict[tuple[int, str], str] = {}  # (user, id) -> content
        self._values: dict[tuple[int, str], list[str]] = defaultdict(list)
        self._gone: set[tuple[int, str]] = set()
        self._same: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._turn = 0

    def run(self, seconds: float) -> Result:
        Memory.open(self._store, tenant=self._tenant).close()  # the tables are made, and the embedder is bound
        context = multiprocessing.get_context("spawn")
        pipes, children = [], []
        for number in range(self._processes):
            mine, its = context.Pipe()
            plan = Plan(self._store, self._buffer, self._tenant, number, self._threads)
            children.append(context.Process(target=_Process.begin, args=(plan, its), daemon=True))
            children[-1].start()
            pipes.append(mine)
            its.close()
        for pipe in pipes:
            assert pipe.recv() == ("ready",)
        begun = time.monotonic()
        self._send(pipes, ("go",))
        self._listen(pipes, begun + seconds)
        self.result.seconds = time.monotonic() - begun
        self._send(pipes, ("all",))
        for child in children:
            child.join(PATIENCE)
            if child.exitcode != 0:
                self.result.problems.append(f"a process of the fleet ended with {child.exitcode}")
        self._check()
        return self.result

    @staticmethod
    def _send(pipes: list[Connection], what: tuple[Any, ...]) -> None:
        for pipe in pipes:
            with contextlib.suppress(OSError):  # one that has gone is counted where it is listened to
                pipe.send(what)

    def _listen(self, pipes: list[Connection], until: float) -> None:
        """Take in what they say until all have come to their end; from time to time all are to say the same at once."""
        said, following, left, stopped = 0, time.monotonic() + 0.5, list(pipes), False
        while left and (now := time.monotonic()) < until + PATIENCE:
            if not stopped and now >= until and (self._gone or now >= until + PATIENCE / 2):  # a slow machine gets longer
                self._send(pipes, ("stop",))
                stopped = True
            elif now >= following and not stopped:
                self._send(pipes, ("say", f"Gate zqsame{said}q opens at {said * 7 % 24}:{said * 13 % 60:02} for everybody."))
                said, following = said + 1, now + 0.5
            for ready in wait(left, 0.05):
                try:
                    line = ready.recv()
                except EOFError:
                    line = ("times", {})  # what it ended with is looked at later
                self._take(line, pipes.index(ready), [] if stopped else pipes)
                if line[0] == "times":
                    left.remove(ready)
        self.result.problems += [f"process {pipes.index(pipe)} did not come to its end" for pipe in left]

    def _take(self, line: tuple[Any, ...], sender: int, pipes: list[Connection]) -> None:
        """Take in what a child says; a message to look for goes on to another one."""
        match line:
            case ("done", "set", user, id, text):
                self._values[user, id].append(text)
            case ("done", _, user, id, text):
                self._records[user, id] = text
            case ("forgotten", user, id):
                self._gone.add((user, id))
            case ("look", *what) if len(pipes) > 1:
                self._turn += 1
                others = [pipe for number, pipe in enumerate(pipes) if number != sender]
                others[self._turn % len(others)].send(("look", *what))
            case ("looked", who):
                self.result.looks[who] += 1
            case ("same", text, id, action):
                self._same[text].append((id, action))
            case ("times", times):
                for verb, each in times.items():
                    self.result.verbs[verb] += each
            case ("error" | "unseen" | "doubled" as kind, problem):
                self.result.errors += kind == "error"
                self.result.unseen += kind == "unseen"
                self.result.duplicates += kind == "doubled"
                self.result.problems.append(problem)
        self.result.acknowledged += line[0] in ("done", "forgotten", "same")

    # -- what is there in the end ---------------------------------------------------------------------------------
    def _check(self) -> None:
        result, self.result.forgotten = self.result, len(self._gone)
        with Memory.open(self._store, tenant=self._tenant) as memory:
            for user in range(USERS):
                self._check_user(user, memory.with_scope(user=f"user{user}"))
            report, diagnosis = memory.audit.verify(), memory.upkeep.doctor()
        result.whole, result.healthy = report.whole, diagnosis.healthy
        if not report.whole:
            result.problems.append(f"the trail: {report.problem}")
        result.problems += [f"doctor, {each.check}: {each.problem}" for each in diagnosis.findings]

    def _check_user(self, user: int, view: Memory) -> None:
        there = {record.id: record.content for record in everything(view)}
        promised = {id: text for (whose, id), text in self._records.items() if whose == user and (user, id) not in self._gone}
        lost = [f"lost: {text}" for id, text in promised.items() if there.get(id) != text]
        lost += [f"forgotten, and still there: {id}" for whose, id in self._gone if whose == user and id in there]
        values = {id: texts for (whose, id), texts in self._values.items() if whose == user}
        doubled = [f"{count} times: {text}" for text, count in Counter(there.values()).items() if count > 1]
        for id, texts in values.items():
            versions = Counter(version.content for version in view.history(id)) if id in there else Counter()
            lost += [f"lost from the history of a key: {text}" for text in texts if not versions[text]]
            doubled += [f"{count} times in the history of a key: {text}" for text, count in versions.items() if count > 1]
        same = self._same if user == 0 else {}
        for text, outcomes in same.items():
            ids, added = {id for id, _ in outcomes}, [action for _, action in outcomes].count("added")
            lost += [f"lost: {text}"] if any(there.get(id) != text for id in ids) else []
            if (len(ids), added) != (1, 1):
                doubled.append(f"said by all and added {added} times as {len(ids)} records: {text}")
        known = set(promised) | set(values) | {id for outcomes in same.values() for id, _ in outcomes}
        if not self.result.errors:  # an unacknowledged write is one too many
            doubled += [f"not acknowledged: {there[id]}" for id in sorted(set(there) - known)]
        self.result.lost += len(lost)
        self.result.duplicates += len(doubled)
        self.result.problems += lost + doubled


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); exit status 1 if anything was lost, doubled, unseen or failed."""
    parser = argparse.ArgumentParser(prog="bench fleet", description=__doc__)
    parser.add_argument("--processes", type=int, default=4, help="how many processes (default 4)")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"callers in each of them (default {THREADS})")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--store", help="postgresql://… (default: a server of its own)")
    parser.add_argument("--buffer", help="redis://… (default: a server of its own, unless --store is given)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keepstone-fleet-")))
        store, buffer = options.store, options.buffer
        if store is None:
            store = stack.enter_context(PostgresServer(folder / "postgres", durable=True)).database("fleet")
            buffer = buffer or stack.enter_context(RedisServer(folder / "redis")).url
        progress(f"{options.processes} processes for {options.seconds:g} s")
        result = Fleet(store, buffer or "", processes=options.processes, threads=options.threads).run(options.seconds)
    found = result.as_json()
    if not options.json:
        table("a fleet on one Postgres", {key: value for key, value in found.items() if key not in ("bench", "problems")})
        for problem in found["problems"]:
            print(f"  {problem}")
    print(json.dumps(found))
    return 0 if result.good else 1
