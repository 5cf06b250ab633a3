"""National numbers are found by form, check digits and words of their country; numbers that only look like them are not."""

from __future__ import annotations

import random

import pytest

from keepstone import Memory
from keepstone.guard.sensitive import find_sensitive

ALONE = [
    "529.982.247-25", "11.222.333/0001-81", "RSSMRA85T10A562S", "2 55 08 14 168 025 38", "255081416802538", "11010519491231002X",
    "900101-1234568", "HEGG560427MVZRRL04", "112-233-445 95",
]  # fmt: skip
WITH_A_WORD = {
    "Meu CPF é {}": "52998224725", "CNPJ {}": "11222333000181", "Mi DNI es {}": "12345678Z", "NIE: {}": "X1234567L",
    "Meine Steuer-ID ist {}": "86095742719", "mijn bsn is {}": "111222333", "PESEL: {}": "44051401359",
    "TC kimlik numaram {}": "10000000146", "주민등록번호는 {} 입니다": "900101-1234567", "My aadhaar is {}": "2341 2341 2346",
    "マイナンバーは{}です": "123456789018", "Мой ИНН {}": "500100732259", "my social insurance number is {}": "046 454 286",
    "My national insurance number is {}": "AB 12 34 56 C",
}  # fmt: skip


def national(text: str, context: str = "") -> list[str]:
    return [text[found.start : found.end] for found in find_sensitive(text, context=context) if found.kind == "national_id"]


@pytest.mark.parametrize("number", ALONE)
def test_a_number_of_clear_form_is_found_by_itself(number: str) -> None:
    assert national(f"It is {number}, thanks.") == [number]
    at = max(place for place, each in enumerate(number) if each.isdigit())
    other = number[:at] + str((int(number[at]) + 1) % 10) + number[at + 1 :]
    assert national(f"It is {other}, thanks.") == []  # a wrong check digit


@pytest.mark.parametrize(("sentence", "number"), WITH_A_WORD.items())
def test_other_numbers_need_a_word_of_their_country(sentence: str, number: str) -> None:
    assert national(sentence.format(number)) == [number]
    assert national(f"The part number is {number}.") == []


def test_a_field_may_be_the_word() -> None:
    assert national("44051401359", context="pesel") == ["44051401359"]


def test_numbers_of_orders_and_devices_are_not_taken_for_national_ones() -> None:
    draw = random.Random(7)
    texts = [f"Order {draw.randrange(10 ** (size - 1), 10**size)} has shipped." for size in (9, 11, 12, 14) for _ in range(2000)]
    texts += [f"Serial {draw.randrange(10**6):06}-{draw.randrange(10**7):07}." for _ in range(50)]
    assert sum(bool(national(text)) for text in texts) <= len(texts) * 0.001


def test_a_national_number_is_redacted_when_it_is_stored() -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        receipt = memory.remember("Meu CPF é 529.982.247-25, guarde para mim.")
        assert receipt.action == "redacted"
        assert memory.list()[0].content == "Meu CPF é [redacted:national_id], guarde para mim."


@pytest.mark.parametrize(
    "text", ["Meine Handynummer: 0171 2345678", "Мой телефон 8 912 345 67 89", "我的电话是13812345678", "전화번호 010-1234-5678"]
)
def test_phones_are_found_by_words_of_their_language(text: str) -> None:
    assert [found.kind for found in find_sensitive(text)] == ["phone"]
