"""recollect: persistent memory for AI agents.

>>> from recollect import Memory
>>> memory = Memory.open(":memory:")
>>> memory.remember("Dana prefers dark mode.").action
'added'
>>> memory.close()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.aio import AsyncMemory
    from recollect.client.aio import AsyncClient
    from recollect.client.client import Client
    from recollect.errors import RecollectError
    from recollect.integrations.wrap import wrap
    from recollect.memory import Memory
    from recollect.types import Hit, Message, Recall, Receipt, Record, Scope

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "AsyncMemory",
    "Client",
    "Hit",
    "Memory",
    "Message",
    "Recall",
    "Receipt",
    "RecollectError",
    "Record",
    "Scope",
    "__version__",
    "wrap",
]

# Each name is imported when it is first used: whoever wants Memory does not pay for asyncio, nor a script that only asks
# for the version for numpy.
_ROOMS = {
    "AsyncClient": "client.aio",
    "AsyncMemory": "aio",
    "Client": "client.client",
    "Memory": "memory",
    "RecollectError": "errors",
    "wrap": "integrations.wrap",
    **dict.fromkeys(("Hit", "Message", "Recall", "Receipt", "Record", "Scope"), "types"),
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"recollect.{_ROOMS[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
