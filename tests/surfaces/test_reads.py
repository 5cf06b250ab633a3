"""What is shown counts as read, whichever way it was shown; a preference in every prompt never ages out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.server.mcp import resources
from keepstone.server.mcp.caller import McpCaller
from tests.agent.support import STRATEGIES
from tests.surfaces.support import Clock, timed

FACT = "Dana prefers dark mode."

WAYS: dict[str, Callable[[Memory], Any]] = {
    "recall": lambda memory: memory.recall("Which theme does Dana prefer?"),
    "tool with a query": lambda memory: memory.call_tool("recall_memory", {"query": "Which theme does Dana prefer?"}),
    "tool by tag": lambda memory: memory.call_tool("recall_memory", {"tag": "preference"}),
    "tool without a query": lambda memory: memory.call_tool("recall_memory", {}),
    "value by key": lambda memory: memory.value("ui.theme"),
    "value by tag": lambda memory: memory.value(tag="preference"),
    "context": lambda memory: memory.context("Which theme does Dana prefer?"),
    "system prompt": lambda memory: memory.system_prompt("Which theme does Dana prefer?"),
    "MCP profile": lambda memory: resources.read_resource(McpCaller.over_stdio(memory, allow_forget=False), resources.PROFILE),
    "task": lambda memory: MemoryAgent(memory, lambda prompt: "Done.").run("Order a chair."),
    **{
        f"agent, {strategy}": lambda memory, strategy=strategy: MemoryAgent(memory, lambda _: "Yes.", strategy=strategy).chat(
            "Hi"
        )
        for strategy in STRATEGIES
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_shown_counts_as_read(path: Path, way: str) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        id = memory.remember(FACT, tag="preference", key="ui.theme").id or ""
        memory.get(id)
        memory.list()
        shown_at = clock.forward(days=1)
        WAYS[way](memory)
        record = memory.get(id)
        assert record is not None
        assert (record.access_count, record.last_accessed_at) == (1, shown_at)
    with timed(path, clock) as memory:  # it was written, not only counted in the process
        stored = memory.get(id)
        assert stored is not None
        assert stored.last_accessed_at == shown_at


def test_a_message_in_the_prompt_counts_as_read(path: Path) -> None:
    with Memory.open(path, settings={"extract": False}) as memory:
        said = memory.ingest([{"role": "user", "content": FACT}], session="monday")[0].id or ""
        MemoryAgent(memory, lambda prompt: "Yes.", strategy="buffer").chat("Hi", session="tuesday")
        counts = {record.content: record.access_count for record in memory.list(kind="message")}
        assert (counts[FACT], counts["Hi"]) == (1, 0)
        assert memory.get(said).last_accessed_at is not None  # type: ignore[union-attr]


def test_a_preference_shown_in_every_request_never_ages_out(path: Path) -> None:
    clock = Clock()
    shown, hidden = "", ""
    for month in range(15):
        with timed(path, clock) as memory:
            if not month:
                shown = memory.remember(FACT, tag="preference").id or ""
                hidden = memory.remember("The old printer jams on Mondays.", tag="office").id or ""
            MemoryAgent(memory, lambda prompt: "Hello.", boot=("preference",)).chat("Good morning", session=f"{month}")
            assert shown not in memory.upkeep.age(older_than=timedelta(days=90)).ids
            clock.forward(days=30)
    with timed(path, clock) as memory:
        archived = {entry.record.id for entry in memory.upkeep.archived()}
        assert hidden in archived
        assert shown not in archived
