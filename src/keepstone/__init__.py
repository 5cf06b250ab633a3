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

# Each name is imported on first use, so that Memory does not pay for asyncio, nor the version for numpy.
_MODULES = {
    "AsyncClient": "client.client",
    "AsyncMemory": "aio",
    "Client": "client.client",
    "Memory": "memory",
    "KeepstoneError": "errors",
    "wrap": "integrations.wrap",
    **dict.fromkeys(("Hit", "Message", "Recall", "Receipt", "Record", "Scope"), "types"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'keepstone' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"keepstone.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
