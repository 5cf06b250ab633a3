"""Recall in other languages than English: by meaning where the embedder knows the language, else by words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.languages.data import NAMES, Store, load_language
from keepstone import Memory
from keepstone.embedders.static import StaticEmbedder
from keepstone.recall.fusion import RelevanceThreshold
from keepstone.recall.question import parse_question

FACTS = Path(__file__).parents[2] / "bench" / "data" / "facts_in_languages.tsv"
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
        ("Szymborska", True),
        ("Tromsø", True),
        ("😀 12:30", True),
        ("", True),
    ],
)
def test_the_static_model_knows_its_languages(text: str, known: bool) -> None:
    assert StaticEmbedder().knows(text) is known


UNKNOWN = {
    "fi": ["Minulla on kaksi kissaa ja koira.", "Missä siskoni asuu?", "Juon aamulla aina mustaa kahvia."],
    "cs": ["Moje sestra pracuje v nemocnici.", "Kde bydlí můj bratr?", "Každé ráno piju černou kávu."],
    "hu": ["A nővérem egy kórházban dolgozik.", "Hol lakik a testvérem?", "Minden reggel feketekávét iszom."],
    "sv": ["Min syster jobbar på ett sjukhus i Uppsala.", "Var bor min bror nu?", "Jag dricker alltid svart kaffe."],
    "da": ["Min søster arbejder på et hospital.", "Hvor bor min bror?", "Jeg drikker altid sort kaffe om morgenen."],
    "nb": ["Søsteren min jobber på et sykehus.", "Hvor bor broren min?", "Jeg drikker alltid svart kaffe om morgenen."],
    "vi": ["Chị gái tôi làm việc ở bệnh viện.", "Anh trai tôi sống ở đâu?", "Sáng nào tôi cũng uống cà phê đen."],
    "id": ["Kakak saya bekerja di rumah sakit.", "Di mana adik saya tinggal?", "Saya selalu minum kopi hitam di pagi hari."],
    "ro": ["Sora mea lucrează la un spital.", "Unde locuiește fratele meu?", "Beau mereu cafea neagră dimineața."],
    "sk": ["Moja sestra pracuje v nemocnici.", "Kde býva môj brat?", "Každé ráno pijem čiernu kávu."],
    "hr": ["Moja sestra radi u bolnici.", "Gdje živi moj brat?", "Svako jutro pijem crnu kavu."],
    "uk": ["Моя сестра працює в лікарні.", "Де живе мій брат?", "Щоранку я п'ю чорну каву."],
    "bg": ["Сестра ми работи в болница.", "Къде живее брат ми?", "Всяка сутрин пия черно кафе."],
    "et": ["Mu õde töötab haiglas.", "Kus mu vend elab?", "Joon hommikul alati musta kohvi."],
    "lt": ["Mano sesuo dirba ligoninėje.", "Kur gyvena mano brolis?", "Kiekvieną rytą geriu juodą kavą."],
}


def test_unknown_languages_in_known_scripts_are_recognised() -> None:
    embedder = StaticEmbedder()
    found = {language: sum(not embedder.knows(text) for text in texts) for language, texts in UNKNOWN.items()}
    assert min(found.values()) >= 1, found
    assert sum(found.values()) >= 0.9 * sum(map(len, UNKNOWN.values())), found


def test_text_in_known_languages_is_hardly_ever_taken_for_unknown() -> None:
    embedder = StaticEmbedder()
    texts = [text for language in NAMES for text in _texts(load_language(language, "development"))]
    texts += [row.split("\t")[2] for row in FACTS.read_text(encoding="utf-8").splitlines()[1:]]
    assert len(texts) > 2000
    unknown = [text for text in texts if not embedder.knows(text)]
    assert len(unknown) <= 0.01 * len(texts), unknown


def _texts(store: Store) -> list[str]:
    return [each.text for each in (*store.statements, *store.questions)]


def test_a_finnish_store_answers_by_words_and_says_so() -> None:
    with Memory.open(":memory:") as memory:
        for text in ("Siskoni työskentelee sairaalassa Oulussa.", "Juon aamulla aina mustaa kahvia.", "I live in Porto."):
            memory.remember(text)
        found = memory.recall("Missä sairaalassa siskoni työskentelee?")
        assert found[0].content == "Siskoni työskentelee sairaalassa Oulussa."
        assert NOTE in found.notes
        assert NOTE not in memory.recall("Where do I live?").notes


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
    ("question", "world", "factor"),
    [
        ("What is the capital of Peru?", 2.0, 1.3),
        ("Where do I live?", 0.0, 0.75),
        ("Wie heißt die Hauptstadt von Peru?", 2.0, 3.0),
        ("Wie heißt die Katze?", -1.5, 0.7),
        ("Wo wohne ich eigentlich?", 0.0, 0.5),
        ("Hafta sonu ne yaparım?", 0.0, 0.5),
        ("Komu muszę oddać pieniądze?", 0.0, 0.5),
        ("ペルーの首都はどこですか", 2.0, 3.0),
        ("ما معنى التضخم؟", -0.5, 1.0),
        ("帮我写一封请假邮件。", -0.5, 1.0),
        ("Quanti grammi ci sono in un'oncia?", -0.5, 1.0),
    ],
)
def test_the_threshold_among_facts_depends_on_the_language_and_what_is_asked(question: str, world: float, factor: float) -> None:
    asked = replace(parse_question(question, {}, datetime(2026, 1, 1, tzinfo=UTC)), world=world)
    usual = RelevanceThreshold.of(50).best_required
    assert RelevanceThreshold.among_facts(50, asked).best_required == pytest.approx(factor * usual)


@pytest.mark.parametrize(
    "question",
    [
        "Wie tief ist der Marianengraben?",
        "Combien d'habitants compte le Canada ?",
        "¿Cómo se prepara un gazpacho?",
        "Kto wynalazł druk?",
        "Как приготовить борщ?",
        "地球到太阳有多远？",
        "日本の人口は何人ですか？",
        "세상에서 가장 빠른 동물은 뭐야?",
        "ข้าวผัดทำยังไง",
        "ما أسرع حيوان في العالم؟",
    ],
)
def test_a_question_about_the_world_brings_no_facts_of_the_user(question: str) -> None:
    facts = [
        *(
            "Meine Schwester spielt Geige in einem Orchester.",
            "Mon fils va à l'école en vélo.",
            "Trabajo en un hospital de Sevilla.",
        ),
        *("Mój pies boi się burzy.", "По пятницам я хожу в бассейн.", "我在北京的一家医院工作。", "毎朝コーヒーを二杯飲みます。"),
        *("저는 매운 음식을 못 먹어요.", "แม่ของฉันเป็นครูสอนดนตรี", "أختي تدرس الطب في القاهرة."),
    ]
    with Memory.open(":memory:") as memory:
        for fact in facts:
            memory.remember(fact)
        assert [hit.content for hit in memory.recall(question)] == []


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
