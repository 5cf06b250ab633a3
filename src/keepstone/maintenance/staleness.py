"""Statements whose time is over: "until March", "next week", "by 2026-05-01".

`read_time` looks back, as questions do. A plan lies ahead of the day it was stated, so a time without a year is read forward from
that day. What happened stays true, and what recurs never ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from keepstone.maintenance.statements import PATTERNS
from keepstone.text import english
from keepstone.text.sentences import split_sentences
from keepstone.text.time_expressions import read_time

if TYPE_CHECKING:
    from keepstone.maintenance.health import Item

_MAX_CHARS = 600  # of a statement; longer texts speak of many times
_COUNTS = {word: number for word, number in english.UNITS.items() if 1 <= number <= 12}
_COUNTS |= {"a": 1, "an": 1, "few": 4, "couple of": 2}
_WITHIN = re.compile(
    r"\b(?:in|within|for|over|during)? ?(?P<coming>the (?:next|coming) )?"
    rf"(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<unit>day|week|month|year)s?\b"
)
_WEEKDAY = re.compile(rf"\b{english.WEEKDAY_PATTERN}\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_TITLE = re.compile(r"(?<!^)\b(?:The Day After Tomorrow|Tomorrow|Tonight|Next \w+|This \w+)\b")  # capitals inside a sentence
_MAX_STALE_CHARS = 2000  # of a memory that are read for times
_PAST_KINDS = frozenset(("episode", "summary", "message"))
_PLAN_TAGS = frozenset("task tasks plan plans todo todos to-do reminder reminders".split())
_DONE_STATES = frozenset(("done", "closed", "cancelled", "canceled", "finished", "completed"))
_GRACE = timedelta(days=1)  # after the end, for other time zones


def has_ended(text: str, stated: datetime | None, now: datetime) -> bool:
    """Whether a statement is bound to a period that has passed. `stated` None: only a period that names its year can be judged.

    >>> stated, now = datetime.fromisoformat("2026-03-01T00:00Z"), datetime.fromisoformat("2026-07-01T00:00Z")
    >>> [has_ended(text, stated, now) for text in ("The visa is valid until May.", "She visited Rome in May.")]
    [True, False]
    """
    if stated is not None and stated >= now - _GRACE:
        return False
    try:
        if stated is None:
            end = find_end(text, now) if _YEAR.search(text) and PATTERNS["once"].search(text.lower()) else None
            return end is not None and end <= now - _GRACE
        end = find_end(text, stated)
    except OverflowError:  # beyond the years of datetime
        return False
    return end is not None and stated < end <= now - _GRACE


def stale_reason(memory: Item, now: datetime, after: timedelta) -> str | None:
    """Why a memory is stale: the time that it speaks of has passed, it is an open plan that was neither changed nor read for
    `after`, or both. None if it is not stale. Health and verification use this one definition."""
    if memory.kind in _PAST_KINDS or (memory.kind == "value" and memory.role is not None):
        return None  # a description of the past, or an application setting
    stated = _latest(memory.occurred_at, memory.valid_from) or _latest(memory.created_at)
    sentences = map(str.strip, split_sentences(memory.content[:_MAX_STALE_CHARS]))
    reasons = []
    if any(has_ended(sentence, stated, now) for sentence in sentences):
        reasons.append("the time that it speaks of has passed")
    plan = next((word for word in (memory.tag.casefold(), memory.kind.casefold()) if word in _PLAN_TAGS), None)
    touched = _latest(memory.created_at, memory.updated_at, memory.last_accessed_at) or now
    if plan is not None and _is_open(memory.metadata) and now - touched >= after:
        reasons.append(f"this {plan} was not changed or read for {after.days} days")
    return "; ".join(reasons) or None


def _latest(*times: datetime | None) -> datetime | None:
    """The latest of the known times; one without a zone is read as UTC."""
    known = [at if at.tzinfo is not None else at.replace(tzinfo=UTC) for at in times if at is not None]
    return max(known, default=None)


def _is_open(metadata: Mapping[str, Any]) -> bool:
    state = metadata.get("status")
    return not metadata.get("done") and not (isinstance(state, str) and state.lower() in _DONE_STATES)


def find_end(text: str, stated: datetime) -> datetime | None:
    """When the period ends that a statement is bound to; None if it is bound to none."""
    if len(text) > _MAX_CHARS or PATTERNS["recurring"].search(text.lower()):
        return None
    text = _TITLE.sub("", text)
    lower = text.lower()
    ahead = PATTERNS["ahead"].search(lower)
    if ahead is None and PATTERNS["happened"].search(lower) and not PATTERNS["plan"].search(lower):
        return None
    within = _WITHIN.search(lower)
    if within is not None and (within["coming"] or within[0].startswith(("in ", "within "))):
        count = _COUNTS.get(within["count"]) or int(within["count"])
        return stated + timedelta(days=count * english.UNIT_DAYS[within["unit"]])
    return _window_end(text, stated, ahead is not None or PATTERNS["present"].search(lower) is not None)


def _window_end(text: str, stated: datetime, is_relative: bool) -> datetime | None:
    """The end of the period that a text names, looking ahead where the words leave it open."""
    hint = read_time(text, stated)
    if hint is None or hint.end is None or hint.anchor:
        return None
    if is_relative or _YEAR.search(hint.text):
        return hint.end
    if not PATTERNS["once"].search(text.lower()):  # a weekday or a month comes back
        return None
    if hint.end > stated:
        return hint.end
    later = read_time(text, stated + timedelta(days=7 if _WEEKDAY.search(hint.text) else 365))
    return None if later is None or later.end is None or later.text != hint.text else later.end
