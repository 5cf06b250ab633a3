"""What those who run a database need besides opening it: set-up, the same as a script, and a check.

from keepstone import administration

administration.set_up("postgresql://owner@host/name", login="app", password=...)
assert administration.check("postgresql://app@host/name").fine
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError

if TYPE_CHECKING:
    from keepstone.stores.postgres.administration import SetUp
    from keepstone.stores.postgres.inspection import Check

_SCHEMES = ("postgresql://", "postgres://")


def set_up(url: str, *, finish: bool = False, login: str | None = None, password: str | None = None) -> SetUp:
    """Make or upgrade the tables with the owner's URL, the role that applications act as and what it is granted, and with `login`
    a login for them. `finish` also runs the second halves of migrations, once every process is of this version."""
    with _installed():
        from keepstone.stores.postgres import administration
    return administration.set_up(_named(url), finish=finish, login=login, password=password)


def login_there(url: str, login: str) -> bool:
    """Whether the login exists already, and so has a password; ConfigurationError for a role that applications must not have."""
    with _installed():
        from keepstone.stores.postgres import administration
    return administration.login_there(_named(url), login)


def script(schema: str = "keepstone", *, since: int = 0, shard: bool = False) -> str:
    """The statements of `set_up` for whoever runs the database. `since`: the version of the schema that is there; `shard`: the
    tables are distributed by tenant, too."""
    with _installed():
        from keepstone.stores.postgres import administration
    return administration.script(schema, since=since, shard=shard)


def check(url: str) -> Check:
    """What is in force, seen with an application's URL; nothing is changed."""
    with _installed():
        from keepstone.stores.postgres import inspection
    return inspection.check(_named(url))


def _named(url: str) -> str:
    if not url.startswith(_SCHEMES):
        shown = url if "://" not in url else url.partition("://")[0] + "://…"
        raise ConfigurationError(f"{shown!r:.80} is no PostgreSQL database: name one as postgresql://owner@host:5432/name.")
    return url


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(f"PostgreSQL needs psycopg ({error}): install it with {install_command('postgres')}.") from None
