"""National identity, tax and insurance numbers of larger countries.

A number whose form and check digits leave little to chance is found by itself; any other needs its check digits and a word of its
country beside it. At most 1,000 candidates of a text are looked at.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from keepstone.guard.normalize import pattern
from keepstone.guard.numbers import NO_GAPS, Span, has_luhn_digit

_MAX_CANDIDATES = 1_000
_REACH_BEFORE, _REACH_AFTER = 60, 25  # characters in which a word tells what a number is
_SIX_DIGITS = pattern(r"(?:[0-9][^0-9]?){6}")
_NUMBER = pattern(r"(?<![0-9A-Za-z.])(?:[XYZxyz]-?)?[0-9](?:[ .\-/]?[0-9]){6,17}+(?:-?[A-Za-z](?![A-Za-z]))?(?![0-9A-Za-z])")
_CODE = pattern(r"(?<![0-9A-Z])[A-Z]{4}[A-Z0-9]{12,14}(?![0-9A-Z])")
_NINO = pattern(r"(?<![0-9A-Z])[A-CEGHJ-PR-TW-Z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D](?![0-9A-Za-z])")


class _Form(NamedTuple):
    """One kind of number: how it is written, whether its check digits are right, and words beside it where it needs one."""

    written: re.Pattern[str]
    is_valid: Callable[[str], bool]
    words: re.Pattern[str] | None = None


def find_national_ids(text: str, low: str, context: str = "") -> Iterator[Span]:
    """The national numbers in a text; `low` is the text in lower case, `context` the name of its field."""
    if not _SIX_DIGITS().search(text):  # every form has as many
        return
    for forms, candidates in ((_DIGIT_FORMS, _NUMBER()), (_CODE_FORMS, _CODE()), (_NINO_FORMS, _NINO())):
        for found in islice(candidates.finditer(text), _MAX_CANDIDATES):
            value = found.group().translate(NO_GAPS).upper()
            for form in forms:
                if (
                    form.written.fullmatch(found.group())
                    and form.is_valid(value)
                    and _has_word(form, low, context, *found.span())
                ):
                    yield ("national_id", found.start(), found.end(), "")
                    break


def _has_word(form: _Form, low: str, context: str, start: int, end: int) -> bool:
    if form.words is None:
        return True
    around = (low[max(0, start - _REACH_BEFORE) : start], low[end : end + _REACH_AFTER], context)
    return any(form.words.search(part) for part in around)


# -- check digits ---------------------------------------------------------------------------------------------------------
def _weigh(digits: str, weights: str | range) -> int:
    values = weights if isinstance(weights, range) else [int(weight) for weight in weights]
    return sum(int(digit) * weight for digit, weight in zip(digits, values, strict=False))


def _is_date(year: str, month: str, day: str) -> bool:
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True


def _check_cpf(value: str) -> bool:
    first, second = (_weigh(value, range(size, 1, -1)) * 10 % 11 % 10 for size in (10, 11))
    return len(set(value)) > 1 and value[9:] == f"{first}{second}"


def _check_cnpj(value: str) -> bool:
    weights = [6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]
    sums = [sum(int(digit) * weight for digit, weight in zip(value, weights[start:], strict=False)) % 11 for start in (1, 0)]
    return len(set(value)) > 1 and value[12:] == "".join(str(11 - each if each > 1 else 0) for each in sums)


def _check_dni(value: str) -> bool:
    number = value[:-1].translate(str.maketrans("XYZ", "012"))
    return len(set(number)) > 1 and "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == value[-1]


def _check_codice_fiscale(value: str) -> bool:
    odd = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", map(int, _ODD_VALUES.split()), strict=True))
    total = sum(
        odd[each] if at % 2 == 0 else int(each) if each.isdigit() else ord(each) - 65 for at, each in enumerate(value[:15])
    )
    return chr(65 + total % 26) == value[15]


_ODD_VALUES = "1 0 5 7 9 13 15 17 19 21 1 0 5 7 9 13 15 17 19 21 2 4 18 20 11 3 6 8 12 14 16 10 22 25 24 23"


def _check_steuer_id(value: str) -> bool:
    product = 10
    for digit in value[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    counts = sorted(value[:10].count(digit) for digit in set(value[:10]))
    return value[0] != "0" and counts[-1] in (2, 3) and (11 - product) % 10 == int(value[10])


def _check_pesel(value: str) -> bool:
    century = {8: 1800, 0: 1900, 2: 2000, 4: 2100}.get(int(value[2]) // 2 * 2)
    born = century is not None and _is_date(str(century + int(value[:2])), str(int(value[2:4]) % 20), value[4:6])
    return born and (10 - _weigh(value, "1379137913") % 10) % 10 == int(value[10])


def _check_tckn(value: str) -> bool:
    odd, even = sum(map(int, value[0:9:2])), sum(map(int, value[1:8:2]))
    return value[0] != "0" and (odd * 7 - even) % 10 == int(value[9]) and sum(map(int, value[:10])) % 10 == int(value[10])


def _check_resident_id(value: str) -> bool:
    born = "1900" <= value[6:10] <= "2100" and _is_date(value[6:10], value[10:12], value[12:14])
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return born and "10X98765432"[sum(int(d) * w for d, w in zip(value, weights, strict=False)) % 11] == value[17]


def _check_rrn(value: str) -> bool:
    century = "19" if value[6] in "1256" else "20"
    return value[6] in "12345678" and _is_date(century + value[:2], value[2:4], value[4:6])


def _check_aadhaar(value: str) -> bool:
    check = 0
    for at, digit in enumerate(reversed(value)):
        check = _verhoeff(check, _PERMUTATION[at % 8][int(digit)])
    return value[0] not in "01" and check == 0


_PERMUTATION = [
    [int(digit) for digit in row]
    for row in "0123456789 1576283094 5803796142 8916043527 9453126870 4286573901 2793806415 7046913258".split()
]


def _verhoeff(one: int, other: int) -> int:
    """The product of two elements of the dihedral group D5."""
    if one < 5:
        return (one + other) % 5 if other < 5 else 5 + (one + other) % 5
    return 5 + (one - other) % 5 if other < 5 else (one - other) % 5


def _check_my_number(value: str) -> bool:
    rest = sum(int(digit) * (at + 1 if at <= 6 else at - 5) for at, digit in enumerate(reversed(value[:11]), 1)) % 11
    return len(set(value)) > 1 and (0 if rest <= 1 else 11 - rest) == int(value[11])


def _check_curp(value: str) -> bool:
    alphabet = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(alphabet.index(each) * (18 - at) for at, each in enumerate(value[:17]))
    return value[17] == str((10 - total % 10) % 10)


def _check_inn(value: str) -> bool:
    weights = (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)
    checks = [sum(int(d) * w for d, w in zip(value, weights[start:], strict=False)) % 11 % 10 for start in (1, 0)]
    return len(set(value)) > 1 and value[10:] == "".join(map(str, checks))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "nir": lambda value: value[0] in "12" and 1 <= int(value[3:5]) <= 12 and 97 - int(value[:13]) % 97 == int(value[13:]),
    "bsn": lambda value: int(value) > 0 and (_weigh(value, "98765432") - int(value[8])) % 11 == 0,
    "snils": lambda value: len(set(value)) > 1 and _weigh(value, "987654321") % 101 % 100 == int(value[9:]),
    "checked_rrn": lambda value: _check_rrn(value) and (11 - _weigh(value, "234567892345") % 11) % 10 == int(value[12]),
    "luhn": has_luhn_digit,
    "any": lambda value: True,
} | {name.removeprefix("_check_"): check for name, check in list(globals().items()) if name.startswith("_check_")}


def _forms(kind: str) -> tuple[_Form, ...]:
    """The forms of one kind in the data file."""
    return tuple(
        _Form(re.compile(each["written"]), _CHECKS[each["check"]], _words(each.get("words", ""))) for each in _DATA[kind]
    )


def _words(text: str) -> re.Pattern[str] | None:
    return re.compile(rf"(?<![^\W\d_])(?:{text})" if text.isascii() else text) if text else None


_DATA = tomllib.loads(Path(__file__).with_name("national_ids.toml").read_text(encoding="utf-8"))
_DIGIT_FORMS, _CODE_FORMS, _NINO_FORMS = map(_forms, ("digits", "codes", "nino"))
