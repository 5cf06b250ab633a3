"""Terminal output: styled on a terminal, plain text elsewhere.

Memories may contain escape sequences; `printable` makes them visible in all output.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from keepstone.cli.invocation import Invocation

Part = str | tuple[str, str]  # text, or text and a rich style
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Text without control characters, which could steer the terminal or hide text; line breaks and tabs stay.

    >>> printable("\\x1b[31mred")
    '\\\\x1b[31mred'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def coloured(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows styles, and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


class Output:
    """Lines for people on one stream. On a terminal they are wrapped between words, so that ids stay whole."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console: Console | None = None
        if coloured(stream):
            from rich.console import Console

            self._console = Console(file=stream, highlight=False, markup=False, emoji=False, force_terminal=True)

    def line(self, *parts: Part, indent: int = 4) -> None:
        """One line of plain and styled parts; continuation lines are indented."""
        pieces = [(part, "") if isinstance(part, str) else part for part in parts]
        visible = [(printable(text), style) for text, style in pieces]
        if self._console is None:
            print("".join(text for text, _ in visible).rstrip(), file=self._stream)
            return
        from rich.text import Text

        whole = Text.assemble(*visible)
        if whole.cell_len > self._console.width:
            wrapped = whole.wrap(self._console, max(self._console.width - indent, 20))
            whole = Text("\n" + " " * indent).join(wrapped)
        self._console.print(whole, soft_wrap=True)

    def block(self, text: str) -> None:
        """Text for copying: neither styled nor wrapped."""
        print(printable(text), file=self._stream)


def out() -> Output:
    """Standard output."""
    return Output(sys.stdout)


def err() -> Output:
    """Standard error."""
    return Output(sys.stderr)


def write_json(document: Any, stream: TextIO) -> None:
    """Write one JSON document on one line. What a terminal would obey is escaped; a stream that is not Unicode gets ASCII."""
    plain = not (stream.encoding or "").lower().replace("-", "").startswith("utf")
    text = json.dumps(document, ensure_ascii=plain, allow_nan=False)
    print(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text), file=stream)


@contextmanager
def print_warnings(*, as_json: bool) -> Iterator[None]:
    """While it is entered, warnings about maintenance are printed on standard error."""
    log, handler = logging.getLogger("keepstone.maintenance"), _WarningPrinter(logging.WARNING)
    handler.as_json = as_json
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _WarningPrinter(logging.Handler):
    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.as_json:
            write_json({"warning": record.getMessage()}, sys.stderr)
        else:
            err().line((f"warning: {record.getMessage()}", "yellow"))


# -- progress -----------------------------------------------------------------------------------------------------
DELAY_SECONDS = 1.0  # before the bar appears


class Bar:
    """Called with (done, total); draws on standard error after a delay."""

    def __init__(self, what: str, wanted: bool) -> None:
        self._what = what
        self._wanted = wanted
        self._since = time.monotonic()
        self._drawn: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int) -> None:
        if not self._wanted or (self._drawn is None and time.monotonic() - self._since < DELAY_SECONDS):
            return
        first = self._drawn is None
        bar, task = self._drawn = self._drawn or self._begin()
        bar.update(task, completed=done, total=max(total, 1))
        if first:
            bar.refresh()  # the next step may take long

    def _begin(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(file=sys.stderr), transient=True)
        bar.start()
        return bar, bar.add_task(self._what)

    def end(self) -> None:
        """Remove the bar."""
        if self._drawn is not None:
            self._drawn[0].stop()


@contextmanager
def progress(call: Invocation, what: str) -> Iterator[Bar]:
    """A progress bar; none with --json or without a terminal."""
    bar = Bar(what, wanted=not call.json and sys.stderr is not None and sys.stderr.isatty())
    try:
        yield bar
    finally:
        bar.end()
