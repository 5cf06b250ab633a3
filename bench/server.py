"""What a server does under load, server and generator on one machine. Run with `python -m bench server`.

A store with so many memories of one user is served; then, alternating with a bare FastAPI application that only echoes JSON,
recalls and durable adds come over as many connections as are named. Errors are responses without success, and
connections that broke. `resident` is the memory of all server processes once the scope is loaded, and after each part.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.load import Load, request, run
from bench.measure import percentile, progress, table
from bench.reading import fill
from bench.speed import machine
from bench.texts import Text, texts
from keepstone import Memory

ECHO = """
import sys
import uvicorn
from fastapi import FastAPI, Request

app = FastAPI(docs_url=None, redoc_url=None)

@app.post("/echo")
async def echo(request: Request) -> dict:
    return await request.json()

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_config=None, access_log=False, ws="none", workers=1)
"""


def measure(memories: int, seconds: float, connections: int, workers: int) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        store, told = Path(folder) / "memory.db", texts(memories)
        progress(f"storing {memories} memories")
        with Memory.open(store) as memory:
            fill(memory, told)
        with _server(store, workers) as (port, key, process), _echo(Path(folder)) as echo_port:
            found = _parts(port, key, echo_port, process, told, seconds, connections)
    return {
        "bench": "server",
        "machine": machine(),
        "memories": memories,
        "connections": connections,
        "workers": workers,
        **found,
    }


def _parts(
    port: int, key: str, echo_port: int, process: psutil.Process, told: list[Text], seconds: float, connections: int
) -> dict[str, Any]:
    recalls = [request("POST", "/v1/recall", key, json.dumps({"query": each.question}).encode()) for each in told[:2000]]
    bodies = [request("POST", "/echo", None, each.rpartition(b"\r\n\r\n")[2]) for each in recalls]
    run(port, lambda: itertools.cycle(recalls), connections, min(5.0, seconds))  # the scope is loaded once
    resident = [_resident(process)]
    parts: dict[str, Load] = {}
    progress("echo, recalls, adds, both, echo")
    parts["echo"] = run(echo_port, lambda: itertools.cycle(bodies), connections, min(10.0, seconds))
    parts["recall"] = run(port, lambda: itertools.cycle(recalls), connections, seconds)
    resident.append(_resident(process))
    parts["add"] = run(port, lambda: _adds(key), connections, seconds)
    resident.append(_resident(process))
    parts["both"] = run(port, lambda: _mixed(recalls, key), connections, seconds)
    resident.append(_resident(process))
    parts["echo again"] = run(echo_port, lambda: itertools.cycle(bodies), connections, min(10.0, seconds))
    return {**{name: _figures(load) for name, load in parts.items()}, "resident": resident}


def _adds(key: str) -> Iterator[bytes]:
    """A new sentence each time."""
    drawn = random.Random(7)
    for at in itertools.count():
        words = " ".join(f"{drawn.choice(_WORDS)}{drawn.randrange(1000)}" for _ in range(6))
        yield request("POST", "/v1/memories", key, json.dumps({"content": f"Note {at}: {words}.", "kind": "note"}).encode())


_WORDS = "river copper lantern meadow orbit velvet harbour cedar piano glacier saffron bridge".split()


def _mixed(recalls: list[bytes], key: str) -> Iterator[bytes]:
    """Four questions to one thing to remember."""
    asked, told = itertools.cycle(recalls), _adds(key)
    while True:
        for _ in range(4):
            yield next(asked)
        yield next(told)


def _figures(load: Load) -> dict[str, Any]:
    shown = {name: round(1000 * percentile(load.times, at), 2) for name, at in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    return {"requests": len(load.times), "per_second": round(load.rate, 1), "ms": shown, "errors": load.errors}


def _resident(process: psutil.Process) -> int:
    """Megabytes of a process and its children."""
    alive = [process, *process.children(recursive=True)]
    return round(sum(each.memory_info().rss for each in alive) / 1e6)


@contextlib.contextmanager
def _server(store: Path, workers: int) -> Iterator[tuple[int, str, psutil.Process]]:
    command = [sys.executable, "-m", "keepstone", "serve", "--db", str(store), "--port", "0", "--workers", str(workers), "--json"]
    environment = {**os.environ, "KEEPSTONE_REQUESTS_PER_MINUTE": "0"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            told = json.loads((process.stdout or sys.stdin).readline())
            port = int(told["address"].rpartition(":")[2])
            _answering(port)
            yield port, told["key"], psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def _echo(folder: Path) -> Iterator[int]:
    script = folder / "echo.py"
    script.write_text(ECHO)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, str(script), str(port)], env={**os.environ}) as process:
        try:
            _answering(port)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _answering(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def main(argv: list[str]) -> int:
    """`python -m bench server`."""
    parser = argparse.ArgumentParser(prog="python -m bench server", description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each part")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    given = parser.parse_args(argv)
    found = measure(given.memories, given.seconds, given.connections, given.workers)
    if not given.json:
        table("machine", found["machine"])
        for part in ("echo", "recall", "add", "both", "echo again"):
            table(part, found[part])
        table("resident MB", dict(zip(("warm", "after recalls", "after adds", "after both"), found["resident"], strict=True)))
    print(json.dumps(found))
    return 0
