"""How a question is read: whom it names, whose words it asks for, whether it wants a time or a number."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.recall.question import _MAX_EXPANDED_WORDS, MAX_TERMS, Question, parse_question
from keepstone.recall.related import related_words
from keepstone.text.words import asked_words

NOW = datetime(2024, 3, 15, 12, tzinfo=UTC)
SPEAKERS = {"dana": frozenset({4}), "smith": frozenset({4, 5}), "omar": frozenset({5}), "li": frozenset({6})}


def ask(text: str, speakers: dict[str, frozenset[int]] = {}) -> Question:  # noqa: B006
    return parse_question(text, speakers, NOW)


# -- names --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "meant", "names"),
    [
        ("What does Dana drink?", "What does drink?", {4}),
        ("What is Dana's favourite tea?", "What is favourite tea?", {4}),
        ("What is Dana’s favourite tea?", "What is favourite tea?", {4}),
        ("DANA: which city?", "which city?", {4}),
        ("Did (Omar) and Dana meet?", "Did and meet?", {4, 5}),
        ("Where do the Smith children live?", "Where do the children live?", {4, 5}),
        ("Where does Dána live?", "Where does live?", {4}),
        ("Who is Danasson?", "Who is Danasson?", set()),
        ("What do I drink?", "What do I drink?", set()),
        ("Is life good in Lima?", "Is life good in Lima?", set()),
        ("Dana", "Dana", {4}),
        ("Dana? Omar!", "Dana? Omar!", {4, 5}),
    ],
)
def test_names_of_speakers_are_known_and_not_embedded(text: str, meant: str, names: set[int]) -> None:
    question = ask(text, SPEAKERS)
    assert question.text == text
    assert question.embedding_text == meant
    assert question.names == names


def test_only_the_word_that_is_a_name_carries_it() -> None:
    words = {word.term: word.names for word in ask("What tea does Dana Smith drink?", SPEAKERS).words}
    assert words == {"tea": frozenset(), "dana": {4}, "smith": {4, 5}, "drink": frozenset()}


def test_without_speakers_nobody_is_named() -> None:
    question = ask("What does Dana drink?")
    assert (question.names, question.embedding_text) == (frozenset(), question.text)


@given(st.text(max_size=80))
def test_what_is_meant_is_never_empty_where_there_was_something(text: str) -> None:
    question = ask(text, SPEAKERS)
    assert bool(question.embedding_text.strip()) == bool(text.strip())
    assert question.names <= {4, 5, 6}


# -- whose words ----------------------------------------------------------------------------------------------------------
OF_USER = [
    "What is my sister's name?", "Where do I live?", "Which car did I buy?", "What did I tell you about my job?",
    "Remind me what I ate on Monday", "Can you remind me where my keys are?", "How old is my dog?", "Did I mention a dentist?",
    "What have we planned for June?", "Who gave me the lamp?", "Is that bike mine?", "What are our plans for Easter?",
    "When did she call us?", "what am i allergic to", "I forgot which gym I go to", "Which of my friends play chess?",
    "How many miles did I run?", "What was the name of the book I was reading?", "Have I been to Oslo?",
    "Which airline lost my bag?", "What should I cook tonight?", "Do you know my birthday?", "What do you know about me?",
]  # fmt: skip
OF_ASSISTANT = [
    "What did you recommend for dinner?", "Which hotel did you suggest?", "What was your advice about the loan?",
    "You said something about vitamins, what was it?", "What had you told me about mortgages?", "You mentioned a museum.",
    "Which books have you recommended to me?", "What was your recommendation for my knee?", "you’ve listed five films for me",
    "You gave me a recipe for dal", "How did you explain recursion to me?", "What was on your list of parks?",
    "Which tips did you give me?", "You previously suggested a stretch", "What was your estimate of my taxes?",
    "In our previous conversation, which poem was it?", "From our last chat: which island was it?", "You taught me a chord",
    "You came up with names for my cat", "Which exercise did you show me?", "What did you call that pattern?",
    "You advised me to wait, why?", "You provided an outline of the essay", "You worked out my calories, what were they?",
    "I remember you'd proposed a title",
]  # fmt: skip
OF_NOBODY = [
    "Where does Dana live?", "Which city has the largest port?", "What is the capital of Norway?", "Who painted the ceiling?",
    "What happened on Tuesday?", "Does Omar like jazz?", "How tall is the tower?", "Which mice eat mint?", "Is it closed?",
    "What did they recommend?", "Her advice on loans", "Which bus goes there?", "Was usage high?", "yours truly",
    "mystery novels", "the youth club", "Wei's house", "imitation pearls", "Who suggested the walk?", "What did he tell Dana?",
    "",
]  # fmt: skip


@pytest.mark.parametrize("text", OF_USER)
def test_questions_about_the_one_who_asks(text: str) -> None:
    question = ask(text)
    assert (question.of_user, question.of_assistant) == (True, False)


@pytest.mark.parametrize("text", OF_ASSISTANT)
def test_questions_about_what_the_assistant_said(text: str) -> None:
    question = ask(text)
    assert (question.of_user, question.of_assistant) == (False, True)


@pytest.mark.parametrize("text", OF_NOBODY)
def test_questions_about_neither(text: str) -> None:
    question = ask(text)
    assert (question.of_user, question.of_assistant) == (False, False)


@pytest.mark.parametrize(
    "text",
    [
        "Can you tell me where I parked my car?", "Could you tell me my sister's name?", "Could you list my allergies?",
        "Can you give me the name of my dentist?", "Will you show me what I wrote about Rome?",
        "Can you say what I do for a living?",
        "What did I say in our last conversation?", "What did I tell you in our previous chat about my job?",
        "Would you put together what I like to eat?",
    ],
)  # fmt: skip
def test_asking_the_assistant_to_tell_is_not_asking_what_it_told(text: str) -> None:
    question = ask(text)
    assert (question.of_user, question.of_assistant) == (True, False)


@pytest.mark.parametrize("text", ["What is the capital of the US?", "US elections"])
def test_a_country_is_not_the_one_who_asks(text: str) -> None:
    assert not ask(text).of_user


# -- times and numbers -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "time", "number"),
    [
        ("When did I move?", True, False), ("What date is the wedding?", True, False), ("Which day is the exam?", True, False),
        ("what year was it?", True, False), ("How long was the flight?", True, False), ("At what time do we meet?", True, True),
        ("How many cats have I?", False, True), ("How much was the sofa?", False, True), ("How old is Dana?", False, True),
        ("What was the total?", False, True), ("What is the price of the lamp?", False, True),
        ("How far did I run?", False, True),
        ("the number of guests", False, True), ("What percentage was it?", False, True), ("HOW OFTEN do I swim?", False, True),
        ("Where did I move?", False, False), ("Whenever it rains", False, False), ("Which city?", False, False),
        ("Somehow many came", False, False), ("costume party", False, False), ("", False, False), ("show me", False, False),
    ],
)  # fmt: skip
def test_whether_a_time_or_a_number_is_wanted(text: str, time: bool, number: bool) -> None:
    question = ask(text)
    assert (question.wants_time, question.wants_number) == (time, number)


def test_the_time_is_read_as_of_when_it_is_asked() -> None:
    hint = ask("What did I cook in February?").time
    assert hint is not None
    assert (hint.start, hint.end) == (datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))
    assert ask("What did I cook?").time is None


# -- words -------------------------------------------------------------------------------------------------------------------
def test_words_come_as_terms_with_what_is_known_about_the_word_as_written() -> None:
    question = ask("Which cities has my physician visited?")
    assert question.terms == ["city", "physician", "visit"]
    assert [word.related for word in question.words] == [related_words(word) for word in ("cities", "physician", "visited")]
    assert question.words[1].related.hashes


def test_a_word_that_is_said_twice_counts_once_and_stop_words_only_where_nothing_else_is() -> None:
    assert ask("tea, TEA and more teas").terms == ["tea", "more"]
    assert ask("who are you?").terms == ["who", "are", "you"]


def test_a_long_question_is_cut_and_only_its_weightiest_words_have_relatives() -> None:
    text = " ".join([asked.term for asked in asked_words(_vocabulary())[:200]])
    question = ask(text)
    assert len(question.words) == MAX_TERMS
    assert question.terms == [asked.term for asked in asked_words(text)[:MAX_TERMS]]
    known = [related_words(asked.word) for asked in asked_words(text)[:MAX_TERMS]]
    assert [word.related.weight for word in question.words] == [each.weight for each in known]
    kept = [word.related.weight for word in question.words if word.related.hashes]
    pairs = zip(question.words, known, strict=True)
    dropped = [full.weight for word, full in pairs if full.hashes and not word.related.hashes]
    assert len(kept) <= _MAX_EXPANDED_WORDS
    assert dropped
    assert min(kept) >= max(dropped)


def test_a_question_of_twelve_words_has_all_its_relatives() -> None:
    text = " ".join([asked.term for asked in asked_words(_vocabulary())[:_MAX_EXPANDED_WORDS]])
    assert [word.related for word in ask(text).words] == [related_words(asked.word) for asked in asked_words(text)]


def _vocabulary() -> str:
    from keepstone.recall.related import _tables

    return " ".join(_tables().words[2000:4000:5])


@pytest.mark.parametrize("text", ["", " ", "???", "\n\t", "😀", "-", "—", "\u200b", "'", "’s"])
def test_a_question_that_says_nothing(text: str) -> None:
    question = ask(text, SPEAKERS)
    assert question.embedding_text == text
    assert question.names == frozenset()
    assert question.time is None


@given(st.text(max_size=300))
def test_any_text_is_a_question(text: str) -> None:
    question = ask(text, SPEAKERS)
    assert question.terms == list(dict.fromkeys(question.terms))
    assert not (question.of_user and question.of_assistant)
    assert all(0 <= word.related.weight <= 1.31 for word in question.words)


def test_a_very_long_question_is_looked_at_only_at_its_beginning() -> None:
    question = ask("word " * 3000 + "What did you recommend to me last week? How many?")
    assert (question.of_assistant, question.of_user, question.wants_number, question.time) == (False, False, False, None)
    assert question.terms[0] == "word"
    assert "recommend" in question.terms


@pytest.mark.parametrize(
    ("text", "proper"),
    [
        ("What does Amara study?", {"amara"}),
        ("Did Dana, Lee and Priya meet in Lisbon?", {"dana", "lee", "priya", "lisbon"}),
        ("Dana studies what?", set()),
        ("WHAT DOES AMARA STUDY?", set()),
        ("what does amara study?", set()),
        ("Where is the API key?", set()),
    ],
)
def test_a_capital_within_a_sentence_tells_a_name(text: str, proper: set[str]) -> None:
    assert {word.term for word in parse_question(text, {}, NOW).words if word.is_name} == proper
