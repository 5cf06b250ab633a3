"""Sources and sessions of what is written through Memory: the trust they give, and forgetting all that came from one."""

from __future__ import annotations

from keepstone import Memory
from tests.surfaces.support import contents, everything


def test_trust_follows_from_the_source(memory: Memory) -> None:
    sources = ["system", "user", "agent", "tool:shell", "web:https://example.org"]
    trusts = [
        memory.get(memory.remember(f"Fact {at}", source=source).id or "").trust  # type: ignore[union-attr]
        for at, source in enumerate(sources)
    ]
    assert trusts == sorted(trusts, reverse=True)
    assert len(set(trusts)) == len(trusts)


def test_all_that_came_from_a_source_can_be_forgotten(memory: Memory) -> None:
    memory.remember("From the first page", source="web:https://a.example/1")
    memory.remember("From the other page", source="web:https://b.example/2")
    memory.remember("Said by the user", source="user")
    memory.remember("Said by the webmaster", source="webmaster")
    assert memory.forget(source="web:https://a.example/1").forgotten == 1
    assert memory.forget(source="web").forgotten == 1
    assert memory.forget(source="web").forgotten == 0
    assert sorted(contents(everything(memory))) == ["Said by the user", "Said by the webmaster"]


def test_forgetting_a_source_reaches_the_past_of_a_key(memory: Memory) -> None:
    id = memory.remember("planted by a page", key="bank", source="web:https://a.example").id or ""
    memory.remember("the user's own", key="bank", source="user")
    memory.forget(source="web")
    assert contents(memory.history(id)) == ["the user's own"]


def test_forgetting_a_source_gives_the_key_back_to_the_user(memory: Memory) -> None:
    memory.remember("the user's own", key="bank", source="user")
    memory.remember("planted by a page", key="bank", source="web:https://a.example")
    memory.forget(source="web")
    assert memory.value("bank") == "the user's own"


def test_a_fact_belongs_to_the_session_in_which_it_was_first_said(memory: Memory) -> None:
    id = memory.remember("The wedding is in June.", session="monday").id or ""
    again = memory.remember("The wedding is in June.", session="tuesday")
    assert (again.action, again.id) == ("duplicate", id)
    assert memory.forget(session="tuesday").forgotten == 0
    assert memory.forget(session="monday").ids == (id,)


def test_a_source_gains_no_trust_by_its_spelling(memory: Memory) -> None:
    trusts = [
        memory.get(memory.remember(f"Fact {at}", source=source).id or "").trust  # type: ignore[union-attr]
        for at, source in enumerate(["web:https://a.example", "Web:https://a.example", "webpage:https://a.example"])
    ]
    assert max(trusts) == trusts[0]


def test_a_less_trusted_source_never_rewords_a_more_trusted_record(memory: Memory) -> None:
    said = memory.remember("Dana prefers dark mode.", source="user")
    read = memory.remember("Dana really prefers the dark mode.", source="web:https://example.org")
    assert (read.action, read.id != said.id) == ("added", True)
    record = memory.get(said.id or "")
    assert record is not None
    assert (record.content, record.version, record.source) == ("Dana prefers dark mode.", 1, "user")


def test_what_the_user_said_too_does_not_go_with_the_web_page(memory: Memory) -> None:
    memory.remember("The pool opens at nine.", source="web:https://example.org")
    memory.remember("The pool opens at nine.", source="user")
    assert contents(memory.recall("When does the pool open?", min_trust=0.5)) == ["The pool opens at nine."]
    memory.forget(source="web")
    assert contents(everything(memory)) == ["The pool opens at nine."]
