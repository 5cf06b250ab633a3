"""Puts KeepstoneStore in the place of LangGraph's own stores, for LangGraph's own tests. A plugin for pytest: `-p`."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import langgraph.store.memory
import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import pytest
from _pytest.runner import runtestprotocol

from keepstone import Memory
from keepstone.integrations.langgraph import KeepstoneStore


class InMemoryStore(KeepstoneStore):
    """Ours, opened as the tests open theirs."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(Memory.open(":memory:"), index=index)


class Mocker:
    """What the tests use of pytest-mock."""

    def __init__(self) -> None:
        self._patches: list[Any] = []

    def spy(self, owner: Any, name: str) -> Any:
        patch = mock.patch.object(owner, name, autospec=True, side_effect=getattr(owner, name))
        self._patches.append(patch)
        return patch.start()

    def stub(self) -> mock.MagicMock:
        return mock.MagicMock()

    def stop(self) -> None:
        for patch in reversed(self._patches):
            patch.stop()


@pytest.fixture
def mocker() -> Iterator[Mocker]:
    made = Mocker()
    yield made
    made.stop()


mock_module = types.ModuleType("pytest_mock")
mock_module.MockerFixture = Mocker  # type: ignore[attr-defined]
sys.modules["pytest_mock"] = mock_module

langgraph.store.memory.InMemoryStore = InMemoryStore  # type: ignore[misc,assignment]
for module in (langgraph.store.sqlite, langgraph.store.sqlite.aio):
    for name in ("SqliteStore", "AsyncSqliteStore"):
        setattr(module, name, KeepstoneStore)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flaky(retries): a test that sleeps and hopes, tried again where it was disappointed")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    mark = item.get_closest_marker("flaky")
    if mark is None:
        return None
    for left in reversed(range(1 + mark.kwargs.get("retries", 1))):
        item._initrequest()  # type: ignore[attr-defined]  # its fixtures anew
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not left or not any(report.failed for report in reports):
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            break
    return True
