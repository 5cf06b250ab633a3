"""Remembering and recalling, over every surface."""

from __future__ import annotations

from typing import Any

import pytest

from tests.surfaces.parity.manifest import proves
from tests.surfaces.parity.surfaces import Found, Surface, refused

THEME = "Dana prefers dark mode."
QUESTION = "Which theme does Dana like?"
ODD = "Zoë’s family 👩‍👩‍👧‍👦🏳️‍🌈 orders cafe\u0301 crème, says שלום and مرحبا, plays 𝄞 and writes 日本語."


def contents(found: list[Found]) -> list[str]:
    return [each.content for each in found]


@proves("recalled")
def test_what_is_remembered_is_recalled(connect: Surface) -> None:
    written = connect.remember(THEME, tag="preference")
    assert written.action == "added"
    assert connect.recall(QUESTION) == [Found(written.id, THEME)]


@proves("survives")
def test_a_kill_right_after_the_answer_loses_nothing(connect: Surface) -> None:
    written = connect.remember_then_kill(THEME)
    assert written.action == "added"
    assert connect.recall(QUESTION) == [Found(written.id, THEME)]
    assert connect.remember(THEME).id == written.id, "and it is known to be there"


@proves("duplicates")
@pytest.mark.parametrize("again", [THEME, "dana prefers  dark mode"], ids=["the same", "nearly the same"])
def test_the_same_said_again_is_a_duplicate(connect: Surface, again: str) -> None:
    first = connect.remember(THEME)
    second = connect.remember(again)
    assert second.action in (("duplicate",) if again == THEME else ("duplicate", "merged"))
    assert second.id == first.id
    assert second.reasons
    assert [each.id for each in connect.listed()] == [first.id]


@proves("changed")
def test_a_changed_fact_is_updated(connect: Surface) -> None:
    id = connect.remember("Dana lives in Rome.").id
    changed = connect.update(id, "Dana lives in Oslo.")
    assert (changed.action, changed.id) == ("updated", id)
    assert connect.recall("Where does Dana live?") == [Found(id, "Dana lives in Oslo.")]
    assert "Rome" not in connect.context("Where does Dana live?")


@proves("history")
def test_what_it_said_before_is_in_its_history(connect: Any) -> None:
    id = connect.remember("Dana lives in Rome.").id
    connect.update(id, "Dana lives in Oslo.")
    assert connect.history(id) == ["Dana lives in Rome.", "Dana lives in Oslo."]
    other = connect.another()
    refused(other, "unknown", other.history, id)


@proves("irrelevant")
def test_a_question_that_nothing_answers_gets_nothing(connect: Surface) -> None:
    connect.remember(THEME)
    assert connect.recall("What is the boiling point of tungsten?") == []
    assert connect.context("What is the boiling point of tungsten?") == ""


@proves("tags")
def test_a_tag_filters(connect: Surface) -> None:
    connect.remember("Dana feeds the cat at seven.", tag="pet")
    connect.remember("Dana feeds the build server at eight.", tag="work")
    assert contents(connect.recall("What does Dana feed?", tag="pet")) == ["Dana feeds the cat at seven."]
    assert contents(connect.recall("What does Dana feed?", tag="work")) == ["Dana feeds the build server at eight."]
    assert connect.recall("What does Dana feed?", tag="garden") == []
    assert len(connect.recall("What does Dana feed?")) == 2


@proves("limit")
def test_no_more_is_recalled_than_was_asked_for(connect: Surface) -> None:
    for pet in ("a cat called Miso", "a parrot called Jacques", "a tortoise called Ada"):
        connect.remember(f"Dana has {pet}.")
    assert [len(connect.recall("Which pets does Dana have?", limit=limit)) for limit in (1, 2, 3)] == [1, 2, 3]


@proves("limit-least")
def test_a_limit_below_one_is_refused(connect: Surface) -> None:
    said = refused(connect, "bad", connect.recall, QUESTION, limit=0)
    assert "limit is 0" in said
    assert "use a whole number from 1 to" in said


@proves("limit-most")
def test_a_limit_above_the_most_is_refused(connect: Surface) -> None:
    said = refused(connect, "large", connect.recall, QUESTION, limit=101)
    assert said == f"{connect.argument('limit')} is 101: use a whole number from 1 to 100."
    assert connect.recall(QUESTION, limit=100) == []


@proves("unicode")
def test_every_character_comes_back(connect: Surface) -> None:
    written = connect.remember(ODD)
    assert connect.recall("What does Zoë’s family order?") == [Found(written.id, ODD)]
    connect.update(written.id, ODD[::-1])
    assert connect.listed() == [Found(written.id, ODD[::-1])]


@proves("largest")
def test_a_long_text_is_recalled_by_its_passage(connect: Surface) -> None:
    text = "Dana counts sheep. " * 1700 + THEME + " Erik counts goats." * 1700
    written = connect.remember(text)
    assert written.action == "added"
    (hit,) = connect.recall("Does Dana prefer dark mode?")
    assert hit.id == written.id
    assert THEME in hit.content
    assert len(hit.content) <= 2000
    context = connect.context("Does Dana prefer dark mode?")
    assert THEME in context
    assert len(context) < 4000
    assert [each.id for each in connect.listed()] == [written.id]


@proves("empty")
@pytest.mark.parametrize("content", ["", " \n\t "], ids=["nothing", "only space"])
def test_empty_content_is_refused_with_what_to_do(connect: Surface, content: str) -> None:
    problem, _, remedy = refused(connect, "bad", connect.remember, content).partition(": ")
    assert "content" in problem
    assert len(remedy.split()) >= 4
    assert connect.listed() == []


@proves("together")
def test_twenty_writes_of_one_fact_leave_one_record(connect: Surface) -> None:
    written = connect.at_once(THEME, 20)
    assert len(written) == 20
    assert [each.action for each in written].count("added") == 1
    assert {each.action for each in written} == {"added", "duplicate"}
    assert connect.listed() == [Found(id, THEME) for id in {each.id for each in written}]
