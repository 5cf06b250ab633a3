"""The checks of the health report, one function each.

A check reads the `Examination` and yields issues; `health` turns them into findings and a plan. Messages are a log: they are
checked for secrets and count as parents, and no other check reads them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from keepstone.maintenance.staleness import stale_reason
from keepstone.text.english import NEGATIONS, STOP_WORDS
from keepstone.text.junk import PATTERNS, junk_reason
from keepstone.text.sentences import split_at_marks
from keepstone.text.words import stem, terms
from keepstone.types import MESSAGE, UNTRUSTED

if TYPE_CHECKING:
    from keepstone.maintenance.health import Item

Action = Literal["archive", "redact", "review", "nothing"]
_SPACES = re.compile(r"\s+")
_SUBJECT_TERMS = frozenset(terms("user users you your yours their they assistant my me mine"))
_MAX_COMPARED = 50_000  # memories of a user, the last, whose sentences and words are held against each other
_NEVER = datetime.max.replace(tzinfo=UTC)


class Issue(NamedTuple):
    """One result of a check: the ids at fault, what should be done, and the ids to keep, the best first."""

    ids: tuple[str, ...]
    reason: str
    action: Action
    kept_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that is examined: the ids of all items, the active memories without messages, and the ids that earlier checks
    archive or redact. Messages are not kept: of what was said there are only hashes, by whether the assistant said it."""

    now: datetime
    ids: set[str] = field(default_factory=set)
    memories: list[Item] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    secrets: list[Issue] = field(default_factory=list)
    said: dict[bool, set[int]] = field(default_factory=lambda: {True: set(), False: set()})
    _terms: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def terms(self, item: Item) -> tuple[str, ...]:
        """The distinct terms of an item's content, in order."""
        known = self._terms.get(item.id)
        if known is None:
            known = self._terms[item.id] = tuple(dict.fromkeys(terms(item.content)))
        return known

    def content_terms(self, item: Item) -> set[str]:
        """The terms of an item without stop words and words for the user."""
        return set(self.terms(item)) - _SUBJECT_TERMS - STOP_WORDS

    def keep_order(self, item: Item) -> tuple[bool, float, int, datetime, str]:
        """Sort key, the item to keep first: not removed, the most trusted, the most read, the oldest."""
        created = as_utc(item.created_at) or _NEVER
        return item.id in self.removed, -item.trust, -(item.access_count or 0), created, item.id


def as_utc(at: datetime | None) -> datetime | None:
    """A time that can be compared: one without a zone is read as UTC."""
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def normalize(text: str) -> str:
    """A text as duplicates are compared: without odd spaces, the last full stop and the case of its first letter."""
    plain = _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip().rstrip(".").rstrip()
    return plain[:1].lower() + plain[1:]


def group_key(item: Item) -> tuple[str, str, str]:
    """Only items of one group are compared: two users' memories never are, nor a success and a failure."""
    return item.user, item.kind, item.tag if item.kind == "episode" else ""


def is_message(item: Item) -> bool:
    """Whether an item is part of the message log."""
    return item.kind == MESSAGE


def read_items(
    items: Iterable[Item], now: datetime, find: Callable[[str], Sequence[Any]] | None, redacts: Collection[str]
) -> Examination:
    """Read every item once. Sensitive passages of the kinds that are redacted are found here, messages and earlier versions
    included."""
    examination = Examination(now)
    find = find or (lambda text: ())
    find_again = lru_cache(maxsize=4096)(find)  # names of sources, tags and sessions come back
    for item in items:
        if item.id in examination.ids:
            continue
        examination.ids.add(item.id)
        passages = chain(find(item.content), chain.from_iterable(map(find_again, item.past)))
        kinds = sorted({str(passage.kind) for passage in passages}.intersection(redacts))
        if kinds:
            reason = f"holds what looks like sensitive text of the kind {' and '.join(kinds)}"
            examination.secrets.append(Issue((item.id,), reason, "redact"))
        if not is_message(item) and item.status == "active":
            examination.memories.append(replace(item, past=()) if item.past else item)  # it is read, and need not be held
        elif is_message(item) and item.role is not None:
            texts = {item.content, *split_at_marks(item.content)}
            examination.said[item.role == "assistant"].update(hash((item.user, normalize(text))) for text in texts)
    return examination


