"""Windows of messages as bytes and back, without any change.

A window that would change is not encoded, and bytes of another version are not decoded: both only cost a read of the store.
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

VERSION = 1  # raise it with every change of the format
FIELDS = (  # of a Record, in its order, without the scope
    "id", "kind", "tag", "key", "content", "metadata", "importance", "source", "trust", "session", "role", "name", "occurred_at",
    "created_at", "updated_at", "valid_from", "valid_to", "expires_at", "last_accessed_at", "access_count", "version", "status",
    "parents", "embedded", "blocks", "sensitive",
)  # fmt: skip
_TIME_COLUMNS = range(FIELDS.index("occurred_at"), FIELDS.index("last_accessed_at") + 1)
_field_values = attrgetter(*FIELDS)
_JSON_SCALARS = (str, int, float, bool, type(None))


class Unpackable(ValueError):
    """A window that JSON would change."""


def pack_window(scope: Scope, window: Window) -> bytes:
    """A window of a scope as compact JSON; Unpackable if JSON would change it."""
    try:
        turns = [[sequence, *_encode_record(scope, record)] for sequence, record in window.messages]
        document = [VERSION, _scope_names(scope), window.number, window.complete, turns]
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Unpackable(str(error)) from None


def unpack_window(scope: Scope, data: bytes) -> Window | None:
    """The window in these bytes; None if they are of another version or scope."""
    try:
        document = json.loads(data)
        if not isinstance(document, list) or document[:2] != [VERSION, _scope_names(scope)]:
            return None
        _, _, number, whole, turns = document
        times: dict[int, datetime] = {}
        return Window(_require(int, number), tuple(_decode_turn(scope, row, times) for row in turns), _require(bool, whole))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _scope_names(scope: Scope) -> list[str]:
    return [scope.tenant, scope.agent, scope.user]


def _encode_record(scope: Scope, record: Record) -> list[Any]:
    if record.scope != scope:
        raise Unpackable("a message is of another scope")
    _check_json(record.metadata)
    _check_json(list(record.blocks or ()))
    row = list(_field_values(record))
    for column in _TIME_COLUMNS:
        if row[column] is not None:
            row[column] = micros(row[column])
    return row


def _check_json(value: Any) -> None:
    """Raise Unpackable for a value that JSON would change: a tuple, a key that is not a string."""
    if type(value) is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise Unpackable(f"a key is of type {type(key).__name__}")
            _check_json(inner)
    elif type(value) is list:
        for inner in value:
            _check_json(inner)
    elif type(value) not in _JSON_SCALARS:
        raise Unpackable(f"a value is of type {type(value).__name__}")


def _decode_turn(scope: Scope, row: Sequence[Any], times: dict[int, datetime]) -> tuple[int, Record]:
    sequence, *values = row
    if len(values) != len(FIELDS):
        raise ValueError("a row is too short or too long")
    for column in _TIME_COLUMNS:
        if values[column] is not None:
            values[column] = times.get(values[column]) or _decode_time(values[column], times)
    parents, embedded, blocks, sensitive = values[-4:]
    values[-4:] = tuple(parents), embedded, None if blocks is None else tuple(blocks), tuple(sensitive)
    return _require(int, sequence), Record(values[0], scope, *values[1:])


def _decode_time(value: int, times: dict[int, datetime]) -> datetime:
    """A time, cached: most times of a window are equal, and decoding them is most of the work."""
    times[value] = instant(_require(int, value))
    return times[value]


def _require(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected")
    return value
