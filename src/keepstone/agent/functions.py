"""Python functions as tools for a model: schemas from annotations, checked arguments, results as text."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from keepstone.errors import ConfigurationError
from keepstone.ports.coroutines import run_in_loop

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEYS = ("name", "description", "input_schema", "function")
_MAX_ERROR_CHARS, _MAX_VALUE_CHARS = 400, 60  # characters of an error, and of a value in one, that a model is shown
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_TIMES: dict[Any, str] = {datetime: "date-time", date: "date", time: "time"}
_CLOSED = {"type": "object", "additionalProperties": False}
_LISTS = (list, tuple, set, frozenset, Sequence, Iterable)
_WANTED = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null",
    "array": "a list", "object": "an object",
}  # fmt: skip


class ToolFailed(Exception):
    """A tool could not be called with its arguments, or failed inside; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call, with what the model is told of it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    function: Callable[..., Any]
    # What is built from JSON, and what goes by place; empty for a tool whose schema the caller wrote.
    _types: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _placed: tuple[inspect.Parameter, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"a tool's name is {self.name!r:.80}: use 1 to 64 of the letters a-z, A-Z, digits, _ and -.")
        if not isinstance(self.description, str) or not callable(self.function):
            raise ConfigurationError(f"tool {self.name}: its description must be text and its function callable.")
        try:
            plain = json.loads(json.dumps(dict(self.input_schema)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"tool {self.name}: input_schema is not plain JSON data: {error}.") from None
        if plain.get("type") != "object" or not isinstance(plain.get("properties", {}), dict):
            raise ConfigurationError(f"tool {self.name}: input_schema must be a JSON Schema with type 'object' and properties.")

    @property
    def schema(self) -> dict[str, Any]:
        """As the Messages API takes it."""
        plain = json.loads(json.dumps(dict(self.input_schema)))
        return {"name": self.name, "description": self.description, "input_schema": plain}

    def call(self, input: Mapping[str, Any]) -> str:
        """The result as text; a coroutine is run to its end in a loop of its own."""
        return _as_text(_call(self, *self._arguments(input), finish=True))

    async def acall(self, input: Mapping[str, Any]) -> str:
        """The result as text; a coroutine function is awaited, a plain one runs in a worker thread."""
        placed, named = self._arguments(input)
        work = functools.partial(_call, self, placed, named)
        result = work() if inspect.iscoroutinefunction(self.function) else await asyncio.to_thread(work)
        if inspect.isawaitable(result):
            try:
                result = await result
            except Exception as error:
                raise _failure(self, error) from error
        return _as_text(result)

    def _arguments(self, input: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Checked arguments by place and by name."""
        if not isinstance(input, Mapping):
            raise ToolFailed(f"the arguments of {self.name} must be an object, got {_format_value(input)}.")
        strict = {"additionalProperties": False} if "properties" in self.input_schema else {}
        given = _check(dict(input), {**strict, **self.input_schema}, "")
        named = {key: _build(value, self._types.get(key, Any), key) for key, value in given.items()}
        return [named.pop(each.name, each.default) for each in self._placed], named


def _call(tool: Tool, placed: list[Any], named: dict[str, Any], finish: bool = False) -> Any:
    try:
        result = tool.function(*placed, **named)
        return run_in_loop(result) if finish and inspect.isawaitable(result) else result
    except Exception as error:
        raise _failure(tool, error) from error


def _failure(tool: Tool, error: Exception) -> ToolFailed:
    said = "".join(traceback.format_exception_only(error)).strip()
    return error if isinstance(error, ToolFailed) else ToolFailed(f"{tool.name} failed with {_clip(said)}")


def _as_text(value: Any) -> str:
    plain = _jsonable(value) if isinstance(value, (date, time, Enum)) else value
    if isinstance(plain, str):
        return plain
    try:
        return json.dumps(plain, ensure_ascii=False, default=_jsonable)
    except Exception:
        try:
            return str(value)
        except Exception:
            return f"(a {type(value).__name__} that cannot be shown)"


def _jsonable(value: Any) -> Any:
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


def _format_value(value: Any) -> str:
    """A value in an error: short, and safe for what is deep or huge."""
    if isinstance(value, str):
        return f"{value[:_MAX_VALUE_CHARS]!r}" + ("…" if len(value) > _MAX_VALUE_CHARS else "")
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and value.bit_length() < 200):
        return json.dumps(value)
    kinds = {list: "a list", tuple: "a list", dict: "an object", int: "a huge number"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _check(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    """The value, if it is what the schema says; keys of the schema that are not known here are left to the function."""
    of = f"argument {where}" if where else "the arguments"
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    for choice in sorted(choices, key=lambda each: each.get("type") != _SIMPLE.get(type(value))):
        try:
            return _check(value, choice, where)
        except ToolFailed:
            continue
    if choices:
        raise ToolFailed(f"{of} is {_format_value(value)}, expected {' or '.join(_expected(each) for each in choices)}.")
    enum = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if enum is not None and not any(type(value) is type(each) and value == each for each in enum):
        raise ToolFailed(
            f"{of} is {_format_value(value)}, expected one of {_clip(', '.join(_format_value(each) for each in enum))}."
        )
    kind = schema.get("type", ())
    kinds = [kind] if isinstance(kind, str) else kind
    if kinds and not any(_is_type(value, each) for each in kinds):
        raise ToolFailed(f"{of} is {_format_value(value)}, expected {_expected(schema)}.")
    if isinstance(value, float) and "integer" in kinds and "number" not in kinds:
        return int(value)
    if isinstance(value, Mapping) and "object" in kinds:
        return _check_object(value, schema, where)
    if isinstance(value, (list, tuple)) and isinstance(schema.get("items"), Mapping):
        return [_check(each, schema["items"], f"{where}[{at}]") for at, each in enumerate(value)]
    return value


def _check_object(value: Mapping[Any, Any], schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    known, dot = schema.get("properties", {}), f"{where}." if where else ""
    more = schema.get("additionalProperties", True)
    missing = [key for key in schema.get("required", ()) if key not in value]
    if missing:
        raise ToolFailed(f"argument {dot}{missing[0]} is missing, expected {_expected(known.get(missing[0], {}))}.")
    unknown = [key for key in value if key not in known] if more is False else []
    if unknown:
        raise ToolFailed(
            f"argument {dot}{str(unknown[0])[:_MAX_VALUE_CHARS]} is unknown, expected {_clip(', '.join(known) or 'none')}."
        )
    rest = more if isinstance(more, Mapping) else {}
    return {str(key): _check(each, known.get(key, rest), f"{dot}{str(key)[:_MAX_VALUE_CHARS]}") for key, each in value.items()}


def _is_type(value: Any, kind: str) -> bool:
    if kind in ("number", "integer"):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        finite = isinstance(value, (int, float)) and abs(value) < float("inf")
        return not isinstance(value, bool) and (whole if kind == "integer" else finite)
    classes: dict[str, Any] = {"string": str, "boolean": bool, "null": type(None), "array": (list, tuple), "object": Mapping}
    return isinstance(value, classes.get(kind, object))


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return _clip("one of " + ", ".join(_format_value(each) for each in schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_expected(each) for each in schema["anyOf"])
    kind = schema.get("type", "a value")
    text = " or ".join(_WANTED.get(each, each) for each in ([kind] if isinstance(kind, str) else kind))
    return f"{text} ({schema['format']}, ISO 8601)" if schema.get("format") in _TIMES.values() else text


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…"


def _build(value: Any, annotation: Any, where: str) -> Any:
    """A checked JSON value as what the annotation asks for."""
    annotation, _ = _unwrap(annotation)
    origin, inner = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (Union, types.UnionType):
        for each in sorted(inner, key=lambda each: each is not type(value)):
            try:
                return _build(_check(value, _to_schema(each, where), where), each, where)
            except ToolFailed:
                continue
        raise ToolFailed(
            f"argument {_clip(where)} is {_format_value(value)}, expected {_expected(_to_schema(annotation, where))}."
        )
    try:
        if origin is float and isinstance(value, int):
            return float(value) if float(value) == value else value
        if origin in _TIMES:
            return origin.fromisoformat(value)
        if isinstance(origin, type) and issubclass(origin, Enum):
            return next(each for each in origin if each.value == value and type(each.value) is type(value))
        if origin in _LISTS and inner and isinstance(value, list):
            made = [_build(each, inner[0], f"{where}[{at}]") for at, each in enumerate(value)]
            return origin(made) if origin in (tuple, set, frozenset) else made
        if origin in (dict, Mapping) and inner:
            return {key: _build(each, inner[1], f"{where}.{key}") for key, each in value.items()}
        if is_dataclass(origin) or typing.is_typeddict(origin):
            hints = typing.get_type_hints(origin, include_extras=True)
            parts = {key: _build(each, hints[key], f"{where}.{key}") for key, each in value.items()}
            return typing.cast(Any, origin)(**parts)
    except ToolFailed:
        raise
    except Exception as error:  # a dataclass may refuse its values in its own way
        wanted = f"{_expected(_to_schema(annotation, where))}: {_clip(str(error))}"
        raise ToolFailed(f"argument {_clip(where)} is {_format_value(value)}, expected {wanted}") from None
    return value


def tools_of(given: Iterable[Any]) -> dict[str, Tool]:
    """Tools by name, in the order given."""
    tools = [tool_of(each) for each in given]
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two tools are called {name!r}: give one another name.")
    return dict(zip(names, tools, strict=True))


def tool_of(given: Callable[..., Any] | Mapping[str, Any] | Tool) -> Tool:
    """A tool from a function with annotations and a docstring, or from a mapping that has everything."""
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping):
        if set(given) != set(_KEYS):
            wrong = sorted(map(str, set(given) ^ set(_KEYS)))[0]
            raise ConfigurationError(f"a tool has {', '.join(_KEYS)}: {wrong!r:.60} is missing or unknown.")
        return Tool(**given)
    if not callable(given):
        raise ConfigurationError(f"a tool is a function or a mapping with {', '.join(_KEYS)}, got {_format_value(given)}.")
    return _from_function(given)


def _from_function(given: Callable[..., Any]) -> Tool:
    inner: Any = given
    preset: set[str] = set()  # what a partial fixes is the caller's, not the model's
    while isinstance(inner, functools.partial):
        preset |= set(inner.keywords)
        inner = inner.func
    name = str(getattr(given, "__name__", getattr(inner, "__name__", type(inner).__name__)))
    if name == "<lambda>":
        raise ConfigurationError(f"a lambda has no name: write a def, or give a mapping with {', '.join(_KEYS)}.")
    code = inner if inspect.isroutine(inner) or isinstance(inner, type) else type(inner).__call__
    try:
        parameters = [each for each in inspect.signature(given).parameters.values() if each.name not in preset]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the parameters of {name} cannot be read ({error}): wrap it in a def.") from None
    parameters = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if parameters and parameters[0].name in ("self", "cls"):
        raise ConfigurationError(f"{name} is a method without its object: give the bound method, thing.{name}.")
    about, notes = _parse_docstring(inspect.getdoc(code) or inspect.getdoc(inner) or "")
    hints = {each.name: _resolve(each, inspect.unwrap(code), name) for each in parameters}
    properties: dict[str, Any] = {}
    for each in parameters:
        made = _to_schema(hints[each.name], f"{name}({each.name})")
        if each.name in notes:
            made.setdefault("description", notes[each.name])
        if isinstance(each.default, (str, int, float)) and not isinstance(each.default, Enum):
            made["default"] = each.default
        properties[each.name] = made
    placed = tuple(each for each in parameters if each.kind is each.POSITIONAL_ONLY)
    required = [each.name for each in parameters if each.default is each.empty]
    return Tool(name, about, {**_CLOSED, "properties": properties, "required": required}, given, hints, placed)


def _resolve(parameter: inspect.Parameter, code: Any, name: str) -> Any:
    """A parameter's annotation, also where it was written or kept as text."""
    annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        local = inspect.getclosurevars(code).nonlocals if hasattr(code, "__code__") else {}
        return typing.get_type_hints(holder, getattr(code, "__globals__", {}), local, include_extras=True)["it"]
    except Exception as error:
        what = f"the annotation {str(annotation)[:80]!r} of {name}({parameter.name})"
        raise ConfigurationError(f"{what} cannot be resolved ({error}): define its names at the top of the module.") from None


_PARAM = re.compile(r"^:param (?:[^:\n]*\s)?\*{0,2}(\w+):[ \t]*(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
_ARGS = re.compile(r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+\S.*\n?|[ \t]*\n)+)", re.MULTILINE)
_ARG = re.compile(r"^\*{0,2}(\w+)(?: *\([^\n]*?\))?: *(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
_UNDERLINED = re.compile(r"^Parameters[ \t]*\n-{3,}[ \t]*\n(.*?)(?=\n\S[^\n]*\n-{3,}|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(\w+)(?: *:[^\n]*)?\n((?:[ \t]+\S.*\n?)+)", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n|(?:^|\n)(?::\w+|(?:Args|Arguments|Parameters|Returns|Raises):[ \t]*\n)|\n[^\n]+\n---")


def _parse_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and what it says of each argument (Google, NumPy, Sphinx)."""
    found = _PARAM.findall(doc)
    for section, entry in ((_ARGS, _ARG), (_UNDERLINED, _ENTRY)):
        for body in section.findall(doc):
            found += entry.findall(inspect.cleandoc(body))
    return " ".join(_PARAGRAPH.split(doc, maxsplit=1)[0].split()), {key: " ".join(text.split()) for key, text in found}


def _unwrap(annotation: Any) -> tuple[Any, str]:
    """An annotation without what is wrapped around the type, and the description it carries."""
    about = ""
    while True:
        origin, inner = get_origin(annotation), get_args(annotation)
        if origin in (Annotated, typing.Required, typing.NotRequired):
            about = about or next((each for each in inner[1:] if isinstance(each, str)), "")
            annotation = inner[0]
        elif hasattr(annotation, "__supertype__") or type(annotation).__name__ == "TypeAliasType":
            annotation = getattr(annotation, "__supertype__", None) or annotation.__value__
        else:
            return annotation, about


def _to_schema(annotation: Any, where: str, above: tuple[Any, ...] = ()) -> dict[str, Any]:
    """JSON Schema of an annotation."""
    kind, about = _unwrap(annotation)
    if about:
        return {**_to_schema(kind, where, above), "description": about}
    origin: Any = get_origin(kind) or kind
    inner = get_args(kind)
    if origin in (Any, object):
        return {}
    if origin is None or (isinstance(origin, type) and origin in _SIMPLE):
        return {"type": _SIMPLE[origin or type(None)]}
    if isinstance(origin, type) and origin in _TIMES:
        return {"type": "string", "format": _TIMES[origin]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_to_schema(each, where, above) for each in inner]}
    if origin is Literal or (isinstance(origin, type) and issubclass(origin, Enum)):
        values = list(inner) if origin is Literal else [each.value for each in typing.cast(Any, origin)]
        names = {_SIMPLE.get(type(each), "") for each in values}
        if "" not in names and names:
            return {"enum": values} if len(names) > 1 else {"type": names.pop(), "enum": values}
    elif origin in _LISTS and (len(inner) < 2 or (origin is tuple and inner[1:] == (...,))):
        return {"type": "array", "items": _to_schema(inner[0], where, above)} if inner else {"type": "array"}
    elif origin in (dict, Mapping) and (not inner or inner[0] is str):
        return {"type": "object", "additionalProperties": _to_schema(inner[1], where, above)} if inner else {"type": "object"}
    elif (is_dataclass(origin) or typing.is_typeddict(origin)) and origin not in above:
        return _record_schema(origin, where, above)
    known = "str, int, float, bool, list, dict, Literal, Enum, datetime, dataclasses, Any"
    what = f"{str(kind)[:80]}{', which contains itself' if origin in above else ''}"
    raise ConfigurationError(f"{where} has the annotation {what}: use {known}, or give the tool as a mapping.")


def _record_schema(origin: Any, where: str, above: tuple[Any, ...]) -> dict[str, Any]:
    """The schema of a dataclass or TypedDict."""
    try:
        hints = typing.get_type_hints(origin, include_extras=True)
    except Exception as error:
        raise ConfigurationError(f"{where}: {origin} cannot be resolved ({error}): define it at a module's top.") from None
    if is_dataclass(origin):
        own = [each for each in fields(origin) if each.init]
        needed = [each.name for each in own if each.default is MISSING and each.default_factory is MISSING]
        hints = {each.name: hints[each.name] for each in own}
    else:  # marks in postponed annotations are not in __required_keys__ of all Pythons
        marks = {key: get_origin(each) for key, each in hints.items()}
        needed = [key for key in hints if key in origin.__required_keys__ and marks[key] is not typing.NotRequired]
    properties = {key: _to_schema(each, where, (*above, origin)) for key, each in hints.items()}
    return {**_CLOSED, "properties": properties, "required": needed}
