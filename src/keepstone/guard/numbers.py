"""Numbers that are sensitive: cards, US social security numbers, phone numbers, IBANs. Checksums decide where there are any,
words next to the number where there are none.

Bounds: in a chain of more than 64 groups of digits or 1,000 characters only cards as they are printed are searched for; phones in
the first 1,000 chains that are nothing else; IBANs at their first 1,000 possible beginnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from keepstone.guard.context_words import ContextWords
from keepstone.guard.normalize import TABLES, pattern

Span = tuple[str, int, int, str]

GAP = r"[ \t\r\n.\-/()_]"
_CHAIN = pattern(rf"[0-9](?<![0-9A-Za-z][0-9])(?:{GAP}{{0,3}}[0-9]){{6,}}+")
_GROUP = pattern(r"[0-9]+")
_BARE = pattern(r"[0-9](?<![0-9][0-9])[0-9]{11,18}(?![0-9])")
_FOURS = pattern(
    rf"(?<![0-9])[0-9]{{4}}({GAP}{{1,3}})[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}(?:\1[0-9]{{4}})*+(?:\1[0-9]{{1,3}})?(?![0-9])"
)
_THREES = pattern(rf"(?<![0-9])3[0-9]{{3}}{GAP}{{1,3}}[0-9]{{6}}{GAP}{{1,3}}[0-9]{{4,5}}(?![0-9])")
_SSN = pattern(rf"(?<![0-9A-Za-z])([0-9]{{3}})({GAP}{{1,3}})([0-9]{{2}})\2([0-9]{{4}})(?![0-9A-Za-z])")
NO_GAPS = str.maketrans("", "", " \t\r\n.-/()_")
_MAX_GROUPS = 64
_MAX_CHAIN_CHARS = 1_000
_SIGNS = ("+", ".", "$", "€", "£")
_MAX_PHONES = 1_000

_DOUBLED = bytes(range(48)) + bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)) + bytes(198)
# Lengths and beginnings that need a word to be taken for a card when bare: other numbers like them are many times as frequent.
_NEED_WORD = (12, 17, 18)
_REGIONAL = tuple("50 56 57 58 600 602 603 604 605 606 607 608 609 63 67 8 9".split())


def has_luhn_digit(digits: str) -> bool:
    """Whether the last digit is the check digit of the others, as on cards."""
    given = digits.encode()
    single = given[-1::-2]
    return (sum(single) - 48 * len(single) + sum(given[-2::-2].translate(_DOUBLED))) % 10 == 0


@cache
def _prefixes() -> dict[str, frozenset[int]]:
    """The lengths of cards by their first four digits."""
    found: dict[str, frozenset[int]] = {}
    for sizes, prefixes in TABLES["card_issuers"].items():
        for prefix in prefixes.split():
            first, _, last = prefix.partition("-")
            scale = 10 ** (4 - len(first))
            for number in range(int(first) * scale, (int(last or first) + 1) * scale):
                found[str(number)] = found.get(str(number), frozenset()).union(map(int, sizes.split()))
    return found


def is_issued(digits: str) -> bool:
    """Whether a card of this length may begin with these digits."""
    return len(digits) in _prefixes().get(digits[:4], ())


def _is_article_number(digits: str) -> bool:
    """Whether this is the number of an article (EAN-13, GTIN-14), which other checksums confirm."""
    weights = (1, 3) if len(digits) % 2 else (3, 1)
    return sum(int(each) * weights[at % 2] for at, each in enumerate(digits)) % 10 == 0


def find_numbers(text: str, nearby: ContextWords) -> list[Span]:
    """Cards, social security numbers and phones: everything made of digits and little between them."""
    found: list[Span] = []
    looked = 0
    for chain in _CHAIN().finditer(text):
        start, end = chain.span()
        if looked >= _MAX_PHONES and end - start < 9:
            continue
        if end - start > _MAX_CHAIN_CHARS:
            _find_printed(text, start, end, nearby, found)
            _find_ssns(text, start, end, nearby, found)
            continue
        groups = [each.span() for each in _GROUP().finditer(text, start, end)]
        sizes = [last - first for first, last in groups]
        count = sum(sizes)
        before = len(found)
        if count >= 12:
            _find_cards(text, groups, sizes, nearby, found)
        if count >= 9 and len(groups) > 2:
            _find_ssns(text, start, end, nearby, found)
        if len(found) == before:
            if count == 9 and _stands_alone(text, start, end) and nearby.word(start, end) == "ssn":
                found.append(("ssn", start, end, ""))
            elif looked < _MAX_PHONES:
                looked += 1
                found.extend(_find_phones(text, groups, nearby))
    return found


def _join_digits(text: str, groups: Sequence[tuple[int, int]]) -> str:
    return "".join([text[first:last] for first, last in groups])


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no letter touches it."""
    after = text[end : end + 1]
    return not (after == "_" or (after.isalnum() and after.isascii())) and not (start and text[start - 1] == "_")


