"""The echo guard: what is an echo, and what was fenced."""

from __future__ import annotations

import pytest

from keepstone.learning.echo_guard import is_echo, strip_fences

FACT = "The user prefers dark mode."


@pytest.mark.parametrize(
    ("said", "others", "echo"),
    [
        (["Which theme should I use?"], ["You prefer dark mode, so take the dark one."], True),
        (["Which theme should I use?"], ["The user prefers dark mode."], True),
        (["Which theme should I use?"], ["Hello.", "Dana likes dark mode best and prefers it."], True),
        ([], ["The user prefers dark mode."], True),
        (["Which theme should I use?"], [], False),
        (["Which theme should I use?"], ["You like tea in the morning."], False),
        (["I do prefer dark mode."], ["You prefer dark mode."], False),
        (["Hm.", "Dark it is, I prefer that."], ["You prefer dark mode."], False),
        (["<memory>The user prefers dark mode.</memory> Which theme?"], ["You prefer dark mode."], True),
        (["Which theme?"], ["<memory>The user prefers dark mode.</memory>"], False),
    ],
)
def test_an_echo_is_what_others_said_and_the_user_did_not(said: list[str], others: list[str], echo: bool) -> None:
    assert is_echo(FACT, said, others) is echo


def test_words_are_compared_whatever_their_form() -> None:
    assert is_echo("The user LIVES in Porto.", ["When is the next train?"], ["You are living in porto, are you not?"])
    assert not is_echo("The user lives in Porto.", ["Porto is where we are living."], ["You live in Porto."])


@pytest.mark.parametrize("fact", ["", "The user.", "They are the user's.", "…"])
def test_a_fact_that_says_nothing_is_no_echo(fact: str) -> None:
    assert not is_echo(fact, ["Hello."], [fact, "The user."])


def test_others_may_be_read_once_only() -> None:
    assert is_echo(FACT, [], (text for text in ["You prefer dark mode."]))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("I live in Porto.", "I live in Porto."),
        ("<memory>- likes tea</memory>I live in Porto.", "I live in Porto."),
        ("I live <summary at='x'>\n- likes tea\n</summary>in Porto.", "I live in Porto."),
        ("<MEMORY>- likes tea</Memory>I live in Porto.", "I live in Porto."),
        ("I live in Porto.<recalled>- likes tea", "I live in Porto."),
        ("<context>a</context>I live<memory>b</memory>in Porto.", "I live in Porto."),
        ("<memory>a <summary>b</summary> c</memory>I live in Porto.", "I live in Porto."),
        ("1 < 2 and <b>I</b> live in Porto.", "1 < 2 and <b>I</b> live in Porto."),
        ("<memories>I live in Porto.</memories>", "<memories>I live in Porto.</memories>"),
    ],
)
def test_blocks_that_memory_was_fenced_in_are_left_out(text: str, left: str) -> None:
    assert " ".join(strip_fences(text).split()) == left


def test_many_opened_fences_cost_little() -> None:
    assert strip_fences("<memory " * 20_000 + "I live in Porto.").endswith("I live in Porto.")
    assert strip_fences("<memory>" * 20_000).strip() == ""
