"""What a memory does, it does on PostgreSQL too: the tests of the other files that need no more than a memory, run there.

A test is taken when all it asks for is an open memory (and what pytest itself offers).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from keepstone import Memory
from tests.server_processes import PostgresServer
from tests.servers import emptied

MODULES = (
    "conversation", "conversation_messages", "conversation_window", "episodes", "forgetting_cascades", "forgetting_sessions",
    "learning_by_rules", "memory_import", "memory_recall", "memory_refusals", "memory_scopes", "memory_entities",
    "memory_sources", "memory_tools", "memory_values", "memory_writing", "retention", "purge_and_clocks", "review", "trust",
    "truth_over_time", "upkeep_run", "verification", "working_memory", "mixed_languages",
)  # fmt: skip
OFFERED = {"memory", "tmp_path", "monkeypatch", "capsys", "caplog"}
ERASED = {  # there a receipt says that the log still has the text
    "memory_tools.forgetting_only_where_it_is_allowed",
    "forgetting_cascades.a_session_that_is_forgotten_leaves_what_another_said_too",
}


@pytest.fixture(scope="session")
def surfaces_url(postgres_server: PostgresServer) -> str:
    return postgres_server.database("surfaces")


@pytest.fixture
def memory(surfaces_url: str) -> Iterator[Memory]:
    """An open memory on PostgreSQL, in an empty store."""
    with Memory.open(emptied(surfaces_url)) as opened:
        yield opened


def _taken(name: str, test: Any) -> bool:
    if not name.startswith("test_") or not inspect.isfunction(test):
        return False
    asked = set(inspect.signature(test).parameters)
    given = {each for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize" for each in _names(mark.args[0])}
    return "memory" in asked and asked - given <= OFFERED


def _names(given: Any) -> list[str]:
    return [each.strip() for each in given.split(",")] if isinstance(given, str) else list(given)


for _module in MODULES:
    for _name, _test in vars(import_module(f"tests.surfaces.test_{_module}")).items():
        if _taken(_name, _test) and f"{_module}.{_name.removeprefix('test_')}" not in ERASED:
            globals()[f"test_{_module}__{_name.removeprefix('test_')}"] = _test


def test_enough_of_them_were_taken() -> None:
    assert sum(name.startswith("test_") for name in globals()) > 200
