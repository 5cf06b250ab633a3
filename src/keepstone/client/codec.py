"""JSON to keepstone's values, and arguments of a client's verbs to requests.

`read` is the inverse of `ports.serialize.document`: it follows the type hints of the frozen dataclasses. Fields that a newer
server adds are ignored; a field that an older one leaves out has its default.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from keepstone.errors import ConfigurationError, ServerError, ValidationError
from keepstone.recall.query import check_int as check_int
from keepstone.types import ImportReport, Message, Scope, clean_name

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
    if origin in (list, Sequence):
        return [_read(get_args(kind)[0], item) for item in _check(value, list)]
    if origin in (dict, Mapping):
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


def path_segment(name: str, what: str = "id") -> str:
    """One part of a path: everything in it is encoded, dots too where they would mean a folder. ValidationError for no name."""
    encoded = quote(clean_name(name, what), safe="")
    return encoded.replace(".", "%2E") if not encoded.strip(".") else encoded


# -- arguments of verbs -------------------------------------------------------------------------------------------
def new_idempotency_key() -> str:
    """A random idempotency key."""
    return f"client:{secrets.token_hex(16)}"


def source_field(source: str) -> str | None:
    """The source as it is sent: a user's word is whatever the key may say at most."""
    return None if clean_name(source, "source") == "user" else source


def item(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """One of many memories, with a key of its own."""
    if isinstance(given, str):
        return {"content": given, "idempotency_key": new_idempotency_key()}
    if not isinstance(given, Mapping):
        raise ValidationError(f"an item is a {type(given).__name__}: pass text, or remember()'s arguments as a dictionary.")
    made = {**given, "ttl": seconds(given.get("ttl")), "occurred_at": when(given.get("occurred_at"))}
    made = {name: value for name, value in made.items() if name in given}
    if "source" in made:
        made["source"] = source_field(made["source"])
    return {**made, "idempotency_key": new_idempotency_key()} if made.get("idempotency_key") is None else made


def encode_items(given: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Many memories."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ValidationError(f"remember_many takes a list, got {type(given).__name__}: for one memory use remember.")
    return [item(one) for one in given]


def message(given: Message | Mapping[str, Any]) -> dict[str, Any]:
    """One message as it is sent; what is wrong with it the server says."""
    if isinstance(given, Message):
        given = {name: getattr(given, name) for name in ("role", "content", "name", "at", "metadata")}
    if not isinstance(given, Mapping):
        raise ValidationError(f"a message is a {type(given).__name__}: pass a Message, or a dictionary with role and content.")
    made = {**given, "at": when(given.get("at"))}
    content = made.get("content")
    return {**made, "content": list(content)} if isinstance(content, tuple) else made


def names(given: Iterable[str] | None, what: str, *, one: bool = False) -> list[str] | None:
    """Names one by one; a text is one name where `one` may stand alone, never its letters."""
    if given is None:
        return None
    if isinstance(given, str) and one:
        return [given]
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ValidationError(f"{what} is {given!r:.60}: names are taken as lists, such as ['fact', 'note'].")
    return [*given]


def named(given: str | None, what: str) -> str | None:
    """A name in a query, where everything is text: what is none must not become one."""
    return None if given is None else clean_name(given, what)


def encode_filter(filter: Mapping[str, Any]) -> str:
    """The conditions of a list as they stand in an address."""
    if not isinstance(filter, Mapping):
        raise ValidationError(f"filter is a {type(filter).__name__}: use a dictionary of conditions.")
    return encode_body(filter).decode("utf-8")


def encode_scope(scope: Scope | Mapping[str, str]) -> Any:
    """A scope as it is sent."""
    return {name: getattr(scope, name) for name in ("tenant", "agent", "user")} if isinstance(scope, Scope) else scope


def encode_scopes(also: Iterable[Scope | Mapping[str, str]] | None) -> list[dict[str, str]] | None:
    """The further scopes of a recall as they are sent: a server fills in the parts that are left out."""
    if also is None:
        return None
    if isinstance(also, Mapping) or not isinstance(also, Iterable):
        raise ValidationError(f"also is {also!r:.60}: use a list of scopes such as [{{'user': 'dana'}}].")
    return [encode_scope(each) for each in also]


def sendable_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits of a conversation that a server can be told; ConfigurationError for those that are functions of this process."""
    from keepstone.conversation.conversation import check_limits
    from keepstone.conversation.flow import Limits

    given = {name: value for name, value in limits.items() if value is not None}
    for name in ("counter", "model"):
        if name in given:
            raise ConfigurationError(
                f"{name}= cannot be sent to a server: leave it out there, or open the store with Memory.open. "
                "A server has a model of its own: 'keepstone serve --model SPEC'."
            )
    check_limits(Limits(), given)
    return given
