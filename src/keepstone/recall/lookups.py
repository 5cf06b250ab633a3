"""Looking records up without ranking: get, list, history, audit, scopes, and the entities that memories name.

Names are words with a capital inside a sentence, as ranking reads them, and speakers. A topic is also what a plain fact is about.
The words around a name tell its kind; without such words it is a topic.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter, UserDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from itertools import combinations
from typing import Any, Literal, cast, get_args

from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.ports.filters import parse
from keepstone.ports.stores import Embedder, Store
from keepstone.ports.values import Draft, ListQuery
from keepstone.recall.access import AccessCounter
from keepstone.recall.candidates import Slots
from keepstone.recall.query import MAX_LIMIT, check_int
from keepstone.recall.supersession import find_replaced
from keepstone.scope_index.cache import IndexCache
from keepstone.scope_index.columns import View
from keepstone.text.lexicon import Lexicon
from keepstone.text.revisions import load_model, tells_change
from keepstone.text.times import micros, parse_time
from keepstone.types import MESSAGE, AuditRow, Entity, EntityKind, Page, Record, Scope, ScopeSummary, Version, clean_name

KINDS: tuple[str, ...] = get_args(EntityKind)
LIST_ORDERS = ("stored", "occurred")
MAX_RECORDS = 5000  # newest memories that are read
MAX_ENTITIES = 1000
_MAX_CHARS = 2000  # of a text that are read
_MAX_IDS, _MAX_RELATED = 20, 8
_MAX_NAME_WORDS = 3
_MAX_NAMES = 12  # of one memory
_WORD = re.compile(r"[^\W\d_][\w'’.&-]*[^\W_]|[^\W\d_]|[^\s\w]")
_ENDS = frozenset('.!?:;…"“”•*-')
_COPULAS = frozenset("is was has had will isn't wasn't and".split())
Kind = EntityKind | Literal[""]  # "" where nothing tells


class ReplacedByDraft(UserDict[str, float]):
    """What a statement that was stored may replace, looked up when it is first read: most receipts are never asked. What was
    forgotten meanwhile is not in it, and it is empty if the memory was closed."""

    def __init__(self, find: Callable[[], dict[str, float]]) -> None:
        self._find = find

    @cached_property
    def data(self) -> dict[str, float]:  # type: ignore[override]
        try:
            return self._find()
        except KeepstoneError:
            return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.data,)


class ReplacedRecords:
    """Finds what a statement that was just stored, and that reads like a change, may replace."""

    def __init__(self, store: Store, cache: IndexCache, embedder: Embedder | None) -> None:
        self._store = store
        self._cache = cache
        self.embedder = embedder

    def find(self, scope: Scope, draft: Draft) -> Mapping[str, float]:
        """Ids of earlier records and the probability that the draft replaces each, the surest first."""
        return ReplacedByDraft(lambda: self._find(scope, draft))

    def _find(self, scope: Scope, draft: Draft) -> dict[str, float]:
        if draft.vector is None or self.embedder is None or self.embedder.id not in load_model().embedders:
            return {}
        if not tells_change(draft.content):
            return {}
        view = self._cache.view(scope)
        if not isinstance(view, View):
            return {}  # the scope is too large to be compared while it is written to

        def fetch(slots: Slots) -> Sequence[Record | None]:
            return self._store.fetch(scope, view.sequences[slots].tolist())

        return find_replaced(view, draft.content, draft.vector, micros(draft.occurred_at), fetch)


class Lookups:
    """get, list, history, audit: one scope's look-ups."""

    def __init__(self, store: Store, accesses: AccessCounter) -> None:
        self._store = store
        self._accesses = accesses

    def get(self, scope: Scope, id: str | None, key: str | None = None) -> Record | None:
        """One record by its id or its key, or None."""
        if (id is None) == (key is None):
            raise ValidationError("get needs either an id or a key: name exactly one of them.")
        if id is not None:
            record = self._store.get(scope, clean_name(id, "id"))
        else:
            record = self._store.by_key(scope, clean_name(key or "", "key"))
        return None if record is None else self._accesses.with_pending(record)

    def list(
        self,
        scope: Scope,
        tag: str | None,
        kind: str | None,
        filter: Mapping[str, Any] | None,
        limit: int,
        cursor: str | None,
        prefix: str | None = None,
        exclude_kind: str | None = None,
        order: str = "stored",
    ) -> Page:
        """A page, the last stored first, or with order="occurred" what happened last."""
        if order not in LIST_ORDERS:
            raise ValidationError(f"order is {order!r:.40}: use {' or '.join(LIST_ORDERS)}.")
        limit = check_int(limit, "limit", 1, MAX_LIMIT)
        tag = None if tag is None else clean_name(tag, "tag")
        kind = None if kind is None else clean_name(kind, "kind")
        prefix = None if prefix is None else clean_name(prefix, "prefix")
        tree = parse(filter)
        seal = self._seal(
            scope, tag, kind, tree, *(part for part in (prefix, exclude_kind, order) if part not in (None, "stored"))
        )
        before = None if cursor is None else _opened(cursor, seal)
        query = ListQuery(tag, kind, None, tree, limit + 1, before, exclude_kind=exclude_kind, prefix=prefix, order=order)
        found = self._store.list(scope, query)
        more = len(found) > limit
        records = tuple(self._accesses.with_pending(record) for _, record in found[:limit])
        return Page(records, _closed(found[limit - 1][0], seal) if more else None)

    def scopes(self, tenant: str) -> Sequence[ScopeSummary]:
        """What each scope of a tenant holds; scopes whose names differ in case or spaces only name each other."""
        found = self._store.retention.summaries(tenant)
        alike: dict[tuple[str, ...], list[Scope]] = {}
        for each in found:
            alike.setdefault(_folded(each.scope), []).append(each.scope)
        return [
            replace(each, resembles=tuple(other for other in alike[_folded(each.scope)] if other != each.scope)) for each in found
        ]

    def sequence(self, scope: Scope, id: str) -> int:
        """The sequence of a record."""
        sequence = self._store.sequence_of(scope, clean_name(id, "id"))
        if sequence is None:
            raise NotFound(f"there is no record {id!r:.80} in this scope: it was never stored here, or it was forgotten.")
        return sequence

    def history(self, scope: Scope, id: str) -> Sequence[Version]:
        """Every version of a record."""
        versions = self._store.history(scope, clean_name(id, "id"))
        if versions is None:
            raise NotFound(f"there is no record {id!r:.80} in this scope: list shows its records.")
        return versions

    def audit(self, scope: Scope, since: datetime | str | None, limit: int) -> Sequence[AuditRow]:
        """The audit log, newest first. Entries are numbered within the scope: the store's numbers count what others do."""
        start = None if since is None else parse_time(since, "since")
        rows = self._store.audit(scope, since=start, limit=check_int(limit, "limit", 1, 10_000))
        total = self._store.audit_log.count(scope) if rows else 0
        return [replace(row, number=total - at) for at, row in enumerate(rows)]

    def close_cursor(self, scope: Scope, about: str, sequence: int) -> str:
        """A cursor of another list of the scope."""
        return _closed(sequence, self._seal(scope, about))

    def open_cursor(self, scope: Scope, about: str, cursor: str) -> int:
        """The position of such a cursor; ValidationError for one of another list or scope."""
        return _opened(cursor, self._seal(scope, about))

    def _seal(self, *parts: Any) -> bytes:
        """What binds a cursor to its store, scope and query."""
        return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), key=self._store.id.encode()[:64], digest_size=8).digest()


