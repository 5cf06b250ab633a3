"""Databases as providers hand them out: a server of the tests' own, so that no other test uses its roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from tests.server_processes import PostgresServer

APP = "keepstone_app"


@dataclass(frozen=True)
class Ground:
    """A server without the app's role, and what is asked of it as its superuser."""

    server: PostgresServer

    def run(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(self.server.url_as("postgres", database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str, database: str, role: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.server.url_as(role, database), autocommit=True) as connection:
            return connection.execute(query).fetchall()

    def owned(self, name: str, rights: str = "", *, extension: bool = True) -> str:
        """A database with an owner of the same name, who connects; pgvector made by the provider."""
        self.run(f"CREATE ROLE {name} LOGIN {rights}", f"CREATE DATABASE {name} OWNER {name}")
        if extension:
            self.run("CREATE EXTENSION vector", database=name)
        return self.server.url_as(name, name)

    def cleared(self) -> None:
        """Take away every database and role that a test has made."""
        mine = self.rows("SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'", "postgres")
        self.run(*(f'DROP DATABASE "{name}" WITH (FORCE)' for (name,) in mine))
        roles = self.rows("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'postgres'", "postgres")
        self.run(*(f'DROP ROLE "{name}"' for (name,) in sorted(roles, key=lambda each: each[0] != APP)))  # with its members
