"""Histories of concurrent callers: the checker, and short runs on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.history import History, judge
from bench.linearizable import Call, violation

ADDED = Call("remember", 0, 10, "m_1", "one", "added")


@pytest.mark.parametrize(
    ("later", "fits"),
    [
        ([Call("recall", 20, 30, "m_1", answer="one")], True),
        ([Call("recall", 20, 30, "", answer=None)], False),  # an acknowledged write is not seen
        ([Call("recall", 5, 30, "", answer=None)], True),  # at the same time as the write
        ([Call("update", 20, 40, "m_1", "two", "updated"), Call("get", 25, 30, "m_1", answer="one")], True),
        # Seen new, then old.
        (
            [
                Call("update", 20, 60, "m_1", "two", "updated"), Call("get", 25, 30, "m_1", answer="two"),
                Call("get", 35, 40, "m_1", answer="one"),
            ],
            False,
        ),
        ([Call("forget", 20, 30, answer=1), Call("update", 40, 50, "m_1", "two", "updated")], False),  # it came back
        ([Call("forget", 20, 30, answer=1), Call("remember", 40, 50, "m_2", "two", "added")], True),
        ([Call("forget", 20, 30, answer=1), Call("forget", 25, 35, answer=1)], False),  # both took the same record
        # Killed in the middle of a write: it may be there or not, but not come and go.
        ([Call("update", 20, None, "m_1", "two"), Call("get", 30, 40, "m_1", answer="one")], True),
        ([Call("update", 20, None, "m_1", "two"), Call("get", 30, 40, "m_1", answer="two")], True),
        (
            [
                Call("update", 20, None, "m_1", "two"), Call("get", 30, 40, "m_1", answer="two"),
                Call("get", 50, 60, "m_1", answer="one"),
            ],
            False,
        ),
    ],
)  # fmt: skip
def test_what_is_linearizable(later: list[Call], fits: bool) -> None:
    assert (violation([ADDED, *later]) is None) == fits


def test_processes_on_one_file_and_a_kill(tmp_path: Path) -> None:
    history = History(tmp_path / "whole", 1, 3)
    history.run_files(3, 40, 1)
    found = judge(history)
    assert found["problems"] == {}
    assert (found["kills"], found["calls"] > 80, len(found["verbs"])) == (1, True, 5)


def test_a_process_that_answers_from_old_reads_is_caught(tmp_path: Path) -> None:
    history = History(tmp_path / "stale", 1, 2)
    history.run_files(2, 60, 0, stale=True)
    assert judge(history)["problems"]


def test_clients_of_servers_on_one_database_and_a_kill(tmp_path: Path) -> None:
    history = History(tmp_path / "servers", 1, 3)
    history.run_servers(2, 2, 30, 1)
    found = judge(history)
    assert found["problems"] == {}
    assert (found["kills"], found["calls"]) == (1, 60)