def _find_cards(text: str, groups: list[tuple[int, int]], sizes: list[int], nearby: ContextWords, found: list[Span]) -> None:
    start, end = groups[0][0], groups[-1][1]
    before = len(found)
    if sizes == [4, 4, 4, 4]:
        if _is_card(text, groups, nearby) and (_stands_alone(text, start, end) or nearby.before(start) == "card"):
            found.append(("card", start, end, ""))
        return
    if len(groups) == 1:
        if sizes[0] <= 19 and _is_bare_card(text, start, end, text[start:end], nearby):
            found.append(("card", start, end, ""))
        return
    _find_printed(text, start, end, nearby, found)
    if len(found) == before and len(groups) <= _MAX_GROUPS:
        found.extend(_find_odd_cards(text, groups, nearby))


def _find_printed(text: str, start: int, end: int, nearby: ContextWords, found: list[Span]) -> None:
    """Cards as they are printed: bare, in fours, in the groups of Amex and Diners."""
    for bare in _BARE().finditer(text, start, end):
        if _is_bare_card(text, bare.start(), bare.end(), bare.group(), nearby):
            found.append(("card", bare.start(), bare.end(), ""))
    _find_fours(text, start, end, nearby, found)
    for threes in _THREES().finditer(text, start, end):
        first, last = threes.span()
        digits = threes.group().translate(NO_GAPS)
        if (
            is_issued(digits)
            and _stands_alone(text, first, last)
            and (has_luhn_digit(digits) or nearby.word(first, last) == "card")
        ):
            found.append(("card", first, last, ""))


def _is_bare_card(text: str, start: int, end: int, digits: str, nearby: ContextWords) -> bool:
    if not _stands_alone(text, start, end):
        return False
    size = end - start
    if is_issued(digits) and has_luhn_digit(digits):
        word = nearby.word(start, end)
        if word and not (word == "phone" and size > 15):  # no phone number is as long
            return word in ("card", "money")
        if size in _NEED_WORD or (size in (13, 14) and _is_article_number(digits)) or digits.startswith(_REGIONAL):
            return False
        if size == 19 and not digits.startswith(("4", "62")):
            return False
        before = text[max(0, start - 2) : start]
        return before[-1:] not in ("/", ".", "+", "#") and not (before.endswith("-") and before[0].isalnum())
    likely = has_luhn_digit(digits) or (size >= 13 and digits[0] != "0")
    return likely and nearby.word(start, end) == "card" and len(set(digits)) > 1


def _find_fours(text: str, start: int, end: int, nearby: ContextWords, found: list[Span]) -> None:
    """Cards in runs of groups of four with the same characters between; a run too long for one card is cut into several."""
    run = _FOURS().search(text, start, end)
    while run:
        groups = [each.span() for each in _GROUP().finditer(text, run.start(), run.end())]
        onward = run.end()
        if len(groups) == 5 and _FOURS().match(text, groups[4][0], end):  # the last one begins the next card
            onward = groups.pop()[0]
        tail = groups[-1][1] - groups[-1][0] < 4
        whole = groups[:-1] if tail else groups
        if len(whole) == 4:
            windows = [groups, whole] if tail else [whole]
        elif len(whole) % 4 == 0 or nearby.before(run.start()) == "card":
            windows = [whole[at : at + 4] for at in range(0, len(whole) - 3, 4)]
        else:
            windows = []
        for window in windows:
            first, last = window[0][0], window[-1][1]
            if _is_card(text, window, nearby) and (_stands_alone(text, first, last) or nearby.before(first) == "card"):
                found.append(("card", first, last, ""))
                if tail:
                    break
            elif len(whole) > 4:
                break
        run = _FOURS().search(text, onward, end)


