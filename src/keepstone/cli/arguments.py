"""Parse command-line arguments and piped text: JSON, durations, texts."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from keepstone.errors import TooLarge, ValidationError
from keepstone.text.times import parse_time

if TYPE_CHECKING:
    from keepstone.memory import Memory

MAX_PIPED = 9 * 1024 * 1024  # the store's own limit is lower
_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", re.ASCII)

_AGO = re.compile(r"(\d{1,4}|an?) (minute|hour|day|week|month|year)s? ago")
_UNITS_AGO = {
    "minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1),
    "month": timedelta(days=30), "year": timedelta(days=365),
}  # fmt: skip


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


def moment(text: str | None, what: str) -> str | None:
    """A time in ISO 8601 from such a time, or from words: "yesterday", "last Monday", "3 days ago"."""
    if text is None:
        return None
    with contextlib.suppress(ValidationError):
        return parse_time(text, what).isoformat()
    from keepstone.text.languages.times import read_time

    now = datetime.now(UTC)
    if text.strip().lower() in ("now", "today"):
        return now.isoformat()
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        count = 1 if ago[1].startswith("a") else int(ago[1])
        return (now - count * _UNITS_AGO[ago[2]]).isoformat()
    hint = read_time(text, now)
    if hint is None or hint.start is None or hint.anchor:
        raise ValidationError(
            f"{what} {text!r:.60} is not a time: use 2026-03-01, 2026-03-01T09:30+01:00, yesterday or '3 days ago'."
        )
    return (hint.start + hint.pad).isoformat()


def scope_parts(text: str, option: str = "--also") -> dict[str, str]:
    """The parts of a scope in a text.

    >>> scope_parts("agent=helper,user=dana")
    {'agent': 'helper', 'user': 'dana'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    parts = {name.strip(): value for name, _, value in pairs}
    if not parts.keys() <= {"tenant", "agent", "user"} or any(not equals for _, equals, _ in pairs):
        raise ValidationError(f"{option} {text!r:.60} names no scope: use user=NAME, agent=NAME, or both with a comma.")
    return parts


def resolve_id(memory: Memory, given: str) -> str:
    """The id that begins with a text, if exactly one does; a text that no id begins with is returned as it is."""
    if memory.get(given) is not None:
        return given
    found = [record.id for record in memory.list(prefix=given, limit=3)]
    if len(found) > 1:
        raise ValidationError(f"more than one id begins with {given!r:.60} ({', '.join(found)}): give more characters.")
    return found[0] if found else given


def in_command_words(message: str, options: Collection[str]) -> str:
    """A message of the library with its arguments named as options of the command line.

    >>> in_command_words("limit is 0: use 1 to 100, or min_similarity=0.", {"limit", "min_similarity"})
    '--limit is 0: use 1 to 100, or --min-similarity 0.'
    """

    def option(name: str) -> str:
        return "--" + {"kinds": "kind"}.get(name, name).replace("_", "-")

    message = re.sub(
        r"\b([a-z_]+)=(?:'([^']*)'|([\w.:-]*\w))",
        lambda found: f"{option(found[1])} {found[2] or found[3]}" if found[1] in options else found[0],
        message,
    )
    first = re.match(r"([a-z_]+)(?= (?:is|must|has|holds|needs|'))", message)
    return option(first[1]) + message[first.end() :] if first and first[1] in options else message


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
