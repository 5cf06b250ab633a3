"""Puts ours in the place of Strands' own while its suite runs: the session repository of its fixtures, and its store for tests.
Loaded from the folder of that suite, whose `tests` package is meant here."""

# ruff: noqa: E402 (one module has to be there before theirs are imported)

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

sys.modules.setdefault("moto", ModuleType("moto"))  # imitates AWS for tests that are not run here; their conftest asks for it

import strands.vended_memory_stores.test_memory_store as their_stores

import tests.fixtures.mock_session_repository as their_repositories
from keepstone import Memory
from keepstone.integrations.strands import KeepstoneMemoryStore, KeepstoneSessionRepository


class FreshRepository(KeepstoneSessionRepository):
    def __init__(self) -> None:
        super().__init__(Memory.open(":memory:"))


class FreshStore(KeepstoneMemoryStore):
    """Their store for tests names a file; ours is given a memory, which a path names here."""

    __test__ = False

    def __init__(self, *, path: str = ":memory:", persist: bool = True, **given: Any) -> None:
        super().__init__(Memory.open(path.replace(".json", ".db") if persist else ":memory:"), **given)


their_repositories.MockedSessionRepository = FreshRepository
their_stores.TestMemoryStore = FreshStore
