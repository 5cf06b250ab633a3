"""One clause of a message: where it ends, and its wording in the third person."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from keepstone.learning import phrases as ph
from keepstone.learning import values as va


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement as a self-contained sentence, with a key where it can have only one value."""

    content: str
    tag: str
    key: str | None
    confidence: float
    correction: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """The start of a clause. `plain` is the message with straight quotes, `raw` the message as written; offsets fit both."""

    raw: str
    plain: str
    begin: int  # of the sentence
    start: int
    end: int  # of the sentence
    subject: str
    casual: bool  # written without capitals
    alone: bool  # only fillers precede it
    is_correction: bool

    def before(self) -> str:
        return self.plain[self.begin : self.start]


@dataclass(frozen=True, slots=True)
class FactMatch:
    """A fact and where its clause ends."""

    fact: Fact
    end: int


# A rule gets a clause and the match of its head; the value follows the head.
Rule = Callable[[Clause, "re.Match[str]"], FactMatch | None]

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


def find_clause_end(clause: Clause, start: int, mode: str) -> int:
    """Where the clause ends; `mode` names the commas that belong to it: those of a "place", a "list", a "date", or none."""
    for cut in ph.CUT.finditer(clause.plain, start, clause.end):
        at = cut.start()
        if cut.group("run"):
            if clause.plain[start:at].rpartition(" ")[2].lower() in ph.GOES_ON:
                continue
        elif cut[0].strip() == "," and _is_inner_comma(clause, start, at, mode):
            continue
        return at
    return clause.end


def _is_inner_comma(clause: Clause, start: int, at: int, mode: str) -> bool:
    after = clause.plain[at + 1 : clause.end].lstrip()
    if ph.STARTS_CLAUSE.match(after):
        return False
    if mode == "place":
        return after[:1].isupper() and not clause.plain[start:at].rstrip().endswith(" now")
    if mode == "date":
        return re.match(r"\d{4}\b", after) is not None
    if mode == "list":
        items = re.split(r",\s", after)
        last = next((place for place, item in enumerate(items) if re.search(r"(?:^|\s)(?:and|or)\s", item)), -1)
        return last >= 0 and not any(len(item.split()) > 5 or ph.STARTS_CLAUSE.match(item) for item in items[: last + 1])
    return False


def trim_end(clause: Clause, start: int, end: int) -> int:
    """The end of a clause without thanks, particles and punctuation."""
    for _ in range(6):
        tail = ph.TRAILING.search(clause.plain, max(start, end - 40), end)
        if tail is None or tail.start() <= start:
            break
        end = tail.start()
    return end


def with_now(rule: Rule, passing: re.Pattern[str] | None = None) -> Rule:
    """Extend a rule to read "I work at Hooli now" as "I work at Hooli".

    With "now", a value that begins with a `passing` pattern is a temporary state and is not read.
    """

    def read(clause: Clause, match: re.Match[str]) -> FactMatch | None:
        now = ph.NOW.search(clause.plain, match.end(), clause.end)
        if now is None or (passing and now["moment"]):
            return rule(clause, match)
        end = find_clause_end(clause, match.end(), "none")
        if end < now.end():  # said in another clause
            return rule(clause, match)
        if (passing and passing.match(clause.plain, match.end(), now.end())) or ph.IN_JEST.search(
            clause.plain[clause.begin : clause.end]
        ):
            return None
        against = ph.NOT_TAIL.match(clause.plain, now.end(), clause.end) is not None
        return rule(replace(clause, end=now.start(), is_correction=clause.is_correction or against), match)

    return read


def to_third_person(text: str) -> str:
    """A clause in the third person: "my" becomes "their", "I am" becomes "they are"."""

    def convert(word: re.Match[str]) -> str:
        return _THIRD_PERSON[re.sub(r"\s+", " ", word[0].lower().replace("’", "'"))]

    return _FIRST_PERSON.sub(convert, text)


_THIRD_PERSON = {
    "i'm": "they're", "i am": "they are", "i was": "they were", "i've": "they've", "i'll": "they'll", "i'd": "they'd",
    "i": "they", "my": "their", "me": "them", "mine": "theirs", "myself": "themselves",
}  # fmt: skip
_FIRST_PERSON = re.compile(r"(?<![\w'’.-])(?:i['’](?:m|ve|ll|d)|i\s(?:am|was)|i|my|me|mine|myself)(?![\w'’.-]*\w)", re.IGNORECASE)


def read_value(clause: Clause, head: re.Match[str], mode: str) -> tuple[str, int]:
    """The value after a head, and where it ends."""
    end = trim_end(clause, head.end(), find_clause_end(clause, head.end(), mode))
    return clause.plain[head.end() : end], end


def build_match(
    clause: Clause, said: str, start: int, end: int, tag: str, key: str | None, confidence: float
) -> FactMatch | None:
    """The fact made of `said` and the text from start to end in the third person."""
    end = trim_end(clause, start, end)
    value = to_third_person(clause.raw[start:end].strip())
    if not value and start != end:
        return None
    denial = ph.NOT_TAIL.match(clause.plain, end, clause.end)
    is_correction = clause.is_correction or denial is not None
    adjusted = round(confidence - (0.1 if clause.casual else 0.0), 2)
    return FactMatch(
        Fact(f"{said}{value}.".replace("..", "."), tag, key, adjusted, is_correction), denial.end() if denial else max(end, start)
    )


def split_words(text: str) -> list[str]:
    return re.findall(r"[\w'/-]+", text.lower())


def is_lasting(value: str, most: int = 10) -> bool:
    parts = split_words(value)
    return 0 < len(parts) <= most and not va.PASSING & set(parts) and parts[-1] not in ph.GOES_ON | {"the", "a", "an", "my"}


def find_name_end(clause: Clause, start: int) -> int:
    """Where a name that starts here ends, or -1."""
    name = va.NAME.match(clause.plain, start, clause.end)
    lower = name is None and clause.casual
    if lower:
        name = va.LOWER_NAME.match(clause.plain, start, clause.end)
    if name is None:
        return -1
    end = name.end()
    if clause.plain[end - 1] == "." and end == clause.end:
        end -= 1
    parts = split_words(name[0])
    if not parts or parts[0] in va.NOT_NAMES or parts[-1].endswith("'s") or (lower and va.NOT_NAMES & set(parts)):
        return -1
    if parts[0] in ("name", "none") or (len(parts[0]) > 1 and len(set(parts[0])) == 1):
        return -1  # "NAME", "XXXX": a placeholder
    return end if va.AFTER_NAME.match(clause.plain, end, clause.end) else -1


def is_place(clause: Clause, value: str) -> bool:
    parts = split_words(value)
    if not parts or parts[0] in va.NO_PLACE or re.search(r"\d", parts[0]):
        return False
    if clause.casual and not value[0].isupper():
        return len(parts) <= 4 and not set(parts) & {"of", "a", "an", "my", "the", "it"}
    place = va.PLACE.match(value)
    tail = value[place.end() :].split() if place else []
    return place is not None and not re.match(
        r"\d|team|department|project|office|division|version|mode|role", tail[0] if tail else ""
    )


def third_person_verb(clause: Clause, match: re.Match[str]) -> str:
    """The verb of the head in the third person, with the adverb that belongs to it."""
    often = re.sub(r"\s+", " ", (match["often"] or "").lower())
    verb = re.sub(r"\s+", " ", match["verb"].lower())
    helper = match["helper"] or ""
    if helper:
        return ("has " if "ve" in helper.lower() else "is ") + often + verb
    return often + (verb if verb.startswith(("moved", "relocated")) else re.sub(r"^(\w+)", r"\1s", verb))
