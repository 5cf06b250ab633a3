"""What one has one of at a time is replaced by what is said next; "now" at the end of a sentence does not hide it."""

from __future__ import annotations

import pytest

from keepstone import Memory
from keepstone.learning.readers import HOLDERS
from keepstone.learning.rules import find_facts

HELD_BY_ONE = {
    "My manager's name is Yuki.": "user.manager",
    "My boss is Rashid.": "user.manager",
    "My new line manager is called Ines.": "user.manager",
    "My wife's name is Anna.": "user.partner",
    "My partner is called Saoirse.": "user.partner",
    "my boyfriend is named kai": "user.partner",
    "My fiancée is Noor.": "user.partner",
    "My mum is Gwen.": "user.mother",
    "My dad's name is Anton.": "user.father",
    "My landlady is Mrs. Petrov.": "user.landlord",
    "My therapist is called Nadia.": "user.therapist",
    "My GP is Dr. Patel.": "user.doctor",
    "My dentist is Dr Varga, she is kind.": "user.dentist",
    "My vet's name is Imogen.": "user.vet",
    "My flatmate is called Jo.": "user.roommate",
}

HELD_BY_SEVERAL = [
    "My brother's name is Tom.",
    "My neighbour is called Ida.",
    "My dog's name is Rex.",
    "My roommates are called Jo and Max.",
    "My moms are named Sue and Bea.",
    "My boss's name is Ann and Bob.",
    "My ex wife is called Carla.",
    "My former manager's name is Yuki.",
    "My old boss is called Rashid.",
    "My previous landlord's name is Igor.",
    "My late husband's name is Frank.",
    "My business partner is named Reuben.",
    "My account manager is called Lena.",
]

NOBODY = [
    "My ex-wife is Carla.",
    "My former manager is Yuki.",
    "My old boss is Rashid.",
    "My friend's manager is Ines.",
    "My wife's boss is called Rashid.",
    "My mother-in-law is Agnes.",
    "My brother is Tom.",
    "My boss is German.",
    "My boss is Irish-American.",
    "My dad is Vietnamese.",
    "My mother is South African.",
    "My husband is Muslim.",
    "My boss is Rashid's cousin.",
    "My manager is OOO.",
    "My dentist is Tuesday.",
    "My doctor is Dr.",
    "My Boss Is Mean",
    "my boss is mad",
    "My manager is Yuki this week.",
    "Is my boss Rashid?",
    "If my boss is Rashid, I quit.",
]

NOW = ["now", "these days", "nowadays", "currently", "as of today", "since Monday", "since last week"]
HERE = ["right now", "at the moment"]
LASTING = {
    "I work at Hooli": "user.employer",
    "I'm working for Hooli": "user.employer",
    "I'm a paramedic": "user.job",
    "I work as a paramedic": "user.job",
    "My favourite drink is chai": "user.favourite.drink",
    "My manager is Ines": "user.manager",
    "I'm vegan": "user.diet",
    "I work in finance": None,
}
PREFERRED = {"I prefer Emacs": "user.prefers.editor", "I prefer oat milk": None, "I'm working at Hooli": "user.employer"}

OF_THE_MOMENT = [
    "I'm in a meeting right now.",
    "I'm tired now.",
    "I'm at the airport now.",
    "I'm working on it now.",
    "I'm working at the library now.",
    "I'm working at Starbucks right now.",
    "I prefer to stop now.",
    "I prefer a break now.",
    "I prefer waiting now.",
    "I prefer tea right now.",
    "I prefer Saturday now.",
    "I'm leaving now.",
    "I love pizza right now.",
    "I work at Hooli now and then.",
    "Oh great, I'm a therapist now.",
    "I'm a doctor now, apparently.",
    "I work at Hooli now?",
]

