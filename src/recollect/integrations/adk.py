"""Google's Agent Development Kit: its session service and its memory service over a recollect store. Imports: the two halves."""

from __future__ import annotations

from recollect.integrations.adk_memory import RecollectMemoryService
from recollect.integrations.adk_sessions import RecollectSessionService

__all__ = ["RecollectMemoryService", "RecollectSessionService"]
