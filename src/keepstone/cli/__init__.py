"""The command line."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_RETRY_SECONDS = 0.05  # after which a Ctrl-C during an import is raised again
_IMPORT_FILES = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


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


@contextmanager
def interrupts_outside_imports() -> Iterator[None]:
    """While it is entered, Ctrl-C during an import raises KeyboardInterrupt once the import is complete.

    Raised within an import, it leaves modules half loaded for the rest of the process, and Python prints a traceback where
    one of its own callbacks is interrupted. An ignored SIGINT, as in a background job, stays ignored.
    """
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not on_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if hasattr(signal, "pthread_kill") and _is_importing(frame):
        retry = threading.Timer(_RETRY_SECONDS, signal.pthread_kill, (threading.main_thread().ident, number))
        retry.daemon = True
        retry.start()
        return
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename in _IMPORT_FILES:
            return True
        frame = frame.f_back
    return False
