"""The soak: what it calls growing, on samples that are made up; and some seconds of it for real, in which nothing may go wrong.
How fast or how large anything is, is not asked for here."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.soak import Plan, count_log_problems, good, soak
from bench.soak_load import Log, newest
from bench.soak_verdict import TOLERANCES, Tolerance, grows, judge, minutes, slope, thin, verdict

NAMES = sorted(TOLERANCES)
LEVEL = {"resident_mb": 200.0, "upkeep_mb": 70.0, "handles": 50, "threads": 9, "wal_mb": 4.0, "jobs": 3, "live": 800}


def samples(seconds: int, **how: Callable[[float], float]) -> list[dict[str, float]]:
    """One a second, as steady as a machine is, but for what is told how it goes."""
    chance = random.Random(3)
    level = {**dict.fromkeys(TOLERANCES, 10.0), **LEVEL}
    noise = {name: 0.02 * value for name, value in level.items() if isinstance(value, float)}
    return [
        {"at": float(at)}
        | {name: value + chance.uniform(-1, 1) * noise.get(name, 0) for name, value in level.items()}
        | {name: rise(at) for name, rise in how.items()}
        for at in range(seconds)
    ]


# -- what counts as growing -----------------------------------------------------------------------------------------
def test_noise_does_not_grow() -> None:
    slopes = judge(samples(600))
    assert sorted(slopes) == NAMES
    assert grows(slopes) == []
    assert verdict(slopes) == "steady"


@pytest.mark.parametrize("name", NAMES)
def test_each_measure_that_rises_is_named(name: str) -> None:
    tolerance = TOLERANCES[name].of(100.0)
    slopes = judge(samples(600, **{name: lambda at: 100.0 + max(0, at - 350) * tolerance / 100}))
    assert grows(slopes) == [name]
    assert slopes[name].per_hour == pytest.approx(36 * tolerance, rel=0.01)
    assert verdict(slopes) == "grows"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(lambda at: 100.0 + min(at, 300) * 2, id="a warm-up that ends"),
        pytest.param(lambda at: 900.0 - at, id="it shrinks"),
        pytest.param(lambda at: 200.0 if at % 60 < 55 else 900.0, id="spikes"),
        pytest.param(lambda at: 200.0 + at % 40, id="saw teeth"),
        pytest.param(lambda at: 200.0 + 20 * (at > 590), id="a step at the very end"),
        pytest.param(lambda at: 200.0 + at / 300, id="less than is allowed"),
    ],
)
def test_what_does_not_grow(how: Callable[[float], float]) -> None:
    assert grows(judge(samples(600, resident_mb=how))) == []


def test_a_longer_run_sees_a_slower_leak() -> None:
    def leak(at: float) -> float:
        return 200.0 + at / 100  # 36 MB an hour

    short, long = judge(samples(300, resident_mb=leak)), judge(samples(3600, resident_mb=leak))
    assert (grows(short), grows(long)) == ([], ["resident_mb"])
    assert short["resident_mb"].least_per_hour > 36 > long["resident_mb"].least_per_hour


def test_too_few_samples_are_no_verdict() -> None:
    assert judge([]) == {}
    assert verdict(judge(samples(10))) == "too short"
    assert slope([(0.0, 1.0)] * 9, Tolerance(0.0, 1.0, "")).per_hour == 0.0, "no time has gone by"


def test_latencies_are_told_by_the_minute() -> None:
    took = [(at / 10, 0.010 if at < 600 else 0.020) for at in range(1200)] + [(60.0, 9.0)]
    assert minutes(took) == [
        {"minute": 1, "requests": 600, "p50_ms": 10.0, "p99_ms": 10.0},
        {"minute": 2, "requests": 601, "p50_ms": 20.0, "p99_ms": 20.0},
    ]


def test_samples_are_thinned_evenly() -> None:
    assert [each["at"] for each in thin(samples(1000), 100)] == [9.0 + 10 * n for n in range(100)]
    assert thin(samples(3), 100) == samples(3)
    assert thin([]) == []


# -- what is counted ------------------------------------------------------------------------------------------------
def test_an_error_of_a_caller_is_counted_and_ends_nothing() -> None:
    log = Log()
    with log.time_request("get"):
        assert not log.problems, "nothing so far"
    with log.time_request("get"):
        raise AssertionError("it is not there")
    with log.time_request("export"):
        pass
    assert dict(log.problems) == {"get: AssertionError: it is not there": 1}
    assert (log.requests, len(log.quick())) == (3, 2)
    assert newest([(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)], 2.0) == [(2.0, 0.2), (3.0, 0.3)]


def test_what_the_logs_tell_is_counted(tmp_path: Path) -> None:
    lines = [
        {"level": "info", "message": "GET /v1/me 200", "status": 200},
        {"level": "info", "message": "GET /v1/memories/{id} 404", "status": 404},
        {"level": "error", "message": "something went wrong"},
    ]
    (tmp_path / "server.log").write_text("\n".join(map(json.dumps, lines)) + "\nTraceback\n")
    assert sorted(count_log_problems(tmp_path)) == [
        "server: Traceback",
        "server: error something went wrong",
        "server: info GET /v1/memories/{id} 404",
    ]


# -- for real -------------------------------------------------------------------------------------------------------
def test_some_seconds_of_it(tmp_path: Path) -> None:
    found = soak(Plan(str(tmp_path / "memory.db"), tmp_path, 6.0, callers=2, rate=60.0, upkeep=2.0))
    assert found["problems"] == []
    assert (found["errors"], found["whole"]) == (0, True)
    assert found["requests"] > 20
    assert {"remember", "recall", "say"} <= set(found["verbs"])
    assert all(each["resident_mb"] > 10 and each["handles"] > 3 and each["threads"] >= 1 for each in found["samples"])
    assert any("live" in each for each in found["samples"])
    assert good({**found, "grows": []})
    json.dumps(found)
