"""Outside engines that find the nearest vectors: Chroma, Qdrant, Pinecone. What all adapters share is here; `registry.py` finds
one by its name.

Nothing here is the truth: an index holds vectors, numbers and what a search is narrowed by, never a text, and a scope only as a
hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import Entry
from keepstone.ports.values import SearchFilter, Vector
from keepstone.types import Scope

CONNECT = 5.0  # seconds until a server has taken the connection
TIMEOUT = 30.0  # seconds until it has answered
_PAUSE = 0.1  # seconds before the one retry of a connection that failed
_SHOWN = 160  # characters of what an engine said
_SPACE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,198}[A-Za-z0-9])?")
_LOST = {"ConnectError", "ConnectionError", "NetworkError", "ProtocolError", "PineconeConnectionError"}
_LATE = {"TimeoutException", "TimeoutError", "PineconeTimeoutError"}
_UNREADABLE = {"ValidationError", "JSONDecodeError", "DecodeError", "ResponseParsingError", "DecodingError"}
_UNREADABLE |= {"KeyError", "TypeError", "AttributeError"}
_STATUS = {
    401: ("does not accept the key", "set {variable} to a key that is valid there"),
    403: ("does not allow the key to do this", "check what the key in {variable} may do"),
    404: ("does not know what it was asked for", "open the memory again, so that it is made anew, and check the address"),
    413: ("was sent more than it takes at once", "lower its limit on the client's side, or raise it on the server's"),
    429: ("has no more room for requests now", "wait, or raise the limit of the account"),
    500: ("failed on its own side", "look into its log, or try again later"),
}
T = TypeVar("T")


def scope_hash(scope: Scope) -> str:
    """What stands for a scope in an engine: 32 hexadecimal digits that do not tell its names."""
    parts = [part.encode() for part in (scope.tenant, scope.agent, scope.user)]
    whole = b"".join(len(part).to_bytes(4, "big") + part for part in parts)  # lengths keep ("ab", "c") and ("a", "bc") apart
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def installed(package: str, extra: str) -> None:
    """ConfigurationError unless a vendor's package can be imported."""
    try:
        found = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise ConfigurationError(f"The vector index {extra} needs the package {package}: {install_command(extra)}.")


