"""WithholdingStore: a store as an agent's key sees it, without quarantined text.

Flows that are built on it cannot show, change or erase what waits for a person: such a record does not exist, and such a message
stands in its place without content.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from keepstone.errors import NotFound
from keepstone.guard.guarded_store import GuardedStore
from keepstone.ports.forwarding import (
    ForwardingMessageLog,
    ForwardingRetentionStore,
    ForwardingReviews,
    ForwardingStore,
)
from keepstone.ports.maintenance import Age, ArchivedRecord, ArchiveReason, ReviewItem, ReviewState
from keepstone.ports.values import RecordExport, Revision, Selector, Snapshot
from keepstone.types import HELD_BACK, MESSAGE, STEP, ForgetReceipt, Receipt, Record, Scope, Version

_KEPT_METADATA = ("step", "success")  # numbers that tasks are resumed by


def withhold(record: Record) -> Record:
    """A record in quarantine without its content; its blocks stay in place, so that a tool use still has its result."""
    if record.status != "quarantined":
        return record
    blocks = None if record.blocks is None else tuple(map(_withhold_block, record.blocks))
    metadata = {name: int(value) for name in _KEPT_METADATA if isinstance(value := record.metadata.get(name), int)}
    return record.with_(content=HELD_BACK, blocks=blocks, metadata=metadata, key=None, name=None)


def _withhold_block(block: object) -> dict[str, object]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "tool_result" and isinstance(block, dict):
        return {"type": kind, "tool_use_id": block.get("tool_use_id"), "content": HELD_BACK}
    return {"type": STEP, "thought": HELD_BACK} if kind == STEP else {"type": "text", "text": HELD_BACK}


class WithholdingStore(ForwardingStore):
    """The store that flows use for an agent's key."""

    def __init__(self, store: GuardedStore) -> None:
        super().__init__(store)
        self.unguarded_states = store.unguarded_states
        self.message_log = WithholdingMessageLog(store.message_log)
        self.retention = WithholdingRetention(store.retention)
        self.reviews = WithholdingReviews(store.reviews)

    def get(self, scope: Scope, id: str) -> Record | None:
        return _visible(self._store.get(scope, id))

    def by_key(self, scope: Scope, key: str) -> Record | None:
        return _visible(self._store.by_key(scope, key))

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        return [_placed(record) for record in self._store.fetch(scope, sequences)]

    def fetch_stamped(self, scope: Scope, sequences: Sequence[int]) -> tuple[Sequence[Record | None], tuple[Hashable, Hashable]]:
        records, stamp = self._store.fetch_stamped(scope, sequences)
        return [_placed(record) for record in records], stamp

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        return None if self._is_withheld(scope, id) else self._store.history(scope, id)

    def sequence_of(self, scope: Scope, id: str) -> int | None:
        return None if self._is_withheld(scope, id) else self._store.sequence_of(scope, id)

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        found = self._store.snapshot(scope, as_of, known_at)
        return replace(found, records=[withhold(record) for record in found.records])

    def export_records(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[RecordExport]:
        return (export for export in self._store.export_records(scope, ids) if export.record.status != "quarantined")

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        if self._is_withheld(scope, id):
            raise NotFound(f"there is no record {id!r:.80} in this scope: list shows its records.")
        return self._store.revise(scope, id, revision)

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        """Erase records by id or key. What would also erase quarantined ones erases nothing."""
        if selector.key is not None:
            record = self._store.by_key(scope, selector.key)
            ids: tuple[str, ...] = () if record is None else (record.id,)
        else:
            ids = (selector.id,) if selector.id is not None else selector.ids or ()
        visible = tuple(id for id in ids if not self._is_withheld(scope, id))
        if not visible:
            return ForgetReceipt(0)
        if len(visible) == len(ids):
            return self._store.forget(scope, selector)
        return self._store.forget(scope, replace(selector, id=None, key=None, ids=visible))

    def _is_withheld(self, scope: Scope, id: str) -> bool:
        record = self._store.get(scope, id)
        return record is not None and record.status == "quarantined"


class WithholdingMessageLog(ForwardingMessageLog):
    """Messages in their order; those in quarantine have no content."""

    def page(
        self,
        scope: Scope,
        session: str | None,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        oldest: bool = False,
    ) -> Sequence[tuple[int, Record]]:
        rows = self._message_log.page(scope, session, after=after, before=before, limit=limit, oldest=oldest)
        return [(sequence, withhold(record)) for sequence, record in rows]


class WithholdingRetention(ForwardingRetentionStore):
    """Records that maintenance selects, without those in quarantine."""

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        return _active(self._retention.old(scope, age))

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        return _active(self._retention.lapsed(scope, limit))

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        return _active(self._retention.faded(scope, importance, reads, before))

    def excess(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        return _active(self._retention.excess(scope, most, kinds))

    def archived(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[ArchiveReason] | None = None, limit: int = 10_000
    ) -> Sequence[ArchivedRecord]:
        return ()  # an archived record may have been in quarantine


class WithholdingReviews(ForwardingReviews):
    """The review list, which holds quarantined text: it is empty here."""

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        return ()

    def get(self, scope: Scope, number: int) -> ReviewItem | None:
        return None


def _visible(record: Record | None) -> Record | None:
    return None if record is None or record.status == "quarantined" else record


def _placed(record: Record | None) -> Record | None:
    """A record as it stands in a window: a quarantined message without content, and no other quarantined record."""
    return withhold(record) if record is not None and record.kind == MESSAGE else _visible(record)


def _active(records: Sequence[Record]) -> Sequence[Record]:
    return [record for record in records if record.status != "quarantined"]
