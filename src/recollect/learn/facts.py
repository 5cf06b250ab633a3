"""Facts on their way to the store: from rules or a model's proposals to writes that name where they came from. Pure.
Imports: types, the write path's request, rooms beside it.

A fact is no more trusted than the least trusted message it rests on; its source says that class and who found it, so that
everything a model has derived can be taken back with one `forget(source="user:model")`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recollect.learn.echo import without_fences
from recollect.types import Record
from recollect.write.request import WriteRequest

if TYPE_CHECKING:
    from recollect.learn.rules import Fact
    from recollect.prompts.extraction import Proposal

RULES, MODEL = "rules", "model"
LEAST_CONFIDENCE = 0.5
_WEIGHTS = {"profile": 0.7, "preference": 0.7, "note": 0.7, "decision": 0.6, "task": 0.6, "relation": 0.6, "other": 0.4}
_SLUG = re.compile(r"[^\w]+")
_USER = "The user"


def from_rules(record: Record) -> list[WriteRequest]:
    """The plain facts in what a user said."""
    from recollect.learn.rules import plain_facts  # 60 ms of patterns that only listening needs

    found = plain_facts(without_fences(record.content), record.name or _USER)
    return [_plain(fact, record) for fact in found]


def _plain(fact: Fact, record: Record) -> WriteRequest:
    key = fact.key
    if key is not None and record.name is not None:
        key = f"{slug(record.name)}.{key.removeprefix('user.')}"
    return request(fact.content, fact.tag, key, fact.confidence, [record], RULES)


def from_proposal(proposal: Proposal, rests_on: Sequence[Record]) -> WriteRequest:
    """What a model proposed, resting on these messages."""
    key = None if proposal.key is None else f"user.{proposal.key.removeprefix('user.')}"
    return request(proposal.content, proposal.type, key, proposal.confidence, rests_on, MODEL)


def request(content: str, tag: str, key: str | None, confidence: float, parents: Sequence[Record], by: str) -> WriteRequest:
    """A fact as a write."""
    least = min(parents, key=lambda record: record.trust)
    newest = max(parents, key=lambda record: record.occurred_at)
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
        parents=tuple(record.id for record in parents),
    )


def slug(name: str) -> str:
    """A name as the first part of a key.

    >>> slug("Anna-Maria Smith")
    'anna_maria_smith'
    """
    return _SLUG.sub("_", name.casefold()).strip("_")[:60] or "user"
