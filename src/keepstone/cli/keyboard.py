"""Read single keys and lines from a terminal."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any

from keepstone.cli.output import printable

try:
    import termios
    import tty
except ImportError:  # not on every system: lines are read instead of keys
    termios = tty = None  # type: ignore[assignment]

_ESCAPE = b"\x1b"
_MAX_ESCAPE_BYTES = 64  # of an arrow or function key
_ESCAPE_SECONDS = 0.02  # in which the rest of such a key arrives


class Keyboard:
    """Reads keys without Return and without echo while it is entered. Keys typed ahead are kept."""

    def __init__(self) -> None:
        self._stream = sys.stdin.fileno()
        self._before: Any = None

    def __enter__(self) -> Keyboard:
        if termios is not None:
            self._before = termios.tcgetattr(self._stream)
            self._single()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lines()

    def key(self) -> str:
        """The next key; "" if the terminal is closed, the escape character for an arrow or function key. Ctrl-C raises
        KeyboardInterrupt."""
        if termios is None:
            return sys.stdin.readline()[:1]
        self._single()  # again: the process may have been in the background
        try:
            return self._read()
        except OSError:
            return ""

    def line(self, prompt: str, *, before: str = "") -> str:
        """A line of text; "" for an empty one, Ctrl-C or Ctrl-D. Arrow up recalls `before` if it is a single line."""
        with suppress(ImportError):  # not on every system
            import readline

            if before and "\n" not in before and printable(before) == before:
                readline.add_history(before)
        self._lines()
        try:
            return input(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return ""
        except UnicodeDecodeError:
            return ""
        finally:
            self._single()

    def _single(self) -> None:
        if termios is not None:
            tty.setcbreak(self._stream, termios.TCSADRAIN)

    def _lines(self) -> None:
        if self._before is not None:
            termios.tcsetattr(self._stream, termios.TCSADRAIN, self._before)

    def _read(self) -> str:
        found = os.read(self._stream, 1)
        if found == _ESCAPE:
            if select.select([self._stream], [], [], _ESCAPE_SECONDS)[0]:
                os.read(self._stream, _MAX_ESCAPE_BYTES)
            return "\x1b"
        for _ in range(3 if found >= b"\xf0" else 2 if found >= b"\xe0" else 1 if found >= b"\xc2" else 0):
            found += os.read(self._stream, 1)
        return found.decode("utf-8", "replace")
