"""E-mail addresses, phones and IP addresses are noticed; dates, prices, measures and versions are not taken for them."""

from __future__ import annotations

import pytest

from keepstone.guard.sensitive import find_sensitive


def shown(text: str) -> list[tuple[str, str]]:
    return [(found.kind, text[found.start : found.end]) for found in find_sensitive(text)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("write to ada@example.org.", "ada@example.org"),
        ("<a.b+c@mail.example.co.uk>", "a.b+c@mail.example.co.uk"),
        ("mailto:o'neil@example.com", "o'neil@example.com"),
        ("jürgen@müller.de", "jürgen@müller.de"),
        ("ａｄａ@example.org", "ａｄａ@example.org"),
        ("ada [at] example [dot] org", "ada [at] example [dot] org"),
        ("ada(at)example.org", "ada(at)example.org"),
        ("a\u200bda@exam\u200bple.org", "a\u200bda@exam\u200bple.org"),
    ],
)
def test_an_e_mail_address_is_noticed(text: str, address: str) -> None:
    assert ("email", address) in [(kind, value.removeprefix("mailto:")) for kind, value in shown(text)]


@pytest.mark.parametrize(
    "text", ["@ada said hi", "meet @ noon", "pkg@1.2.3", "a@b", "ada@", "@@@@", "look (at) this", "5 @ 3.50 each"]
)
def test_what_is_no_e_mail_address(text: str) -> None:
    assert shown(text) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+49 30 1234567", "+49 30 1234567"),
        ("+1 (415) 555-2671", "+1 (415) 555-2671"),
        ("+44 7700 900123 is mine", "+44 7700 900123"),
        ("＋４９ ３０ １２３４５６７", "＋４９ ３０ １２３４５６７"),
        ("(415) 555-2671", "(415) 555-2671"),
        ("415-555-2671", "415-555-2671"),
        ("415.555.2671", "415.555.2671"),
        ("06 12 34 56 78", "06 12 34 56 78"),
        ("07700 900123", "07700 900123"),
        ("call me on 5552671", "5552671"),
        ("phone: 9472 7916", "9472 7916"),
        ("my mobile is 0171 2345678", "0171 2345678"),
        ("Fax: 345-899-3560x4587", "345-899-3560x4587"),
        ("416 60 039 office", "416 60 039"),
    ],
)
def test_a_phone_number_is_noticed(text: str, number: str) -> None:
    assert shown(text) == [("phone", number)]


@pytest.mark.parametrize(
    "text",
    [
        "on 2024-05-12 at 10:30:45",
        "12/05/2024, 12.05.2024 or 2010-2020",
        "$1234567.89 or 1 234 567 €",
        "it weighs 1234567 g",
        "1234567",
        "order 415-555-2671",
        "between 1990-2000 and 2000-2010",
        "3.1415926 and 1234567.1234567",
        "10 20 30 40 50",
        "5 x 12 x 30 cm, 1000-2000 mg",
        "9780306406157",
    ],
)
def test_what_is_no_phone_number(text: str) -> None:
    assert shown(text) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ping 192.168.1.1 now", "192.168.1.1"),
        ("from 8.8.8.8.", "8.8.8.8"),
        ("http://10.0.0.5:8080/x", "10.0.0.5"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:0db8:85a3:0000:0000:8a2e:0370:7334"),
        ("fe80::1ff:fe23:4567:890a", "fe80::1ff:fe23:4567:890a"),
        ("host ::1 answers", "::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
    ],
)
def test_an_ip_address_is_noticed(text: str, address: str) -> None:
    assert shown(text) == [("ip", address)]


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4",
        "v1.2.3.4",
        "v 1.2.3.4",
        "section 2.3.1.4",
        "1.2.3",
        "1.2.3.4.5",
        "256.1.1.1",
        "12:30:45",
        "00:1a:2b:3c:4d:5e",
        "std::vector<int> a::b",
        "10:20:30:40",
        "ratio 1:2:3",
    ],
)
def test_what_is_no_ip_address(text: str) -> None:
    assert shown(text) == []


def test_the_graver_kind_wins_where_two_meet() -> None:
    assert shown("postgres://ada:pa55@example.org/db") == [("secret", "pa55")]
    assert shown("card 4111 1111 1111 1111, ada@example.org, 10.0.0.1") == [
        ("card", "4111 1111 1111 1111"),
        ("email", "ada@example.org"),
        ("ip", "10.0.0.1"),
    ]
