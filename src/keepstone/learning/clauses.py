"""A clause of one message: where it ends, and how it is told in the third person. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from keepstone.learning import phrases as ph
from keepstone.learning import values as va


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement as a sentence that stands by itself; with a key where there can be only one value."""

    content: str
    tag: str
    key: str | None
    confidence: float
    correction: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """A place where a clause begins: `plain` is the message with straight quotes, `raw` as written, both of one length."""

    raw: str
    plain: str
    begin: int  # of the sentence
    start: int
    end: int  # of the sentence
    subject: str
    casual: bool  # written without capitals
    alone: bool  # nothing but fillers stands before it
    corrects: bool

    def before(self) -> str:
        return self.plain[self.begin : self.start]


@dataclass(frozen=True, slots=True)
class Found:
    """A fact and where its clause ends."""

    fact: Fact
    end: int


# A rule gets a place and the match of its head there; the value follows the head.
Rule = Callable[[Spot, "re.Match[str]"], Found | None]

OFTEN = (
    r"(?:(?:also|just|really|absolutely|definitely|totally|honestly|truly|still|actually"
    r"|much|strongly|do|simply|personally) ){0,2}"
)
TIMED = (
    OFTEN
    + r"(?P<often>(?:currently|recently|usually|generally|normally|mostly|now|always|finally|typically|mainly|primarily) )?"
    + OFTEN
)
AM = r"i(?:'?m| am) "


def clause_end(spot: Spot, start: int, mode: str) -> int:
    """Where the clause ends; `mode` says which commas belong to it: those of a "place", a "list", a "date", or none."""
    for cut in ph.CUT.finditer(spot.plain, start, spot.end):
        at = cut.start()
        if cut.group("run"):
            if spot.plain[start:at].rpartition(" ")[2].lower() in ph.GOES_ON:
                continue
        elif cut[0].strip() == "," and _comma_belongs(spot, start, at, mode):
            continue
        return at
    return spot.end


def _comma_belongs(spot: Spot, start: int, at: int, mode: str) -> bool:
    after = spot.plain[at + 1 : spot.end].lstrip()
    if ph.STARTS_CLAUSE.match(after):
        return False
    if mode == "place":
        return after[:1].isupper() and not spot.plain[start:at].rstrip().endswith(" now")
    if mode == "date":
        return re.match(r"\d{4}\b", after) is not None
    if mode == "list":
        items = re.split(r",\s", after)
        last = next((place for place, item in enumerate(items) if re.search(r"(?:^|\s)(?:and|or)\s", item)), -1)
        return last >= 0 and not any(len(item.split()) > 5 or ph.STARTS_CLAUSE.match(item) for item in items[: last + 1])
    return False


def trimmed(spot: Spot, start: int, end: int) -> int:
    """The end without thanks, particles and punctuation."""
    for _ in range(6):
        tail = ph.TRAILING.search(spot.plain, max(start, end - 40), end)
        if tail is None or tail.start() <= start:
            break
        end = tail.start()
    return end


def lately(rule: Rule, passing: re.Pattern[str] | None = None) -> Rule:
    """A rule that reads "I work at Hooli now" like "I work at Hooli".

    A value that begins with what is `passing` is a state of the moment then, and "right now" hides it as before.
    """

    def read(spot: Spot, match: re.Match[str]) -> Found | None:
        now = ph.NOW.search(spot.plain, match.end(), spot.end)
        if now is None or (passing and now["moment"]):
            return rule(spot, match)
        end = clause_end(spot, match.end(), "none")
        if end < now.end():  # said in another clause
            return rule(spot, match)
        if (passing and passing.match(spot.plain, match.end(), now.end())) or ph.IN_JEST.search(
            spot.plain[spot.begin : spot.end]
        ):
            return None
        against = ph.NOT_TAIL.match(spot.plain, now.end(), spot.end) is not None
        return rule(replace(spot, end=now.start(), corrects=spot.corrects or against), match)

    return read


