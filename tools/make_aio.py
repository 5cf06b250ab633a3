"""Writes src/recollect/aio.py: AsyncMemory with the signatures of Memory, so that the two cannot drift apart.

    python tools/make_aio.py           # write the file
    python tools/make_aio.py --print   # show it

A test compares the file with what this prints.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "recollect" / "aio.py"
BY_HAND = {"open", "scope", "with_scope", "upkeep", "close"}

HEAD = '''"""AsyncMemory: the verbs of Memory for asyncio, run in worker threads. Made by tools/make_aio.py; do not edit.

The core is synchronous because a call into the embedded store takes microseconds; here it is kept off the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.errors import StoreClosed
from recollect.memory import Memory, Path, Time
from recollect.ports import Progress, Reranker
from recollect.types import {types}

if TYPE_CHECKING:
    from recollect.settings import Settings
    from recollect.upkeep.reembedding import ReembedReport

T = TypeVar("T")


class AsyncUpkeep:
    """What `AsyncMemory.upkeep` offers."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

{upkeep}

class AsyncMemory:
    """What one agent remembers for one scope, for asyncio. The store is opened by the first call that needs it, or by
    `await AsyncMemory.open(…)`, or by `async with AsyncMemory.open(…) as memory`."""

    def __init__(self, opener: _Opener, scope: Scope, view: bool = False) -> None:
        self._opener = opener
        self._scope = scope
        self._view = view  # made by with_scope: closing it leaves the store open

    @classmethod
    def open{open_signature}:
        """{open_doc}"""
        opener = _Opener(
            lambda: Memory.open({open_arguments})
        )
        return cls(opener, Scope(tenant, agent, user))

    @property
    def scope(self) -> Scope:
        """{scope_doc}"""
        return self._scope

    def with_scope{with_scope_signature}:
        """{with_scope_doc}"""
        return AsyncMemory(self._opener, self._scope.narrowed(tenant, agent, user), view=True)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """{upkeep_doc}"""
        return AsyncUpkeep(self)

    def _memory(self) -> Memory:
        scope = self._scope
        memory = self._opener()
        return memory.with_scope(tenant=scope.tenant, agent=scope.agent, user=scope.user) if self._view else memory

    async def _run(self, work: Callable[[Memory], T]) -> T:
        return await asyncio.to_thread(lambda: work(self._memory()))

{methods}
    async def close(self) -> None:
        """{close_doc}"""
        if not self._view:
            await asyncio.to_thread(self._opener.close)
        elif self._opener.opened:
            await self._run(lambda memory: memory.close())

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncMemory:
        await asyncio.to_thread(self._opener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Opener:
    """Opens a Memory once, whoever asks first."""

    def __init__(self, make: Callable[[], Memory]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._memory: Memory | None = None
        self._closed = False

    @property
    def opened(self) -> bool:
        return self._memory is not None

    def __call__(self) -> Memory:
        with self._lock:
            if self._memory is None:
                if self._closed:
                    raise StoreClosed("this memory was closed: open it again.")
                self._memory = self._make()
            return self._memory

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()
'''


def arguments(function: object) -> str:
    """How a method passes its own arguments on."""
    parts = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        parts.append(f"{name}={name}" if parameter.kind is parameter.KEYWORD_ONLY else name)
    return ", ".join(parts)


def signature(function: object, returns: str | None = None) -> str:
    """A signature as source text; annotations are strings already."""
    found = inspect.signature(function)
    if "cls" not in found.parameters and inspect.ismethod(function):
        found = found.replace(
            parameters=[inspect.Parameter("cls", inspect.Parameter.POSITIONAL_OR_KEYWORD), *found.parameters.values()]
        )
    if returns is not None:
        found = found.replace(return_annotation=returns)
    text = str(found)
    for parameter in found.parameters.values():
        for annotation in (parameter.annotation, found.return_annotation):
            if isinstance(annotation, str):
                text = text.replace(repr(annotation), annotation)
    return text


def method(name: str, function: object, through: str) -> str:
    doc = inspect.getdoc(function) or ""
    indented = doc.replace("\n", "\n        ")
    call = f"memory.{through}{name}({arguments(function)})"
    run = "self._run" if not through else "self._memory._run"
    return (
        f"    async def {name}{signature(function)}:\n"
        f'        """{indented}"""\n'
        f"        return await {run}(lambda memory: {call})\n"
    )


def render() -> str:
    sys.path.insert(0, str(TARGET.parent.parent))
    from recollect.memory import Memory
    from recollect.upkeep.jobs import Upkeep

    def doc(name: str) -> str:
        return (inspect.getdoc(getattr(Memory, name)) or "").replace("\n", "\n        ")

    public = [name for name in vars(Memory) if not name.startswith("_") and name not in BY_HAND]
    methods = "\n".join(method(name, getattr(Memory, name), "") for name in public)
    types = sorted(
        name for name in ("AuditRow", "Diagnosis", "Explanation", "ForgetReceipt", "ImportReport", "Message", "Page", "Recall",
                          "Receipt", "Record", "Scope", "Version") if name in methods or name == "Scope"
    )  # fmt: skip
    text = HEAD
    for slot, value in {
        "types": ", ".join(types),
        "upkeep": "\n".join(method(name, function, "upkeep.") for name, function in vars(Upkeep).items() if name[0] != "_"),
        "open_signature": signature(Memory.open, "AsyncMemory"),
        "open_doc": doc("open"),
        "open_arguments": arguments(Memory.open),
        "scope_doc": doc("scope"),
        "with_scope_signature": signature(Memory.with_scope, "AsyncMemory"),
        "with_scope_doc": doc("with_scope"),
        "upkeep_doc": doc("upkeep"),
        "methods": methods,
        "close_doc": doc("close"),
    }.items():
        text = text.replace("{" + slot + "}", value)
    ruff = [sys.executable, "-m", "ruff"]
    checked = subprocess.run([*ruff, "check", "--select", "I,F401", "--fix-only", "-q", "--stdin-filename", str(TARGET), "-"],
                             input=text, capture_output=True, text=True, check=True).stdout  # fmt: skip
    return subprocess.run([*ruff, "format", "--stdin-filename", str(TARGET), "-"], input=checked, capture_output=True,
                          text=True, check=True).stdout  # fmt: skip


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(render(), end="")
    else:
        TARGET.write_text(render(), encoding="utf-8")
