"""What counts as a contradiction: a labelled list of pairs, and the edges of each rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from keepstone.maintenance.contradictions import NUMBER, OPPOSITE, VALUE, Claim, MessageIndex, keyed
from keepstone.maintenance.statements import statements
from tests.maintenance.contradiction_pairs import COMPATIBLE, CONTRADICTING, pairs

THEN = datetime(2026, 3, 1, 9, tzinfo=UTC)
LATER = THEN + timedelta(days=9)


def contradicts(old: Claim, new: Claim) -> str | None:
    """Why a claim speaks against another, as verification finds it."""
    found = MessageIndex([new]).against(old)
    return None if found is None else found.reason


def judged(memory: str, message: str) -> str | None:
    """Why a later message speaks against a memory."""
    return contradicts(Claim("known", memory, THEN), Claim("said", message, LATER))


def test_of_the_labelled_pairs_hardly_any_is_flagged_in_vain() -> None:
    right = [pair for pair in pairs(CONTRADICTING) if judged(*pair)]
    wrong = [pair for pair in pairs(COMPATIBLE) if judged(*pair)]
    assert len(pairs(CONTRADICTING)) >= 60
    assert len(pairs(COMPATIBLE)) >= 80
    assert len(right) / (len(right) + len(wrong)) >= 0.95, wrong
    assert len(right) / len(pairs(CONTRADICTING)) >= 0.9


@pytest.mark.parametrize(
    ("memory", "message", "reason"),
    [
        ("The user lives in Rome.", "I moved to Oslo last month.", VALUE),
        ("The user's manager is Priya.", "My manager is Tom now.", VALUE),
        ("The user works at Acme.", "I no longer work at Acme.", OPPOSITE),
        ("The user drinks coffee.", "I don't drink coffee anymore.", OPPOSITE),
        ("The user has 3 cats.", "I have 4 cats now.", NUMBER),
        ("The user pays 45 euros for internet.", "I pay 55 euros for internet now.", NUMBER),
    ],
)
def test_the_reason_tells_what_differs_without_saying_it(memory: str, message: str, reason: str) -> None:
    assert judged(memory, message) == reason
    assert not {word.strip(".") for word in memory.split() if word[:1].isupper() or word[:1].isdigit()} & set(reason.split())


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("The user has 3 cats.", "Do I have 4 cats now?"),
        ("The user has 3 cats.", "If I had 4 cats now, I would need a bigger flat."),
        ("The user has 3 cats.", 'Anna wrote "I have 4 cats now".'),
        ("The user has 3 cats.", "> I have 4 cats now"),
        ("The user has 3 cats.", "```\nI have 4 cats now\n```"),
        ("The user has 3 cats.", "Anna has 4 cats now."),
        ("The user has 3 cats.", "Maybe I have 4 cats now."),
        ("The user has 3 cats.", "I have 4 cats now " + "and so on " * 500),
    ],
)
def test_what_is_not_asserted_by_the_user_contradicts_nothing(memory: str, message: str) -> None:
    assert judged(memory, "I have 4 cats now.") == NUMBER
    assert judged(memory, message) is None


def test_only_what_was_said_later_counts() -> None:
    old, new = Claim("a", "The user has 3 cats.", THEN), Claim("b", "I have 4 cats now.", LATER)
    assert contradicts(old, new) == NUMBER
    assert contradicts(old, Claim("b", new.content, THEN)) is None
    assert contradicts(Claim("a", old.content, LATER), Claim("b", new.content, THEN)) is None


def test_people_do_not_contradict_each_other_about_themselves() -> None:
    ada = Claim("a", "Ada has 3 cats.", THEN, "Ada")
    assert contradicts(ada, Claim("b", "I have 4 cats now.", LATER, "Ada")) == NUMBER
    assert contradicts(ada, Claim("b", "I have 4 cats now.", LATER, "Ben")) is None
    launch = Claim("a", "The launch is on May 3.", THEN, "Ada")
    assert contradicts(launch, Claim("b", "The launch is on May 10.", LATER, "Ben")) == VALUE


@pytest.mark.parametrize(
    ("memory", "key"),
    [
        ("The user lives in Rome.", "user.home"),
        ("User works at Acme.", "user.employer"),
        ("The user's email is dana@mail.example.", "user.email"),
        ("I live in Rome.", "user.home"),
        ("Rome is a city.", None),
        ("Dana lives in Rome.", None),
    ],
)
def test_a_memory_gets_the_key_that_its_words_would_have_got(memory: str, key: str | None) -> None:
    assert keyed(Claim("a", memory, THEN)).key == key
    assert keyed(Claim("a", memory, THEN, key="mine")).key == "mine"


def test_values_under_one_key_differ_only_if_neither_holds_the_other() -> None:
    def under(memory: str, message: str) -> str | None:
        return contradicts(Claim("a", memory, THEN), Claim("b", message, LATER))

    assert under("The user lives in Rome.", "I live in Rome, Italy.") is None
    assert under("The user lives in Rome, Italy.", "I live in Rome.") is None
    assert under("The user lives in Rome.", "I live in Oslo.") == VALUE
    assert under("The user's birthday is on May 3, 1990.", "My birthday is on May 3.") is None
    assert under("The user's email is dana@one.example.", "My email is dana@two.example.") == VALUE
    assert under("The user no longer works at Acme.", "I work at Acme.") == OPPOSITE
    assert under("The user no longer works at Acme.", "I work at Globex.") is None


def test_the_last_word_under_a_key_decides() -> None:
    said = [Claim("c", "I live in Rome again.", LATER + timedelta(days=1)), Claim("b", "I live in Oslo.", LATER)]
    assert MessageIndex(said[1:]).against(Claim("a", "The user lives in Rome.", THEN)) is not None
    assert MessageIndex(said).against(Claim("a", "The user lives in Rome.", THEN)) is None


def test_a_message_that_a_memory_was_made_from_does_not_speak_against_it() -> None:
    sayings = MessageIndex([Claim("b", "I have 4 cats now.", LATER)])
    memory = Claim("a", "The user has 3 cats.", THEN)
    assert sayings.against(memory) is not None
    assert sayings.against(memory, ["b"]) is None


def test_a_message_is_found_among_many_that_share_its_words() -> None:
    said = [Claim(f"m{at}", f"The launch of project {at} is on May 9.", LATER) for at in range(1000, 0, -1)]
    found = MessageIndex(said).against(Claim("a", "The launch of project 7 is on May 3.", THEN))
    assert found is not None
    assert (found.id, found.reason) == ("m7", VALUE)
    assert MessageIndex(said).against(Claim("a", "The launch of project 7 is on May 9.", THEN)) is None


def test_keys_of_the_callers_own_do_not_stand_in_the_way() -> None:
    sayings = MessageIndex([Claim("b", "I live in Oslo.", LATER)])
    for key in ("home", "user.home", None):
        found = sayings.against(Claim("a", "The user lives in Rome.", THEN, key=key))
        assert found is not None
        assert (found.id, found.reason) == ("b", VALUE)


def test_speakers_with_names_have_memories_of_their_own() -> None:
    sayings = MessageIndex([Claim("b", "I live in Oslo.", LATER, "Ada Byron"), Claim("c", "I live in Bonn.", LATER, "Ben")])
    ada = sayings.against(Claim("a", "Ada Byron lives in Rome.", THEN, key="ada_byron.home"))
    ben = sayings.against(Claim("a", "Ben lives in Rome.", THEN))
    assert ada is not None
    assert ben is not None
    assert (ada.id, ben.id) == ("b", "c")
    assert sayings.against(Claim("a", "Cleo lives in Rome.", THEN)) is None


def test_hostile_text_is_read_quickly_enough_to_finish() -> None:
    for text in (
        "a" * 4000,
        "not " * 1000,
        "moved from " * 300,
        "1 " * 2000,
        "I have 3, " * 390,
        "\x00" * 100,
        "I no longer",
        "",
    ):
        assert judged("The user has 3 cats.", text) is None
        assert judged(text, "I have 4 cats now.") is None
        assert isinstance(statements(text), list)


def test_a_name_with_a_parenthesis_is_no_pattern() -> None:
    claim = Claim("known", "Bob (Sales lives in Rome.", THEN, "Bob (Sales")
    assert keyed(claim).key == keyed(Claim("known", "Bob lives in Rome.", THEN, "Bob")).key == "user.home"
