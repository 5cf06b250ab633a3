"""The parent process: one child process for each memory, and whose turn it is."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.measure import Times
from bench.peers.environments import ROOT, Environment

# Switch off telemetry and downloads of the libraries.
NO_TELEMETRY = {
    "ANONYMIZED_TELEMETRY": "False", "MEM0_TELEMETRY": "False", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false",
    "POSTHOG_DISABLED": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
    "ORT_DISABLE_TELEMETRY": "1", "OTEL_SDK_DISABLED": "true", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
PAUSE = 0.4  # threads of a matrix product spin up to a third of a second after it, and would slow the next one


class PeerFailed(RuntimeError):
    """A memory answers with an error, or its process has ended; the message says which."""


class Child:
    """A memory in a process of its own. Usable as a context; leaving it closes the store and ends the process."""

    def __init__(self, environment: Environment, log: Path | None = None) -> None:
        self.name = environment.name
        self._log = log.open("ab") if log else None
        self._process = subprocess.Popen(
            [environment.python, "-m", f"bench.peers.use_{environment.name}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log or subprocess.DEVNULL, text=True, encoding="utf-8",
            cwd=ROOT, env=variables(),
        )  # fmt: skip

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises PeerFailed when the memory raises or is gone.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerFailed(f"{self.name}: its process ended (exit {self._process.wait()}) at {do!r}.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerFailed(f"{self.name}: {do!r} fails with {answer['error']}")
        return answer

    def close(self) -> None:
        """Close the store and end the process."""
        try:
            if self._process.poll() is None:
                self.ask("close")
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process, whatever it does."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._log:
            self._log.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._process.kill()
            self.kill()


def variables() -> dict[str, str]:
    """A child's environment: no telemetry, and only its own folder on its path."""
    vectors_file = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")}
    return {**vectors_file, **NO_TELEMETRY}


@dataclass(slots=True)
class Tally:
    """The times of one memory's calls, and how often the right text was found."""

    times: Times = field(default_factory=Times)
    correct: int = 0
    count: int = 0

    def take(self, answer: Mapping[str, Any]) -> None:
        self.times.wall.extend(answer["wall"])
        self.times.cpu.extend(answer["cpu"])

    @property
    def seconds(self) -> float:
        return sum(self.times.wall)


def turns(names: list[str], total: int, block: int) -> Iterator[tuple[str, slice]]:
    """The memory whose turn it is and its part of the work; a pause precedes each turn."""
    for at in range(0, total, block):
        for name in names:
            time.sleep(PAUSE)
            yield name, slice(at, min(at + block, total))
