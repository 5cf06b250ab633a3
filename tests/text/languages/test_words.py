"""Words, marks and question words of other languages than English: question and memory meet in the same terms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from keepstone import Memory
from keepstone.recall.question import parse_question
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES
from keepstone.text.words import asked_words, record_terms, terms

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def shared(question: str, memory: str) -> set[str]:
    """The terms in which a question and a memory meet."""
    return {term for asked in asked_words(question) for term in (asked.term, *asked.others)} & set(record_terms(memory, None))


@pytest.mark.parametrize(
    ("question", "memory"),
    [
        ("Welche Katze habe ich?", "Ich habe zwei Katzen aus dem Tierheim."),
        ("Quelle école fréquente ma fille ?", "Ma fille va à l'école Jules Ferry."),
        ("¿Qué libro me gustó?", "Los libros de Allende me encantan."),
        ("Que remédio eu tomo?", "Tomo dois remédios para a pressão."),
        ("Quale gatto ho adottato?", "Abbiamo adottato due gatti neri."),
        ("Welke fiets heb ik gekocht?", "Ik heb twee fietsen in de schuur."),
        ("Jaką książkę czytam?", "Lubię książki kryminalne i czytam je wieczorem."),
        ("Какая у меня машина?", "Вчера я продал свою старую машину."),
        ("Arabamın rengi ne?", "Geçen ay kırmızı bir araba aldım."),
        ("ما اسم المدرسة؟", "ابني يدرس في مدرسة قريبة من البيت."),
        ("我的猫叫什么？", "家里的猫今年三岁了。"),
        ("犬の名前は？", "うちの犬はポチといいます。"),
        ("고양이 이름이 뭐야?", "우리 고양이는 세 살이에요."),
        ("הכלב שלי", "יש לי כלב גדול בבית."),
    ],
)
def test_a_question_meets_another_form_of_its_word(question: str, memory: str) -> None:
    assert shared(question, memory)


@pytest.mark.parametrize("word", ["Jürgen", "Katzen", "Bücher", "Ostfriesentee", "maisons", "libros"])
def test_a_word_meets_itself_whatever_language_is_detected(word: str) -> None:
    german = f"Gestern habe ich mit {word} und den anderen lange gesprochen."
    assert detect_language(german) == "de"
    assert detect_language(f"What did I say about {word} the other day?") == "en"
    assert shared(word, german)
    assert shared(f"What did I say about {word} the other day?", german)
    assert shared(f"Was habe ich über {word} gesagt?", f"{word}!")


def test_english_terms_do_not_depend_on_other_languages() -> None:
    assert terms("The cats were chasing the dogs in the gardens of Paris") == ["cat", "chas", "dog", "garden", "paris"]
    assert terms("Sushi") == ["sushi"]


def test_vowel_signs_and_letter_forms_make_no_difference() -> None:
    assert terms("مَدْرَسَة") == terms("مدرسه")
    assert terms("שָׁלוֹם") == terms("שלום")
    assert terms("Łódź Ærø ılık") == ["lodz", "æro", "ilik"]
    assert terms("٣ أطفال")[0] == "3"


@pytest.mark.parametrize("text", ["ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာ"])
def test_scripts_without_spaces_become_pairs(text: str) -> None:
    assert {len(term) for term in terms(text)} == {2}
    assert len(terms(text)) == len(text) - 1


TIMED = {
    "de": "Letzte Woche war ich krank.", "fr": "Hier je suis allé au marché.", "es": "El lunes pasado fui al médico.",
    "pt": "Em março eu viajo para o Porto.", "it": "La settimana scorsa sono andato dal medico.",
    "nl": "Gisteren was ik bij de tandarts.",
    "pl": "W zeszłym tygodniu byłem u lekarza.", "ru": "Вчера я был у врача.", "tr": "Geçen hafta doktora gittim.",
    "zh": "昨天我去看医生了。", "ja": "昨日は病院に行きました。", "ko": "지난주에 병원에 갔어요.", "ar": "ذهبت أمس إلى الطبيب.",
}  # fmt: skip
ASKED = {  # a question about the user that wants a time, one that wants a number, one about what the assistant said
    "de": ("Wann habe ich geheiratet?", "Wie viele Kinder habe ich?", "Was hast du mir empfohlen?"),
    "fr": ("Quand est-ce que je pars ?", "Combien d'enfants ai-je avec mon mari ?", "Qu'est-ce que tu m'as conseillé ?"),
    "es": ("¿Cuándo es mi cita?", "¿Cuántos hijos tengo?", "¿Qué me recomendaste?"),
    "pt": ("Quando é o meu voo?", "Quantos filhos eu tenho?", "O que você me recomendou?"),
    "it": ("Quando è il mio esame?", "Quanti figli ho io?", "Che cosa mi hai consigliato?"),
    "nl": ("Wanneer is mijn afspraak?", "Hoeveel kinderen heb ik?", "Wat heb je mij aangeraden?"),
    "pl": ("Kiedy mam wizytę?", "Ile mam dzieci?", "Co mi poleciłeś?"),
    "ru": ("Когда мой рейс?", "Сколько у меня детей?", "Что ты мне посоветовал?"),
    "tr": ("Benim randevum ne zaman?", "Benim kaç çocuğum var?", "Bana ne önermiştin?"),
    "zh": ("我什么时候结婚的？", "我有几个孩子？", "你之前推荐了什么？"),
    "ja": ("私の誕生日はいつ？", "私の子供は何人？", "前に何を勧めてくれましたか？"),
    "ko": ("내 생일은 언제야?", "내 아이는 몇 명이야?", "네가 추천해 줬던 게 뭐야?"),
    "ar": ("متى موعدي مع الطبيب؟", "كم عدد أطفالي؟", "بماذا نصحتني أنت؟"),
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(CODES))
def test_marks_and_question_words_are_read_in_each_language(code: str) -> None:
    when, many, said = ASKED[code]
    assert record_terms(TIMED[code], None)[-1] == "@"
    assert {"?", "??"} & set(record_terms(when, None))
    time, number, assistant = (parse_question(text, {}, NOW) for text in (when, many, said))
    assert (time.wants_time, number.wants_number) == (True, True)
    assert (time.of_user, number.of_user, assistant.of_assistant) == (True, True, True)
    assert [each.of_assistant for each in (time, number)] == [False, False]
    assert not assistant.of_user
    assert not time.wants_number


def test_words_alone_find_inflected_facts_in_one_store_of_three_languages() -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.remember("Ich habe zwei Katzen aus dem Tierheim.")
        memory.remember("家里的金鱼今年三岁了。")
        memory.remember("My brother repairs violins in Cremona.")
        assert memory.recall("Woher kommt meine Katze?")[0].content.startswith("Ich habe")
        assert memory.recall("金鱼几岁了？")[0].content.startswith("家里")
        assert memory.recall("Who repairs a violin?")[0].content.startswith("My brother")
