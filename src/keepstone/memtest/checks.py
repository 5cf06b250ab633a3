"""Explain missing memories, and find memories that other scopes can see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from keepstone.errors import NotFound
from keepstone.memory import list_all
from keepstone.memtest.cases import Ask, Context, Isolation, Wanted, Who
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Hit, Record, Scope

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory
    from keepstone.memtest.stage import Stage, Told

    Held = Memory | Client

_MAX_SEARCHED_RECORDS = 5000  # when searching for the missing memory
_MAX_EXPLAINED = 3  # candidates
_QUOTED_CHARS = 100
_NARROWING = tuple("kinds tag filter session min_similarity min_confidence min_importance min_trust max_tokens".split())
_PAST = ("as_of", "known_at")
NOTHING: Mapping[str, str] = {}


def contains_text(text: str, within: str) -> bool:
    """Whether a text contains another, ignoring case and spacing."""
    return _fold(text) in _fold(within)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def quote(content: str) -> str:
    """A memory's text on one line, cut where it is long."""
    line = " ".join(content.split())
    return line if len(line) <= _QUOTED_CHARS else line[: _QUOTED_CHARS - 1] + "…"


def describe_scope(scope: Scope) -> str:
    """A scope in words."""
    user = f", user {scope.user}" if scope.user else ", no user"
    return f"tenant {scope.tenant}, agent {scope.agent}{user}"


def matches_record(wanted: Wanted, record: Record, labels: Mapping[str, str] = NOTHING) -> bool:
    """Whether a record is as wanted, its rank aside."""
    if wanted.content is not None and not contains_text(wanted.content, record.content):
        return False
    if wanted.id is not None and record.id != labels.get(wanted.id, wanted.id):
        return False
    return all(getattr(wanted, name) in (None, getattr(record, name)) for name in ("kind", "tag", "key", "source"))


def explain_miss(stage: Stage, memory: Memory, case: Ask | Context, wanted: Wanted) -> Iterator[str]:
    """Reasons, a sentence each, for what was not recalled."""
    labels = stage.labels
    there = find_records(memory, wanted, labels)
    for record in there[:_MAX_EXPLAINED]:
        yield from explain_exclusion(memory, case, record)
    if len(there) > _MAX_EXPLAINED:
        yield f"{len(there) - _MAX_EXPLAINED} more memories would have done"
    if not there:
        yield from _explain_absence(stage.told, memory.scope, wanted, labels)


def find_records(memory: Memory | Client, wanted: Wanted, labels: Mapping[str, str] = NOTHING) -> list[Record]:
    """The records of a scope that are as wanted, the newest first."""
    records = islice(list_all(memory), _MAX_SEARCHED_RECORDS)
    return [record for record in records if matches_record(wanted, record, labels)]


def explain_exclusion(memory: Memory | Client, case: Ask | Context, record: Record) -> Iterator[str]:
    """What kept one record out."""
    yield f"{record.id} would do: {quote(record.content)}"
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


def _explain_absence(told: list[Told], scope: Scope, wanted: Wanted, labels: Mapping[str, str]) -> Iterator[str]:
    """Where the text went, if it was given at all."""
    yield f"no memory in this scope is like that ({describe_scope(scope)})"
    if wanted.content is None:
        if wanted.id is not None and wanted.id not in labels:
            yield f"no entry of 'given' has the id {wanted.id!r}: give one 'id: {wanted.id}'"
        return
    for each in told:
        for text, receipt in zip(each.texts, each.receipts, strict=False):
            if not contains_text(wanted.content, text):
                continue
            if each.scope != scope:
                yield f"{each.given.place} says it in another scope: {describe_scope(each.scope)}"
            elif receipt.action in ("refused", "quarantined", "redacted"):
                yield f"{each.given.place} says it, and was {receipt.action}: {'; '.join(receipt.reasons) or 'no reason given'}"
            else:
                gone = "it does not hold any more: updated, superseded, expired or forgotten"
                yield f"{each.given.place} says it ({receipt.action}), and {gone}"


STRANGER = "somebody-else-entirely"


def find_leaks(stage: Stage, case: Isolation) -> Iterator[str]:
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
                yield from find_visible(stage.seen(other), hits, question.query, question.options)
    if not recalled:
        yield "no question of the file recalls anything, so there is nothing that others could see: give something to recall"


def _others(stage: Stage, owner: Scope) -> list[Scope]:
    """Every other scope of the file, and unknown tenants, agents and users."""
    own = stage.opening.scope
    told = [each.scope for each in stage.told]
    asked = [each.who.of(own) for each in stage.suite.cases]
    strangers = [owner.narrowed(**{part: STRANGER}) for part in ("tenant", "agent", "user")]
    return [*told, *asked, *strangers]


