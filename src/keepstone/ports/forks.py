"""Resets objects in a forked child, where the parent's threads, locks and connections cannot be used."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

_resets: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def reset_after_fork(method: Callable[[], None]) -> None:
    """Call a bound method in every forked child, for as long as its object exists; one method per object."""
    assert isinstance(method, MethodType)
    _resets[method.__self__] = method.__func__


def _reset_all() -> None:
    for owner, function in list(_resets.items()):
        function(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
