"""A server of keepstone's own on a real socket, in a thread of the tests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn

from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.engine import Engine
from keepstone.server.app import make_app
from keepstone.server.keys import KeyDraft
from keepstone.server.service import Service


@dataclass
class Running:
    """A server that answers at `url`; `key(...)` makes keys for it, `http(key, ...)` a client with one."""

    url: str
    service: Service
    memory: Memory
    clients: list[httpx2.Client] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        return self.memory._engine

    def key(self, name: str = "alice", **given: Any) -> str:
        return self.service.keys.create(KeyDraft(name, **given))[0]

    def http(self, key: str | None = None, **headers: str) -> httpx2.Client:
        """A client that sends a key (None: that of a new user alice) and these headers (underscores stand for dashes)."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["authorization"] = f"Bearer {self.key() if key is None else key}"
        client = httpx2.Client(base_url=self.url, headers=sent, timeout=30, verify=False)  # no TLS here: certificates take 20 ms
        self.clients.append(client)
        return client


class Prompt(uvicorn.Server):
    """A server that ends when it is told to. uvicorn's own looks every tenth of a second, and waits for another in the end: as
    long as many a test takes. How that one ends is seen in test_serve."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """Tell it, from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), 0.1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(0.002)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()


@contextmanager
def running(memory: Memory, **options: Any) -> Iterator[Running]:
    """Serve a memory until the block ends; options are those of Service."""
    service = Service(backend_of(memory), **options)
    app = make_app(service)
    # On a busy machine a client may use a connection that uvicorn closes after its default of five idle seconds.
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, ws="none", lifespan="on", timeout_keep_alive=75)
    server = Prompt(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ticks = threading.Event()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        ticks.wait(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    service.address = f"http://127.0.0.1:{port}"
    made = Running(service.address, service, memory)
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        server.end()
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"
