"""A call passes from surface to facade to flow to store and back, and does not wander between packages.

A boundary call is a call from one top-level package of keepstone directly into another; the modules at the root are the package
"facade". Calls through other code (a generated __init__, the standard library, numpy) are not boundary calls.

A hop of an HTTP request is a keepstone module that the request enters for the first time, in any thread, before `Memory.remember`
is called. The modules of the store, which looks up the key of the caller, count as one.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import pytest

import keepstone
from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.server.app import make_app
from keepstone.server.keys import KeyDraft
from keepstone.server.service import Service

ROOT = f"{Path(keepstone.__file__).parent}/"
MAX_BOUNDARY_CALLS = 20
MAX_HTTP_HOPS = 10

Call = tuple[str, str, str]  # module of the caller ("" if it is not keepstone's), module, qualified name


def module_of(frame: FrameType | None) -> str:
    """A module as its path in the package; "" for code of others."""
    path = "" if frame is None else frame.f_code.co_filename
    return path.removeprefix(ROOT) if path.startswith(ROOT) else ""


def package_of(module: str) -> str:
    return module.partition("/")[0] if "/" in module else "facade"


class Tracer:
    """Records the calls of keepstone functions, in every thread started since it was installed, while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[Call] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.on and event == "call" and (module := module_of(frame)):
            self.calls.append((module_of(frame.f_back), module, frame.f_code.co_qualname))

    @contextmanager
    def recording(self) -> Iterator[list[Call]]:
        self.calls = []
        self.on = True
        try:
            yield self.calls
        finally:
            self.on = False


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    tracer = Tracer()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    yield tracer
    sys.setprofile(None)
    threading.setprofile(None)


def boundary_calls(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call[0] and package_of(call[0]) != package_of(call[1])]


VERBS: dict[str, Callable[[Memory, str], Any]] = {
    "remember": lambda memory, text: memory.remember(f"Dana has a {text}."),
    "recall": lambda memory, text: memory.recall(f"Which {text} does Dana have?"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_crosses_few_package_boundaries(tmp_path: Path, tracer: Tracer, verb: str) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        for text in ("cat", "red bicycle", "boat in Oslo", "piano"):
            VERBS["remember"](memory, text)
        VERBS["recall"](memory, "cat")
        if verb == "remember":
            VERBS["remember"](memory, "garden")
        with tracer.recording() as calls:
            VERBS[verb](memory, "cat" if verb == "recall" else "telescope")
    crossed = boundary_calls(calls)
    assert len(crossed) <= MAX_BOUNDARY_CALLS, "\n".join(map(str, crossed))


def test_a_request_reaches_the_facade_in_few_hops(tmp_path: Path, tracer: Tracer) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        service = Service(backend_of(memory))
        key = service.keys.create(KeyDraft("alice"))[0]
        app = make_app(service)

        async def post(content: str) -> int:
            transport = httpx2.ASGITransport(app=app)
            headers = {"authorization": f"Bearer {key}"}
            async with httpx2.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
                return (await client.post("/v1/memories", json={"content": content})).status_code

        async def warm_and_trace() -> list[Call]:
            async with app.router.lifespan_context(app):
                assert await post("Dana has a cat.") == 201
                with tracer.recording() as calls:
                    assert await post("Dana has a boat.") == 201
                return calls

        calls = asyncio.run(warm_and_trace())
    entered = next(at for at, (_, module, name) in enumerate(calls) if (module, name) == ("memory.py", "Memory.remember"))
    modules = (module for _, module, _ in calls[:entered])
    hops = dict.fromkeys("stores" if module.startswith("stores/") else module for module in modules if module != "memory.py")
    assert len(hops) <= MAX_HTTP_HOPS, "\n".join(hops)
