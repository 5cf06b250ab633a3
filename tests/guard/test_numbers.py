"""Cards, social security numbers and IBANs are found however they are written; numbers that only look like them are not."""

from __future__ import annotations

import pytest

from keepstone.guard.numbers import has_luhn_digit, is_issued
from keepstone.guard.sensitive import find_sensitive

GRAVE = ("secret", "card", "ssn", "iban")


def kinds(text: str, context: str = "") -> list[str]:
    return [found.kind for found in find_sensitive(text, context=context)]


def grave(text: str, context: str = "") -> list[str]:
    return [kind for kind in kinds(text, context) if kind in GRAVE]


def shown(text: str, kind: str) -> list[str]:
    return [text[found.start : found.end] for found in find_sensitive(text) if found.kind == kind]


@pytest.mark.parametrize(
    "number",
    [
        "4111 1111 1111 1111",
        "4242 4242 4242 4242",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "4111/1111/1111/1111",
        "4111\n1111\n1111\n1111",
        "4111 1111\n1111-1111",
        "4111\u00a01111\u00a01111\u00a01111",
        "4111 - 1111 - 1111 - 1111",
        "4111111111111111",
        "4111\u200b1111\u200b1111\u200b1111",
        "４１１１１１１１１１１１１１１１",
        "٤١١١ ١١١١ ١١١١ ١١١١",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "41111111 11111111",
        "𝟒𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏 𝟏𝟏𝟏𝟏",
        "4️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣1️⃣",
        "3782 822463 10005",
        "378282246310005",
        "5555 5555 5555 4444",
        "6011 1111 1111 1117",
        "3056 930902 5904",
        "3530 1113 3330 0000",
        "2223 0031 2200 3222",
        "6200 0000 0000 0005",
    ],
)
@pytest.mark.parametrize("sentence", ["{}", "take {} please", "It is:\n{}\nThanks", "({})", "Kartennummer {}.", "“{}”"])
def test_a_card_is_found(number: str, sentence: str) -> None:
    text = sentence.format(number)
    start = text.index(number)
    (found,) = find_sensitive(text)
    assert found.kind == "card"
    assert found.start == start
    assert text[found.end :].lstrip("\ufe0f\u20e3") == text[start + len(number) :]  # marks on the last digit are not seen


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("my card 4111 1111 1111 1111 12/26 123", "4111 1111 1111 1111"),
        ("order 77 was paid by card 4111111111111111", "4111111111111111"),
        ("4111111111111111 is my card", "4111111111111111"),
        ("credit card 4111111111111112", "4111111111111112"),
        ("card number: 1234 5678 9012 3456", "1234 5678 9012 3456"),
        ("my card: 41 11 11 11 11 11 11 11", "41 11 11 11 11 11 11 11"),
        ("the visa is 411111 1111 111111", "411111 1111 111111"),
        ("card number 630427373398 is lost", "630427373398"),
        ("我的卡号是4111111111111111", "4111111111111111"),
        ("cc 4047737215142", "4047737215142"),
    ],
)
def test_words_beside_a_card(text: str, number: str) -> None:
    assert shown(text, "card") == [number]


def test_cards_beside_each_other() -> None:
    text = "4111 1111 1111 1111\n5500 0000 0000 0004\n4012-8888-8888-1881 4111 1111 1111 1111 4012-8888-8888-1881"
    assert len(shown(text, "card")) == 5
    assert len(shown("4111111111111111 5500000000000004, 4012888888881881", "card")) == 3
    assert len(shown("4111 1111 1111 1111 5500 0000 0000 0004", "card")) == 2


