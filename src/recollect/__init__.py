"""recollect: persistent memory for AI agents.

>>> from recollect import Memory
>>> memory = Memory.open(":memory:")
>>> memory.remember("Dana prefers dark mode.").action
'added'
>>> memory.close()
"""

from recollect.aio import AsyncMemory
from recollect.errors import RecollectError
from recollect.memory import Memory
from recollect.types import Hit, Message, Recall, Receipt, Record, Scope

__version__ = "0.1.0"
__all__ = [
    "AsyncMemory",
    "Hit",
    "Memory",
    "Message",
    "Recall",
    "Receipt",
    "RecollectError",
    "Record",
    "Scope",
    "__version__",
]
