"""Feedback on a memory, and recall over several scopes."""

from __future__ import annotations

import pytest

from keepstone import Memory, Scope
from keepstone.errors import NotFound, ValidationError

TEA = "Dana drinks green tea on Mondays."
BLACK = "Dana drinks black tea on Mondays."


def _importance(memory: Memory, id: str) -> float:
    record = memory.get(id)
    assert record is not None
    return round(record.importance, 4)


def test_what_helped_comes_first_and_what_did_not_comes_last(memory: Memory) -> None:
    tea, black = (memory.remember(text, occurred_at="2026-03-01").id or "" for text in (TEA, BLACK))
    question = "What does Dana drink on Mondays?"
    last = memory.recall(question)[1].id
    for _ in range(4):
        memory.feedback(last, helped=True)
        memory.feedback(black if last == tea else tea, helped=False)
    assert memory.recall(question)[0].id == last


def test_feedback_moves_the_importance_within_a_bound(memory: Memory) -> None:
    id = memory.remember(TEA, importance=0.5).id or ""
    assert memory.feedback(id, helped=True).action == "updated"
    assert _importance(memory, id) == 0.6
    for _ in range(8):
        receipt = memory.feedback(id, helped=True)
    assert _importance(memory, id) == 0.9
    assert "as far as feedback can move it" in receipt.reasons[0]
    memory.update(id, importance=0.2)  # what a person sets counts from then on
    memory.feedback(id, helped=False)
    assert _importance(memory, id) == 0.1


def test_the_explanation_shows_feedback(memory: Memory) -> None:
    id = memory.remember(TEA).id or ""
    assert not any("feedback" in reason for reason in memory.why("tea", id).reasons)
    memory.feedback(id, helped=True)
    memory.feedback(id, helped=False)
    memory.feedback(id, helped=True)
    reasons = [reason for reason in memory.why("tea", id).reasons if "feedback" in reason]
    assert reasons == ["feedback: it helped 2 times and did not 1 times, which moved its importance from 0.5 to 0.6"]


def test_feedback_needs_a_memory_and_a_yes_or_no(memory: Memory) -> None:
    id = memory.remember(TEA).id or ""
    with pytest.raises(ValidationError):
        memory.feedback(id, helped="yes")  # type: ignore[arg-type]
    memory.feedback(id, helped=True)
    memory.forget(id)
    with pytest.raises(NotFound, match="there is no record"):
        memory.feedback(id, helped=True)


def test_several_scopes_are_ranked_together(memory: Memory) -> None:
    dana, team = memory.with_scope(user="dana"), memory.with_scope(user="team")
    dana.remember("My favourite tea is sencha.")
    dana.remember("The dentist is on Elm Street.")
    team.remember("The team drinks tea at four.")
    memory.with_scope(user="other").remember("Other people drink tea at five.")
    alone = dana.recall("Who drinks tea?", min_similarity=0)
    assert {hit.record.scope.user for hit in alone} == {"dana"}
    found = dana.recall("Who drinks tea?", min_similarity=0, also=[{"user": "team"}])
    assert {hit.record.scope.user for hit in found} == {"dana", "team"}
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert found.considered == 3
    first = dana.recall("Who drinks tea?", min_similarity=0, limit=1, also=[Scope(dana.scope.tenant, dana.scope.agent, "team")])
    assert [hit.content for hit in first] == [found[0].content]
    assert len(dana.recall("tea", min_similarity=0, also=[{"user": "dana"}, {"user": "dana"}])) == 2


def test_only_hits_that_are_returned_count_as_read(memory: Memory) -> None:
    dana, team = memory.with_scope(user="dana"), memory.with_scope(user="team")
    mine, theirs = dana.remember("I drink sencha tea.").id or "", team.remember("The bus leaves at four.").id or ""
    dana.recall("Which tea do I drink?", limit=1, min_similarity=0, also=[{"user": "team"}])
    read, unread = dana.get(mine), team.get(theirs)
    assert read is not None
    assert unread is not None
    assert (read.access_count, unread.access_count) == (1, 0)


def test_scopes_that_cannot_be_read_are_refused(memory: Memory) -> None:
    for wrong in ("dana", {"user": "dana"}, [{"name": "dana"}], [{}], [7]):
        with pytest.raises(ValidationError):
            memory.recall("tea", also=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="limit is 20"):
        memory.recall("tea", also=[{"user": f"u{n}"} for n in range(21)])
