"""BufferedStore: a store whose newest messages are read from a buffer while nothing has happened since.

A window is believed only while the scope's last audit number is the one it was read at. That number is read before the turns
are, so a change in between makes a window look old, never new. How often a message was read, and whether it has a vector of the
present embedder, leave no row in its scope: those may be older in a page than in the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from keepstone.ports.caches import Buffer, Window
from keepstone.ports.forwarding import ForwardingMessageLog, ForwardingStore
from keepstone.ports.stores import Clock, Store
from keepstone.ports.values import ImportRow, Selector
from keepstone.text import times
from keepstone.types import ForgetReceipt, Record, Scope

Turn = tuple[int, Record]


class BufferedStore(ForwardingStore):
    """A store behind a buffer. What is erased from the store is erased from the buffer too."""

    def __init__(self, store: Store, buffer: Buffer, clock: Clock = times.now) -> None:
        super().__init__(store)
        self.buffer = buffer
        self.message_log = BufferedMessageLog(store, buffer, clock)

    # -- erasing --------------------------------------------------------------------------------------------------
    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        receipt = self._store_forget(scope, selector)
        if self.buffer.clear(scope) or not receipt.forgotten:
            return receipt
        return replace(receipt, erased=False, reasons=(*receipt.reasons, self._left()))

    def _store_forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        try:
            return self._store.forget(scope, selector)
        except BaseException:
            self.buffer.clear(scope)  # it may have been committed all the same
            raise

    def _left(self) -> str:
        seconds = getattr(self.buffer, "ttl", None)
        until = f"for at most {seconds:g} seconds more" if isinstance(seconds, (int, float)) else "until it expires there"
        why = f" ({self.buffer.problem})" if self.buffer.problem else ""
        return (
            f"the newest messages of this scope, among them what was forgotten, may still be in {self.buffer.name} {until}, "
            f"where no read uses them: it could not be cleared{why}"
        )

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        try:
            return self._store.redact(scope, row)
        finally:
            self.buffer.clear(scope)

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        try:
            return self._store.import_records(scope, rows)
        finally:
            self.buffer.clear(scope)

    def close(self) -> None:
        """Close the store, and the buffer with it."""
        try:
            self._store.close()
        finally:
            self.buffer.close()


class BufferedMessageLog(ForwardingMessageLog):
    """Messages in the order they came, the newest ones from the buffer."""

    def __init__(self, store: Store, buffer: Buffer, clock: Clock) -> None:
        super().__init__(store.message_log)
        self._store = store
        self._buffer = buffer
        self._clock = clock

    def page(
        self,
        scope: Scope,
        session: str | None,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        oldest: bool = False,
    ) -> Sequence[Turn]:
        if not 0 < limit <= self._buffer.bound:
            return self._message_log.page(scope, session, after=after, before=before, limit=limit, oldest=oldest)
        number = self._store.audit_log.last(scope)  # before the turns are read: what comes in between makes them look old
        name = f"{self._store.id}\n" if session is None else f"{self._store.id} {session}"  # several stores may share a buffer
        window = self._buffer.window(scope, name) if number else None
        if window is not None and window.number == number and not _lapsed(window, self._clock()):
            found = within(window, after, before, limit, oldest)
            if found is not None:
                return [_own(turn) for turn in found]
        turns = self._message_log.page(scope, session, after=after, before=before, limit=limit, oldest=oldest)
        if number and not after and before is None and not oldest:  # as many as were asked for, and no more
            self._buffer.put(scope, name, Window(number, tuple(map(_own, turns)), len(turns) < limit))
        return turns


def _own(turn: Turn) -> Turn:
    """A copy whose metadata and blocks the caller may change: the window's are shared."""
    sequence, record = turn
    if not record.metadata and not record.blocks:
        return turn
    return sequence, replace(record, metadata=_copied(record.metadata), blocks=_copied(record.blocks))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    return value


def _lapsed(window: Window, now: datetime) -> bool:
    """Whether a message has expired since: the store would leave it out, and may have an older one in its place."""
    return any(record.expires_at is not None and record.expires_at <= now for _, record in window.messages)


def within(window: Window, after: int, before: int | None, limit: int, oldest: bool) -> list[Turn] | None:
    """The page that was asked for, if the window is enough to tell; None if older messages than it has could be on it."""
    found = [turn for turn in window.messages if turn[0] > after and (before is None or turn[0] < before)]
    # Complete: no older message lies between the bounds.
    complete = window.complete or (bool(window.messages) and after >= window.messages[0][0] - 1)
    if oldest:
        return found[:limit] if complete else None
    return found[-limit:] if complete or len(found) >= limit else None