def find_visible(memory: Memory | Client, hits: Sequence[Hit], query: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Report which hits of another scope this memory shows: by recall without a threshold, by id, or in a context block."""
    here = describe_scope(memory.scope)
    wide = {**options, "limit": 100, "min_similarity": 0.0, "min_confidence": 0.0}
    wide.pop("max_tokens", None)
    theirs = memory.recall(query, **wide).hits
    scope, ids = memory.scope, {hit.id for hit in hits}
    for hit in theirs:
        if hit.id in ids or hit.record.scope != scope:
            owner = describe_scope(hit.record.scope)
            yield f"{query!r:.80} asked as {here} recalls {hit.id}, which belongs to {owner}"
    for hit in hits:
        if memory.get(hit.id) is not None:
            owner = describe_scope(hit.record.scope)
            yield f"{here} can read {hit.id}, which was recalled for {query!r:.80} as {owner}"
    own = {hit.content for hit in theirs if hit.record.scope == scope and hit.id not in ids}
    block = memory.context(query)
    for hit in hits:
        if hit.content in block and not any(hit.content in each for each in own):
            owner = describe_scope(hit.record.scope)
            yield f"the context of {query!r:.80} for {here} contains {hit.id}, which belongs to {owner}"


# -- assertions for tests in Python -------------------------------------------------------------------------------
def assert_recalls(memory: Held, query: str, *texts: str, within: int = 5, **options: Any) -> tuple[Hit, ...]:
    """Assert that each text is in one of the first `within` memories that are recalled, and return the hits.

    >>> hits = assert_recalls(memory, "Which theme does Dana like?", "dark mode", within=3)"""
    __tracebackhide__ = True
    _needs(texts, "assert_recalls")
    _are_texts(texts)
    options = {"limit": within, **options}
    hits = memory.recall(query, **options).hits
    for text in texts:
        if not any(contains_text(text, hit.content) for hit in hits[:within]):
            raise AssertionError(
                "\n".join([f"{text!r} is not among the first {within} recalled", *_why(memory, query, text, hits, options)])
            )
    return hits


def assert_not_recalled(memory: Held, query: str, *texts: str, **options: Any) -> None:
    """Assert that no recalled memory contains any of these texts; without a text: that nothing is recalled.

    >>> assert_not_recalled(memory, "What is the capital of Peru?")"""
    __tracebackhide__ = True
    _are_texts(texts)
    hits = memory.recall(query, **options).hits
    if hits and not texts:
        raise AssertionError("\n".join([f"{len(hits)} recalled, and nothing may be", *_listed(hits)]))
    for text in texts:
        met = [rank for rank, hit in enumerate(hits, 1) if contains_text(text, hit.content)]
        if met:
            raise AssertionError("\n".join([f"{text!r} is recalled as number {met[0]}", *_listed(hits)]))


def assert_isolated(memory: Held, others: Held | Iterable[Held], *queries: str, **options: Any) -> None:
    """Assert that `others` see nothing of what these questions recall: not by recall, by id or in a context. The questions must
    recall something; otherwise the test would prove nothing.

    >>> assert_isolated(memory, memory.with_scope(user="lee"), "Which theme does Dana like?")"""
    __tracebackhide__ = True
    _needs(queries, "assert_isolated")
    views = list(others) if isinstance(others, Iterable) else [others]
    _needs(views, "assert_isolated")
    for query in queries:
        hits = memory.recall(query, **options).hits
        if not hits:
            raise AssertionError(
                f"{query!r:.80} recalls nothing as {describe_scope(memory.scope)}, so there is nothing that others could see"
            )
        seen = [each for other in views for each in find_visible(other, hits, query, options)]
        if seen:
            raise AssertionError("\n".join(seen))


def assert_within_budget(memory: Held, query: str, max_tokens: int, *texts: str) -> str:
    """Assert that the context of a question has at most this many tokens and contains each text, and return the context.

    >>> block = assert_within_budget(memory, "Which theme does Dana like?", 200, "dark mode")"""
    __tracebackhide__ = True
    _are_texts(texts)
    block = memory.context(query, max_tokens=max_tokens)
    tokens = estimate_tokens(block)
    if tokens > max_tokens:
        raise AssertionError(f"the context of {query!r:.80} has {tokens} tokens, and may have {max_tokens}")
    for text in texts:
        if not contains_text(text, block):
            there = find_records(memory, Wanted(text))[:_MAX_EXPLAINED]
            why = [
                f"{each.id} says it and did not fit, or is not recalled: {quote(each.content)}" for each in there[:_MAX_EXPLAINED]
            ]
            lines = [f"{text!r} is not in the context of {tokens} tokens", *(why or ["no memory in this scope says it"]), block]
            raise AssertionError("\n".join(lines))
    return block


def _why(memory: Held, query: str, text: str, hits: Sequence[Hit], options: dict[str, Any]) -> list[str]:
    """What would have done and what kept it out; then what was recalled."""
    wanted = Wanted(text)
    there = [record for record in find_records(memory, wanted) if matches_record(wanted, record)]
    case = Ask("", None, Who(), None, query, options)
    lines = [line for record in there[:_MAX_EXPLAINED] for line in explain_exclusion(memory, case, record)]
    return [*(lines or [f"no memory in this scope says it ({describe_scope(memory.scope)})"]), *_listed(hits)]


def _listed(hits: Sequence[Hit]) -> list[str]:
    return (
        ["recalled:", *(f"    {rank}  {quote(hit.content)}" for rank, hit in enumerate(hits, 1))]
        if hits
        else ["nothing was recalled"]
    )


def _needs(given: Sequence[Any], what: str) -> None:
    if not given:
        raise TypeError(f"{what} was given nothing to look for: it would pass whatever the memory does.")


def _are_texts(texts: Sequence[Any]) -> None:
    """An empty text stands in every memory; a list is no text, and a check of an empty recall would always pass."""
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise TypeError(f"{text!r:.60} is nothing to look for: give each text by itself, with words in it.")
