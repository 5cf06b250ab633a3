"""What the contracts of upkeep write with: messages, what was learned from them, digests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keepstone.ports.stores import Store
from keepstone.ports.values import Write
from keepstone.testing.builders import HOME, add, add_id, draft
from keepstone.text.words import record_terms
from keepstone.types import Scope


def message(store: Store, text: str, session: str | None = "s1", scope: Scope = HOME, **rest: Any) -> str:
    """Somebody says something; its id."""
    return add_id(store, text, scope, **({"kind": "message", "session": session, "role": "user"} | rest))


def learned(store: Store, text: str, *parents: str, scope: Scope = HOME, **rest: Any) -> str:
    """Something is learned from other records, for the first time or again; the id of the record that holds it."""
    receipt = add(store, text, scope, parents=parents, **rest)
    assert receipt.action in ("added", "duplicate", "merged", "superseded"), receipt
    assert receipt.id is not None
    return receipt.id


def compacted(store: Store, text: str, ids: Sequence[str], scope: Scope = HOME, **rest: Any) -> tuple[str, int]:
    """A digest in the place of other records: its id, and the ticket they were put aside with."""
    made = store.write(scope, [Write(draft(text, parents=tuple(ids), **rest), replaces=tuple(ids))])[0]
    assert made.action == "added", made
    tickets = {each.ticket for each in store.retention.archived(scope) if each.record.id in ids}
    assert len(tickets) == 1, "what is put aside together has one ticket"
    return made.id or "", tickets.pop()


def acts(store: Store, verb: str, scope: Scope = HOME) -> list[str]:
    """What the trail says was done by a verb, oldest first."""
    return [row.action for row in reversed(store.audit(scope, limit=1000)) if row.verb == verb]


def healthy(store: Store) -> None:
    """The doctor finds nothing."""
    diagnosis = store.doctor(record_terms)
    assert diagnosis.healthy, diagnosis.findings
