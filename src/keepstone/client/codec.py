"""JSON to keepstone's values, and arguments to JSON.

`read` is the inverse of `documents.document`: it follows the type hints of the frozen dataclasses. Fields that a newer
server adds are ignored; a field that an older one leaves out has its default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Mapping as AbstractMapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from keepstone.errors import ServerError, ValidationError
from keepstone.types import ImportReport

T = TypeVar("T")
_PLAIN = (str, int, bool)


def read(kind: type[T], document: Any) -> T:
    """A value of a type from its JSON; ServerError where that cannot be one.

    >>> from keepstone.types import Scope
    >>> read(Scope, {"tenant": "local", "agent": "default", "user": "dana"}).user
    'dana'
    """
    try:
        value: T = _read(kind, document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise ServerError(
            f"the server's answer is no {name} ({type(error).__name__} at {error}): is it of the same version as this client?"
        ) from None
    return value


def read_all(kind: type[T], documents: Any) -> list[T]:
    """Values of one type from a list of them."""
    found: list[T] = read(list[kind], documents)  # type: ignore[valid-type]
    return found


def _read(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if kind is Any or kind is object or origin is Literal:
        return value
    if origin in (Union, UnionType):
        return _read_union(get_args(kind), value)
    if is_dataclass(kind):
        return _read_dataclass(kind, value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is float:
        return float("nan") if value is None else float(_check(value, int, float))
    if kind in _PLAIN:
        return _check(value, kind)
    if kind is NoneType:
        return _check(value, NoneType)
    if origin is tuple:
        return _tuple(get_args(kind), _check(value, list))
    if origin in (list, AbstractSequence):
        return [_read(get_args(kind)[0], item) for item in _check(value, list)]
    if origin in (dict, AbstractMapping):
        return {name: _read(get_args(kind)[1], item) for name, item in _check(value, dict).items()}
    raise TypeError(f"{kind} cannot be read")


def _check(value: Any, *kinds: type) -> Any:
    """The value, if it is of one of these types; True is no number."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"{type(value).__name__} in the place of {kinds[0].__name__}")
    return value


def _read_union(kinds: Sequence[Any], value: Any) -> Any:
    """The first of these that it can be; text is text only where nothing else fits."""
    if value is None and NoneType in kinds:
        return None
    problem: Exception = TypeError("None")
    for kind in sorted((kind for kind in kinds if kind is not NoneType), key=lambda kind: kind is str):
        try:
            return _read(kind, value)
        except (KeyError, TypeError, ValueError) as error:
            problem = error
    raise problem


def _tuple(kinds: Sequence[Any], values: list[Any]) -> tuple[Any, ...]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_read(kinds[0], value) for value in values)
    return tuple(_read(kind, value) for kind, value in zip(kinds, values, strict=True))


def _read_dataclass(kind: Any, document: Any) -> Any:
    values = _check(document, dict)
    if kind is ImportReport:
        values = {**values, "errors": [[error["line"], error["problem"]] for error in values["errors"]]}
    arguments: dict[str, Any] = {}
    for name, (hint, required) in _hints(kind).items():
        if required or name in values:
            arguments[name] = _read(hint, values[name])
    return kind(**arguments)


@lru_cache(maxsize=256)
def _hints(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it must be there."""
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
        if field.init
    }


# -- what a caller gives ------------------------------------------------------------------------------------------
def encode_body(given: Mapping[str, Any]) -> bytes:
    """What a caller gave as the JSON of a request; ValidationError names what JSON cannot hold."""
    values = {name: _json(value, name) for name, value in given.items()}
    try:
        return json.dumps(values, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # half a character: the server says what is wrong with it
        return json.dumps(values).encode("ascii")


def _json(value: Any, what: str) -> Any:
    try:
        return _plain(value)
    except RecursionError:
        raise ValidationError(f"{what} is nested too deeply, or holds itself: flatten it.") from None
    except (TypeError, ValueError) as error:
        raise ValidationError(f"{what} is no JSON ({error}): use text, numbers, lists and dictionaries.") from None


def _plain(value: Any) -> Any:
    """The value, if JSON has it as it is: what it would change on the way is refused, as the library does."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number there")
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("a key is not text")
        return {name: _plain(item) for name, item in value.items()}
    raise TypeError(f"it holds a {type(value).__name__}")


def when(given: datetime | str | None) -> Any:
    """A time as it is sent."""
    return given.isoformat() if isinstance(given, datetime) else given


def seconds(given: timedelta | float | None) -> Any:
    """A length of time as it is sent."""
    return given.total_seconds() if isinstance(given, timedelta) else given


def encode_query(**given: Any) -> dict[str, str | list[str]]:
    """What stands in the query of an address: those that were given, as text."""
    return {name: _text(value, name) for name, value in given.items() if value is not None}


def _text(value: Any, name: str) -> str | list[str]:
    if isinstance(value, (list, tuple)):
        return [str(_text(item, name)) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError(f"{name} holds half a character (a lone surrogate): decode the text properly first.") from None
    return text