def _folded(scope: Scope) -> tuple[str, ...]:
    """The names of a scope without case and spaces."""
    return tuple("".join(name.casefold().split()) for name in (scope.agent, scope.user))


def _closed(sequence: int, seal: bytes) -> str:
    """A cursor: the position, hidden, because the numbers of a store count the records of others, and a mark that proves it."""
    mark = hashlib.blake2b(sequence.to_bytes(8, "big"), key=seal, digest_size=8).digest()
    return base64.urlsafe_b64encode(mark + _hide(sequence.to_bytes(8, "big"), mark, seal)).decode().rstrip("=")


def _hide(position: bytes, mark: bytes, seal: bytes) -> bytes:
    """A position under a pad that only the seal gives; twice is once not."""
    pad = hashlib.blake2b(mark, key=seal, digest_size=8, person=b"cursor").digest()
    return bytes(one ^ other for one, other in zip(position, pad, strict=True))


def _opened(cursor: str, seal: bytes) -> int:
    try:
        raw = base64.urlsafe_b64decode(cursor[:200] + "=" * (-len(cursor[:200]) % 4))
        sequence = int.from_bytes(_hide(raw[8:], raw[:8], seal), "big")
        if _closed(sequence, seal) == cursor.rstrip("="):
            return sequence
    except (ValueError, TypeError, AttributeError, OverflowError):
        pass
    raise ValidationError(f"cursor {cursor!r:.60} does not belong to this query: pass the cursor of the page before, unchanged.")


# -- entities -------------------------------------------------------------------------------------------------------


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
    limit = check_int(limit, "limit", 1, MAX_ENTITIES)
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
