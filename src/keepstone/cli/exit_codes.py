"""Exit codes and their meanings."""

from __future__ import annotations

from keepstone.errors import (
    AccessError,
    ConfigurationError,
    Conflict,
    KeepstoneError,
    NotFound,
    ProviderError,
    StoreError,
    ValidationError,
)

OK, UNEXPECTED, BAD_INPUT, NOT_FOUND, CONFLICT, CONFIGURATION, STORE, PROVIDER, PROBLEMS, ACCESS, REFUSED, INTERRUPTED = (
    *range(11),
    130,
)

MEANINGS: dict[int, str] = {
    OK: "success; also a recall or list without results",
    UNEXPECTED: "unexpected failure: please report it",
    BAD_INPUT: "invalid value or option",
    NOT_FOUND: "no such record, key, ticket or review item in this scope",
    CONFLICT: "stale version, or an idempotency key reused for another content",
    CONFIGURATION: "invalid settings, names or paths",
    STORE: "the store is busy, full, damaged or read-only",
    PROVIDER: "an external system failed: an embedder, a model or a server",
    PROBLEMS: "problems found by doctor, upkeep, a check, a test, an import or audit verify, or health below --fail-under",
    ACCESS: "the server refused the key or its rate",
    REFUSED: "the write was refused, and its reasons are printed: a rate limit, or data that the policy does not keep",
    INTERRUPTED: "interrupted, or a confirmation was declined",
}

_CODES: dict[type[BaseException], int] = {
    ValidationError: BAD_INPUT,
    NotFound: NOT_FOUND,
    Conflict: CONFLICT,
    AccessError: ACCESS,
    ConfigurationError: CONFIGURATION,
    StoreError: STORE,
    ProviderError: PROVIDER,
}


def code_for(error: KeepstoneError) -> int:
    """The exit code of an error, or of its nearest base class in the table."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), UNEXPECTED)
