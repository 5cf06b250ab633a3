"""Questions in languages that the default embedder does not know are ranked by words, and the recall says so."""

from __future__ import annotations

import numpy as np
import pytest

from keepstone import Memory
from keepstone.embedders.static import StaticEmbedder

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
