"""Asker: who asks in one call, whose memory is meant, and what they may use.

Over stdio it is whoever started the process; over HTTP it comes with each request anew, from its key. Nothing that a model says
in a call has a part in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio.to_thread

from keepstone.memory import Memory
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.service import Caller

T = TypeVar("T")
OK, REFUSED, FAILED = 200, 400, 500  # how a call ended, as HTTP would say
_USED = frozenset({READ, WRITE, FORGET})


@dataclass(slots=True)
class Count:
    """How a call ended; until somebody says so, badly."""

    status: int = FAILED


@dataclass(frozen=True, slots=True)
class Asker:
    """One call's share of the memory. `person`: not the key of an agent. `caller` is None over stdio."""

    memory: Memory
    rights: frozenset[str]
    person: bool = True
    caller: Caller | None = None

    @classmethod
    def local(cls, memory: Memory, allow_forget: bool) -> Asker:
        """Whoever started this process, with the memory they opened."""
        return cls(memory, _USED if allow_forget else _USED - {FORGET})

    @classmethod
    def remote(cls, caller: Caller) -> Asker:
        """Who sent a request. Forgetting takes a key that may, and a server that offers it."""
        rights = caller.identity.rights & _USED
        if not caller.service.settings.mcp_forget:
            rights -= {FORGET}
        return cls(caller.memory, rights, not caller.identity.bound_to_agent, caller)

    def need(self, *rights: str, person: str | None = None) -> None:
        """Forbidden, with a line in the trail, where the key may not."""
        if self.caller is not None:
            self.caller.need(*rights, person=person)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Call the memory in a worker thread."""
        if self.caller is not None:
            return await self.caller.run(work, *given)
        return await anyio.to_thread.run_sync(work, *given)

    async def compute(self, work: Callable[..., T], *given: Any) -> T:
        """The same for what mostly computes, such as a recall."""
        if self.caller is not None:
            return await self.caller.compute(work, *given)
        return await anyio.to_thread.run_sync(work, *given)

    @contextmanager
    def counted(self, verb: str) -> Iterator[Count]:
        """Count a call among the server's figures."""
        count, begun = Count(), time.perf_counter()
        try:
            yield count
        finally:
            if self.caller is not None and (meter := self.caller.service.meter) is not None:
                meter.verb(f"mcp_{verb}", count.status, time.perf_counter() - begun)
