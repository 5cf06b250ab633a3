"""Single keys and lines of a terminal."""

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
except ImportError:  # not on every system: lines are read instead
    termios = tty = None  # type: ignore[assignment]

_ESCAPE = b"\x1b"
_LONG = 64  # bytes of what an arrow or another odd key sends, at the most
_REST = 0.02  # seconds in which the rest of such a key comes


class Keyboard:
    """The keys of a terminal, without Return and without being shown, while it is entered. What is typed ahead waits its turn."""

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
        """The next key; "" where the terminal is gone, and the escape character for a key that is none. Ctrl-C raises
        KeyboardInterrupt."""
        if termios is None:
            return sys.stdin.readline()[:1]
        self._single()  # again, for it may have been sent to the background meanwhile
        try:
            return self._read()
        except OSError:
            return ""

    def line(self, prompt: str, *, before: str = "") -> str:
        """A line of text; "" for an empty one, Ctrl-C or Ctrl-D. Arrow up brings what was there before, if it is one line."""
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
            if select.select([self._stream], [], [], _REST)[0]:
                os.read(self._stream, _LONG)
            return "\x1b"
        for _ in range(3 if found >= b"\xf0" else 2 if found >= b"\xe0" else 1 if found >= b"\xc2" else 0):
            found += os.read(self._stream, 1)
        return found.decode("utf-8", "replace")
