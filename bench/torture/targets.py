"""Where stores are tortured: files in a folder, databases on a server.

A row works with either: `fresh` gives the target of a store that is not there yet, `copy` one with what another holds.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from bench.torture.verdict import Options
from tests.server_processes import PostgresServer

VICTIM = "doomed"  # the name under which a process that will be killed connects
PATIENCE = 60.0  # seconds until a server must have noticed that a client is gone
LEFT = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
USED = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
HELD = """
SELECT a.pid, a.state, a.wait_event, l.locktype FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
WHERE a.datname = %s AND a.pid <> pg_backend_pid() AND l.locktype IN ('advisory', 'transactionid', 'tuple')
"""


class Place(Protocol):
    """What rows ask of the place where their stores are."""

    kind: str

    def fresh(self, name: str) -> str:
        """The target of a store that is not there yet."""

    def copy(self, target: str, name: str) -> str:
        """The target of another store with what this one holds; it must not be open."""

    def victim_target(self, target: str) -> str:
        """The target as a process opens it that will be killed."""

    def settled(self) -> None:
        """Wait until whatever a killed process had under way is over."""

    def problem(self, target: str) -> str | None:
        """What can be seen to be wrong with a store before it is opened."""

    def there(self, target: str) -> bool:
        """Whether anything of a store is there."""

    def locks(self, target: str) -> list[Any]:
        """What is held by others for good, when the store is idle."""

    def drop(self, target: str) -> None:
        """A store is not needed any more."""


class Files:
    """Stores in files."""

    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fresh(self, name: str) -> str:
        return str(self._folder / f"{name}.db")

    def copy(self, target: str, name: str) -> str:
        return str(shutil.copyfile(target, self.fresh(name)))

    def victim_target(self, target: str) -> str:
        return target

    def settled(self) -> None:
        """The kernel has let go of everything when the process is gone."""

    def problem(self, target: str) -> str | None:
        return f"{Path(target).name} is a file of 0 bytes" if self.there(target) and not Path(target).stat().st_size else None

    def there(self, target: str) -> bool:
        return Path(target).exists()

    def locks(self, target: str) -> list[Any]:
        return []

    def drop(self, target: str) -> None:
        for each in Path(target).parent.glob(f"{Path(target).name}*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)


class Databases:
    """Stores in databases of one server."""

    kind = "postgres"

    def __init__(self, url: str) -> None:
        import psycopg
        from psycopg import sql

        self._url, self._sql = url, sql
        self._watch = psycopg.connect(url, autocommit=True)

    def fresh(self, name: str) -> str:
        return self._made(name, "")

    def copy(self, target: str, name: str) -> str:
        return self._made(name, urlsplit(target).path.strip("/"))

    def _made(self, name: str, template: str) -> str:
        name = f"torture_{name}"
        self._drop(name)
        words = [self._sql.SQL("CREATE DATABASE {}").format(self._sql.Identifier(name))]
        if template:  # a pool that was closed may take a moment to be gone
            self._until(lambda: not self._watch.execute(USED, (template,)).fetchall(), f"to be left alone in {template}")
            words.append(self._sql.SQL("TEMPLATE {}").format(self._sql.Identifier(template)))
        self._watch.execute(self._sql.SQL(" ").join(words))
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def victim_target(self, target: str) -> str:
        return f"{target}{'&' if urlsplit(target).query else '?'}application_name={VICTIM}"

    def settled(self) -> None:
        """What a killed process had sent before it died may be carried out after its death: the server reads it first."""
        self._until(lambda: not self._watch.execute(LEFT, (VICTIM,)).fetchall(), "to notice that a client is gone")

    def problem(self, target: str) -> str | None:
        return None

    def there(self, target: str) -> bool:
        return True  # an empty database is one that a store can be made in

    def locks(self, target: str) -> list[Any]:
        name = urlsplit(target).path.strip("/")
        with contextlib.suppress(TimeoutError):
            self._until(lambda: not self._watch.execute(HELD, (name,)).fetchall(), "to let go of every lock", 10.0)
        return self._watch.execute(HELD, (name,)).fetchall()

    def drop(self, target: str) -> None:
        self._drop(urlsplit(target).path.strip("/"))

    def _drop(self, name: str) -> None:
        self._watch.execute(self._sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(self._sql.Identifier(name)))

    @staticmethod
    def _until(reached: Any, what: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not reached():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {patience:g} s in vain for the server {what}.")
            time.sleep(0.002)

    def close(self) -> None:
        self._watch.close()


@contextlib.contextmanager
def databases(options: Options) -> Iterator[Databases]:
    """Databases on the server that was named, or on one of our own that commits to disk."""
    with contextlib.ExitStack() as stack:
        url = options.postgres
        if url is None:
            url = stack.enter_context(PostgresServer(options.folder / "postgres", durable=True)).url
        yield stack.enter_context(contextlib.closing(Databases(url)))
