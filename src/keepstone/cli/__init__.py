"""The command line."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence

from keepstone.cli.interrupts import interrupts_outside_imports


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (by default the one in sys.argv) and return its exit code."""
    try:
        with interrupts_outside_imports():
            arguments = list(sys.argv[1:] if argv is None else argv)
            if argv is None:  # a process of its own: what is imported stays, so it is not searched for garbage
                gc.disable()
                gc.set_threshold(50_000)  # of commands that take longer, which enable it
                atexit.register(gc.freeze)
                os.environ.setdefault(
                    "OPENBLAS_NUM_THREADS", "1"
                )  # products are small: threads that wait for each other cost more
            if arguments[:1] == ["hook"]:  # hooks run all day: they do not pay for the application
                from keepstone.cli.coding_agents import hook_process

                if hook_process.is_hook(arguments):
                    return hook_process.run(arguments)
            from keepstone.cli.app import run

            return run(arguments)
    except KeyboardInterrupt:  # before or after `run`, which handles its own
        return 130
