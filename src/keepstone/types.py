"""The values of the public API: frozen dataclasses without behaviour of their own.

Times are aware `datetime`s in UTC. Scores and importances lie in 0..1.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, get_args

from keepstone.errors import ValidationError

Metadata = Mapping[str, Any]
Status = Literal["active", "archived", "quarantined"]
Action = Literal["added", "merged", "updated", "superseded", "duplicate", "redacted", "quarantined", "refused"]
ACTIONS: tuple[str, ...] = get_args(Action)
MESSAGE = "message"  # the kind of everything that was said; never merged or deduplicated
STEP = "step"  # the tag of messages that tell what was done for a task, rather than what was said
PINNED, BURIED = 1.0, 0.0  # importance of what is never archived for its age, and of what is recalled after all others
HELD_BACK = "[held back: it waits for a review]"  # in place of quarantined text
UNTRUSTED = 0.5  # a source trusted less than this may not replace what a more trusted one has said
NAME_LIMIT = 256  # characters of a tenant, agent, user, tag, key …


def clean_name(value: str, what: str, *, empty: bool = False) -> str:
    """An identifier as it is compared: NFC, without control characters, of bounded length.

    >>> clean_name("Cafe\\u0301", "tag")
    'Café'
    """
    if not isinstance(value, str):
        raise ValidationError(f"{what} must be text, got {type(value).__name__}: pass a str.")
    return _clean(value, what, empty)


@lru_cache(maxsize=4096)
def _clean(value: str, what: str, empty: bool) -> str:
    name = unicodedata.normalize("NFC", value)
    if all(character.isspace() or unicodedata.category(character) == "Cf" for character in name):
        if empty and not name:
            return name
        raise ValidationError(f"{what} is empty: give it at least one visible character.")
    if len(name) > NAME_LIMIT:
        raise ValidationError(f"{what} has {len(name)} characters, the limit is {NAME_LIMIT}: shorten it.")
    for at, character in enumerate(name):
        if unicodedata.category(character) in ("Cc", "Cs"):
            raise ValidationError(
                f"{what} holds the character U+{ord(character):04X} at position {at}: remove control characters."
            )
    return name


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of a record: a tenant, an agent and a user. Names are compared exactly, after Unicode normalisation (NFC).

    >>> Scope(agent="helper", user="dana")
    Scope(tenant='local', agent='helper', user='dana')"""

    tenant: str = "local"  # the customer or organisation
    agent: str = "default"  # the program that remembers
    user: str = ""  # the person it is about; empty: no particular user

    def __post_init__(self) -> None:
        object.__setattr__(self, "tenant", clean_name(self.tenant, "tenant"))
        object.__setattr__(self, "agent", clean_name(self.agent, "agent"))
        object.__setattr__(self, "user", clean_name(self.user, "user", empty=True))

    def narrowed(self, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> Scope:
        """The same scope with the parts that are given replaced."""
        return Scope(
            self.tenant if tenant is None else tenant,
            self.agent if agent is None else agent,
            self.user if user is None else user,
        )


FOREIGN_REQUESTS = Scope("keepstone.keys", "requests", "")  # whose audit log holds requests for ids of others; no key reads it


@dataclass(frozen=True, slots=True)
class Record:
    """One memory. `key` names a value that later writes replace. `parents` are the ids of the records it was derived from.
    `blocks` are the content blocks of a message that is more than text; `content` is then their text. `sensitive` names the
    kinds of sensitive data that were found in it and kept.

    >>> record = memory.get(receipt.id)
    >>> record.kind, record.tag, record.version, record.source
    ('fact', 'general', 1, 'user')"""

    id: str  # unique in its scope
    scope: Scope  # the owner
    kind: str  # fact, note, value, message, episode, summary, or one of your own
    tag: str  # one word to sort by
    key: str | None  # names a value that later writes supersede
    content: str  # the text, exactly as given, except what the guard removed
    metadata: Metadata  # your own JSON; can be filtered by
    importance: float  # 0 to 1
    source: str  # the channel it came from: user, agent, tool, web, import, system, with an optional detail
    trust: float  # 0 to 1, by the source
    session: str | None  # the conversation it was said in
    role: str | None  # of a message: who spoke
    name: str | None  # of a message: the speaker's name
    occurred_at: datetime  # when it happened or was said
    created_at: datetime  # when it was first stored
    updated_at: datetime  # when it was last changed
    valid_from: datetime  # since when it is true
    valid_to: datetime | None  # until when it was true; None: it still is
    expires_at: datetime | None  # when it is no longer recalled; None: never
    last_accessed_at: datetime | None  # when it was last recalled
    access_count: int  # how often it was recalled
    version: int  # 1 at first, one more with each change
    status: Status  # active, archived or quarantined
    parents: tuple[str, ...] = ()  # ids it was derived from
    embedded: bool = True  # whether it has a vector; without one it is found by its words
    blocks: tuple[Mapping[str, Any], ...] | None = None  # of a message that is more than text
    sensitive: tuple[str, ...] = ()  # kinds of sensitive data that were noticed and kept

    def with_(self, **changes: Any) -> Record:
        """A copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in the form of Anthropic's Messages API: its content is text or a list of blocks. `name`
    is the speaker, if known. `id` is the id of its record once it is stored.

    >>> Message("user", "I live in Lyon.", name="Dana")["content"]
    'I live in Lyon.'"""

    role: str  # user, assistant, system or tool
    content: str | Sequence[Mapping[str, Any]]  # text, or blocks
    name: str | None = None  # who spoke
    at: datetime | None = None  # when it was said; None: now
    metadata: Metadata = field(default_factory=dict)  # your own JSON
    id: str | None = None  # of its record, once stored

    def __getitem__(self, name: str) -> Any:
        """A field by its name, as in the dictionaries that `messages()` gives."""
        if name not in ("role", "content", "name", "at", "metadata", "id"):
            raise KeyError(name)
        return getattr(self, name)


class ModelMessage(dict[str, Any]):
    """A message as a model is given it: a dictionary of role and content, whose fields can be read as those of a Message too."""

    __slots__ = ()

    @property
    def role(self) -> str:
        return str(self["role"])

    @property
    def content(self) -> str | Sequence[Mapping[str, Any]]:
        content: str | Sequence[Mapping[str, Any]] = self["content"]
        return content


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a record."""

    version: int
    content: str
    metadata: Metadata
    importance: float
    kind: str
    tag: str
    source: str
    trust: float
    session: str | None
    role: str | None
    name: str | None
    valid_from: datetime  # since when it is true
    valid_to: datetime | None  # until when it was true; None: it still is
    known_from: datetime  # since when the store has it
    expires_at: datetime | None
    action: str  # the write that made it: added, updated, superseded …


@dataclass(frozen=True, slots=True)
class Passage:
    """The passage of a long text that a hit shows: content[start:end] of the whole record, which `get` returns."""

    text: str
    start: int  # its first character in the whole text
    end: int  # the character after its last
    length: int  # characters of the whole text


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled record with its score and the parts of the score by name (`signals`). Of a text of more than 2,000 characters
    the record has only the best passage, and `passage` is its position; `get` returns the whole text.

    >>> hit = memory.recall("Which theme does Dana like?")[0]
    >>> hit.content, hit.score > 0.5
    ('Dana prefers dark mode.', True)"""

    record: Record
    score: float  # 0 to 1: the probability that it answers the question
    signals: Mapping[str, float]  # the points that each group of features added
    passage: Passage | None = None  # None: the record holds the whole text
    superseded_by: str | None = None  # the id of a later record that probably replaces this one; None: none is known

    @property
    def content(self) -> str:
        return self.record.content

    @property
    def id(self) -> str:
        return self.record.id


@dataclass(frozen=True, slots=True)
class Recall(Sequence[Hit]):
    """The result of a recall: a sequence of Hit, best first. `confidence` is the probability that any of them answers.
    `left_out` is the number of hits that did not fit into the token budget, and `cut` has their ids. `notes` says why the
    result may be weaker than usual, for example because the embedder failed.

    >>> found = memory.recall("Which theme does Dana like?")
    >>> len(found), found.confidence > 0.5
    (1, True)"""

    query: str
    hits: tuple[Hit, ...] = ()  # best first; the recall itself is a sequence of them
    considered: int = 0  # the number of records that were compared
    left_out: int = 0  # the number of hits that the token budget cut
    notes: tuple[str, ...] = ()  # why the result may be weaker than usual
    cut: tuple[str, ...] = ()  # the ids of the hits that were cut
    confidence: float = 0.0  # 0 to 1: the probability that any hit answers the query

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, at: Any) -> Any:
        return self.hits[at]


