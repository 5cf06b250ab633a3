"""What the tests of the library and of the command line share: a store with many facts in it, an export with everything in
it, and the command line run in this process."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.cli import main
from tests.cli.support import Cli, Result
from tests.surfaces.support import FACTS, everything, fill, timed


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three hundred varied facts; only read by the tests that use it."""
    with Memory.open(tmp_path_factory.mktemp("full") / "memory.db") as memory:
        for at in range(0, len(FACTS), 100):
            memory.remember_many([{"content": fact, "tag": "people"} for fact in FACTS[at : at + 100]])
        assert len(everything(memory)) == 300
        yield memory


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An export with everything in it."""
    clock = fill(tmp_path / "source.db")
    with timed(tmp_path / "source.db", clock) as memory:
        assert memory.export(tmp_path / "export.jsonl") == 9
    return tmp_path / "export.jsonl"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process, in an empty folder, with nothing piped in unless `piped` is given."""
    monkeypatch.chdir(tmp_path)
    for name in ("DB", "TENANT", "AGENT", "USER", "EMBEDDER", "MODEL", "DEBUG"):
        monkeypatch.delenv(f"KEEPSTONE_{name}", raising=False)

    def run(*arguments: str, piped: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="utf-8"))
        capsys.readouterr()
        code = main(list(arguments))
        seen = capsys.readouterr()
        return Result(code, seen.out, seen.err)

    return run
