"""Parse command-line arguments and piped text: JSON, durations, texts."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from typing import Any

from keepstone.errors import TooLarge, ValidationError

MAX_PIPED = 9 * 1024 * 1024  # the store's own limit is lower
_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", re.ASCII)


def json_value(text: str, what: str) -> Any:
    """Any JSON value."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f'{what} {text!r:.60} is not JSON ({error}): quote it like \'{{"city": "Rome"}}\'.') from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def json_object(text: str | None, what: str) -> dict[str, Any] | None:
    """A JSON object; None for None."""
    if text is None:
        return None
    value = json_value(text, what)
    if not isinstance(value, dict):
        raise ValidationError(f'{what} {text!r:.60} is not a JSON object: use one like \'{{"city": "Rome"}}\'.')
    return value


def duration(text: str | None, what: str) -> timedelta | None:
    """A length of time such as 30d, 12h, 90s or a number of seconds.

    >>> duration("12h", "--ttl")
    datetime.timedelta(seconds=43200)
    """
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValidationError(f"{what} {text!r:.60} is not a duration: use 30d, 12h, 15m, 90s or a number of seconds.")
    try:
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        raise ValidationError(f"{what} {text!r:.60} is out of range: use at most 100 years.") from None


def text_or_pipe(text: str | None, what: str) -> str:
    """The text itself; for "-", or without a text, the content of standard input."""
    if text is not None and text != "-":
        return text
    if sys.stdin is None or (text is None and sys.stdin.isatty()):
        raise ValidationError(f"{what} is missing: write it after the command, or pipe it in.")
    raw = sys.stdin.buffer.read(MAX_PIPED + 1)
    if len(raw) > MAX_PIPED:
        raise TooLarge(f"{what}: more than {MAX_PIPED} bytes on standard input: split the text.")
    try:
        return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{what}: standard input is not UTF-8 (byte {error.start}): convert it first.") from None
