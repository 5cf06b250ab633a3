"""Power cuts: what was acknowledged is there, whatever of the writes that were not synced is lost."""

from __future__ import annotations

import random
from pathlib import Path

from bench.torture.power import DiskFile, cut_files
from bench.torture.power_postgres import cut_servers


def test_a_power_cut_under_a_file_loses_nothing_acknowledged(tmp_path: Path) -> None:
    verdict = cut_files(tmp_path, 150, 3)
    assert verdict.problems == []
    assert verdict.whole
    assert (verdict.tries, verdict.acknowledged > 30) == (150, True)


def test_what_was_not_synced_is_lost_and_noticed(tmp_path: Path) -> None:
    verdict = cut_files(tmp_path, 60, 3, durable=False)
    assert verdict.lost > 10


def test_a_power_cut_under_a_server_loses_nothing_acknowledged(tmp_path: Path) -> None:
    verdict = cut_servers(tmp_path, 2, 5)
    if verdict.skipped is None:
        assert verdict.problems == []
        assert (verdict.whole, verdict.tries, verdict.acknowledged > 20) == (True, 2, True)


def test_what_a_disk_keeps_and_what_it_may_lose() -> None:
    file = DiskFile()
    file.pending += [(0, b"a" * 2048), (2048, b"b" * 2048)]
    file.sync(1)
    file.pending.append((100, None))
    seen = {file.after_cut(random.Random(seed)) for seed in range(200)}
    assert {each[:100] for each in seen} == {b"a" * 100}, "what was synced stays, but for what was cut off"
    assert {b"a" * 2048, b"a" * 2048 + b"b" * 2048, b"a" * 100} <= seen
    assert len(seen) > 20, "writes are torn in many ways"
    file.sync()
    assert {file.after_cut(random.Random(seed)) for seed in range(20)} == {b"a" * 100}
