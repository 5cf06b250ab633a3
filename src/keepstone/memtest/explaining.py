"""Why a memory that must be recalled was not: what stands in the way, as far as the memory can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from keepstone.errors import NotFound
from keepstone.memtest.cases import Ask, Context, Wanted
from keepstone.types import Record, Scope

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory
    from keepstone.memtest.staging import Stage, Told

_LOOKED = 5000  # records that are looked through for the one that was missed
_SHOWN = 3  # of those that would have done, how many are explained
_NARROWING = ("kinds", "tag", "filter", "session", "min_similarity", "min_importance", "min_trust", "max_tokens")
_PAST = ("as_of", "known_at")
NOTHING: Mapping[str, str] = {}


def contained(text: str, within: str) -> bool:
    """Whether a text stands in another, whatever the case and the spaces."""
    return _folded(text) in _folded(within)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def shown(content: str, most: int = 100) -> str:
    """A memory's text on one line, cut where it is long."""
    line = " ".join(content.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def named(scope: Scope) -> str:
    """A scope in words."""
    user = f", user {scope.user}" if scope.user else ", no user"
    return f"tenant {scope.tenant}, agent {scope.agent}{user}"


def holds(wanted: Wanted, record: Record, labels: Mapping[str, str] = NOTHING) -> bool:
    """Whether a record is as wanted, its rank aside."""
    if wanted.content is not None and not contained(wanted.content, record.content):
        return False
    if wanted.id is not None and record.id != labels.get(wanted.id, wanted.id):
        return False
    return all(getattr(wanted, name) in (None, getattr(record, name)) for name in ("kind", "tag", "key", "source"))


def missed(stage: Stage, memory: Memory, case: Ask | Context, wanted: Wanted) -> Iterator[str]:
    """Reasons, a sentence each, for what was not recalled."""
    labels = stage.labels
    there = found(memory, wanted, labels)
    for record in there[:_SHOWN]:
        yield from kept_out(memory, case, record)
    if len(there) > _SHOWN:
        yield f"{len(there) - _SHOWN} more memories would have done"
    if not there:
        yield from _absent(stage.told, memory.scope, wanted, labels)


def found(memory: Memory | Client, wanted: Wanted, labels: Mapping[str, str] = NOTHING) -> list[Record]:
    """The records of a scope that are as wanted, the newest first."""
    there: list[Record] = []
    looked, cursor = 0, None
    while looked < _LOOKED:
        page = memory.list(limit=100, cursor=cursor)
        there += [record for record in page if holds(wanted, record, labels)]
        looked, cursor = looked + len(page), page.cursor
        if cursor is None:
            break
    return there


def kept_out(memory: Memory | Client, case: Ask | Context, record: Record) -> Iterator[str]:
    """What kept one record out."""
    yield f"{record.id} would do: {shown(record.content)}"
    if isinstance(case, Context):
        rank = next((at for at, hit in enumerate(memory.recall(case.query, limit=50), 1) if hit.id == record.id), None)
        if rank is not None:
            yield f"  it is number {rank} of what is recalled, and did not fit: raise max_tokens"
            return
    options = case.options if isinstance(case, Ask) else {}
    past = [f"{name} {options[name]!s:.16}" for name in _PAST if name in options]
    if past:
        yield (
            f"  the test looks at {' and '.join(past)}: this holds since {record.valid_from:%Y-%m-%d %H:%M}, known since "
            f"{record.created_at:%Y-%m-%d %H:%M}"
        )
        return
    try:
        told = memory.why(case.query, record.id)
    except NotFound:  # forgotten a moment ago
        return
    limit = case.limit if isinstance(case, Ask) else 5
    if told.rank is None:
        yield from (f"  {reason}" for reason in told.reasons)
    elif told.rank > limit:
        yield f"  it is number {told.rank}, and only the first {limit} are returned: raise limit"
        yield from (f"  {reason}" for reason in told.reasons[1:])
    else:
        narrowing = [name for name in _NARROWING if name in options]
        yield f"  without {' and '.join(narrowing) or 'a limit'} it is number {told.rank}: what the test asks for leaves it out"


def _absent(told: list[Told], scope: Scope, wanted: Wanted, labels: Mapping[str, str]) -> Iterator[str]:
    """Where the text went, if it was given at all."""
    yield f"no memory in this scope is like that ({named(scope)})"
    if wanted.content is None:
        if wanted.id is not None and wanted.id not in labels:
            yield f"no entry of 'given' has the id {wanted.id!r}: give one 'id: {wanted.id}'"
        return
    for each in told:
        for text, receipt in zip(each.texts, each.receipts, strict=False):
            if not contained(wanted.content, text):
                continue
            if each.scope != scope:
                yield f"{each.given.place} says it in another scope: {named(each.scope)}"
            elif receipt.action in ("refused", "quarantined", "redacted"):
                yield f"{each.given.place} says it, and was {receipt.action}: {'; '.join(receipt.reasons) or 'no reason given'}"
            else:
                gone = "it does not hold any more: updated, superseded, expired or forgotten"
                yield f"{each.given.place} says it ({receipt.action}), and {gone}"
