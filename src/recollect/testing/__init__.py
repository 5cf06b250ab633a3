"""Contracts that adapters pass, ours and third parties'. Needs `pytest` and `hypothesis`. Imports: ports and below.

A store written elsewhere is tested in a few lines:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            store = MyStore(tmp_path / "memory")
            yield store
            store.close()

    TestMyStoreAtRandom = store_machine(lambda name: MyStore(folder / name)).TestCase
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from recollect.testing.embedders import EmbedderContract as EmbedderContract
    from recollect.testing.machine import store_machine as store_machine
    from recollect.testing.stores import StoreContract as StoreContract

__all__ = ["EmbedderContract", "StoreContract", "store_machine"]

_HOMES = {
    "EmbedderContract": "recollect.testing.embedders",
    "StoreContract": "recollect.testing.stores",
    "store_machine": "recollect.testing.machine",
}

# Before any of them is imported: without it a failing contract says "AssertionError" and no values.
pytest.register_assert_rewrite(*_HOMES.values(), "recollect.testing.builders")


def __getattr__(name: str) -> Any:
    """Import a contract when it is asked for, so that a user of one does not load what another needs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
