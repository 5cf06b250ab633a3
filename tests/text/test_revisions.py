"""Which statements surely leave an earlier one standing."""

from __future__ import annotations

import numpy as np
import pytest

from keepstone.embedders.registry import make_embedder
from keepstone.text import revisions
from keepstone.text.revisions import Told, find_replacements, leaves_standing


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Leeds.", "Tom moved to Rome."),
        ("I live in Leeds.", "My brother moved to Rome."),
        ("I drink coffee every morning.", "My wife gave up coffee."),
    ],
)
def test_what_another_person_did_replaces_nothing(older: str, newer: str) -> None:
    assert leaves_standing(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Leeds.", "I moved to Rome."),
        ("My brother lives in Leeds.", "My brother moved to Rome."),
        ("I work at Acme.", "Globex is my new employer."),
    ],
)
def test_the_same_person_or_the_speaker_may_replace(older: str, newer: str) -> None:
    assert not leaves_standing(older, newer)


def test_of_many_pairs_the_likeliest_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    older = [Told("I live in Leeds.", 1), Told("Rui is married.", 2)]
    newer = [Told("I moved to Rome.", 3), Told("Rui got divorced last spring.", 4)]
    read: list[tuple[str, str]] = []

    def note(before: str, after: str) -> float:
        read.append((before, after))
        return 6.0

    vectors = np.asarray(make_embedder("static").embed([each.text for each in (*older, *newer)]), dtype=np.float32)
    both = find_replacements(older, vectors[:2], newer, vectors[2:], 0.12, note)
    assert {(0, 0), (1, 1)} == {(old, new) for old, new, _ in both}
    read.clear()
    monkeypatch.setattr(revisions, "_MAX_PAIRS_READ", 1)
    found = find_replacements(older, vectors[:2], newer, vectors[2:], 0.12, note)
    assert len(read) == 1
    assert [(older[old].text, newer[new].text) for old, new, _ in found] == read


def test_a_reader_sees_whom_they_is_about_but_not_who_another_person_is() -> None:
    dose = "The clinic has me on 20 milligrams of lisinopril.", "They doubled the lisinopril, so it's 40 milligrams."
    cabin = "Greta has a cabin at the lake.", "My aunt sold her cabin, the stairs were too much."
    assert [leaves_standing(*dose, read=read) for read in (False, True)] == [True, False]
    assert [leaves_standing(*cabin, read=read) for read in (False, True)] == [True, True]
