"""Runs a command without the parser of typer, which imports pydantic and doubles the start.

Only plain arguments are read: options by their full names with a value that begins with no dash, each once unless it is a list.
Anything else, errors and help included, is left to typer.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, get_args, get_origin

import typer
from typer.models import ArgumentInfo

_NUMBERS = {int: re.compile(r"[0-9]{1,9}"), float: re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")}


class _NotPlain(Exception):
    """The arguments are for typer to read."""


def find_call(app: typer.Typer, arguments: Sequence[str]) -> Callable[[], int | None] | None:
    """The call of the command that the arguments name; None where they are not plain."""
    name, *rest = arguments
    command = next(each.callback for each in app.registered_commands if each.name == name)
    assert command is not None
    _, *parameters = inspect.signature(command).parameters.values()  # the first is typer's context
    try:
        given = _read(parameters, rest)
    except _NotPlain:
        return None
    context = SimpleNamespace(obj=None, invoked_subcommand=None, command_path=f"keepstone {name}")
    return lambda: command(context, **given)


def _read(parameters: Iterable[inspect.Parameter], arguments: Sequence[str]) -> dict[str, Any]:
    """The values of parameters."""
    options: dict[str, inspect.Parameter] = {}
    places: list[inspect.Parameter] = []
    for each in parameters:
        info = get_args(each.annotation)[1]
        if isinstance(info, ArgumentInfo):
            places.append(each)
        else:  # inside Annotated the first name of an option is where its default would be
            names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
            options |= dict.fromkeys(names or [f"--{each.name.replace('_', '-')}"], each)
    missing = {own.name: own.default for own in (*options.values(), *places)}
    given: dict[str, Any] = {}
    left = iter(arguments)
    for argument in left:
        own = options.get(argument) if argument.startswith("-") else places.pop(0) if places else None
        if own is None:
            raise _NotPlain
        value = _value(_kind(own), next(left, "-") if argument in options and _kind(own) is not bool else argument)
        if isinstance(value, list):
            given.setdefault(own.name, []).extend(value)
        elif given.setdefault(own.name, value) is not value:
            raise _NotPlain
    if inspect.Parameter.empty in (missing | given).values():
        raise _NotPlain
    return missing | given


def _kind(own: inspect.Parameter) -> Any:
    """The type of a parameter, without None."""
    kind = get_args(own.annotation)[0]
    return next((each for each in get_args(kind) if each is not type(None)), kind) if get_origin(kind) is not list else kind


def _value(kind: Any, text: str) -> Any:
    """A text as a value of a type."""
    if kind is bool:
        return True
    if text.startswith("-") or not text.isprintable():
        raise _NotPlain
    if kind in _NUMBERS:
        if _NUMBERS[kind].fullmatch(text) is None:
            raise _NotPlain
        return kind(text)
    return [text] if get_origin(kind) is list else text
