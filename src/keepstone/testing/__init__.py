"""Contracts that adapters pass, ours and third parties', and assertions on what a memory recalls. Needs `pytest`.

A store written elsewhere is tested in a few lines:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            store = MyStore(tmp_path / "memory")
            yield store
            store.close()

And what an agent remembers in one:

    def test_theme(keepstone_memory):
        keepstone_memory.remember("Dana prefers dark mode.")
        assert_recalls(keepstone_memory, "Which theme does Dana like?", "dark mode", within=3)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keepstone.memtest.checks import assert_isolated as assert_isolated
    from keepstone.memtest.checks import assert_not_recalled as assert_not_recalled
    from keepstone.memtest.checks import assert_recalls as assert_recalls
    from keepstone.memtest.checks import assert_within_budget as assert_within_budget
    from keepstone.testing.buffers import BufferContract as BufferContract
    from keepstone.testing.embedders import EmbedderContract as EmbedderContract
    from keepstone.testing.indexes import IndexContract as IndexContract
    from keepstone.testing.stores import StoreContract as StoreContract

__all__ = [
    "BufferContract",
    "EmbedderContract",
    "IndexContract",
    "StoreContract",
    "assert_isolated",
    "assert_not_recalled",
    "assert_recalls",
    "assert_within_budget",
]

_HOMES = {
    "BufferContract": "keepstone.testing.buffers",
    "EmbedderContract": "keepstone.testing.embedders",
    "IndexContract": "keepstone.testing.indexes",
    "StoreContract": "keepstone.testing.stores",
    **dict.fromkeys(
        ("assert_isolated", "assert_not_recalled", "assert_recalls", "assert_within_budget"), "keepstone.memtest.checks"
    ),
}

# Before any of them is imported: without it a failing contract says "AssertionError" and no values.
_contracts = {home for home in _HOMES.values() if home.startswith("keepstone.testing.")}
pytest.register_assert_rewrite(*_contracts, "keepstone.testing.builders")


def __getattr__(name: str) -> Any:
    """Import a contract when it is asked for, so that a user of one does not load what another needs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
