"""Puts KeepstoneMemory in the place of AutoGen's ListMemory while its own suite runs: everything counts as relevant, as there."""

from __future__ import annotations

from typing import Any

import autogen_core.memory

from keepstone import Memory
from keepstone.integrations.autogen import KeepstoneMemory


def fresh(name: str | None = None, **given: Any) -> KeepstoneMemory:
    assert not given, given
    return KeepstoneMemory(Memory.open(":memory:"), name=name or "keepstone", limit=100, min_similarity=0)


autogen_core.memory.ListMemory = fresh  # type: ignore[assignment,misc]
