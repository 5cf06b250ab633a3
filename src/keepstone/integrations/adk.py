"""Google's Agent Development Kit: its session service and its memory service over a keepstone store."""

from __future__ import annotations

from keepstone.integrations.adk_memory import KeepstoneMemoryService
from keepstone.integrations.adk_sessions import KeepstoneSessionService

__all__ = ["KeepstoneMemoryService", "KeepstoneSessionService"]
