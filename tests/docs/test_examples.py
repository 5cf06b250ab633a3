"""The examples in docstrings of public names: every name and verb has one, and what they show is what they print."""

from __future__ import annotations

import asyncio
import doctest
import inspect
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import keepstone
from keepstone import AsyncClient, AsyncMemory, Client, Memory
from keepstone.agent import MemoryAgent
from keepstone.conversation.conversation import Conversation, Conversations
from keepstone.learning.jobs import ScopeJobs
from keepstone.maintenance.audit import Audit
from keepstone.maintenance.review import ReviewList
from keepstone.maintenance.upkeep import Upkeep
from keepstone.tasks.flow import Tasks
from keepstone.tasks.working_memory import WorkingMemory

VERBS_OF = (Memory, Upkeep, ReviewList, ScopeJobs, Audit, Conversation, Conversations, Tasks, MemoryAgent)
FUNCTIONS = (
    "importing.import_from", "importing.import_each", "importing.recognise", "maintenance.store_migration.move_store",
    "sync.sync", "testing.assert_recalls", "testing.assert_not_recalled", "testing.assert_isolated",
    "testing.assert_within_budget",
)  # fmt: skip


def verbs(owner: type) -> Iterator[str]:
    """The methods of a class and its bases that callers use."""
    names = dict.fromkeys(name for base in owner.__mro__[:-1] for name in vars(base))
    for name in names:
        if (not name.startswith("_") or name == "__call__") and inspect.isroutine(getattr(owner, name)):
            yield name


def documented() -> dict[str, Any]:
    """Public classes, functions and verbs, by the name that a failure shows."""
    found = {name: getattr(keepstone, name) for name in keepstone.__all__ if name != "__version__"}
    found |= {kind.__name__: kind for kind in (MemoryAgent, WorkingMemory)}
    for path in FUNCTIONS:
        module, _, name = path.rpartition(".")
        found[path] = getattr(import_module(f"keepstone.{module}"), name)
    found |= {f"{owner.__name__}.{name}": getattr(owner, name) for owner in VERBS_OF for name in verbs(owner)}
    return found


DOCUMENTED = documented()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_example_of(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = DOCUMENTED[name]
    text = inspect.getdoc(thing) or ""
    assert "\n>>> " in text or "\n    " in text, f"{name} has no example in its docstring"
    monkeypatch.chdir(tmp_path)
    Path("notes.csv").write_text("note\nDana has a dog.\nDana works for Acme.\n", encoding="utf-8")
    with Memory.open(":memory:", user="dana") as memory:
        given = {
            **vars(inspect.getmodule(thing)),
            "asyncio": asyncio,
            "timedelta": timedelta,
            "memory": memory,
            "receipt": memory.remember("Dana prefers dark mode."),
        }
        if name.startswith("Conversation"):
            given["conversation"] = conversation = memory.conversation("monday")
            conversation.add("user", "Hello.")
            conversation.add("assistant", "Good morning, Dana.")
        if name.startswith("MemoryAgent"):
            given["agent"] = MemoryAgent(memory, lambda prompt: "Noted.", strategy="buffer")
        printed: list[str] = []
        example = doctest.DocTestParser().get_doctest(text, given, name, None, None)
        doctest.DocTestRunner().run(example, out=printed.append)
        assert not printed, "".join(printed)


@pytest.mark.parametrize("kind", [AsyncMemory, Client, AsyncClient])
def test_the_other_surfaces_show_the_examples_of_memory(kind: type) -> None:
    own = {"open", "with_scope", "close"}  # documented for the surface
    for name in set(verbs(Memory)) - own:
        text = inspect.getdoc(getattr(kind, name)) or ""
        assert text.startswith(inspect.getdoc(getattr(Memory, name)) or "?"), name
        assert not text.endswith("right ."), name
