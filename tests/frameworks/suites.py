"""Frameworks' own suites, run with ours in the place of theirs: a process of pytest on their files, and what became of each test.
No test lives here."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def suite(package: str) -> Path:
    """The unpacked source of the version of a package that is installed here."""
    folder = os.environ.get("KEEPSTONE_SUITES")
    if not folder:
        pytest.fail("KEEPSTONE_SUITES names no folder with source packages: run 'make frameworks'.")
    found = Path(folder) / f"{package.replace('-', '_')}-{version(package)}"
    assert found.is_dir(), f"there is no source of {package} {version(package)} in {folder}: run 'make frameworks'"
    return found


def run(
    package: str, files: Sequence[str], swap: str, left_out: Mapping[str, str], folder: Path, *options: str
) -> dict[str, str]:
    """What became of each test by its name (passed, failed, skipped); those in `left_out` (name: reason) are not run, and have to
    be there."""
    source = suite(package)
    report = folder / "report.xml"
    inside = [option for name in left_out for option in ("--deselect", name)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", swap, "-p", "no:cacheprovider", f"--junitxml={report}",
               f"--basetemp={folder / 'temp'}", *inside, *options, *files]  # fmt: skip
    here = Path(__file__).parent / os.environ.get("KEEPSTONE_FRAMEWORKS", "")  # a suite with a package "tests" hides ours
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), str(here)])}
    ran = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=540)
    assert report.exists(), ran.stdout[-4000:] + ran.stderr[-4000:]
    if ran.returncode != 0:
        pytest.fail(f"{package}'s own suite:\n{ran.stdout[-8000:]}")
    deselected = ran.stdout.rpartition(" deselected")[0].rpartition(" ")[2].strip(", ") if " deselected" in ran.stdout else "0"
    assert int(deselected) >= len(left_out), f"some of {sorted(left_out)} are not in the suite any more"
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = "skipped" if case.find("skipped") is not None else "passed"
        found[f"{case.get('classname')}.{case.get('name')}"] = outcome
    return found
