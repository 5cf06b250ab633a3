"""What the tests of the command line share: a result, a process with a clean environment, and a memory to begin with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Result:
    """What one run of the command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        assert self.out == ""
        return json.loads(self.err)["error"]  # type: ignore[no-any-return]


Cli = Callable[..., Result]


def surroundings(**given: str) -> dict[str, str]:
    """The environment of a process: nothing of keepstone's or about colours but what is given."""
    theirs = ("KEEPSTONE_", "NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **given}


def process(*arguments: str, cwd: Path, piped: bytes | None = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `python -m keepstone` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "keepstone", *arguments],
        cwd=cwd, input=piped, capture_output=True, timeout=60, check=False,
        env=surroundings(**environment),
    )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def remembered(cli: Cli, *arguments: str) -> str:
    receipt = cli("remember", *arguments, "--json").json
    assert receipt["action"] == "added"
    return str(receipt["id"])
