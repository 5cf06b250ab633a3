"""Instants and durations: what is taken, what is refused and with which words."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.errors import ValidationError
from keepstone.text.times import EARLIEST, FOREVER, LATEST, instant, lifetime, micros, now, parse_time

moments = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(9998, 12, 31), timezones=st.just(UTC))


@given(moments)
def test_micros_and_instant_are_inverse(at: datetime) -> None:
    assert instant(micros(at)) == at
    assert micros(at) < FOREVER


@given(moments, moments)
def test_micros_keep_the_order(left: datetime, right: datetime) -> None:
    assert (micros(left) < micros(right)) == (left < right)


@given(moments, st.integers(-14 * 60, 14 * 60))
def test_parsing_gives_the_same_instant_in_utc(at: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    if at - EARLIEST < timedelta(days=1):
        return
    local = at.astimezone(zone)
    for given_value in (local, local.isoformat(), f"  {local.isoformat()} "):
        parsed = parse_time(given_value, "as_of")
        assert parsed == at
        assert parsed.utcoffset() == timedelta(0)


def test_a_naive_time_and_a_bare_date_are_utc() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert parse_time(datetime(2026, 3, 1, 12), "as_of") == noon
    assert parse_time("2026-03-01T12:00", "as_of") == noon
    assert parse_time("2026-03-01", "as_of") == datetime(2026, 3, 1, tzinfo=UTC)
    assert parse_time("2026-03-01T12:00:00Z", "as_of") == noon


@pytest.mark.parametrize("value", ["", "yesterday", "2026-13-01", "12:30", "2026-03-01T25:00", "\0"])
def test_text_that_is_no_time_is_refused_with_an_example(value: str) -> None:
    with pytest.raises(ValidationError, match=r"^as_of .* is not a time .*: use ISO 8601 such as 2026-03-01T09:30:00\+00:00\.$"):
        parse_time(value, "as_of")


@pytest.mark.parametrize("value", [5, 5.0, None, date(2026, 3, 1), b"2026-03-01"])
def test_other_types_are_refused_by_name(value: object) -> None:
    with pytest.raises(ValidationError, match=f"as_of must be a datetime or ISO 8601 text, got {type(value).__name__}"):
        parse_time(value, "as_of")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        EARLIEST - timedelta(microseconds=1),
        LATEST,
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
        "0001-01-01",
        "9999-12-31T23:59:59",
    ],
)
def test_years_without_room_for_arithmetic_are_refused(value: datetime | str) -> None:
    with pytest.raises(ValidationError, match="out of range: use a year from 1900 to 9998"):
        parse_time(value, "occurred_at")


def test_the_first_and_the_last_instant_are_taken() -> None:
    assert parse_time(EARLIEST, "as_of") == EARLIEST
    assert parse_time(LATEST - timedelta(microseconds=1), "as_of") == LATEST - timedelta(microseconds=1)


def test_a_lifetime_is_seconds_or_a_timedelta() -> None:
    assert lifetime(90, "ttl") == timedelta(seconds=90)
    assert lifetime(0.5, "ttl") == timedelta(milliseconds=500)
    assert lifetime(timedelta(days=36525), "ttl") == timedelta(days=36525)


@pytest.mark.parametrize("value", [0, -1, 1e-9, timedelta(0), timedelta(days=-1), timedelta(days=36526), 36525 * 86400 + 1])
def test_a_lifetime_outside_the_bounds_is_refused(value: float | timedelta) -> None:
    with pytest.raises(ValidationError, match=r"ttl .* is out of range"):
        lifetime(value, "ttl")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, 10**400])
def test_numbers_that_are_no_duration_are_refused(value: float) -> None:
    with pytest.raises(ValidationError, match=r"ttl .* is out of range: use at most 100 years"):
        lifetime(value, "ttl")


@pytest.mark.parametrize("value", [True, "60", None, [60]])
def test_a_lifetime_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="ttl must be a timedelta or a number of seconds"):
        lifetime(value, "ttl")  # type: ignore[arg-type]


def test_now_is_aware() -> None:
    assert now().utcoffset() == timedelta(0)
