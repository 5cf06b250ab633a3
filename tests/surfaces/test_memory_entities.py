"""Who and what the memories name, and the scopes of a tenant."""

from __future__ import annotations

import pytest

from keepstone import Memory
from keepstone.errors import ValidationError

FACTS = (
    "My sister Ana moved to New York for the Atlas project.",
    "Ana lives in Porto.",
    "Marta and Ana met in Porto.",
    "Dana is allergic to nuts.",
    "The staging cluster runs in Frankfurt.",
    "Coffee is what I drink, so buy coffee.",
)


def test_memories_name_people_places_projects_and_topics(memory: Memory) -> None:
    for fact in FACTS:
        memory.remember(fact)
    memory.ingest([{"role": "user", "content": "good morning", "name": "Ada"}], session="s")
    found = {entity.name: entity for entity in memory.entities()}
    kinds = {name: entity.kind for name, entity in found.items()}
    assert kinds == {
        "Ana": "person", "Ada": "person", "Porto": "place", "New York": "place", "Frankfurt": "place", "Atlas": "project",
        "staging cluster": "topic", "Marta": "topic", "Dana": "topic",
    }  # fmt: skip
    assert next(iter(found)) == "Ana"
    assert found["Ana"].memories == 3
    assert found["Ana"].related[0] == ("Porto", 2)
    texts = {record.content for id in found["Ana"].ids if (record := memory.get(id)) is not None}
    assert texts == set(FACTS[:3])


def test_entities_are_selected_by_kind_and_limit(memory: Memory) -> None:
    for fact in FACTS:
        memory.remember(fact)
    assert [entity.name for entity in memory.entities(kind="place")] == ["Porto", "Frankfurt", "New York"]
    assert len(memory.entities(limit=2)) == 2
    with pytest.raises(ValidationError, match="person, place, project, topic"):
        memory.entities(kind="animal")


def test_what_was_forgotten_is_no_longer_named(memory: Memory) -> None:
    id = memory.remember("Ana lives in Porto.").id
    memory.forget(id)
    assert not memory.entities()


def test_the_scopes_of_a_tenant_are_listed_with_their_counts(memory: Memory) -> None:
    memory.remember("Nobody in particular.")
    dana, twin = memory.with_scope(user="Dana"), memory.with_scope(user="da na")
    dana.remember("Dana likes tea.")
    dana.ingest([{"role": "user", "content": "Good morning"}], session="s", extract=False)
    twin.remember("Dana likes coffee.")
    gone = memory.with_scope(user="gone")
    gone.forget(gone.remember("It was here.").id)
    found = {each.scope.user: each for each in memory.scopes()}
    assert list(found) == ["", "Dana", "da na", "gone"]
    assert (found["Dana"].memories, found["Dana"].messages, found["Dana"].sessions) == (1, 1, 1)
    assert found["Dana"].bytes == len("Dana likes tea.") + len("Good morning")
    assert (found["gone"].memories, found["gone"].bytes) == (0, 0)
    assert found["Dana"].resembles == (found["da na"].scope,)
    assert found["da na"].resembles == (found["Dana"].scope,)
    assert found[""].resembles == ()
    assert all(each.last_activity is not None for each in found.values())


def test_ids_can_be_listed_by_their_beginning(memory: Memory) -> None:
    ids = [memory.remember(fact).id or "" for fact in FACTS]
    assert [record.id for record in memory.list(prefix=ids[0][:8])] == [ids[0]]
    assert len(memory.list(prefix="m_")) == len(ids)
    assert not memory.list(prefix="%")
    assert not memory.list(prefix="M_")
