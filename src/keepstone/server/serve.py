"""Running the server: sockets, worker processes, shutdown.

The socket is bound first, so that a taken port is reported before anything is opened. Each of several workers is a process with
its own connection to the store. Shutdown is graceful: no new requests, answers to those in progress, then the store is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from keepstone.backend import Backend, open_backend
from keepstone.errors import ConfigurationError
from keepstone.server import logs, tracing
from keepstone.server.app import make_app
from keepstone.server.service import Service

DEFAULT_PORT = 8700
_PORTS_TRIED = 20
_SHUTDOWN_SECONDS = 15
_KEEP_ALIVE_SECONDS = 75
_WORKER_START_SECONDS = 60.0
_BACKLOG = 2048
_MAX_HEAD_BYTES = 65_536
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What to serve and where. `port` None: the default port, or the next free one."""

    target: str
    embedder: str | None = None
    model: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    workers: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)

    def open_backend(self) -> Backend:
        return open_backend(self.target, embedder=self.embedder or "auto", model=self.model, settings=self.settings)


def default_workers(target: str) -> int:
    """One worker for a store in memory or a single core, else two: a Python process computes on one core."""
    return 1 if target == ":memory:" or (os.cpu_count() or 1) == 1 else 2


# -- sockets -----------------------------------------------------------------------------------------------------------------
def bind_socket(options: ServeOptions) -> socket.socket:
    """A listening socket; ConfigurationError if the address cannot be used."""
    ports = range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED) if options.port is None else [options.port]
    failure: OSError | None = None
    for port in ports:
        try:
            return _listen(options.host, port)
        except OSError as error:
            failure = error
            if error.errno != errno.EADDRINUSE:
                break
    place = f"{options.host}:{ports[0]}"
    if failure is not None and failure.errno == errno.EADDRINUSE:
        raise ConfigurationError(f"{place} is in use: stop the program that uses it, or choose --port {ports[0] + 1}.")
    if failure is not None and failure.errno == errno.EACCES:
        raise ConfigurationError(f"this process may not listen at {place}: choose a --port above 1023.")
    raise ConfigurationError(f"cannot listen at {place} ({failure}): choose another --host or --port.")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise ConfigurationError(f"--host {host!r:.80} is not an address of this machine ({error}): use 127.0.0.1.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # on Windows this would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        listener.set_inheritable(True)
    except BaseException:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket) -> str:
    """The server's address for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    local = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{local}:{port}"


class _SharedAddressSocket(socket.socket):
    """A socket that, sent to another process, becomes a listening socket of its own at the same address.

    Processes that accept from one socket do not share evenly: the first to wake takes all waiting connections. With a socket
    for each process (SO_REUSEPORT) the Linux kernel distributes new connections."""

    @classmethod
    def bind_to(cls, family: int, address: Any, listens: bool) -> _SharedAddressSocket:
        listener = cls(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(address)
            if listens:
                listener.listen(_BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        return listener

    def __reduce__(self) -> Any:
        return self.bind_to, (self.family, self.getsockname(), True)


def _share_address(listener: socket.socket) -> socket.socket:
    if sys.platform != "linux":
        return listener
    family, address = listener.family, listener.getsockname()
    listener.close()  # a socket that listens and does not accept would hold connections
    return _SharedAddressSocket.bind_to(family, address, False)


# -- running -----------------------------------------------------------------------------------------------------------------
def serve(options: ServeOptions, listener: socket.socket, on_open: Callable[[Service], Callable[[], None]]) -> None:
    """Serve until SIGINT or SIGTERM. `on_open` is called with the service before the first request; what it returns is called
    when requests can be answered."""
    address = address_of(listener)
    with _SignalHandler() as signals, contextlib.closing(options.open_backend()) as backend:
        on_ready = on_open(_make_service(backend, options, address))
        if options.workers == 1:
            on_ready()
            server = uvicorn.Server(_uvicorn_config(_make_app(backend, options, address)))
            signals.run(lambda: server.run(sockets=[listener]), stop=lambda: setattr(server, "should_exit", True))
            return
        backend.close()
        supervisor = _make_supervisor(options, listener, address, on_ready)
        signals.run(supervisor.run, stop=supervisor.should_exit.set)


class _SignalHandler:
    """Makes SIGINT and SIGTERM end the server gracefully at any moment. uvicorn handles signals only while it runs, and raises
    them again when it has ended, before the store is closed."""

    def __init__(self) -> None:
        self._stopping = False
        self._stop: Callable[[], object] = lambda: None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _SignalHandler:
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def run(self, work: Callable[[], object], stop: Callable[[], object]) -> None:
        """Run something that `stop` ends, unless a signal has come already."""
        self._stop = stop
        if not self._stopping:
            work()

    def _handle(self, *_: object) -> None:
        self._stopping = True
        self._stop()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


def _make_service(backend: Backend, options: ServeOptions, address: str) -> Service:
    from keepstone.server.rate_limit import RateLimiter
    from keepstone.server.tokens import make_verifier

    verifier = make_verifier(backend.settings, (backend.settings.public_url or address).rstrip("/"))
    return Service(backend, verifier=verifier, rate_limiter=RateLimiter(workers=options.workers), address=address)


def _make_app(backend: Backend, options: ServeOptions, address: str) -> FastAPI:
    logs.configure()
    if backend.settings.telemetry:
        tracing.set_up()
    return make_app(_make_service(backend, options, address))


def _uvicorn_config(app: Any, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_http_protocol(),
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="on",
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        **options,
    )


def _http_protocol() -> Any:
    """httptools with limits on request heads if it is installed, else h11, which has limits of its own."""
    try:
        from keepstone.server.connections import LimitedHttpProtocol
    except ImportError:
        return "h11"
    return LimitedHttpProtocol


# -- worker processes --------------------------------------------------------------------------------------------------------
class Supervisor(Multiprocess):
    """uvicorn's supervisor of worker processes; calls `on_ready` when all of them answer."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, on_ready: Callable[[], None]) -> None:
        super().__init__(config, [_share_address(listener)])
        self._on_ready = on_ready

    def init_processes(self) -> None:
        super().init_processes()
        if all(process.wait_until_ready(_WORKER_START_SECONDS, self.should_exit) for process in self.processes):
            self._on_ready()


def _make_supervisor(options: ServeOptions, listener: socket.socket, address: str, on_ready: Callable[[], None]) -> Supervisor:
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    app = partial(make_worker_app, options, address, os.getpid())
    config = _uvicorn_config(app, factory=True, workers=options.workers, timeout_worker_healthcheck=60)
    supervisor = Supervisor(config, listener, on_ready)
    for number, handler in previous.items():  # uvicorn's own handlers act only twice a second
        signal.signal(number, handler)
    return supervisor


def make_worker_app(options: ServeOptions, address: str, parent: int) -> FastAPI:
    """The application of one worker process."""
    backend = options.open_backend()
    app = _make_app(backend, options, address)

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        watch = asyncio.create_task(_end_with(parent))
        try:
            yield
        finally:
            watch.cancel()
            backend.close()

    app.state.lifespans.insert(0, lifespan)
    return app


async def _end_with(parent: int) -> None:
    """End this process when its parent process has ended."""
    while os.getppid() == parent:
        await asyncio.sleep(1)
    signal.raise_signal(signal.SIGTERM)
