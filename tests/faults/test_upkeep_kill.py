"""kill -9 in the middle of upkeep: a job is done, or not begun, record by record, and running it again completes it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bench.torture import Lines
from recollect import Memory, Scope
from recollect.embedders.function import FunctionEmbedder
from recollect.open import open_engine
from tests.faults.support import environment
from tests.faults.test_erasure import Secrets
from tests.surfaces.support import FACTS, START, contents, everything, timed
from tests.surfaces.support import Clock as StillClock

KILLS = 10  # of each job
LATER = START + timedelta(days=400)
ALLOWED = {"settings": {"sensitive": {"card": "allow"}}}
POLICY = {"compact_days": 60, "consolidate_importance": 0.2, "cap": 20, "purge_days": 1}

# A warm interpreter that forks a child for each line: "job path". The child says "begun", does its job and says "done".
NURSERY = """
import json, os, sys
from tests.faults.test_upkeep_kill import JOBS, opened
def tell(**what):
    os.write(1, json.dumps(what).encode() + b"\\n")
tell(event="ready")
for line in sys.stdin:
    job, _, path = line.strip().partition(" ")
    child = os.fork()
    if not child:
        with opened(path) as memory:
            tell(event="begun", pid=os.getpid())
            JOBS[job](memory)
            tell(event="done")
        os._exit(0)
    os.waitpid(child, 0)
    tell(event="gone")
