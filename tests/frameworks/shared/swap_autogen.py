"""Puts RecollectMemory in the place of AutoGen's ListMemory while its own suite runs: everything counts as relevant, as there."""

from __future__ import annotations

from typing import Any

import autogen_core.memory

from recollect import Memory
from recollect.integrations.autogen import RecollectMemory


def fresh(name: str | None = None, **given: Any) -> RecollectMemory:
    assert not given, given
    return RecollectMemory(Memory.open(":memory:"), name=name or "recollect", limit=100, min_similarity=0)


autogen_core.memory.ListMemory = fresh  # type: ignore[assignment,misc]
