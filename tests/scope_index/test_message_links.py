"""Links between messages equal those of a list sorted by sequence, whatever changes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keepstone.scope_index import columns
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.types import MESSAGE
from tests.recall.rows import Line, changes, rows, unit

VECTORS = (None, unit(1), unit(0, 1), unit(1, 1), unit(-1, 0.2), unit(1, 2, 3))
WORDS = ("tea", "milk", "rome", "oslo")


def chained(model: dict[int, Line]) -> dict[int, tuple[int, int, float]]:
    """sequence -> the sequences before and after it (0: none), and the cosine with the one before."""
    found = dict.fromkeys(model, (0, 0, 0.0))
    sessions = {line.session for line in model.values()} - {None}
    for session in sessions:
        chain = sorted(number for number, line in model.items() if line.session == session and line.kind == MESSAGE)
        for at, number in enumerate(chain):
            before = chain[at - 1] if at else 0
            after = chain[at + 1] if at + 1 < len(chain) else 0
            found[number] = (before, after, cosine(model[number], model[before]) if before else 0.0)
    return found


def cosine(one: Line, other: Line) -> float:
    return float(np.dot(one.vector, other.vector)) if one.vector and other.vector else 0.0


def seen(view: View) -> dict[int, tuple[int, int, float]]:
    """The same, as a view has it; the similarity_to_previous of a message that has none before it is of no use and left out."""
    held = {slot: int(sequence) for slot, sequence in enumerate(view.sequences) if sequence >= 0}
    named = held | {-1: 0}
    return {
        sequence: (
            named[int(view.before[slot])],
            named[int(view.after[slot])],
            float(view.similarity_to_previous[slot]) if view.before[slot] >= 0 else 0.0,
        )
        for slot, sequence in held.items()
    }


def assert_chained(view: View, model: dict[int, Line]) -> None:
    got, expected = seen(view), chained(model)
    assert {each: value[:2] for each, value in got.items()} == {each: value[:2] for each, value in expected.items()}
    for each, (_, _, similarity_to_previous) in expected.items():
        assert got[each][2] == pytest.approx(similarity_to_previous, abs=1e-5), each
    sessions = {line.session for line in model.values() if line.kind == MESSAGE and line.session is not None}
    assert view.session_count == len(sessions)


class Story:
    """A ScopeIndex and a dictionary that are told the same."""

    def __init__(self) -> None:
        self.index = ScopeIndex(0)
        self.model: dict[int, Line] = {}
        self.told = 0

    def tell(self, lines: list[Line], removed: list[int] | tuple[int, ...] = ()) -> None:
        self.told += 1
        self.model.update({line.sequence: line for line in lines})
        for sequence in removed:
            del self.model[sequence]
        self.index.apply(changes(self.told, lines, removed))
        assert_chained(self.index.view(), self.model)


def line(sequence: int, chance: random.Random) -> Line:
    """A message of one of three sessions or of none, or a fact, with a session or without."""
    return Line(
        sequence,
        tuple(chance.choices(WORDS, k=3)),
        chance.choice(VECTORS),
        kind=chance.choice((MESSAGE, MESSAGE, MESSAGE, "fact")),
        session=chance.choice(("a", "b", "c", "a", "b", None)),
        active=chance.random() > 0.1,
    )


def changed(story: Story, verb: str, size: int, chance: random.Random) -> None:
    """One step of a story."""
    held = sorted(story.model)
    picked = sorted(chance.sample(held, min(size, len(held))))
    if verb == "append":
        start = max(held, default=0) + 1
        story.tell([line(start + 2 * at, chance) for at in range(size)])  # with gaps, for those that come late
    elif verb == "late":
        free = [each for each in range(1, max(held, default=1)) if each not in story.model]
        story.tell([line(each, chance) for each in chance.sample(free, min(size, len(free)))])
    elif verb == "reword":
        story.tell([story.model[each].with_(words=(*chance.choices(WORDS, k=2), f"x{story.told}")) for each in picked])
    elif verb == "attach":
        story.tell([story.model[each].with_(vector=chance.choice(VECTORS)) for each in picked])
    elif verb == "drop":
        story.tell([], picked)
    else:  # all at once
        third = len(picked) // 3 + 1
        new = max(held, default=0) + 1
        reworded = [story.model[each].with_(words=("y", f"x{story.told}")) for each in picked[:third]]
        story.tell([*reworded, *(line(new + at, chance) for at in range(size))], picked[third:])


steps = st.tuples(
    st.sampled_from(["append", "append", "late", "reword", "attach", "drop", "mixed"]), st.sampled_from([1, 2, 5, 20, 70])
)


@settings(max_examples=120)
@given(script=st.lists(steps, max_size=14), seed=st.integers(0, 10**6))
def test_after_every_change_the_chains_are_those_of_a_sorted_list(script: list[tuple[str, int]], seed: int) -> None:
    chance = random.Random(seed)
    story = Story()
    changed(story, "append", 10, chance)
    for verb, size in script:
        changed(story, verb, size, chance)


def test_chains_survive_the_rebuilding_of_the_columns() -> None:
    chance = random.Random(4)
    story = Story()
    changed(story, "append", 300, chance)
    sizes = []
    for _ in range(24):
        changed(story, "drop", 10, chance)
        changed(story, "attach", 3, chance)
        changed(story, "append", 1, chance)
        sizes.append(story.index.view().size)
    assert min(sizes[1:]) < 200, "the columns were never built anew"


@pytest.mark.parametrize("count", [columns._FEW - 1, columns._FEW, columns._FEW + 1, 3 * columns._FEW])
def test_few_and_many_drops_leave_the_same_chain(count: int) -> None:
    lines = [Line(n, ("tea",), unit(1, n / 50), kind=MESSAGE, session="ab"[n % 2]) for n in range(1, 401)]
    story = Story()
    story.tell(lines)
    story.tell([], list(range(100, 100 + count)))
    story.tell([], [1, 2, 399, 400])
    story.tell([Line(401, ("milk",), unit(1), kind=MESSAGE, session="a")])


def test_a_whole_session_may_go_and_come_again() -> None:
    story = Story()
    story.tell([Line(n, ("tea",), unit(1), kind=MESSAGE, session="a") for n in (1, 2, 3)])
    story.tell([], [1, 2, 3])
    assert story.index.view().session_count == 0
    story.tell([Line(4, ("tea",), unit(1), kind=MESSAGE, session="a")])
    story.tell([Line(5, ("milk",), unit(1), kind=MESSAGE, session="a")])


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"session": "a"}, {"session": "b"}),
        ({"session": "a"}, {"session": None}),
        ({"session": None}, {"session": "a"}),
        ({"kind": "fact", "session": "a"}, {"kind": MESSAGE}),
        ({"session": "a"}, {"kind": "fact"}),
    ],
)
def test_a_record_that_moves_to_another_session_moves_in_the_chains(first: dict[str, Any], then: dict[str, Any]) -> None:
    story = Story()
    moving = Line(3, ("rome",), unit(1, 1), **({"kind": MESSAGE} | first))
    others = [Line(n, ("tea",), unit(1, n), kind=MESSAGE, session="ab"[n % 2]) for n in (1, 2, 4, 5)]
    story.tell([*others[:2], moving, *others[2:]])
    story.tell([moving.with_(**then)])  # the words are the same, so it keeps its slot


def test_an_index_of_given_rows_is_chained_whatever_their_order() -> None:
    chance = random.Random(9)
    for size in (1, 5, 60, 65, 200):
        lines = [line(n, chance) for n in chance.sample(range(1, 1000), size)]
        assert_chained(ScopeIndex.of(rows(lines)).view(), {each.sequence: each for each in lines})


# -- views that were taken before ------------------------------------------------------------------------------------
def reached(view: View) -> dict[int, list[int]]:
    """sequence -> the sequences that ranking takes for its neighbours (0: none)."""
    slots = np.flatnonzero(view.sequences >= 0)
    found = view.neighbours(slots, view.active)[1:]
    assert all(((each >= -1) & (each < view.size)).all() for each in found)
    named = [np.where(each >= 0, view.sequences[each], 0).tolist() for each in found]
    return {int(view.sequences[slot]): [column[at] for column in named] for at, slot in enumerate(slots)}


def near(model: dict[int, Line]) -> dict[int, list[int]]:
    """The same by the model: inactive messages are none, and hide those behind them."""
    chain = chained(model)

    def step(number: int, way: int) -> int:
        there = chain[number][way] if number else 0
        return there if there and model[there].active else 0

    return {n: [step(n, 0), step(n, 1), step(step(n, 0), 0), step(step(n, 1), 1)] for n in model}


@settings(max_examples=80)
@given(script=st.lists(steps.filter(lambda step: step[0] != "attach"), max_size=8), seed=st.integers(0, 10**6))
@example(script=[("append", 2)], seed=1)
def test_a_view_taken_before_keeps_its_chain(script: list[tuple[str, int]], seed: int) -> None:
    chance = random.Random(seed)
    story = Story()
    changed(story, "append", 20, chance)
    changed(story, "append", 10, chance)  # now the columns have room to spare: what comes next is written behind the view's end
    changed(story, "append", 1, chance)
    before, known, size = story.index.view(), dict(story.model), story.index.view().size
    assert reached(before) == near(known)
    for verb, count in script:
        changed(story, verb, count, chance)
        assert reached(story.index.view()) == near(story.model)
        assert before.size == size
        found = reached(before)
        expected = near(known)
        for number, neighbours in found.items():  # none is lost but behind the end, and none is from outside
            assert neighbours == expected[number], number


def test_the_bonds_of_a_view_taken_before_are_those_of_its_own_neighbours() -> None:
    story = Story()
    vectors = (unit(1), unit(1, 1), unit(0, 1))
    story.tell([Line(n, ("tea",), vector, kind=MESSAGE, session="a") for n, vector in enumerate(vectors, 1)])
    before = story.index.view()
    story.tell([], [2])
    assert before.before.tolist() == [-1, 0, 1]
    assert before.similarity_to_previous[2] == pytest.approx(np.sqrt(0.5))
