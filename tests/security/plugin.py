"""A watch over the output of the whole suite: no planted value and no whole key of keepstone's own in what any test writes.

After each test its captured standard output, standard error and log are searched once, with one regular expression. A test whose
output holds a key or a planted value fails, and says where; the value itself is not repeated. It runs where the test runs, so
pytest-xdist's workers each do their own.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.security.planted import leaks

# Tests whose job it is to print a key: by the beginning of their node's id, with the reason.
ALLOWED: dict[str, str] = {
    "tests/security/test_secrets_in_output.py::test_a_failure_that_nobody_foresaw_is_told_without_its_values": (
        "it raises an error with planted values; pytest shows the traceback that our log leaves out, and the test reads our log"
    ),
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown" and not item.nodeid.startswith(tuple(ALLOWED)):
        found = [f"{name}: {each}" for name, text in report.sections for each in leaks(text)]
        if found and report.outcome != "failed":
            report.outcome = "failed"
            report.longrepr = "what must not be said stands in this test's output:\n" + "\n".join(f"  {each}" for each in found)
    return report
