"""The pytest plugin in projects of its own: pytest as a process that finds memtest files and has the fixture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.support import ROOT, surroundings

SUITE = """
version: 1
memory: {user: dana}
given:
  - remember: "Dana prefers dark mode."
    id: theme
tests:
  - name: theme
    ask: "Which theme does Dana like?"
    must_recall: [dark mode]
  - name: wrong theme
    ask: "Which theme does Dana like?"
    must_recall: [light mode]
  - name: apart
    isolation: true
"""


def run(folder: Path, *arguments: str, autoload: bool = False) -> tuple[int, str]:
    """pytest in a folder, with this plugin and no other unless all that are installed are loaded: its exit code and what it
    printed."""
    own = f"--basetemp={folder}-base"  # the shared one is cleaned of other sessions' files at the end
    command = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", own]
    alone = {} if autoload else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "keepstone.memtest.plugin"}
    imports = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder / "site")])}
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env=surroundings(PY_COLORS="0", **imports, **alone),
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_each_test_of_a_file_is_one_of_pytests(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "memtest.yaml").write_text(SUITE)
    (tmp_path / "tests" / "memtest86.yaml").write_text("of another program: [")
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert True\n")
    code, said = run(tmp_path, "-v", "--junitxml", "out.xml")
    assert code == 1
    assert "tests/memtest.yaml::theme PASSED" in said
    assert "tests/memtest.yaml::wrong theme FAILED" in said
    assert "tests/memtest.yaml::apart PASSED" in said
    assert "1 failed, 3 passed" in said
    assert "must_recall: 'light mode': not among the 1 recalled\n    no memory in this scope is like that" in said
    assert "recalled:\n    1  Dana prefers dark mode.  (m_" in said
    assert "\nmemtest.yaml:11: wrong theme\n" in said
    assert "Traceback" not in said
    assert "staging.py" not in said
    cases = {case.attrib["name"]: list(case) for case in ElementTree.parse(tmp_path / "out.xml").getroot().iter("testcase")}
    assert [each.tag for each in cases["wrong theme"]] == ["failure"]
    assert cases["theme"] == cases["apart"] == []


def test_one_test_by_its_id_and_several_workers(tmp_path: Path) -> None:
    (tmp_path / "memtest.yaml").write_text(SUITE)
    code, said = run(tmp_path, "memtest.yaml::theme")
    assert (code, "1 passed" in said) == (0, True)
    code, said = run(tmp_path, "-p", "xdist.plugin", "-n", "2")
    assert (code, "1 failed, 2 passed" in said) == (1, True)


def test_a_file_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "memtest.yaml").write_text(SUITE.replace("must_recall: [light mode]", "must_recal: [light mode]"))
    code, said = run(tmp_path)
    assert code == 2
    assert "memtest.yaml:13: tests[1].must_recal is not known: did you mean must_recall?" in said
    assert "Traceback" not in said


def test_a_memory_that_cannot_be_opened_is_an_error_of_every_test(tmp_path: Path) -> None:
    (tmp_path / "memtest.yaml").write_text(SUITE.replace("{user: dana}", "{store: missing.db}"))
    code, said = run(tmp_path)
    assert code == 1
    assert "3 errors" in said
    assert "ConfigurationError: there is no store at" in said
    assert "staging.py" not in said
    assert not (tmp_path / "missing.db").exists()


def test_a_fresh_memory_for_each_test_and_assertions_that_explain_themselves(tmp_path: Path) -> None:
    (tmp_path / "test_agent.py").write_text(
        """
from keepstone.testing import assert_isolated, assert_not_recalled, assert_recalls, assert_within_budget

def test_theme(keepstone_memory):
    keepstone_memory.remember("Dana prefers dark mode.")
    assert_recalls(keepstone_memory, "Which theme does Dana like?", "dark mode", within=1)
    assert_not_recalled(keepstone_memory, "Which theme does Dana like?", "light mode")
    assert_isolated(keepstone_memory, keepstone_memory.with_scope(user="bob"), "Which theme does Dana like?")
    assert_within_budget(keepstone_memory, "Which theme does Dana like?", 100, "dark mode")

def test_nothing_is_left_of_it(keepstone_memory):
    assert_not_recalled(keepstone_memory, "Which theme does Dana like?")

def test_fails(keepstone_memory):
    keepstone_memory.remember("Dana prefers dark mode.")
    assert_recalls(keepstone_memory, "How do submarines dive?", "dark mode")
"""
    )
    code, said = run(tmp_path)
    assert (code, "1 failed, 2 passed" in said) == (1, True), said
    assert "AssertionError: 'dark mode' is not among the first 5 recalled" in said
    assert "would do: Dana prefers dark mode." in said
    assert "min_similarity=0" in said
    assert "asserts.py" not in said


def test_a_project_that_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "import json, pathlib, sys\n"
        "def test_own():\n"
        "    ours = {name for name in sys.modules if name.partition('.')[0] in ('keepstone', 'numpy', 'apsw', 'yaml')}\n"
        "    pathlib.Path('loaded.json').write_text(json.dumps(sorted(ours)))\n"
    )
    code, said = run(tmp_path)
    assert (code, "1 passed" in said) == (0, True), said
    assert json.loads((tmp_path / "loaded.json").read_text()) == ["keepstone", "keepstone.memtest", "keepstone.memtest.plugin"]


def test_it_is_there_where_keepstone_is_installed_and_can_be_left_out(tmp_path: Path) -> None:
    installed = tmp_path / "site" / "plugged-1.dist-info"  # what an installer writes down; keepstone here may be older than it
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nkeepstone = keepstone.memtest.plugin\n")
    (tmp_path / "memtest.yaml").write_text(SUITE)
    code, said = run(tmp_path, autoload=True)
    assert (code, "1 failed, 2 passed" in said) == (1, True), said
    assert run(tmp_path, "-p", "no:keepstone", autoload=True)[0] == 5  # nothing was collected
