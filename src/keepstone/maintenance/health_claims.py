"""What a memory claims, where only one value can be true at a time: "Dana's email is …", "Dana lives in …". Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from keepstone.text.words import terms

_LENGTH = 300  # longer texts claim more than one thing
_SUBJECT = r"(?:(?P<subject>(?:the )?[^\W\d_][\w.-]*(?: (?-i:[A-ZÀ-Þ])[\w.-]*){0,2}))"
_NOUN = r"(?P<attribute>[^\W\d_][\w-]*(?: [^\W\d_][\w-]*){0,3})"
_VALUE = r"(?P<value>.+)"
_POSSESSED = [
    re.compile(rf"{_SUBJECT}'s? (?:current |new |main |primary )?{_NOUN} (?:is|are) (?:now |currently )?{_VALUE}", re.IGNORECASE),
    re.compile(
        rf"(?P<subject>my) (?:current |new |main |primary )?{_NOUN} (?:is|are) (?:now |currently )?{_VALUE}", re.IGNORECASE
    ),
]
_NOW = r"(?:now |currently |presently )?"
_VERBS = [
    (name, re.compile(rf"{_SUBJECT} {phrase} {_VALUE}", re.IGNORECASE))
    for name, phrase in (
        ("home", rf"(?:is )?{_NOW}(?:lives?|living|resides?|residing|is based) {_NOW}(?:in|at)"),
        ("employer", rf"(?:is )?{_NOW}(?:works?|working|is employed) {_NOW}(?:at|for|by)"),
        ("job", rf"{_NOW}(?:works?|is working|am working) {_NOW}as"),
        ("birth", r"(?:was|were) born (?:on|in)"),
        ("name", r"(?:is called|is named|am called)"),
        ("spouse", r"(?:is|am) (?:married|engaged) to"),
        ("origin", r"(?:is originally from|comes? from|is from|am from)"),
    )
]
_AGE = re.compile(rf"{_SUBJECT} (?:is|am) (?:now |currently )?(?P<value>\d{{1,3}})(?: years? old| y/?o)\b.*", re.IGNORECASE)
_ONE_ONLY = frozenset(
    """
    name surname nickname age birthday birthdate email address phone number timezone zone language nationality citizenship
    hometown city country employer company job title role position salary budget deadline wife husband spouse partner
    fiance fiancee boss manager height weight size type username handle password pin status version color colour plan
    theme editor currency locale gender pronouns religion mother father
    """.split()
)
_COLOURS = frozenset("red blue green yellow black white grey gray brown orange purple pink silver gold beige".split())
_CUT = re.compile(r"(?:[.;!,](?:\s|$)| (?:and|but|because|since|so|who|which|where|although|though|while|as of|with|from) )")
_SOMETIMES = re.compile(
    r"\b(?:in|on|during|when|if|until|before|after|sometimes|usually|weekdays?|weekends?|or|not|also|both|either|part|half|again|"
    r"about|unknown|being|going|to)\b",
    re.IGNORECASE,
)
_ALSO = re.compile(
    r"\b(?:also|another|other|second|third|former|(?<!year )(?<!years )old|previous|used to|ex|favou?rites)\b", re.IGNORECASE
)
_USER = frozenset({"i", "my", "user", "the user", "me"})


class Claim(NamedTuple):
    """Whose, what, and the words of the value."""

    subject: str
    attribute: str
    value: frozenset[str]


def claim(content: str) -> Claim | None:
    """What a text claims of somebody, where only one value can be true.

    >>> one, other = claim("Dana lives in Porto."), claim("Dana lives in Lisbon, near the river")
    >>> one.attribute, opposed(one, other)
    ('home', True)
    >>> claim("Dana's friend is Ben") is None
    True
    """
    text = " ".join(content.replace("’", "'").split())
    if len(text) > _LENGTH or _ALSO.search(text):
        return None
    for pattern in _POSSESSED:
        if (found := pattern.match(text)) is not None:
            return _possessed(found)
    if (found := _AGE.fullmatch(text)) is not None:
        return Claim(_subject(found["subject"]), "age", frozenset({found["value"]}))
    for name, pattern in _VERBS:
        if (found := pattern.match(text)) is not None:
            return _made(found["subject"], name, found["value"])
    return None


def opposed(one: Claim, other: Claim) -> bool:
    """Whether two claims of the same thing cannot both be true: neither value has all the words of the other."""
    return one[:2] == other[:2] and not (one.value <= other.value or other.value <= one.value)


def _possessed(found: re.Match[str]) -> Claim | None:
    attribute = " ".join(terms(found["attribute"]))
    words = found["attribute"].casefold().split()
    made = _made(found["subject"], attribute, found["value"])
    if made is None or not attribute:
        return None
    favourite = words[0] in ("favorite", "favourite", "preferred") and not words[-1].endswith("s")
    if favourite or words[-1] in _ONE_ONLY:
        return made
    return made if made.value <= _COLOURS or all(word.isdigit() for word in made.value) else None


def _made(subject: str, attribute: str, value: str) -> Claim | None:
    said = _CUT.split(value, maxsplit=1)[0].strip(" \"'“”()")
    words = frozenset(terms(said))
    if not words or len(words) > 6 or _SOMETIMES.search(said):
        return None
    return Claim(_subject(subject), attribute, words)


def _subject(words: str) -> str:
    folded = words.casefold().removeprefix("the ")
    return "user" if folded in _USER else folded
