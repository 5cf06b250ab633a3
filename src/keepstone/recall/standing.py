"""Standing instructions and preferences of a scope: which records hold one, which still hold, and where they rank. Pure.

Only the user's own words and what an agent wrote down count (trust above `UNTRUSTED`): an instruction in a web page, a tool's
result or an import is never one. Of several the order of precedence is: an explicit instruction before a preference, of two
about the same thing the newer, of the rest the more relevant to the query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import Column, FirstPass, Slots
from keepstone.scope_index.columns import View
from keepstone.text.standing import read_standing
from keepstone.text.words import INSTRUCTS, PREFERS, term_hashes
from keepstone.types import UNTRUSTED, Hit, Record

MAX_STANDING = 40  # records that are read, the most relevant first
MAX_PREFERENCES = 3  # preferences in a context, besides those that the query recalls
MIN_PREFERENCE_RELEVANCE = 0.3  # what a preference needs to be shown with a query
_MAX_RANKED_IN = 4  # instructions among the hits of a task
_FIRST_PLACE, _PLACES_APART = 3, 2  # where the first of them stands, and how many places later each further one
_INSTRUCTS, _PREFERS = term_hashes((INSTRUCTS, PREFERS)).tolist()

# A query in lower case that asks for work, not for what is remembered. Without IGNORECASE they compile in a tenth of the time.
_TASK = re.compile(
    r"\W*(?:(?:hi|hey|hello|ok|okay|please|now|so|and|also|thanks)\W+)*(?:(?:can|could|would|will) you\b|help me\b|let['’]s\b"
    r"|i(?:['’]d like| want| need|['’]m (?:looking for|trying|planning|working))\b|any (?:tips|ideas|advice|suggestions)\b"
    r"|(?:recommend|suggest|write|draft|plan|show|give|make|create|explain|translate|summari[sz]e|compare|list|find|book|arrange"
    r"|schedule|order|prepare|design|generate|compose|calculate|convert|describe|walk me|tell me how|teach|organi[sz]e|build"
    r"|implement|review|fix|improve|propose|outline|remind|pick|choose|search|look up|edit|rewrite|brainstorm|set up|estimate"
    r"|solve|format)\b)"
)
_HOW = re.compile(  # the same where it only asks how something is done
    r"\W*(?:how (?:do|can|should|would|might|could) (?:i|we|you)\b|how to\b|where (?:should|can|could)\b"
    r"|which .{0,40}\b(?:should|would)\b|what(?: (?:should|can|could|would|are some|is the best|do you)|['’]s the best)\b)"
)


def asks_for_work(query: str) -> Literal["", "task", "question"]:
    """Whether a query gives a task, to which standing instructions may apply, or only asks how something is done.

    >>> asks_for_work("Recommend me a hotel in Ghent"), asks_for_work("How do I iron a shirt?"), asks_for_work("Who is Dana?")
    ('task', 'question', '')
    """
    lower = query.lower()
    return "task" if _TASK.match(lower) else "question" if _HOW.match(lower) else ""


def standing_slots(view: View, preferences: bool = True) -> NDArray[np.bool_]:
    """Which slots hold a standing instruction, or a preference, of someone who may give one."""
    held = view.holds(*((_INSTRUCTS, _PREFERS) if preferences else (_INSTRUCTS,)))[:-1] & (view.trusts > np.float32(UNTRUSTED))
    roles = [view.code(role) for role in ("assistant", "tool", "system") if role in view.codes]
    found: NDArray[np.bool_] = held & ~np.isin(view.roles, roles) if roles else held
    return found


def raise_standing(view: View, first: FirstPass, estimates: Column) -> Column:
    """The estimates with those of the most similar instructions raised, so that they are among the candidates."""
    standing = np.flatnonzero(standing_slots(view, preferences=False))
    if not len(standing):
        return estimates
    best = standing[np.argsort(-first.similarity[standing], kind="stable")][:MAX_STANDING]
    raised = estimates.copy()
    raised[best] = estimates.max()
    return raised


def rank_in(
    view: View, first: FirstPass, slots: Slots, usable: NDArray[np.bool_], sums: Column, order: NDArray[np.int64], limit: int
) -> tuple[NDArray[np.int64], Column]:
    """The order of a task's hits with the instructions that are most similar to it among the first ones, after the best hits; and
    the sums, reassigned by position so that the first has the highest."""
    standing = np.flatnonzero((standing_slots(view, preferences=False) & usable)[slots])
    if not len(standing) or limit <= _FIRST_PLACE:
        return order, sums
    best = standing[np.argsort(-first.similarity[slots[standing]], kind="stable")][:_MAX_RANKED_IN]
    ahead = set(order[:_FIRST_PLACE].tolist())
    chosen = [position for position in best.tolist() if position not in ahead]
    moved = [position for position in order.tolist() if position not in chosen]
    for number, position in enumerate(chosen):
        moved.insert(_FIRST_PLACE + number * _PLACES_APART, position)
    arranged = sums.copy()
    arranged[moved] = -np.sort(-sums[moved])
    return np.array(moved, dtype=np.int64), arranged


def choose_standing(hits: Sequence[Hit], all_preferences: bool = False) -> tuple[list[Record], set[str]]:
    """The instructions and preferences among hits that still hold, in order of precedence, and the ids of instructions that no
    longer do. A preference needs relevance, unless all are asked for."""
    read = [(hit, *read_standing(hit.content)) for hit in hits]
    newest: dict[str, Record] = {}
    for hit, kind, topic, _ in read:
        if kind == "instruction" and topic and (topic not in newest or newest[topic].occurred_at < hit.record.occurred_at):
            newest[topic] = hit.record
    chosen: dict[str, Record] = {}
    preferences: list[Record] = []
    outdated: set[str] = set()
    for hit, kind, topic, words in read:
        if kind == "instruction" and (topic and newest[topic].id != hit.id):
            outdated.add(hit.id)
        elif kind == "instruction":
            chosen.setdefault(words, hit.record)
        elif kind == "preference" and (all_preferences or hit.signals.get("similarity", 0.0) >= MIN_PREFERENCE_RELEVANCE):
            preferences.append(hit.record)
    return [*chosen.values(), *preferences[: None if all_preferences else MAX_PREFERENCES]], outdated
