"""What `neighbours` promises: the messages around a message in its session, against a model that scans everything."""

from __future__ import annotations

from random import Random

import pytest

from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import AWAY, HOME, NeedsStore, add, add_id, at, draft, wording

Placed = dict[int, tuple[str, str | None]]  # sequence -> kind and session


def around(placed: Placed, asked: list[int], reach: int) -> list[int]:
    """The rule, on plain values."""
    found: set[int] = set()
    for sequence in asked:
        kind, session = placed.get(sequence, ("", None))
        if kind != "message" or session is None:
            continue
        chain = sorted(other for other, place in placed.items() if place == ("message", session))
        place = chain.index(sequence)
        found.update(chain[max(0, place - reach) : place], chain[place + 1 : place + 1 + reach])
    return sorted(found)


def talk(store: Store, session: str, count: int, **rest: object) -> list[int]:
    """Write so many messages; their sequences."""
    said = [Write(draft(f"{session} {number}", kind="message", session=session, **rest)) for number in range(count)]
    return [at(store, receipt.id or "") for receipt in store.write(HOME, said)]


class NeighboursContract(NeedsStore):
    def test_neighbours_stand_on_either_side(self, bound: Store) -> None:
        said = talk(bound, "s", 7)
        assert bound.neighbours(HOME, [said[3]], 2) == [said[1], said[2], said[4], said[5]]
        assert bound.neighbours(HOME, [said[3]], 1) == [said[2], said[4]]
        assert bound.neighbours(HOME, [said[0]], 2) == said[1:3]
        assert bound.neighbours(HOME, [said[6]], 2) == said[4:6]
        assert bound.neighbours(HOME, [said[3]], 100) == [*said[:3], *said[4:]]
        assert bound.neighbours(HOME, [said[3]], 0) == []

    def test_neighbours_of_several_are_told_once_and_ascending(self, bound: Store) -> None:
        said = talk(bound, "s", 6)
        assert bound.neighbours(HOME, [said[4], said[1], said[2]], 1) == [said[0], said[1], said[2], said[3], said[5]]
        assert bound.neighbours(HOME, [said[1], said[1]], 1) == [said[0], said[2]]
        assert bound.neighbours(HOME, [], 2) == []

    def test_sessions_that_take_turns_are_kept_apart(self, bound: Store) -> None:
        turns = [(session, talk(bound, session, 1)[0]) for session in "abaabbab"]
        mine = [sequence for session, sequence in turns if session == "a"]
        assert bound.neighbours(HOME, [mine[1]], 2) == [mine[0], mine[2], mine[3]]

    def test_facts_and_messages_of_no_session_neither_have_nor_are_neighbours(self, bound: Store) -> None:
        first = talk(bound, "s", 1)
        fact = at(bound, add_id(bound, "a fact of the session", session="s"))
        loose = [at(bound, add_id(bound, f"loose {number}", kind="message")) for number in range(3)]
        second = talk(bound, "s", 1)
        assert bound.neighbours(HOME, [fact, *loose], 5) == []
        assert bound.neighbours(HOME, first, 5) == second

    def test_records_that_nobody_has_are_passed_over(self, bound: Store) -> None:
        said = talk(bound, "s", 2)
        assert bound.neighbours(HOME, [said[0], 10**12, 0, -1], 1) == [said[1]]

    def test_another_scope_sees_none_of_it(self, bound: Store) -> None:
        here = talk(bound, "s", 2)
        there = at(bound, add_id(bound, "elsewhere", AWAY, kind="message", session="s"), AWAY)
        assert bound.neighbours(AWAY, here, 5) == []
        assert bound.neighbours(AWAY, [there], 5) == []
        assert bound.neighbours(HOME, [here[0]], 5) == [here[1]]

    def test_messages_that_are_forgotten_close_the_gap(self, bound: Store) -> None:
        said = talk(bound, "s", 4)
        second = bound.fetch(HOME, [said[1]])[0]
        assert second is not None
        bound.forget(HOME, Selector(id=second.id))
        assert bound.neighbours(HOME, [said[0]], 1) == [said[2]]
        assert bound.neighbours(HOME, [said[1]], 1) == []
        bound.forget(HOME, Selector(session="s"))
        assert bound.neighbours(HOME, said, 3) == []

    def test_messages_that_change_stay_where_they_are(self, bound: Store) -> None:
        said = talk(bound, "s", 3)
        middle = bound.fetch(HOME, [said[1]])[0]
        assert middle is not None
        bound.revise(HOME, middle.id, wording("quite other words"))
        bound.revise(HOME, middle.id, Revision(importance=0.9))
        assert bound.neighbours(HOME, [said[1]], 1) == [said[0], said[2]]
        assert bound.neighbours(HOME, [said[0]], 1) == [said[1]]

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_neighbours_agree_with_a_scan(self, bound: Store, seed: int) -> None:
        chance = Random(seed)
        placed: Placed = {}
        for number in range(60):
            kind = chance.choice(("message", "message", "fact"))
            session = chance.choice(("a", "b", "long name ' ; --", None))
            status = chance.choice(("active", "active", "quarantined"))
            receipt = add(bound, f"text {number}", kind=kind, session=session, status=status)
            placed[at(bound, receipt.id or "")] = (kind, session)
        for sequence in chance.sample(sorted(placed), 15):
            record = bound.fetch(HOME, [sequence])[0]
            if record is not None:
                bound.forget(HOME, Selector(id=record.id))
                del placed[sequence]
        for reach in (0, 1, 2, 5, 100):
            for count in (1, 3, len(placed)):
                asked = chance.sample(sorted(placed), count)
                assert bound.neighbours(HOME, asked, reach) == around(placed, asked, reach), (reach, asked)
