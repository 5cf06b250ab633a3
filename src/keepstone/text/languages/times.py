"""Times that a question speaks of, in every language that is read. Pure.

A phrase of another language is rendered in English and then read by the English reader, so that "letzte Woche" and "last week"
are the same window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from keepstone.text import time_expressions as english
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES, Lexicon, fold, load, normalize
from keepstone.text.time_expressions import MAX_QUESTION, TimeHint

_SLOT = re.compile(r"\{([a-z]+)\}")
_PREPOSITION = re.compile(r"(?:in|on|at) (?!the )")
_YEAR = re.compile(r"\d{4}")


@dataclass(frozen=True, slots=True)
class _Phrase:
    """Words of a question for a time, and the same in English."""

    start: int
    end: int
    meaning: str


def read_time(question: str, asked: datetime) -> TimeHint | None:
    """The time that a question speaks of, as `time_expressions.read_time` does, in the question's own language.

    >>> hint = read_time("Was habe ich letzten Monat gekocht?", datetime(2024, 1, 15))
    >>> str(hint.start), str(hint.end), hint.text
    ('2023-12-01 00:00:00+00:00', '2024-01-15 00:00:00+00:00', 'letzten Monat')
    """
    code = detect_language(question)
    if code not in CODES:
        return english.read_time(question, asked)
    said = normalize(question[:MAX_QUESTION])
    phrases = _bind(load(code), fold(said).lower(), _find_phrases(load(code), fold(said).lower()))
    hints = [(phrase, hint) for phrase in phrases if (hint := english.read_time(phrase.meaning, asked)) is not None]
    dated = [(phrase, hint) for phrase, hint in hints if hint.start is not None or hint.end is not None]
    ordered = [(phrase, hint) for phrase, hint in hints if hint.order]
    # As in English: the first period with a year, else the first, and "recently" for want of others.
    dated.sort(key=lambda found: 2 if found[0].meaning == "recently" else 0 if _YEAR.search(found[0].meaning) else 1)
    if not dated and not ordered:
        return None
    words = [said[phrase.start : phrase.end].strip(" ,") for phrase, _ in (*dated[:1], *ordered[:1])]
    window = dated[0][1] if dated else ordered[0][1]
    order = ordered[0][1].order if ordered else ""
    return replace(window, text=", ".join(words), order=order, anchor="", relation="", offset="")


@cache
def _patterns(code: str) -> list[tuple[re.Pattern[str], str]]:
    lexicon = load(code)
    return [(re.compile(lexicon.bound(lexicon.expand(said))), meaning) for said, meaning in lexicon.data["times"]]


@cache
def _frames(code: str) -> list[tuple[str, list[re.Pattern[str]]]]:
    """What stands around a phrase or between two: "seit @" means "since"."""
    frames = load(code).data["frames"]
    return [(meaning, _split_frame(frame)) for meaning, said in frames.items() for frame in said]


def _split_frame(frame: str) -> list[re.Pattern[str]]:
    first, *inner, last = frame.split("@")
    return [re.compile(rf"(?:{first})\Z"), *(re.compile(part) for part in inner), re.compile(last)]


def _find_phrases(lexicon: Lexicon, text: str) -> list[_Phrase]:
    """The phrases of a text from left to right: of those that overlap the first, of those that begin together the longest."""
    found: list[tuple[int, int, re.Match[str], str]] = []
    for pattern, meaning in _patterns(lexicon.code):
        found += [(match.start(), -match.end(), match, meaning) for match in pattern.finditer(text)]
    phrases: list[_Phrase] = []
    for start, _, match, meaning in sorted(found, key=lambda each: each[:2]):
        if not phrases or start >= phrases[-1].end:
            phrases.append(_Phrase(start, match.end(), _render(lexicon, match, meaning)))
    return phrases


def _render(lexicon: Lexicon, match: re.Match[str], meaning: str) -> str:
    def word(slot: re.Match[str]) -> str:
        said = match[slot[1]]
        return "" if said is None else lexicon.resolve(slot[1], said)

    return " ".join(_SLOT.sub(word, meaning).split())


def _bind(lexicon: Lexicon, text: str, phrases: list[_Phrase]) -> list[_Phrase]:
    """The phrases with the words around them: "since", "before", "early", and "from" one "to" another."""
    bound: list[_Phrase] = []
    skipped = False
    for at, phrase in enumerate(phrases):
        if skipped:
            skipped = False
            continue
        following = phrases[at + 1] if at + 1 < len(phrases) else None
        for meaning, frame in _frames(lexicon.code):
            last = following if len(frame) == 3 and following else phrase
            before, after = frame[0].search(text, 0, phrase.start), frame[-1].match(text, last.end)
            if before is None or after is None or (len(frame) == 3) != (last is not phrase):
                continue
            if last is not phrase and frame[1].fullmatch(text, phrase.end, last.start) is None:
                continue
            first, second = _PREPOSITION.sub("", phrase.meaning), _PREPOSITION.sub("", last.meaning)
            skipped = last is not phrase
            said = f"from {first} to {second}" if skipped else f"{meaning} {first}"
            phrase = _Phrase(before.start(), after.end(), said)
            break
        bound.append(phrase)
    return bound
