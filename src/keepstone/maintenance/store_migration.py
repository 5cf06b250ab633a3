"""Moving a store: both are opened here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, cast

from keepstone.encryption_keys import encryption_key
from keepstone.errors import ConfigurationError
from keepstone.open import open_store, path_of
from keepstone.ports.stores import Progress
from keepstone.ports.values import StoreOptions
from keepstone.settings import Settings
from keepstone.stores.common.store import CommonStore
from keepstone.stores.common.store_copy import Moved, Mover
from keepstone.stores.sqlite.encryption import change_key
from keepstone.text import times

__all__ = ["Moved", "change_encryption", "move_store"]

_ALONE_SECONDS = 2.0  # for processes that are just closing the file
_LONG = 3600.0  # seconds that one statement may take: a whole tenant may have to be taken out again


def move_store(
    source: str | PathLike[str],
    target: str | PathLike[str],
    *,
    tenant: str | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Moved:
    """Copy a whole store, or one tenant of it, into an empty store. Both may be files or URLs.

    Neither store may be written to meanwhile. After an interruption, the same call continues. When it returns, every row has
    been compared. With `tenant`, only this tenant is copied, with the audit log of operations on the whole store.

    >>> memory.backup("old.db")
    >>> move_store("old.db", "new.db").records
    1"""
    origin, goal = path_of(source), path_of(target)
    _check(origin, goal)
    chosen = Settings.load(settings)
    options = StoreOptions(chosen.durable, chosen.busy_timeout, max(chosen.statement_timeout, _LONG), encryption_key(chosen))
    with closing(open_store(origin, options, times.now)) as opened:
        mover = Mover(cast(CommonStore, opened), tenant, progress)  # a wrong source is refused before there is a target
        with closing(open_store(goal, options, times.now)) as taken:
            return mover.into(cast(CommonStore, taken))


def change_encryption(target: str | PathLike[str], old: str | None, new: str | None) -> None:
    """Write a store file anew under another key; None: it is not encrypted. No process may have it open; a kill leaves the old
    file or the new one."""
    path = path_of(target)
    if path == ":memory:" or "://" in path:
        raise ConfigurationError(f"{path.partition('://')[0]} is no file: encrypt the disk of a database server.")
    change_key(path, old, new, _ALONE_SECONDS)


def _check(origin: str, goal: str) -> None:
    if ":memory:" in (origin, goal):
        raise ConfigurationError("':memory:' ends with its process: name a file or a URL to move from and one to move to.")
    if "://" not in origin and not os.path.lexists(origin):
        raise ConfigurationError(f"there is no store at {origin}: check the path that is moved from.")
    files = "://" not in origin and "://" not in goal
    if origin == goal or (files and Path(origin).resolve() == Path(goal).resolve()):
        raise ConfigurationError("a store cannot be moved into itself: name another target.")
