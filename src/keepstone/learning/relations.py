"""Rules for the people and the animals one has: relatives, friends, pets, a manager, a landlord. Pure."""

from __future__ import annotations

import re

from keepstone.learning import values as va
from keepstone.learning.clauses import Found, Rule, Spot, lately, name_end, persons, told, words_of

_JOINED = re.compile(r"(?:,\s|,?\sand\s)(?=[A-Z])(?!I\b)")


def _names_end(spot: Spot, start: int) -> tuple[int, int]:
    """Where one name or several joined ones end, or -1, and how many they are."""
    end = name_end(spot, start)
    for count in range(1, 7):
        joined = _JOINED.match(spot.plain, end, spot.end) if end >= 0 else None
        more = name_end(spot, joined.end()) if joined else -1
        if more < 0:
            return end, count
        end = more
    return end, 7


def _related(spot: Spot, match: re.Match[str]) -> Found | None:
    """Somebody with a name. Whom one has one of at a time has a key: the next manager takes the place of the last."""
    same = va.SAME_HOLDER.issuperset(match["which"].lower().split())
    holder = va.HOLDERS.get(match["relation"].lower()) if same and not match["many"] else None
    if match["bare"] and not holder:
        return None
    end, count = _names_end(spot, match.end())
    if end < 0 or (match["bare"] and (count > 1 or not _is_named(spot.plain[match.end() : end]))):
        return None
    key = f"user.{holder}" if holder and count == 1 else None
    head = spot.raw[match.start() + 3 : match.end()]
    return told(spot, f"{spot.subject}'s {head}", match.end(), end, "profile", key, 0.88 if match["bare"] else 0.93)


def _is_named(value: str) -> bool:
    """Whether "my boss is …" goes on with a name: not with a people, a faith, a title or a joke."""
    parts = words_of(value.replace("-", " "))
    if not va.NOT_HOLDERS.isdisjoint(parts) or not va.HOLDERS.keys().isdisjoint(parts):
        return False
    if not value[0].isupper() or value.rstrip(".") in va.TITLES or any(word.isupper() for word in value.split()):
        return False
    return len(parts) > 1 or parts[0] in va.NAMED_LIKE_PEOPLES or not parts[0].endswith(("ian", "ese", "ish"))


def _has(spot: Spot, match: re.Match[str]) -> Found | None:
    """Pets and relatives counted and named: "I have two cats called Tom and Jo"."""
    end, _ = _names_end(spot, match.end())
    if end < 0:
        return None
    had = persons(spot.raw[match.start() : match.end()].partition("have ")[2])
    return told(spot, f"{spot.subject} has {had}", match.end(), end, "profile", None, 0.93)


RELATIONS: list[tuple[re.Pattern[str], Rule]] = [
    (va.pattern(head), rule)
    for head, rule in (
        (
            r"my (?P<which>(?:[\w-]{2,12} ){0,2})(?P<relation>" + va.RELATION + r")(?:'s name(?:'s| is)|'s called|'s named"
            r"| is (?:called|named)|(?P<many>s?'? names are|s are (?:called|named)|s's named)|(?P<bare>(?-i: is))) ",
            lately(_related),
        ),
        (r"i have (?:an?|two|three|one|four) (?:[\w-]{2,12} ){0,3}" + va.PET + r"s? (?:named|called) ", _has),
    )
]
