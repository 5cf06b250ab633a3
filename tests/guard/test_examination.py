"""One write's examination: what the policy says is done to texts, names and data, and told without the values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keepstone.errors import ConfigurationError
from keepstone.guard.examination import Examination
from keepstone.guard.extras import KINDS as EXTRA_KINDS
from keepstone.guard.policy import DEFAULT, Policy, marker
from keepstone.guard.sensitive import KINDS, SensitiveSpan, find_sensitive
from keepstone.types import NAME_LIMIT

CARD = "4111 1111 1111 1111"
OTHER_CARD = "5500 0000 0000 0004"


def examined(**treatments: str) -> Examination:
    return Examination(Policy.of(treatments))


def test_the_defaults() -> None:
    policy = Policy.of(None)
    assert {kind: policy.treatment(kind) for kind in KINDS} == DEFAULT
    assert {kind for kind in KINDS if policy.treatment(kind) == "redact"} == {"secret", "card", "ssn", "national_id", "iban"}
    assert {kind for kind in KINDS if policy.treatment(kind) == "tag"} == {"email", "phone", "ip"}
    assert policy.treatment("person") == "tag"


def test_a_policy_lies_over_the_defaults() -> None:
    policy = Policy.of({"email": "redact", "card": "refuse", "person": "redact"})
    assert [policy.treatment(kind) for kind in ("email", "card", "person", "ssn")] == ["redact", "refuse", "redact", "redact"]


def test_an_unknown_kind_or_treatment_is_told() -> None:
    with pytest.raises(
        ConfigurationError, match="'cards' is not a kind of sensitive data: use secret, card, ssn, national_id, iban"
    ):
        Policy.of({"cards": "redact"})
    with pytest.raises(ConfigurationError, match="'hide' is not a treatment for card: use one of redact, tag, refuse, allow"):
        Policy.of({"card": "hide"})


@pytest.mark.parametrize("kind", [*KINDS, *EXTRA_KINDS])
def test_nothing_is_found_in_a_marker(kind: str) -> None:
    for text in (marker(kind), f"password: {marker(kind)}", f"card {marker(kind)} 12/26", f"{marker(kind)} {marker(kind)} 2"):
        assert find_sensitive(text) == []
    assert marker("card") == "[redacted:card]"


def test_a_text_is_cleaned() -> None:
    examination = examined()
    text = examination.text(f"pay with {CARD}, my ssn is 078-05-1120; write to ada@example.org", "content")
    assert text == "pay with [redacted:card], my ssn is [redacted:ssn]; write to ada@example.org"
    assert examination.redacted == ("card", "ssn")
    assert examination.tagged == ("email",)
    assert examination.refused == ()
    assert examination.reasons() == (
        "a card number in the content was replaced by [redacted:card]",
        "a social security number in the content was replaced by [redacted:ssn]",
        "an e-mail address in the content was noticed and kept",
    )
    assert examined().text(text, "content") == text


def test_reasons_never_tell_the_value() -> None:
    examination = examined(phone="redact", email="refuse")
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    examination.text(f"{secret} and {CARD} and +49 30 1234567", "content")
    examination.data({f"key {CARD}": secret, "mail": "lovelace@example.org"}, "metadata")
    told = " ".join(examination.reasons())
    assert "a secret (GitHub token) in the content was replaced by [redacted:secret]" in told
    assert "an e-mail address in the metadata is refused by the policy" in told
    for value in (secret, CARD, "1234567", "lovelace", "example.org", "4111"):
        assert value not in told


def test_refuse_and_allow() -> None:
    refusing = examined(card="refuse")
    assert refusing.text(f"card {CARD}", "content") == f"card {CARD}"
    assert refusing.refused == ("card",)
    allowing = examined(card="allow")
    assert allowing.text(f"card {CARD}", "content") == f"card {CARD}"
    assert (allowing.refused, allowing.redacted, allowing.tagged, allowing.reasons()) == ((), (), (), ())


def test_the_same_finding_is_told_once() -> None:
    examination = examined()
    examination.text(f"{CARD} and {OTHER_CARD}", "content")
    examination.text(CARD, "content")
    assert len(examination.reasons()) == 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"ssn": "078051120"}, {"ssn": "[redacted:ssn]"}),
        ({"user": {"ssn": 78051120}}, {"user": {"ssn": "[redacted:ssn]"}}),
        ({"card": 4111111111111111}, {"card": "[redacted:card]"}),
        ({"card": {"number": [4111111111111111.0]}}, {"card": {"number": ["[redacted:card]"]}}),
        ([4111111111111111, -4111111111111111], ["[redacted:card]", "[redacted:card]"]),
        ({"order_id": 4111111111111111}, {"order_id": 4111111111111111}),
        ({"password": "hunter2", "user": "ada"}, {"password": "[redacted:secret]", "user": "ada"}),
        ({CARD: 1, OTHER_CARD: 2}, {"[redacted:card]": 1, "[redacted:card] 2": 2}),
        (
            {CARD: 1, "[redacted:card]": 2, "[redacted:card] 2": 3},
            {"[redacted:card] 3": 1, "[redacted:card]": 2, "[redacted:card] 2": 3},
        ),
        ({"a": [True, None, 1.5, "x"], "b": {}}, {"a": [True, None, 1.5, "x"], "b": {}}),
        ({"n": 10**400, "at": 1700000000000, "id": "550e8400-e29b-41d4-a716-446655440000"}, None),
    ],
)
def test_data_is_cleaned_wherever_it_stands(given: Any, kept: Any) -> None:
    assert examined().data(given, "metadata") == (given if kept is None else kept)


def test_numbers_that_are_none() -> None:
    value = [float("inf"), float("-inf"), 1e300]
    assert examined().data(value, "metadata") == value
    assert str(examined().data(float("nan"), "metadata")) == "nan"


def test_a_name_stays_within_its_length() -> None:
    examination = examined(ip="redact")
    assert examination.name(f"card-{CARD}", "key") == "card-[redacted:card]"
    assert examination.reasons() == ("a card number in the key was replaced by [redacted:card]",)
    assert examination.name("trip to Oslo", "tag") == "trip to Oslo"
    long = "host 1.1.1.1 " * 19
    assert len(long) <= NAME_LIMIT
    name = examination.name(long, "session")
    assert len(name) <= NAME_LIMIT
    assert "1.1.1.1" not in name


def test_detectors_add_what_they_find() -> None:
    def names(text: str) -> list[SensitiveSpan]:
        at = text.find("Ada")
        return [SensitiveSpan("person", at, at + 3)] if at >= 0 else []

    def wrong(text: str) -> list[SensitiveSpan]:
        return [SensitiveSpan("person", -1, 2), SensitiveSpan("person", 3, 3), SensitiveSpan("person", 0, len(text) + 1)]

    examination = Examination(Policy.of({"person": "redact"}), [names, wrong])
    assert examination.text(f"Ada pays with {CARD}", "content") == "[redacted:person] pays with [redacted:card]"
    assert examination.redacted == ("card", "person")
    assert "a person's name in the content was replaced by [redacted:person]" in examination.reasons()


def test_a_graver_kind_wins_over_a_detector() -> None:
    def everything(text: str) -> list[SensitiveSpan]:
        return [SensitiveSpan("location", 0, len(text))]

    examination = Examination(Policy.of({"location": "redact"}), [everything])
    assert examination.text(CARD, "content").startswith("[redacted:")
    assert "card" in examination.redacted


def test_of_a_long_text_that_is_little_else_the_beginning_is_kept() -> None:
    text = "Here they are: " + "4111 1111 1111 1111, " * 3000
    look = Examination(Policy.of(None))
    cleaned = look.text(text, "content")
    assert cleaned.startswith("Here they are: [redacted:card], [redacted:card]")
    assert "cut here" in cleaned
    assert len(cleaned) < 8_192
    assert not any(character.isdigit() for character in cleaned)
    assert look.redacted == ("card",)
    numbers = " ".join(str(number) for number in range(1_000_000_000, 1_000_004_000))  # long, and nothing to hide
    assert Examination(Policy.of(None)).text(numbers, "content") == numbers


def test_json_inside_a_text_stays_json() -> None:
    """A tool's arguments are JSON in a text: what is taken out of them must leave something that can be read."""
    look = Examination(Policy.of(None))
    arguments = '{"n": 4111111111111111, "to": ["4111 1111 1111 1111", "Dana"], "inner": "{\\"card\\": 4111111111111111}"}'
    cleaned = look.data({"arguments": arguments}, "blocks")["arguments"]
    assert "1111" not in cleaned
    held = json.loads(cleaned)
    assert held["to"][1] == "Dana"
    assert json.loads(held["inner"])
    assert look.redacted == ("card",)
    assert look.data({"note": "{4111 1111 1111 1111"}, "blocks") == {"note": "{[redacted:card]"}
