"""The people of the simulated year: the same for the same seed, true to what they say, and free of words that would mislead
the benchmark that uses them."""

from __future__ import annotations

import re
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from bench.year import holds
from bench.year_people import START, Session, Year
from bench.year_secrets import Secret, hide_secret
from bench.year_words import ANSWERS, ASKS, ATTRIBUTES, INJECTIONS, JUNK, LOOKUPS, REPLIES, TOPICS, TRIVIA, Attribute
from keepstone.learning.rules import find_facts

YEAR = Year(seed=7, users=3, days=60)
FULL = Year(seed=7, users=2, days=365)
TAILS = ("", *(f" {ask.format(TOPICS[at])}" for at, ask in enumerate(ASKS)))


def text_of(message: dict[str, Any]) -> str:
    """Everything that a message says."""
    content = message["content"]
    return (
        content if isinstance(content, str) else "\n".join(str(block.get("content", block.get("text", ""))) for block in content)
    )


def said(session: Session) -> list[str]:
    """What the user says in a session."""
    return [text_of(message) for message in session.messages if message["role"] == "user"]


def test_the_same_seed_gives_the_same_year_and_another_seed_another() -> None:
    assert list(YEAR) == list(Year(seed=7, users=3, days=60))
    assert [session.messages for session in YEAR] != [session.messages for session in Year(seed=8, users=3, days=60)]


def test_a_day_is_the_same_whatever_was_asked_for_before() -> None:
    alone = Year(seed=7, users=3, days=60).session("Marek", 41)
    assert alone == next(session for session in YEAR if session.user == "Marek" and session.day == START + timedelta(days=41))


def test_everybody_has_one_session_a_day_of_four_to_twelve_messages() -> None:
    sessions = list(FULL)
    assert len(sessions) == len({session.name for session in sessions}) == 2 * 365
    assert {len(session.messages) for session in sessions} <= set(range(4, 13))
    for session in sessions:
        times = [message["at"] for message in session.messages]
        assert times == sorted(set(times))
        assert {at.date() for at in times} == {session.day}


def test_what_is_true_was_said_on_the_day_since_when_it_holds() -> None:
    for user, person in FULL.people.items():
        for name, changes in person.timeline.items():
            assert 1 <= len(changes) <= 5
            for (at, value), (_, before) in zip(changes, ((-1, ""), *changes), strict=False):
                day = START + timedelta(days=at)
                assert value != before
                assert FULL.truth(user, day)[name] == value
                assert FULL.truth(user, day - timedelta(days=1)).get(name, "") == before
                assert any(holds(text, value) for text in said(FULL.session(user, at))), (user, name, at)


def test_nobody_says_what_no_longer_holds() -> None:
    for session in FULL:
        truth = FULL.truth(session.user, session.day)
        spoken = [*said(session), *(write.content for write in session.writes)]
        for attribute in ATTRIBUTES:
            stale = [value for value in attribute.values if value != truth.get(attribute.name)]
            assert not [text for text in spoken for value in stale if holds(text, value)], (session.name, attribute.name)


def test_questions_know_the_current_value_and_those_before() -> None:
    day = START + timedelta(days=300)
    for user in FULL.people:
        truth = FULL.truth(user, day)
        asked = FULL.questions(user, day)
        assert {question.attribute: question.current for question in asked} == truth
        assert all(question.current not in question.superseded for question in asked)
        assert any(question.superseded for question in asked)
        every = FULL.questions(user, day, every=True)
        assert {question.text for question in every} == {text for attribute in ATTRIBUTES for text in attribute.questions}
    assert FULL.questions("Dana", START - timedelta(days=1)) == []


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.name)
def test_the_rules_read_every_plain_statement(attribute: Attribute) -> None:
    assert attribute.plain or attribute.other
    for value in attribute.values:
        for statement in attribute.plain:
            for tail in TAILS:
                facts = find_facts(f"{statement.format(value)}{tail}")
                assert [fact.key for fact in facts] == [attribute.key], (statement, value, tail)
                assert holds(facts[0].content, value)