def persons(text: str) -> str:
    """Words of the speaker inside a clause, told of them: "my" becomes "their", "I am" becomes "they are"."""

    def told(found: re.Match[str]) -> str:
        return _TOLD[re.sub(r"\s+", " ", found[0].lower().replace("’", "'"))]

    return _SELF.sub(told, text)


_TOLD = {
    "i'm": "they're", "i am": "they are", "i was": "they were", "i've": "they've", "i'll": "they'll", "i'd": "they'd",
    "i": "they", "my": "their", "me": "them", "mine": "theirs", "myself": "themselves",
}  # fmt: skip
_SELF = re.compile(r"(?<![\w'’.-])(?:i['’](?:m|ve|ll|d)|i\s(?:am|was)|i|my|me|mine|myself)(?![\w'’.-]*\w)", re.IGNORECASE)


def told(spot: Spot, said: str, start: int, end: int, tag: str, key: str | None, confidence: float) -> Found | None:
    """A fact that says `said` and then the words from start to end, as written but in the third person."""
    end = trimmed(spot, start, end)
    value = persons(spot.raw[start:end].strip())
    if not value and start != end:
        return None
    behind = ph.NOT_TAIL.match(spot.plain, end, spot.end)
    corrects = spot.corrects or behind is not None
    sure = round(confidence - (0.1 if spot.casual else 0.0), 2)
    return Found(
        Fact(f"{said}{value}.".replace("..", "."), tag, key, sure, corrects), behind.end() if behind else max(end, start)
    )


def words_of(text: str) -> list[str]:
    return re.findall(r"[\w'/-]+", text.lower())


def lasting(value: str, most: int = 10) -> bool:
    parts = words_of(value)
    return 0 < len(parts) <= most and not va.PASSING & set(parts) and parts[-1] not in ph.GOES_ON | {"the", "a", "an", "my"}


def name_end(spot: Spot, start: int) -> int:
    """Where a name that starts here ends, or -1."""
    found = va.NAME.match(spot.plain, start, spot.end)
    lower = found is None and spot.casual
    if lower:
        found = va.LOWER_NAME.match(spot.plain, start, spot.end)
    if found is None:
        return -1
    end = found.end()
    if spot.plain[end - 1] == "." and end == spot.end:
        end -= 1
    parts = words_of(found[0])
    if not parts or parts[0] in va.NOT_NAMES or parts[-1].endswith("'s") or (lower and va.NOT_NAMES & set(parts)):
        return -1
    if parts[0] in ("name", "none") or (len(parts[0]) > 1 and len(set(parts[0])) == 1):
        return -1  # "NAME", "XXXX": a gap to be filled in
    return end if va.AFTER_NAME.match(spot.plain, end, spot.end) else -1


def is_place(spot: Spot, value: str) -> bool:
    parts = words_of(value)
    if not parts or parts[0] in va.NO_PLACE or re.search(r"\d", parts[0]):
        return False
    if spot.casual and not value[0].isupper():
        return len(parts) <= 4 and not set(parts) & {"of", "a", "an", "my", "the", "it"}
    found = va.PLACE.match(value)
    tail = value[found.end() :].split() if found else []
    return found is not None and not re.match(
        r"\d|team|department|project|office|division|version|mode|role", tail[0] if tail else ""
    )


def told_verb(spot: Spot, match: re.Match[str]) -> str:
    """The verb of the head in the third person, with the adverb that belongs to it."""
    often = re.sub(r"\s+", " ", (match["often"] or "").lower())
    verb = re.sub(r"\s+", " ", match["verb"].lower())
    helper = match["helper"] or ""
    if helper:
        return ("has " if "ve" in helper.lower() else "is ") + often + verb
    return often + (verb if verb.startswith(("moved", "relocated")) else re.sub(r"^(\w+)", r"\1s", verb))
