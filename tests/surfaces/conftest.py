"""What the tests of the library share: a store with many facts in it."""

from __future__ import annotations

from typing import Any

import pytest

from recollect import Memory
from tests.surfaces.support import FACTS, everything


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three hundred varied facts; only read by the tests that use it."""
    with Memory.open(tmp_path_factory.mktemp("full") / "memory.db") as memory:
        for at in range(0, len(FACTS), 100):
            memory.remember_many([{"content": fact, "tag": "people"} for fact in FACTS[at : at + 100]])
        assert len(everything(memory)) == 300
        yield memory
