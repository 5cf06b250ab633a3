"""Where the segments of large scopes come from: files beside the store, made in the background or when there is time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keepstone.errors import KeepstoneError
from keepstone.ports.stores import PagedStore
from keepstone.ports.values import IndexRows
from keepstone.scope_index import segment
from keepstone.scope_index.segment import Segment
from keepstone.scope_index.segment_builder import BuildStopped, build_segment
from keepstone.text.words import ANALYSER
from keepstone.types import Scope

_log = logging.getLogger("keepstone")
_PAGE = 20_000
AT_ONCE = 250_000  # records whose segment is made while the first question waits: a few seconds, once


class Segments:
    """The segments of one store. `folder` None: they are kept in memory."""

    def __init__(self, store: PagedStore, least: int, folder: Path | None = None) -> None:
        self._store = store
        self._least = least
        self._folder = folder
        self._kept: dict[Scope, Segment] = {}
        self._threads: dict[Scope, threading.Thread] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._renewed: set[Scope] = set()

    def attach(self, erased: Callable[[Scope], bool]) -> None:
        """Be told what is forgotten."""
        self._store.erased = erased

    def large(self, count: int) -> bool:
        """Whether so many records want a segment."""
        return 0 < self._least <= count

    def wanted(self, scope: Scope) -> int:
        """How many records a scope has, if they want a segment; else 0."""
        count = self._store.index_count(scope)
        return count if self.large(count) else 0

    def renewed(self, scope: Scope, taken: bool = True) -> bool:
        """Whether a segment was made in the background since this was last asked (and the answer taken)."""
        if taken:
            try:
                self._renewed.remove(scope)
            except KeyError:
                return False
            return True
        return scope in self._renewed

    def open(self, scope: Scope) -> Segment | None:
        """The segment that there is, if it fits the store as it is."""
        if not self._least or not (scope in self._kept or (self._folder is not None and self._folder.is_dir())):
            return None
        about = self._about(scope)
        held = self._kept.get(scope)
        if held is not None and any(held.about[name] != about[name] for name in about):
            held = None
        if held is None and self._folder is not None:
            held = segment.read_segment(self._path(scope), about)
        if held is None or held.about["mark"] != self._store.index_mark(scope, held.latest):
            return None
        return held

    def make(self, scope: Scope) -> Segment:
        """A segment of the scope as it is now, kept for the next time."""
        begun = self._store.index_page(scope, 0, 0).latest
        about = {**self._about(scope), "latest": begun, "mark": self._store.index_mark(scope, begun)}
        made = build_segment(self._pages(scope), about, self._stop.is_set)
        if self._folder is not None:
            path = self._path(scope)
            try:
                segment.write_segment(path, made.about, made.arrays)
            except OSError as error:
                _log.warning("the index of a large scope could not be written (%s); it is kept in memory", error.strerror)
            else:
                self.erase(scope)  # forgotten while it was made
                written = segment.read_segment(path, self._about(scope))
                if written is not None:
                    self._kept.pop(scope, None)
                    return written
        self._kept[scope] = made
        return made

    def make_later(self, scope: Scope) -> None:
        """The same in the background, unless that is under way."""
        with self._lock:
            if self.under_way(scope) or self._stop.is_set():
                return
            thread = threading.Thread(target=self._made_later, args=(scope,), name="keepstone-index", daemon=True)
            self._threads[scope] = thread
            thread.start()

    def under_way(self, scope: Scope) -> bool:
        """Whether a segment is being made in the background."""
        thread = self._threads.get(scope)
        return thread is not None and thread.is_alive()  # in a forked child there is the entry without the thread

    def _made_later(self, scope: Scope) -> None:
        try:
            with contextlib.suppress(BuildStopped, KeepstoneError):  # the store was closed, or is busy: another time
                self.make(scope)
                self._renewed.add(scope)
        finally:
            with self._lock:
                self._threads.pop(scope, None)

    def erase(self, scope: Scope, held: Segment | None = None) -> bool:
        """Leave nothing of records that were forgotten or redacted since the file was made in it; False where something may be
        left. A file that does not fit the store goes: it may hold anything. `held` is what was just read from it."""
        if self._folder is None or not self._folder.is_dir():
            return True
        path = self._path(scope)
        try:
            segment.remove_drafts(path)
            if held is not None and not self._store.index_erased(scope, held.latest):
                return True
            held = segment.read_segment(path, {"store": self._store.id}, writable=True)
            if held is None or held.about["mark"] != self._store.index_mark(scope, held.latest):
                path.unlink(missing_ok=True)
                return True
            gone = held.slots_of(np.sort(np.array(self._store.index_erased(scope, held.latest), dtype=np.int64)))
            gone = gone[(held.arrays["sums"][gone] != 0) | (held.arrays["occurred"][gone] != 0)]  # not done already
            if len(gone) * 4 > held.size:
                path.unlink(missing_ok=True)  # quicker made anew; other processes go on with what they have mapped
            elif len(gone):
                segment.erase_slots(held, gone)
        except NotADirectoryError:
            return True  # nothing can be there
        except (OSError, KeepstoneError) as error:
            _log.warning("the index of a large scope could not be overwritten (%s)", type(error).__name__)
            return False
        return True

    def close(self) -> None:
        """Give up what is under way."""
        self._stop.set()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()

    def _pages(self, scope: Scope) -> Iterator[IndexRows]:
        after = 0
        while len(rows := self._store.index_page(scope, after, _PAGE).rows):
            after = int(rows.sequences[-1])
            yield rows

    def _path(self, scope: Scope) -> Path:
        assert self._folder is not None
        named = hashlib.sha256(json.dumps([scope.tenant, scope.agent, scope.user]).encode()).hexdigest()[:32]
        return self._folder / f"{named}.index"

    def _about(self, scope: Scope) -> dict[str, Any]:
        """What a segment must have been made of."""
        bound = self._store.stamp(scope)[0]
        return {
            "store": self._store.id,
            "scope": [scope.tenant, scope.agent, scope.user],
            "embedder": list(bound) if isinstance(bound, tuple) else None,
            "analyser": ANALYSER,
        }
