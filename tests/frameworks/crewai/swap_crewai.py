"""Puts KeepstoneStorage in the place of CrewAI's LanceDB storage while its suite runs, by name and by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crewai.memory.storage.lancedb_storage as theirs
from crewai.memory.storage.factory import set_memory_storage_factory

from keepstone import Memory
from keepstone.integrations.crewai import KeepstoneStorage


class FreshStorage(KeepstoneStorage):
    def __init__(self, path: str | Path | None = None, **given: Any) -> None:
        self.target = Path(str(path) + ".db") if path else ":memory:"
        super().__init__(Memory.open(self.target))


theirs.LanceDBStorage = FreshStorage
set_memory_storage_factory(FreshStorage)
