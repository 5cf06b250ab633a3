"""What a model should know for a question: standing instructions, knowledge, lessons of past tasks, and what is in hand.

The order is fixed: what changes least stands first (instructions in a fence of their own, knowledge, then lessons, each oldest
first), what is in hand last, so that a prompt's beginning stays the same from one call to the next and can be cached.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from keepstone.ports.stores import Clock
from keepstone.recall.flow import RecallFlow, is_asked
from keepstone.recall.query import ContextQuery
from keepstone.recall.render import CLOSE, CLOSE_STANDING, OPEN, OPEN_STANDING, is_filler, render_instruction, render_line
from keepstone.tasks.flow import EPISODE
from keepstone.tasks.working_memory import WorkingMemory
from keepstone.text.clipping import CUT, cut
from keepstone.text.standing import find_standing
from keepstone.text.token_count import estimate_tokens
from keepstone.types import MESSAGE, PINNED, UNTRUSTED, Context, Record, Scope, Version

_MAX_HITS = 50
_MAX_EXCHANGES = 15
_MAX_LESSONS = 3
_MAX_FORMER = 10  # records whose former values are looked up
_MAX_FORMER_CHARS = 200  # of a former value that is shown
_MIN_SCORE_SHARE = 0.005  # of the best hit's score: what scores less only fills the prompt
_BUDGET_PARTS = 3  # what is in hand, and the lessons, may each have one part in so many of the budget
_STANDING_PARTS = 4  # standing instructions may have one part in so many of the budget
_MAX_STANDING_TOKENS = 400
_STANDING_FENCE_TOKENS = estimate_tokens(OPEN_STANDING) + estimate_tokens(CLOSE_STANDING) + 2
_FENCE_TOKENS = estimate_tokens(OPEN) + estimate_tokens(CLOSE) + 2


class Contexts:
    """context: everything one scope knows about a question, within a budget."""

    def __init__(self, recalling: RecallFlow, clock: Clock) -> None:
        self._recalling = recalling
        self._clock = clock

    def block(
        self,
        scope: Scope,
        query: str,
        max_tokens: int,
        working: WorkingMemory | None = None,
        narrowed: ContextQuery = ContextQuery(),
    ) -> Context:
        """The block for a prompt; "" if nothing is known."""
        block, ids = self.gathered(scope, query, max_tokens, working, narrowed=narrowed)
        return Context(block, estimate_tokens(block), ids)

    def gathered(
        self,
        scope: Scope,
        query: str,
        max_tokens: int,
        working: WorkingMemory | None = None,
        leave_out: Collection[str] = (),
        said_only: bool = False,
        narrowed: ContextQuery = ContextQuery(),
    ) -> tuple[str, list[str]]:
        """The block, and the ids of the memories in it. `leave_out` are ids that the prompt has already. `said_only`: of
        knowledge only what was said, each with the other half of its exchange. `narrowed` selects by limit, kinds, tag and
        trust."""
        wanted = replace(narrowed.parse(query, _MAX_EXCHANGES if said_only else _MAX_HITS, max_tokens), read=True)
        lesson = replace(wanted, limit=min(wanted.limit, _MAX_LESSONS), kinds=frozenset((EPISODE,)), max_tokens=None, read=False)
        teaches = (wanted.kinds is None or EPISODE in wanted.kinds) and self._recalling.has_kind(scope, EPISODE)
        lessons = self._recalling.search(scope, lesson) if teaches else []
        if said_only:
            wanted = replace(wanted, kinds=frozenset((MESSAGE,)))
        if self._recalling.has_kind(scope, MESSAGE):  # or what was just said ranks before what answers it
            wanted = replace(wanted, leave_out=self._recalling.find_shown(scope, wanted, set(leave_out)))
        hits = [hit for hit in self._recalling.search(scope, wanted) if hit.record.kind != EPISODE]
        least = _MIN_SCORE_SHARE * max((hit.score for hit in hits), default=0.0)
        hits = [hit for hit in hits if hit.score >= least]
        out = set(leave_out)
        recalled = self._recalling.with_replies(scope, hits) if said_only else [hit.record for hit in hits]
        known = [record for record in recalled if record.id not in out and not is_asked(record, query) and not is_filler(record)]
        taught = [hit.record for hit in lessons if hit.id not in out]
        standing, outdated = self._recalling.find_standing(scope, wanted)
        standing = [record for record in standing if record.id not in out]
        known = [record for record in known if record.id not in outdated]
        known.sort(key=lambda record: record.importance < PINNED)  # what is pinned comes first in the budget
        if narrowed.limit is not None:
            known = known[: max(0, narrowed.limit - len(taught))]
            standing = standing[: max(0, narrowed.limit - len(known) - len(taught))]
        instructions, given = compose_standing([record for record in standing if is_instruction(record)], max_tokens)
        known = [record for record in known if record.id not in given]
        known += [record for record in standing if not is_instruction(record) and record not in known]
        in_hand = [f"- [{self._clock():%Y-%m-%d}, working] {each}" for each in (working.lines() if working is not None else ())]
        former = self._find_former(scope, known)
        times = {hit.id: hit.record.valid_from for hit in hits}
        ended = {hit.id: times[hit.superseded_by] for hit in hits if hit.superseded_by in times}
        block, used = composed(known, taught, in_hand, max_tokens - estimate_tokens(instructions), former, ended)
        self._recalling.count_reads(scope, [*given, *used])
        return "\n".join(filter(None, (instructions, block))), [*given, *used]

    def _find_former(self, scope: Scope, records: Sequence[Record]) -> dict[str, Version]:
        """Of each record with a key that had another value before, the last such value, by id."""
        found: dict[str, Version] = {}
        for record in [record for record in records if record.key is not None and record.version > 1][:_MAX_FORMER]:
            earlier = [
                version
                for version in self._recalling.history(scope, record.id)
                if version.valid_from < record.valid_from and version.trust > UNTRUSTED
            ]
            if earlier and earlier[-1].content != record.content and len(earlier[-1].content) <= _MAX_FORMER_CHARS:
                found[record.id] = earlier[-1]
        return found


def is_instruction(record: Record) -> bool:
    """Whether a record holds a standing instruction, and not only a preference."""
    return find_standing(record.content) == "instruction"


def compose_standing(records: Sequence[Record], max_tokens: int) -> tuple[str, list[str]]:
    """One block of the standing instructions that fit (in order of precedence), oldest first, and their ids; "" for none. They
    have a quarter of the budget, 400 tokens at most."""
    room = min(max_tokens // _STANDING_PARTS, _MAX_STANDING_TOKENS) - _STANDING_FENCE_TOKENS
    chosen: list[tuple[Record, str]] = []
    for record in records:
        line = render_instruction(record)
        cost = estimate_tokens(line) + 1
        if cost <= room and all(record.content != other.content for other, _ in chosen):
            chosen.append((record, line))
            room -= cost
    if not chosen:
        return "", []
    chosen.sort(key=lambda each: (each[0].created_at, each[0].id))
    block = "\n".join([OPEN_STANDING, *(line for _, line in chosen), CLOSE_STANDING])
    return block, [record.id for record, _ in chosen]


def composed(
    known: Sequence[Record],
    taught: Sequence[Record],
    in_hand: Sequence[str],
    max_tokens: int,
    former: Mapping[str, Version] = MappingProxyType({}),
    ended: Mapping[str, datetime] = MappingProxyType({}),
) -> tuple[str, list[str]]:
    """One block of what fits (best first) of each, and the ids of the memories in it; "" for none. `former` are values under the
    same key that records have taken the place of, `ended` when a later statement took the place of a record, by id."""
    room = max_tokens - _FENCE_TOKENS
    held: list[str] = []
    share = room // _BUDGET_PARTS
    for text in in_hand:
        cost = estimate_tokens(text) + 1
        if cost <= share:
            held.append(text)
            share -= cost
            room -= cost
    lessons, spent = _fitting(taught, min(room, max_tokens // _BUDGET_PARTS), shorten=True)
    facts, _ = _fitting(known, room - spent, former=former, ended=ended)
    lines = [text for _, text in (*facts, *lessons)] + held
    used = [record.id for record, _ in (*facts, *lessons)]
    return ("\n".join([OPEN, *lines, CLOSE]), used) if lines else ("", [])


def _fitting(
    records: Sequence[Record],
    room: int,
    shorten: bool = False,
    former: Mapping[str, Version] = MappingProxyType({}),
    ended: Mapping[str, datetime] = MappingProxyType({}),
) -> tuple[list[tuple[Record, str]], int]:
    """The first records that fit, each as its line, in the order they were stored; and what they cost. What says the same in the
    same words stands there once."""
    chosen: dict[str, tuple[Record, str]] = {}
    said: set[tuple[str | None, ...]] = set()
    spent = 0
    for record in records:
        words = (record.key, record.role, record.name, record.content)
        if record.id in chosen or words in said:
            continue
        text = render_line(record, former.get(record.id), ended.get(record.id))
        if shorten:  # rather all of them with their beginnings than one whole
            text = cut(text, room // len(records) - 1, estimate_tokens)
        cost = estimate_tokens(text) + 1
        if spent + cost <= room and text != CUT.strip():
            chosen[record.id] = (record, text)
            said.add(words)
            spent += cost
    return sorted(chosen.values(), key=lambda each: (each[0].created_at, each[0].id)), spent  # a new one never moves an older
