"""What holds for any text: no error, positions inside, redacting is final, and no disguise hides a valid number."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keepstone.guard.examination import Examination
from keepstone.guard.normalize import Plain
from keepstone.guard.policy import Policy
from keepstone.guard.sensitive import KINDS, find_sensitive

GAPS = ("", " ", "-", ".", "/", "\n", "\u00a0", " - ", "–", "\u2009")
UNSEEN = "\u200b\u200c\u200d\ufeff\u2060\u00ad"
ISSUED = [
    ("4", 16),
    ("51", 16),
    ("55", 16),
    ("2300", 16),
    ("34", 15),
    ("37", 15),
    ("6011", 16),
    ("65", 16),
    ("36", 14),
    ("3530", 16),
    ("62", 16),
    ("4", 19),
]
PIECES = (
    "password: ", "api_key=", "card ", "ssn ", "iban ", "order ", "call ", "4111 1111 1111 1111", "4111111111111111",
    "123-45-6789", "DE89370400440532013000", "ghp_", "sk-", "a1B2c3D4e5F6g7H8", "@", "ada@example.org", "10.0.0.1",
    "+49 30 1234567", "\n", " ", "-", "://", "eyJ", "-----BEGIN PRIVATE KEY-----", "hunter2", "[redacted:card]", "\u200b",
    "４", "::1", "é", "x", "7",
)  # fmt: skip
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))


def check_digit(start: str) -> str:
    """The digit that makes the whole pass Luhn's test, worked out the long way."""
    total = 0
    for at, each in enumerate(reversed(start)):
        value = int(each) * (2 if at % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


@st.composite
def cards(draw: st.DrawFn) -> str:
    prefix, size = draw(st.sampled_from(ISSUED))
    middle = "".join(
        draw(st.lists(st.sampled_from("0123456789"), min_size=size - len(prefix) - 1, max_size=size - len(prefix) - 1))
    )
    return prefix + middle + check_digit(prefix + middle)


def disguised(draw: st.DrawFn, groups: list[str]) -> str:
    """The groups with one gap between them, some digits in another script, characters between that are not seen."""
    text = draw(st.sampled_from(GAPS)).join(groups)
    zero = draw(st.sampled_from((ord("0"), 0xFF10, 0x660, 0x966, 0x1D7CE)))
    letters = [chr(zero + int(each)) if "0" <= each <= "9" else each for each in text]
    return draw(st.sampled_from(("", "", *UNSEEN))).join(letters)


@given(texts, st.sampled_from(("", "password", "card number", "ssn", "phone")))
def test_positions_lie_inside_and_apart(text: str, context: str) -> None:
    end = 0
    for found in find_sensitive(text, context=context):
        assert found.kind in KINDS
        assert end <= found.start < found.end <= len(text)
        assert text[found.start : found.end] not in found.detail
        end = found.end


@given(texts)
def test_redacting_is_final(text: str) -> None:
    policy = Policy.of(dict.fromkeys(KINDS, "redact"))
    once = Examination(policy).text(text, "content")
    again = Examination(policy)
    assert again.text(once, "content") == once
    assert again.redacted == ()


@given(cards(), st.data())
def test_a_disguised_card_is_found(card: str, data: st.DataObject) -> None:
    groups = [card[at : at + 4] for at in range(0, len(card), 4)]
    if len(card) in (14, 15):
        groups = [card[:4], card[4:10], card[10:]]
    words = data.draw(st.sampled_from(("my card is {}", "{} is my credit card", "{}", "pay with {}, thanks")))
    steps = {int(after) - int(each) for each, after in pairwise(groups)}
    assume(words != "{}" or (len(steps) > 1 and len(card) == 16))
    text = words.format(disguised(data.draw, groups))
    assert [found.kind for found in find_sensitive(text)] == ["card"]
    assert not any(each.isdigit() for each in Examination(Policy.of(None)).text(text, "content"))


@given(st.integers(1, 899), st.integers(1, 99), st.integers(1, 9999), st.data())
def test_a_disguised_social_security_number_is_found(area: int, group: int, serial: int, data: st.DataObject) -> None:
    assume(area != 666)
    number = disguised(data.draw, [f"{area:03}", f"{group:02}", f"{serial:04}"])
    text = data.draw(st.sampled_from(("my ssn is {}", "social security number: {}"))).format(number)
    assert [found.kind for found in find_sensitive(text)] == ["ssn"]


@given(
    st.sampled_from((("DE", 18, ""), ("GB", 14, "WEST"), ("NL", 10, "ABNA"), ("ES", 20, ""), ("FR", 23, ""), ("PL", 24, ""))),
    st.data(),
)
def test_a_disguised_iban_is_found(country: tuple[str, int, str], data: st.DataObject) -> None:
    code, size, bank = country
    account = bank + "".join(data.draw(st.lists(st.sampled_from("0123456789"), min_size=size, max_size=size)))
    check = 98 - int("".join(str(int(each, 36)) for each in account + code + "00")) % 97
    iban = f"{code}{check:02}{account}"
    if data.draw(st.booleans()):
        iban = iban.lower()
    text = f"send it to {disguised(data.draw, [iban[at : at + 4] for at in range(0, len(iban), 4)])} today"
    assert [found.kind for found in find_sensitive(text)] == ["iban"]


json_data = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """The structure alone: how many values lie where."""
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "value"


@given(json_data)
def test_data_keeps_its_structure_and_every_value(value: Any) -> None:
    examination = Examination(Policy.of(None))
    cleaned = examination.data(value, "metadata")
    assert shape(cleaned) == shape(value)
    if not examination.redacted:
        assert cleaned == value
    assert Examination(Policy.of(None)).data(cleaned, "metadata") == cleaned


@given(st.text())
def test_positions_lead_back_to_the_text(text: str) -> None:
    plain = Plain(text)
    for at, each in enumerate(plain.text):
        start, end = plain.span(at, at + 1)
        assert end == start + 1
        assert text[start] == each or not text[start].isascii()


@pytest.mark.parametrize(
    "piece", ["1", "a", "-----BEGIN", "1 ", "\u200b", "@", "+1-", "sk-", "password=", "ghp_", "4111 ", "::", "e\u0301"]
)
def test_long_texts_of_one_piece_hold_nothing_grave(piece: str) -> None:
    text = piece * (65_536 // len(piece))
    assert [found for found in find_sensitive(text) if found.kind not in ("phone", "ip")] == []


@pytest.mark.parametrize(
    "value", ["4-" + "a" * 60 + "!", "a1" + "_a" * 90 + "!", "4" + "-a" * 90 + "!", "4." * 90 + "!a", "a" * 180 + "1!"]
)
@pytest.mark.parametrize("name", ["password", "api_key", "token"])
def test_a_value_made_to_be_slow_is_read_in_one_go(name: str, value: str) -> None:
    assert all(found.kind == "secret" for found in find_sensitive(f"{name}: {value}"))


def test_a_card_in_a_long_text_is_found_at_its_place() -> None:
    dice = random.Random(7)
    filler = " ".join("".join(dice.choices("abcdefghij", k=6)) for _ in range(8_000))
    text = f"{filler} 4111 1111 1111 1111 {filler}"
    (found,) = find_sensitive(text)
    assert (found.kind, found.start, found.end) == ("card", len(filler) + 1, len(filler) + 20)
