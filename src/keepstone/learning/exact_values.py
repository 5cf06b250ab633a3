"""Exact values that a user states: numbers, identifiers and dates under a name. They are kept whatever a model makes of the rest.

>>> [exact.content for exact in find_exact_values("Hi! My account number is 4471-2290.")]
["The user's account number is 4471-2290."]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from keepstone.learning.facts import slug
from keepstone.text.english import MONTH_PATTERN
from keepstone.text.sentences import split_sentences

MAX_CHARS = 20_000  # a longer text is pasted, not said
_MAX_VALUES = 20
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = (
    r"(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|{_DAY} (?:of )?(?:{MONTH_PATTERN})(?:,? \d{{4}})?|(?:{MONTH_PATTERN}) {_DAY}(?:,? \d{{4}})?)"
)
_IDENTIFIER = r"(?:\d[\d -]{4,30}\d|(?=[\w/.-]*\d[\w/.-]*\d)[A-Za-z0-9][\w/.-]{2,40}[A-Za-z0-9])"
_STATED = re.compile(
    r"(?:^|[,;:]\s+|\band\s+|\bthat\s+)(?:my|our)\s+(?P<name>[a-z][\w'’-]*(?:\s+[a-z][\w'’-]*){0,4}?)\s*"
    r"(?P<verb>\bis\b|\bare\b|\bwas\b|\bexpires?\b|\bstarts?\b|\bbegins?\b|\bends?\b|\btakes place\b|:|=)\s*"
    rf"(?P<link>(?:on|at|by|until|from|number|no\.?|due|still|now)?\s*(?:on\s+)?)(?P<value>{_DATE}|{_IDENTIFIER})(?![\w])",
    re.IGNORECASE,
)
_PLAIN_VERBS = {":": "is", "=": "is"}


@dataclass(frozen=True, slots=True)
class ExactValue:
    """A value as it was written, the sentence that states it, and the key it is kept under."""

    value: str
    content: str
    key: str


def find_exact_values(text: str) -> list[ExactValue]:
    """The exact values that a text states of the user, in order."""
    found: list[ExactValue] = []
    for sentence in split_sentences(text) if len(text) <= MAX_CHARS else ():
        if sentence.rstrip().endswith("?"):
            continue
        for stated in _STATED.finditer(sentence.strip()):
            name, verb = " ".join(stated["name"].split()), stated["verb"].lower()
            verb = _PLAIN_VERBS.get(verb, verb)
            link, value = " ".join(stated["link"].split()), stated["value"].rstrip(" .,-")
            content = " ".join(filter(None, ("The user's", name, verb, link, value)))
            said = name if verb in ("is", "are", "was") else f"{name} {verb}"
            found.append(ExactValue(value, f"{content}.", f"user.{slug(said)}"))
    return found[:_MAX_VALUES]
