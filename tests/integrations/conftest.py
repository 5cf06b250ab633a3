"""What tests of several adapters share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone import Client, Memory
from tests.server.running import running
from tests.servers import emptied


@pytest.fixture(params=["library", "server"])
def either(request: pytest.FixtureRequest, path: Path) -> Iterator[Memory | Client]:
    """A memory of Dana's: opened here, or asked for over HTTP."""
    with Memory.open(path) as opened:
        if request.param == "library":
            yield opened.with_scope(user="dana")
        else:
            with running(opened) as server, Client(server.url, server.key("either", user="dana")) as client:
                yield client


@pytest.fixture(params=["file", "server", "postgres"])
def everywhere(request: pytest.FixtureRequest, path: Path) -> Iterator[Memory | Client]:
    where = emptied(request.getfixturevalue("postgres_url")) if request.param == "postgres" else path
    with Memory.open(where) as opened:
        if request.param != "server":
            yield opened
        else:
            with running(opened) as server, Client(server.url, server.key("everywhere", user="dana")) as client:
                yield client