"""


def slow(texts: list[str]) -> list[list[float]]:
    """An embedder of eight numbers that takes its time, so that a kill lands in the midst of it."""
    time.sleep(0.0001 * len(texts))
    return [[1.0 + byte for byte in hashlib.blake2b(text.encode(), digest_size=8).digest()] for text in texts]


def other() -> FunctionEmbedder:
    return FunctionEmbedder(slow, id="slow-eight", dimension=8)


def opened(path: str | Path, **options: Any) -> Memory:
    """A memory 400 days after everything was stored."""
    return Memory(open_engine(path, clock=lambda: LATER, **{"settings": {"worker": False}, **options}), Scope())


JOBS: dict[str, Callable[[Memory], Any]] = {
    "age": lambda memory: memory.upkeep.age(),
    "consolidate": lambda memory: memory.upkeep.consolidate(),
    "cap": lambda memory: memory.upkeep.cap(50),
    "compact": lambda memory: memory.upkeep.compact(),
    "reembed": lambda memory: memory.upkeep.reembed(embedder=other()),
    "purge": lambda memory: memory.upkeep.purge(trust_clock=True),
    "forget": lambda memory: [memory.forget(session=each.name) for each in memory.sessions()],
    "fix": lambda memory: memory.upkeep.fix(),
    "run": lambda memory: memory.upkeep.run(POLICY),
}


@dataclass(slots=True)
class Ward:
    """A job, the store it is killed on, and what must hold whenever it was killed."""

    job: str
    template: Path
    seed: int
    lasted: float = 0.0
    killed: int = 0

    def kills(self, lines: Lines, process: subprocess.Popen[bytes], check: Callable[[Memory, Path], str]) -> None:
        """Let the job run once to see how long it takes, then kill it at random instants of that time."""
        assert process.stdin is not None
        chance = random.Random(self.seed)
        for number in count():
            if self.killed == KILLS:
                break
            path = self.template.with_name(f"{self.job}{number}.db")
            shutil.copyfile(self.template, path)
            process.stdin.write(f"{self.job} {path}\n".encode())
            process.stdin.flush()
            begun = lines.next()
            assert begun is not None
            assert begun["event"] == "begun"
            start = time.monotonic()
            line = lines.next(None if number == 0 else start + chance.uniform(0, self.lasted))
            if number == 0:
                assert line == {"event": "done"}, "undisturbed, the job ends"
                self.lasted = time.monotonic() - start
            elif line is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(begun["pid"], signal.SIGKILL)
                self.killed += 1
            else:
                self.lasted *= 0.8  # it was done before: earlier next time
            while line != {"event": "gone"}:
                line = lines.next()
                assert line is not None
            with Memory.open(path, embedder="none") as memory:
                diagnosis = memory.doctor()
                assert diagnosis.healthy, diagnosis.findings
                assert memory.verify_audit().whole
            with opened(path, embedder="none") as memory:
                check(memory, path)
            if self.job == "reembed" and embedded_by(path) == "slow-eight":
                continue
            with opened(path) as memory:
                JOBS[self.job](memory)
                assert memory.verify_audit().whole
            with opened(path, embedder="none") as memory:
                assert check(memory, path) == "all", "run again, the job is completed"
                assert memory.doctor().healthy


@pytest.fixture(scope="module")
def nursery() -> Iterator[tuple[Lines, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-c", NURSERY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        lines = Lines(process.stdout.fileno())
        assert lines.next() == {"event": "ready"}
        yield lines, process
        process.stdin.close()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    return tmp_path / "template.db"


def stored(path: Path, facts: list[str], **options: Any) -> None:
    """A store with these facts in it."""
    with timed(path, StillClock(), **ALLOWED) as memory:
        for at in range(0, len(facts), 100):
            memory.remember_many([{"content": fact, **options} for fact in facts[at : at + 100]])


def embedded_by(path: Path) -> str:
    with Memory.open(path, embedder="none") as memory:
        bound = memory._engine.store.embedder()
        return "" if bound is None else bound[0]


def share(part: int, whole: int) -> str:
    return "none" if not part else "all" if part == whole else "some"


# -- putting aside: one transaction -------------------------------------------------------------------------------
@pytest.mark.parametrize("job", ["age", "consolidate", "cap"])
def test_what_is_put_aside_is_all_of_it_or_nothing(job: str, template: Path, nursery: Any) -> None:
    stored(template, FACTS, importance=0.1)
    gone = 250 if job == "cap" else 300

    def check(memory: Memory, path: Path) -> str:
        aside = memory.upkeep.aside()
        assert len(aside) in (0, gone)
        assert len(everything(memory)) + len(aside) == 300
        assert len({each.ticket for each in aside}) <= 1
        assert sorted(contents(everything(memory)) + [each.record.content for each in aside]) == sorted(FACTS)
        return share(len(aside), gone)

    Ward(job, template, seed=1).kills(*nursery, check)


def test_a_compacted_group_is_aside_with_its_digest_or_active_without(template: Path, nursery: Any) -> None:
    stored(template, FACTS[:150])

    def check(memory: Memory, path: Path) -> str:
        aside = {each.record.id: each for each in memory.upkeep.aside()}
        active = everything(memory)
        digests = [record for record in active if "compacted" in record.metadata]
        originals = [id for digest in digests for id in digest.parents]
        assert sorted(originals) == sorted(aside), "what is aside has its digest, and the other way round"
        for digest in digests:
            held = [aside[id].record.content for id in digest.parents]
            assert len({aside[id].ticket for id in digest.parents}) == 1
            assert all(aside[id].why == "compacted" for id in digest.parents)
            assert all(content.split()[0] in digest.content for content in held)
        plain = [record.content for record in active if record not in digests]
        assert sorted([each.record.content for each in aside.values()] + plain) == sorted(FACTS[:150])
        left = memory.upkeep.compact(dry_run=True)
        return "all" if not left.groups else "some" if digests else "none"

    Ward("compact", template, seed=2).kills(*nursery, check)


def test_the_old_vectors_all_serve_or_the_new_ones(template: Path, nursery: Any) -> None:
    stored(template, FACTS)

    def check(memory: Memory, path: Path) -> str:
        moved = embedded_by(path) == "slow-eight"
        assert memory._engine.store.pending_count() == 0
        assert all(record.embedded for record in everything(memory))
        with opened(path, embedder=other() if moved else "auto") as served:
            for fact in FACTS[::60]:
                hit = served.recall(fact)[0]
                assert hit.content == fact
                assert hit.signals["meaning"] > 0.99, hit.signals
        return "all" if moved else "none"

    Ward("reembed", template, seed=3).kills(*nursery, check)


# -- erasing ------------------------------------------------------------------------------------------------------
def test_what_is_purged_is_gone_or_whole(template: Path, nursery: Any) -> None:
    secrets = Secrets(4)
    words = [secrets.word() for _ in range(700)]
    stored(template, [f"Item {number} is called {word}." for number, word in enumerate(words)])
    clock = StillClock(START + timedelta(days=300))
    with timed(template, clock) as memory:
        assert len(memory.upkeep.age(older_than=86_400).ids) == 700

    def check(memory: Memory, path: Path) -> str:
        aside = memory.upkeep.aside()
        for each in aside:
            assert [version.content for version in memory.history(each.record.id)] == [each.record.content]
        left = {each.record.content for each in aside}
        if not left:
            assert Secrets.traces(path, words) == []
        return share(700 - len(left), 700)

    Ward("purge", template, seed=4).kills(*nursery, check)


def test_a_forgotten_session_takes_its_facts_along_or_nothing_is_forgotten(template: Path, nursery: Any) -> None:
    secrets = Secrets(5)
    places = {f"s{number}": secrets.word() for number in range(12)}
    with timed(template, StillClock()) as memory:
        for session, place in places.items():
            talk = memory.conversation(session)
            for text in (
                f"My project {session} is called {place}.",
                f"I live in {place}.",
                "I prefer tea.",
                "We meet on Monday.",
            ):
                talk.add("user", text)
            talk.consolidate()

    def check(memory: Memory, path: Path) -> str:
        records = everything(memory)
        there = {session for session in places if any(record.session == session for record in records)}
        texts = " ".join(content for record in records for content in contents(memory.history(record.id)))
        for session, place in places.items():
            said = [record for record in records if record.session == session and record.kind == "message"]
            assert len(said) == (4 if session in there else 0), "a session is there or gone"
            assert (place in texts) is (session in there)
        for record in records:
            assert all(memory.get(parent) is not None for parent in record.parents)
        if not there:
            assert records == []
            assert Secrets.traces(path, list(places.values())) == []
        return share(len(places) - len(there), len(places))

    Ward("forget", template, seed=6).kills(*nursery, check)


def _card(number: int) -> str:
    """A card number that its last digit confirms."""
    digits = f"4111{number:011d}"
    total = sum(sum(divmod(int(each) * 2, 10)) if at % 2 == 0 else int(each) for at, each in enumerate(digits))
    return digits + str(-total % 10)


def test_what_is_redacted_is_redacted_with_all_its_past(template: Path, nursery: Any) -> None:
    cards = {f"Customer {number} pays by card": _card(number) for number in range(60)}
    with timed(template, StillClock(), **ALLOWED) as memory:
        for text, card in cards.items():
            id = memory.remember(f"{text} {card}.").id or ""
            memory.update(id, f"{text} {card}, as of late.")

    def check(memory: Memory, path: Path) -> str:
        left = 0
        records = everything(memory)
        assert len(records) == 60
        for record in records:
            card = next(card for text, card in cards.items() if record.content.startswith(f"{text} "))
            past = contents(memory.history(record.id))
            assert len(past) == 2
            assert len({card in content for content in past}) == 1, "both versions, or neither"
            left += card in past[0]
        if not left:
            assert [card for card in cards.values() if card.encode() in path.read_bytes()] == []
        return share(60 - left, 60)

    Ward("fix", template, seed=7).kills(*nursery, check)


def test_a_whole_run_that_is_cut_off_is_simply_run_again(template: Path, nursery: Any) -> None:
    stored(template, FACTS[:60], importance=0.1)
    stored(template, FACTS[60:150])
    with timed(template, StillClock()) as memory:
        memory.remember("The parking permit is 88-A.", ttl=60)
        memory.ingest([{"role": "user", "content": "I live in Lisbon."}, {"role": "user", "content": "Hello."}], session="s")
        memory.with_scope(user="dana").remember("Dana plays the cello.")

    def check(memory: Memory, path: Path) -> str:
        aside = memory.upkeep.aside()
        active = everything(memory)
        kept = [each.record.id for each in aside if each.why == "compacted"]
        digests = [each for each in [*active, *(each.record for each in aside)] if "compacted" in each.metadata]
        assert sorted(id for digest in digests for id in digest.parents) == sorted(kept)
        assert len(active) + len(aside) >= 150, "nothing is erased: it has not been aside for long"
        assert contents(everything(memory.with_scope(user="dana"))) == ["Dana plays the cello."]
        left = memory.upkeep.run(POLICY, dry_run=True).jobs
        return "all" if not left else "some" if aside else "none"

    Ward("run", template, seed=8).kills(*nursery, check)
