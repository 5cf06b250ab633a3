"""Reads, writes and syncs that fail: what was acknowledged stays, what failed is whole or not there, and work goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.torture.io_errors import Rounds, UnacknowledgedWrites, ways
from bench.torture.verdict import Verdict


@pytest.mark.parametrize("way", ["shim", "fiu"])
def test_nothing_acknowledged_is_lost_when_the_disk_fails(tmp_path: Path, way: str) -> None:
    reason = ways()[way]
    if reason is not None:
        pytest.skip(reason)
    verdict = Verdict("io-errors", "sqlite")
    rounds = Rounds(tmp_path, way, random.Random(2), verdict)
    for number in range(2):
        rounds.round(number)
    assert verdict.problems == []
    assert verdict.whole
    assert verdict.acknowledged > 10
    assert rounds.told, "no call failed: this shows nothing"


def test_the_ledger_notices_what_must_not_be() -> None:
    doubts = UnacknowledgedWrites()
    doubts.note({"event": "begin", "verb": "remember", "contents": ["one"]})
    doubts.note({"event": "done", "ids": ["m_1"]})
    doubts.note({"event": "begin", "verb": "update", "id": "m_1", "contents": ["two"]})
    doubts.note({"event": "failed", "error": "StoreError", "said": "the disk failed"})
    for content in ("one", "two"):
        doubts.note({"event": "read", "id": "m_1", "content": content})
    assert (doubts.problems, doubts.acknowledged) == ([], 1)
    doubts.note({"event": "read", "id": "m_1", "content": "three"})
    doubts.note({"event": "begin", "verb": "remember", "contents": ["four"]})
    doubts.note({"event": "failed", "error": "Conflict", "said": "another write got in between"})
    assert (len(doubts.problems), doubts.wrong) == (2, 1)
