"""Windows as bytes, and back exactly as they were.

What cannot come back exactly is not packed at all, and bytes that are not of this version are no window: both cost a read of the
store, where a message that is almost right would cost the truth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from keepstone.ports.caches import Window
from keepstone.text.times import instant, micros
from keepstone.types import Record, Scope

VERSION = 1  # raise it when anything below changes what the bytes mean
FIELDS = (  # of a Record, in its order, without the scope
    "id", "kind", "tag", "key", "content", "metadata", "importance", "source", "trust", "session", "role", "name", "occurred_at",
    "created_at", "updated_at", "valid_from", "valid_to", "expires_at", "last_accessed_at", "access_count", "version", "status",
    "parents", "embedded", "blocks", "sensitive",
)  # fmt: skip
_TIMES = range(FIELDS.index("occurred_at") - 1, FIELDS.index("last_accessed_at"))  # counted without the id
_values = attrgetter(*FIELDS)
_LEAVES = (str, int, float, bool, type(None))


class Unpackable(ValueError):
    """A window that would not come back as it is."""


def packed(scope: Scope, window: Window) -> bytes:
    """A window of a scope as compact JSON; Unpackable if it holds what JSON cannot."""
    try:
        turns = [[sequence, *_row(scope, record)] for sequence, record in window.turns]
        whole = [VERSION, _owner(scope), window.number, window.whole, turns]
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Unpackable(str(error)) from None


def unpacked(scope: Scope, data: bytes) -> Window | None:
    """The window of a scope that was packed; None if these bytes are none of this version and of this scope."""
    try:
        found = json.loads(data)
        if not isinstance(found, list) or found[:2] != [VERSION, _owner(scope)]:
            return None
        _, _, number, whole, turns = found
        known: dict[int, datetime] = {}
        return Window(_exactly(int, number), tuple(_turn(scope, row, known) for row in turns), _exactly(bool, whole))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _owner(scope: Scope) -> list[str]:
    return [scope.tenant, scope.agent, scope.user]


def _row(scope: Scope, record: Record) -> list[Any]:
    if record.scope != scope:
        raise Unpackable("a message is of another scope")
    _check(record.metadata)
    _check(list(record.blocks or ()))
    row = list(_values(record))
    for at in _TIMES:
        if row[at + 1] is not None:
            row[at + 1] = micros(row[at + 1])
    return row


def _check(value: Any) -> None:
    """Whether JSON gives the very same back: no tuple that comes back as a list, no key that comes back as text."""
    if type(value) is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise Unpackable(f"a key is of type {type(key).__name__}")
            _check(inner)
    elif type(value) is list:
        for inner in value:
            _check(inner)
    elif type(value) not in _LEAVES:
        raise Unpackable(f"a value is of type {type(value).__name__}")


def _turn(scope: Scope, row: Sequence[Any], known: dict[int, datetime]) -> tuple[int, Record]:
    sequence, id, *values = row
    if len(values) != len(FIELDS) - 1:
        raise ValueError("a row is too short or too long")
    for at in _TIMES:
        if values[at] is not None:
            values[at] = known.get(values[at]) or _time(values[at], known)
    parents, embedded, blocks, sensitive = values[-4:]
    values[-4:] = tuple(parents), embedded, None if blocks is None else tuple(blocks), tuple(sensitive)
    return _exactly(int, sequence), Record(id, scope, *values)


def _time(at: int, known: dict[int, datetime]) -> datetime:
    """The time of a message; most of its times are the same, and most of the work."""
    known[at] = instant(_exactly(int, at))
    return known[at]


def _exactly(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected")
    return value