@pytest.mark.parametrize(
    "text",
    [
        "order 4111111111111111",
        "Order number: 4111111111111111 was shipped",
        "invoice no. 5555555555554444",
        "tracking 4012888888881881",
        "case 4111111111111111 is open, ref 5500000000000004",
        "IMEI 490154203237518",
        "imei: 353918052107063",
        "IMEI 35-209900-176148-1",
        "ISBN 978-0-306-40615-7",
        "ISBN 9780306406157, 0-306-40615-2",
        "EAN 4006381333931",
        "4006381333931",
        "9400 1000 0000 0000 0000 00",
        "1Z999AA10123456784",
        "JD014600006281230704",
        "1700000000000 and 1700000000000000",
        "20240115103045",
        "2024-01-15 10:30:45.123456789",
        "2024-01-15 2024-01-16",
        "550e8400-e29b-41d4-a716-446655440000",
        "41111111-1111-4111-8111-111111111111",
        "d41d8cd98f00b204e9800998ecf8427e",
        "3.14159265358979323846264338327950288",
        "0.4111111111111111",
        "52.520008, 13.404954 and -122.4194155",
        "4000 5000 6000 7000",
        "10 20 30 40 50 60 70 80 90",
        "5 10 15 20 25 30 35 40 45",
        "1990 2000 2010 2020",
        "40 99 23 88 33 32 90 48",
        "571 217 186 985 742 960",
        "4111111111111112",
        "4111 1111 1111 1112",
        "**** **** **** 1234",
        "xxxx-xxxx-xxxx-4242",
        "https://x.example/status/4111111111111111",
        "user_4111111111111111 and 4111111111111111_v2",
        "gift card 4111111111111111",
        "ICCID 8944501810180175785",
        "+49 4111 1111 1111",
        "1,000,000,000,000,000",
        "m_abc123 r_4532015112830366",
        "1234567812345678",
        "0000 0000 0000 0000",
    ],
)
def test_what_only_looks_like_a_card(text: str) -> None:
    assert grave(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "123-45-6789",
        "my number is 078-05-1120.",
        "123 45 6789",
        "123.45.6789",
        "123/45/6789",
        "123–45–6789",
        "123 - 45 - 6789",
        "１２３-４５-６７８９",
        "1\u200b23-45-67\u200b89",
        "ssn 123456789",
        "Social Security number: 123456789",
        "SSN: 1 2 3 4 5 6 7 8 9",
        "123456789 is my ssn",
        "ITIN 912-78-1234",
    ],
)
def test_a_social_security_number_is_found(text: str) -> None:
    assert kinds(text) == ["ssn"]


@pytest.mark.parametrize(
    "text",
    [
        "123456789",
        "000-12-3456",
        "666-12-3456",
        "923-45-6789",
        "123-00-4567",
        "123-45-0000",
        "order 123-45-6789",
        "part number 123-45-6789",
        "123-45-6789-0",
        "1-123-45-6789",
        "123-45-67890",
        "A123-45-6789",
        "***-**-6789",
        "room 123 has 45 chairs and 6789 books",
    ],
)
def test_what_only_looks_like_a_social_security_number(text: str) -> None:
    assert "ssn" not in kinds(text)


@pytest.mark.parametrize(
    "iban",
    [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "de89 3704 0044 0532 0130 00",
        "DE89-3704-0044-0532-0130-00",
        "DE89.3704.0044.0532.0130.00",
        "GB82WEST12345698765432",
        "gb82 west 1234 5698 7654 32",
        "FR14 2004 1010 0505 0001 3M02 606",
        "NL91ABNA0417164300",
        "NO9386011117947",
        "MT84MALT011000012345MTLCAST001S",
        "ＤＥ８９ ３７０４ ００４４ ０５３２ ０１３０ ００",
        "DE89\u200b370400440532013000",
        "D E 8 9 3 7 0 4 0 0 4 4 0 5 3 2 0 1 3 0 0 0",
    ],
)
@pytest.mark.parametrize("sentence", ["{}", "send it to {} today", "account:{}, thanks"])
def test_an_iban_is_found(iban: str, sentence: str) -> None:
    text = sentence.format(iban)
    (found,) = find_sensitive(text)
    assert (found.kind, text[found.start : found.end]) == ("iban", iban)


def test_an_iban_without_its_check_digits_needs_the_word() -> None:
    assert kinds("IBAN: DE88370400440532013000") == ["iban"]
    assert grave("DE88370400440532013000") == []
    assert grave("ZZ89370400440532013000, GB82WEST1234569876543, at 10 we met 12 people in 2024 at no 15") == []


def test_the_name_of_a_field_is_context() -> None:
    assert kinds("078051120", context="ssn") == ["ssn"]
    assert kinds("4111111111111112", context="cardNumber") == ["card"]
    assert grave("4111111111111111", context="order_id") == []
    assert kinds("4111111111111111", context="card_id") == ["card"]
    assert kinds("hunter2", context="password") == ["secret"]
    assert kinds("Sunny days ahead", context="password") == []
    assert kinds("4155552671", context="phone") == ["phone"]


def test_checksums_and_issuers() -> None:
    assert has_luhn_digit("4111111111111111")
    assert has_luhn_digit("79927398713")
    assert not has_luhn_digit("4111111111111121")
    assert is_issued("4111111111111111")
    assert is_issued("378282246310005")
    assert not is_issued("411111111111111")
    assert not is_issued("9999999999999999")
