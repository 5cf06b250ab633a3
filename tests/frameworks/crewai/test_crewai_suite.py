"""CrewAI's own tests of its memory, with KeepstoneStorage in the place of its LanceDB storage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.frameworks.suites import run

FILES = ["unified_memory", "memory_root_scope", "lancedb_update", "dimension_mismatch"]
LEFT_OUT = {
    "tests/memory/test_unified_memory.py::test_lancedb_list_records_exceeding_scan_cap":
        "writes 50,001 records to pass a cap of LanceDB's, which ours does not have; minutes for a store that keeps history",
}  # fmt: skip


def test_the_suite_of_crewai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    files = [f"tests/memory/test_{name}.py" for name in FILES]
    own = ("-c", os.devnull, "--rootdir", ".")  # the package has no settings of pytest's: without this ours would be found
    found = run("crewai", files, "swap_crewai", LEFT_OUT, tmp_path, *own)
    assert list(found.values()).count("passed") >= 135
    assert "skipped" not in found.values()
