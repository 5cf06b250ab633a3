"""The servers that tests and benchmarks talk to: they keep their port, survive restarts, and end with their owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from keepstone.errors import ProviderError
from tests.faults.support import environment
from tests.server_processes import HOST, PostgresServer, RedisServer

STARTER = """
import sys
from pathlib import Path
from tests.server_processes import PostgresServer, RedisServer
servers = [PostgresServer(Path(sys.argv[1]) / "postgres"), RedisServer(Path(sys.argv[1]) / "redis")]
for server in servers:
    server.start()
print(*(server.port for server in servers), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("durable"), durable=True) as server:
        yield server


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


def client(server: RedisServer, timeout: float = 5) -> redis.Redis:
    """One that says at once what went wrong."""
    return redis.Redis.from_url(server.url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=None)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def reached(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def one(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_postgres_takes_connections_and_has_pgvector(postgres: PostgresServer) -> None:
    url = postgres.database("with vectors")
    assert postgres.database("with vectors") == url
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION vector")
        near = connection.execute("SELECT '[1,0]'::vector <-> '[1,2]'::vector").fetchone()
    assert near == (2.0,)
    assert one(url, "SELECT current_database()") == "with vectors"


def test_postgres_lets_other_roles_in(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url) as connection:
        connection.execute('CREATE ROLE "a/role" LOGIN')
    assert one(postgres.url_as("a/role", password="p@ss:word"), "SELECT current_user::text") == "a/role"


def test_durable_is_what_the_server_does_by_default(postgres: PostgresServer) -> None:
    assert [one(postgres.url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == ["on"] * 3
    assert [one(postgres.url, f"SHOW {name}") for name in ("max_connections", "shared_buffers")] == ["200", "256MB"]


@pytest.mark.parametrize("how", ["immediate", "fast", "smart", "kill"])
def test_postgres_keeps_its_port_and_what_was_committed(postgres: PostgresServer, how: str) -> None:
    url, port = postgres.database(f"kept_{how}"), postgres.port
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
    assert postgres.pid is not None
    family = [psutil.Process(postgres.pid), *psutil.Process(postgres.pid).children()]
    assert len(family) > 3
    if how == "kill":
        postgres.kill()
    else:
        postgres.stop(how)
    assert postgres.pid is None
    assert not listens(port)
    assert [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    with pytest.raises(psycopg.OperationalError):
        one(url, "SELECT 1")
    postgres.start()
    assert postgres.port == port
    assert one(url, "SELECT count(*) FROM kept") == 1000


def test_a_kill_breaks_off_open_connections(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        backend = psutil.Process(connection.info.backend_pid)
        postgres.kill()
        assert not backend.is_running() or backend.status() == psutil.STATUS_ZOMBIE
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    postgres.start()
    assert one(postgres.url, "SELECT 1") == 1


def test_an_unknown_way_to_stop_is_refused(postgres: PostgresServer) -> None:
    with pytest.raises(ValueError, match="immediate, fast, smart, not 'gently'"):
        postgres.stop("gently")
    assert one(postgres.url, "SELECT 1") == 1


def test_redis_keeps_its_port_over_kills_and_stops(running: RedisServer) -> None:
    port = running.port
    for end in (running.kill, running.stop):
        with client(running) as connection:
            assert connection.set("key", "value")
            assert connection.get("key") == b"value"
        end()
        assert running.pid is None
        assert not listens(port)
        running.start()
        assert running.port == port
        with client(running) as connection:
            assert connection.get("key") is None


def test_a_paused_redis_answers_nothing_until_it_goes_on(running: RedisServer) -> None:
    with client(running) as connection:
        assert connection.set("key", "value")
    running.pause()
    with client(running, timeout=0.2) as connection, pytest.raises(redis.TimeoutError):
        connection.get("key")
    running.resume()
    with client(running) as connection:
        assert connection.get("key") == b"value"
    running.pause()  # stopping one that is paused works, too
    running.stop()
    assert not listens(running.port)


def test_a_server_survives_the_thread_that_started_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
    with client(server) as connection:
        assert connection.ping()
    server.stop()
    assert server.pid is None


def test_a_port_that_is_taken_is_said(running: RedisServer, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="Address already in use"):
        RedisServer(tmp_path / "second", port=running.port).start()
    with client(running) as connection:
        assert connection.ping()


def test_servers_die_with_the_process_that_started_them(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as starter:
        assert starter.stdout is not None
        ports = [int(port) for port in starter.stdout.readline().split()]
        assert len(ports) == 2
        assert all(map(listens, ports))
        os.kill(starter.pid, signal.SIGKILL)
    assert reached(lambda: not any(map(listens, ports)))
    assert reached(lambda: not (tmp_path / "postgres" / "data" / "postmaster.pid").exists())
    with PostgresServer(tmp_path / "postgres") as again:
        assert one(again.url, "SHOW fsync") == "off"


def test_a_pytest_that_a_test_starts_leaves_the_folders_of_this_one_open(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """A Postgres that runs as another user than the tests passes through them at every checkpoint."""
    above = tmp_path_factory.getbasetemp().parents
    before = [folder.stat().st_mode for folder in above]
    (tmp_path / "test_one.py").write_text("def test_one(tmp_path): assert tmp_path.exists()\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [folder.stat().st_mode for folder in above] == before