def test_what_an_agent_writes_down_holds_the_value() -> None:
    for attribute in ATTRIBUTES:
        for text in (*attribute.plain, *attribute.other, *attribute.facts):
            assert all(holds(text.format(value), value) for value in attribute.values), text
        assert (attribute.key is None) == (attribute.route in ("update", "loose"))


def test_no_value_is_in_what_is_said_about_anything_else() -> None:
    values = {value: attribute.name for attribute in ATTRIBUTES for value in attribute.values}
    assert len(values) == sum(len(attribute.values) for attribute in ATTRIBUTES)
    small_talk = (*ANSWERS, *ASKS, *INJECTIONS, *JUNK, *LOOKUPS, *REPLIES, *TOPICS, *TRIVIA)
    assert not [(text, value) for text in small_talk for value in values if holds(text, value)]
    for attribute in ATTRIBUTES:
        texts = (*attribute.plain, *attribute.other, *attribute.facts, *attribute.questions)
        assert not [(text, value) for text in texts for value in values if holds(text, value)]
        inside = [(one, other) for one in values for other in values if one != other and holds(one, other)]
        assert not inside


def test_every_way_of_keeping_a_fact_is_used_and_facts_are_repeated() -> None:
    writes = [write for session in FULL for write in session.writes]
    assert {write.route for write in writes} == {"key", "value", "update", "loose"}
    assert any(write.content in JUNK for session in Year(seed=7, users=10, days=365) for write in session.writes)
    texts = [text for session in FULL for text in said(session)]
    assert len(set(texts)) < len(texts)


def test_junk_and_tool_results_are_where_the_session_says() -> None:
    junk = tools = injected = 0
    for session in FULL:
        for at in session.junk:
            assert session.messages[at]["content"] in JUNK
        for at in session.tools:
            message = session.messages[at]
            assert message["role"] == "tool" or message["content"][0]["type"] == "tool_result"
            injected += any(text in text_of(message) for text in INJECTIONS)
        junk += len(session.junk)
        tools += len(session.tools)
    assert min(junk, tools, injected) > 10


def test_every_secret_is_in_a_message_of_its_session() -> None:
    planted_ones = [(session, secret) for session in FULL for secret in session.secrets]
    assert [secret for _, secret in planted_ones] == FULL.secrets()
    assert len(planted_ones) > 20
    for session, secret in planted_ones:
        assert any(secret.written in text_of(message) for message in session.messages), secret


def many_secrets() -> list[tuple[str, Secret]]:
    random = Random("secrets")
    return [hide_secret(random) for _ in range(600)]


def test_secrets_are_valid_whatever_way_they_are_written() -> None:
    found = many_secrets()
    assert {secret.kind for _, secret in found} == {"card", "ssn", "iban", "key", "token", "pem", "password", "address"}
    for sentence, secret in found:
        assert secret.written in sentence
        assert min(len(form) for form in secret.forms()) >= 8
        assert secret.normal not in repr(secret)
        if secret.kind == "card":
            digits = [int(digit) for digit in reversed(secret.normal)]
            doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
            assert (sum(digits[::2]) + sum(doubled)) % 10 == 0
            assert len(digits) == 16
        if secret.kind == "iban":
            turned = secret.normal[4:] + secret.normal[:4]
            assert int("".join(str(int(letter, 36)) for letter in turned)) % 97 == 1
        if secret.kind == "ssn":
            assert re.fullmatch(r"(?!000|666|9)\d{3}(?!00)\d{2}(?!0000)\d{4}", secret.normal)
    written = [secret.written for _, secret in found if secret.kind == "card"]
    for form in (r"\d{16}", r"\d{4}( \d{4}){3}", r"\d{4}(-\d{4}){3}"):
        assert any(re.fullmatch(form, card) and card.isascii() for card in written)
    assert any(not card.isascii() for card in written)


def test_a_secret_is_looked_for_as_it_is_escaped_and_line_by_line() -> None:
    block = next(secret for _, secret in many_secrets() if secret.kind == "pem")
    assert block.written.replace("\n", "\\n") in block.forms()
    assert block.written.split("\n")[1] in block.forms()
    wide = next(secret for _, secret in many_secrets() if not secret.written.isascii())
    assert any("\\uff1" in form for form in wide.forms())
    assert wide.normal in wide.forms()
