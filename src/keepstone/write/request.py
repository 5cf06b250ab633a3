"""A write as it was asked, and the guard that turns it into a draft or refuses it. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from keepstone.errors import TooLarge, ValidationError
from keepstone.ports.values import Draft
from keepstone.text.times import lifetime, parse_time
from keepstone.text.words import has_visible_text, record_terms
from keepstone.types import MESSAGE, clean_name

MAX_CONTENT = 8 * 1024 * 1024  # bytes of UTF-8
MAX_COMPARED_CHARS = 64 * 1024  # of a text whose near-duplicates are looked for; longer ones are compared exactly
MAX_METADATA = 16 * 1024  # bytes of JSON
MAX_DEPTH = 8
_MAX_VALUES = 16 * 1024

_INTERNAL = {"role", "name", "blocks", "parents", "made_from", "replaces", "trust", "problem"}  # not of remember()
_NOT_COMPARED = ("metadata", "idempotency_key", "replaces", "trust", "problem")  # by fingerprints
_NAMES = ("kind", "tag", "key", "source", "session", "role", "name")

# How far a channel is trusted; content never decides this. A source may carry a detail: "web:https://…".
TRUST = {"system": 1.0, "user": 0.9, "agent": 0.6, "import": 0.5, "tool": 0.4, "web": 0.2}
_UNKNOWN_SOURCE = min(TRUST.values())


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """The arguments of remember(), unchecked; `role`, `name`, `blocks` are a message's, `parents` what it was made from,
    `replaces` what it stands for from now on."""

    content: str
    kind: str = "fact"
    tag: str = "general"
    key: str | None = None
    importance: float = 0.5
    metadata: Mapping[str, Any] | None = None
    ttl: timedelta | float | None = None
    source: str = "user"
    session: str | None = None
    occurred_at: datetime | str | None = None
    idempotency_key: str | None = None
    role: str | None = None
    name: str | None = None
    blocks: str | None = None
    parents: tuple[str, ...] = ()
    made_from: tuple[tuple[str, int], ...] = ()
    replaces: tuple[str, ...] = ()
    trust: float | None = None  # of what it was made from: it is trusted no more than that
    problem: ValidationError | None = None  # why a message's content cannot be taken; raised when the request is checked

    @classmethod
    def of(cls, item: str | Mapping[str, Any]) -> WriteRequest:
        """From an item of a batch: text, or remember()'s arguments by name."""
        if isinstance(item, str):
            return cls(item)
        if not isinstance(item, Mapping):
            raise ValidationError(f"an item must be text or a dictionary of remember()'s arguments, got {type(item).__name__}.")
        known = {each.name for each in fields(cls)} - _INTERNAL
        unknown = sorted(str(key) for key in item if key not in known)
        if unknown or "content" not in item:
            problem = f"has the unknown argument {unknown[0]!r:.60}" if unknown else "has no 'content'"
            raise ValidationError(f"an item {problem}: use {', '.join(sorted(known))}.")
        return cls(**item)

    def draft(self, now: datetime) -> Draft:
        """The checked draft, without what `derive` adds and without its vector; ValidationError or TooLarge says what cannot be
        taken."""
        if self.problem is not None:
            raise self.problem
        content = check_content(self.content)
        occurred = now if self.occurred_at is None else parse_time(self.occurred_at, "occurred_at")
        source = clean_name(self.source, "source")
        return Draft(
            content=content,
            kind=clean_name(self.kind, "kind"),
            tag=clean_name(self.tag, "tag"),
            key=None if self.key is None else clean_name(self.key, "key"),
            importance=check_importance(self.importance),
            metadata=check_metadata(self.metadata),
            source=source,
            trust=trust_of(source) if self.trust is None else min(trust_of(source), self.trust),
            session=None if self.session is None else clean_name(self.session, "session"),
            role=None if self.role is None else clean_name(self.role, "role"),
            name=None if self.name is None else clean_name(self.name, "name"),
            occurred_at=occurred,
            expires_at=None if self.ttl is None else now + lifetime(self.ttl, "ttl"),
            blocks=self.blocks,
            parents=self.parents,
        )

    def clean_idempotency_key(self) -> str | None:
        return None if self.idempotency_key is None else clean_name(self.idempotency_key, "idempotency_key")

    def fingerprint(self, draft: Draft | None = None) -> str:
        """What tells one body from another under the same idempotency key: of what is stored, not of what was taken out of it."""
        given = {each.name: getattr(self, each.name) for each in fields(self)} | {"importance": float(self.importance)}
        if draft is not None:
            given |= {"content": draft.content, "blocks": draft.blocks, "metadata": draft.metadata}
            given |= {name: getattr(draft, name) for name in _NAMES if getattr(self, name) is not None}
        if isinstance(self.ttl, (int, float)):
            given["ttl"] = timedelta(seconds=self.ttl)
        body = [repr(value) for name, value in given.items() if name not in _NOT_COMPARED]
        body.append(json.dumps(given["metadata"] or {}, sort_keys=True, default=str))
        return hashlib.blake2b("\0".join(body).encode("utf-8", "replace"), digest_size=16).hexdigest()


