"""What many tests share: a path for a store, and a memory on it.

Hypothesis tries the same examples in every run, so that a run says something about the change and not about its luck;
HYPOTHESIS_PROFILE=explore looks for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from recollect import Memory

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be."""
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    """An open memory on a new store."""
    with Memory.open(path) as opened:
        yield opened
