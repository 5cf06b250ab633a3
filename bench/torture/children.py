"""Processes to be killed, and the lines that they say over a pipe."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


class Lines:
    """JSON lines from a pipe, with a deadline."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def next(self, deadline: float | None = None) -> dict[str, Any] | None:
        """The next line; None when the deadline comes first or the pipe is closed."""
        while b"\n" not in self._rest:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._descriptor], [], [], wait)[0]:
                return None
            block = os.read(self._descriptor, 65536)
            if not block:
                return None
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


class ForkServer:
    """A warm process that forks the children to be killed."""

    def __init__(self) -> None:
        self._litter = tempfile.TemporaryDirectory(prefix="keepstone-nursery-")  # a killed child cleans up nothing
        self.environment = {**environment(), "TMPDIR": self._litter.name}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment
        )
        assert self._process.stdout is not None
        self.lines = Lines(self._process.stdout.fileno())
        if (self.lines.next() or {}).get("event") != "ready":
            raise RuntimeError("the torture worker did not start: run 'python -m bench.worker' to see why.")

    def start(self, target: str | Path, seed: int, verbs: int, chosen: str | None = None, before: int = 0) -> int:
        """Fork a child; its process id. It does so many random verbs, after some of them the chosen one."""
        assert self._process.stdin is not None
        job = {"path": str(target), "seed": seed, "verbs": verbs, "chosen": chosen, "before": before}
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        line = self.lines.next()
        if line is None or line["event"] != "start":
            raise RuntimeError(f"the torture worker said {line} where a start was expected.")
        return int(line["pid"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._litter.cleanup()


def environment() -> dict[str, str]:
    """A child's environment: the same import path, one thread for matrix products (it is forked)."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
