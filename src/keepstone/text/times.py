"""Instants: parsing what callers give, and the integer microseconds that stores keep.

A naive time is read as UTC. Years 1900 to 9998 are taken, so that arithmetic on them never overflows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from keepstone.errors import ValidationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
FOREVER = 2**62  # microseconds: later than any time that is taken


def now() -> datetime:
    """The present in UTC."""
    return datetime.now(UTC)


def micros(at: datetime) -> int:
    """Whole microseconds since 1970."""
    return (at - EPOCH) // _MICROSECOND


def instant(at: int) -> datetime:
    """The time that `micros` stands for."""
    return EPOCH + timedelta(microseconds=at)


def parse_time(value: datetime | str, what: str) -> datetime:
    """An aware UTC time from a datetime or ISO 8601 text; ValidationError says what is wrong with it.

    >>> parse_time("2026-03-01T09:30:00+01:00", "as_of").isoformat()
    '2026-03-01T08:30:00+00:00'
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("\0", "?"))  # else it would end there
        except ValueError as error:
            raise ValidationError(
                f"{what} {value!r:.60} is not a time ({error}): use ISO 8601 such as 2026-03-01T09:30:00+00:00."
            ) from None
    if not isinstance(value, datetime):
        raise ValidationError(f"{what} must be a datetime or ISO 8601 text, got {type(value).__name__}.")
    try:
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (OverflowError, ValueError):
        moment = LATEST
    if not EARLIEST <= moment < LATEST:
        raise ValidationError(f"{what} {value.isoformat()} is out of range: use a year from 1900 to 9998.")
    return moment


def lifetime(value: timedelta | float | int, what: str, *, may_be_zero: bool = False) -> timedelta:
    """A positive duration from a timedelta or seconds; with `may_be_zero`, an age that may be none at all."""
    if isinstance(value, bool) or not isinstance(value, (timedelta, int, float)):
        raise ValidationError(f"{what} must be a timedelta or a number of seconds, got {value!r:.60}.")
    try:
        duration = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise ValidationError(f"{what} {value!r:.60} is out of range: use at most 100 years.") from None
    if may_be_zero and not duration:
        return duration
    if not timedelta(0) < duration <= timedelta(days=36525):
        raise ValidationError(f"{what} {value} is out of range: use more than 0 and at most 100 years.")
    return duration
