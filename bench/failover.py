"""A primary that is killed under load, again and again, and a standby that takes its place. Run with `python -m bench failover`.

Two PostgreSQL servers with synchronous streaming replication. Callers have one URL with both hosts and write all the time; the
primary is killed with SIGKILL, the standby is promoted, and the old primary becomes the new standby. `lost` counts acknowledged
writes that are not on the new primary, `errors` what callers were told, `pause_s` how long a caller waited at the most. A reader
recalls from the standby and compares how old its answer was with what it was told.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.measure import percentile, progress
from bench.report.stamp import result_head
from keepstone import KeepstoneError, Memory
from tests.server_processes import HOST, PostgresServer, postgres_programs

LIMIT_SECONDS = 30.0  # a caller's busy_timeout: the longest pause that is no error
STALENESS_SECONDS = 5.0
PATIENCE = 60.0
WRITERS = 4
NAME = "keepstone"


class Replica(PostgresServer):
    """One of two servers; it is what its data says: a primary, or a standby where there is a standby.signal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, durable=True)

    def execute(self, statement: str) -> Any:
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchone() if done.description else None

    def copy_from(self, primary: Replica) -> None:
        """Start as a standby with a copy of a primary."""
        shutil.rmtree(self._data, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._data.mkdir(mode=0o700)
        self._chown(self._data)
        backup = [str(postgres_programs() / "pg_basebackup"), "-h", HOST, "-p", str(primary.port), "-U", "postgres"]
        with self._log_file.open("ab") as log:
            command = [*backup, "-D", str(self._data), "-X", "stream", "-c", "fast", "-R", "--no-sync"]
            subprocess.run(command, check=True, **self._popen_options(log))
        self.start()

    def replicate_synchronously(self) -> None:
        """Wait until the other one follows, and from then on commit only what it has."""
        self._until("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", 1)
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        self._until("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", 1)

    def promote(self) -> None:
        """Become the primary; until there is a standby again it commits alone."""
        self.execute("SELECT pg_promote(true, 60)")
        self.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self.execute("SELECT pg_reload_conf()")

    def _until(self, query: str, wanted: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.execute(query) != (wanted,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE:g} s in vain for: {query}")
            time.sleep(0.02)


@dataclass(slots=True)
class Result:
    """What the failovers came to."""

    failovers: int = 0
    acknowledged: int = 0
    lost: int = 0
    errors: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)  # the longest of each failover
    recalls: int = 0
    from_standby: int = 0
    too_old: list[str] = field(default_factory=list)
    reported: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.errors or self.too_old or self.problems) and max(self.pauses, default=0.0) < LIMIT_SECONDS

    def as_json(self) -> dict[str, Any]:
        return {
            "failovers": self.failovers, "acknowledged": self.acknowledged, "lost": self.lost, "errors": len(self.errors),
            "limit_s": LIMIT_SECONDS,
            "pause_s": {"p50": round(percentile(self.pauses, 0.5), 2), "max": round(max(self.pauses, default=0.0), 2)},
            "recalls": self.recalls, "from_standby": self.from_standby, "too_old": len(self.too_old),
            "staleness_s": {"limit": STALENESS_SECONDS, "reported_max": round(max(self.reported, default=0.0), 2)},
            "problems": [*self.errors, *self.too_old, *self.problems][:10],
        }  # fmt: skip


