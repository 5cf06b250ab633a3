"""What the tests of the command line share: a result, a process with a clean environment, and a memory to begin with."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


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


def accept_interrupts() -> None:
    """For `preexec_fn`: undo an ignored SIGINT, which a child inherits from a runner that was started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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


class Terminal:
    """A command on a terminal of its own, so that Ctrl-C and Ctrl-D are keys."""

    def __init__(self, cwd: Path, *arguments: str, columns: int = 80, **environment: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        name = os.ttyname(self._theirs)  # the first terminal that a session leader opens controls the session
        command = ["sh", "-c", f'exec "$@" <{name} >{name} 2>&1', "sh", sys.executable, "-m", "keepstone", *arguments]
        self.process = subprocess.Popen(
            command, cwd=cwd, start_new_session=True, stdin=subprocess.DEVNULL, preexec_fn=accept_interrupts,
            env=surroundings(**{"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment}),
        )  # fmt: skip
        self.raw = ""
        self._read = 0

    def until(self, text: str, interrupt: bool = False) -> str:
        """Read the output up to and including `text`. With `interrupt`, Ctrl-C is pressed, and again every three seconds:
        readline misses a signal that comes just before it waits for a key."""
        end, pressed = time.monotonic() + 60, 0.0
        while True:
            plain = STYLES.sub("", self.raw)
            at = plain.find(text, self._read)
            if at >= 0:
                seen, self._read = plain[self._read : at + len(text)], at + len(text)
                return seen
            if interrupt and time.monotonic() - pressed > 3:
                self.type("\x03")
                pressed = time.monotonic()
            ready, _, _ = select.select([self._ours], [], [], 0.5)
            gone = not ready and self.process.poll() is not None
            assert time.monotonic() < end, f"waited for {text!r}, saw {plain[self._read :]!r}"
            assert not gone, f"ended with {self.process.poll()} before {text!r}, saw {plain[self._read :]!r}"
            self.raw += os.read(self._ours, 65_536).decode() if ready else ""

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def say(self, line: str) -> None:
        self.type(line + "\r")

    def leave(self) -> int:
        self.type("\x04")
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(60)
        assert "Traceback" not in self.raw
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)
