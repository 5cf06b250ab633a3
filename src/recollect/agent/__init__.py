"""An agent with a memory, and what its turns give. Imports: the rooms beside it, when they are asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.agent.functions import Tool
    from recollect.agent.memory_agent import MemoryAgent
    from recollect.agent.turns import Outcome, Reply, Step

__all__ = ["MemoryAgent", "Outcome", "Reply", "Step", "Tool"]

_ROOMS = {"MemoryAgent": "memory_agent", "Outcome": "turns", "Reply": "turns", "Step": "turns", "Tool": "functions"}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'recollect.agent' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"recollect.agent.{_ROOMS[name]}"), name)
    return value
