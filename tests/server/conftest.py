"""What the tests of the server share: one on an empty memory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone import Memory
from tests.server.running import Running, running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A server on an empty store."""
    with Memory.open(tmp_path / "memory.db") as memory, running(memory) as made:
        yield made