def find_junk(examination: Examination) -> Iterator[Issue]:
    """Texts that are no memory; a value under a key may be a single word."""
    for item in examination.memories:
        reason = junk_reason(item.content) if item.key is None else None
        if reason is not None:
            yield Issue((item.id,), reason, "archive")


def find_expired(examination: Examination) -> Iterator[Issue]:
    """Memories past their time to live."""
    for item in examination.memories:
        end = as_utc(item.expires_at)
        if end is not None and end <= examination.now:
            yield Issue((item.id,), "its time to live has passed and it is still listed", "archive")


def find_duplicates(examination: Examination) -> Iterator[Issue]:
    """The same text more than once."""
    for group in _group_duplicates(examination):
        if len(group) > 1:
            yield Issue(_ids(group[1:]), "has exactly the text of another memory", "archive", _ids(group[:1]))


def _group_duplicates(examination: Examination) -> Iterable[list[Item]]:
    groups: dict[object, list[Item]] = defaultdict(list)
    for item in examination.memories:
        groups[group_key(item), item.key, normalize(item.content)].append(item)
    return [sorted(group, key=examination.keep_order) for group in groups.values()]


def find_stale(examination: Examination, after: timedelta) -> Iterator[Issue]:
    """Statements about a time that has passed, and plans that were not touched for a long time."""
    for item in examination.memories:
        reason = stale_reason(item, examination.now, after)
        if reason is not None:
            yield Issue((item.id,), reason, "review")


def find_never_recalled(examination: Examination, after: timedelta) -> Iterator[Issue]:
    """Memories that were never read; systems that do not count reads are skipped."""
    for item in examination.memories:
        since = as_utc(item.created_at)
        if item.access_count == 0 and since is not None and examination.now - since > after:
            yield Issue((item.id,), f"was never recalled in more than {after.days} days", "nothing")


def find_untrusted(examination: Examination) -> Iterator[Issue]:
    """Memories from a source with little trust that expire unless they are confirmed."""
    for item in examination.memories:
        if item.trust < UNTRUSTED and item.expires_at is not None:
            yield Issue((item.id,), "comes from a source with little trust and was not confirmed", "nothing")


def find_orphans(examination: Examination) -> Iterator[Issue]:
    """Memories derived from records that no longer exist."""
    for item in examination.memories:
        lost = sum(parent not in examination.ids for parent in item.parents)
        if lost:
            yield Issue((item.id,), f"{lost} of the {len(item.parents)} records it was derived from no longer exist", "review")


# -- contradictions -----------------------------------------------------------------------------------------------------
def find_contradictions(examination: Examination) -> Iterator[Issue]:
    """More than one value under one key, and statements that contradict each other."""
    keyed: dict[object, dict[str, Item]] = defaultdict(dict)
    unkeyed: dict[str, list[Item]] = defaultdict(list)
    for item in examination.memories:
        if item.key is not None:
            keyed[item.user, item.key].setdefault(normalize(item.content), item)
        else:
            unkeyed[item.user].append(item)
    for values in keyed.values():
        if len(values) > 1:
            yield Issue(_ids(_newest_first(values.values())), f"{len(values)} values are active under one key", "review")
    for items in unkeyed.values():
        for group in _group_contradictions(items[-_MAX_COMPARED:]):
            yield Issue(_ids(group), "gives another value than the other memories for the same thing", "review")


