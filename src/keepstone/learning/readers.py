"""Readers of the values that follow the heads of rules: names, places, jobs, numbers, likes, requests.

A reader returns None where the words after the head are no lasting fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from keepstone.learning.clauses import (
    LEXICON,
    NOT_PLACES,
    PATTERNS,
    WORDS,
    Clause,
    Fact,
    FactMatch,
    Rule,
    build_match,
    find_clause_end,
    find_name_end,
    is_lasting,
    is_place,
    read_value,
    split_words,
    trim_end,
)

Reader = Callable[[Clause, "re.Match[str]", Rule], FactMatch | None]
HOLDERS = {name: key for key, names in LEXICON.data["holders"].items() for name in names.split()}
_FAVOURITES = {
    name: name if key == "same" else key for key, names in LEXICON.data["favourites"].items() for name in names.split()
}
_TOPICS = {
    f"user.prefers.{name}": LEXICON.compile(f"(?:the |an? |my |having |using |to use |to have )?(?:{text}){{{{versus}}}}")
    for name, text in LEXICON.data["topics"].items()
}
_ASKED_TOPICS = {f"user.prefers.{name}": LEXICON.compile(text) for name, text in LEXICON.data["asked_topics"].items()}
_NOT_HOLDERS = (WORDS["not_holders"] | WORDS["nations"] | WORDS["languages"]) - {"leo"}
_JOINED_NAME = re.compile(r"(?:,\s|,?\sand\s)(?=[A-Z])(?!I\b)")
_RUNS_ON = re.compile(r"\s(?:i|we)\b", re.IGNORECASE)  # "the friends I made": the clause is not over
_GREETING = re.compile(r"\s*(?:hi|hello|hey|greetings|good\s\w+)\b", re.IGNORECASE)
_CONDITION = re.compile(r"\s(?:when|if|while|for|during|on|at|with|unless|whenever|after|before|by)\s")


# -- profile ------------------------------------------------------------------------------------------------------------
def _read_exact(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A value of one form right after the head."""
    value = rule.value.match(clause.plain, match.end(), clause.end) if rule.value else None
    return None if value is None else build_match(clause, match, rule, value.end())


