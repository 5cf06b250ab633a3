"""A load on an HTTP server: so many connections that ask one after the other, kept alive.

It speaks just enough HTTP to cost little beside the server it measures: each request is made ahead, an answer is read by its
Content-Length. It goes to this machine only, for a bounded time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Load:
    """What a load came to: how long each answer took (seconds), and how many came with which status."""

    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    broken: int = 0

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds if self.seconds else 0.0

    @property
    def errors(self) -> int:
        return self.broken + sum(count for status, count in self.statuses.items() if not 200 <= status < 300)


def request(method: str, path: str, key: str | None, body: bytes = b"") -> bytes:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json"] * bool(body) + [f"Authorization: Bearer {key}"] * bool(key)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def run(port: int, requests: Callable[[], Iterator[bytes]], connections: int, seconds: float) -> Load:
    """Let each of some connections send what `requests` gives, one after the other, for so long."""
    return asyncio.run(run_on(port, requests, connections, seconds))


async def run_on(port: int, requests: Callable[[], Iterator[bytes]], connections: int, seconds: float) -> Load:
    """The same in this event loop."""
    load = Load()
    given = requests()
    begun = time.perf_counter()
    await asyncio.gather(*(_ask(port, given, load, begun + seconds) for _ in range(connections)))
    load.seconds = time.perf_counter() - begun
    return load


async def _ask(port: int, given: Iterator[bytes], load: Load, until: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while (begun := time.perf_counter()) < until:
            try:
                writer.write(next(given))
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(_length(head))
            except (OSError, asyncio.IncompleteReadError, ValueError):
                load.broken += 1
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                continue
            load.times.append(time.perf_counter() - begun)
            load.statuses[int(head[9:12])] += 1
    finally:
        writer.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError("an answer without a length")
