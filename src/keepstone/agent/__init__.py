"""An agent with a memory, and the results of its turns."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keepstone.agent.functions import Tool
    from keepstone.agent.memory_agent import MemoryAgent
    from keepstone.agent.turns import Outcome, Reply, Step

__all__ = ["MemoryAgent", "Outcome", "Reply", "Step", "Tool"]

_MODULES = {"MemoryAgent": "memory_agent", "Outcome": "turns", "Reply": "turns", "Step": "turns", "Tool": "functions"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'keepstone.agent' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"keepstone.agent.{_MODULES[name]}"), name)
    return value
