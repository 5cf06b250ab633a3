"""Write requests for facts that rules or a model found.

A fact is no more trusted than the least trusted message it rests on. Its source names that class and the finder, so
`forget(source="user:model")` erases everything a model derived.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keepstone.learning.echo_guard import strip_fences
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES
from keepstone.types import Record
from keepstone.write.request import WriteRequest

if TYPE_CHECKING:
    from keepstone.learning.rules import Fact
    from keepstone.prompts.extraction import Proposal

RULES, MODEL = "rules", "model"
MIN_CONFIDENCE = 0.5
_IMPORTANCE = {"profile": 0.7, "preference": 0.7, "note": 0.7, "decision": 0.6, "task": 0.6, "relation": 0.6, "other": 0.4}
_SLUG = re.compile(r"[^\w]+")
_USER = "The user"


@dataclass(frozen=True, slots=True)
class Parent:
    """The record a fact rests on: the fields that the fact takes over."""

    id: str
    source: str
    trust: float
    session: str | None
    occurred_at: datetime
    version: int = 1

    @classmethod
    def of(cls, record: Record) -> Parent:
        return cls(record.id, record.source, record.trust, record.session, record.occurred_at, record.version)


def find_user_facts(text: str, name: str | None) -> list[Fact]:
    """The facts that rules find in a user's text, in the language of the text."""
    own = strip_fences(text)
    language = detect_language(own)
    if language in CODES:
        from keepstone.learning.other_languages import find_statements

        return [statement.fact for statement in find_statements(own, language, name)]
    from keepstone.learning.rules import find_facts  # compiling its patterns takes 60 ms

    facts = find_facts(own, name or _USER)
    if not facts and not language:
        from keepstone.learning.other_languages import find_in_any_language

        return [statement.fact for statement in find_in_any_language(own, name)]
    return facts


def request_from_rule(fact: Fact, name: str | None, parent: Parent) -> WriteRequest:
    """The write for a fact of the rules; a named speaker has keys of their own."""
    key = fact.key
    if key is not None and name is not None:
        key = f"{slug(name)}.{key.removeprefix('user.')}"
    return request(fact.content, fact.tag, key, fact.confidence, [parent], RULES)


def request_from_proposal(proposal: Proposal, rests_on: Sequence[Record]) -> WriteRequest:
    """The write for a model's proposal that rests on these messages."""
    key = None if proposal.key is None else _key(proposal.key, rests_on)
    return request(proposal.content, proposal.type, key, proposal.confidence, [Parent.of(record) for record in rests_on], MODEL)


def _key(key: str, rests_on: Sequence[Record]) -> str | None:
    """A key under the speaker's name; none where several people spoke."""
    names = {record.name for record in rests_on if record.role == "user"}
    if len(names) > 1:
        return None
    name = next(iter(names), None)
    return f"{'user' if name is None else slug(name)}.{key.removeprefix('user.')}"


def request(content: str, tag: str, key: str | None, confidence: float, parents: Sequence[Parent], by: str) -> WriteRequest:
    """The write for a fact."""
    least = min(parents, key=lambda parent: parent.trust)
    newest = max(parents, key=lambda parent: parent.occurred_at)
    metadata: dict[str, Any] = {"confidence": round(confidence, 2)}
    return WriteRequest(
        content,
        tag=tag,
        key=key,
        importance=_IMPORTANCE.get(tag, 0.5),
        metadata=metadata,
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