def _is_card(text: str, window: Sequence[tuple[int, int]], nearby: ContextWords) -> bool:
    digits = _join_digits(text, window)
    start, end = window[0][0], window[-1][1]
    if not is_issued(digits) or not has_luhn_digit(digits):
        return len(digits) == 16 and len(set(digits)) > 1 and digits[0] != "0" and nearby.word(start, end) == "card"
    if start and text[start - 1] == "+":
        return False
    if len(window) < 3:
        return True
    values = [int(text[first:last]) for first, last in window]
    step = values[1] - values[0]
    if step and all(after - each == step for each, after in pairwise(values)):  # 4000 5000 6000 7000
        return nearby.word(start, end) in ("card", "money")
    return True


def _find_odd_cards(text: str, groups: list[tuple[int, int]], nearby: ContextWords) -> Iterator[Span]:
    """A card in groups as no bank prints them: mixed gaps between fours, groups of one size, or any groups after a card word."""
    sizes = [last - first for first, last in groups]
    for at in range(len(groups) - 3):
        if sizes[at : at + 4] == [4, 4, 4, 4] and len({text[groups[i][1] : groups[i + 1][0]] for i in range(at, at + 3)}) > 1:
            window = groups[at : at + 4]
            around = sizes[at - 1] if at else 0, sizes[at + 4] if at + 4 < len(sizes) else 0
            if 4 not in around and _stands_alone(text, window[0][0], window[-1][1]) and _is_card(text, window, nearby):
                yield ("card", window[0][0], window[-1][1], "")
                return
    if len(groups) > 1 and sum(sizes) == 16 and all(size % 4 == 0 for size in sizes):  # fours, some written together
        start, end = groups[0][0], groups[-1][1]
        if _stands_alone(text, start, end) and nearby.word(start, end) != "other" and _is_card(text, groups, nearby):
            yield ("card", start, end, "")
            return
    for first, last in _even_runs(sizes):
        window = groups[first:last]
        digits = _join_digits(text, window)
        if (
            len(digits) >= 13
            and is_issued(digits)
            and has_luhn_digit(digits)
            and _stands_alone(text, window[0][0], window[-1][1])
        ):
            plus = text[max(0, window[0][0] - 1) : window[0][0]] == "+"
            word = nearby.before(window[0][0])
            fits = word in ("card", "money") if sizes[first] in (2, 3) else word not in ("phone", "other")
            if fits and not plus and _is_card(text, window, nearby):
                yield ("card", window[0][0], window[-1][1], "")
                return
    if len(groups) > 1 and nearby.word(groups[0][0], groups[-1][1]) in ("card", "money"):
        total = 0
        for at, size in enumerate(sizes):
            total += size
            digits = _join_digits(text, groups[: at + 1])
            if 13 <= total <= 19 and is_issued(digits) and has_luhn_digit(digits):
                yield ("card", groups[0][0], groups[at][1], "")
                return


