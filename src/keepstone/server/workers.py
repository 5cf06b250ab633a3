"""Several processes behind one address.

Processes that wait at one socket do not share what comes: of connections that come together the first that wakes takes all. So on
Linux each worker has a socket of its own at the same address, and the kernel divides new connections among them. Elsewhere they
wait at one.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

BACKLOG = 2048  # connections that wait to be taken
_START = 60.0  # seconds that a worker may take until it answers


class WorkerPool(Multiprocess):
    """Workers, started and kept; `begun` is called once all of them answer."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, begun: Callable[[], None]) -> None:
        super().__init__(config, [_divided(listening)])
        self._begun = begun

    def init_processes(self) -> None:
        super().init_processes()
        if all(process.wait_until_ready(_START, self.should_exit) for process in self.processes):
            self._begun()


class Divided(socket.socket):
    """A place at an address, kept by the process that starts the others: sent to one of them, it is a socket of its own there."""

    def __reduce__(self) -> Any:
        return _place, (self.family, self.getsockname(), True)


def _divided(listening: socket.socket) -> socket.socket:
    """A socket that every worker makes its own of, where the kernel can divide connections; else the one there is."""
    if sys.platform != "linux":
        return listening
    family, address = listening.family, listening.getsockname()
    listening.close()  # nobody may listen there who would not take what comes
    return _place(family, address, False)


def _place(family: int, address: Any, listens: bool) -> Divided:
    made = Divided(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
        if listens:
            made.listen(BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
