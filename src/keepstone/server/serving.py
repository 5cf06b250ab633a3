"""Serving: from a target and a port to a running server, and its end.

Sockets are bound before anything else, so that a port that is taken is said at once and nothing was made for nothing. With
several workers each is a process with a memory of its own on the same store; they share the address. Ending is graceful: nothing
new is taken, what is under way is answered, then the store is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from keepstone.errors import ConfigurationError
from keepstone.memory import Memory, engine_of
from keepstone.server import logs, tracing
from keepstone.server.app import make_app
from keepstone.server.service import Service
from keepstone.server.workers import BACKLOG, WorkerPool
from keepstone.settings import Settings

PORT = 8700
_NEXT = 20  # ports that are tried when the usual one is taken
_PATIENCE = 15  # seconds that requests under way have to end in


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve and where. `port` None: the usual one, or the next that is free."""

    target: str
    embedder: str | None = None
    model: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    workers: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)


def usual_workers(target: str) -> int:
    """How many processes answer where nobody says: Python computes on one core at a time. What is only in memory has one."""
    return 1 if target == ":memory:" or (os.cpu_count() or 1) == 1 else 2


def bound(serving: Serving) -> socket.socket:
    """A socket that listens where the server is to answer; ConfigurationError says who may have it, and what to do."""
    ports = range(PORT, PORT + _NEXT) if serving.port is None else [serving.port]
    taken: OSError | None = None
    for port in ports:
        try:
            return _listening(serving.host, port)
        except OSError as error:
            taken = error
            if error.errno != errno.EADDRINUSE:
                break
    place = f"{serving.host}:{ports[0]}"
    if taken is not None and taken.errno == errno.EADDRINUSE:
        raise ConfigurationError(f"something listens at {place} already: stop it, or name another port: --port {ports[0] + 1}.")
    if taken is not None and taken.errno == errno.EACCES:
        raise ConfigurationError(f"this process may not listen at {place}: name a port above 1023 with --port.")
    raise ConfigurationError(f"cannot listen at {place} ({taken}): name another address with --host, or another --port.")


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise ConfigurationError(f"--host {host!r:.80} is no address of this machine ({error}): use 127.0.0.1.") from None
    made = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere this would let two servers share a port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
        made.setblocking(False)
        made.set_inheritable(True)
    except BaseException:
        made.close()
        raise
    return made


def address_of(listening: socket.socket) -> str:
    """Where a browser on this machine finds the server."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def serve(serving: Serving, listening: socket.socket, ready: Callable[[Service], Callable[[], None]]) -> None:
    """Answer until SIGINT or SIGTERM. `ready` is called with the open store before the first request is answered; what it gives
    is called when requests may come."""
    address = address_of(listening)
    with _Ending() as ending, _opened(serving) as memory:
        begun = ready(_service(memory, serving, address))
        if serving.workers == 1:
            begun()
            server = uvicorn.Server(_config(_application(memory, serving, address)))
            ending.begin(lambda: setattr(server, "should_exit", True), lambda: server.run(sockets=[listening]))
            return
        memory.close()
        several = _several(serving, listening, address, begun)
        ending.begin(several.should_exit.set, several.run)


class _Ending:
    """SIGINT and SIGTERM ask for the end and kill nothing, from the first moment to the last: uvicorn has handlers of its own
    only while it runs, and raises what it took once more when it has ended, before the store is closed."""

    def __init__(self) -> None:
        self._asked = False
        self._then: Callable[[], object] = lambda: None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Ending:
        for each in (signal.SIGTERM, signal.SIGINT):
            self._before[each] = signal.signal(each, self._ask)
        return self

    def begin(self, then: Callable[[], object], run: Callable[[], object]) -> None:
        """Run something that `then` ends, unless the end was asked for already."""
        self._then = then
        if not self._asked:
            run()

    def _ask(self, *_: object) -> None:
        self._asked = True
        self._then()

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def _opened(serving: Serving) -> Iterator[Memory]:
    embedder = serving.embedder or "auto"
    memory = Memory.open(serving.target, embedder=embedder, model=serving.model, settings=serving.settings)
    try:
        yield memory
    finally:
        memory.close()


def _service(memory: Memory, serving: Serving, address: str) -> Service:
    from keepstone.server.rates import Buckets
    from keepstone.server.tokens import make_verifier

    settings: Settings = engine_of(memory).settings
    verifier = make_verifier(settings, (settings.public_url or address).rstrip("/"))
    return Service(memory, verifier=verifier, rates=Buckets(share=serving.workers), address=address)


def _application(memory: Memory, serving: Serving, address: str) -> FastAPI:
    logs.configure()
    if engine_of(memory).settings.telemetry:
        tracing.set_up()
    return make_app(_service(memory, serving, address))


def _config(app: Any, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app, http=_protocol(), log_config=None, access_log=False, ws="none", lifespan="on", server_header=False, date_header=True,
        timeout_graceful_shutdown=_PATIENCE, timeout_keep_alive=75, backlog=BACKLOG, h11_max_incomplete_event_size=65536, **more,
    )  # fmt: skip


def _protocol() -> Any:
    """What reads requests: httptools where there is one, with bounds of our own; h11 has some."""
    try:
        from keepstone.server.connections import Connection
    except ImportError:
        return "h11"
    return Connection


def _several(serving: Serving, listening: socket.socket, address: str, begun: Callable[[], None]) -> WorkerPool:
    """What starts the workers and keeps them."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    config = _config(
        partial(worker, serving, address, os.getpid()), factory=True, workers=serving.workers, timeout_worker_healthcheck=60
    )
    made = WorkerPool(config, listening, begun)
    for each, handler in before.items():  # it looks at its own only twice a second
        signal.signal(each, handler)
    return made


def worker(serving: Serving, address: str, parent: int) -> FastAPI:
    """The application of one worker process."""
    memory = Memory.open(serving.target, embedder=serving.embedder or "auto", model=serving.model, settings=serving.settings)
    app = _application(memory, serving, address)

    @contextlib.asynccontextmanager
    async def living() -> AsyncIterator[None]:
        watching = asyncio.create_task(_ended_with(parent))
        try:
            yield
        finally:
            watching.cancel()
            memory.close()

    app.state.parts.insert(0, living)
    return app


async def _ended_with(parent: int) -> None:
    """End this process once the one that started it is gone, however it went."""
    while os.getppid() == parent:
        await asyncio.sleep(1)
    signal.raise_signal(signal.SIGTERM)
