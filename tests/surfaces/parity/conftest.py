"""`connect`: a memory reached over one surface after the other. A test that asks for it, and says which behaviour it proves, runs
on every surface that offers that behaviour. What a surface runs on (a server, processes, an event loop) is made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.surfaces.parity import commands
from tests.surfaces.parity.manifest import offering
from tests.surfaces.parity.mcp_tools import OverMcpHttp, OverPipes, Pipes
from tests.surfaces.parity.served import Served
from tests.surfaces.parity.surfaces import OverHttp, OverHttpAsync, Surface, library


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "connect" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("behaviour")
        assert mark is not None, f"{metafunc.definition.name} names no behaviour: add @proves(…)"
        metafunc.parametrize("connect", offering(mark.args[0]), indirect=True)


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread, for the clients that need one."""
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of the surfaces that go over HTTP."""
    made = Served(tmp_path_factory.mktemp("served"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def pipes(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Pipes]:
    """The processes that speak MCP over pipes."""
    made = Pipes(tmp_path_factory.mktemp("piped"), portal)
    yield made
    made.close()


Given = Callable[[str], Any]


def _library(given: Given) -> Iterator[Surface]:
    made = library(given("path"))
    yield made
    made.memory.close()


def _over_http(given: Given, make: Callable[[Served], Surface]) -> Iterator[Surface]:
    served: Served = given("served")
    with served.tests:
        yield make(served)


def _over_pipes(given: Given) -> Iterator[Surface]:
    pipes: Pipes = given("pipes")
    yield OverPipes(pipes)
    pipes.empty()


def _commands(given: Given) -> Iterator[Surface]:
    yield commands.on_a_file(given("tmp_path"))


_MAKE: dict[str, Callable[[Given], Iterator[Surface]]] = {
    "library": _library,
    "client": lambda given: _over_http(given, lambda served: served.closing(OverHttp(served))),
    "async-client": lambda given: _over_http(given, lambda served: served.closing(OverHttpAsync(served, given("portal")))),
    "mcp-stdio": _over_pipes,
    "mcp-http": lambda given: _over_http(given, lambda served: OverMcpHttp(served, given("portal"))),
    "cli": _commands,
    "cli-http": lambda given: _over_http(given, lambda served: commands.over_http(given("tmp_path"), served)),
}


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Surface]:
    """An empty memory, over the surface that it is this test's turn to use."""
    yield from _MAKE[request.param](request.getfixturevalue)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Where an export may be."""
    return tmp_path / "export.jsonl"