def derive(drafts: Iterable[Draft]) -> None:
    """Give drafts their terms and the marks of near-duplicates. All terms come first: one kind of work at a time takes a tenth
    less time than text by text."""
    drafts = list(drafts)
    for draft in drafts:
        draft.terms = record_terms(draft.content, draft.key)
    for draft in drafts:
        draft.dedup_key = gist_of(draft.content, draft.kind, draft.key)


@lru_cache(maxsize=1024)
def trust_of(source: str) -> float:
    """How far a source is trusted: by its class alone.

    >>> trust_of("user"), trust_of("web:https://example.org")
    (0.9, 0.2)
    """
    return TRUST.get(source.partition(":")[0].strip().lower(), _UNKNOWN_SOURCE)


def gist_of(content: str, kind: str, key: str | None) -> bytes | None:
    """What a record's near-duplicates are found by; messages and keyed records have none."""
    if kind == MESSAGE or key is not None or len(content) > MAX_COMPARED_CHARS:
        return None
    from keepstone.text.near_duplicates import gist  # 20 ms of word lists that only writing needs

    return gist(content)


def check_content(content: str, most: int = MAX_CONTENT) -> str:
    """Content that can be stored exactly as it is, on every store."""
    if not isinstance(content, str):
        raise ValidationError(f"content must be text, got {type(content).__name__}: convert it to str first.")
    if len(content) > most:
        raise TooLarge(f"content has {len(content)} characters, the limit is {most} bytes: split it into several memories.")
    size = len(check_text(content, "content").encode("utf-8"))
    if size > most:
        raise TooLarge(f"content has {size} bytes, the limit is {most}: split it into several memories.")
    if not has_visible_text(content):
        raise ValidationError("content is empty or invisible: give it at least one visible character.")
    return content


def check_text(text: str, what: str) -> str:
    """Text without what no store can hold: NUL and lone surrogates."""
    if "\0" in text:
        raise ValidationError(f"{what} holds a NUL character at position {text.index(chr(0))}: remove it.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"{what} holds half a surrogate pair (U+{ord(text[error.start]):04X}) at position {error.start}: "
            "decode the text properly first."
        ) from None
    return text


def check_importance(importance: float) -> float:
    """A number from 0 to 1."""
    number = not isinstance(importance, bool) and isinstance(importance, (int, float))
    if not number or not 0 <= importance <= 1:
        raise ValidationError(f"importance is {importance!r:.40}: use a number from 0 to 1.")
    return float(importance)


def check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata as plain JSON data within the limits."""
    if metadata is None or (isinstance(metadata, dict) and not metadata):
        return {}
    if not isinstance(metadata, Mapping):
        raise ValidationError(f"metadata must be a dictionary, got {type(metadata).__name__}.")
    plain: dict[str, Any] = plain_json(metadata, "metadata", MAX_DEPTH, _MAX_VALUES)
    size = len(json.dumps(plain, ensure_ascii=False).encode("utf-8"))
    if size > MAX_METADATA:
        raise TooLarge(f"metadata has {size} bytes as JSON, the limit is {MAX_METADATA}: store long text as content.")
    return plain


def plain_json(value: Any, what: str, depth: int, values: int) -> Any:
    """A value as plain JSON data of at most this depth and so many values."""
    return _plain(value, what, depth, [values], (what, depth, values))


def _plain(value: Any, where: str, depth: int, left: list[int], limits: tuple[str, int, int]) -> Any:
    """The same, counting down the levels and values that may still come."""
    if depth <= 0:
        raise TooLarge(f"{where:.200} is nested deeper than {limits[1]} levels: flatten it.")
    left[0] -= 1
    if left[0] < 0:
        raise TooLarge(f"{limits[0]} holds more than {limits[2]} values: store long data as content.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(value, f"{where:.200}")
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValidationError(f"{where:.200} is {str(value)[:24]}…, past 64 bits: store it as text.")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValidationError(f"{where:.200} is {value}, which JSON does not have: leave it out or store it as text.")
        return value
    if isinstance(value, Mapping):
        return {_key(key, where): _plain(each, f"{where}.{key}", depth - 1, left, limits) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, f"{where}[{at}]", depth - 1, left, limits) for at, each in enumerate(value)]
    raise ValidationError(f"{where:.200} is a {type(value).__name__}: use text, numbers, True, False, None, lists, dictionaries.")


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str) or not key or len(key) > 256:
        raise ValidationError(f"{where:.200} has the key {key!r:.60}: use non-empty text of at most 256 characters.")
    return check_text(key, f"a key of {where:.200}")
