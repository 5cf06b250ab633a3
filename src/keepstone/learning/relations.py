"""Rules for related people and animals: relatives, friends, pets, a manager, a landlord."""

from __future__ import annotations

import re

from keepstone.learning import values as va
from keepstone.learning.clauses import Clause, FactMatch, Rule, build_match, find_name_end, split_words, to_third_person, with_now

_JOINED = re.compile(r"(?:,\s|,?\sand\s)(?=[A-Z])(?!I\b)")


def _find_names_end(clause: Clause, start: int) -> tuple[int, int]:
    """Where one or several joined names end, or -1, and their number."""
    end = find_name_end(clause, start)
    for count in range(1, 7):
        joined = _JOINED.match(clause.plain, end, clause.end) if end >= 0 else None
        more = find_name_end(clause, joined.end()) if joined else -1
        if more < 0:
            return end, count
        end = more
    return end, 7


def _read_relation(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """A relation with a name. A relation with one holder at a time has a key: a new manager replaces the last."""
    same = va.SAME_HOLDER.issuperset(match["which"].lower().split())
    holder = va.HOLDERS.get(match["relation"].lower()) if same and not match["many"] else None
    if match["bare"] and not holder:
        return None
    end, count = _find_names_end(clause, match.end())
    if end < 0 or (match["bare"] and (count > 1 or not _is_name(clause.plain[match.end() : end]))):
        return None
    key = f"user.{holder}" if holder and count == 1 else None
    head = clause.raw[match.start() + 3 : match.end()]
    return build_match(clause, f"{clause.subject}'s {head}", match.end(), end, "profile", key, 0.88 if match["bare"] else 0.93)


def _is_name(value: str) -> bool:
    """Whether "my boss is …" continues with a name, not with a nationality, a faith, a title or a joke."""
    parts = split_words(value.replace("-", " "))
    if not va.NOT_HOLDERS.isdisjoint(parts) or not va.HOLDERS.keys().isdisjoint(parts):
        return False
    if not value[0].isupper() or value.rstrip(".") in va.TITLES or any(word.isupper() for word in value.split()):
        return False
    return len(parts) > 1 or parts[0] in va.NAMED_LIKE_PEOPLES or not parts[0].endswith(("ian", "ese", "ish"))


def _read_possession(clause: Clause, match: re.Match[str]) -> FactMatch | None:
    """Pets and relatives counted and named: "I have two cats called Tom and Jo"."""
    end, _ = _find_names_end(clause, match.end())
    if end < 0:
        return None
    had = to_third_person(clause.raw[match.start() : match.end()].partition("have ")[2])
    return build_match(clause, f"{clause.subject} has {had}", match.end(), end, "profile", None, 0.93)


RELATIONS: list[tuple[re.Pattern[str], Rule]] = [
    (va.pattern(head), rule)
    for head, rule in (
        (
            r"my (?P<which>(?:[\w-]{2,12} ){0,2})(?P<relation>" + va.RELATION + r")(?:'s name(?:'s| is)|'s called|'s named"
            r"| is (?:called|named)|(?P<many>s?'? names are|s are (?:called|named)|s's named)|(?P<bare>(?-i: is))) ",
            with_now(_read_relation),
        ),
        (r"i have (?:an?|two|three|one|four) (?:[\w-]{2,12} ){0,3}" + va.PET + r"s? (?:named|called) ", _read_possession),
    )
]
