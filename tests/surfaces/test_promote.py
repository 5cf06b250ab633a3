"""A memory moves between scopes with its history, and a hit says where it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import Conflict, NotFound, ServerError, ValidationError

PROJECT = {"agent": "project:github.com/acme/shop"}


def test_a_memory_moves_with_its_history_and_is_found_from_the_other_scope(memory: Memory) -> None:
    project = memory.with_scope(**PROJECT)
    id = str(project.remember("The user prefers npm.", occurred_at="2026-01-01T00:00:00Z").id)
    project.update(id, "The user prefers pnpm.", occurred_at="2026-02-01T00:00:00Z")
    receipt = project.promote(id, to={"agent": memory.scope.agent})
    assert (receipt.action, receipt.id, receipt.version) == ("updated", id, 2)
    assert project.get(id) is None
    moved = memory.get(id)
    assert moved is not None
    assert (moved.content, moved.scope) == ("The user prefers pnpm.", memory.scope)
    assert [version.content for version in memory.history(id)] == ["The user prefers npm.", "The user prefers pnpm."]
    hits = project.recall("Which package manager does the user prefer?", also=[memory.scope])
    assert [(hit.content, hit.record.scope) for hit in hits] == [("The user prefers pnpm.", memory.scope)]
    assert memory.demote(id, to=PROJECT).id == id
    assert (memory.get(id), len(project.history(id))) == (None, 2)
    actions = [(row.verb, row.action, row.id) for row in project.audit(limit=100)]
    assert ("import", "added", id) in actions
    assert any(verb == "forget" and moved_id == id for verb, _, moved_id in actions)


def test_what_cannot_be_moved(memory: Memory) -> None:
    project = memory.with_scope(**PROJECT)
    (said,) = memory.ingest([{"role": "user", "content": "We deploy on Fridays."}], session="one", extract=False)
    fact = str(memory.remember("The staging server is heron.", key="staging").id)
    project.remember("The staging server is crane.", key="staging")
    refused: list[tuple[str | None, Any, type[Exception], str]] = [
        (said.id, PROJECT, ValidationError, "stays in its conversation"),
        (fact, PROJECT, Conflict, "holds the key 'staging' already"),
        (fact, {"agent": memory.scope.agent}, ValidationError, "names the scope that the memory is in"),
        (fact, "team", ValidationError, "use a scope such as|should be a valid dictionary"),
        ("m_nothing", PROJECT, NotFound, "there is no record"),
    ]
    for id, to, error, words in refused:
        with pytest.raises(error, match=words):
            memory.promote(str(id), to=to)
    assert memory.get(fact) is not None


def test_a_move_that_was_interrupted_is_completed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    from keepstone.maintenance.forgetting import Eraser

    id = str(memory.remember("The user prefers pnpm.").id)
    with monkeypatch.context() as patch:
        patch.setattr(Eraser, "forget", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises((RuntimeError, ServerError)):
            memory.promote(id, to=PROJECT)
    assert memory.get(id) is not None, "stored there before it is erased here"
    memory.promote(id, to=PROJECT)
    assert memory.get(id) is None
    assert memory.with_scope(**PROJECT).get(id) is not None
