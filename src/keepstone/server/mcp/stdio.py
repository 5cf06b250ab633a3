"""MCP over standard input and output, for the one client that started this process.

Standard output carries only the protocol: meanwhile, prints go to standard error.
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
from keepstone.server.mcp.caller import McpCaller
from keepstone.server.mcp.server import make_server

_CLOSE_SECONDS = 5.0


def serve(memory: Memory, allow_forget: bool = False) -> None:
    """Serve until the client closes standard input, or SIGTERM or SIGINT arrives."""
    caller = McpCaller.over_stdio(memory, allow_forget)
    server = make_server(lambda context: caller)

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _make_exit_handler(memory))
    try:
        anyio.run(run)
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client has ended


def _make_exit_handler(memory: Memory) -> Callable[[int, Any], None]:
    """A signal handler that closes the store and ends the process. A thread blocks on standard input and only the client can
    wake it, so the process exits at once; another thread does this, because a handler may interrupt any code."""

    def close_and_exit() -> None:
        closing = threading.Thread(target=memory.close, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
        os._exit(0)

    return lambda number, frame: threading.Thread(target=close_and_exit, daemon=True).start()