CHANGED = {
    "As of today I work at Hooli.": ("user.employer", "The user works at Hooli."),
    "These days I'm a paramedic.": ("user.job", "The user is a paramedic."),
    "I've just moved to Porto.": ("user.home", "The user has moved to Porto."),
    "I started a new job at Hooli today.": ("user.employer", "The user started a new job at Hooli."),
    "I got my new job at Hooli!": ("user.employer", "The user got their new job at Hooli."),
    "I just started working for Bell Labs in Berlin.": (
        "user.employer", "The user just started working for Bell Labs in Berlin."),
    "I've joined Hooli as a designer.": ("user.employer", "The user joined Hooli as a designer."),
    "I switched from Vim to Emacs.": ("user.prefers.editor", "The user switched from Vim to Emacs."),
}  # fmt: skip

NOT_CHANGED = [
    "I moved the meeting to Lisbon.",
    "I moved to the kitchen.",
    "I joined the call.",
    "I joined Netflix.",
    "I joined Zoom as a guest.",
    "I joined Hooli as a designer and left in 2015.",
    "I started at 9.",
    "I started at Stanford last fall.",
    "I started working at 9.",
    "I started working at Hooli in 2012.",
    "I got a job at Hooli but I turned it down.",
    "I switched from coffee to tea.",
    "I switched from Vim to Spanish.",
    "I switched from Vim to Emacs but went back.",
]


@pytest.mark.parametrize("text", HELD_BY_ONE)
def test_whom_one_has_one_of_has_a_key(text: str) -> None:
    assert [fact.key for fact in find_facts(text)] == [HELD_BY_ONE[text]]


@pytest.mark.parametrize("text", HELD_BY_SEVERAL)
def test_whom_one_has_several_of_or_had_before_has_none(text: str) -> None:
    assert [fact.key for fact in find_facts(text)] == [None]


@pytest.mark.parametrize("text", NOBODY)
def test_nobody_is_named(text: str) -> None:
    assert find_facts(text) == []


def test_every_holder_is_a_relation_that_is_read() -> None:
    for name, key in HOLDERS.items():
        assert [fact.key for fact in find_facts(f"My {name} is called Robin.")] == [f"user.{key}"]


@pytest.mark.parametrize("tail", NOW + HERE)
@pytest.mark.parametrize("text", LASTING)
def test_what_holds_now_is_read_like_what_holds(text: str, tail: str) -> None:
    assert find_facts(f"{text} {tail}.") == find_facts(f"{text}.")
    assert [fact.key for fact in find_facts(f"{text} {tail}, and I like it.")] == [LASTING[text]]


@pytest.mark.parametrize("tail", NOW)
@pytest.mark.parametrize("text", PREFERRED)
def test_what_may_be_of_the_moment_is_read_unless_it_says_right_now(text: str, tail: str) -> None:
    assert find_facts(f"{text} {tail}.") == find_facts(f"{text}.")
    assert [fact.key for fact in find_facts(f"{text}.")] == [PREFERRED[text]]


@pytest.mark.parametrize("text", OF_THE_MOMENT)
def test_a_state_of_the_moment_is_not_learned(text: str) -> None:
    assert find_facts(text) == []


def test_now_in_another_clause_belongs_there() -> None:
    found = find_facts("I work at Hooli and my sister is in Rome right now.")
    assert [fact.content for fact in found] == ["The user works at Hooli."]


def test_now_and_what_it_replaces_is_a_correction() -> None:
    for text in ("I work at Hooli now, not Initech.", "My manager is Ines now, not Yuki."):
        assert [fact.correction for fact in find_facts(text)] == [True]


@pytest.mark.parametrize("text", CHANGED)
def test_a_change_takes_the_key_of_what_it_changes(text: str) -> None:
    assert [(fact.key, fact.content) for fact in find_facts(text)] == [CHANGED[text]]


@pytest.mark.parametrize("text", NOT_CHANGED)
def test_other_changes_are_not_learned(text: str) -> None:
    assert find_facts(text) == []


def test_the_next_one_takes_the_place_of_the_last() -> None:
    with Memory.open(":memory:", user="dana") as memory:
        talk = memory.conversation("monday")
        for text in (
            "My manager's name is Yuki. I work at Initech.",
            "My boss is Rashid now.",
            "By the way, I work at Hooli now.",
        ):
            talk.add("user", text)
        assert sorted(record.content for record in memory.list(tag="profile")) == [
            "The user works at Hooli.",
            "The user's boss is Rashid.",
        ]
