"""Text into tokens, and tokens into the terms they are compared by."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from keepstone.text import english as lex
from keepstone.text.words import stem

_TOKEN = re.compile(
    r"c\+\+|[cf]#|\.net\b|!=|\d+th\b|(?<![\w)])-?\d[\d,]*(?:[.:]\d+)*|\d[\d,]*(?:[.:]\d+)*|each-[a-z]+|[a-z]+-ly\b"
    r"|'(?:s|re|ve|m|ll|d)\b|[^\W\d_]+|[^\s\w\"'()\[\]{}*_/\\`~.…–—-]|\.(?=\s|$)|(?<=\s)[–—](?=\s)"
)
_PHRASES = [(hint, re.compile(pattern), plain) for hint, pattern, plain in lex.PHRASES]
_FRAME = re.compile(r"^(?:" + "|".join(lex.FRAMES) + r")\s*")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({lex.MONTH_PATTERN})\b\.?")
_MONTH_DAY = re.compile(rf"\b({lex.MONTH_PATTERN})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)")
_DIGIT = re.compile(r"\d")
_DATE_YEAR = re.compile(r"(date \d+:\d+),? (?=\d{4}\b)")
_SHORT_CLOCK = re.compile(r"(?<![\d:-])(?<!date )(\d:\d\d)\b")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d\d))? ?([ap])\.?m\b\.?")
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b")
_AMOUNT = re.compile(r"([€$£]) ?(\d[\d,.]*\d|\d)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\b")
_VERSION = re.compile(r"\bv(?=\d)")
_NAME = re.compile(r"\b(?!User|The\b)[A-Z]\w+")
_NO_CODE = re.compile(r"(?i)v?[\d.,:]+[a-z]{0,3}(?:-[a-z]+)*|k8s")  # 3pm, 25th, 64GB, v2.1, 3-year-old
_FRAME_OF_USER = re.compile(r"(?:according to )?(?:the )?(?:user|i|we|they)\b")
_FRAME_OF_NOTE = re.compile(r"(?:please|note|remember|reminder|fyi|for the|just|by the|btw)\b")
# Letters that would pass for grammar: vitamin A, a job in IT, the US.
_MEANT = {"IT": "infotech", "US": "usa", "A": "lettera", "WHO": "worldhealth"}
_SHOUTED = re.compile(r"(?<=[\w,] )(?:IT|US|A|WHO)\b")
_DOUBLED_L = re.compile(r"(?<=\w{4})ll$")


def _inflected(word: str) -> str:
    if word in lex.BASE_FORMS:
        return lex.BASE_FORMS[word]
    if word in lex.NOT_GERUND or word in lex.ONLY_PLURAL or word.endswith("ly"):
        return word
    for ending in ("ing", "ed"):
        if word.endswith(ending) and word[: -len(ending)] in lex.E_VERBS:
            return word[: -len(ending)] + "e"
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    return _DOUBLED_L.sub("l", stem(_one_spelling(word)))


def _one_spelling(word: str) -> str:
    """One spelling of two: organise, colour and centre become organize, color and center."""
    word = re.sub(r"(?<=\w{3})(?:ys|is)(?=(?:e|es|ed|ing|ation)$)", lambda found: found[0][0] + "z", word)
    word = re.sub(r"(?<=\w{3})our(?=s?$|ite|ed$|ing$|hood)", "or", word) if len(word) > 4 else word
    return re.sub(r"(?<=[nt])tre$", "ter", word)


SYNONYM = {word if word.endswith("ed") else _inflected(word): group[0] for group in lex.SYNONYMS for word in group}


@lru_cache(maxsize=16384)
def lemma(word: str) -> str:
    """The term a word is compared by: uninflected, in one spelling, the first of its synonyms."""
    base = word if word in lex.NOT_OUR else _inflected(lex.PAST_FORMS.get(word, word))
    return SYNONYM.get(base, base)


def _prepared(text: str) -> tuple[str, bool, bool]:
    """The text in plain phrases; whether it is only supposed or reported; whether the user reports it."""
    shouted = any(f" {word}" in text for word in _MEANT) and not text.isupper()
    plain = _SHOUTED.sub(lambda found: _MEANT[found[0]], text) if shouted else text
    plain = " ".join(plain.lower().split())
    hedged = by_user = False
    for _ in range(3):
        frame = _FRAME.match(plain)
        shorter = plain[frame.end() :] if frame else plain
        if shorter == plain or not shorter:
            break
        hedged = hedged or not _FRAME_OF_NOTE.match(plain)
        by_user = by_user or _FRAME_OF_USER.match(plain) is not None
        plain = shorter
    plain = plain.replace("the user", "user")
    for hint, pattern, replacement in _PHRASES:
        if hint in plain:
            plain = pattern.sub(replacement, plain)
    return (_figures(plain) if _DIGIT.search(plain) else plain), hedged, by_user


def tokenize(text: str) -> tuple[list[str], bool, bool]:
    """The tokens of a folded text, and whether it is hedged, and whether the user is the one who reports it."""
    plain, hedged, by_user = _prepared(text)
    return _possessives(_numbers(_TOKEN.findall(plain))), hedged, by_user


def names(text: str) -> frozenset[str]:
    """The words written with a capital, in lower case."""
    return frozenset() if text.isupper() else frozenset(name.lower() for name in _NAME.findall(text))


def codes(text: str, secret: bool) -> tuple[str, ...]:
    """Paths, addresses and identifiers exactly as written; in a text about a secret every capitalised word as well."""
    found = []
    for at, word in enumerate(text.split()):
        word = word.strip(".,;:!?()[]\"'")
        path = "@" in word or "_" in word or "\\" in word or (("." in word or word.count("/") > 1) and "/" in word)
        mixed = word[:1] and not word.isalpha() and any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
        if path or (mixed and not _NO_CODE.fullmatch(word)) or (secret and at and word.lower() != word):
            found.append(word)
    return tuple(sorted(found))


def _figures(plain: str) -> str:
    """Dates, times, versions and amounts, each kind written in one way. Each is looked for only where a cheap sign of it is."""
    if "-" in plain:
        plain = _ISO_DATE.sub(lambda d: f"date {int(d[2])}:{int(d[3])} {d[1]}", plain)
    if any(word.rstrip(".,;") in lex.MONTHS for word in plain.split()):
        plain = _DAY_MONTH.sub(lambda d: f"date {lex.MONTHS[d[2]]}:{int(d[1])}", plain)
        plain = _MONTH_DAY.sub(lambda d: f"date {lex.MONTHS[d[1]]}:{int(d[2])}", plain)
    if "date " in plain:
        plain = _DATE_YEAR.sub(r"\1 ", plain)
    if "am" in plain or "pm" in plain or ".m" in plain:
        plain = _CLOCK.sub(lambda t: f"{int(t[1]) % 12 + 12 * (t[3] == 'p'):02d}:{t[2] or '00'}", plain)
    if ":" in plain:
        plain = _SHORT_CLOCK.sub(r"0\1", plain)
    return _ORDINAL.sub(r"\1th", _AMOUNT.sub(r"\2 \1", _VERSION.sub("version ", plain)))


def folded(text: str) -> str:
    """One form of every character: compatibility forms merged, accents off, quotes straight."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text.replace("’", "'").replace("‘", "'"))
    return unicodedata.normalize("NFC", "".join(c for c in text if unicodedata.category(c) != "Mn" or c > "\u0370"))


