"""The exit codes, in one table."""

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

OK, UNEXPECTED, BAD_INPUT, NOT_FOUND, CONFLICT, CONFIGURATION, STORE, PROVIDER, PROBLEMS, ACCESS, INTERRUPTED = (
    *range(10),
    130,
)

MEANINGS: dict[int, str] = {
    OK: "done; a recall or list that finds nothing is an answer too, and so is a write that is refused with its reasons",
    UNEXPECTED: "a failure nobody foresaw: please report it",
    BAD_INPUT: "a value or an option that cannot be taken",
    NOT_FOUND: "no such record, key, ticket or review in this scope",
    CONFLICT: "a stale version, or an idempotency key used for another body",
    CONFIGURATION: "settings, names or paths that cannot work",
    STORE: "the store is busy, full, damaged or read-only",
    PROVIDER: "something outside keepstone failed, such as an embedder, a model or a server",
    PROBLEMS: "doctor, upkeep, a check or a test met problems, import refused lines, the trail is not whole, health is too low",
    ACCESS: "a server does not let the key do this, or not so often",
    INTERRUPTED: "interrupted, or a question was answered with no",
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
    """The exit code of an error: that of its nearest ancestor in the table."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), UNEXPECTED)
