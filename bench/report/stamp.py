"""What a result says of itself: the machine, the versions, the commit, the day."""

from __future__ import annotations

import platform
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import keepstone

_ROOT = Path(__file__).parents[2]


def result_head(name: str, argv: Sequence[str]) -> dict[str, Any]:
    """The head of a result: which benchmark it is of, on what it was measured, and the command that gives it."""
    from bench.speed import machine  # late: what it imports may want a stamp too

    command = command_line(name, argv)
    return {"bench": name, "machine": machine(), "command": command}


def command_line(name: str, argv: Sequence[str]) -> str:
    """The command that gives a result."""
    return " ".join(["python -m bench", name, *(shlex.quote(each) for each in argv if each != "--json")])


def about() -> dict[str, Any]:
    """Which keepstone it was, when, and on what."""
    return {
        "keepstone": keepstone.__version__, "commit": commit(), "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu(), "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }  # fmt: skip


def commit(root: Path = _ROOT) -> str:
    """The commit that was measured, with a plus behind it where files differ from it; "unknown" outside a checkout."""
    head = _git(root, "rev-parse", "--short=10", "HEAD")
    if not head:
        return "unknown"
    return f"{head}+" if _git(root, "status", "--porcelain", "--", "src", "bench") else head


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
