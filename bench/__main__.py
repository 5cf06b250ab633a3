"""`python -m bench NAME …`: runs one benchmark. Each prints a table and, last, one JSON object on one line."""

from __future__ import annotations

import importlib
import importlib.util
import sys

NAMES = (
    "speed",
    "torture",
    "dedupe",
    "quality",
    "everyday",
    "facts",
    "converse",
    "year",
    "compaction",
    "guard",
    "fleet",
    "restarts",
    "server",
    "stall",
    "soak",
    "growth",
    "languages",
    "long_texts",
    "encryption",
    "failover",
    "history",
    "hooks",
    "backfill",
    "report",
)


def main(argv: list[str]) -> int:
    """Run the benchmark that the first argument names with the arguments that follow."""
    there = [name for name in NAMES if importlib.util.find_spec(f"bench.{name}") is not None]
    if not argv or argv[0] not in there:
        print(f"usage: python -m bench {{{','.join(there)}}} [--json] …; --help after a name shows its options.")
        return 0 if argv and argv[0] in ("-h", "--help") else 2
    return int(importlib.import_module(f"bench.{argv[0]}").main(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
