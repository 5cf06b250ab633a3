"""A second reader of the best hits: what it says counts, and what it gets wrong costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError

FACTS = [f"Dana likes tea number {n}." for n in range(40)]


def ask(reranker: Any, limit: int = 5) -> Any:
    with Memory.open(":memory:", reranker=reranker) as memory:
        memory.remember_many(FACTS)
        return memory.recall("Which tea does Dana like?", limit=limit, min_similarity=0)


def test_its_order_and_scores_are_taken() -> None:
    seen: list[tuple[str, list[str]]] = []

    def odd_ones(query: str, texts: Sequence[str]) -> list[float]:
        seen.append((query, list(texts)))
        return [0.9 if text == FACTS[17] else 0.1 for text in texts]

    plain = ask(None, limit=30)
    found = ask(odd_ones)
    assert seen[0][0] == "Which tea does Dana like?"
    assert sorted(seen[0][1]) == sorted(hit.content for hit in plain), "it reads the thirty best"
    assert FACTS[17] in seen[0][1]
    assert (found[0].content, found[0].score, found.notes) == (FACTS[17], 0.9, ())
    assert found[0].signals["first_score"] == next(hit.score for hit in plain if hit.content == FACTS[17])
    assert len(found) == 5


def test_of_equal_scores_the_first_order_stays() -> None:
    assert [hit.content for hit in ask(lambda query, texts: [0.5] * len(texts))] == [hit.content for hit in ask(None)]


def failing(query: str, texts: Sequence[str]) -> list[float]:
    raise TimeoutError("no answer in 2 s")


@pytest.mark.parametrize(
    ("reranker", "note"),
    [
        (failing, "TimeoutError: no answer in 2 s"),
        (lambda query, texts: [0.5], "1 scores for 30 texts"),
        (lambda query, texts: [7.0] * len(texts), "score 7.0; scores go from 0 to 1"),
        (lambda query, texts: [float("nan")] * len(texts), "score nan"),
        (lambda query, texts: ["high"] * len(texts), "ValueError"),
        (lambda query, texts: None, "TypeError"),
    ],
)
def test_what_it_gets_wrong_is_noted_and_costs_no_hit(reranker: Callable[..., Any], note: str) -> None:
    found = ask(reranker)
    assert [hit.content for hit in found] == [hit.content for hit in ask(None)]
    assert len(found.notes) == 1
    assert note in found.notes[0]


def test_it_is_not_asked_when_nothing_is_found() -> None:
    with Memory.open(":memory:", reranker=failing) as memory:
        assert memory.recall("anything").notes == ()


def test_why_says_that_there_is_one() -> None:
    with Memory.open(":memory:", reranker=failing) as memory:
        id = memory.remember("Dana likes tea.").id or ""
        assert "reranker" in memory.why("What does Dana like?", id).reasons[-1]


def test_something_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="reranker is 'cross-encoder'"):
        Memory.open(":memory:", reranker="cross-encoder")  # type: ignore[arg-type]
