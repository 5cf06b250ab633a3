"""The process that `bench torture` kills: it writes to one store and says over a pipe what it did.

Every line is one JSON object. `open` comes when the store is open, `begin` before each verb and `done` after the verb has
returned: what is `done` is acknowledged and must survive; the one verb that was begun and not done may have happened as
a whole or not at all. `main` is the nursery: it has everything imported and forks a child for each job, so that a kill
costs milliseconds. Imports: recollect's public API.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from bench.texts import name
from recollect import Memory, Receipt, RecollectError

Tell = Callable[[dict[str, Any]], None]
KEYS = 12  # values that are superseded again and again


def work(path: str, seed: int, verbs: int, tell: Tell) -> None:
    """Open a store and do random verbs until killed, or until there were enough."""
    with Memory.open(path) as memory:
        tell({"event": "open", "id": memory._engine.store.id})
        _Writer(memory, random.Random(seed), tell).run(verbs)
    tell({"event": "end"})


class _Writer:
    """Random verbs on one memory, each announced and acknowledged."""

    def __init__(self, memory: Memory, random_: random.Random, tell: Tell) -> None:
        self._memory = memory
        self._random = random_
        self._tell = tell
        self._live = [record.id for record in memory.list(kind="fact", limit=100) if record.key is None]

    def run(self, verbs: int) -> None:
        choices = (
            [self.remember] * 5
            + [self.many] * 2
            + [self.supersede] * 3
            + [self.update] * 3
            + [self.forget] * 2
            + [self.ingest] * 2
        )
        for _ in range(verbs):
            self._random.choice(choices)()

    def _text(self, long: bool = False) -> tuple[str, str]:
        """A memory that no other is like, and the one word in it that finds it."""
        word = f"zq{self._random.getrandbits(48):012x}"
        text = f"{name(self._random)} keeps item {word} in box {self._random.randint(10, 99999)} at {name(self._random)}'s."
        return word, text + (" More is written there." * self._random.randint(1, 60) if long else "")

    def _begin(self, verb: str, **what: Any) -> None:
        self._tell({"event": "begin", "verb": verb, **what})

    def _done(self, verb: str, receipts: list[Receipt]) -> None:
        self._tell({"event": "done", "verb": verb, "receipts": [[each.id, each.version, each.action] for each in receipts]})

    def remember(self) -> None:
        word, text = self._text(long=self._random.random() < 0.2)
        self._begin("remember", items=[[word, text]])
        receipt = self._memory.remember(text)
        self._live.append(receipt.id or "")
        self._done("remember", [receipt])

    def many(self) -> None:
        items = [self._text() for _ in range(self._random.randint(2, 8))]
        self._begin("remember_many", items=items)
        self._done("remember_many", self._memory.remember_many([text for _, text in items]))

    def ingest(self) -> None:
        items = [self._text() for _ in range(self._random.randint(1, 8))]
        self._begin("ingest", items=items)
        said = [{"role": "user", "content": text} for _, text in items]
        self._done("ingest", self._memory.ingest(said, session=f"s{self._random.randint(1, 5)}"))

    def supersede(self) -> None:
        word, text = self._text()
        key = f"key{self._random.randint(1, KEYS)}"
        self._begin("supersede", key=key, items=[[word, text]])
        self._done("supersede", [self._memory.remember(text, key=key)])

    def update(self) -> None:
        if not self._live:
            return self.remember()
        word, text = self._text()
        id = self._random.choice(self._live)
        self._begin("update", id=id, items=[[word, text]])
        return self._done("update", [self._memory.update(id, text)])

    def forget(self) -> None:
        if len(self._live) < 5:
            return self.remember()
        id = self._live.pop(self._random.randrange(len(self._live)))
        self._begin("forget", id=id)
        self._memory.forget(id)
        return self._done("forget", [])


def _say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")  # one write: whole, or not at all


def _job(path: str, seed: int, verbs: int) -> None:
    try:
        work(path, seed, verbs, _say)
    except RecollectError as error:
        _say({"event": "error", "error": f"{type(error).__name__}: {error}"})


def main(argv: list[str]) -> int:
    """With arguments: do one job. Without: be the nursery, one job a line of standard input."""
    if argv:
        _job(argv[0], int(argv[1]), int(argv[2]))
        return 0
    with Memory.open(":memory:") as memory:  # every module and the embedder's pages are in memory from here on
        memory.remember("Warming up the nursery.")
        memory.ingest([{"role": "user", "content": "My name is Nursery."}], session="warm")
        memory.recall("warm")
        memory.upkeep.reembed()
    _say({"event": "ready"})
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            _say({"event": "start", "pid": os.getpid()})
            _job(job["path"], job["seed"], job["verbs"])
            os._exit(0)
        os.waitpid(child, 0)
        _say({"event": "gone"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
