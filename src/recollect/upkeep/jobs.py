"""Upkeep: the jobs on a store by name. Imports: the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from recollect.learn.jobs import WorkReport
from recollect.ports import Progress
from recollect.types import Scope
from recollect.upkeep.fading import FadeReport, Fading
from recollect.upkeep.reembedding import ReembedReport


class Upkeep:
    """What `memory.upkeep` offers."""

    def __init__(
        self,
        scope: Scope,
        reembed: Callable[[Any, Progress | None], ReembedReport],
        run: Callable[[Progress | None], WorkReport],
        fading: Fading,
    ) -> None:
        self._scope = scope
        self._reembed = reembed
        self._run = run
        self._fading = fading

    def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits in the store's queue, now and in this process; nothing, where no model is set."""
        return self._run(progress)

    def consolidate(
        self,
        *,
        importance: float = 0.3,
        reads: int = 1,
        older_than: timedelta | float = 2_592_000,
        dry_run: bool = False,
    ) -> FadeReport:
        """Put aside this scope's facts that matter less than `importance`, were read at most `reads` times, and were neither
        changed nor read for `older_than` (a timedelta or seconds; 30 days). They are no longer recalled; `bring_back` undoes
        it. A `dry_run` only says what would go."""
        return self._fading.consolidate(self._scope, importance, reads, older_than, dry_run)

    def bring_back(self, ids: Iterable[str]) -> int:
        """Undo a consolidation for these records, unless the same has been remembered anew. How many came back."""
        return self._fading.bring_back(self._scope, ids)

    def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Embed every record of the store that waits for its vector; with `embedder`, move the store to that one first.

        Can be stopped and run again: it goes on where it was. Words answer meanwhile."""
        return self._reembed(embedder, progress)
