"""What `--peers` of a benchmark calls: reads the options, runs, shows."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers import figures, speed
from bench.peers.environments import FOLDER, NAMES
from bench.peers.stores import Plan

PARTS = {"write": ("add",)}  # of bench speed, as they are called here
KINDS = {"same": ("same",), "usual": ("usual",), "both": ("same", "usual")}


def parse_names(text: str) -> tuple[str, ...]:
    """The memories that --peers names, keepstone first; "all" is every one.

    Raises ValueError for a name that is none.
    """
    named = list(NAMES) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in named if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no peer {unknown[0]!r}: use {', '.join(NAMES)}, or all")
    return tuple(dict.fromkeys(("keepstone", *named)))


def measure_peers(
    names: tuple[str, ...], options: argparse.Namespace, sizes: list[int], machine: dict[str, Any], argv: list[str]
) -> dict[str, Any]:
    """The object that `bench speed --peers` prints."""
    parts = tuple(part for named in options.parts.split(",") for part in PARTS.get(named, (named,)))
    with _folder(options) as folder:
        plan = Plan(names, tuple(sizes), options.rounds, folder, KINDS[options.embedder], parts,
                    options.fill_seconds, options.recall_seconds)  # fmt: skip
        found, versions = speed.measure(plan)
    found["ratios"] = figures.ratios(found)
    machine |= {"commit": figures.commit(), "versions": versions}
    return {"bench": "speed", "machine": machine, "rounds": options.rounds,
            "command": f"python -m bench speed {shlex.join(argv)}", "peers": found}  # fmt: skip


@contextlib.contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    """Where the stores are: kept in the project's .bench, or gone afterwards."""
    base = Path(options.folder) if options.folder else FOLDER
    base.mkdir(parents=True, exist_ok=True)
    if options.keep:
        vectors_file = base / "stores"
        vectors_file.mkdir(exist_ok=True)
        yield vectors_file
        return
    with tempfile.TemporaryDirectory(prefix="stores-", dir=base, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
