"""`keepstone serve` as a process, for the surfaces that go over HTTP: killed and started anew where a test asks for it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.server.keys import KeyDraft, Keys
from tests.cli.support import surroundings

LOOSE = {"KEEPSTONE_MCP_FORGET": "1", "KEEPSTONE_TOOL_WRITES_PER_MINUTE": "100000"}  # forgetting is offered; tests write fast
_PATIENCE = 60


class Served:
    """A server on a store of its own. Its address stays the same over a restart; keys are made on the file beside it."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "served.db"
        self.url = ""
        self.tests = ExitStack()  # what is closed when a test ends
        self._port = _free()
        self._log = (folder / "served.log").open("wb")
        self._users = count(1)
        self.start()
        self._beside = Memory.open(self.store)
        self._keys = Keys(backend_of(self._beside))

    def start(self) -> None:
        """Run it, and wait until it answers."""
        command = [sys.executable, "-m", "keepstone", "serve", "--json", "--workers", "1", "--port", str(self._port)]
        self._process = subprocess.Popen(
            [*command, "--db", str(self.store)],
            cwd=self.store.parent,
            env=surroundings(**LOOSE),
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the server did not start: {self._log.name} says why"
        self.url = json.loads(line)["address"]
        until = time.monotonic() + _PATIENCE
        while not self._answers():
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/healthz", timeout=_PATIENCE).status_code == 200
        except httpx2.TransportError:
            return False

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(_PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def key(self) -> str:
        """A key of a new user."""
        return self._keys.create(KeyDraft(f"user {next(self._users)}"))[0]

    def closing(self, surface: Any) -> Any:
        """A surface that is closed when the test ends."""
        self.tests.callback(surface.close)
        return surface

    def close(self) -> None:
        self._beside.close()
        self.kill()
        self._log.close()


def _free() -> int:
    """A free port below those that the system hands out by itself: after a restart it has to be free again."""
    for each in range(10_000):
        port = 20_000 + (os.getpid() + each) % 10_000
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
