"""The command line."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (by default the one in sys.argv) and return its exit code."""
    try:
        from keepstone.cli.app import run

        return run(argv)
    except KeyboardInterrupt:  # so early, or so late, that nothing else could see it
        return 130
