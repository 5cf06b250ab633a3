"""Standing instructions and preferences are found; quotations, third persons, single requests and questions are not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from keepstone.text.standing import find_standing, read_standing

SAMPLES = tomllib.loads((Path(__file__).parent / "standing_samples.toml").read_text(encoding="utf-8"))


def test_precision_and_recall_on_labelled_sentences() -> None:
    given = [*SAMPLES["instructions"], *SAMPLES["preferences"]]
    found = [text for text in given if find_standing(text)]
    alarms = [text for text in SAMPLES["traps"] if find_standing(text)]
    assert len(found) / (len(found) + len(alarms)) >= 0.98, alarms
    assert len(found) / len(given) >= 0.95, set(given) - set(found)
    assert all(find_standing(text) == "instruction" for text in SAMPLES["instructions"] if text in found)


def test_most_sentences_of_people_who_do_not_know_the_rules_are_found() -> None:
    given = SAMPLES["everyday_instructions"]
    found = [text for text in given if find_standing(text)]
    alarms = [text for text in SAMPLES["everyday_traps"] if find_standing(text)]
    assert len(found) / len(given) >= 0.8, set(given) - set(found)
    assert len(alarms) / len(SAMPLES["everyday_traps"]) <= 0.02, alarms


def test_one_sentence_among_others_is_enough() -> None:
    assert find_standing("Thanks, the flight is booked. From now on, always pick an aisle seat. Bye!") == "instruction"
    assert find_standing("Thanks, the flight is booked. My boss said: always pick an aisle seat.") == ""


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("From now on answer in French.", "language"),
        ("Please reply in German again.", "language"),
        ("Answer in French when the text is for a client.", ""),  # another may hold beside it
        ("Call me Captain.", "name"),
        ("Always show prices with tax.", ""),
    ],
)
def test_what_an_instruction_is_about(text: str, topic: str) -> None:
    assert read_standing(text)[:2] == ("instruction", topic)
