"""Ctrl-C outside imports only."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_RETRY_SECONDS = 0.05
_IMPORT_FILES = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


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
