"""The process that `bench torture` kills: it writes to one store and says over a pipe what it did.

Every line is one JSON object. `open` comes when the store is open, `begin` before each verb and `done` after the verb has
returned: what is `done` is acknowledged and must survive; the one verb that was begun and not done may have happened as
a whole or not at all. `main` is the nursery: it has everything imported and forks a child for each job, so that a kill
costs milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

from bench.verbs import Tell, Writer
from keepstone import KeepstoneError, Memory


def work(target: str, seed: int, verbs: int, tell: Tell, chosen: str | None = None, before: int = 0) -> None:
    """Open a store and do random verbs until killed, or until there were enough; after some of them the chosen one."""
    with Memory.open(target) as memory:
        tell({"event": "open", "id": memory._engine.store.id})
        Writer(memory, random.Random(seed), tell).run(verbs, chosen, before)
    tell({"event": "end"})


def _say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")  # one write: whole, or not at all


def _job(target: str, seed: int, verbs: int, chosen: str | None = None, before: int = 0) -> None:
    try:
        work(target, seed, verbs, _say, chosen, before)
    except KeepstoneError as error:
        _say({"event": "error", "error": f"{type(error).__name__}: {error}"})


def main(argv: list[str]) -> int:
    """With arguments: do one job. Without: be the nursery, one job a line of standard input."""
    if argv:
        _job(argv[0], int(argv[1]), int(argv[2]), *([argv[3], int(argv[4])] if argv[3:] else []))
        return 0
    with Memory.open(":memory:") as memory:  # every module and the embedder's pages are in memory from here on
        memory.remember("Warming up the nursery.")
        memory.ingest([{"role": "user", "content": "My name is Nursery."}], session="warm")
        memory.recall("warm")
        memory.upkeep.reembed()
        Writer(memory, random.Random(1), lambda line: None).each_once()
    _say({"event": "ready"})
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            _say({"event": "start", "pid": os.getpid()})
            _job(job["path"], job["seed"], job["verbs"], job.get("chosen"), job.get("before", 0))
            os._exit(0)
        os.waitpid(child, 0)
        _say({"event": "gone"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
