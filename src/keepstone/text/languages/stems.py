"""Stop words and light stems of each language, from its data file.

A light stem is a word without its commonest endings. In Latin script it depends on the language of the text, which a short text
may not tell; in every other script on the script alone.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from keepstone.text.languages.lexicon import CODES, load

LATIN = frozenset("de fr es pt it nl pl tr".split())
_CYRILLIC = re.compile(r"[\u0400-\u04ff]+")
_ARABIC = re.compile(r"[\u0620-\u06d3]+")
_HEBREW = re.compile(r"[\u05d0-\u05ea]+")
_HEBREW_BEGINNINGS = ("וה", "של", "שה", "מה", "ה", "ו", "ב", "ל", "מ", "ש", "כ")
_HEBREW_ENDINGS = ("ים", "ות", "ה", "ת", "י")
_HEBREW_FINALS = str.maketrans("ךםןףץ", "כמנפצ")


def stop_words(language: str) -> frozenset[str]:
    """Words of nearly every text of a language, without accents; none for a language without a data file."""
    return _stop_words(language) if language in CODES else frozenset()


@cache
def _stop_words(language: str) -> frozenset[str]:
    return frozenset(load(language).data["words"]["stop"].split())


@cache
def _endings(language: str) -> tuple[tuple[str, ...], tuple[str, ...], int, int]:
    words = load(language).data["words"]
    longest_first = sorted(words["endings"].split(), key=lambda ending: (-len(ending), ending))
    return tuple(longest_first), tuple(words.get("beginnings", "").split()), words["times"], words["shortest"]


@lru_cache(maxsize=65536)
def light_stem(word: str, language: str) -> str:
    """A folded word without its commonest endings; the word itself where its language has none.

    >>> light_stem("katzen", "de"), light_stem("книгами", ""), light_stem("المدرسة", "")
    ('katz', 'книг', 'مدرس')
    """
    if len(word) < 4:
        return word
    if not word.isascii():
        if _CYRILLIC.fullmatch(word):
            language = "ru"
        elif _ARABIC.fullmatch(word):
            language = "ar"
        elif _HEBREW.fullmatch(word):
            return _strip(word, _HEBREW_BEGINNINGS, _HEBREW_ENDINGS, 1, 2).translate(_HEBREW_FINALS)
    elif language not in LATIN:
        return word
    if language not in CODES or not word.isalpha() or "endings" not in load(language).data["words"]:
        return word
    endings, beginnings, times, shortest = _endings(language)
    return _strip(word, beginnings, endings, times, shortest)


def _strip(word: str, beginnings: tuple[str, ...], endings: tuple[str, ...], times: int, shortest: int) -> str:
    for beginning in beginnings:
        if word.startswith(beginning) and len(word) - len(beginning) >= 3:
            word = word[len(beginning) :]
            break
    for _ in range(times):
        ending = next((ending for ending in endings if word.endswith(ending) and len(word) - len(ending) >= shortest), "")
        if not ending:
            break
        word = word[: -len(ending)]
    return word
