"""The people, places, projects and topics that memories name.

Names are words with a capital inside a sentence, as ranking reads them, and speakers. A topic is also what a plain fact is about.
The words around a name tell its kind; without such words it is a topic.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import combinations
from typing import Literal, cast, get_args

from keepstone.errors import ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery
from keepstone.recall.query import check_int
from keepstone.text.lexicon import Lexicon
from keepstone.types import MESSAGE, Entity, EntityKind, Record, Scope

KINDS: tuple[str, ...] = get_args(EntityKind)
MAX_RECORDS = 5000  # newest memories that are read
MAX_LIMIT = 1000
_MAX_CHARS = 2000  # of a text that are read
_MAX_IDS, _MAX_RELATED = 20, 8
_MAX_NAME_WORDS = 3
_MAX_NAMES = 12  # of one memory
_WORD = re.compile(r"[^\W\d_][\w'’.&-]*[^\W_]|[^\W\d_]|[^\s\w]")
_ENDS = frozenset('.!?:;…"“”•*-')
_COPULAS = frozenset("is was has had will isn't wasn't and".split())
Kind = EntityKind | Literal[""]  # "" where nothing tells


@cache
def _lexicon() -> Lexicon:
    return Lexicon("english_entities")


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a text. It is not `sure` at the beginning of a sentence; there it `acts` if a verb or "and" follows."""

    name: str
    kind: Kind
    sure: bool = True
    acts: bool = False


@dataclass(slots=True)
class _Seen:
    """What the memories have said of one name."""

    last_at: datetime
    spellings: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)


def find_entities(store: Store, scope: Scope, kind: str | None, limit: int) -> list[Entity]:
    """The entities of a scope, those of the most memories first."""
    if kind is not None and kind not in KINDS:
        raise ValidationError(f"kind is {kind!r:.40}: use {', '.join(KINDS)}.")
    limit = check_int(limit, "limit", 1, MAX_LIMIT)
    records = [(record, _names_in(record)) for record in _newest(store, scope)]
    sure = {name.name.casefold() for _, names in records for name in names if name.sure}
    common = {word for record, _ in records for word in _WORD.findall(record.content[:_MAX_CHARS]) if word.islower()}
    seen: dict[str, _Seen] = {}
    shared: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record, names in records:
        # A capital at the beginning of a sentence may be a name or any word.
        kept = [
            each
            for each in names
            if each.sure or (folded := each.name.casefold()) in sure or (each.acts and folded not in common)
        ]
        named = {each.name: each.kind for each in sorted(kept[:_MAX_NAMES], key=lambda each: bool(each.kind))}
        for name, told in named.items():
            entry = seen.setdefault(name.casefold(), _Seen(record.occurred_at))
            entry.last_at = max(entry.last_at, record.occurred_at)
            entry.spellings[name] += 1
            entry.kinds[told] += 1
            entry.ids.append(record.id)
        for one, other in combinations(sorted({name.casefold() for name in named}), 2):
            shared[one][other] += 1
            shared[other][one] += 1
    shown = {folded: entry.spellings.most_common(1)[0][0] for folded, entry in seen.items()}
    entities = [
        Entity(
            shown[folded],
            _kind_of(entry.kinds),
            len(entry.ids),
            entry.last_at,
            tuple(entry.ids[:_MAX_IDS]),
            tuple((shown[other], count) for other, count in shared[folded].most_common(_MAX_RELATED)),
        )
        for folded, entry in seen.items()
    ]
    chosen = [entity for entity in entities if kind is None or entity.kind == kind]
    return sorted(chosen, key=lambda entity: (-entity.memories, entity.name.casefold()))[:limit]


def _newest(store: Store, scope: Scope) -> Iterator[Record]:
    before, left = None, MAX_RECORDS
    while left and (rows := store.list(scope, ListQuery(limit=min(500, left), before=before))):
        before, left = rows[-1][0], left - len(rows)
        yield from (record for _, record in rows)


def _kind_of(kinds: Counter[str]) -> EntityKind:
    """The kind that most memories tell; a topic where none tells one."""
    told = [(count, kind) for kind, count in kinds.items() if kind]
    return cast(EntityKind, max(told)[1]) if told else "topic"


def _names_in(record: Record) -> list[Name]:
    """The names in one memory."""
    text = record.content[:_MAX_CHARS]
    found = [] if text.isupper() else names_in(text)
    if record.kind == MESSAGE:
        return [Name(record.name, "person"), *found] if record.name else found
    subject = _lexicon().patterns["subject"].match(text)
    return found if subject is None else [*found, Name(subject[1].lower(), "topic")]


def names_in(text: str) -> list[Name]:
    """The names in a text.

    >>> [(name.name, name.kind) for name in names_in("My sister Ana moved to New York for the Atlas project.")]
    [('Ana', 'person'), ('New York', 'place'), ('Atlas', 'project')]
    """
    words = _lexicon().words
    tokens = [token.removesuffix("'s").removesuffix("’s") for token in _WORD.findall(text)]
    found: list[Name] = []
    at = 0
    while at < len(tokens):
        end = at
        while end < len(tokens) and end - at < _MAX_NAME_WORDS and _is_name(tokens[end], words["no_names"]):
            end += 1
        if end == at:
            at += 1
            continue
        before = tokens[at - 1].lower() if at else ""
        after = tokens[end].lower() if end < len(tokens) else ""
        kind = _told_kind(words, before, after)
        sure = (bool(at) and tokens[at - 1] not in _ENDS) or end - at > 1 or after in words["person_after"]
        found.append(Name(" ".join(tokens[at:end]), kind, sure, after in _COPULAS))
        at = end
    return found


def _is_name(token: str, no_names: frozenset[str]) -> bool:
    return token[:1].isupper() and len(token) > 1 and token.lower() not in no_names


def _told_kind(words: dict[str, frozenset[str]], before: str, after: str) -> Kind:
    if {before, after} & words["project_near"]:
        return "project"
    if after in words["person_after"] or before in words["person_before"]:
        return "person"
    return "place" if before in words["place_before"] else ""
