"""A Redis beside a store that is killed, paused, emptied or restarted while people talk: every word is kept, no page is an old
one, and it is said that the buffer is away.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.restarts import everything
from bench.torture.support import check_store
from bench.torture.targets import databases
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from tests.server_processes import RedisServer

TALKERS = 4
PATIENCE = 60.0
FAULTS = ("kill", "pause", "flush", "restart")


class Talker:
    """A user who adds messages, reads the last ones and remembers facts, until told to stop."""

    def __init__(self, memory: Memory, label: str) -> None:
        self._memory = memory.with_scope(user=label)
        self._label = label
        self.said: list[str] = []
        self.facts: list[str] = []
        self.problems: list[str] = []
        self.lost = self.doubled = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=label, daemon=True)

    def _run(self) -> None:
        talk = self._memory.conversation("desk")
        number = 0
        while not self.stop.wait(0.002):
            number += 1
            try:
                text = f"Parcel zq{self._label}n{number}q is in hall {number * 37}."
                receipt = talk.add("user", text) if number % 4 else self._memory.remember(text)
                (self.said if number % 4 else self.facts).append(text)
                if receipt.action != "added":
                    self.problems.append(f"{self._label}: a write was {receipt.action}")
                seen = [message.content for message in talk.last(5)]
                if seen != self.said[-5:]:
                    self.problems.append(f"{self._label}: after {len(self.said)} messages an old page was given")
            except Exception as error:  # an outage of the buffer must stay invisible
                self.problems.append(f"{self._label}: {type(error).__name__}: {error}")

    @property
    def answers(self) -> int:
        return len(self.said) + len(self.facts)

    def check(self) -> None:
        """Whether the store has every word, once."""
        there = Counter(record.content for record in everything(self._memory))
        wanted = [*self.said, *self.facts]
        self.lost = sum(text not in there for text in wanted)
        self.doubled = sum(count - 1 for count in there.values())
        self.problems += [f"{self._label}: {self.lost} of {len(wanted)} are gone"] * bool(self.lost)
        if more := len(there) - len(wanted) + self.lost:
            self.problems.append(f"{self._label}: {more} are there that were never said")


def run(options: Options) -> Verdict:
    """A fault a round, half of them beside each store."""
    verdict = Verdict("redis", "both")
    begun = time.monotonic()
    chance = random.Random(options.seed)
    with databases(options) as there, RedisServer(options.folder / "redis") as server:
        for store in ("sqlite", "postgres"):
            where = there.fresh("redis") if store == "postgres" else options.folder / "redis.db"
            faults = [chance.choice(FAULTS) for _ in range(max(len(FAULTS), options.rounds // 2) - len(FAULTS))]
            verdict.figures[store] = under(verdict, store, where, server, [*FAULTS, *faults])
    verdict.seconds = time.monotonic() - begun
    return verdict


def under(verdict: Verdict, store: str, where: str | Path, server: RedisServer, faults: list[str]) -> dict[str, int]:
    """Let people talk under these faults, one after the other; how often there was which."""
    server.start()
    with Memory.open(where, embedder="none", buffer=server.url) as memory:
        talkers = [Talker(memory, f"{store[0]}{number}") for number in range(TALKERS)]
        for each in talkers:
            each.thread.start()
        try:
            for fault in faults:
                verdict.tries += 1
                _fault(verdict, f"{store}, {fault}", fault, memory, server, talkers)
        finally:
            server.resume()
            server.start()
            for each in talkers:
                each.stop.set()
            for each in talkers:
                each.thread.join(PATIENCE)
        for each in talkers:
            each.check()
            verdict.acknowledged += each.answers
            verdict.lost += each.lost
            verdict.duplicates += each.doubled
            verdict.errors += len(each.problems)
            verdict.problems += [f"{store}: {problem}" for problem in each.problems]
    check_store(verdict, where, store)
    return dict(Counter(faults))


def _fault(verdict: Verdict, label: str, fault: str, memory: Memory, server: RedisServer, talkers: list[Talker]) -> None:
    def wrong(what: str) -> None:
        verdict.errors += 1
        verdict.problems.append(f"{label}: {what}")

    _go_on(talkers, wrong, "before anything was broken")
    if fault == "flush":
        import redis

        with redis.Redis.from_url(server.url) as client:
            client.flushall()
        _go_on(talkers, wrong, "after it was emptied")
        return
    if fault == "restart":
        server.stop()
    else:
        getattr(server, fault)()
    _go_on(talkers, wrong, "while it was away")
    if not _away(memory):
        wrong("the doctor does not say that the buffer is away")
    server.resume()
    server.start()
    _go_on(talkers, wrong, "after it came back")
    if not _until(lambda: not _away(memory)):
        wrong("the buffer is back and still said to be away")


def _away(memory: Memory) -> bool:
    return "buffer" in {finding.check for finding in memory.upkeep.doctor().findings}


def _go_on(talkers: list[Talker], wrong: Callable[[str], None], when: str) -> None:
    """Everybody gets a few answers more."""
    before = [each.answers for each in talkers]
    if not _until(lambda: all(each.answers >= at + 5 or each.problems for each, at in zip(talkers, before, strict=True))):
        wrong(f"a caller had no answer for {PATIENCE:g} s {when}")


def _until(reached: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not (done := reached()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return done
