"""Near-duplicates, contradictions and summaries in other languages than English: what cannot be read is never merged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from keepstone import Memory
from keepstone.conversation.extractive_summary import summarise
from keepstone.maintenance.contradictions import VALUE, Claim, MessageIndex
from keepstone.prompts.extraction import Line
from keepstone.text.near_duplicates import compare, gist

REPEATED = [
    ("Ich wohne in Köln.", "ich wohne in Köln!"),
    ("Übrigens, ich habe drei Kinder.", "Ich habe 3 Kinder."),
    ("Я люблю рыбу.", "я люблю рыбу"),
    ("У меня три кошки.", "У меня 3 кошки."),
    ("我有三个孩子。", "我有三个孩子"),
    ("我住在上海，喜欢喝茶。", "我住在上海、喜欢喝茶！"),
    ("J'ai deux chats.", "j'ai deux chats"),
    ("أحب القهوة كثيرا.", "أحب القهوة كثيرا"),
]
DIFFERENT = [
    ("Ich habe drei Kinder.", "Ich habe vier Kinder."),
    ("Mein Sohn ist 3 Jahre alt.", "Mein Sohn ist 4 Jahre alt."),
    ("Ich esse Fisch.", "Ich esse keinen Fisch."),
    ("Ich bin allergisch gegen Nüsse.", "Ich bin nicht allergisch gegen Nüsse."),
    ("Der Hund beißt den Mann.", "Den Hund beißt der Mann."),
    ("Der Termin ist am Montag.", "Der Termin ist am Dienstag."),
    ("Ich fahre nach Rom.", "Ich fahre von Rom."),
    ("Ich wohne in Köln.", "Ich wohne in Köln?"),
    ("我有三个孩子。", "我有四个孩子。"),
    ("我喜欢鱼。", "我不喜欢鱼。"),
    ("我妈妈喜欢我爸爸。", "我爸爸喜欢我妈妈。"),
    ("У меня три кошки.", "У меня четыре кошки."),
    ("Я люблю рыбу.", "Я не люблю рыбу."),
    ("Я не люблю чай, а люблю кофе.", "Я не люблю кофе, а люблю чай."),
    ("Voy a Roma.", "Voy de Roma."),
    ("He comido pan con mi hermano.", "Has comido pan con mi hermano."),
    ("Afuera hace -5 grados en la casa.", "Afuera hace 5 grados en la casa."),
]


@pytest.mark.parametrize(("one", "other"), REPEATED)
def test_repetitions_are_one_fact(one: str, other: str) -> None:
    assert compare(one, other).same
    assert gist(one) == gist(other)
    with Memory.open(":memory:", embedder="none") as memory:
        memory.remember(one)
        assert memory.remember(other).action in ("merged", "duplicate")


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_facts_that_differ_in_a_number_a_negation_or_order_are_two(one: str, other: str) -> None:
    assert not compare(one, other).same
    assert not compare(other, one).same
    with Memory.open(":memory:", embedder="none") as memory:
        memory.remember_many([one, other])
        assert len(memory.list()) == 2


@pytest.mark.parametrize(
    ("memory", "message", "same"),
    [
        ("Der Nutzer wohnt in Köln.", "Ich wohne jetzt in Leipzig.", "Ich wohne in Köln."),
        ("用户住在上海。", "我现在住在南京。", "我住在上海。"),
        ("Пользователь живёт в: Москве.", "Я живу в Казани.", "Я живу в Москве."),
    ],
)
def test_another_value_under_a_key_is_a_contradiction_in_every_language(memory: str, message: str, same: str) -> None:
    said = datetime(2026, 1, 1, tzinfo=UTC)
    later = said + timedelta(days=30)
    claim = Claim("a", memory, said, key="user.home")
    found = MessageIndex([Claim("b", message, later)]).against(claim)
    assert found is not None
    assert VALUE in str(found)
    assert MessageIndex([Claim("b", same, later)]).against(claim) is None


def test_a_summary_keeps_lines_that_differ_only_in_a_negation() -> None:
    eats = "Ich esse im Sommer gerne gegrillten Fisch mit Reis, Salat und Brot auf dem Balkon."
    shuns = "Ich esse im Sommer nie gerne gegrillten Fisch mit Reis, Salat und Brot auf dem Balkon."
    turns = [Line("user", "Hallo!"), Line("user", eats), Line("user", shuns), Line("user", eats)]
    summary = summarise(turns, max_tokens=400, count=lambda text: len(text) // 3)
    assert summary.count(eats) == 1
    assert summary.count(shuns) == 1
