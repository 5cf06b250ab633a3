"""An id of another scope gets the response of an unknown id and leaves what that leaves; only the operator finds the request."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import Conflict, KeepstoneError, NotFound
from keepstone.ports.maintenance import Flag
from keepstone.ports.queue import JobDraft
from keepstone.types import FOREIGN_REQUESTS

ABSENT = "m_0000000000000000"
SCOPES = {"user": {"user": "eve"}, "agent": {"agent": "other"}, "tenant": {"tenant": "rivals", "user": "ada"}}
Ask = Callable[[Memory, str], Any]
ASKED: dict[str, Ask] = {
    "get": lambda memory, id: memory.get(id),
    "update": lambda memory, id: memory.update(id, "Eve has it now."),
    "update of importance": lambda memory, id: memory.update(id, importance=1.0),
    "update of a version": lambda memory, id: memory.update(id, "Eve has it now.", expected_version=99),
    "forget": lambda memory, id: memory.forget(id),
    "history": lambda memory, id: memory.history(id),
    "update_memory": lambda memory, id: memory.call_tool(
        "update_memory", {"id": id, "content": "Eve has it now.", "user": "ada"}
    ),
    "forget_memory": lambda memory, id: memory.call_tool("forget_memory", {"id": id}, allow_forget=True),
}
QUIET: dict[str, Ask] = {
    "why": lambda memory, id: memory.why("boat", id),
    "bring back": lambda memory, id: memory.upkeep.restore([id]),
    "recall": lambda memory, id: memory.recall(id, min_similarity=0).hits,
}
VERBS = {"update of importance": "update", "update of a version": "update", "update_memory": "get", "forget_memory": "forget"}


@pytest.fixture
def ada(path: Path) -> Iterator[Memory]:
    with Memory.open(path, tenant="harbour", user="ada") as memory:
        yield memory


@pytest.fixture
def id(ada: Memory) -> str:
    return ada.remember("Ada has a boat called Heron.", key="boat").id or ""


def answer(ask: Ask, memory: Memory, id: str) -> str:
    """What comes of asking, without the id itself."""
    try:
        told = repr(ask(memory, id))
    except KeepstoneError as error:
        told = f"{type(error).__name__}: {error}"
    return told.replace(id, "ID")


def operators(memory: Memory) -> Memory:
    """The log of requests for ids of others, which no key reaches."""
    return memory.with_scope(tenant=FOREIGN_REQUESTS.tenant, agent=FOREIGN_REQUESTS.agent, user=FOREIGN_REQUESTS.user)


def trail(memory: Memory) -> list[tuple[str, str, str | None]]:
    return [(row.verb, row.action, row.id) for row in memory.audit()]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("verb", [*ASKED, *QUIET])
def test_it_is_answered_like_an_absent_one(ada: Memory, id: str, verb: str, scope: str) -> None:
    other = ada.with_scope(**SCOPES[scope])
    ask = (ASKED | QUIET)[verb]
    assert answer(ask, other, id) == answer(ask, other, ABSENT)
    assert "Heron" not in answer(ask, other, id)
    record = ada.get(id)
    assert record is not None
    assert (record.content, record.version, record.importance) == ("Ada has a boat called Heron.", 1, 0.5)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("verb", ASKED)
def test_it_leaves_a_line_for_the_operator_and_nothing_for_whoever_asked(ada: Memory, id: str, verb: str, scope: str) -> None:
    before = trail(ada)
    other = ada.with_scope(**SCOPES[scope])
    answer(ASKED[verb], other, ABSENT)
    assert (trail(other), trail(operators(ada))) == ([], [])
    answer(ASKED[verb], other, id)
    assert trail(other) == [], "the same as for an absent one"
    rows = trail(operators(ada))
    assert (VERBS.get(verb, verb), "denied", id) in rows
    assert {row[1:] for row in rows} == {("denied", id)}
    assert trail(ada) == before
    assert "asked for ids of other scopes" in operators(ada).audit()[0].reasons[0]
    assert "Heron" not in repr(operators(ada).audit())
    assert other.audit.verify().whole
    assert ada.audit.verify().whole


def test_ones_own_ids_leave_no_such_line(ada: Memory, id: str) -> None:
    ada.get(id)
    ada.history(id)
    ada.forget(id)
    assert ada.get(id) is None
    assert {row.action for row in ada.audit()} == {"added", "forgotten"}


def test_the_line_is_there_after_the_store_was_closed(path: Path, ada: Memory, id: str) -> None:
    with Memory.open(path, tenant="harbour", user="eve") as eve:
        assert eve.get(id) is None
    with Memory.open(path, tenant="harbour", user="eve") as eve:
        assert trail(eve) == []
        assert trail(operators(eve)) == [("get", "denied", id)]


def test_many_questions_are_counted(ada: Memory) -> None:
    ids = [ada.remember(f"Ada keeps note {number} in drawer {number * 7}.", key=f"note{number}").id or "" for number in range(60)]
    eve = ada.with_scope(user="eve")
    for each in ids:
        assert eve.get(each) is None
        assert eve.get(ABSENT) is None
        with pytest.raises(NotFound):
            eve.history(each)
    rows = operators(ada).audit(limit=1000)
    assert 2 <= len(rows) <= 6
    assert sum(int(row.reasons[0].split(", ")[1].split()[0]) for row in rows) == 2 * len(ids)
    assert trail(eve) == []


def test_two_askers_are_kept_apart(ada: Memory, id: str) -> None:
    eve, omar = ada.with_scope(user="eve"), ada.with_scope(user="omar")
    eve.get(id)
    omar.get(ABSENT)
    assert trail(operators(ada)) == [("get", "denied", id)]
    assert "harbour/default/eve" in operators(ada).audit()[0].reasons[0]
    mine = eve.remember("Eve has a bicycle.").id or ""
    assert ada.get(mine) is None
    assert trail(operators(ada))[0] == ("get", "denied", mine)


def test_numbers_and_cursors_tell_nothing_of_others(ada: Memory) -> None:
    eve = ada.with_scope(user="eve", tenant="rivals")
    for at in range(3):
        eve.remember(f"Eve has bicycle {at}.", key=f"bicycle {at}")
        ada.remember_many([f"Ada keeps note {at} {other} in drawer {other * 7}." for other in range(5)])
    assert [row.number for row in eve.audit()] == [3, 2, 1]
    assert [row.number for row in eve.audit(limit=2)] == [3, 2]
    cursor = eve.list(limit=1).cursor or ""
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    assert len(raw) == 16
    assert not raw.startswith(b"[")
    assert len({each[:4] for each in (raw, raw[8:])}) == 2
    assert [record.key for record in eve.list(limit=2, cursor=cursor)] == ["bicycle 1", "bicycle 0"]


def test_numbers_of_reviews_jobs_and_tickets_tell_nothing_of_others(ada: Memory, tmp_path: Path) -> None:
    """The same work in a scope gives the same numbers, however much others do in between, and they work."""

    def work(memory: Memory, between: Callable[[], None]) -> dict[str, list[int]]:
        store = memory._engine.store
        for at in range(2):
            between()
            fact = memory.remember(f"Eve has bicycle {at}.", key=f"bicycle {at}").id or ""
            old = memory.remember(f"Eve rented boat {at} in 2019.", ttl=0.001).id or ""
            store.jobs.add(memory.scope, JobDraft("learn", f"s{at}", datetime.now(UTC)), [fact])
            store.reviews.add(memory.scope, [Flag(fact, "stale", "it is old")])
            while not memory.upkeep.lapse().ids:
                assert memory.get(old) is not None
        between()
        exported = tmp_path / f"{memory.scope.user}.jsonl"
        memory.export(exported, everything=True)
        rows = [json.loads(line) for line in exported.read_text().splitlines()]
        return {
            "reviews": [item.number for item in memory.review],
            "listed": [item.number for item in memory.review.list(after=memory.review.list(limit=1)[0].number)],
            "jobs": [job.number for job in memory.jobs.list()],
            "tickets": [archived.ticket for archived in memory.upkeep.archived()],
            **{what: [row["number"] for row in rows if row["what"] == what] for what in ("job", "review", "audit")},
        }

    eve, omar = ada.with_scope(user="eve"), ada.with_scope(user="omar")
    alone = work(eve, lambda: None)
    notes = itertools.count()
    amid = work(omar, lambda: [ada.remember(f"Ada keeps note {next(notes)}.", key=f"note {at}") for at in range(3)] and None)
    assert amid == alone
    assert max(alone["audit"]) == len(alone["audit"])
    assert omar.review.resolve(amid["reviews"][1], "keep").id == omar.get(key="bicycle 1").id
    assert [item.number for item in omar.review] == amid["reviews"][:1]
    omar.jobs.drop(amid["jobs"][0])
    assert [job.number for job in omar.jobs.list()] == amid["jobs"][1:]
    assert len(omar.upkeep.undo(amid["tickets"][0])) == 1
    for refused in (lambda: omar.review.resolve(10**6, "keep"), lambda: omar.jobs.drop(10**6)):
        with pytest.raises(NotFound):
            refused()


def test_keys_sessions_and_idempotency_keys_are_not_shared(ada: Memory, id: str) -> None:
    eve = ada.with_scope(user="eve")
    ada.conversation("talk").add("user", "Ada speaks here.")
    ada.remember("Ada once.", idempotency_key="once")
    assert eve.value("boat") is None
    assert len(eve.conversation("talk")) == 0
    assert eve.remember("Eve once.", idempotency_key="once").action == "added"
    with pytest.raises(Conflict):
        ada.remember("Ada twice.", idempotency_key="once")
    with pytest.raises(NotFound):
        eve.forget(key="boat")
    assert eve.forget(session="talk").forgotten == 0
    assert eve.forget(source="user:ada").forgotten == 0
    assert ada.value("boat") == "Ada has a boat called Heron."
    assert len(ada.conversation("talk")) == 1


def test_a_foreign_parent_gives_no_hold_on_a_record(ada: Memory, id: str, tmp_path: Path) -> None:
    """An import that names another scope's record as a parent neither reads nor erases it."""
    eve = ada.with_scope(user="eve")
    eve.remember("Eve has a bicycle.")
    eve.export(tmp_path / "eve.jsonl")
    line = (tmp_path / "eve.jsonl").read_text().replace('"parents": []', f'"parents": ["{id}"]')
    (tmp_path / "eve.jsonl").write_text(line)
    eve.forget(everything=True)
    assert eve.import_(tmp_path / "eve.jsonl").added == 1
    eve.forget(everything=True)
    assert ada.get(id) is not None


def test_an_import_with_a_foreign_id_makes_a_record_of_ones_own(ada: Memory, id: str, tmp_path: Path) -> None:
    eve = ada.with_scope(user="eve")
    eve.remember("Eve has a bicycle.", key="boat")
    eve.export(tmp_path / "eve.jsonl")
    mine = eve.list()[0].id
    (tmp_path / "eve.jsonl").write_text((tmp_path / "eve.jsonl").read_text().replace(mine, id))
    eve.forget(everything=True)
    eve.import_(tmp_path / "eve.jsonl")
    record = ada.get(id)
    assert record is not None
    assert record.content == "Ada has a boat called Heron."
    assert all(each.content == "Eve has a bicycle." for each in eve.list())
