"""The demo that `make run` shows: session 1 really dies by SIGKILL, session 2 really recalls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
    command = [sys.executable, str(ROOT / "examples" / "two_sessions.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_the_second_session_knows_what_the_killed_one_learned(tmp_path: Path) -> None:
    store = tmp_path / "kept.db"
    done = demo("--db", str(store))
    assert done.returncode == 0, done.stderr
    before, killed, after = done.stdout.partition("✗ kill -9")
    assert killed
    assert "ended by SIGKILL" in after
    assert {line.split()[0] for line in before.splitlines() if " m_" in line} == {"added", "duplicate", "merged", "superseded"}
    answers = after[after.index("Session 2") :]
    for expected in (
        "The user's name is Dana Reyes.",
        "Dana is allergic to peanuts.",
        "none of the 5 memories is about this",
        "dana.account = KX-20417-883",
        "1. Dana lives in Lisbon.",
        "2. Dana lives in Porto.",
        "</memory>",
        "recall took",
        str(store),
    ):
        assert expected in answers
    assert answers.index("as of") < answers.index("Dana lives in Lisbon.")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert store.exists()


def test_a_temporary_folder_is_taken_away(tmp_path: Path) -> None:
    done = demo()
    assert done.returncode == 0, done.stderr
    folder = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("  file"))
    assert not Path(folder).parent.exists()
