"""Other processes for the fault tests: a Memory that lives in one, and scripts to be run in one."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from keepstone import KeepstoneError, Memory


def until(reached: Callable[[], bool], what: str = "it") -> None:
    """Wait until something has come true."""
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline, f"{what} did not come true within 30 seconds"
        time.sleep(0.01)


def environment() -> dict[str, str]:
    """The environment of a child that imports what this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}


def start(*command: str, **options: Any) -> subprocess.Popen[str]:
    """A Python process with pipes; `command` is what follows `python`."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    return subprocess.Popen([sys.executable, *command], **{**pipes, **options})


def run(code: str, *arguments: str | Path, **options: Any) -> Any:
    """Run a script in a process of its own; what its last line of output says, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, env=environment(), timeout=120, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class Remote:
    """A Memory in another process; verbs are called by name and give plain values."""

    def __init__(self, path: Path) -> None:
        self._process = start("-m", "tests.faults.support", str(path))
        self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process has gone"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def __call__(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, args, kwargs]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def contents(self, query: str) -> list[str]:
        """What a recall finds."""
        return [hit["record"]["content"] for hit in self("recall", query)["hits"]]

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def plain(value: Any) -> Any:
    """A result as JSON can carry it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def healthy(path: Path) -> bool:
    """Whether the doctor finds nothing wrong with a file, seen by a process that has not touched it yet."""
    with Memory.open(path, embedder="none") as memory:
        diagnosis = memory.upkeep.doctor()
    assert not diagnosis.findings, diagnosis.findings
    return diagnosis.healthy


def everything(memory: Memory) -> list[Any]:
    """Every record that list shows, newest first."""
    records, cursor = [], None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        records += page
        if page.cursor is None:
            return records
        cursor = page.cursor


def _serve(path: str) -> None:
    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer, default=str), flush=True)

    with Memory.open(path) as memory:
        say({"value": None})
        for line in sys.stdin:
            verb, args, kwargs = json.loads(line)
            try:
                say({"value": plain(getattr(memory, verb)(*args, **kwargs))})
            except KeepstoneError as error:
                say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    _serve(sys.argv[1])
