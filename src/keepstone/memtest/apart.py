"""Isolation: every question of a file asked as others, and what they see of it that is not theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keepstone.memtest.cases import Ask, Isolation
from keepstone.memtest.explaining import named
from keepstone.types import Hit, Scope

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory
    from keepstone.memtest.staging import Stage

STRANGER = "somebody-else-entirely"


def leaks(stage: Stage, case: Isolation) -> Iterator[str]:
    """What others see of what the file's questions recall, a sentence each. A test in which nothing is recalled fails too: it
    would hold whatever the memory did."""
    own = stage.opening.scope
    questions = [each for each in stage.suite.cases if isinstance(each, Ask)]
    recalled = False
    for question in questions:
        owner = question.who.of(own)
        memory = stage.seen(owner)
        hits = memory.recall(question.query, **question.options).hits
        recalled = recalled or bool(hits)
        chosen = [who.of(owner) for who in case.others] if case.others else _others(stage, owner)
        for other in dict.fromkeys(chosen):
            if other != owner:
                yield from seen_by(stage.seen(other), hits, question.query, question.options)
    if not recalled:
        yield "no question of the file recalls anything, so there is nothing that others could see: give something to recall"


def _others(stage: Stage, owner: Scope) -> list[Scope]:
    """Every other scope of the file, and a stranger in each part of the owner's."""
    own = stage.opening.scope
    told = [each.scope for each in stage.told]
    asked = [each.who.of(own) for each in stage.suite.cases]
    strangers = [owner.narrowed(**{part: STRANGER}) for part in ("tenant", "agent", "user")]
    return [*told, *asked, *strangers]


def seen_by(memory: Memory | Client, hits: Sequence[Hit], query: str, options: Mapping[str, Any]) -> Iterator[str]:
    """What one other sees of somebody's hits: by recall, however weak the match, by id, and in a block for a prompt."""
    wide = {**options, "limit": 100, "min_similarity": 0.0}
    wide.pop("max_tokens", None)
    theirs = memory.recall(query, **wide).hits
    scope, ids = memory.scope, {hit.id for hit in hits}
    for hit in theirs:
        if hit.id in ids or hit.record.scope != scope:
            yield f"{query!r:.80} asked as {named(scope)} recalls {hit.id}, which belongs to {named(hit.record.scope)}"
    for hit in hits:
        if memory.get(hit.id) is not None:
            yield f"{named(scope)} can read {hit.id}, which was recalled for {query!r:.80} as {named(hit.record.scope)}"
    own = {hit.content for hit in theirs if hit.record.scope == scope and hit.id not in ids}
    block = memory.context(query)
    for hit in hits:
        if hit.content in block and not any(hit.content in each for each in own):
            yield f"the context of {query!r:.80} for {named(scope)} holds {hit.id}, which belongs to {named(hit.record.scope)}"