def _even_runs(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Stretches of groups of one size (the last may be shorter) that hold as many digits as a card."""
    at = 0
    while at < len(sizes):
        size, stop = sizes[at], at + 1
        while stop < len(sizes) and sizes[stop] == size:
            stop += 1
        if size != 4:
            if 13 <= (stop - at) * size <= 19 and stop - at > 1:
                yield at, stop
            if stop < len(sizes) and sizes[stop] < size and 13 <= (stop - at) * size + sizes[stop] <= 19:
                yield at, stop + 1
        at = stop


def _find_ssns(text: str, start: int, end: int, nearby: ContextWords, found: list[Span]) -> None:
    for each in _SSN().finditer(text, start, end):
        first, last = each.span()
        area, gap, middle, serial = each.groups()
        if first > start or last < end:  # more digits in the same manner make it something else
            after = last + len(gap)
            if text.startswith(gap, last) and text[after : after + 1].isdigit():
                continue
            if first > len(gap) and text.endswith(gap, 0, first) and text[first - len(gap) - 1].isdigit():
                continue
        word = nearby.word(first, last)
        if word != "ssn":
            if word and ("-" not in gap or (word == "other" and not nearby.by_field)):
                continue
            if (
                area in ("000", "666")
                or area[0] == "9"
                or middle == "00"
                or serial == "0000"
                or text[first - 1 : first] in _SIGNS
            ):
                continue
        found.append(("ssn", first, last, ""))


_DATE = pattern(
    r"(?:(?:19|20)\d\d[-/. ]\d{1,2}[-/. ]\d{1,2}(?!\d)|\d{1,2}[-/. ]\d{1,2}[-/. ](?:19|20)\d\d(?!\d)"
    r"|(?:19|20)\d\d ?[-/] ?(?:19|20)\d\d$)"
)
_DECIMAL = pattern(r"\d+\.\d+(?: ?[-/] ?\d+\.\d+)*$")
_EXTENSION = pattern(r" ?(?:x|ext\.?) ?\d{1,6}(?!\w)")
_NATIONAL = pattern(
    r"(?:1[ .\-])?\(?[2-9]\d\d\)?[ .\-]{1,3}\d{3}[.\-]\d{4}$|(?:1 )?\(?[2-9]\d\d\)? [2-9]\d\d \d{4}$"
    r"|0\d(?:[ .\-]\d\d){4}$|\(0?\d{1,4}\)[ .\-]{0,2}\d{2,4}(?:[ .\-]\d{2,4}){1,3}$|0\d{2,4}[ \-/]\d{3,4}[ \-]\d{3,4}$"
    r"|07\d{3}[ \-]?\d{6}$"
    r"|0\d{2,3} \d{3} \d\d \d\d$|0\d{3}(?: \d\d){3}$"
)


def _find_phones(text: str, groups: list[tuple[int, int]], nearby: ContextWords) -> Iterator[Span]:
    for line in _split_lines(text, groups):
        start, end = line[0][0], line[-1][1]
        count = sum(last - first for first, last in line)
        if not 7 <= count <= 17:
            continue
        before = text[max(0, start - 3) : start]
        opened = before.endswith("(")
        plus = before.rstrip("( ").endswith("+")
        begin = start - len(before) + before.rindex("+") if plus else start - opened
        number = text[begin:end]
        if plus:
            if count <= 16 and not (begin and text[begin - 1].isalnum()):
                yield ("phone", begin, end, "")
            continue
        if (
            count > 15
            or before[-1:] in tuple("$€£¥#.:=")
            or _DATE().match(text, start, end)
            or _DECIMAL().match(text, start, end)
        ):
            continue
        extension = _EXTENSION().match(text, end)
        if extension:
            end = extension.end()
        elif text[end : end + 1] in tuple("%€$£") or (end < len(text) and text[end].isascii() and text[end].isalnum()):
            continue
        word = nearby.before(start)
        if (
            word == "phone"
            or (not word and len(line) > 1 and nearby.after(end) == "phone")
            or (word != "other" and _NATIONAL().match(number))
        ):
            yield ("phone", begin, end, "")


def _split_lines(text: str, groups: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """The groups of each line, where a number in brackets or after a plus begins anew."""
    line: list[tuple[int, int]] = []
    for first, last in groups[:_MAX_GROUPS]:
        if line:
            gap = text[line[-1][1] : first]
            if "\n" in gap or ("(" in gap and len(line) > 0 and sum(e - s for s, e in line) > 3):
                yield line
                line = []
        line.append((first, last))
    if line:
        yield line


_MAX_IBANS = 1_000
_IBAN_LENGTHS = {country: int(size) for size, countries in TABLES["iban_countries"].items() for country in countries.split()}
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
        if seen > _MAX_IBANS:
            return
        whole = _iban_pattern(size).match(text, start)
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
def _iban_pattern(count: int) -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z](?:{GAP}{{0,3}}[A-Za-z0-9]){{{count - 1}}}(?![A-Za-z0-9])")
