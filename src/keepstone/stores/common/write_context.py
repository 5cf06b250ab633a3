"""The context of a write transaction, and its audit entries: each holds a hash of the one before.

The chain is one a tenant: a row of the audit log cannot be changed, dropped or inserted without breaking the hashes after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from keepstone.ports.values import Vector
from keepstone.stores.common.rows import checked, packed
from keepstone.stores.common.transaction import Transaction

STORE_OWNER = ("", "", "")  # the owner of entries about the whole store
GENESIS = bytes(32)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_STORED = ("added", "merged", "updated", "superseded")


class State(NamedTuple):
    """A record as it is, from the query `state`."""

    sequence: int
    version: int
    content: str
    hash: bytes
    metadata: str
    importance: float
    tag: str
    source: str
    trust: float
    session: str | None
    role: str | None
    name: str | None
    occurred_at: int
    updated_at: int
    valid_from: int
    expires_at: int | None
    action: str
    kind: str
    key: str | None
    id: str
    status: str
    parents: str
    dedup_key: bytes | None
    sensitive: str


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Scope number, time and embedder of a write transaction."""

    scope: int
    now: int
    model: int | None
    dimension: int | None
    moved: bool = False  # the store has another embedder than this process, whose vectors are not stored
    owner: tuple[str, str, str] = STORE_OWNER  # tenant, agent, user
    redacted: bool = False  # the guard removed something from the write: its receipt and audit entry say "redacted"

    @property
    def token(self) -> str:
        return f"s{self.scope}"

    def stored_action(self, action: str) -> str:
        """The action of a receipt and of its audit entry."""
        return "redacted" if self.redacted and action in _STORED else action

    def kept(self, db: Transaction, vector: Vector | None) -> tuple[int | None, Any]:
        """(embedder number, stored vector); both None without a vector."""
        return (None, None) if self.moved or vector is None else (self.model, db.stored(checked(vector, self.dimension)))


def audit(db: Transaction, context: WriteContext, verb: str, action: str, sequence: int | None, id: str | None, version: int,
          source: str, reasons: Sequence[str] = ()) -> int:  # fmt: skip
    """Append an audit entry and return its number."""
    action = context.stored_action(action)
    said = packed(list(reasons))
    number, head = db.next_audit_link(context.owner[0])
    link = chain_hash(head or GENESIS, (number, *context.owner, context.now, verb, action, sequence, id, version, source, said))
    db.run("audit_add", (number, context.scope, context.now, verb, action, sequence, id, version, source, said, link))
    db.record_audit_link(context.owner[0], number, link)
    return number


def chain_hash(head: bytes, row: Sequence[Any]) -> bytes:
    """The hash of an audit entry that follows another."""
    return hashlib.sha256(head + _encode(row).encode()).digest()
