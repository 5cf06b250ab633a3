"""What the tests of LangGraph's store share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from keepstone import Memory
from keepstone.integrations.langgraph import KeepstoneStore
from keepstone.types import Record


@pytest.fixture(name="store")
def store_(memory: Memory) -> KeepstoneStore:
    """LangGraph's store on a memory of its own."""
    return KeepstoneStore(memory)


def until(holds: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def record_of(memory: Memory) -> Record:
    return next(iter(memory.list(kind="langgraph")))


def letters(texts: list[str]) -> list[list[float]]:
    """Vectors of how often each letter stands in a text."""
    return [[float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
