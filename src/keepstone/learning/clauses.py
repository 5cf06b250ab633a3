"""One clause of a message: where it ends, and its wording in the third person."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from keepstone.text.english import MONTH_NAMES, WEEKDAYS
from keepstone.text.lexicon import Lexicon

LEXICON = Lexicon("english_facts")
WORDS, PATTERNS = LEXICON.words, LEXICON.patterns
NOT_NAMES = WORDS["not_names"].union(MONTH_NAMES, WEEKDAYS)
NOT_PLACES = WORDS["no_place"].union(MONTH_NAMES, WEEKDAYS)


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


@dataclass(frozen=True, slots=True)
class Rule:
    """How a clause that begins with `head` is read: by which reader, in which words, under which key."""

    head: re.Pattern[str]
    read: str = "exact"
    value: re.Pattern[str] | None = None
    said: str = ""
    tag: str = "profile"
    key: str | None = None
    confidence: float = 0.9
    now: bool = False  # "now" at the end of the clause is left out
    passing: re.Pattern[str] | None = None  # with "now", a value that begins so is a temporary state and is not read


def find_clause_end(clause: Clause, start: int, mode: str) -> int:
    """Where the clause ends; `mode` names the commas that belong to it: those of a "place", a "list", a "date", or none."""
    for cut in PATTERNS["cut"].finditer(clause.plain, start, clause.end):
        at = cut.start()
        if cut.group("run"):
            if clause.plain[start:at].rpartition(" ")[2].lower() in WORDS["goes_on"]:
                continue
        elif cut[0].strip() == "," and _is_inner_comma(clause, start, at, mode):
            continue
        return at
    return clause.end


def _is_inner_comma(clause: Clause, start: int, at: int, mode: str) -> bool:
    after = clause.plain[at + 1 : clause.end].lstrip()
    if PATTERNS["starts_clause"].match(after):
        return False
    if mode == "place":
        return after[:1].isupper() and not clause.plain[start:at].rstrip().endswith(" now")
    if mode == "date":
        return re.match(r"\d{4}\b", after) is not None
    if mode == "list":
        items = re.split(r",\s", after)
        last = next((place for place, item in enumerate(items) if re.search(r"(?:^|\s)(?:and|or)\s", item)), -1)
        return last >= 0 and not any(len(item.split()) > 5 or PATTERNS["starts_clause"].match(item) for item in items[: last + 1])
    return False


def trim_end(clause: Clause, start: int, end: int) -> int:
    """The end of a clause without thanks, particles and punctuation."""
    for _ in range(6):
        tail = PATTERNS["trailing"].search(clause.plain, max(start, end - 40), end)
        if tail is None or tail.start() <= start:
            break
        end = tail.start()
    return end


def strip_now(clause: Clause, match: re.Match[str], passing: re.Pattern[str] | None) -> Clause | None:
    """The clause without "now" at its end, as in "I work at Hooli now"; None where it states a temporary state."""
    now = PATTERNS["now"].search(clause.plain, match.end(), clause.end)
    if now is None or (passing and now["moment"]):
        return clause
    if find_clause_end(clause, match.end(), "none") < now.end():  # said in another clause
        return clause
    is_temporary = passing is not None and passing.match(clause.plain, match.end(), now.end()) is not None
    if is_temporary or PATTERNS["in_jest"].search(clause.plain[clause.begin : clause.end]):
        return None
    against = PATTERNS["not_tail"].match(clause.plain, now.end(), clause.end) is not None
    return replace(clause, end=now.start(), is_correction=clause.is_correction or against)


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


def build_match(clause: Clause, match: re.Match[str], rule: Rule, end: int, key: str | None = None) -> FactMatch | None:
    """The fact of a rule: the subject, what the rule says, and the text from the head to `end` in the third person. `key`
    replaces the key of the rule."""
    start = match.end()
    end = trim_end(clause, start, end)
    value = to_third_person(clause.raw[start:end].strip())
    if not value and start != end:
        return None
    denial = PATTERNS["not_tail"].match(clause.plain, end, clause.end)
    is_correction = clause.is_correction or denial is not None
    confidence = round(rule.confidence - (0.1 if clause.casual else 0.0), 2)
    content = f"{clause.subject}{_word_head(clause, match, rule)}{value}.".replace("..", ".")
    return FactMatch(
        Fact(content, rule.tag, key or rule.key, confidence, is_correction), denial.end() if denial else max(end, start)
    )


def _word_head(clause: Clause, match: re.Match[str], rule: Rule) -> str:
    """What a rule says before the value, with the groups of its head filled in."""
    groups = {name: "" if match[name] is None else clause.raw[match.start(name) : match.end(name)] for name in match.groupdict()}
    words = {name: re.sub(r"\s+", " ", text if name[0].isupper() else text.lower()) for name, text in groups.items()}
    return to_third_person(rule.said.format(head=clause.raw[match.start() + 3 : match.end()], **words))


def split_words(text: str) -> list[str]:
    return re.findall(r"[\w'/-]+", text.lower())


def is_lasting(value: str, most: int = 10) -> bool:
    parts = split_words(value)
    return (
        0 < len(parts) <= most
        and not WORDS["passing"] & set(parts)
        and parts[-1] not in WORDS["goes_on"] | {"the", "a", "an", "my"}
    )


def find_name_end(clause: Clause, start: int) -> int:
    """Where a name that starts here ends, or -1."""
    name = PATTERNS["name"].match(clause.plain, start, clause.end)
    lower = name is None and clause.casual
    if lower:
        name = PATTERNS["lower_name"].match(clause.plain, start, clause.end)
    if name is None:
        return -1
    end = name.end()
    if clause.plain[end - 1] == "." and end == clause.end:
        end -= 1
    parts = split_words(name[0])
    if not parts or parts[0] in NOT_NAMES or parts[-1].endswith("'s") or (lower and NOT_NAMES & set(parts)):
        return -1
    if parts[0] in ("name", "none") or (len(parts[0]) > 1 and len(set(parts[0])) == 1):
        return -1  # "NAME", "XXXX": a placeholder
    return end if PATTERNS["after_name"].match(clause.plain, end, clause.end) else -1


def is_place(clause: Clause, value: str) -> bool:
    parts = split_words(value)
    if not parts or parts[0] in NOT_PLACES or re.search(r"\d", parts[0]):
        return False
    if clause.casual and not value[0].isupper():
        return len(parts) <= 4 and not set(parts) & {"of", "a", "an", "my", "the", "it"}
    place = PATTERNS["place"].match(value)
    tail = value[place.end() :].split() if place else []
    return place is not None and not re.match(
        r"\d|team|department|project|office|division|version|mode|role", tail[0] if tail else ""
    )
