"""How long a new process takes, and how much memory."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import progress

_START = """
import json, sys, time
begun = time.perf_counter()
from keepstone import Memory
imported = time.perf_counter()
memory = Memory.open(sys.argv[1])
opened = time.perf_counter()
hits = memory.recall(sys.argv[2])
recalled = time.perf_counter()
memory.close()
print(json.dumps({"import_ms": (imported - begun) * 1e3, "open_ms": (opened - imported) * 1e3,
    "first_recall_ms": (recalled - opened) * 1e3, "close_ms": (time.perf_counter() - recalled) * 1e3, "hits": len(hits)}))
"""
_RESIDENT = """
import json, sys
import psutil
from keepstone import Memory
def resident():
    return psutil.Process().memory_info().rss / 1e6
memory = Memory.open(sys.argv[1])
memory.with_scope(user="nobody").recall("warm the embedder")
opened = resident()
for number in range(50):
    memory.recall(f"{sys.argv[2]} {number}")
print(json.dumps({"opened_mb": round(opened, 1), "scope_loaded_mb": round(resident(), 1),
    "index_mb": round(memory._engine.cache.nbytes() / 1e6, 1)}))
"""


def measure(path: Path, question: str, rounds: int = 7) -> dict[str, Any]:
    """Every figure about starting, with a store that is there."""
    progress(f"cold start with {path.name}")
    parts = [_run("-c", _START, str(path), question) for _ in range(rounds)]
    found = {name: _middle([each[name] for _, each in parts]) for name in ("import_ms", "open_ms", "first_recall_ms", "close_ms")}
    found["process_ms"] = _middle([wall for wall, _ in parts])
    found["bare_python_ms"] = _middle([_run("-c", "print('{}')")[0] for _ in range(rounds)])
    found["import_alone_ms"] = _middle([_run("-c", "import keepstone; print('{}')")[0] for _ in range(rounds)])
    if importlib.util.find_spec("keepstone.__main__") is not None:
        found |= _cli(path, question, rounds)
    return found


def _cli(path: Path, question: str, rounds: int) -> dict[str, Any]:
    """Wall and processor time of the command, bytecode compiled before as pip does."""
    walls, cpus = [], []
    for _ in range(rounds):
        begun, used = time.perf_counter(), _cpu_of_children()
        command = [sys.executable, "-m", "keepstone", "recall", question, "--db", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, env=_environment(), check=False)
        walls.append((time.perf_counter() - begun) * 1e3)
        cpus.append((_cpu_of_children() - used) * 1e3)
        if done.returncode:
            return {"cli_recall_ms": f"failed: {done.stderr.decode()[-200:]}"}
    return {"cli_recall_ms": _middle(walls), "cli_recall_cpu_ms": _middle(cpus)}


def _cpu_of_children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def resident(path: Path, question: str) -> dict[str, Any]:
    """Megabytes a process holds before and after it has loaded the scope."""
    progress(f"resident memory with {path.name}")
    return _run("-c", _RESIDENT, str(path), question)[1]


def _run(*command: str) -> tuple[float, dict[str, Any]]:
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=_environment(), check=True)
    return (time.perf_counter() - begun) * 1e3, json.loads(done.stdout.splitlines()[-1])


def _environment() -> dict[str, str]:
    compiled = Path(tempfile.gettempdir()) / "keepstone-bench-bytecode"  # an installed package has its bytecode
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**plain, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONPYCACHEPREFIX": str(compiled)}


def _middle(values: list[float]) -> float:
    return round(statistics.median(values), 1)
