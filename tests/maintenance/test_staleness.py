"""Which statements are bound to a time, and when that is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from keepstone.maintenance.staleness import find_end, has_ended

TOLD = datetime(2026, 3, 1, 9, tzinfo=UTC)  # a Sunday
NOW = datetime(2026, 7, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "The user flies to Rome next week.", "The visa is valid until March.", "The visa is valid until May.",
        "The report is due by 2026-05-01.", "The user is on holiday this month.", "The user meets Tom tomorrow.",
        "The user is away until Friday.", "The launch is scheduled for May 3.", "The discount ends tonight.",
        "The user is in Rome for the next two weeks.", "The exam is in three weeks.", "The user plans to move to Oslo in May.",
        "The user has booked a flight for next month.", "The lease runs to 2026-06-01.",
    ],
)  # fmt: skip
def test_what_was_ahead_and_has_passed_is_over(text: str) -> None:
    assert has_ended(text, TOLD, NOW)
    assert not has_ended(text, TOLD, TOLD + timedelta(hours=1))


@pytest.mark.parametrize(
    "text",
    [
        "The user lives in Rome.", "The visa is valid until October.", "The report is due by 2027-05-01.",
        "The contract runs until the end of 2026.", "The launch is in September.", "The exam is in six months.",
    ],
)  # fmt: skip
def test_what_is_still_ahead_or_bound_to_no_time_is_not(text: str) -> None:
    assert not has_ended(text, TOLD, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "The user visited Rome in May.", "The user bought a car this week.", "The user worked at Acme until March 2020.",
        "The user lived in Rome until May.", "The user's birthday is on May 3.", "Rent is due on the 3rd of each month.",
        "The user has lived in Rome since March 2020.", "The user goes to the gym on Tuesday.", "The user may want tea.",
        "The user was born in May 1990.", "The conference took place on 3 May 2026.", "The user works on Monday and Friday.",
        "The user has two weeks of holiday.", "The user runs three times in a week.", "The user likes March weather.",
    ],
)  # fmt: skip
def test_what_happened_or_comes_back_never_ends(text: str) -> None:
    assert not has_ended(text, TOLD, NOW + timedelta(days=3650))


def test_what_has_no_year_is_read_forward_from_the_day_it_was_told() -> None:
    assert find_end("The launch is scheduled for May 3.", TOLD) == datetime(2026, 5, 4, tzinfo=UTC)
    assert find_end("The launch is scheduled for February 3.", TOLD) == datetime(2027, 2, 4, tzinfo=UTC)
    assert find_end("The user is away until Friday.", TOLD) == datetime(2026, 3, 7, tzinfo=UTC)


def test_dates_at_the_end_of_the_calendar_break_nothing() -> None:
    last = datetime(9998, 12, 30, tzinfo=UTC)
    for text in ("The exam is next year.", "The exam is in 999 years.", "The exam is in May.", "The exam is by 9999-12-31."):
        assert not has_ended(text, last, last)
