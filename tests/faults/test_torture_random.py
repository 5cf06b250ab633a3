"""The random walks of `bench torture` tell when store and dictionary part; the stores' own walks are in their contracts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.torture.at_random import QUICK, walk_randomly
from bench.torture.verdict import Verdict
from keepstone.stores.sqlite.store import SqliteStore


def test_a_store_that_is_well_walks_to_the_end(tmp_path: Path) -> None:
    verdict = Verdict("random", "sqlite")
    walk_randomly(verdict, lambda name: SqliteStore.open(str(tmp_path / f"{name}.db"), QUICK), 3, 1)
    assert verdict.problems == []
    assert verdict.tries >= 3


def test_a_store_that_forgets_to_forget_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget = SqliteStore.forget

    def lazily(self: SqliteStore, scope: Any, selector: Any) -> Any:
        return forget(self, scope, type(selector)(id="m_0000000000000000"))

    monkeypatch.setattr(SqliteStore, "forget", lazily)
    verdict = Verdict("random", "sqlite")
    walk_randomly(verdict, lambda name: SqliteStore.open(str(tmp_path / f"{name}.db"), QUICK), 20, 1)
    assert verdict.errors == 1
    assert "forget" in verdict.problems[0], "the way there"
