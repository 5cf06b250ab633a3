"""Which language a text is in, from its script and its function words."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path

from keepstone.text.languages.lexicon import CODES, fold

_MAX_CHARS = 300  # that are looked at
_MIN_SCORE = 0.45  # of a language other than English; a word that only one language has counts 1
_MIN_SHARE = 0.12  # of the words
_MARGIN = 1.05  # over the next language
_ENGLISH_MARGIN = 2.0
_READ = CODES | {"en"}
_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = (  # the first of which a text has a good share decides; two letters of Han next to kana are still Japanese
    ("ja", re.compile(r"[\u3041-\u30fa\uff66-\uff9d]")),
    ("ko", re.compile(r"[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("th", re.compile(r"[\u0e01-\u0e5b]")),
    ("he", re.compile(r"[\u05d0-\u05ea]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("hi", re.compile(r"[\u0904-\u0939]")),
    ("ar", re.compile(r"[\u0620-\u06d3]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
_LETTERS = re.compile(r"[^\W\d_]")
_NOT_ARABIC = re.compile(r"[پچژگٹڈںےہ]")  # Persian, Urdu
_NOT_RUSSIAN = re.compile(r"[іїєґўјљњћђџѓќәғқңөұүһ]")
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
        for code, weight in table.get(word, ()):
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
def _function_words() -> dict[str, tuple[tuple[str, float], ...]]:
    """Each function word and telling letter with its languages; the fewer they are, the more it counts."""
    data = tomllib.loads((Path(__file__).parent / "detection.toml").read_text(encoding="utf-8"))
    languages = {letter: {code} for code, letters in data.pop("letters").items() for letter in letters}
    for code, words in data.items():
        for word in fold(words).split():
            languages.setdefault(word, set()).add(code)
    _ENGLISH_ONLY.update(word for word, codes in languages.items() if codes == {"en"})
    _ENGLISH.update(word for word, codes in languages.items() if "en" in codes)
    _FOREIGN.update(languages.keys() - _ENGLISH)
    return {word: _weigh(codes) for word, codes in languages.items()}


def _weigh(codes: set[str]) -> tuple[tuple[str, float], ...]:
    read = codes & _READ or codes
    return tuple((code, 1 / len(read if code in read else codes)) for code in sorted(codes))
