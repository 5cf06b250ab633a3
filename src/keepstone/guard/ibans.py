"""IBANs: by the country's length and the check digits, or the word in front.

Bounds: after 1,000 beginnings of an IBAN no more are looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from keepstone.guard.context_words import ContextWords
from keepstone.guard.normalize import pattern
from keepstone.guard.numbers import GAP, NO_GAPS, Span

_MANY_IBANS = 1_000
_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28,
    "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28,
    "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24,
    "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26,
    "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
_IBAN = pattern(  # the first check digit, which has two letters of its own in front
    rf"[0-9](?<![0-9][0-9])(?:(?<=[A-Za-z]{{2}}[0-9])(?<![A-Za-z0-9][A-Za-z]{{2}}[0-9])|(?<=[A-Za-z]{{2}}{GAP}[0-9])(?<![A-Za-z0-9][A-Za-z]{{2}}{GAP}[0-9])"
    rf"|(?<=[A-Za-z]{GAP}[A-Za-z]{GAP}[0-9])(?<![A-Za-z0-9][A-Za-z]{GAP}[A-Za-z]{GAP}[0-9]))"
    rf"{GAP}?[0-9](?=(?:{GAP}{{0,3}}[A-Za-z0-9]){{11}})"
)
_AS_DIGITS = {ord(letter): str(at + 10) for at, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def find_ibans(text: str, nearby: ContextWords) -> Iterator[Span]:
    """IBANs: as long as those of the country are, and with the right check digits or the word in front."""
    seen = 0
    for head in _IBAN().finditer(text):
        start = head.start() - (
            2 if text[head.start() - 1].isalpha() else 3 if text[head.start() - 3 : head.start() - 1].isalpha() else 4
        )
        size = _IBAN_LENGTHS.get((text[start] + text[start + 1 if text[start + 1].isalpha() else start + 2]).upper())
        if size is None:
            continue
        seen += 1
        if seen > _MANY_IBANS:
            return
        whole = _letters(size).match(text, start)
        if whole is None:
            continue
        value = whole.group().translate(NO_GAPS).upper()
        digits = sum(map(value.count, "0123456789"))
        if digits < 8:
            continue
        loose = not text[start : start + 4].isalnum()
        if int((value[4:] + value[:4]).translate(_AS_DIGITS)) % 97 == 1:
            if not loose or digits > size // 2:
                yield ("iban", start, whole.end(), "")
        elif not loose and nearby.before(start) == "iban":
            yield ("iban", start, whole.end(), "")


@cache
def _letters(count: int) -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z](?:{GAP}{{0,3}}[A-Za-z0-9]){{{count - 1}}}(?![A-Za-z0-9])")