class Callers:
    """Threads that write and one that recalls, until they are told to stop."""

    def __init__(self, url: str, read_url: str, result: Result) -> None:
        self._result = result
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._memory = Memory.open(url, embedder="none", settings={"busy_timeout": LIMIT_SECONDS})
        settings = {"busy_timeout": LIMIT_SECONDS, "read_url": read_url, "read_staleness": STALENESS_SECONDS}
        self._reader = Memory.open(url, embedder="none", settings=settings)
        self.stored: dict[str, str] = {}
        self._counted: list[tuple[float, int]] = []  # when a number was acknowledged
        self._waited = 0.0
        work: list[Callable[[], None]] = [*(lambda number=number: self._write(number) for number in range(WRITERS)), self._recall]
        self._threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        count = 0
        while not self._stop.is_set():
            count += 1
            begun = time.monotonic()
            try:
                if number:
                    text = f"Crate {number}-{count} is at the dock."
                    id = self._memory.remember(text, idempotency_key=f"{number} {count}").id
                    with self._lock:
                        self.stored[id] = text
                else:
                    self._memory.set("crates", f"The harbour has seen {count} crates.")
                    self._counted.append((time.monotonic(), count))
            except KeepstoneError as error:
                self._result.errors.append(f"write: {type(error).__name__}: {error}")
            else:
                self._result.acknowledged += 1
            self._waited = max(self._waited, time.monotonic() - begun)

    def _recall(self) -> None:
        """A recall must show what was acknowledged before it began, less the seconds that it says it is behind."""
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                found = self._reader.recall("How many crates has the harbour seen?", limit=3)
            except KeepstoneError as error:
                self._result.errors.append(f"recall: {type(error).__name__}: {error}")
                continue
            told = re.search(r"at most ([\d.]+) s behind", " ".join(found.notes))
            behind = float(told[1]) + 0.1 if told else 0.0  # rounded
            numbers = [int(match[1]) for hit in found if (match := re.search(r"seen (\d+) crates", hit.content))]
            expected = max((count for at, count in list(self._counted) if at <= begun - behind), default=0)
            self._result.recalls += 1
            if told:
                self._result.from_standby += 1
                self._result.reported.append(float(told[1]))
            if expected > max(numbers, default=0):
                shown = max(numbers, default=0)
                self._result.too_old.append(f"recall showed {shown}, not {expected}, and said it was {behind:.1f} s behind")
            self._stop.wait(0.02)

    def longest_wait(self) -> float:
        """The longest that a write has taken since this was last asked."""
        waited, self._waited = self._waited, 0.0
        return waited

    def wait_for_writes(self, more: int) -> None:
        goal, deadline = self._result.acknowledged + more, time.monotonic() + PATIENCE
        while self._result.acknowledged < goal and time.monotonic() < deadline:
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._memory.close()
        self._reader.close()


def run(folder: Path, failovers: int, before: Callable[[Replica, Replica, str], object] | None = None) -> Result:
    """Kill the primary so many times. `before` is given both servers and the URL once they are up."""
    result = Result()
    primary, standby = Replica(folder / "one"), Replica(folder / "two")
    try:
        primary.start()
        primary.database(NAME)
        standby.copy_from(primary)
        primary.replicate_synchronously()
        hosts = f"{HOST}:{primary.port},{HOST}:{standby.port}"
        url = f"postgresql://postgres@{hosts}/{NAME}?target_session_attrs=read-write"
        if before is not None:
            before(primary, standby, url)
        callers = Callers(url, url.replace("read-write", "prefer-standby"), result)
        try:
            for _ in range(failovers):
                callers.wait_for_writes(20 * WRITERS)
                callers.longest_wait()
                primary.kill()
                standby.promote()
                callers.wait_for_writes(2 * WRITERS)
                result.pauses.append(callers.longest_wait())
                result.failovers += 1
                _look_for(callers.stored, standby.url_as("postgres", NAME), result)
                primary, standby = standby, primary
                standby.copy_from(primary)
                primary.replicate_synchronously()
        finally:
            callers.stop()
        with Memory.open(primary.url_as("postgres", NAME), embedder="none") as memory:
            if not memory.upkeep.doctor().healthy or not memory.audit.verify().whole:
                result.problems.append("the doctor or the audit log of the last primary is not content")
    finally:
        for server in (primary, standby):
            server.kill()
    return result


def _look_for(stored: dict[str, str], url: str, result: Result) -> None:
    """Look for everything that was acknowledged on the new primary."""
    known = dict(list(stored.items()))
    with psycopg.connect(url) as connection:
        connection.execute("SELECT set_config('keepstone.tenant', 'local', false)")
        found = dict(connection.execute("SELECT id, content FROM keepstone.record").fetchall())
    result.lost += sum(found.get(id) != text for id, text in known.items())


def main(argv: list[str]) -> int:
    """Print the JSON object; exit status 1 if anything was lost, refused or too old."""
    parser = argparse.ArgumentParser(prog="bench failover", description=__doc__)
    parser.add_argument("--failovers", type=int, default=20, help="how often the primary is killed (default 20)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    given = parser.parse_args(argv)
    progress("failover …")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        begun = time.monotonic()
        result = run(Path(folder), given.failovers)
    print(json.dumps({**result_head("failover", argv), **result.as_json(), "seconds": round(time.monotonic() - begun, 1)}))
    return 0 if result.good else 1
