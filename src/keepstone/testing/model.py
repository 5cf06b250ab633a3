"""The dictionary that the state machine compares a store with."""

from __future__ import annotations

from dataclasses import dataclass, field

from keepstone.ports.values import Draft
from keepstone.testing.builders import Row
from keepstone.types import MESSAGE, Receipt


def facts(made: Draft) -> tuple[object, ...]:
    """What has to differ for a write to be a change."""
    return (made.content, made.metadata, made.importance, made.tag, made.kind)


@dataclass
class Entry:
    """What the dictionary holds of a record."""

    id: str
    draft: Draft  # as it is now
    version: int = 1
    past: list[Draft] = field(default_factory=list)
    accesses: int = 0

    @property
    def expired(self) -> bool:
        return self.draft.expires_at is not None


@dataclass
class Model:
    """One scope of the dictionary, and what a reader of `changes` holds of the scope."""

    entries: dict[str, Entry] = field(default_factory=dict)
    receipts: dict[str, tuple[str, Receipt]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    mirror: dict[int, Row] = field(default_factory=dict)
    latest: int = 0

    def live(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if not entry.expired]

    def pick(self, number: int) -> Entry | None:
        entries = list(self.entries.values())
        return entries[number % len(entries)] if entries else None

    def same(self, made: Draft) -> list[Entry]:
        """The records that make this draft a duplicate."""
        if made.kind == MESSAGE or made.key is not None:
            return []
        wanted = (made.content, made.kind, made.tag, None)
        return [e for e in self.live() if (e.draft.content, e.draft.kind, e.draft.tag, e.draft.key) == wanted]

    def drop(self, ids: set[str]) -> None:
        for id in ids:
            del self.entries[id], self.sequences[id]
        self.receipts = {key: each for key, each in self.receipts.items() if each[1].id not in ids}
