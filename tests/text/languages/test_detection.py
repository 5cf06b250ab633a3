"""Languages are told apart by script and function words; English is never taken for another."""

from __future__ import annotations

import pytest

from bench.facts import load
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES
from tests.text.languages.labelled import HALVES, read_labelled


@pytest.mark.parametrize("code", sorted(CODES))
def test_questions_are_detected(code: str) -> None:
    found = [detect_language(text) for half in HALVES for text, _ in read_labelled("times", code, half)]
    assert found.count(code) >= 0.85 * len(found)
    assert found.count("en") <= 1


def test_english_messages_take_the_english_path() -> None:
    assert {detect_language(message.text) for message in load()}.isdisjoint(CODES)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", ""),
        ("1234 :-)", ""),
        ("Sushi", ""),
        ("Де я живу і працюю?", ""),  # Ukrainian is not read
        ("من کجا زندگی می‌کنم؟", ""),  # nor is Persian
        ("Var bor jag och vad heter min syster?", "sv"),
        ("ฉันชอบกาแฟ", "th"),
        ("GitHub のリポジトリを作りました", "ja"),
        ("Ich habe das Meeting mit dem Product Owner verschoben", "de"),
        ("She said: ‘Je ne sais pas’, and left the room.", "en"),
        ("Our café in São Paulo is where we met Müller and José", "en"),
    ],
)
def test_doubtful_texts(text: str, code: str) -> None:
    assert detect_language(text) == code
