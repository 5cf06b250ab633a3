"""Facts on their way to the store: from rules or a model's proposals to writes that name where they came from. Pure.

A fact is no more trusted than the least trusted message it rests on; its source says that class and who found it, so that
everything a model has derived can be taken back with one `forget(source="user:model")`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keepstone.learning.echo_guard import without_fences
from keepstone.types import Record
from keepstone.write.request import WriteRequest

if TYPE_CHECKING:
    from keepstone.learning.rules import Fact
    from keepstone.prompts.extraction import Proposal

RULES, MODEL = "rules", "model"
LEAST_CONFIDENCE = 0.5
_WEIGHTS = {"profile": 0.7, "preference": 0.7, "note": 0.7, "decision": 0.6, "task": 0.6, "relation": 0.6, "other": 0.4}
_SLUG = re.compile(r"[^\w]+")
_USER = "The user"


@dataclass(frozen=True, slots=True)
class Parent:
    """What a fact rests on: as much of a record as it takes over."""

    id: str
    source: str
    trust: float
    session: str | None
    occurred_at: datetime
    version: int = 1

    @classmethod
    def of(cls, record: Record) -> Parent:
        return cls(record.id, record.source, record.trust, record.session, record.occurred_at, record.version)


def in_words(text: str, name: str | None) -> list[Fact]:
    """The plain facts in what a user said."""
    from keepstone.learning.rules import plain_facts  # 60 ms of patterns that only listening needs

    return plain_facts(without_fences(text), name or _USER)


def from_rule(fact: Fact, name: str | None, parent: Parent) -> WriteRequest:
    """A plain fact as a write; whoever has a name has keys of their own."""
    key = fact.key
    if key is not None and name is not None:
        key = f"{slug(name)}.{key.removeprefix('user.')}"
    return request(fact.content, fact.tag, key, fact.confidence, [parent], RULES)


def from_proposal(proposal: Proposal, rests_on: Sequence[Record]) -> WriteRequest:
    """What a model proposed, resting on these messages."""
    key = None if proposal.key is None else _key(proposal.key, rests_on)
    return request(proposal.content, proposal.type, key, proposal.confidence, [Parent.of(each) for each in rests_on], MODEL)


def _key(key: str, rests_on: Sequence[Record]) -> str | None:
    """A key under whoever said it; none where several people did."""
    names = {record.name for record in rests_on if record.role == "user"}
    if len(names) > 1:
        return None
    name = next(iter(names), None)
    return f"{'user' if name is None else slug(name)}.{key.removeprefix('user.')}"


def request(content: str, tag: str, key: str | None, confidence: float, parents: Sequence[Parent], by: str) -> WriteRequest:
    """A fact as a write."""
    least = min(parents, key=lambda parent: parent.trust)
    newest = max(parents, key=lambda parent: parent.occurred_at)
    about: dict[str, Any] = {"confidence": round(confidence, 2)}
    return WriteRequest(
        content,
        tag=tag,
        key=key,
        importance=_WEIGHTS.get(tag, 0.5),
        metadata=about,
        source=f"{least.source.partition(':')[0]}:{by}",
        session=newest.session,
        occurred_at=newest.occurred_at,
        parents=tuple(parent.id for parent in parents),
        made_from=tuple((parent.id, parent.version) for parent in parents),
        trust=least.trust,
    )


def slug(name: str) -> str:
    """A name as the first part of a key.

    >>> slug("Anna-Maria Smith")
    'anna_maria_smith'
    """
    return _SLUG.sub("_", name.casefold()).strip("_")[:60] or "user"
