"""McpCaller: who makes an MCP call, and what they may use.

Over stdio it is the user who started the process; over HTTP it comes with each request, from its key. The arguments of a call
have no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio.to_thread

from keepstone.backend import Backend, backend_of
from keepstone.memory import Memory
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.service import Caller

T = TypeVar("T")
_MCP_RIGHTS = frozenset({READ, WRITE, FORGET})


@dataclass(frozen=True, slots=True)
class McpCaller:
    """The caller of one MCP request. `person`: not an agent's key. `http` is None over stdio."""

    memory: Memory
    rights: frozenset[str]
    person: bool = True
    http: Caller | None = None

    @classmethod
    def over_stdio(cls, memory: Memory, allow_forget: bool) -> McpCaller:
        return cls(memory, _MCP_RIGHTS if allow_forget else _MCP_RIGHTS - {FORGET})

    @classmethod
    def over_http(cls, caller: Caller) -> McpCaller:
        """Forgetting needs both a key with that right and the setting mcp_forget."""
        rights = caller.identity.rights & _MCP_RIGHTS
        if not caller.service.settings.mcp_forget:
            rights -= {FORGET}
        return cls(caller.memory, rights, not caller.identity.bound_to_agent, caller)

    @property
    def backend(self) -> Backend:
        """The store of the memory, with the rights of the key."""
        return backend_of(self.memory) if self.http is None else self.http.backend

    def require(self, *rights: str, person: str | None = None) -> None:
        """Forbidden, and audited, if the key lacks a right."""
        if self.http is not None:
            self.http.require(*rights, person=person)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call the memory in a worker thread."""
        if self.http is not None:
            return await self.http.run(work, *args)
        return await anyio.to_thread.run_sync(work, *args)

    async def compute(self, work: Callable[..., T], *args: Any) -> T:
        """Call something that mostly computes, such as a recall."""
        if self.http is not None:
            return await self.http.compute(work, *args)
        return await anyio.to_thread.run_sync(work, *args)
