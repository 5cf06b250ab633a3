"""A memory with engines beside its store: an index of vectors, a buffer in Redis; with each of them away too."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError
from keepstone.ports.caches import Entry
from keepstone.types import Scope
from tests.server_processes import RedisServer
from tests.vector_sync.exact_index import ExactIndex

FACTS = [
    "Dana prefers dark mode in every editor.",
    "The boiler in the cellar was serviced in March.",
    "Marek keeps bees behind the greenhouse.",
    "The spare key lies under the third flower pot.",
    "Aiko plays the cello on Sundays.",
]


def filled(memory: Memory) -> None:
    for fact in FACTS:
        assert memory.remember(fact).action == "added"


class TestIndex:
    def test_recall_finds_the_same_with_an_index_as_without(self, path: Path, tmp_path: Path) -> None:
        questions = ["which theme does Dana like?", "who has bees?", "where is the key?", "what instrument is played on Sundays?"]
        with Memory.open(path, user="dana") as memory:
            filled(memory)
            plain = [memory.recall(each, limit=1)[0].content for each in questions]
        with Memory.open(path, user="dana", index=f"chroma:{tmp_path / 'vectors'}") as memory:
            indexed = [memory.recall(each, limit=1) for each in questions]
            assert [each[0].content for each in indexed] == plain
            assert [each.notes for each in indexed] == [()] * len(questions)
            assert memory.upkeep.doctor().healthy

    def test_what_is_forgotten_is_gone_from_the_index_when_the_receipt_comes(self, path: Path) -> None:
        index = ExactIndex()
        with Memory.open(path, user="dana", index=index) as memory:
            filled(memory)
            memory.recall("bees")
            held = dict(index.vector_hashes(memory.scope))
            assert len(held) == len(FACTS)
            id = memory.recall("who has bees?", limit=1)[0].id
            receipt = memory.forget(id)
            assert receipt.erased
            assert len(dict(index.vector_hashes(memory.scope))) == len(FACTS) - 1

    def test_an_index_that_is_away_costs_a_note_and_nothing_else(self, path: Path) -> None:
        index = ExactIndex()
        with Memory.open(path, user="dana", index=index) as memory:
            filled(memory)
            index.fail()
            assert memory.remember("Rosa repaired the violin.").action == "added"
            found = memory.recall("who repaired the violin?")
            assert found[0].content == "Rosa repaired the violin."
            assert any("searched in the store instead" in note for note in found.notes)
            diagnosis = memory.upkeep.doctor()
            assert not diagnosis.healthy
            assert [finding.check for finding in diagnosis.findings] == ["index"]
            receipt = memory.forget(found[0].id)
            assert receipt.forgotten == 1
            assert not receipt.erased
            assert "index" in receipt.reasons[-1]
            index.well()
            memory.upkeep.repair_index()
            assert memory.upkeep.doctor().healthy

    def test_drift_is_found_and_mended_by_the_command_line(self, path: Path, tmp_path: Path) -> None:
        where = tmp_path / "vectors"
        spec = f"chroma:{where}"
        with Memory.open(path, user="dana", index=spec) as memory:
            filled(memory)
            memory.recall("bees")

        def run(*words: str) -> tuple[int, dict[str, object]]:
            done = subprocess.run(
                [sys.executable, "-m", "keepstone", "--db", str(path), *words, "--json"],
                capture_output=True, text=True, env={"KEEPSTONE_INDEX": spec, "PATH": "/usr/bin:/bin"}, check=False,
            )  # fmt: skip
            return done.returncode, json.loads(done.stdout or done.stderr)

        assert run("doctor")[1]["healthy"] is True
        shutil.rmtree(where)
        code, report = run("doctor")
        assert code != 0
        assert "index" in json.dumps(report)
        assert run("index", "rebuild") == (0, {"entries": len(FACTS)})
        assert run("doctor")[1]["healthy"] is True
        assert run("index", "repair") == (0, {"put": 0, "dropped": 0})

    def test_without_an_index_there_is_nothing_to_mend(self, memory: Memory) -> None:
        with pytest.raises(ConfigurationError, match="open it with index="):
            memory.upkeep.rebuild_index()

    @pytest.mark.parametrize("spec", ["weaviate:x", "chroma:", 7])
    def test_a_spec_that_names_no_index_is_refused(self, path: Path, spec: object) -> None:
        with pytest.raises(ConfigurationError, match="chroma"):
            Memory.open(path, index=spec)


class TestBuffer:
    @pytest.fixture
    def redis(self, tmp_path: Path) -> Iterator[RedisServer]:
        with RedisServer(tmp_path / "redis") as server:
            yield server

    def test_two_memories_share_a_conversation_through_redis(self, path: Path, redis: RedisServer) -> None:
        with Memory.open(path, user="dana", buffer=redis.url) as one, Memory.open(path, user="dana", buffer=redis.url) as other:
            for number in range(6):
                (one, other)[number % 2].conversation("s").add("user", f"turn {number}")
                for each in (one, other):
                    assert [m.content for m in each.conversation("s").last(10)] == [f"turn {n}" for n in range(number + 1)]

    def test_redis_may_go_and_come_back(self, path: Path, redis: RedisServer) -> None:
        with Memory.open(path, user="dana", buffer=redis.url) as memory:
            conversation = memory.conversation("s")
            conversation.add("user", "before")
            assert [m.content for m in conversation.last(10)] == ["before"]
            redis.kill()
            conversation.add("user", "meanwhile")
            assert [m.content for m in conversation.last(10)] == ["before", "meanwhile"]
            findings = memory.upkeep.doctor().findings
            assert [finding.check for finding in findings] == ["buffer"]
            redis.start()
            conversation.add("user", "after")
            assert [m.content for m in conversation.last(10)] == ["before", "meanwhile", "after"]

    def test_the_environment_may_name_it(self, path: Path, redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KEEPSTONE_BUFFER", redis.url)
        with Memory.open(path) as memory:
            assert memory._engine._buffer is not None
            assert "redis" in memory._engine._buffer.name

    def test_a_url_of_something_else_is_refused(self, path: Path) -> None:
        with pytest.raises(ConfigurationError, match="redis://"):
            Memory.open(path, buffer="memcached://localhost")


def test_all_of_them_at_once(postgres_server: object, redis_server: RedisServer, tmp_path: Path) -> None:
    url = postgres_server.database("beside")  # type: ignore[attr-defined]
    spec = f"chroma:{tmp_path / 'vectors'}"
    with Memory.open(url, tenant="acme", user="dana", buffer=redis_server.url, index=spec) as memory:
        filled(memory)
        memory.conversation("s").add("user", "I moved to Porto last week.")
        assert memory.recall("which theme does Dana like?", limit=1)[0].content == FACTS[0]
        assert memory.conversation("s").last(1)[0].content == "I moved to Porto last week."
        assert memory.upkeep.doctor().healthy
        assert memory.forget(everything=True).forgotten
        assert memory.recall("bees").hits == ()
        assert memory.upkeep.doctor().healthy
    with Memory.open(url, tenant="acme", user="dana") as memory:
        assert len(memory.list()) == 0


def test_an_index_that_is_a_moment_behind_is_not_ill(path: Path) -> None:
    held = threading.Event()

    class Slow(ExactIndex):
        def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
            assert held.wait(60)
            super().put(scope, entries)

    with Memory.open(path, index=Slow()) as memory:
        memory.remember("Dana prefers dark mode in every editor.")
        threading.Timer(0.3, held.set).start()  # the doctor is asked before the index has been fed
        assert memory.upkeep.doctor().findings == ()
