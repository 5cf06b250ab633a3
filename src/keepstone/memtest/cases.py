"""What a memtest file says, as values; every field is checked by `reading`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from keepstone.types import Scope


@dataclass(frozen=True, slots=True)
class Who:
    """Whose memory; None leaves that part as the file's `memory` has it."""

    tenant: str | None = None
    agent: str | None = None
    user: str | None = None

    def of(self, scope: Scope) -> Scope:
        """The scope that is meant, seen from the file's own."""
        return scope.narrowed(self.tenant, self.agent, self.user)


@dataclass(frozen=True, slots=True)
class Opening:
    """How the memory under test is opened: `store` is a file or a URL, None a fresh memory."""

    store: str | None = None
    embedder: str = "auto"
    scope: Scope = field(default_factory=Scope)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether the store is on a server, so that no copy of it is made."""
        return self.store is not None and "://" in self.store


@dataclass(frozen=True, slots=True)
class Given:
    """One thing that happens before the questions: a verb, what it is about and its other arguments, when and as whom.
    `label` is the name that later entries and tests have for its record."""

    place: str
    verb: str
    what: Any
    options: Mapping[str, Any]
    who: Who = Who()
    at: datetime | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a memory has to be like; None for what does not matter. `rank`: among the first so many. `id` is a label of the
    file or a record's id."""

    content: str | None = None
    rank: int | None = None
    kind: str | None = None
    tag: str | None = None
    key: str | None = None
    source: str | None = None
    id: str | None = None

    def __str__(self) -> str:
        others = [f"{name} {value}" for name in ("kind", "tag", "key", "source", "id") if (value := getattr(self, name))]
        said = ([] if self.content is None else [repr(self.content)]) + others
        return ", ".join(said) + ("" if self.rank is None else f" among the first {self.rank}")


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its name, where it stands, as whom and when it is asked."""

    name: str
    line: int | None
    who: Who
    asked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ask(Case):
    """A recall, and what must and must not be among its hits; `options` are recall's other arguments."""

    query: str
    options: Mapping[str, Any]
    must: tuple[Wanted, ...] = ()
    must_not: tuple[Wanted, ...] = ()
    nothing: bool = False

    @property
    def limit(self) -> int:
        """How many hits there may be."""
        return int(self.options.get("limit", 5))


@dataclass(frozen=True, slots=True)
class Context(Case):
    """A block for a prompt: within its budget, and what it must and must not contain."""

    query: str
    max_tokens: int
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Value(Case):
    """The value of a key; None where none may be set."""

    key: str
    must_be: Any


@dataclass(frozen=True, slots=True)
class Isolation(Case):
    """Every question of the file asked as others, who may see nothing of what it recalls. No others: every other scope of the
    file, and a stranger in each part of the scope."""

    others: tuple[Who, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """A whole file."""

    path: Path
    opening: Opening
    given: tuple[Given, ...]
    cases: tuple[Case, ...]
