"""Rules for what a person likes, prefers, and asks for in every answer. Pure."""

from __future__ import annotations

import re

from keepstone.learning import phrases as ph
from keepstone.learning import values as va
from keepstone.learning.clauses import OFTEN, TIMED, Fact, Found, Rule, Spot, clause_end, lasting, lately, told, trimmed, words_of


def _topic(value: str) -> str | None:
    """The key of a preference that has one value at a time; None if it holds under a condition only."""
    if re.search(r"\s(?:when|if|while|for|during|on|at|with|unless|whenever|after|before|by)\s", f" {value} "):
        return None
    return next((key for key, topic in va.TOPICS if topic.fullmatch(value)), None)


def _conditional(spot: Spot) -> bool:
    """Whether the words before, up to the last comma, set a condition: "At home, I prefer …"."""
    before = spot.before().rstrip(" ,")
    parts = words_of(before.rpartition(",")[2])
    return bool(parts) and not spot.alone and parts[0] in ph.CONDITION


_RUNS_ON = re.compile(r"\s(?:i|we)\b", re.IGNORECASE)  # "the friends I made": the clause is not over


# A choice between things at hand is no lasting preference.
_ONE_CHOICE = re.compile(
    r"\b(?:first|second|third|last|other|option|choice|not to|be called|next)\b|^[A-Z](?:\s(?:over|to"
    r"|rather|than)\b|$)"
)


def _prefers(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "list"))
    value = spot.plain[match.end() : end]
    parts = words_of(value)
    if not lasting(value, 16) or _conditional(spot) or parts[0] in va.NOT_LIKED - {"a", "an", "the", "my", "having"}:
        return None
    if len(value) < 2 or _RUNS_ON.match(spot.plain, end) or _ONE_CHOICE.search(value) or (parts[0] == "to" and len(parts) < 3):
        return None
    often = (match["often"] or "").lower()
    said = f"{spot.subject} {often}prefers "
    return told(spot, said, match.end(), end, "preference", _topic(value), 0.92)


# With "now" behind it, "to stop", "a break" or "waiting" is wanted at once, and a day or an hour is a date.
_AT_ONCE = re.compile(r"(?:to|an?|the|my|having|\w{3,6}days?)\b|\d|\w+ing\b[^.]{0,40}\snow\b", re.IGNORECASE)


def _switched(spot: Spot, match: re.Match[str]) -> Found | None:
    """ "I switched from Vim to Emacs": only between two editors, where it is clear what is preferred now."""
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "none"))
    topics = {_topic(value) for value in re.split(r"\sto\s", spot.plain[match.end() : end])}
    if topics != {"user.prefers.editor"} or va.WENT_BACK.search(spot.plain, end, spot.end):
        return None
    said = re.sub(r"\s+", " ", match["verb"].lower())
    return told(spot, f"{spot.subject} {said} ", match.end(), end, "preference", "user.prefers.editor", 0.85)


def _likes(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "list"))
    value = spot.plain[match.end() : end]
    parts = words_of(value)
    if not lasting(value) or _conditional(spot) or _RUNS_ON.match(spot.plain, end) or re.search(r"\d", value):
        return None
    if parts[0] in va.NOT_LIKED or (parts[0] == "to" and (len(parts) < 2 or parts[1] in va.NOT_TO)):
        return None
    verb = re.sub(r"\s+", " ", spot.raw[match.start("verb") : match.end("verb")].lower())
    if verb[0] == "d" and verb[1] == "o":
        verb = "doesn't " + verb.rpartition(" ")[2]
    elif not verb.startswith("can"):
        verb += "s"
    return told(spot, f"{spot.subject} {verb} ", match.end(), end, "preference", None, 0.85)


def _abstains(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "list"))
    value = spot.plain[match.end() : end]
    parts = words_of(value)
    if (
        not lasting(value, 6)
        or parts[0] in va.NOT_LIKED
        or set(parts) & {"much", "enough", "well", "anymore", "lot", "alone", "until", "out", "as"}
    ):
        return None
    never = match["no"].lower() == "never"
    said = f"never {match['verb'].lower()}s " if never else f"doesn't {match['verb'].lower()} "
    return told(spot, f"{spot.subject} {said}", match.end(), end, "preference", None, 0.85)


def _favourite(spot: Spot, match: re.Match[str]) -> Found | None:
    noun = match["noun"].lower()
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "none"))
    value = spot.plain[match.end() : end]
    parts = words_of(value)
    if set(noun.split()) & va.NOT_FAVOURITE or not lasting(value, 8):
        return None
    if parts[0] in va.NOT_LIKED | {"probably", "definitely", "to", "still", "always"} and not value[0].isupper():
        return None
    said = spot.raw[match.start() + 2 : match.end()].strip()
    key = f"user.favourite.{va.FAVOURITES[noun]}" if noun in va.FAVOURITES else None
    return told(spot, f"{spot.subject}'s {said} ", match.end(), end, "preference", key, 0.92)


def _asks(spot: Spot, match: re.Match[str]) -> Found | None:
    """A standing wish about how to be answered."""
    start, end = match.start("ask"), trimmed(spot, match.start("ask"), spot.end)
    said = spot.raw[start:end].strip()
    if (
        not spot.alone
        or "(" in spot.plain[:start]
        or len(spot.plain) > 1000
        or ph.ONE_TASK.search(said)
        or len(said.split()) > 20
    ):
        return None
    never = re.match(r"(?:never|don'?t|do not)\b", spot.plain[start:end], re.IGNORECASE)
    tied = re.search(r"\b(?:if|when|unless|for|while)\b", said) is not None
    key = None if never or tied else next((key for key, topic in ph.ASKED_TOPICS if topic.search(said)), None)
    fact = Fact(f"{spot.subject} asks: {said[0].lower()}{said[1:]}.", "preference", key, 0.88, spot.corrects)
    return Found(fact, spot.end)


def _wants(spot: Spot, match: re.Match[str]) -> Found | None:
    end = trimmed(spot, match.end(), clause_end(spot, match.end(), "none"))
    value = spot.plain[match.end() : end]
    if not re.search(r"\b(?:answers|replies|responses|explanations)\b", value) or ph.ONE_TASK.search(value):
        return None
    often = match["often"].lower()
    key = None if often == "never" else _topic(value)
    return told(spot, f"{spot.subject} {often} wants ", match.end(), end, "preference", key, 0.88)


WISHES: list[tuple[re.Pattern[str], Rule]] = [
    (va.pattern(head), rule)
    for head, rule in (
        (r"i " + TIMED + r"prefer ", lately(_prefers, _AT_ONCE)),
        (r"i(?:'?ve| have)? (?P<verb>(?:(?:just|recently|finally) )?switched(?: back)? from) ", _switched),
        (
            r"i " + OFTEN + r"(?P<verb>like|love|hate|adore|enjoy|dislike|detest|loathe|can'?t stand|cannot stand|don'?t like|do"
            r" not like|don't enjoy) ",
            _likes,
        ),
        (r"i (?P<no>never|don'?t|do not) (?P<verb>eat|drink|smoke) ", _abstains),
        (r"my (?:all-time |absolute |personal )?favou?rite (?P<noun>[\w'-]{2,20}(?: [\w'-]{2,20}){0,2}) is ", lately(_favourite)),
        (ph.STANDING.pattern, _asks),
        (r"i (?P<often>always|never|only|generally) want ", _wants),
    )
]
