"""Upkeep: the jobs on a store by name. Imports: the jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recollect.learn.jobs import WorkReport
from recollect.ports import Progress
from recollect.upkeep.reembedding import ReembedReport


class Upkeep:
    """What `memory.upkeep` offers."""

    def __init__(
        self, reembed: Callable[[Any, Progress | None], ReembedReport], run: Callable[[Progress | None], WorkReport]
    ) -> None:
        self._reembed = reembed
        self._run = run

    def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits in the store's queue, now and in this process; nothing, where no model is set."""
        return self._run(progress)

    def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Embed every record of the store that waits for its vector; with `embedder`, move the store to that one first.

        Can be stopped and run again: it goes on where it was. Words answer meanwhile."""
        return self._reembed(embedder, progress)
