"""Standing instructions, preferences and questions that tell something, in thirteen languages."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.text.languages.lexicon import CODES
from keepstone.text.standing import find_standing
from keepstone.text.words import INSTRUCTS, NUMBERED, ONLY_ASKS, TIMED, only_asks, record_terms

SAMPLES = tomllib.loads((Path(__file__).parent / "standing.toml").read_text(encoding="utf-8"))


def test_precision_and_recall_on_labelled_sentences() -> None:
    assert SAMPLES.keys() == CODES
    wanted = {
        (code, text): kind
        for code, said in SAMPLES.items()
        for kind in ("instruction", "preference")
        for text in said[f"{kind}s"]
    }
    found = {key for key, kind in wanted.items() if find_standing(key[1]) == kind}
    alarms = [(code, text) for code, said in SAMPLES.items() for text in said["traps"] if find_standing(text)]
    assert len(found) / (len(found) + len(alarms)) >= 0.97, alarms
    assert len(found) / len(wanted) >= 0.95, set(wanted) - found


def test_questions_that_tell_something_are_statements() -> None:
    wrong = [text for said in SAMPLES.values() for text in said["tells"] if only_asks(text)]
    wrong += [text for said in SAMPLES.values() for text in said["asks"] if not only_asks(text)]
    assert len(wrong) <= 0.03 * sum(len(said["tells"]) + len(said["asks"]) for said in SAMPLES.values()), wrong


@pytest.mark.parametrize(
    ("text", "marks", "others"),
    [
        ("Wir haben zwei Katzen.", {NUMBERED}, {TIMED}),
        ("Nous avons trois enfants depuis l'année dernière.", {NUMBERED, TIMED}, set()),
        ("У меня две собаки.", set(), {TIMED}),
        ("我家有三个孩子。", {NUMBERED}, {TIMED}),
        ("我十分高兴。", set(), {NUMBERED}),
        ("子供が三人います。", {NUMBERED}, {TIMED}),
        ("고양이 두 마리를 키워요.", {NUMBERED}, {TIMED}),
        ("Ein Hund reicht uns.", set(), {NUMBERED, TIMED}),
        ("Wann ziehen wir um?", {ONLY_ASKS}, {NUMBERED}),
        ("Responde siempre en inglés.", {INSTRUCTS}, {NUMBERED, TIMED}),
    ],
)
def test_numbers_times_and_orders_are_marked(text: str, marks: set[str], others: set[str]) -> None:
    found = set(record_terms(text, None))
    assert marks <= found, found
    assert not others & found, found


def test_an_order_in_another_language_is_in_every_context() -> None:
    with Memory.open(":memory:") as memory:
        for text in ("Antworte ab jetzt immer auf Deutsch.", "Meine Katze heißt Minka.", "Er antwortet immer auf Französisch."):
            memory.remember(text)
        shown = memory.context("Plan a weekend in Ghent for me")
        assert "Antworte ab jetzt immer auf Deutsch." in shown
        assert "Französisch" not in shown
