"""Progress bar for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from keepstone.cli.invocation import Invocation

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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
