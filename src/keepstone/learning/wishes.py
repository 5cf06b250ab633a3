"""Rules for likes, preferences and standing requests."""

from __future__ import annotations

import re

from keepstone.learning import phrases as ph
from keepstone.learning import values as va
from keepstone.learning.clauses import (
    OFTEN,
    TIMED,
    Clause,
    Fact,
    FactMatch,
    Rule,
    build_match,
    find_clause_end,
    is_lasting,
    read_value,
    split_words,
    trim_end,
    with_now,
)


def _find_topic(value: str) -> str | None:
    """The key of a preference that has one value at a time; None if it holds under a condition only."""
    if re.search(r"\s(?:when|if|while|for|during|on|at|with|unless|whenever|after|before|by)\s", f" {value} "):
        return None
    return next((key for key, topic in va.TOPICS if topic.fullmatch(value)), None)


def _is_conditional(clause: Clause) -> bool:
    """Whether the words before the clause set a condition: "At home, I prefer …"."""
    before = clause.before().rstrip(" ,")
    parts = split_words(before.rpartition(",")[2])
    return bool(parts) and not clause.alone and parts[0] in ph.CONDITION


_RUNS_ON = re.compile(r"\s(?:i|we)\b", re.IGNORECASE)  # "the friends I made": the clause is not over


# A choice between things at hand is no lasting preference.
_ONE_CHOICE = re.compile(
    r"\b(?:first|second|third|last|other|option|choice|not to|be called|next)\b|^[A-Z](?:\s(?:over|to"
    r"|rather|than)\b|$)"
)


def _read_preference(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if not is_lasting(value, 16) or _is_conditional(clause) or parts[0] in va.NOT_LIKED - {"a", "an", "the", "my", "having"}:
        return None
    if len(value) < 2 or _RUNS_ON.match(clause.plain, end) or _ONE_CHOICE.search(value) or (parts[0] == "to" and len(parts) < 3):
        return None
    often = (match["often"] or "").lower()
    said = f"{clause.subject} {often}prefers "
    return build_match(clause, said, match.end(), end, "preference", _find_topic(value), 0.92)


# With "now" behind it, "to stop", "a break" or "waiting" is wanted at once, and a day or an hour is a date.
_AT_ONCE = re.compile(r"(?:to|an?|the|my|having|\w{3,6}days?)\b|\d|\w+ing\b[^.]{0,40}\snow\b", re.IGNORECASE)


def _read_switch(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """ "I switched from Vim to Emacs": only between two editors, where it is clear what is preferred now."""
    end = trim_end(clause, match.end(), find_clause_end(clause, match.end(), "none"))
    topics = {_find_topic(value) for value in re.split(r"\sto\s", clause.plain[match.end() : end])}
    if topics != {"user.prefers.editor"} or va.WENT_BACK.search(clause.plain, end, clause.end):
        return None
    said = re.sub(r"\s+", " ", match["verb"].lower())
    return build_match(clause, f"{clause.subject} {said} ", match.end(), end, "preference", "user.prefers.editor", 0.85)


def _read_like(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if not is_lasting(value) or _is_conditional(clause) or _RUNS_ON.match(clause.plain, end) or re.search(r"\d", value):
        return None
    if parts[0] in va.NOT_LIKED or (parts[0] == "to" and (len(parts) < 2 or parts[1] in va.NOT_TO)):
        return None
    verb = re.sub(r"\s+", " ", clause.raw[match.start("verb") : match.end("verb")].lower())
    if verb[0] == "d" and verb[1] == "o":
        verb = "doesn't " + verb.rpartition(" ")[2]
    elif not verb.startswith("can"):
        verb += "s"
    return build_match(clause, f"{clause.subject} {verb} ", match.end(), end, "preference", None, 0.85)


def _read_abstention(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if (
        not is_lasting(value, 6)
        or parts[0] in va.NOT_LIKED
        or set(parts) & {"much", "enough", "well", "anymore", "lot", "alone", "until", "out", "as"}
    ):
        return None
    never = match["no"].lower() == "never"
    said = f"never {match['verb'].lower()}s " if never else f"doesn't {match['verb'].lower()} "
    return build_match(clause, f"{clause.subject} {said}", match.end(), end, "preference", None, 0.85)


def _read_favourite(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    noun = match["noun"].lower()
    value, end = read_value(clause, match, "none")
    parts = split_words(value)
    if set(noun.split()) & va.NOT_FAVOURITE or not is_lasting(value, 8):
        return None
    if parts[0] in va.NOT_LIKED | {"probably", "definitely", "to", "still", "always"} and not value[0].isupper():
        return None
    said = clause.raw[match.start() + 2 : match.end()].strip()
    key = f"user.favourite.{va.FAVOURITES[noun]}" if noun in va.FAVOURITES else None
    return build_match(clause, f"{clause.subject}'s {said} ", match.end(), end, "preference", key, 0.92)


def _read_request(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """A standing request about how to be answered."""
    start, end = match.start("ask"), trim_end(clause, match.start("ask"), clause.end)
    said = clause.raw[start:end].strip()
    if (
        not clause.alone
        or "(" in clause.plain[:start]
        or len(clause.plain) > 1000
        or ph.ONE_TASK.search(said)
        or len(said.split()) > 20
    ):
        return None
    never = re.match(r"(?:never|don'?t|do not)\b", clause.plain[start:end], re.IGNORECASE)
    tied = re.search(r"\b(?:if|when|unless|for|while)\b", said) is not None
    key = None if never or tied else next((key for key, topic in ph.ASKED_TOPICS if topic.search(said)), None)
    fact = Fact(f"{clause.subject} asks: {said[0].lower()}{said[1:]}.", "preference", key, 0.88, clause.is_correction)
    return FactMatch(fact, clause.end)


def _read_wish(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    value, end = read_value(clause, match, "none")
    if not re.search(r"\b(?:answers|replies|responses|explanations)\b", value) or ph.ONE_TASK.search(value):
        return None
    often = match["often"].lower()
    key = None if often == "never" else _find_topic(value)
    return build_match(clause, f"{clause.subject} {often} wants ", match.end(), end, "preference", key, 0.88)


WISHES: list[tuple[re.Pattern[str], Rule]] = [
    (va.pattern(head), rule)
    for head, rule in (
        (r"i " + TIMED + r"prefer ", with_now(_read_preference, _AT_ONCE)),
        (r"i(?:'?ve| have)? (?P<verb>(?:(?:just|recently|finally) )?switched(?: back)? from) ", _read_switch),
        (
            r"i " + OFTEN + r"(?P<verb>like|love|hate|adore|enjoy|dislike|detest|loathe|can'?t stand|cannot stand|don'?t like|do"
            r" not like|don't enjoy) ",
            _read_like,
        ),
        (r"i (?P<no>never|don'?t|do not) (?P<verb>eat|drink|smoke) ", _read_abstention),
        (
            r"my (?:all-time |absolute |personal )?favou?rite (?P<noun>[\w'-]{2,20}(?: [\w'-]{2,20}){0,2}) is ",
            with_now(_read_favourite),
        ),
        (ph.STANDING.pattern, _read_request),
        (r"i (?P<often>always|never|only|generally) want ", _read_wish),
    )
]
