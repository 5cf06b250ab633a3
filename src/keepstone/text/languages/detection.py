"""Which language a text is in, from its script and its function words."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from pathlib import Path

from keepstone.text.languages.lexicon import CODES, fold
from keepstone.text.patterns import lazy_pattern

_MAX_CHARS = 300  # that are looked at
_MIN_SCORE = 0.45  # of a language other than English; a word that only one language has counts 1
_MIN_SHARE = 0.12  # of the words
_MARGIN = 1.05  # over the next language
_ENGLISH_MARGIN = 2.0
_READ = CODES | {"en"}
_WORD = lazy_pattern(r"[^\W\d_]+")
_SCRIPTS = (  # the first of which a text has a good share decides; two letters of Han next to kana are still Japanese
    ("ja", lazy_pattern(r"[\u3041-\u30fa\uff66-\uff9d]")),
    ("ko", lazy_pattern(r"[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", lazy_pattern(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("th", lazy_pattern(r"[\u0e01-\u0e5b]")),
    ("he", lazy_pattern(r"[\u05d0-\u05ea]")),
    ("el", lazy_pattern(r"[\u0370-\u03ff]")),
    ("hi", lazy_pattern(r"[\u0904-\u0939]")),
    ("ar", lazy_pattern(r"[\u0620-\u06d3]")),
    ("ru", lazy_pattern(r"[\u0400-\u04ff]")),
)
_LETTERS = lazy_pattern(r"[^\W\d_]")
_NOT_ARABIC = lazy_pattern(r"[پچژگٹڈںےہ]")  # Persian, Urdu
_NOT_RUSSIAN = lazy_pattern(r"[іїєґўјљњћђџѓќәғқңөұүһ]")
_MIN_SCRIPT_SHARE = {"ja": 0.1, "zh": 0.25}


def detect_language(text: str) -> str:
    """The code of a text's language, "" where it is not clear.

    >>> [detect_language(text) for text in ("Where do I live?", "Wo wohne ich?", "Где я живу?", "どこに住んでいますか", "Sushi")]
    ['en', 'de', 'ru', 'ja', '']
    """
    return _detect(text[:_MAX_CHARS])


@lru_cache(maxsize=2048)  # a text that is written is asked about several times
def _detect(text: str) -> str:
    head = text.lower()
    table = _function_words()
    said = head.split()
    if len(_ENGLISH_ONLY & set(said)) > len(said) // 6 + 1:  # most texts, and fast
        return "en"
    found = _WORD.findall(head)
    if head.isascii() and _FOREIGN.isdisjoint(found):
        return "" if _ENGLISH.isdisjoint(found) else "en"
    if not head.isascii():
        script = _detect_script(head)
        if script is not None:
            return script
        found = [*_WORD.findall(fold(head)), *{letter for letter in head if not letter.isascii()}]
    scores: dict[str, float] = {}
    for word in found:
        for code, weight in _weigh(table.get(word, frozenset())):
            scores[code] = scores.get(code, 0.0) + weight
    if not scores:
        return ""
    english = scores.pop("en", 0.0)
    ranked = sorted(scores.items(), key=lambda entry: -entry[1])[:2]
    best = ranked[0][1] if ranked else 0.0
    if english and english >= best:
        return "en"
    next_best = ranked[1][1] if len(ranked) > 1 else 0.0
    if best < max(_MIN_SCORE, _MIN_SHARE * len(found), _MARGIN * next_best, _ENGLISH_MARGIN * english):
        return ""
    return ranked[0][0]


def _detect_script(text: str) -> str | None:
    """The language of a script that is not Latin; "" where several languages share it and this is another; None for Latin."""
    letters = max(1, len(_LETTERS.findall(text)))
    for code, script in _SCRIPTS:
        if len(script.findall(text)) >= _MIN_SCRIPT_SHARE.get(code, 0.4) * letters:
            if (code == "ar" and _NOT_ARABIC.search(text)) or (code == "ru" and _NOT_RUSSIAN.search(text)):
                return ""
            return code
    return None


# Filled with the words of `_function_words` that no other language has, that English has, and that it has not.
_ENGLISH_ONLY: set[str] = set()
_ENGLISH: set[str] = set()
_FOREIGN: set[str] = set()


@lru_cache(maxsize=1)
def _function_words() -> dict[str, frozenset[str]]:
    """Each function word and telling letter with its languages."""
    data = tomllib.loads((Path(__file__).parent / "detection.toml").read_text(encoding="utf-8"))
    languages = {letter: frozenset((code,)) for code, letters in data.pop("letters").items() for letter in letters}
    for code, words in data.items():
        for word in fold(words).split():
            languages[word] = languages.get(word, frozenset()) | {code}
    _ENGLISH_ONLY.update(word for word, codes in languages.items() if codes == {"en"})
    _ENGLISH.update(word for word, codes in languages.items() if "en" in codes)
    _FOREIGN.update(languages.keys() - _ENGLISH)
    return languages


@cache
def _weigh(codes: frozenset[str]) -> tuple[tuple[str, float], ...]:
    """What a word of these languages says for each; the fewer they are, the more it counts."""
    read = codes & _READ or codes
    return tuple((code, 1 / len(read if code in read else codes)) for code in sorted(codes))
