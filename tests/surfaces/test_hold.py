"""The approval gate: what is held is not recalled, listed or shown to a model until a person approves it, on every surface."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Client, Memory
from keepstone.errors import ConfigurationError
from tests.cli.support import Cli
from tests.server.running import running
from tests.surfaces.support import contents

HELD = "it is held until a person approves it in the review list"
SOURCES = ("user", "import:x", "agent:tool", "tool", "web", "rumour")
TEA, PORTO = "Dana drinks rooibos.", "Dana lives in Porto."


def seen(memory: Memory) -> list[str]:
    """Everything of a memory that a reader or a model can come upon."""
    listed = [*contents(memory.list()), *contents(memory.recall("What does Dana drink?", min_similarity=0.0))]
    shown = (str(memory.context("What does Dana drink?")), memory.system_prompt("Dana"), str(memory.entities()))
    return [*listed, *shown, str(memory.value("drink"))]


@pytest.mark.parametrize(
    ("hold", "held"),
    [("none", ()), ("agents", SOURCES[2:]), ("all", SOURCES)],
)
def test_whose_writes_wait(hold: str, held: tuple[str, ...]) -> None:
    with Memory.open(":memory:", settings={"hold": hold}) as memory:
        waits = []
        for source in SOURCES:
            receipt = memory.remember(f"Dana drinks tea, says {source}.", source=source)
            if receipt.action == "quarantined":
                waits.append(source)
                assert HELD in receipt.reasons
        assert tuple(waits) == held
        assert all(
            receipt.action == "added" for receipt in memory.ingest([{"role": "user", "content": "Hi there."}], session="s")
        )


def test_held_memories_are_nowhere_until_they_are_approved() -> None:
    with Memory.open(":memory:", settings={"hold": "agents"}) as memory:
        memory.remember(PORTO)
        tea = memory.remember(TEA, source="agent")
        value = memory.remember("rooibos", key="drink", source="agent")
        assert not any("rooibos" in text for text in seen(memory))
        assert memory.remember(TEA, source="agent").id == tea.id, "the same text is held once"
        receipts = memory.review.resolve_many([item.number for item in memory.review], "keep")
        assert [receipt.id for receipt in receipts] == [tea.id, value.id]
        assert all(
            "rooibos" in text for text in (contents(memory.list())[1], str(memory.context("rooibos")), memory.value("drink"))
        )
        again = memory.remember(TEA, source="agent")
        assert (again.action, again.id, HELD in again.reasons) == ("duplicate", tea.id, False)


def test_an_agent_cannot_reword_what_was_approved() -> None:
    with Memory.open(":memory:", settings={"hold": "agents"}) as memory:
        id = memory.remember(PORTO).id or ""
        answer = memory.call_tool("update_memory", {"id": id, "content": "Dana lives in Rome."})
        assert answer["action"] == "refused"
        assert contents(memory.list()) == [PORTO]
        assert memory.update(id, "Dana lives in Lisbon.").action == "updated", "a person's change is an approval"


def test_what_compaction_makes_of_approved_memories_is_not_held() -> None:
    with Memory.open(":memory:", settings={"hold": "all"}) as memory:
        for city in ("Porto", "Rome", "Oslo", "Bern"):
            memory.remember(f"Dana drank tea with Ben in {city} on Monday.")
        memory.review.resolve_many([item.number for item in memory.review], "keep")
        report = memory.upkeep.compact(older_than=0)
        assert (report.after < report.before, len(memory.review)) == (True, 0)


def test_one_that_changed_meanwhile_does_not_stop_the_others() -> None:
    with Memory.open(":memory:", settings={"hold": "all"}) as memory:
        gone, kept = memory.remember(TEA).id or "", memory.remember(PORTO).id
        numbers = [item.number for item in memory.review]
        memory.forget(gone)
        assert [receipt.action for receipt in memory.review.resolve_many(numbers, "retire")] == ["refused", "updated"]
        assert [entry.record.id for entry in memory.upkeep.archived()] == [kept]


def test_over_http_and_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "keepstone.db", user="alice", settings={"hold": "all"}) as memory, running(memory) as server:
        with Client(server.url, server.key()) as client:
            receipts = [client.remember(text) for text in (TEA, PORTO)]
            assert [receipt.action for receipt in receipts] == ["quarantined"] * 2
            assert (list(client.recall("Dana")), list(client.list())) == ([], [])
            numbers = [item.number for item in client.review]
            assert [receipt.action for receipt in client.review.resolve_many(numbers[:1], "keep")] == ["updated"]
            assert contents(client.list()) == [TEA]
        agent = server.http(server.key(agent="bot"))
        assert agent.post("/v1/review", json={"numbers": numbers[1:], "decision": "keep"}).status_code == 403
    assert "0 left open" in cli("review", "approve", "--all", "--user", "alice").out
    assert cli("review", "reject", "--user", "alice").code == 2
    assert len(cli("list", "--user", "alice", "--json").json["records"]) == 2


def test_an_unknown_value_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the setting hold is 'some': use none, agents, all"):
        Memory.open(":memory:", settings={"hold": "some"})
