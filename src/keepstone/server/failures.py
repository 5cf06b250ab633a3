"""What callers of a server are told when its own parts fail.

What exactly failed is the operator's affair, and stands in the log: paths, addresses and what others' servers say are not for
everybody.
"""

from __future__ import annotations

from keepstone.errors import (
    IndexUnavailable,
    KeepstoneError,
    ModelError,
    ProviderError,
    StorageFull,
    StoreBusy,
    StoreError,
    StoreUnreachable,
)

_SAID: dict[type[BaseException], str] = {
    StoreBusy: "the store is busy. Nothing was stored by half: try again in a moment.",
    StoreUnreachable: "the store cannot be reached just now. Nothing that was acknowledged is lost: try again in a moment.",
    StorageFull: "the store has no space left. Nothing was stored by half, and reading goes on: tell whoever runs the server.",
    StoreError: "the store cannot do this just now. Nothing was stored by half: tell whoever runs the server.",
    IndexUnavailable: "the index of vectors cannot be reached just now: try again in a moment.",
    ModelError: "the model that was asked has failed: try again, or tell whoever runs the server.",
    ProviderError: "something that the server relies on has failed: try again, or tell whoever runs the server.",
}


def worded(error: KeepstoneError) -> str:
    """An error as a caller reads it: its own words, unless it is about what stands behind the server."""
    return next((_SAID[kind] for kind in type(error).__mro__ if kind in _SAID), str(error))
