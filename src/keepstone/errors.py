"""Every error keepstone raises, as one tree.

    KeepstoneError
    ├── ValidationError        the caller's value cannot be taken (HTTP 422, exit 2)
    │   └── TooLarge           a size limit was passed (HTTP 413, exit 2)
    ├── NotFound               no such record in this scope (HTTP 404, exit 3)
    ├── Conflict               a stale version, or an idempotency key used for another body (HTTP 409, exit 4)
    ├── AccessError            a server does not let the caller do this (exit 9)
    │   ├── Unauthenticated    no key or token, or one that is not valid (HTTP 401)
    │   ├── Forbidden          the key is valid and may not do this (HTTP 403)
    │   └── RateLimited        more requests than the key may make; `retry_after` seconds (HTTP 429)
    ├── ConfigurationError     settings, names or paths that cannot work (exit 5)
    │   └── EmbedderMismatch   the store's vectors were made by another embedder
    ├── ProviderError          something outside keepstone failed
    │   ├── EmbedderError      an embedder failed or returned unusable vectors
    │   ├── IndexUnavailable   a vector index cannot be reached or gave an answer that cannot be used
    │   ├── ServerError        a keepstone server cannot be reached or gave an answer that cannot be used
    │   └── ModelError         a chat model failed, timed out or answered with something unusable
    └── StoreError             the store cannot do what was asked (HTTP 503, exit 6)
        ├── StoreBusy          another process kept the store locked for longer than the busy timeout
        ├── StoreUnreachable   the database server did not answer for as long as was waited for it (Retry-After)
        ├── StorageFull        no space left; nothing was stored by half, reads go on
        ├── StoreDamaged       the file is not a healthy store; it was left untouched
        └── StoreClosed        used after close()

Each message says what was wrong, with which value, and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_clean: Callable[[str], str] = str
_LONGEST = 4_000  # characters of a message: what others' errors say may repeat a value of any length


def clean_with(clean: Callable[[str], str]) -> None:
    """Let the guard take out of messages what no error may say: values that callers gave may stand in them."""
    global _clean
    _clean = clean


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class KeepstoneError(Exception):
    """The base of all errors of keepstone. Messages contain no sensitive data, even if they quote a value.

    >>> try:
    ...     memory.update("unknown", "Dana prefers light mode.")
    ... except KeepstoneError as error:
    ...     type(error).__name__
    'NotFound'"""

    def __init__(self, *said: object) -> None:
        super().__init__(*(_clean(_bounded(each)) if isinstance(each, str) else each for each in said))


class ValidationError(KeepstoneError, ValueError):
    """A value given by the caller cannot be taken."""


class TooLarge(ValidationError):
    """A value is larger than the documented limit."""


class NotFound(KeepstoneError, LookupError):
    """No such record in this scope."""


class Conflict(KeepstoneError):
    """The request does not fit the present state of the record or the idempotency key."""


class AccessError(KeepstoneError):
    """A server does not let the caller do this."""


class Unauthenticated(AccessError):
    """No key or token was given, or one that is not valid."""


class Forbidden(AccessError):
    """The key is valid and may not do this."""


class RateLimited(AccessError):
    """More requests than the key may make; it may go on after `retry_after` seconds."""

    def __init__(self, message: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConfigurationError(KeepstoneError):
    """Settings, names or paths that cannot work."""


class EmbedderMismatch(ConfigurationError):
    """The store's vectors were made by another embedder."""


class ProviderError(KeepstoneError):
    """Something outside keepstone failed."""


class EmbedderError(ProviderError):
    """An embedder failed or returned vectors that cannot be used."""


class IndexUnavailable(ProviderError):
    """A vector index cannot be reached, refuses, or gave an answer that cannot be used."""


class ServerError(ProviderError):
    """A keepstone server cannot be reached, or gave an answer that cannot be used."""


class ModelError(ProviderError):
    """A chat model failed, timed out or gave an answer that cannot be used."""


class StoreError(KeepstoneError):
    """The store cannot do what was asked."""


class StoreBusy(StoreError):
    """Another process kept the store locked for longer than the busy timeout."""


class StoreUnreachable(StoreError):
    """The database server did not answer for as long as was waited for it."""


class StorageFull(StoreError):
    """No space is left on the store's disk."""


class StoreDamaged(StoreError):
    """The file is not a healthy keepstone store; it was left untouched."""


class StoreClosed(StoreError):
    """The store was used after close()."""
