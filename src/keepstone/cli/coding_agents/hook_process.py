"""The process of a hook: it sends what the client gave it to a resident process with the memory open, and prints the answer.

A hook must neither break nor slow its client: it ends within a time limit, with exit code 0, and its errors go to a log that
`keepstone doctor` reads. The resident process is started by the first hook and ends when no hook has come for a while. Only a few
modules of the standard library are imported here, so that a hook takes little more than the start of Python.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from keepstone.cli.coding_agents import create_folder, log_hook_error, socket_folder, user_folder

EVENTS = ("session-start", "prompt", "pre-compact", "stop", "session-end")
LIMIT_SECONDS = {"session-start": 6.0, "prompt": 3.0}  # of the hook as a whole; capturing goes on in the resident process
_CAPTURE_LIMIT_SECONDS = 3.0
IDLE_SECONDS = 900.0  # after which the resident process ends
_RETRY_SECONDS = 0.02
_MAX_INPUT_BYTES = 9 * 1024 * 1024
_OPTIONS = ("client", "project", "db", "tenant", "agent", "user", "embedder")
_accepted: list[str] = []  # the event, once the resident process has begun to answer
DEFAULTS = {"client": "claude-code", "project": "auto"}


def is_hook(arguments: Sequence[str]) -> bool:
    """Whether these arguments of the command line are a hook without a request for help."""
    return len(arguments) > 1 and arguments[0] == "hook" and arguments[1] in (*EVENTS, "serve") and "--help" not in arguments


def run(arguments: Sequence[str]) -> int:
    """Run `hook EVENT [OPTIONS]`; the exit code of a hook is always 0."""
    event = arguments[1]
    try:
        options = parse_options(arguments[2:])
        if event == "serve":
            serve(options)
            return 0
        run_event(event, options)
    except Exception as error:
        log_hook_error(event, f"{type(error).__name__}: {error}")
        return int(event == "serve")  # a hook that waits for it need not go on waiting
    return 0


def run_event(event: str, options: Mapping[str, str]) -> None:
    """Answer one event, within its limit."""
    seconds = float(os.environ.get("KEEPSTONE_HOOK_SECONDS") or LIMIT_SECONDS.get(event, _CAPTURE_LIMIT_SECONDS))
    _limit_time(event, seconds)
    deadline = time.monotonic() + seconds
    given = sys.stdin.buffer.read(_MAX_INPUT_BYTES) if sys.stdin is not None else b""
    payload = json.loads(given) if given.strip() else {}
    if not isinstance(payload, dict):
        raise ValueError("standard input is not a JSON object")
    request = {"event": event, "payload": payload, "folder": os.getcwd(), **DEFAULTS, **options}
    has_sockets = hasattr(socket, "AF_UNIX")  # not on Windows
    answer = _ask_resident(request, options, deadline) if has_sockets else _Resident(options).answer(request)
    sys.stdout.write(answer)
    sys.stdout.flush()


def parse_options(arguments: Sequence[str]) -> dict[str, str]:
    """The options of a hook. Raises ValueError."""
    options: dict[str, str] = {}
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if not name.startswith("--") or name[2:] not in _OPTIONS:
            raise ValueError(f"the option {name!r:.60} is unknown: use --{', --'.join(_OPTIONS)}")
        if not equals and not left:
            raise ValueError(f"{name} needs a value")
        options[name[2:]] = value if equals else left.pop(0)
    db = options.get("db") or ("" if os.environ.get("KEEPSTONE_URL") else os.environ.get("KEEPSTONE_DB", ""))
    if db and db != ":memory:" and "://" not in db:
        options["db"] = os.path.abspath(db)  # the resident process has another folder
    return options


def _limit_time(event: str, seconds: float) -> None:
    """End the process at the limit, whatever it is doing then."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if not _accepted:
            log_hook_error(event, f"no answer within {seconds:g} s")
        os._exit(0)

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    else:
        import threading

        timer = threading.Timer(seconds, lambda: end(0, None))
        timer.daemon = True
        timer.start()


