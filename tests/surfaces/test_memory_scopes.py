"""One scope never reaches another, whichever way it is tried: the answers are those for what does not exist."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Scope
from keepstone.errors import NotFound, ValidationError
from tests.surfaces.support import contents, everything

SECRET = "Dana's locker combination is 31-07-22."


@pytest.fixture
def dana(path: Path) -> Iterator[Memory]:
    """Dana's memory, with something in every corner of it."""
    with Memory.open(path, user="dana") as memory:
        memory.remember(SECRET, idempotency_key="req-1", metadata={"private": True}, session="s1")
        memory.remember("Dana's locker is red.")
        memory.set("pin", "4711", tag="codes")
        memory.set("pin", "4712", tag="codes")
        memory.ingest([{"role": "user", "content": "The combination is 31-07-22."}], session="s1")
        yield memory


OTHERS: dict[str, dict[str, str]] = {
    "another user": {"user": "mei"}, "another agent": {"agent": "helper"}, "another tenant": {"tenant": "acme"},
    "no user": {"user": ""},
    "upper case": {"user": "Dana"}, "homoglyph": {"user": "dаna"}, "blank behind": {"user": "dana "},
    "zero width": {"user": "dana\u200b"},
    "reordered": {"user": "\u202eanad"}, "full width": {"user": "ｄａｎａ"}, "wildcard": {"user": "%"}, "star": {"user": "*"},
    "syntax": {"user": "dana' OR '1'='1"}, "glued": {"agent": "defaultdana", "user": ""}, "null": {"user": "NULL"},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_seen_from_another_scope(dana: Memory, name: str, tmp_path: Path) -> None:
    other = dana.with_scope(**OTHERS[name])
    foreign = everything(dana)
    dana.recall("What is the locker combination?")
    for written in (False, True):  # before the scope exists in the store, and after
        if written:
            other.remember("A fact of my own.")
        own = ["A fact of my own."] if written else []
        for query in ("What is the locker combination?", "", SECRET, "pin 4711"):
            assert contents(other.recall(query, min_similarity=0, limit=100)) == own
            assert contents(other.recall(query, min_similarity=0, as_of="2100-01-01")) == own
            assert contents(other.recall(query, min_similarity=0, filter={"not": {"x": 1}})) == own
            assert "31-07" not in other.context(query)
        assert contents(other.list(limit=100)) == own
        assert contents(other.list(filter={"or": [{"private": True}, {"private": {"exists": False}}]})) == own
        assert not other.recall("x", min_similarity=0, session="s1")
        assert other.value("pin", "absent") == "absent"
        assert other.value(tag="codes") == {}
        assert other.export(tmp_path / "theirs.jsonl") == len(own)
        assert "31-07" not in (tmp_path / "theirs.jsonl").read_text("utf-8")
        assert len(other.audit()) == len(own)
        assert not {row.id for row in other.audit()} & {record.id for record in foreign}
        assert other.forget(source="user").forgotten == len(own)
    assert [record.id for record in everything(dana)] == [record.id for record in foreign]


def outcome(call: Callable[[], Any], id: str) -> tuple[str, str]:
    """What a call gave, with the id taken out of the text."""
    try:
        return "value", repr(call()).replace(id, "ID")
    except Exception as error:
        return type(error).__name__, str(error).replace(id, "ID")


@pytest.mark.parametrize("name", ["another user", "another tenant", "homoglyph"])
def test_a_foreign_id_gives_the_same_answer_as_an_absent_one(dana: Memory, name: str) -> None:
    other = dana.with_scope(**OTHERS[name])
    other.remember("A fact of my own.")
    before = [(record, dana.history(record.id)) for record in everything(dana)]
    verbs: list[Callable[[str], Any]] = [
        lambda id: other.get(id),
        lambda id: other.history(id),
        lambda id: other.update(id, "mine now"),
        lambda id: other.update(id, importance=1.0),
        lambda id: other.update(id, metadata={}, expected_version=1),
        lambda id: other.forget(id),
        lambda id: other.why("locker", id),
        lambda id: other.why("locker", id),
    ]
    absent = "m_0000000000000000"
    for record in everything(dana):
        for verb in verbs:
            assert outcome(lambda verb=verb, id=record.id: verb(id), record.id) == outcome(lambda verb=verb: verb(absent), absent)
    with pytest.raises(NotFound):
        other.forget(key="pin")
    assert other.forget(session="s1").forgotten == 0
    assert [(record, dana.history(record.id)) for record in everything(dana)] == before
    assert contents(everything(other)) == ["A fact of my own."]


def test_deduplication_and_merging_stay_within_a_scope(dana: Memory) -> None:
    mei = dana.with_scope(user="mei")
    for text in (SECRET, "Dana's locker is really red."):
        receipt = mei.remember(text)
        assert (receipt.action, receipt.reasons) == ("added", ())
    assert mei.set("pin", "4712").action == "added"
    assert mei.value("pin") == "4712"
    assert dana.remember(SECRET).action == "duplicate"
    dana.forget(everything=True)
    assert len(everything(mei)) == 3


def test_idempotency_keys_belong_to_a_scope(dana: Memory) -> None:
    mei = dana.with_scope(user="mei")
    receipt = mei.remember("Another body under the same key", idempotency_key="req-1")
    assert receipt.action == "added"
    assert mei.get(receipt.id or "") is not None
    assert mei.remember("Another body under the same key", idempotency_key="req-1") == receipt


def test_forgetting_everything_wipes_one_scope_only(dana: Memory) -> None:
    others = [
        dana.with_scope(user="mei"),
        dana.with_scope(user=""),
        dana.with_scope(agent="helper"),
        dana.with_scope(tenant="acme"),
    ]
    for other in others:
        other.remember("mine", key="k")
        other.remember(SECRET)
    assert dana.forget(everything=True).forgotten == 4
    assert not everything(dana)
    assert not dana.recall("locker", min_similarity=0)
    for other in others:
        assert sorted(contents(everything(other))) == [SECRET, "mine"]
        assert contents(other.recall("locker combination", limit=1)) == [SECRET]
    nobody = dana.with_scope(user="nobody")
    assert nobody.forget(everything=True).forgotten == 0
    assert dana.upkeep.doctor().healthy


@pytest.mark.parametrize("part", ["tenant", "agent", "user"])
@pytest.mark.parametrize("value", [" ", "\t", "a\0", "\ud800", "a\nb", "x" * 257, 5, b"x", ["dana"], {"$ne": ""}], ids=range(10))
def test_scopes_that_cannot_be(memory: Memory, path: Path, part: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=part):
        memory.with_scope(**{part: value})
    with pytest.raises(ValidationError, match=part):
        Memory.open(path, **{part: value})
    with pytest.raises(ValidationError, match=part):
        Scope(**{part: value})


@pytest.mark.parametrize("part", ["tenant", "agent"])
def test_an_empty_tenant_or_agent_is_refused(memory: Memory, part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        memory.with_scope(**{part: ""})


def test_one_name_in_two_unicode_forms_is_one_user(memory: Memory) -> None:
    memory.with_scope(user="Zoe\u0308").remember("composed or not")
    assert contents(memory.with_scope(user="Zo\u00eb").list()) == ["composed or not"]
    assert not memory.with_scope(user="Zoe").list()
    assert memory.with_scope(user="Zoe\u0308").scope == Scope(user="Zo\u00eb")


def test_parts_of_a_scope_do_not_run_together(memory: Memory) -> None:
    parts = [
        ("a", "b", "c"),
        ("ab", "c", ""),
        ("a", "bc", ""),
        ("a", "b/c", ""),
        ("a/b", "c", ""),
        ("a", "b", ""),
        ("c", "b", "a"),
    ]
    for tenant, agent, user in parts:
        memory.with_scope(tenant=tenant, agent=agent, user=user).remember(f"{tenant}|{agent}|{user}")
    for tenant, agent, user in parts:
        assert contents(memory.with_scope(tenant=tenant, agent=agent, user=user).list()) == [f"{tenant}|{agent}|{user}"]


# -- cursors ------------------------------------------------------------------------------------------------------
def test_a_cursor_serves_its_own_scope_and_query_only(dana: Memory, tmp_path: Path) -> None:
    mei = dana.with_scope(user="mei")
    for memory in (dana, mei):
        memory.remember_many([{"content": f"fact {at}", "tag": "t", "metadata": {"n": at}} for at in range(10)])
    cursor = dana.list(limit=3).cursor
    assert cursor is not None
    assert len(dana.list(limit=5, cursor=cursor)) == 5, "the size of a page may change"
    tries: list[Callable[[], Any]] = [
        lambda: mei.list(limit=3, cursor=cursor),
        lambda: dana.list(limit=3, tag="t", cursor=cursor),
        lambda: dana.list(limit=3, kind="fact", cursor=cursor),
        lambda: dana.list(limit=3, filter={"n": 1}, cursor=cursor),
        lambda: dana.with_scope(agent="x").list(cursor=cursor),
        *(
            lambda bad=bad: dana.list(cursor=bad)
            for bad in ("", "x", "AAAA", cursor[:-1], cursor + "A", cursor[::-1], "../x", "\0", "é", 5, b"x")
        ),
    ]
    for call in tries:
        with pytest.raises(ValidationError, match="cursor"):
            call()
    with Memory.open(tmp_path / "other.db", user="dana") as elsewhere:
        elsewhere.remember_many([f"fact {at}" for at in range(10)])
        with pytest.raises(ValidationError, match="cursor"):
            elsewhere.list(limit=3, cursor=cursor)


def test_a_cursor_of_deep_json_is_refused(dana: Memory) -> None:
    with pytest.raises(ValidationError, match="cursor"):
        dana.list(cursor=base64.urlsafe_b64encode(b"[" * 100_000).decode())


def test_pages_give_every_record_once(dana: Memory) -> None:
    dana.with_scope(user="mei").remember_many([f"noise {at}" for at in range(50)])
    dana.remember_many([f"fact {at}" for at in range(47)])
    seen: list[str] = []
    cursor = None
    while True:
        page = dana.list(limit=7, cursor=cursor)
        seen += contents(page)
        dana.remember(f"written meanwhile {len(seen)}")
        if (cursor := page.cursor) is None:
            break
    assert seen[:47] == [f"fact {at}" for at in reversed(range(47))]
    assert len(seen) == len(set(seen)) == 51


# -- many at once -------------------------------------------------------------------------------------------------
def test_fifty_users_on_sixteen_threads_never_mix(path: Path) -> None:
    users = [f"user{at:02}" for at in range(50)]
    with Memory.open(path, settings={"durable": False, "cache_mb": 1}) as root:
        memories = {user: root.with_scope(user=user) for user in users}
        for user, memory in memories.items():
            memory.remember(f"The password of {user} is swordfish.", key="password", idempotency_key="setup")

        def work(number: int) -> list[str]:
            chance = random.Random(number)
            leaks: list[str] = []
            for turn in range(40):
                user = chance.choice(users)
                memory = memories[user]
                match turn % 5:
                    case 0:
                        memory.remember(f"Note {number}.{turn} of {user}.", metadata={"owner": user})
                    case 1:
                        seen = memory.recall("What is the password?", limit=100, min_similarity=0)
                        leaks += [hit.content for hit in seen if user not in hit.content or hit.record.scope.user != user]
                        leaks += [] if len(seen) else [f"{user} finds nothing"]
                    case 2:
                        leaks += [record.content for record in memory.list(limit=100) if user not in record.content]
                    case 3:
                        leaks += [] if user in memory.value("password", "") else [f"{user} has no password"]
                    case _:
                        block = memory.context("password")
                        leaks += [other for other in users if other != user and other in block]
            return leaks

        with ThreadPoolExecutor(16) as threads:
            assert [leak for leaks in threads.map(work, range(16)) for leak in leaks] == []
        for user, memory in memories.items():
            assert all(user in record.content for record in everything(memory))
            assert all(hit.record.access_count >= 0 for hit in memory.recall("password"))
        assert sum(len(everything(memory)) for memory in memories.values()) == 50 + 16 * 8
        assert root.upkeep.doctor().healthy


def test_a_scope_that_was_rolled_back_is_not_remembered(memory: Memory) -> None:
    ghost = memory.with_scope(user="ghost")
    with pytest.raises(NotFound):
        ghost.update("m_absent", "x")
    memory.with_scope(user="next").remember("of the next")
    assert not ghost.recall("of the next", min_similarity=0)
    assert ghost.remember("of the ghost").action == "added"
    assert contents(ghost.list()) == ["of the ghost"]
    assert contents(memory.with_scope(user="next").list()) == ["of the next"]


def test_leaving_one_scope_does_not_close_the_others(memory: Memory) -> None:
    with memory.with_scope(user="mei") as mei:
        mei.remember("x")
    assert not memory.list()
