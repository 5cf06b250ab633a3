"""Partial vector indexes for large scopes.

A small scope is compared whole, which is exact and quick. One index over all tenants with a filter would find a tenth of what it
should, so a large scope gets one of its own, built while writers go on. It names the embedder, so that another one's
vectors, which may be of another width, never get near it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
from psycopg.sql import Literal

from keepstone.ports.stores import Progress
from keepstone.stores.common.scope_catalog import embedder_of
from keepstone.stores.postgres import setup
from keepstone.stores.postgres.connections import PostgresDriver
from keepstone.stores.postgres.statements import sql

LARGE = 20_000  # records of a scope from which its own index is quicker than comparing them all
_MEMORY = "512MB"  # for building it


class Large(NamedTuple):
    """A scope that should have an index of its own."""

    tenant: str
    scope: int
    records: int
    model: int
    dimension: int

    @property
    def name(self) -> str:
        """The index's name says which scope and embedder it is of."""
        digest = hashlib.blake2b(f"{self.tenant}\n{self.scope}".encode(), digest_size=8).hexdigest()
        return f"near_{digest}_{self.model}"


def large(driver: PostgresDriver, least: int = LARGE) -> Iterator[Large]:
    """The scopes that have at least so many vectors."""
    with driver.reading("") as db:
        model, embedder = embedder_of(db)
    if embedder is not None:
        for tenant in driver.tenants():
            with driver.reading(tenant) as db:
                for scope, records in db.all("scopes_large", (least, model)):
                    yield Large(tenant, scope, records, model, embedder[1])


def tune(driver: PostgresDriver, connection: psycopg.Connection[Any], progress: Progress | None, least: int = LARGE) -> list[str]:
    """Create missing indexes and drop those of former embedders. Returns messages: what was done, and what an owner has to do."""
    schema = driver.target.schema
    wanted = {each.name: each for each in large(driver, least)}
    present: dict[str, bool] = dict(connection.execute(sql.texts["indexes_near"].encode(), (schema,)).fetchall())
    missing = [each for name, each in wanted.items() if not present.get(name)]
    stale = [name for name, valid in present.items() if name not in wanted or not valid]
    owner = connection.execute(sql.texts["role_owns"].encode(), (schema,)).fetchone()
    if not (owner and owner[0]):
        remedy = "run 'keepstone upkeep run' with the role that owns the tables"
        return [
            f"tenant {each.tenant}: a scope with {each.records:,} memories has no index of its own; {remedy}" for each in missing
        ]
    done = []
    connection.execute(sql.texts["building_settings"].encode(), (setup.path_of(connection, driver.target), _MEMORY))
    for name in stale:
        connection.execute(_filled("index_drop", name=f"{schema}.{name}"))
        done.append(f"dropped index {name}, which is not needed any more or was not finished")
    for at, each in enumerate(missing):
        tenant = Literal(each.tenant).as_string(connection)
        numbers = {"scope": str(each.scope), "model": str(each.model), "dimension": str(each.dimension)}
        connection.execute(_filled("index_make", name=each.name, tenant=tenant, **numbers))
        done.append(f"tenant {each.tenant}: a scope with {each.records:,} memories has an index of its own now")
        if progress is not None:
            progress(at + 1, len(missing))
    return done


def _filled(statement: str, **parts: str) -> bytes:
    """A statement that takes no values, with names and quoted values in their places."""
    return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], sql.texts[statement]).encode()
