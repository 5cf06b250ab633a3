"""Facts stated in other languages than English: labelled sentences, and a conversation that is learned from."""

from __future__ import annotations

import pytest

from bench.facts import SPLITS, measure_languages
from keepstone import Memory
from keepstone.learning.facts import find_user_facts
from keepstone.learning.other_languages import MAX_CHARS, find_statements
from keepstone.text.languages.lexicon import CODES

MEASURED = measure_languages()


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_rules_of_each_language_are_precise_and_fall_for_no_trap(code: str) -> None:
    for split in SPLITS:
        rates = MEASURED[code][split]
        assert rates["messages"] >= 30
        assert rates["traps"] * 2 >= rates["messages"] - 1
        assert rates["precision"] >= 0.95, rates["errors"]
        assert rates["recall"] >= 0.75, rates["errors"]
        assert rates["traps_fallen_for"] == 0, rates["errors"]


def test_a_fact_is_worded_in_its_language_under_the_same_key_as_in_english() -> None:
    assert [(fact.key, fact.content) for fact in find_user_facts("Ich wohne in Köln.", None)] == [
        ("user.home", "Der Nutzer wohnt in Köln.")
    ]
    assert [(fact.key, fact.content) for fact in find_user_facts("我住在上海。", None)] == [("user.home", "用户住在上海。")]
    assert [(fact.key, fact.content) for fact in find_user_facts("Meine Frau heißt Sabine.", "Jonas")] == [
        ("user.partner", "Frau von Jonas heißt Sabine.")
    ]


def test_a_move_told_in_another_language_supersedes_the_old_home() -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.learn("I live in Oslo.")
        memory.learn("Übrigens, ich wohne jetzt in Leipzig.")
        assert memory.value("user.home") == "Der Nutzer wohnt in Leipzig."


def test_long_and_hostile_texts_state_nothing() -> None:
    assert find_statements("Ich heiße Anna. " * (MAX_CHARS // 10), "de") == []
    for code in sorted(CODES):
        assert find_statements("ich " * 900, code) == []
        assert find_statements("a, " * 1300, code) == []
        assert find_statements("我" * 3900, code) == []
