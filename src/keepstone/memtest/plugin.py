"""The pytest plugin: memtest files as tests, and a fresh memory as a fixture. pytest loads it in every project that has keepstone
installed, so it imports nothing of keepstone before there is something to do. `-p no:keepstone` leaves it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from keepstone.memtest import NAMES

if TYPE_CHECKING:
    from keepstone.memory import Memory
    from keepstone.memtest.cases import Case, Suite
    from keepstone.memtest.runner import Outcome
    from keepstone.memtest.stage import Stage


@pytest.fixture
def keepstone_memory(tmp_path: Path) -> Iterator[Memory]:
    """A fresh memory in a folder of the test's own, closed afterwards."""
    from keepstone.memory import Memory

    with Memory.open(tmp_path / "keepstone.db") as memory:
        yield memory


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """memtest.yaml, memtest_theme.yaml, memtest.json and the like."""
    if NAMES.fullmatch(file_path.name):
        return MemtestFile.from_parent(parent, path=file_path)
    return None


class MemtestFile(pytest.File):
    """A memtest file; its memory is opened before its first test and closed after its last."""

    stage: Stage | None = None
    suite: Suite

    def collect(self) -> Iterator[pytest.Item]:
        """Its tests."""
        from keepstone.errors import KeepstoneError
        from keepstone.memtest.parser import parse_file

        try:
            self.suite = parse_file(self.path)
        except KeepstoneError as error:
            raise self.CollectError(str(error)) from None
        for case in self.suite.cases:
            yield MemtestItem.from_parent(self, name=case.name, case=case)

    def setup(self) -> None:
        """Open the memory and tell it what is given."""
        from keepstone.errors import KeepstoneError
        from keepstone.memtest.stage import Stage

        try:
            self.stage = Stage(self.suite)
        except KeepstoneError as error:
            raise MemtestFailed(f"{type(error).__name__}: {error}") from None

    def teardown(self) -> None:
        """Close it."""
        if self.stage is not None:
            self.stage.close()
            self.stage = None


class MemtestFailed(Exception):
    """A memory test that did not pass; its text is the whole explanation."""

    def __init__(self, text: str, outcome: Outcome | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome


class MemtestItem(pytest.Item):
    """One test of a memtest file."""

    def __init__(self, *, case: Case, **given: Any) -> None:
        super().__init__(**given)
        self.case = case

    def runtest(self) -> None:
        """Run it."""
        from keepstone.memtest.runner import explain_outcome, run

        assert isinstance(self.parent, MemtestFile)
        assert self.parent.stage is not None
        outcome = run(self.parent.stage, self.case)
        if not outcome.passed:
            raise MemtestFailed("\n".join(explain_outcome(outcome)), outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is not as it must be, and why; no traceback, as the fault is in no code."""
        if isinstance(excinfo.value, MemtestFailed):
            line = "" if self.case.line is None else f":{self.case.line}"
            return f"{excinfo.value}\n\n{self.path.name}{line}: {self.name}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands."""
        return self.path, None if self.case.line is None else self.case.line - 1, self.name
