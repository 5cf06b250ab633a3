"""Recall in other languages than English: by meaning where the embedder knows the language, else by words."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from keepstone import Memory
from keepstone.embedders.static import StaticEmbedder
from keepstone.recall.fusion import RelevanceThreshold
from keepstone.recall.question import parse_question

NOTE = "ranked by words only: the embedder static-256-v3 does not know the language of the question"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Where do I live?", True),
        ("Gdzie mieszkam?", True),
        ("我住在哪里？", True),
        ("ฉันอาศัยอยู่ที่ไหน", True),
        ("मैं कहाँ रहता हूँ?", False),
        ("Πού μένω;", False),
        ("אני גר בחיפה", False),
        ("من در تهران زندگی می‌کنم و در یک کتابخانه کار می‌کنم", False),
        ("Мен Алматыда тұрамын және кітапханада жұмыс істеймін", False),
        ("I met अनिल at the station yesterday", True),
        ("😀 12:30", True),
        ("", True),
    ],
)
def test_the_static_model_knows_its_languages(text: str, known: bool) -> None:
    assert StaticEmbedder().knows(text) is known


def test_texts_in_unknown_languages_are_not_alike() -> None:
    vectors = StaticEmbedder().embed(["मुझे चाय पसंद है", "मेरी बहन डॉक्टर है", "मुझे चाय पसंद है", "I like tea"])
    likeness = vectors @ vectors.T
    np.testing.assert_allclose(likeness[0, 2], 1.0, atol=1e-6)
    assert np.abs(likeness[0, [1, 3]]).max() < 0.3


def test_words_answer_and_the_notes_say_so() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("मेरी बहन दिल्ली में डॉक्टर है")
        memory.remember("मुझे अदरक वाली चाय पसंद है")
        memory.remember("I like ginger tea")
        found = memory.recall("मेरी बहन क्या करती है?")
        assert found[0].content == "मेरी बहन दिल्ली में डॉक्टर है"
        assert NOTE in found.notes
        assert NOTE not in memory.recall("What do I like to drink?").notes


@pytest.mark.parametrize(
    ("question", "factor"),
    [
        ("What is the capital of Peru?", 1.0),
        ("Where do I live?", 0.75),
        ("Wie heißt die Hauptstadt von Peru?", 1.3),
        ("Wo wohne ich eigentlich?", 0.5),
        ("Hafta sonu ne yaparım?", 0.5),
        ("Komu muszę oddać pieniądze?", 0.5),
        ("ペルーの首都はどこですか", 1.0),
    ],
)
def test_the_threshold_among_facts_depends_on_the_language_and_the_person(question: str, factor: float) -> None:
    asked = parse_question(question, {}, datetime(2026, 1, 1, tzinfo=UTC))
    usual = RelevanceThreshold.of(None, 50).best_required
    assert RelevanceThreshold.among_facts(50, asked).best_required == pytest.approx(factor * usual)


def test_a_store_in_several_languages_answers_in_each() -> None:
    facts = [
        "I am allergic to peanuts and cat hair.",
        "Meine Schwester spielt Geige in einem Orchester.",
        "我在北京的一家医院工作。",
    ]
    with Memory.open(":memory:") as memory:
        for fact in facts:
            memory.remember(fact)
        assert memory.recall("Welches Instrument spielt meine Schwester?")[0].content == facts[1]
        assert memory.recall("Which instrument does my sister play?")[0].content == facts[1]
        assert memory.recall("我在哪里上班？")[0].content == facts[2]
        assert memory.recall("Wo arbeite ich?")[0].content == facts[2]
        assert memory.recall("我对什么过敏？")[0].content == facts[0]
