"""Jobs and states when things go wrong: workers that are killed, many that claim at once, bytes that must be gone."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keepstone.ports.queue import EVERY_SESSION, JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, NOON, add_id, wording
from tests.faults.support import healthy, start
from tests.faults.test_erasure import Secrets

KIND, HOUR = "learn", timedelta(hours=1)
WORKERS, JOBS = 4, 60


def opened(path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> SqliteStore:
    store = SqliteStore.open(str(path), clock=clock)
    store.bind_embedder(EMBEDDER, DIMENSION)
    return store


def heard(child: subprocess.Popen[str]) -> str:
    """The next line a child says."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def killed(child: subprocess.Popen[str]) -> str:
    """kill -9; the unread output of the child."""
    child.kill()
    rest = child.communicate(timeout=60)[0]
    assert child.returncode == -signal.SIGKILL
    return rest


# -- a worker that vanishes -----------------------------------------------------------------------------------------
CLAIMER = """
import json, sys
from datetime import timedelta
from keepstone.stores.sqlite.store import SqliteStore
store = SqliteStore.open(sys.argv[1])
job = store.jobs.claim(["learn"], timedelta(hours=1))
print(json.dumps([job.number, job.attempts, list(job.ids)]), flush=True)
sys.stdin.readline()
"""


def test_the_job_of_a_killed_worker_is_free_after_its_lease(path: Path) -> None:
    late = timedelta(0)
    store = opened(path, lambda: datetime.now(UTC) + late)
    try:
        ids = ["m_1", "m_2"]
        store.jobs.add(HOME, JobDraft(KIND, "s", NOON), ids)
        child = start("-c", CLAIMER, str(path))
        number, attempts, held = json.loads(heard(child))
        assert (attempts, held) == (1, ids)
        killed(child)
        (job,) = store.jobs.list(state="running")
        assert (job.number, job.ids) == (number, tuple(ids))
        late = timedelta(minutes=30)
        assert store.jobs.claim([KIND], HOUR, early=True) is None
        due = store.jobs.next_due([KIND])
        assert due is not None
        assert due > store._clock()
        late = timedelta(minutes=61)
        again = store.jobs.claim([KIND], HOUR)
        assert again is not None
        assert (again.number, again.attempts, again.ids) == (number, 2, tuple(ids))
        store.jobs.finish(job)  # as the first worker would have, had it only been slow
        assert store.jobs.list() == [again]
        store.jobs.finish(again)
        assert store.jobs.list() == []
    finally:
        store.close()
    assert healthy(path)


# -- several workers at once ----------------------------------------------------------------------------------------
WORKER = """
import json, sys
from datetime import timedelta
from keepstone.stores.sqlite.store import SqliteStore
store = SqliteStore.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
claimed = []
while (job := store.jobs.claim(["learn"], timedelta(hours=1))) is not None:
    claimed.append([job.number, job.attempts])
    if job.number % 2:
        store.jobs.finish(job)
print(json.dumps(claimed))
store.close()
"""


def test_four_processes_claim_each_job_exactly_once(path: Path) -> None:
    store = opened(path)
    try:
        for number in range(JOBS):
            store.jobs.add(HOME, JobDraft(KIND, f"session {number}", NOON), [f"m_{number}"])
        numbers = [job.number for job in store.jobs.list()]
        children = [start("-c", WORKER, str(path)) for _ in range(WORKERS)]
        assert [heard(child) for child in children] == ["ready"] * WORKERS
        for child in children:
            tell(child)
        outputs = [child.communicate(timeout=120)[0] for child in children]
        assert [child.returncode for child in children] == [0] * WORKERS
        claimed = [tuple(each) for output in outputs for each in json.loads(output)]
        assert sorted(claimed) == [(number, 1) for number in numbers]
        assert [job.number for job in store.jobs.list()] == [number for number in numbers if not number % 2]
    finally:
        store.close()
    assert healthy(path)


# -- messages and their jobs ----------------------------------------------------------------------------------------
WRITER = """
import os, signal, sys
import keepstone.stores.common.store as module
from keepstone.ports.queue import JobDraft
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.ports.stores import Write
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, NOON, draft
path, name, instant = sys.argv[1:]
store = SqliteStore.open(path)
store.bind_embedder(EMBEDDER, DIMENSION)
queue, calls = module.queue_written, 0

def die_around(db, at, job, receipts):
    global calls
    calls += 1
    if calls == 3 and instant == "before the job":
        os.kill(os.getpid(), signal.SIGKILL)
    queue(db, at, job, receipts)
    if calls == 3 and instant == "after the job":
        os.kill(os.getpid(), signal.SIGKILL)

module.queue_written = die_around
number = 0
while True:
    said = [Write(draft(f"{name} {number} {turn}", kind="message", session="s")) for turn in range(3)]
    print(*[receipt.id for receipt in store.write(HOME, said, JobDraft("learn", "s", NOON, max_messages=7))], flush=True)
    number += 1
"""


