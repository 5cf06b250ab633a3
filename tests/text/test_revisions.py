"""Which statements surely leave an earlier one standing."""

from __future__ import annotations

import pytest

from keepstone.text.revisions import leaves_standing


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
