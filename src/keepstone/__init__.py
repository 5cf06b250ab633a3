"""keepstone: persistent memory for AI agents.

>>> from keepstone import Memory
>>> memory = Memory.open(":memory:")
>>> memory.remember("Dana prefers dark mode.").action
'added'
>>> memory.close()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstone.aio import AsyncMemory
    from keepstone.client.client import AsyncClient, Client
    from keepstone.errors import KeepstoneError
    from keepstone.integrations.wrap import wrap
    from keepstone.memory import Memory
    from keepstone.types import Hit, Message, Recall, Receipt, Record, Scope

__version__ = "0.2.0"
__all__ = [
    "AsyncClient",
    "AsyncMemory",
    "Client",
    "Hit",
    "KeepstoneError",
    "Memory",
    "Message",
    "Recall",
    "Receipt",
    "Record",
    "Scope",
    "__version__",
    "wrap",
]

# Each name is imported when it is first used: whoever wants Memory does not pay for asyncio, nor a script that only asks
# for the version for numpy.
_ROOMS = {
    "AsyncClient": "client.client",
    "AsyncMemory": "aio",
    "Client": "client.client",
    "Memory": "memory",
    "KeepstoneError": "errors",
    "wrap": "integrations.wrap",
    **dict.fromkeys(("Hit", "Message", "Recall", "Receipt", "Record", "Scope"), "types"),
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'keepstone' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"keepstone.{_ROOMS[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