def _group_contradictions(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items that contradict each other, the newest first."""
    from keepstone.maintenance.contradictions import find_contradicting  # 60 ms of patterns that an import alone should not take

    newest_first = _newest_first(items)
    groups: dict[str, set[str]] = {}
    for one, other in find_contradicting((item.id, item.content) for item in reversed(newest_first)):
        merged = groups.get(one, {one}) | groups.get(other, {other})
        groups.update(dict.fromkeys(merged, merged))
    distinct = {id(group): group for group in groups.values()}
    for group in distinct.values():
        yield [item for item in newest_first if item.id in group]


def _newest_first(items: Iterable[Item]) -> list[Item]:
    earliest = datetime.min.replace(tzinfo=UTC)
    return sorted(items, key=lambda item: as_utc(item.valid_from or item.created_at) or earliest, reverse=True)


def _ids(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(item.id for item in items)


# -- near duplicates ----------------------------------------------------------------------------------------------------
_MAX_GROUP_FACTS, _MAX_GROUP_ITEMS = 8, 2000  # compared among memories with one gist
_MIN_SHARED_TERMS = 0.8  # share of the terms of two memories
_MIN_TERMS, _MAX_TERMS = 5, 150  # of a memory that is compared by its terms
_MAX_NEIGHBOURS = 24  # compared among those that share a rare term
_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÖØ-Þ][\w'’-]+")
_NEGATIONS = NEGATIONS | {"without", "nor", "neither", "none", "unless", "except"}


def find_near_duplicates(examination: Examination) -> Iterator[Issue]:
    """The same fact in other words; for review where only nearly all terms are the same."""
    repeated: set[str] = set()
    unkeyed = [group[0] for group in _group_duplicates(examination) if group[0].key is None]
    for leader, others in _group_by_gist(examination, unkeyed):
        repeated.update(others)
        yield Issue(others, "says the same as another memory in other words", "archive", (leader,))
    rest = [item for item in unkeyed if item.id not in repeated]
    for one, other in _pair_by_terms(examination, rest):
        first, second = sorted((one, other), key=examination.keep_order)
        yield Issue((second.id,), "has nearly all its words in common with another memory", "review", (first.id,))


def _group_by_gist(examination: Examination, items: Iterable[Item]) -> Iterator[tuple[str, tuple[str, ...]]]:
    from keepstone.text.near_duplicates import compare, gist  # 20 ms of word lists that an import alone should not take

    groups: dict[object, list[Item]] = defaultdict(list)
    for item in items:
        if (mark := item.dedup_key or gist(item.content)) is not None:
            groups[group_key(item), mark].append(item)
    for group in groups.values():
        if len(group) == 1:
            continue
        facts: list[tuple[Item, list[str]]] = []
        for item in sorted(group, key=examination.keep_order)[:_MAX_GROUP_ITEMS]:
            for leader, others in facts:
                if compare(item.content, leader.content).same:
                    others.append(item.id)
                    break
            else:
                if len(facts) < _MAX_GROUP_FACTS:
                    facts.append((item, []))
        yield from ((leader.id, tuple(others)) for leader, others in facts if others)


def _pair_by_terms(examination: Examination, items: Sequence[Item]) -> Iterator[tuple[Item, Item]]:
    """Pairs that share most terms. Such a pair shares one of its rarest terms, so only items that do are compared; shorter
    items come first, so the last neighbours are the nearest in length."""
    counts: Counter[str] = Counter()
    items = items[-_MAX_COMPARED:]
    for item in items:
        counts.update(examination.terms(item))
    comparable = [item for item in items if _MIN_TERMS <= len(examination.terms(item)) <= _MAX_TERMS]
    by_term: dict[object, list[tuple[Item, frozenset[str]]]] = defaultdict(list)
    for item in sorted(comparable, key=lambda item: len(examination.terms(item))):
        words = sorted(examination.terms(item), key=lambda word: (counts[word], word))
        own, key = frozenset(words), group_key(item)
        rare = [by_term[key, word] for word in words[: len(words) - math.ceil(_MIN_SHARED_TERMS * len(words)) + 1]]
        tried: set[str] = set()
        match = None
        for other, theirs in (each for neighbours in rare for each in neighbours[-_MAX_NEIGHBOURS:]):
            if len(theirs) < _MIN_SHARED_TERMS * len(own):
                continue  # too short to share as many
            shared = len(own & theirs)
            if shared >= _MIN_SHARED_TERMS * (len(own) + len(theirs) - shared) and other.id not in tried:
                if _is_alike(examination, item, other):
                    match = other
                    break
                tried.add(other.id)
        if match is not None:
            yield item, match
        for neighbours in rare:
            neighbours.append((item, own))


def _is_alike(examination: Examination, one: Item, other: Item) -> bool:
    """Whether the terms of two memories that share most of them have the same order, and no name, number or negation differs."""
    mine, yours = set(examination.terms(one)), set(examination.terms(other))
    common = mine & yours
    only_mine, only_yours = mine - common, yours - common
    apart = only_mine | only_yours
    if any(not word.isalpha() or word in _NEGATIONS for word in apart) or apart & (_names(one) | _names(other)):
        return False
    if [word for word in examination.terms(one) if word in common] != [
        word for word in examination.terms(other) if word in common
    ]:
        return False
    if only_mine and only_yours:
        return len(only_mine) == len(only_yours) == 1 and _is_spelled_alike(*only_mine, *only_yours)
    return bool(apart)


def _names(item: Item) -> set[str]:
    return {stem(name[0].casefold()) for name in _NAME.finditer(item.content)}


def _is_spelled_alike(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= 5 and SequenceMatcher(None, one, other).ratio() >= _MIN_SHARED_TERMS


# -- echoes -------------------------------------------------------------------------------------------------------------
_FENCED = re.compile(r"<(memory|memories|recalled)\b[^>]{0,300}>.*?</\1>", re.IGNORECASE | re.DOTALL)
_TAGS = re.compile(r"[<\[]/?(?:memory|memories|recalled)\b[^>\]]{0,300}[>\]]", re.IGNORECASE)
_MAX_FENCE_CHARS = 4000  # read in search of a fence


def find_echoes(examination: Examination) -> Iterator[Issue]:
    """Memories that repeat what memory itself put into a prompt; archived where another memory has all of it."""
    worded = {item.id for item in examination.memories if _echo_start(item) or _FENCED.search(item.content[:_MAX_FENCE_CHARS])}
    repeated = _repeated_by_assistant(examination) - worded
    if not worded and not repeated:
        return
    by_term: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in examination.memories:
        if item.id not in worded:
            for word in examination.content_terms(item):
                by_term[item.user, word].append(item)
    archived: set[str] = set()
    for item in examination.memories:
        if item.id not in worded and item.id not in repeated:
            continue
        origin = _find_origin(examination, item, by_term, archived, worded=item.id in worded)
        if origin is not None:
            archived.add(item.id)
            yield Issue((item.id,), "repeats what memory had said of another record", "archive", (origin.id,))
        elif item.id in worded:
            yield Issue((item.id,), "is worded as an answer from memory, and no other record says it", "review")


def _echo_start(item: Item) -> int:
    """Where the statement in an answer from memory begins; 0 where a text is no such answer."""
    opening = PATTERNS["echo"].match(item.content.replace("’", "'"))
    return opening.end() if opening is not None else 0


def _repeated_by_assistant(examination: Examination) -> set[str]:
    """Memories that equal an assistant's message or a sentence of one, and nothing that the user said."""
    by_assistant, by_others = examination.said[True], examination.said[False]
    said = ((item.id, hash((item.user, normalize(item.content)))) for item in examination.memories)
    return {id for id, text in said if text in by_assistant and text not in by_others}


def _find_origin(
    examination: Examination, item: Item, by_term: dict[tuple[str, str], list[Item]], archived: set[str], *, worded: bool
) -> Item | None:
    """The record that an echo repeats: it is kept and has all that the echo says. Where only a message shows that it is an
    echo, the record is older and the echo says all that it has."""
    words = examination.content_terms(item)
    if worded:
        words &= set(terms(_TAGS.sub(" ", item.content[_echo_start(item) :])))
    rows = [by_term.get((item.user, word), []) for word in words]
    near = (
        min(rows, key=len, default=[])[:_MAX_GROUP_ITEMS] if worded else [each for row in rows for each in row[:_MAX_NEIGHBOURS]]
    )
    for other in near:
        theirs = examination.content_terms(other)
        has_all = words <= theirs if worded else len(theirs) > 1 and theirs <= words and _is_older(other, item)
        if has_all and other.id != item.id and other.id not in examination.removed and other.id not in archived:
            return other
    return None


def _is_older(one: Item, other: Item) -> bool:
    first, second = as_utc(one.created_at), as_utc(other.created_at)
    return first is not None and second is not None and first < second