def checked_timeout(timeout: float) -> float:
    """The seconds an engine may take; ConfigurationError if that is no such number."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ConfigurationError(f"timeout must be a number of seconds above 0, got {timeout!r}.")
    return float(timeout)


def checked_key(key: str | None, variable: str) -> str | None:
    """A key as it can be sent, None if there is none. A key that no header can carry is refused without being shown."""
    key = (key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"{variable} has characters that no key has: copy it anew.")
    return key or None


def checked_address(url: str, variable: str) -> str:
    """An http address without what is too much at its end. Nothing of it is repeated in an error: it may hold a password."""
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigurationError("The address of the vector index is no address: use one such as http://localhost:8000.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigurationError(
            "The address of the vector index holds more than a host, a port and a path: leave the rest out, and set "
            f"{variable} to the key."
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def waits(timeout: float) -> tuple[float, float, float, float]:
    """How long an HTTP client may take to connect, read, write, and get a connection of its pool."""
    return (min(CONNECT, timeout), timeout, timeout, min(CONNECT, timeout))


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def unique(entries: Iterable[Entry]) -> list[Entry]:
    """The last entry of each sequence: engines refuse an id that comes twice at once."""
    return list({entry.sequence: entry for entry in entries}.values())


@dataclass(frozen=True, slots=True)
class Space:
    """What an index was opened for."""

    name: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of an engine's client. Whatever it raises comes out as IndexUnavailable, without a key; a connection that failed is
    tried once more, which every call here can stand. `variable` is where the environment has the key, `revive` what to do when
    the engine cannot be reached."""

    name: str
    variable: str
    revive: str
    timeout: float
    secret: str | None = None

    def __call__(self, what: str, call: Callable[[], T]) -> T:
        try:
            return self._tried(what, call, again=True)
        except _Lost:
            time.sleep(_PAUSE)
            return self._tried(what, call, again=False)

    def _tried(self, what: str, call: Callable[[], T], again: bool) -> T:
        try:
            return call()
        except IndexUnavailable:
            raise
        except BaseException as error:
            if not _failed(error):
                raise
            if again and _any_of(error, _LOST):
                raise _Lost from None
            raise self._unavailable(what, error) from None

    def nonsense(self, what: str, saw: str) -> IndexUnavailable:
        """The error for an answer that nobody can use."""
        return IndexUnavailable(f"{self.name} gave {saw} when it was asked to {what}: check that nothing else writes there.")

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """For what is done with an answer whose shape the client has not checked."""
        try:
            yield
        except IndexUnavailable:
            raise
        except Exception as error:
            raise self.nonsense(what, f"an answer of another shape ({type(error).__name__})") from None

    def space(self, name: str, dimension: int) -> Space:
        """What `open` was asked for, checked."""
        if not isinstance(name, str) or _SPACE.fullmatch(name) is None:
            raise IndexUnavailable(
                f"{self.name} has no room for a space named {name!r}: use up to 200 letters, digits and hyphens between them."
            )
        if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
            raise IndexUnavailable(f"{self.name} cannot hold vectors of {dimension!r} numbers: give a whole number above 0.")
        return Space(name, dimension)

    def other_width(self, held: object, space: Space) -> IndexUnavailable:
        """The error for a space whose vectors are of another width."""
        return IndexUnavailable(
            f"{self.name} holds vectors of {held} numbers in the space {space.name!r} and was opened for {space.dimension}: "
            "open another space, or remove that one in the engine."
        )

    def not_open(self) -> IndexUnavailable:
        """The error for an index that was not opened, or is closed."""
        return IndexUnavailable(f"{self.name} is not open: call open(space, dimension) first.")

    def numbers(self, vector: Vector, space: Space) -> list[float]:
        """A vector as engines take it."""
        row = np.asarray(vector, dtype=np.float32)
        if row.shape != (space.dimension,) or not np.isfinite(row).all():
            raise IndexUnavailable(
                f"{self.name} was given a vector of shape {row.shape} where {space.dimension} finite numbers were expected: "
                "open a space for this embedder."
            )
        return [float(number) for number in row]

    def _unavailable(self, what: str, error: BaseException) -> IndexUnavailable:
        told, advice = self._told(error)
        said = self._said(error)
        return IndexUnavailable(f"{self.name} {told}{said} when it was asked to {what}: {advice}.")

    def _told(self, error: BaseException) -> tuple[str, str]:
        status = _status(error)
        if status is not None and status >= 400:
            told, advice = _STATUS.get(status) or _STATUS.get(status // 100 * 100) or ("refused", "see what it says")
            return f"{told} (status {status})", advice.format(variable=self.variable)
        if _any_of(error, _LATE):
            return f"did not answer within {self.timeout:g} seconds", "try again, or allow a longer timeout"
        if _any_of(error, _LOST):
            return "cannot be reached", self.revive
        if _any_of(error, _UNREADABLE):
            return "gave an answer that cannot be used", "check that the address is that of such an engine, and its version"
        return "failed", "see what it says, or try again later"

    def _said(self, error: BaseException) -> str:
        """What the engine said, on one line, short, and without the key."""
        text = " ".join(str(error).split())
        if self.secret:
            text = text.replace(self.secret, "…")
        text = re.sub(r"://[^/@\s]*@", "://…@", text)
        return f" ({type(error).__name__}: {text[:_SHOWN]})" if text else f" ({type(error).__name__})"


class _Lost(Exception):
    """A connection that failed and is worth another try."""


def _failed(error: BaseException) -> bool:
    """Whether this is a failure of an engine; Chroma's core panics with something that is no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _linked(error: BaseException) -> Iterator[BaseException]:
    """An error and those it was made from."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseException) and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__, getattr(each, "source", None)]


def _any_of(error: BaseException, names: set[str]) -> bool:
    """Whether an error or one it was made from is of these classes. By name, since each vendor uses an HTTP client of its own."""
    return any(kind.__name__ in names for each in _linked(error) for kind in type(each).__mro__)


def _status(error: BaseException) -> int | None:
    for each in _linked(error):
        status = getattr(each, "status_code", None)
        if type(each).__name__ == "ResourceExhaustedResponse":  # Qdrant's for a 429 that says when to come again
            status = 429
        elif status is None and type(each).__module__ == "chromadb.errors":
            status = each.code() if callable(getattr(each, "code", None)) else None  # type: ignore[attr-defined]
        if isinstance(status, int):
            return status
    return None


def empty(search_filter: SearchFilter) -> bool:
    """Whether nothing can be among these."""
    return search_filter.kinds is not None and not search_filter.kinds