# -- the resident process ----------------------------------------------------------------------------------------------------
def _address(options: Mapping[str, str]) -> str:
    """The socket of the resident process for this version, store and scope."""
    from keepstone import __version__

    settings = {name: value for name, value in os.environ.items() if name.startswith("KEEPSTONE_") and "HOOK" not in name}
    which = [__version__, str(user_folder()), *(options.get(name, "") for name in _OPTIONS[2:]), sorted(settings.items())]
    return str(socket_folder() / f"{hashlib.sha256(json.dumps(which).encode()).hexdigest()[:16]}.sock")


def _ask_resident(request: Mapping[str, Any], options: Mapping[str, str], deadline: float) -> str:
    address = _address(options)
    started: subprocess.Popen[bytes] | None = None
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(address)
                connection.sendall(json.dumps(request).encode())
                connection.shutdown(socket.SHUT_WR)
                received = connection.recv(65_536)
                _accepted.append(request["event"])
                answer = json.loads(received + b"".join(iter(lambda: connection.recv(65_536), b"")))
            break
        except (FileNotFoundError, ConnectionError):
            if started is None:
                started = _start_resident(options)
            if started.poll():
                raise RuntimeError("the resident process could not start; its own entry in this log says why") from None
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise TimeoutError("the resident process did not start in time") from None
            time.sleep(_RETRY_SECONDS)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return str(answer["text"])


def _start_resident(options: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the resident process, independent of this one."""
    arguments = [part for name in _OPTIONS[2:] if name in options for part in (f"--{name}", options[name])]
    return subprocess.Popen(
        [sys.executable, "-m", "keepstone", "hook", "serve", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
    )  # fmt: skip


class _Resident:
    """Answers requests with the memory open."""

    def __init__(self, options: Mapping[str, str]) -> None:
        from keepstone.cli.coding_agents.hooks import HookHandler
        from keepstone.cli.invocation import Invocation

        call = Invocation.of({}, options)
        folder = create_folder(user_folder())
        if "db" not in call.named and call.url is None:
            from dataclasses import replace

            call = replace(call, db=str(folder / "memory.db"))
        self._memory = call.open()
        self._handler = HookHandler(self._memory, folder / "transcripts")

    def answer(self, request: Mapping[str, Any]) -> str:
        """The text for standard output."""
        return self._handler.answer(
            request["event"], request["client"], request["project"], request["payload"], request["folder"]
        )

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


def serve(options: Mapping[str, str]) -> None:
    """Be the resident process: answer hooks until none has come for a while. A second one for the same store ends at once."""
    import fcntl
    import threading

    address = _address(options)
    idle_seconds = float(os.environ.get("KEEPSTONE_HOOK_IDLE_SECONDS") or IDLE_SECONDS)
    with open(os.open(f"{address}.lock", os.O_RDWR | os.O_CREAT, 0o600), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        resident = _Resident(options)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                if os.path.exists(address):
                    os.unlink(address)  # of a process that was killed: we hold the lock
                listener.bind(address)
                listener.listen(16)
                listener.settimeout(idle_seconds)
                working = threading.Lock()
                while True:
                    try:
                        connection, _ = listener.accept()
                    except TimeoutError:
                        break
                    threading.Thread(target=_reply, args=(resident, connection, working), daemon=True).start()
                os.unlink(address)
            with working:  # the last capture ends first
                resident.close()
        except Exception:
            resident.close()
            raise


def _reply(resident: _Resident, connection: socket.socket, working: Any) -> None:
    """Answer one request. Captures run one after the other, so that a transcript is read once; questions do not wait for them."""
    event = "unknown"
    with connection:
        try:
            request = json.loads(b"".join(iter(lambda: connection.recv(65_536), b"")))
            event = request["event"]
            if event not in LIMIT_SECONDS:
                connection.sendall(b" ")  # the hook may end: the capture goes on
            with contextlib.nullcontext() if event in LIMIT_SECONDS else working:
                answer = {"text": resident.answer(request)}
        except Exception as error:
            log_hook_error(event, f"{type(error).__name__}: {error}")
            answer = {"text": ""}
        with contextlib.suppress(OSError):  # the hook has reached its limit; the work is done
            connection.sendall(json.dumps(answer).encode())
