"""Limits of writes: by scope, by source, by interval; shared by all processes on a file and kept over a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Scope
from keepstone.errors import ConfigurationError
from keepstone.types import Message, Receipt
from tests.faults.support import start
from tests.surfaces.support import FACTS, Clock, timed

WRITER = """
import json, sys
from datetime import UTC, datetime
from keepstone import Memory, Scope
from keepstone.open import open_engine
words = "tea boat cello tram stamp".split()
engine = open_engine(
    sys.argv[1], embedder="none", settings={"writes_per_minute": 7}, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC)
)
print("ready", flush=True)
sys.stdin.readline()
with Memory(engine, Scope()) as memory:
    receipts = [memory.remember(f"{sys.argv[2]} has one {word}.") for word in words]
print(json.dumps([[receipt.action, receipt.retry_after] for receipt in receipts]))
"""


def actions(receipts: list[Receipt]) -> list[str]:
    return [receipt.action for receipt in receipts]


def limited(path: Path, clock: Clock, scope: Scope = Scope(), **settings: Any) -> Memory:
    return timed(path, clock, scope, embedder="none", settings=settings)


def write(memory: Memory, count: int, start: int = 0, **options: Any) -> list[str]:
    return actions([memory.remember(FACTS[at], **options) for at in range(start, start + count)])


# -- by scope -------------------------------------------------------------------------------------------------------------
def test_a_scope_has_so_many_writes_a_minute(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, writes_per_minute=3) as memory:
        assert write(memory, 4) == ["added"] * 3 + ["refused"]
        receipt = memory.remember(FACTS[10])
        assert (receipt.action, receipt.id) == ("refused", None)
        assert receipt.retry_after == pytest.approx(20.0)
        assert receipt.reasons[0].endswith("try again in 20.0 seconds")
        clock.forward(seconds=19)
        assert memory.remember(FACTS[10]).retry_after == pytest.approx(1.0)
        clock.forward(seconds=1)
        assert memory.remember(FACTS[10]).action == "added"
        clock.forward(minutes=10)
        assert write(memory, 5, 20) == ["added"] * 3 + ["refused"] * 2
        assert len(memory.list(limit=100)) == 7


def test_another_scope_has_its_own(path: Path) -> None:
    with limited(path, Clock(), Scope(user="ada"), writes_per_minute=1) as ada:
        eve, other = ada.with_scope(user="eve"), ada.with_scope(tenant="other")
        assert [write(memory, 2) for memory in (ada, eve, other)] == [["added", "refused"]] * 3


def test_without_a_limit_there_is_none(path: Path) -> None:
    with limited(path, Clock()) as memory:
        assert write(memory, 200) == ["added"] * 200


def test_messages_values_updates_and_batches_count(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, writes_per_minute=4) as memory:
        said = memory.ingest([Message("user", "Hello."), Message("assistant", "Hello you.")], session="s")
        assert actions(said) == ["added", "added"]
        id = memory.remember(FACTS[0]).id or ""
        assert memory.update(id, FACTS[1]).action == "updated"
        for receipt in (
            memory.conversation("s").add("user", "Are you there?"),
            memory.set("theme", "dark"),
            memory.update(id, FACTS[2]),
            memory.learn("I live in Oslo."),
            *memory.remember_many(FACTS[3:5]),
        ):
            assert receipt.action == "refused"
            assert receipt.retry_after == pytest.approx(15.0)
        assert len(memory.conversation("s")) == 2
        clock.forward(minutes=1)
        assert actions(memory.remember_many(FACTS[10:16])) == ["added"] * 4 + ["refused"] * 2


def test_what_is_refused_or_said_already_takes_nothing(path: Path) -> None:
    with limited(path, Clock(), writes_per_minute=2, sensitive={"card": "refuse"}) as memory:
        assert memory.remember(FACTS[0], idempotency_key="once").action == "added"
        for _ in range(5):
            assert memory.remember(FACTS[0]).action == "duplicate"
            assert memory.remember("her card is 4111 1111 1111 1111").action == "refused"
        assert memory.remember(FACTS[1]).action == "added"
        assert memory.remember(FACTS[2]).action == "refused"
        assert memory.remember(FACTS[0], idempotency_key="once").action == "added"  # the same receipt again


def test_a_write_that_a_limit_refused_can_be_tried_again_under_its_idempotency_key(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, writes_per_minute=1) as memory:
        write(memory, 1)
        assert memory.remember(FACTS[5], idempotency_key="once").action == "refused"
        clock.forward(minutes=1)
        assert memory.remember(FACTS[5], idempotency_key="once").action == "added"


def test_a_refusal_is_in_the_trail(path: Path) -> None:
    with limited(path, Clock(), writes_per_minute=1) as memory:
        write(memory, 2, source="agent")
        row = memory.audit()[0]
        assert (row.verb, row.action, row.id, row.source) == ("remember", "refused", None, "agent")
        assert memory.audit.verify().whole


def test_facts_that_follow_from_a_message_are_not_counted(path: Path) -> None:
    with limited(path, Clock(), writes_per_minute=1) as memory:
        receipt = memory.conversation("s").add("user", "My name is Dana and I live in Oslo.")
        assert receipt.action == "added"
        assert len(receipt.learned) == 2


# -- by source, by interval -----------------------------------------------------------------------------------------------
def test_a_source_and_a_class_of_sources(path: Path) -> None:
    with limited(path, Clock(), source_writes_per_minute={"web": 2, "web:https://noisy.example": 1}) as memory:
        assert write(memory, 2, source="web:https://noisy.example") == ["added", "refused"]
        assert write(memory, 2, 10, source="web:https://calm.example") == ["added", "refused"]
        receipt = memory.remember(FACTS[20], source="web")
        assert receipt.action == "refused"
        assert receipt.retry_after == pytest.approx(30.0)
        assert receipt.reasons[0].startswith("at most 2 writes from web a minute")
        assert write(memory, 5, 30) == ["added"] * 5


def test_the_strictest_limit_says_how_long(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, writes_per_minute=60, source_writes_per_minute={"web": 1}, write_interval=2.0) as memory:
        assert memory.remember(FACTS[0], source="web").action == "added"
        assert memory.remember(FACTS[1], source="web").retry_after == pytest.approx(60.0)
        assert memory.remember(FACTS[1]).retry_after == pytest.approx(2.0)
        clock.forward(seconds=2)
        assert memory.remember(FACTS[1]).action == "added"


def test_an_interval_between_two_writes(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, write_interval=5.0) as memory:
        assert write(memory, 2) == ["added", "refused"]
        clock.forward(seconds=4)
        assert memory.remember(FACTS[1]).retry_after == pytest.approx(1.0)
        clock.forward(seconds=1)
        assert write(memory, 2, 1) == ["added", "refused"]


def test_a_clock_that_steps_back_locks_nobody_out(path: Path) -> None:
    clock = Clock()
    clock.forward(days=3650)
    with limited(path, clock, writes_per_minute=1, write_interval=30.0) as memory:
        write(memory, 1)
        clock.forward(days=-3650)
        assert memory.remember(FACTS[1]).action == "added", "what a clock from the future has counted says nothing"
        assert memory.remember(FACTS[2]).retry_after == pytest.approx(60.0)


# -- tools ----------------------------------------------------------------------------------------------------------------
def test_the_memory_tools_have_a_limit_of_their_own(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, tool_writes_per_minute=2) as memory:
        answers = [memory.call_tool("write_memory", {"content": fact}) for fact in FACTS[0:90:30]]
        assert [answer["action"] for answer in answers] == ["added", "added", "refused"]
        assert answers[2]["retry_after_seconds"] == 30
        assert answers[2]["id"] is None
        updated = memory.call_tool("update_memory", {"id": answers[0]["id"], "content": FACTS[100]})
        assert updated["action"] == "refused"
        assert memory.remember(FACTS[200]).action == "added"
        clock.forward(seconds=30)
        assert memory.call_tool("update_memory", {"id": answers[0]["id"], "content": FACTS[100]})["action"] == "updated"


# -- processes and restarts -----------------------------------------------------------------------------------------------
def test_a_bucket_outlives_a_restart(path: Path) -> None:
    clock = Clock()
    with limited(path, clock, writes_per_minute=2, write_interval=1.0) as memory:
        write(memory, 1)
    with limited(path, clock, writes_per_minute=2, write_interval=1.0) as memory:
        assert memory.remember(FACTS[1]).retry_after == pytest.approx(1.0)
        clock.forward(seconds=1)
        assert memory.remember(FACTS[1]).action == "added"
    clock.forward(seconds=1)
    with limited(path, clock, writes_per_minute=2, write_interval=1.0) as memory:
        assert memory.remember(FACTS[2]).retry_after == pytest.approx(28.0)


def test_processes_on_one_file_share_a_bucket(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        processes = [start("-c", WRITER, str(path), name) for name in ("Ada", "Eve", "Omar")]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        receipts = [receipt for process in processes for receipt in json.loads(process.communicate(timeout=60)[0])]
        assert [action for action, _ in receipts].count("added") == 7
        assert [after for action, after in receipts if action == "refused"] == [pytest.approx(60 / 7)] * 8
        assert len(memory.list(limit=100)) == 7


# -- settings -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "settings",
    [
        {"writes_per_minute": -1},
        {"writes_per_minute": 1.5},
        {"write_interval": -1},
        {"tool_writes_per_minute": 0},
        {"source_writes_per_minute": {"web": -1}},
        {"source_writes_per_minute": "web"},
        {"source_writes_per_minute": {"web": True}},
    ],
)
def test_a_limit_that_makes_no_sense_is_told(path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"setting {next(iter(settings))} is"):
        Memory.open(path, embedder="none", settings=settings)


def test_a_limit_from_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_SOURCE_WRITES_PER_MINUTE", "web=1,tool=2")
    with limited(path, Clock()) as memory:
        assert write(memory, 2, source="web") == ["added", "refused"]
        assert write(memory, 3, 10, source="tool") == ["added", "added", "refused"]
