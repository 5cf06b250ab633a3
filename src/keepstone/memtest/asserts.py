"""Assertions for tests in Python; what fails explains itself. They take a Memory or a Client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keepstone.memtest.cases import Ask, Wanted, Who
from keepstone.memtest.checks import (
    contains_text,
    describe_scope,
    explain_exclusion,
    find_records,
    find_visible,
    matches_record,
    quote,
)
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Hit

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

    Held = Memory | Client

_EXPLAINED = 3


def assert_recalls(memory: Held, query: str, *texts: str, within: int = 5, **options: Any) -> tuple[Hit, ...]:
    """Each text stands in one of the first `within` memories that are recalled; `options` are recall's own. The hits.

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
    """No memory that is recalled has any of these texts in it; without a text: nothing is recalled at all.

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
    """Others see nothing of what these questions recall: not by asking, not by id, not in a context. That something is recalled
    at all is asserted too; without it the test would prove nothing.

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
    """The context of a question has at most so many tokens, and each text is in it. The context.

    >>> block = assert_within_budget(memory, "Which theme does Dana like?", 200, "dark mode")"""
    __tracebackhide__ = True
    _are_texts(texts)
    block = memory.context(query, max_tokens=max_tokens)
    tokens = estimate_tokens(block)
    if tokens > max_tokens:
        raise AssertionError(f"the context of {query!r:.80} has {tokens} tokens, and may have {max_tokens}")
    for text in texts:
        if not contains_text(text, block):
            there = find_records(memory, Wanted(text))
            why = [f"{each.id} says it and did not fit, or is not recalled: {quote(each.content)}" for each in there[:_EXPLAINED]]
            lines = [f"{text!r} is not in the context of {tokens} tokens", *(why or ["no memory in this scope says it"]), block]
            raise AssertionError("\n".join(lines))
    return block


def _why(memory: Held, query: str, text: str, hits: Sequence[Hit], options: dict[str, Any]) -> list[str]:
    """What would have done and what kept it out; then what was recalled."""
    wanted = Wanted(text)
    there = [record for record in find_records(memory, wanted) if matches_record(wanted, record)]
    case = Ask("", None, Who(), None, query, options)
    lines = [line for record in there[:_EXPLAINED] for line in explain_exclusion(memory, case, record)]
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
