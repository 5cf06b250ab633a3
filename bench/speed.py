"""How fast keepstone writes, recalls and starts. Run with `python -m bench speed`. Timings are printed, never judged.

Everything is measured in one run on one disk, in turns with what it is compared with, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from bench import cold, reading, writing
from bench.measure import table
from bench.report.stamp import about, command_line
from bench.texts import texts

PARTS = ("write", "recall", "start")


def measure(folder: Path, sizes: list[int], rounds: int, parts: list[str]) -> dict[str, Any]:
    """Every figure of the parts that are asked for."""
    found: dict[str, Any] = {"bench": "speed", "machine": machine(), "rounds": rounds}
    if "write" in parts:
        found["write"] = writing.measure(folder, rounds)
    if "recall" in parts:
        found["recall"] = reading.measure(folder, sizes, rounds)
    if "start" in parts:
        question = texts(1)[0].question
        for size in sizes:
            path = folder / f"scope{size}.db"
            if not path.exists():
                with reading.Memory.open(path) as memory:
                    reading.fill(memory, texts(size))
        usual = folder / f"scope{min(sizes, key=lambda size: abs(size - 10_000))}.db"
        found["start"] = cold.measure(usual, question)
        found["resident"] = {str(size): cold.resident(folder / f"scope{size}.db", question) for size in sizes}
    return found


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "python": platform.python_version(), "sqlite": apsw.sqlite_lib_version(), "numpy": np.__version__,
        "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2), **about(),
    }  # fmt: skip


def show(found: dict[str, Any]) -> None:
    """The figures as tables; three times with a slash between them are p50 / p95 / p99."""
    table("machine", found["machine"])
    for part in ("write", "start", "resident"):
        if part in found:
            table(part, found[part])
    for size, figures in found.get("recall", {}).items():
        table(f"recall at {size} memories", figures)


def size_of(text: str) -> int:
    """A count such as 500, 10k or 1m."""
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text.rstrip("kKmM")) * factor


def _peers(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--peers", help="all, or some of chroma,mem0,langgraph,mempalace,fts5,numpy; keepstone is always there")
    choices = ("same", "usual", "both")
    group.add_argument(
        "--embedder", default="same", choices=choices, help="keepstone's default for all (default), or each one's usual"
    )
    group.add_argument("--keep", action="store_true", help="keep the filled stores, and use those of an earlier run")
    group.add_argument("--fill-seconds", type=float, default=900, help="leave out who fills a store slower (default 900)")
    group.add_argument("--recall-seconds", type=float, default=60, help="stop recalls after this long at one size (default 60)")


def main(argv: list[str]) -> int:
    """Print the tables (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench speed", description=__doc__)
    parser.add_argument("--sizes", default="1k,10k,100k", help="memories in one scope, such as 1k,10k,100k")
    parser.add_argument("--rounds", type=int, default=200, help="calls timed for each figure (default 200)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"which of {', '.join(PARTS)}; with --peers also many")
    parser.add_argument("--folder", help="measure on the disk of this folder (default: the temporary folder's)")
    parser.add_argument("--store", help="measure a shared store, with a hundred memories a scope: postgresql://…, or own")
    parser.add_argument("--processes", type=int, default=1, help="with --store: processes of the clients (default 1)")
    parser.add_argument("--large", help="with --store: one scope of so many memories, before and after it has its own index")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    _peers(parser.add_argument_group("compared with other memories, each in an environment of its own in .bench"))
    options = parser.parse_args(argv)
    sizes = [size_of(each) for each in options.sizes.split(",")]
    if options.peers:
        from bench.peers import command  # with processes of their own

        try:
            names = command.parse_names(options.peers)
        except ValueError as error:
            parser.error(str(error))
        found = command.measure_peers(names, options, sizes, machine(), argv)
        if not options.json:
            table("machine", found["machine"])
            command.figures.show(found["peers"])
        print(json.dumps(found))
        return 0
    if options.store:
        from bench import shared_store  # with packages of their own

        found = {"bench": "speed", "machine": machine(), "rounds": options.rounds}
        if options.large:
            found["large"] = shared_store.large(options.store, options.folder, size_of(options.large), min(options.rounds, 100))
        else:
            found["shared"] = shared_store.measure(options.store, options.folder, sizes, options.rounds, options.processes)
        if not options.json:
            table("machine", found["machine"])
            for size, figures in {
                **found.get("shared", {}),
                **({"one large scope": found["large"]} if options.large else {}),
            }.items():
                table(size, figures)
        print(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory(prefix="keepstone-speed-", dir=options.folder) as folder:
        found = measure(Path(folder), sizes, options.rounds, options.parts.split(",")) | {"command": command_line("speed", argv)}
    if not options.json:
        show(found)
    print(json.dumps(found))
    return 0
