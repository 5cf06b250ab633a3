"""MCP over standard input and output, for one client that started this process.

Standard output carries the protocol and nothing else: while it is served, whatever prints goes to standard error.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from keepstone.memory import Memory
from keepstone.server.mcp.caller import Asker
from keepstone.server.mcp.protocol import make_server

_PATIENCE = 5.0  # seconds that closing the store may take when this process is told to end


def serve(memory: Memory, allow_forget: bool = False) -> None:
    """Answer until the client closes our standard input, or SIGTERM or SIGINT comes."""
    asker = Asker.local(memory, allow_forget)
    server = make_server(lambda context: asker)

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leaving(memory))
    try:
        anyio.run(run)
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client has gone without a word


def _leaving(memory: Memory) -> Callable[[int, Any], None]:
    """A signal's handler that closes the store and ends the process: a thread is blocked reading standard input, and nothing but
    the client could wake it. The handler itself may stand inside anything, so another thread does the work."""

    def leave() -> None:
        closing = threading.Thread(target=memory.close, daemon=True)
        closing.start()
        closing.join(_PATIENCE)
        os._exit(0)

    return lambda number, frame: threading.Thread(target=leave, daemon=True).start()