def check_together(store: Store, acknowledged: list[str]) -> None:
    """Every message has its job and every job its messages, three by three, and nothing acknowledged is missing."""
    said = [record.id for _, record in store.message_log.page(HOME, "s", limit=100_000)]
    jobs = [job.ids for job in store.jobs.list(limit=100_000)]
    assert [id for ids in jobs for id in ids] == said
    assert len(said) % 3 == 0
    assert all(len(ids) == 7 for ids in jobs[:-1])
    assert set(acknowledged) <= set(said)


@pytest.mark.parametrize("instant", ["before the job", "after the job"])
def test_a_kill_between_messages_and_their_job_leaves_neither(path: Path, instant: str) -> None:
    child = start("-c", WRITER, str(path), "turn", instant)
    lines = child.communicate(timeout=60)[0].splitlines()
    assert child.returncode == -signal.SIGKILL
    assert len(lines) == 2
    store = opened(path)
    try:
        check_together(store, " ".join(lines).split())
        assert store.message_log.count(HOME, "s") == 6
    finally:
        store.close()
    assert healthy(path)


def test_a_kill_at_any_instant_leaves_messages_with_their_jobs(path: Path) -> None:
    chance = random.Random(5)
    acknowledged: list[str] = []
    for number in range(8):
        child = start("-c", WRITER, str(path), f"run {number}", "none")
        for _ in range(chance.randrange(1, 12)):
            acknowledged += heard(child).split()
        whole, _, _ = killed(child).rpartition("\n")
        acknowledged += whole.split()
        store = opened(path)
        try:
            check_together(store, acknowledged)
        finally:
            store.close()
    assert len(acknowledged) >= 24
    assert healthy(path)


# -- what a state said ----------------------------------------------------------------------------------------------
def _put(store: Store, chance: random.Random, name: str, session: str | None, secrets: Secrets) -> list[str]:
    """Write a state a few times over, in many sizes; the secret words it has held."""
    held = []
    for _ in range(chance.choice((1, 2, 5))):
        words = [secrets.word() for _ in range(3)]
        padding = "Padding. " * chance.choice((0, 3, 60, 500, 6000))
        store.states.put(HOME, name, f"They said {words[0]}. {padding}{words[1]} {padding}{words[2]}", session=session)
        held += words
    return held


@pytest.mark.parametrize("by", ["id", "session", "source", "everything"])
def test_no_byte_of_a_forgotten_state_is_left(path: Path, by: str) -> None:
    secrets, chance = Secrets(3), random.Random(by)
    store = opened(path)
    try:
        ids = {name: add_id(store, f"hello {name}", kind="message", session=name, source=f"t:{name}") for name in "abcdef"}
        for turn in range(3):  # their pages grow, split and are joined again
            held = {name: _put(store, chance, f"summary {name} {turn}", name, secrets) for name in "abcdef"}
            held["*"] = _put(store, chance, f"summary {turn}", EVERY_SESSION, secrets)
            kept = _put(store, chance, f"notes {turn}", None, secrets)[-3:]
            assert Secrets.traces(path, kept)  # the search does find what is there
            match by:
                case "id":
                    receipts = [store.forget(HOME, Selector(id=ids[name])) for name in "ab"]
                case "session":
                    receipts = [store.forget(HOME, Selector(session=name, kind="message")) for name in "ab"]
                case "source":
                    receipts = [store.forget(HOME, Selector(source=f"t:{name}")) for name in "ab"]
                case _:
                    receipts = [store.forget(HOME, Selector(everything=True))]
            assert all(receipt.erased for receipt in receipts)
            gone = [*held["a"], *held["b"], *held["*"]]
            assert Secrets.traces(path, gone) == []
            assert store.states.get(HOME, f"summary a {turn}") is store.states.get(HOME, f"summary {turn}") is None
            assert (store.states.get(HOME, f"notes {turn}") is None) == (by == "everything")
            for name in "ab" if by != "everything" else "abcdef":
                ids[name] = add_id(store, f"hello {name}", kind="message", session=name, source=f"t:{name}")
    finally:
        store.close()
    assert Secrets.traces(path, gone) == []
    assert healthy(path)


def test_no_byte_of_a_state_is_left_when_its_message_was_reworded_before(path: Path) -> None:
    secrets = Secrets(4)
    store = opened(path)
    try:
        id = add_id(store, "hello", kind="message", session="s")
        words = _put(store, random.Random(1), "summary", "s", secrets)
        store.revise(HOME, id, wording("goodbye"))
        assert store.states.get(HOME, "summary") is None
        assert store.forget(HOME, Selector(id=id)).erased
        assert Secrets.traces(path, words) == []
    finally:
        store.close()
    assert healthy(path)
