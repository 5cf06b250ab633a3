"""The watch over the suite's output finds what is planted, and lets everything else pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security import planted

ROOT = Path(__file__).parents[2]
_SUITE = """
import logging, os, sys
from tests.security import planted

KEY = "ks_" + "0123abcd" + "_" + "x" * 43

def test_quiet():
    print("ks_0123abcd", "ks_…", planted.CONTENT[:-1])

def test_prints(): print("so", planted.CONTENT)
def test_logs(): logging.getLogger("keepstone.server").warning("it is %s", planted.PASSWORD)
def test_key(): print(KEY, file=sys.stderr)
def test_process(): os.system("echo " + planted.CARD)
"""


@pytest.mark.parametrize("more", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["alone", "with a worker"])
def test_what_is_planted_fails_the_test_that_says_it(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "test_saying.py").write_text(_SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    ran = subprocess.run(
        [*command, "-p", "tests.security.plugin", *more, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, timeout=200,
    )  # fmt: skip
    summary = [line for line in ran.stdout.splitlines() if line.startswith("ERROR ")]
    said = " ".join(sorted(line.partition("::")[2].partition(" ")[0] for line in summary))
    assert said == "test_key test_logs test_prints test_process", ran.stdout + ran.stderr
    assert "5 passed" in ran.stdout
    assert "a card after" in ran.stdout


def test_what_is_found_is_not_repeated() -> None:
    key = "ks_" + "0123abcd" + "_" + "y" * 43
    found = planted.leaks(f"one {planted.CONTENT} two {key} three {planted.CARD}")
    assert len(found) == 3
    assert planted.leaks(" ".join(found)) == []


def test_planted_values_stand_in_no_file_of_the_project() -> None:
    for folder in ("src", "tests", "docs", "bench", "examples"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".md", ".json", ".toml", ".sql", ".html"):
                assert planted.leaks(path.read_text(encoding="utf-8", errors="replace")) == [], path
