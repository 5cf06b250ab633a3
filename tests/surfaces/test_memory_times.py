"""Lifetimes and times of what is written through Memory: what expires, when something happened, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ValidationError
from tests.surfaces.support import START, Clock, contents, timed


# -- lifetimes ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ttl", [60, 60.0, timedelta(minutes=1)])
def test_what_has_expired_is_gone(path: Path, ttl: Any) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("The door code is 4711.", ttl=ttl, tag="codes")
        memory.remember("guest", key="wifi", ttl=ttl, tag="codes")
        clock.forward(seconds=59)
        assert len(memory.recall("What is the door code?", min_similarity=0)) == 2
        assert memory.value("wifi") == "guest"
        clock.forward(seconds=1)
        assert not memory.recall("What is the door code?", min_similarity=0)
        assert not memory.list()
        assert not memory.list(tag="codes")
        assert memory.value("wifi", "none") == "none"
        assert memory.context("What is the door code?") == ""


def test_a_new_write_takes_the_place_of_what_has_expired(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        old = memory.remember("The door code is 4711.", ttl=60)
        key = memory.remember("guest", key="wifi", ttl=60)
        clock.forward(hours=1)
        again = memory.remember("The door code is 4711.")
        value = memory.remember("guest", key="wifi")
        assert (again.action, value.action) == ("added", "added")
        assert again.id != old.id
        assert value.id != key.id
        clock.forward(days=1000)
        assert contents(memory.recall("What is the door code?", limit=1)) == ["The door code is 4711."]
        assert memory.value("wifi") == "guest"
        assert memory.upkeep.doctor().healthy


def test_a_repeat_makes_it_last_longer_and_never_shorter(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        id = memory.remember("The code is 1", ttl=100).id or ""
        assert memory.remember("The code is 1", ttl=10).reasons == ("the same content is remembered already",)
        assert memory.get(id).expires_at == START + timedelta(seconds=100)  # type: ignore[union-attr]
        assert "longer" in memory.remember("The code is 1", ttl=200).reasons[1]
        assert memory.get(id).expires_at == START + timedelta(seconds=200)  # type: ignore[union-attr]
        memory.remember("The code is 1")
        assert memory.get(id).expires_at is None  # type: ignore[union-attr]


def test_the_same_value_under_a_key_lasts_as_long_as_was_asked_last(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("token-1", key="token", ttl=60)
        memory.remember("token-1", key="token", ttl=3600)
        clock.forward(minutes=5)
        assert memory.value("token") == "token-1"


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e300, True, "60", timedelta(0), timedelta(days=40_000)])
def test_lifetimes_that_are_refused(memory: Memory, ttl: Any) -> None:
    with pytest.raises(ValidationError, match="ttl"):
        memory.remember("x", ttl=ttl)
    assert not memory.list()


# -- times --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2020-05-04T10:00:00+02:00", datetime(2020, 5, 4, 8, tzinfo=UTC)),
        ("2020-05-04", datetime(2020, 5, 4, tzinfo=UTC)),
        (datetime(2020, 5, 4, 10), datetime(2020, 5, 4, 10, tzinfo=UTC)),
        ("1900-01-01", datetime(1900, 1, 1, tzinfo=UTC)),
    ],
)
def test_when_something_happened_is_kept_in_utc(memory: Memory, given: Any, kept: datetime) -> None:
    record = memory.get(memory.remember("It rained.", occurred_at=given).id or "")
    assert record is not None
    assert (record.occurred_at, record.valid_from) == (kept, kept)
    assert record.created_at > kept


@pytest.mark.parametrize(
    "given", ["2026-02-30", "9999-12-31", "-0044-03-15", "yesterday", "", "1899-12-31", 1_700_000_000, "0001-01-01T00:00+14:00"]
)
def test_times_that_are_refused_everywhere(memory: Memory, given: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: memory.remember("x", occurred_at=given),
        lambda: memory.recall("x", as_of=given),
        lambda: memory.recall("x", known_at=given),
        lambda: memory.audit(since=given),
        lambda: memory.ingest([{"role": "user", "content": "hi", "at": given}], session="s"),
    ]
    for call in calls:
        with pytest.raises(ValidationError):
            call()
    assert not memory.list()
