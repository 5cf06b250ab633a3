"""What the adapters of vector indexes share: the methods of an index, calls of a vendor's client, checks, names for scopes."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import Entry, batches
from keepstone.ports.values import SearchFilter, Vector
from keepstone.provider_http import (
    Failure,
    causes,
    check_package,
    is_caused_by,
    parse_url,
    public_url,
    status_failure,
    transport_failure,
    transport_problem,
)
from keepstone.types import Scope

TIMEOUT_SECONDS = 30.0
_RETRY_SECONDS = 0.1  # before the one retry after a failed connection
_MAX_ERROR_CHARS = 160
_UNREADABLE_ERRORS = {"ValidationError", "JSONDecodeError", "DecodeError", "ResponseParsingError", "DecodingError"}
_UNREADABLE_ERRORS |= {"KeyError", "TypeError", "AttributeError"}
_ADVICE = {
    401: "set {variable} to a key that is valid there",
    404: "open the memory again, so that the space is created again, and check the address",
    413: "raise the limit of the server",
    500: "see its log, or try again later",
}
T = TypeVar("T")
Handle = TypeVar("Handle")  # a vendor's object for an open space
Row = tuple[Entry, list[float]]


def hash_scope(scope: Scope) -> str:
    """What stands for a scope in an engine: 32 hexadecimal digits that do not reveal its names."""
    parts = [part.encode() for part in (scope.tenant, scope.agent, scope.user)]
    # The lengths keep ("ab", "c") and ("a", "bc") apart.
    return hashlib.blake2b(b"".join(len(part).to_bytes(4, "big") + part for part in parts), digest_size=16).hexdigest()


def check_address(url: str, variable: str) -> str:
    """An HTTP address without a trailing slash. No message repeats it: it may hold a password."""
    parts = parse_url(url, "The address of the vector index", "http://localhost:8000")
    if parts.username is not None:
        raise ConfigurationError(
            f"The address of the vector index holds a user name or a password: leave it out, and set {variable} to the key."
        )
    return public_url(parts)


@dataclass(frozen=True, slots=True)
class Space:
    """The space that an index was opened for."""

    name: str
    dimension: int


class Place(NamedTuple, Generic[Handle]):
    """What a request is about: the vendor's object, the space that it is for, and what stands for the scope."""

    handle: Handle
    space: Space
    scope: str


@dataclass(frozen=True, slots=True)
class Engine:
    """Calls of a vendor's client. Every error becomes IndexUnavailable, without the key. A failed connection is tried once more,
    since every call can be repeated. `variable` is the environment variable of the key, `remedy` what to do when the engine
    cannot be reached, `lock` held during a call."""

    name: str
    variable: str
    remedy: str
    timeout: float
    key: str | None = None
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)

    def call(self, action: str, function: Callable[[], T]) -> T:
        """The result of a call; `action` completes the sentence "it was asked to …"."""
        try:
            return self._try(action, function, retriable=True)
        except _ConnectionLost:
            time.sleep(_RETRY_SECONDS)
            return self._try(action, function, retriable=False)

    def _try(self, action: str, function: Callable[[], T], retriable: bool) -> T:
        try:
            with self.lock:
                return function()
        except IndexUnavailable:
            raise
        except BaseException as error:
            # Chroma's core panics with an error that is not an Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            if retriable and transport_problem(error) in ("interrupted", "unreachable"):
                raise _ConnectionLost from None
            failure = self._failure(error)
            text = self._error_text(error)
            raise IndexUnavailable(
                f"{self.name} {failure.problem}{text} when it was asked to {action}: {failure.advice}."
            ) from None

    def invalid_response(self, action: str, response: str) -> IndexUnavailable:
        """The error for a response that cannot be used."""
        return IndexUnavailable(
            f"{self.name} returned {response} when it was asked to {action}: check that nothing else writes there."
        )

    @contextmanager
    def parsing(self, action: str) -> Iterator[None]:
        """Turns errors in the handling of a response into IndexUnavailable."""
        try:
            yield
        except IndexUnavailable:
            raise
        except Exception as error:
            raise self.invalid_response(action, f"an unexpected response ({type(error).__name__})") from None

    def wrong_dimension(self, dimension: object, space: Space) -> IndexUnavailable:
        """The error for a space whose vectors have another dimension."""
        return IndexUnavailable(
            f"{self.name} holds vectors of {dimension} numbers in the space {space.name!r} and was opened for {space.dimension}: "
            "open another space, or remove that one in the engine."
        )

    def check_vector(self, vector: Vector, space: Space) -> list[float]:
        """The numbers of a vector; IndexUnavailable if it does not fit into the space."""
        row = np.asarray(vector, dtype=np.float32)
        if row.shape != (space.dimension,) or not np.isfinite(row).all():
            raise IndexUnavailable(
                f"{self.name} was given a vector of shape {row.shape} instead of {space.dimension} finite numbers: "
                "open a space for this embedder."
            )
        return [float(number) for number in row]

    def _failure(self, error: BaseException) -> Failure:
        status = _status(error)
        if status is not None and status >= 400:
            return status_failure(status, self.variable, _ADVICE, f" (status {status})")
        problem = transport_problem(error)
        if problem == "timeout":
            return transport_failure(problem, self.timeout)
        if problem is not None:
            return Failure("cannot be reached", self.remedy)
        if is_caused_by(error, _UNREADABLE_ERRORS):
            return Failure("returned an unreadable response", "check that the address is that of such an engine, and its version")
        return Failure("failed", "see what it says, or try again later")

    def _error_text(self, error: BaseException) -> str:
        """The error on one line, short, and without the key."""
        text = " ".join(str(error).split())
        if self.key:
            text = text.replace(self.key, "…")
        text = re.sub(r"://[^/@\s]*@", "://…@", text)
        return f" ({type(error).__name__}: {text[:_MAX_ERROR_CHARS]})" if text else f" ({type(error).__name__})"


