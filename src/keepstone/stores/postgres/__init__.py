"""Records in PostgreSQL with pgvector: tenant first in every key, row-level security, one round trip where one will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError


@contextmanager
def psycopg_required() -> Iterator[None]:
    """Explain how to install psycopg if importing a module of this package fails without it."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(f"PostgreSQL needs psycopg ({error}): install it with {install_command('postgres')}.") from None
