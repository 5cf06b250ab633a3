"""Resets objects in a forked child, where the parent's threads, locks and connections cannot be used."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

_resets: set[weakref.WeakMethod[Callable[[], None]]] = set()


def reset_after_fork(method: Callable[[], None]) -> None:
    """Call a bound method in every forked child, for as long as its object exists."""
    _resets.add(weakref.WeakMethod(method, _resets.discard))


def _reset_all() -> None:
    for reference in list(_resets):
        method = reference()
        if method is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
