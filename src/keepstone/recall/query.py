"""A recall as it was asked, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from keepstone.errors import TooLarge, ValidationError
from keepstone.ports.filters import Filter, parse
from keepstone.text.times import parse_time
from keepstone.types import Scope, clean_name

MAX_QUERY = 16 * 1024  # characters that are looked at; a longer query is cut, not refused
MAX_LIMIT = 100
MAX_SCOPES = 20  # that one recall ranks together


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What recall() was asked for; every field checked."""

    text: str
    limit: int = 5
    kinds: frozenset[str] | None = None
    tag: str | None = None
    filter: Filter | None = None
    min_similarity: float | None = None
    min_importance: float = 0.0
    max_tokens: int | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    min_trust: float | None = None
    session: str | None = None
    asked_at: datetime | None = None
    min_confidence: float | None = None
    read: bool = False  # a model call follows, so the reader may take its time; for internal use
    standing: bool = False  # only standing instructions and preferences; for internal use
    leave_out: frozenset[int] = frozenset()  # sequences of what the prompt has already; for internal use

    @classmethod
    def parse(
        cls,
        text: str,
        limit: int = 5,
        kinds: Iterable[str] | None = None,
        tag: str | None = None,
        filter: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
        min_importance: float = 0.0,
        max_tokens: int | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        min_trust: float | None = None,
        session: str | None = None,
        asked_at: datetime | str | None = None,
        min_confidence: float | None = None,
    ) -> RecallQuery:
        """From a caller's arguments; ValidationError says which one is wrong."""
        if not isinstance(text, str):
            raise ValidationError(f"query must be text, got {type(text).__name__}.")
        if isinstance(kinds, str):
            kinds = (kinds,)
        elif kinds is not None and not isinstance(kinds, Iterable):
            raise ValidationError(f"kinds is {kinds!r:.60}: use a set of kinds such as {{'fact', 'message'}}.")
        return cls(
            text=text[:MAX_QUERY].replace("\0", " ").encode("utf-8", "replace").decode("utf-8"),
            limit=check_int(limit, "limit", 1, MAX_LIMIT),
            kinds=None if kinds is None else frozenset(clean_name(kind, "kinds") for kind in kinds),
            tag=None if tag is None else clean_name(tag, "tag"),
            filter=None if filter is None else parse(filter),
            min_similarity=None if min_similarity is None else check_fraction(min_similarity, "min_similarity"),
            min_importance=check_fraction(min_importance, "min_importance"),
            max_tokens=None if max_tokens is None else check_int(max_tokens, "max_tokens", 1, 10_000_000),
            as_of=None if as_of is None else parse_time(as_of, "as_of"),
            known_at=None if known_at is None else parse_time(known_at, "known_at"),
            min_trust=None if min_trust is None else check_fraction(min_trust, "min_trust"),
            session=None if session is None else clean_name(session, "session"),
            asked_at=None if asked_at is None else parse_time(asked_at, "asked_at"),
            min_confidence=None if min_confidence is None else check_fraction(min_confidence, "min_confidence"),
        )

    def with_stored_names(self, stored_name: Callable[[str], str]) -> RecallQuery:
        """The query with its kinds, tag and session as the guard stores them: a name that holds a secret is stored redacted."""
        if self.kinds is None and self.tag is None and self.session is None:
            return self
        return replace(
            self,
            kinds=None if self.kinds is None else frozenset(map(stored_name, self.kinds)),
            tag=None if self.tag is None else stored_name(self.tag),
            session=None if self.session is None else stored_name(self.session),
        )


@dataclass(frozen=True, slots=True)
class ContextQuery:
    """Which memories context() may show, as a caller gave it; None: any."""

    limit: int | None = None
    kinds: Iterable[str] | None = None
    tag: str | None = None
    min_trust: float | None = None

    def parse(self, text: str, limit: int, max_tokens: int) -> RecallQuery:
        """The recall that finds them; `limit` is the default."""
        chosen, max_tokens = limit if self.limit is None else self.limit, check_int(max_tokens, "max_tokens", 1, 10_000_000)
        return RecallQuery.parse(text, chosen, self.kinds, self.tag, max_tokens=max_tokens, min_trust=self.min_trust)


def other_scopes(own: Scope, also: Iterable[Scope | Mapping[str, str]] | None) -> tuple[Scope, ...]:
    """The further scopes of a recall, without doubles and the own one; parts that are left out are those of the own scope."""
    if also is None:
        return ()
    wrong = "use a list of scopes such as [{'user': 'dana'}], with tenant, agent or user in each."
    if isinstance(also, (str, bytes, Mapping)) or not isinstance(also, Iterable):
        raise ValidationError(f"also is {also!r:.60}: {wrong}")
    found: list[Scope] = []
    for each in also:
        if isinstance(each, Scope):
            found.append(each)
        elif isinstance(each, Mapping) and each and each.keys() <= {"tenant", "agent", "user"}:
            found.append(own.narrowed(**each))
        else:
            raise ValidationError(f"also holds {each!r:.60}: {wrong}")
    if len(found) > MAX_SCOPES:
        raise TooLarge(f"also has {len(found)} scopes, the limit is {MAX_SCOPES}: ask in fewer.")
    return tuple(scope for scope in dict.fromkeys(found) if scope != own)


def check_int(value: int, what: str, least: int, most: int) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        kind = TooLarge if isinstance(value, int) and value > most else ValidationError
        raise kind(f"{what} is {value!r:.40}: use a whole number from {least} to {most}.")
    return value


def check_fraction(value: float, what: str) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValidationError(f"{what} is {value!r:.40}: use a number from 0 to 1.")
    return float(value)