def _read_list(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A list of things after the head, such as allergies."""
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if (
        not is_lasting(value, 12)
        or set(parts) & WORDS["jokes"]
        or parts[0] in WORDS["not_liked"] - {"the", "most", "all", "some"}
    ):
        return None
    return build_match(clause, match, rule, end)


def _read_name(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    end = find_name_end(clause, match.end())
    return None if end < 0 else build_match(clause, match, rule, end)


def _read_introduction(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """ "Hi, I'm Dana": only after a greeting and with a capital."""
    if clause.casual or not _GREETING.match(clause.plain) or not clause.alone or clause.start > 40:
        return None
    end = find_name_end(clause, match.end())
    if end < 0 or set(split_words(clause.plain[match.end() : end])) & (WORDS["nations"] | WORDS["languages"]):
        return None
    return build_match(clause, match, rule, end)


def _read_home(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "place")
    is_short = PATTERNS["short_stay"].search(clause.plain, match.end(), clause.end)
    if is_short or PATTERNS["went_back"].search(clause.plain, end, clause.end) or len(value.split()) > 14:
        return None
    if PATTERNS["house"].match(value):
        return build_match(clause, match, replace(rule, key=None), end)
    return build_match(clause, match, rule, end) if is_place(clause, value) else None


def _read_ended(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A home or an employer that no longer holds; with a value, only where the clause ends with it."""
    end = find_clause_end(clause, match.end(), "place")
    value = clause.plain[match.end() : end].rstrip()
    if (rule.value and not rule.value.search(value)) or not value[:1].isupper() or len(value.split()) > 6:
        return None
    return build_match(replace(clause, is_correction=True), match, rule, end)


def _read_origin(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "place")
    return build_match(clause, match, rule, end) if is_place(clause, value) and len(value.split()) <= 5 else None


def _read_employer(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "none")
    parts = split_words(value)
    if not value or PATTERNS["short_stay"].search(value) or len(parts) > 12 or WORDS["passing"] & set(parts):
        return None
    if clause.casual and not value[0].isupper():
        is_name = len(parts) <= 2 and parts[0] not in NOT_PLACES | WORDS["not_employers"]
    else:
        is_name = value[0].isupper() or re.match(r"the\s[A-Z]", value) is not None
    return build_match(clause, match, rule, end) if is_name or PATTERNS["organisation"].match(value) else None


def _read_job(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A job; after "work as", any noun may name one."""
    value, end = read_value(clause, match, "none")
    occupation = PATTERNS["occupation"].match(clause.plain, match.end(), clause.end)
    is_role = rule.read == "role"
    if WORDS["passing"] & set(split_words(value)) or len(value.split()) > 14 or re.search(r"\bquestion|\bof life\b", value):
        return None
    if PATTERNS["short_stay"].search(value):
        return None
    if occupation is None and (
        not is_role
        or not re.match(r"an?\s\w{4,}", value)
        or len(value.split()) > 8
        or re.search(r"\b(?:team|group|part|result)\b", value)
    ):
        return None
    unfit = WORDS["not_job"] - ({"in", "at", "for", "of"} if is_role else set())
    if unfit & set(split_words(occupation[0] if occupation else value)[:-1]):
        return None
    return build_match(clause, match, rule, end)


def _read_new_employer(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A new employer; "joined Hooli" alone may be a club, a call or a service, so it must say as what."""
    name = PATTERNS["name"].match(clause.plain, match.end(), clause.end)
    if name is None or PATTERNS["started_once"].search(clause.plain, match.end(), clause.end):
        return None
    end = trim_end(clause, match.end(), find_clause_end(clause, match.end(), "none"))
    when = PATTERNS["started_when"].match(clause.plain, name.end(), end)
    if name.end() > end or when is None or len(clause.plain[name.end() : end].split()) > 10:
        return None
    if match["joined"] and (
        split_words(name[0])[0] in NOT_PLACES or not PATTERNS["in_office"].search(clause.plain, name.end(), end)
    ):
        return None
    return build_match(clause, match, rule, name.end() if when["day"] else end)


def _read_birth_date(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    date = PATTERNS["date"].match(clause.plain, match.end(), clause.end)
    end = find_clause_end(clause, match.end(), "date")
    return None if date is None else build_match(clause, match, rule, max(date.end(), end))


def _read_birth_place(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "place")
    is_year = re.match(r"(?:19|20)\d\d\b", value) is not None
    if not is_year and (not is_place(clause, value) or PATTERNS["short_stay"].search(value)):
        return None
    return build_match(clause, match, rule, end)


def _read_identifier(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    what = re.sub(r"\s+", " ", match["what"].lower().replace("e-mail", "email"))
    form = "email" if "email" in what else "phone" if re.search(r"phone|mobile|cell", what) else "code_value"
    value = PATTERNS[form].match(clause.plain, match.end(), clause.end)
    if value is None or not PATTERNS["after_value"].match(clause.plain, value.end(), clause.end):
        return None
    name = what.replace(" ", "_").replace("customer_number", "customer_id") if form == "code_value" else form
    denied = PATTERNS["not_tail"].match(clause.plain, value.end(), clause.end) is not None
    content = (
        f"{clause.subject}'s {clause.raw[match.start() + 3 : match.end('what')]} is {clause.raw[match.end() : value.end()]}."
    )
    key = None if match["whose"] else f"user.{name}"
    return FactMatch(Fact(content, rule.tag, key, rule.confidence, clause.is_correction or denied), value.end())


def _read_languages(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = set(split_words(value))
    if not parts & WORDS["languages"] or parts - WORDS["languages"] - WORDS["language_extras"]:
        return None
    return build_match(clause, match, rule, end)


# -- relations ----------------------------------------------------------------------------------------------------------
def _find_names_end(clause: Clause, start: int) -> tuple[int, int]:
    """Where one or several joined names end, or -1, and their number."""
    end = find_name_end(clause, start)
    for count in range(1, 7):
        joined = _JOINED_NAME.match(clause.plain, end, clause.end) if end >= 0 else None
        more = find_name_end(clause, joined.end()) if joined else -1
        if more < 0:
            return end, count
        end = more
    return end, 7


def _read_names(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    end, _ = _find_names_end(clause, match.end())
    return None if end < 0 else build_match(clause, match, rule, end)


def _read_relation(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A relation with a name. A relation with one holder at a time has a key: a new manager replaces the last."""
    same = WORDS["same_holder"].issuperset(match["which"].lower().split())
    holder = HOLDERS.get(match["relation"].lower()) if same and not match["many"] else None
    end, count = _find_names_end(clause, match.end())
    if end < 0:
        return None
    if match["bare"]:
        if holder is None or count > 1 or not _is_holder_name(clause.plain[match.end() : end]):
            return None
        rule = replace(rule, confidence=0.88)
    return build_match(clause, match, rule, end, f"user.{holder}" if holder and count == 1 else None)


def _is_holder_name(value: str) -> bool:
    """Whether "my boss is …" continues with a name, not with a nationality, a faith, a title or a joke."""
    parts = split_words(value.replace("-", " "))
    if not _NOT_HOLDERS.isdisjoint(parts) or not HOLDERS.keys().isdisjoint(parts):
        return False
    if not value[0].isupper() or value.rstrip(".") in WORDS["titles"] or any(word.isupper() for word in value.split()):
        return False
    return len(parts) > 1 or parts[0] in WORDS["named_like_peoples"] or not parts[0].endswith(("ian", "ese", "ish"))


# -- likes, preferences, requests ---------------------------------------------------------------------------------------
def _find_topic(value: str) -> str | None:
    """The key of a preference that has one value at a time; None if it holds under a condition only."""
    if _CONDITION.search(f" {value} "):
        return None
    return next((key for key, topic in _TOPICS.items() if topic.fullmatch(value)), None)


def _is_conditional(clause: Clause) -> bool:
    """Whether the words before the clause set a condition: "At home, I prefer …"."""
    parts = split_words(clause.before().rstrip(" ,").rpartition(",")[2])
    return bool(parts) and not clause.alone and parts[0] in WORDS["condition"]


def _read_preference(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if not is_lasting(value, 16) or _is_conditional(clause) or _RUNS_ON.match(clause.plain, end) or len(value) < 2:
        return None
    if parts[0] in WORDS["not_liked"] - {"a", "an", "the", "my", "having"} or (parts[0] == "to" and len(parts) < 3):
        return None
    # A choice between things at hand is no lasting preference.
    return None if PATTERNS["one_choice"].search(value) else build_match(clause, match, rule, end, _find_topic(value))


def _read_switch(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """ "I switched from Vim to Emacs": only between two editors, where it is clear what is preferred now."""
    value, end = read_value(clause, match, "none")
    topics = {_find_topic(part) for part in re.split(r"\sto\s", value)}
    if topics != {rule.key} or PATTERNS["went_back"].search(clause.plain, end, clause.end):
        return None
    return build_match(clause, match, rule, end)


def _read_like(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if not is_lasting(value) or _is_conditional(clause) or _RUNS_ON.match(clause.plain, end) or re.search(r"\d", value):
        return None
    if parts[0] in WORDS["not_liked"] or (parts[0] == "to" and (len(parts) < 2 or parts[1] in WORDS["not_to"])):
        return None
    return build_match(clause, match, rule, end)


def _read_abstention(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "list")
    parts = split_words(value)
    if not is_lasting(value, 6) or parts[0] in WORDS["not_liked"] or not WORDS["not_abstained"].isdisjoint(parts):
        return None
    return build_match(clause, match, rule, end)


def _read_favourite(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    noun = match["noun"].lower()
    value, end = read_value(clause, match, "none")
    if set(noun.split()) & WORDS["not_favourite"] or not is_lasting(value, 8):
        return None
    unnamed = WORDS["not_liked"] | {"probably", "definitely", "to", "still", "always"}
    if split_words(value)[0] in unnamed and not value[0].isupper():
        return None
    return build_match(clause, match, rule, end, f"user.favourite.{_FAVOURITES[noun]}" if noun in _FAVOURITES else None)


def _read_request(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """A standing request about how to be answered."""
    start, end = match.start("ask"), trim_end(clause, match.start("ask"), clause.end)
    said = clause.raw[start:end].strip()
    is_pasted = "(" in clause.plain[:start] or len(clause.plain) > 1000
    if not clause.alone or is_pasted or PATTERNS["one_task"].search(said) or len(said.split()) > 20:
        return None
    is_general = not re.match(r"(?:never|don'?t|do not)\b", clause.plain[start:end], re.IGNORECASE) and not re.search(
        r"\b(?:if|when|unless|for|while)\b", said
    )
    key = next((key for key, topic in _ASKED_TOPICS.items() if topic.search(said)), None) if is_general else None
    content = f"{clause.subject} asks: {said[0].lower()}{said[1:]}."
    return FactMatch(Fact(content, rule.tag, key, rule.confidence, clause.is_correction), clause.end)


def _read_wish(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    value, end = read_value(clause, match, "none")
    if not re.search(r"\b(?:answers|replies|responses|explanations)\b", value) or PATTERNS["one_task"].search(value):
        return None
    return build_match(clause, match, rule, end, None if match["often"].lower() == "never" else _find_topic(value))


READERS: dict[str, Reader] = {
    name.removeprefix("_read_"): reader for name, reader in list(globals().items()) if name.startswith("_read_")
} | {"role": _read_job}
