"""What tests of several frameworks are given. And the OpenAI Agents SDK, a package named "agents" as a folder of tests is that
pytest puts on the path before it: it is imported first, without that folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone import Client, Memory
from tests.server.running import running

_TESTS = str(Path(__file__).parent.parent.parent)
_path = sys.path
sys.path = [each for each in _path if each != _TESTS]
try:
    import agents  # noqa: F401
finally:
    sys.path = _path


@pytest.fixture(params=["library", "server"])
def given(request: pytest.FixtureRequest, memory: Memory) -> Iterator[Memory | Client]:
    """A memory as a library, and one on a server."""
    if request.param == "library":
        yield memory
        return
    with running(memory) as server, Client(server.url, server.key("apps", service=True)) as client:
        yield client
