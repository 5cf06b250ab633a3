"""People talk while the Redis beside their store is killed and emptied: no caller notices, nothing is lost."""

from __future__ import annotations

from pathlib import Path

from bench.torture.redis_faults import under
from bench.torture.verdict import Verdict
from tests.server_processes import RedisServer


def test_talking_goes_on_whatever_becomes_of_redis(path: Path, tmp_path: Path) -> None:
    verdict = Verdict("redis", "sqlite")
    with RedisServer(tmp_path / "redis") as server:
        counts = under(verdict, "sqlite", path, server, ["kill", "flush", "pause"])
    assert verdict.problems == []
    assert verdict.whole
    assert counts == {"kill": 1, "flush": 1, "pause": 1}
    assert verdict.acknowledged > 50
