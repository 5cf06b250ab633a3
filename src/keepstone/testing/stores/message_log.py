"""What the message log promises: messages in the order of arrival, with their blocks exactly as they were."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from keepstone.ports.queue import Session
from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    add,
    add_id,
    at,
    contents,
    draft,
    present,
    wording,
)
from keepstone.types import Scope

LOOK = [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "1", "name": "clock", "input": {}}]


def say(store: Store, *said: str, scope: Scope = HOME, session: str | None = "s", **rest: Any) -> list[int]:
    """Write messages in one go; their sequences."""
    receipts = store.write(scope, [Write(draft(text, kind="message", session=session, **rest)) for text in said])
    return [at(store, receipt.id or "", scope) for receipt in receipts]


def heard(store: Store, session: str | None, scope: Scope = HOME, **bounds: Any) -> list[str]:
    """What a page says, in its order."""
    return [record.content for _, record in store.message_log.page(scope, session, **bounds)]


def with_blocks(store: Store, blocks: list[Any], content: str = "Let me look.") -> str:
    """Write a message that has blocks; its id."""
    packed = json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))
    return add_id(store, content, kind="message", session="s", role="assistant", blocks=packed)


class MessageLogContract(NeedsStore):
    def test_messages_of_other_scopes_are_never_seen(self, bound: Store) -> None:
        say(bound, "mine")
        say(bound, "theirs", scope=AWAY)
        nobody = Scope("local", "default", "nobody")
        assert heard(bound, "s") == heard(bound, None) == ["mine"]
        assert heard(bound, "s", AWAY) == heard(bound, None, AWAY) == ["theirs"]
        assert heard(bound, "s", nobody) == heard(bound, None, nobody) == []
        assert [bound.message_log.count(scope, "s") for scope in (HOME, AWAY, nobody)] == [1, 1, 0]
        assert [len(bound.message_log.sessions(scope)) for scope in (HOME, AWAY, nobody)] == [1, 1, 0]

    def test_sessions_with_the_newest_message_first(self, bound: Store) -> None:
        say(bound, "a1", session="a", occurred_at=NOON + timedelta(days=9))
        say(bound, "b1", session="b", occurred_at=NOON)
        say(bound, "a2", session="a", occurred_at=NOON - timedelta(days=9))
        say(bound, "loose", session=None)
        add(bound, "a fact", session="facts only")
        a = Session("a", 2, NOON - timedelta(days=9), NOON + timedelta(days=9))
        b = Session("b", 1, NOON, NOON)
        assert bound.message_log.sessions(HOME) == [a, b]
        assert bound.message_log.sessions(HOME, 1) == [a]
        say(bound, "b2", session="b", occurred_at=NOON)
        assert [each.name for each in bound.message_log.sessions(HOME)] == ["b", "a"]
        bound.forget(HOME, Selector(session="b"))
        assert bound.message_log.sessions(HOME) == [a]

    def test_forgetting_the_messages_of_a_session_keeps_its_facts(self, bound: Store) -> None:
        say(bound, "I live in Rome", "and you?")
        fact = add_id(bound, "lives in Rome", session="s")
        say(bound, "elsewhere", session="t")
        assert bound.forget(HOME, Selector(session="s", kind="message")).forgotten == 2
        assert (heard(bound, None), present(bound, fact).content) == (["elsewhere"], "lives in Rome")
        assert bound.forget(HOME, Selector(session="s", kind="message")).forgotten == 0
        assert bound.forget(HOME, Selector(everything=True, kind="message")).forgotten == 1
        assert bound.forget(HOME, Selector(id=fact, kind="message")).forgotten == 0
        assert contents(bound) == ["lives in Rome"]

    def test_blocks_go_when_the_content_changes(self, bound: Store) -> None:
        id = with_blocks(bound, LOOK)
        assert bound.revise(HOME, id, wording("I looked.")).action == "updated"
        assert (present(bound, id).content, present(bound, id).blocks) == ("I looked.", None)
        bound.revise(HOME, id, wording("Let me look."))
        assert present(bound, id).blocks is None, "blocks of an older wording are not to come back"

    def test_blocks_stay_when_the_content_does(self, bound: Store) -> None:
        id = with_blocks(bound, LOOK)
        for revision in (Revision(importance=0.9), Revision(metadata={"a": 1}), wording("Let me look.", importance=0.8)):
            assert bound.revise(HOME, id, revision).action == "updated"
            assert present(bound, id).blocks == tuple(LOOK), revision
        assert bound.revise(HOME, id, wording("Let me look.")).action == "duplicate"
        assert present(bound, id).blocks == tuple(LOOK)

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_messages_agree_with_a_scan(self, bound: Store, seed: int) -> None:
        """What has expired or was forgotten is nowhere; steps and what is in quarantine are in their own session alone."""
        chance = Random(seed)
        names = ("a", "b", "long name ' ; --", None)
        seen: list[tuple[int, str | None, bool]] = []  # sequence, session, hidden from those of all sessions
        for number in range(80):
            kind = chance.choice(("message", "message", "message", "fact"))
            session = chance.choice(names)
            tag = chance.choice(("general", "general", "step"))
            status = chance.choice(("active",) * 5 + ("quarantined",))
            expires = chance.choice((None, None, None, LONG_AGO))
            when = NOON - timedelta(days=chance.randrange(100))
            made: dict[str, Any] = {
                "kind": kind,
                "session": session,
                "tag": tag,
                "status": status,
                "expires_at": expires,
                "occurred_at": when,
            }
            id = add(bound, f"text {number}", **made).id or ""
            if kind == "message" and expires is None:
                seen.append((at(bound, id), session, tag == "step" or status == "quarantined"))
                if chance.random() < 0.1:
                    bound.forget(HOME, Selector(id=id))
                    seen.pop()
        for session in (*names, "A", "", "%"):
            mine = [each[0] for each in seen if (not each[2] if session is None else each[1] == session)]
            for after in (0, *mine):
                assert bound.message_log.count(HOME, session, after=after) == sum(sequence > after for sequence in mine)
            for _ in range(10):
                after, before = sorted(chance.choices(range(seen[-1][0] + 9), k=2))
                limit = chance.choice((1, 2, 5, 100))
                between = [sequence for sequence in mine if after < sequence < before]
                for oldest, wanted in ((False, between[-limit:]), (True, between[:limit])):
                    page = bound.message_log.page(HOME, session, after=after, before=before, limit=limit, oldest=oldest)
                    assert [sequence for sequence, _ in page] == wanted, (session, after, before, limit, oldest)
        told = Counter(session for _, session, hidden in seen if session is not None and not hidden)
        last = {session: sequence for sequence, session, hidden in seen if session is not None and not hidden}
        expected = [(name, told[name]) for name in sorted(last, key=lambda name: -last[name])]
        assert [(each.name, each.messages) for each in bound.message_log.sessions(HOME)] == expected
