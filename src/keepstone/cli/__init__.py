"""The command line."""

from __future__ import annotations

from collections.abc import Sequence

from keepstone.cli.interrupts import interrupts_outside_imports


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (by default the one in sys.argv) and return its exit code."""
    try:
        with interrupts_outside_imports():
            from keepstone.cli.app import run

            return run(argv)
    except KeyboardInterrupt:  # before or after `run`, which handles its own
        return 130