class VendorIndex(ABC, Generic[Handle]):
    """A vector index in a vendor's engine. A subclass opens a space and sends the requests for one batch."""

    def __init__(self, package: str, extra: str, engine: Engine, max_batch: int) -> None:
        check_package(package, f"The vector index {extra}", extra)
        self._engine, self._max_batch = engine, max_batch
        self._lock = threading.Lock()
        self._opened: tuple[Handle, Space] | None = None

    @property
    def name(self) -> str:
        return self._engine.name

    def open(self, space: str, dimension: int) -> None:
        wanted = Space(space, dimension)
        with self._lock, self._engine.parsing(f"open the space {space!r}"):
            self._opened = self._open(wanted), wanted

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        place = self._place(scope)
        latest = {entry.sequence: entry for entry in entries}  # engines refuse an id that comes twice in one request
        self._put(place, [(entry, self._engine.check_vector(entry.vector, place.space)) for entry in latest.values()])

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        place = self._place(scope)
        for batch in batches(sorted(set(sequences)), self._max_batch):
            self._drop(place, batch, f"remove {len(batch)} entries")

    def clear(self, scope: Scope) -> None:
        self._clear(self._place(scope), "remove a scope's entries")

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        place = self._place(scope)
        found: set[int] = set()
        for batch in batches(sorted(set(sequences)), self._max_batch):
            action = f"look for {len(batch)} entries"
            with self._engine.parsing(action):
                some = self._existing(place, batch, action)
            if not some <= set(batch):
                raise self._engine.invalid_response(action, "an entry that was not requested")
            found |= some
        return found

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        place, action = self._place(scope), "list a scope's entries"
        with self._engine.parsing(action):
            return iter(self._vector_hashes(place, action).items())

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        place, action = self._place(scope), "find the nearest entries"
        row = self._engine.check_vector(vector, place.space)
        if limit < 1 or search_filter.kinds == ():
            return []
        with self._engine.parsing(action):
            return self._search(place, row, limit, search_filter, action)[:limit]

    def close(self) -> None:
        with self._lock, suppress(Exception):  # a client that cannot be closed is gone already
            self._close()
        self._opened = None

    def _place(self, scope: Scope) -> Place[Handle]:
        opened = self._opened
        if opened is None:
            raise IndexUnavailable(f"{self.name} is not open: call open(space, dimension) first.")
        return Place(*opened, hash_scope(scope))

    @abstractmethod
    def _open(self, space: Space) -> Handle: ...

    @abstractmethod
    def _put(self, place: Place[Handle], rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def _drop(self, place: Place[Handle], sequences: Sequence[int], action: str) -> None: ...

    @abstractmethod
    def _clear(self, place: Place[Handle], action: str) -> None: ...

    @abstractmethod
    def _existing(self, place: Place[Handle], sequences: Sequence[int], action: str) -> set[int]: ...

    @abstractmethod
    def _vector_hashes(self, place: Place[Handle], action: str) -> dict[int, str]: ...

    @abstractmethod
    def _search(self, place: Place[Handle], row: list[float], limit: int, filter: SearchFilter, action: str) -> list[int]: ...

    @abstractmethod
    def _close(self) -> None: ...


def expand_location(location: str, variable: str) -> str:
    """The address of a server, or the whole path of a folder."""
    return check_address(location, variable) if "://" in location else os.path.abspath(os.path.expanduser(location))


def conditions_of(search_filter: SearchFilter) -> dict[str, str | list[str]]:
    """The fields that an engine filters by, each with its value, or with a list of which one must match."""
    conditions: dict[str, str | list[str] | None] = {
        "kind": None if search_filter.kinds is None else list(search_filter.kinds),
        "tag": search_filter.tag,
        "session": search_filter.session,
    }
    return {name: value for name, value in conditions.items() if value is not None}


class _ConnectionLost(Exception):
    """A failed connection that is tried once more."""


def _status(error: BaseException) -> int | None:
    for cause in causes(error):
        status = getattr(cause, "status_code", None)
        if type(cause).__name__ == "ResourceExhaustedResponse":  # Qdrant's error for 429 with Retry-After
            status = 429
        elif status is None and type(cause).__module__ == "chromadb.errors":
            code = getattr(cause, "code", None)
            status = code() if callable(code) else None
        if isinstance(status, int):
            return status
    return None
