"""The servers that pages of the documentation talk to, started for the page that names one of their variables:

DATABASE_URL       a database's owner, who has CREATEROLE and is no superuser; pgvector is there, as a provider makes it
RESTORED_URL       the same for a second, empty database
ADMIN_URL          the superuser in the first database; ADMIN_RESTORED_URL: in the second
REDIS_URL          a Redis
KEEPSTONE_KEY      the first key of a keepstone server at KEEPSTONE_URL, on keepstone.db in the folder of the page
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from tests.server_processes import PostgresServer, RedisServer, postgres_programs

OWNER = "owner"
DATABASES = {"DATABASE_URL": "memories", "RESTORED_URL": "restored"}
ADMIN = {"ADMIN_URL": "memories", "ADMIN_RESTORED_URL": "restored"}
PATIENCE = 60.0  # seconds for a server to answer, or to end


class Servers:
    """Whatever a page needs, until the page is done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def variables(self, page: str, folder: Path, environment: dict[str, str]) -> dict[str, str]:
        """The variables that a page's text names , not what code fills in, and what goes with them.
        `folder` is where the page's blocks run."""
        found: dict[str, str] = {}
        if any(name in page for name in (*DATABASES, *ADMIN)):
            server = self._stack.enter_context(PostgresServer(self._folder / "postgres"))
            self._made(server)
            found |= {name: server.url_as(OWNER, database) for name, database in DATABASES.items()}
            found |= {name: server.url_as("postgres", database) for name, database in ADMIN.items()}
            found |= {
                "KEEPSTONE_APP_PASSWORD": "of a page",
                "PATH": os.pathsep.join([str(postgres_programs()), environment["PATH"]]),
            }
        if "REDIS_URL" in page:
            found["REDIS_URL"] = self._stack.enter_context(RedisServer(self._folder / "redis")).url
        if "KEEPSTONE_KEY" in page:
            found |= self._stack.enter_context(keepstone_server(folder, environment))
        return found

    def _made(self, server: PostgresServer) -> None:
        import psycopg  # not in the environments of the frameworks

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
            for name in DATABASES.values():
                connection.execute(f"CREATE DATABASE {name} OWNER {OWNER}")
        for name in DATABASES.values():
            with psycopg.connect(server.url_as("postgres", name), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION vector")

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()


@contextmanager
def keepstone_server(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """`keepstone serve` in a folder: its address and its first key, as variables."""
    command = [sys.executable, "-m", "keepstone", "serve", "--port", "0", "--workers", "1", "--json"]
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as started,
    ):
        try:
            assert started.stdout is not None
            said = started.stdout.readline()
            assert said, (folder / "server.log").read_text()
            told = json.loads(said)
            _answers(f"{told['address']}/readyz")
            yield {"KEEPSTONE_URL": told["address"], "KEEPSTONE_KEY": told["key"]}
            started.terminate()
            assert started.wait(PATIENCE) == 0, (folder / "server.log").read_text()
        finally:
            started.kill()


def _answers(address: str) -> None:
    """Wait until a server answers."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(address, timeout=PATIENCE):
                return
        except OSError:
            assert time.monotonic() < until, f"{address} does not answer"
            time.sleep(0.05)