def _numbers(tokens: list[str]) -> list[str]:
    """Number words and thousands as digits: twenty five -> 25, 2 million -> 2000000, 10,000 -> 10000."""
    merged: list[str] = []
    value: int | None = None
    last = 0
    for token in [*tokens, ""]:
        digits = token.replace(",", "") if _THOUSANDS.match(token) else token.rstrip(",")
        if value is not None and token in lex.SCALES:
            value, last = value * lex.SCALES[token], lex.SCALES[token]
            continue
        step = lex.UNITS.get(token, lex.TENS.get(token))
        if value is not None and step is not None and (last >= 100 or (last >= 20 and step < 10)):
            value, last = value + step, step
            continue
        if value is not None:
            merged.append(str(value))
            value = None
        if step is not None:
            value = last = step
        elif digits.isascii() and digits.isdigit() and len(digits) < 16 and not digits.startswith("0"):
            value, last = int(digits), 1
        elif token:
            merged.append(digits or token)
    return merged


def is_past(word: str) -> bool:
    """Whether a word has the form of a past tense or a participle."""
    return word in lex.PAST_FORMS or (word.endswith("ed") and len(word) > 3 and word not in lex.NOT_PAST)


def _possessives(tokens: list[str]) -> list[str]:
    """'s as "is" where it must be, and as the mark of an owner everywhere else."""
    told: list[str] = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token != "'s":
            told.append(token)
        elif (
            told[-1:] in (["it"], ["he"], ["she"], ["that"], ["there"], ["what"], ["who"])
            or (after.endswith("ing") and after not in lex.NOT_GERUND)
            or after in lex.ARTICLES
            or after in lex.MOODS
            or after in ("not", "")
            or is_past(after)
        ):
            told.append("is")
        elif told[-1:] == ["user"]:
            told[-1] = "user's"
        elif told:
            told.append("of-it")
    return told


def is_number(term: str) -> bool:
    """Whether a term counts, dates or tells the time."""
    return any(c.isdigit() for c in term) or term in lex.ORDINALS.values()