class Context(str):
    """A block of memories for a prompt: text with its `tokens` (estimated) and the `ids` of the memories in it, in order.

    >>> block = memory.context("Which theme does Dana like?")
    >>> len(block.ids), block.tokens < 200
    (1, True)"""

    tokens: int
    ids: tuple[str, ...]

    def __new__(cls, text: str = "", tokens: int = 0, ids: Sequence[str] = ()) -> Context:
        block = super().__new__(cls, text)
        block.tokens, block.ids = tokens, tuple(ids)
        return block


@dataclass(frozen=True, slots=True)
class Usage:
    """What the calls of a model used. `cached_tokens` is the part of the input that was read from the provider's cache. `cost` is
    in the currency of the model's prices, and None if it has no prices."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    retries: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.calls + other.calls,
            self.retries + other.retries,
            sum(costs) if costs else None,
        )


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of a write. `action` says what was done, `id` is the record that now holds the content, and `reasons` explain
    it in words. `learned` has the ids of facts that were learned at once. `usage` is what a model used, if one was asked.
    `retry_after` is the number of seconds after which a write that a limit refused can be repeated. `may_replace` names earlier
    records that the content may replace, with probabilities; they are not changed.

    >>> memory.remember("Dana prefers dark mode.").action
    'duplicate'"""

    action: Action  # added, duplicate, merged, superseded, updated, redacted, quarantined or refused
    id: str | None  # the record that now holds the content; None: nothing is stored
    version: int  # its version now
    reasons: tuple[str, ...] = ()  # why, in words
    learned: tuple[str, ...] = ()  # ids of facts that were learned at once
    usage: Usage | None = None  # what a model used, if one was called
    retry_after: float | None = None  # seconds after which a refused write can be tried again
    may_replace: Mapping[str, float] = field(default_factory=dict, hash=False)  # id of an earlier record -> the probability


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was erased. `ids` are the records that were erased or restored to an earlier value, derived ones included. `places`
    counts what was erased where (records, versions, words, vectors, derived, summaries, states, jobs …). `summarised` are
    sessions whose summary was erased with one of their messages. `erased` is False if bytes are left for now, and `reasons` says
    which and until when: another process still reads the old pages of the file, a database server has its log, a buffer or an
    index could not be reached.

    >>> receipt = memory.forget(receipt.id)
    >>> receipt.forgotten, receipt.erased
    (1, True)"""

    forgotten: int  # the number of erased records
    ids: tuple[str, ...] = ()
    erased: bool = True  # whether every byte is gone
    reasons: tuple[str, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    summarised: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page(Sequence[Record]):
    """Some records, newest first; pass `cursor` to `list` for the next page (None: there is none).

    >>> page = memory.list(limit=1)
    >>> len(page), page.cursor
    (1, None)"""

    records: tuple[Record, ...]
    cursor: str | None = None  # for the next page; None: this is the last

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, at: Any) -> Any:
        return self.records[at]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One entry of the audit log; it never holds content."""

    number: int  # its place in the order of all changes
    at: datetime
    verb: str  # remember, update, forget …
    action: str
    id: str | None
    version: int
    source: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a record was, or was not, among the hits of a query, in plain words and as numbers."""

    id: str
    recalled: bool
    rank: int | None  # its place among the hits; None: not recalled
    score: float  # 0 to 1: the probability that it answers
    signals: Mapping[str, float]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScopeSummary:
    """What one scope of a tenant holds. `resembles` are other scopes of the tenant whose names differ from its names in case or
    spaces only: likely the same user under two spellings."""

    scope: Scope
    memories: int  # active records other than messages
    messages: int  # active messages
    sessions: int  # conversations
    bytes: int  # of all texts
    last_activity: datetime | None  # the last entry in its audit log
    resembles: tuple[Scope, ...] = ()


EntityKind = Literal["person", "place", "project", "topic"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place, project or topic that memories name. `related` are the names that occur with it most often, with the
    number of memories that they share."""

    name: str
    kind: EntityKind  # judged by the words around the name
    memories: int  # the number of memories that name it
    last_at: datetime  # the time of the newest of them
    ids: tuple[str, ...]  # the newest of them
    related: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionCost:
    """The tokens that memories took in one session on one day (UTC)."""

    day: str  # 2026-03-01
    session: str
    injected: int  # tokens that hooks added to the prompt
    recalled: int  # tokens that memory tools returned
    times: int  # the number of injections and recalls


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import; `errors` are pairs of a line number and what is wrong there."""

    added: int
    skipped: int
    errors: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that the doctor found: the check, what is wrong, and what to do."""

    check: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of `upkeep.doctor`."""

    healthy: bool
    records: int
    checks: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
