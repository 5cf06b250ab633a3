"""Verbs of a client, each written once as a plan that a thread or an event loop executes.

A plan is a generator. It yields steps, functions without arguments that do input or output, and gets their results back.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from datetime import datetime, timedelta
from functools import wraps
from inspect import signature
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

from keepstone.client.request_args import names
from keepstone.client.responses import path_segment

if TYPE_CHECKING:
    from keepstone.client.transport import Transport

T = TypeVar("T")
P = ParamSpec("P")
Step = Callable[[], Any]
Plan: TypeAlias = Generator[Step, Any, T]
OMIT = object()  # what an encoder returns for an argument that is not sent
_LISTS = frozenset(("kinds", "ids", "checks", "why"))  # parameters that take lists of names


def run(plan: Plan[T]) -> T:
    """Execute a plan in this thread."""
    try:
        step = next(plan)
        while True:
            try:
                result = step()
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def run_async(plan: Plan[T]) -> T:
    """Execute a plan in this event loop; its steps return awaitables."""
    try:
        step = next(plan)
        while True:
            try:
                result = await step()
            except BaseException as error:
                step = plan.throw(error)
            else:
                step = plan.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


class Remote:
    """An object on a server: what sends its requests, and the path they begin with."""

    _wire: Transport
    _base = "/v1"


class Synchronous:
    """Mixin of a class whose verbs run in the calling thread."""


class Asynchronous:
    """Mixin of a class whose verbs are coroutine functions."""


class Verb(Generic[P, T]):
    """A verb with the signature and documentation of its counterpart in the library. It is a function of Synchronous classes
    and a coroutine function of Asynchronous ones."""

    def __init__(self, like: Callable[..., Any], plan: Callable[..., Plan[T]], right: str = "") -> None:
        @wraps(like)
        def call(*args: Any, **kwargs: Any) -> T:
            return run(plan(*args, **kwargs))

        @wraps(like)
        async def call_async(*args: Any, **kwargs: Any) -> T:
            return await run_async(plan(*args, **kwargs))

        if right:
            call.__doc__ = call_async.__doc__ = f"{like.__doc__}\n\n        Needs a key with the right {right}."
        self._call, self._call_async = call, call_async

    @overload
    def __get__(self, instance: Synchronous, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        function: Callable[..., Any] = self._call_async if issubclass(owner, Asynchronous) else self._call
        return function if instance is None else MethodType(function, instance)


def verb(
    like: Callable[Concatenate[Any, P], T], *, right: str = ""
) -> Callable[[Callable[Concatenate[Any, P], Plan[T]]], Verb[P, T]]:
    """Decorate a plan that does what a verb of the library does."""
    return lambda plan: Verb(like, plan, right)


def route(
    like: Callable[Concatenate[Any, P], T],
    method: str,
    path: str,
    decode: Callable[[Any], T],
    *,
    encode: Mapping[str, Callable[[Any], Any]] | None = None,
    count: Callable[[T], int] | None = None,
    repeatable: bool | None = None,
    long: bool = False,
    right: str = "",
) -> Verb[P, T]:
    """A verb of the library as one request that carries its arguments: in the path, then in the query of a GET or the body.

    `encode` converts arguments by name, `decode` reads the response, `count` is the total that `progress` is called with.
    A request that is `repeatable` is sent again after a failure; every GET is."""
    parameters = signature(like)
    encoders = dict(encode or {})

    def plan(*args: Any, **kwargs: Any) -> Plan[T]:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        (owner, *values), (_, *keys) = bound.arguments.values(), bound.arguments
        arguments: dict[str, Any] = dict(zip(keys, values, strict=True))
        progress = arguments.pop("progress", None)
        address = path
        fields: dict[str, Any] = {}
        for name, value in arguments.items():
            encoded = encoders[name](value) if name in encoders else encode_value(value, name)
            if f"{{{name}}}" in path:
                address = address.replace(f"{{{name}}}", str(encoded) if name in encoders else path_segment(encoded, name))
            elif encoded is not OMIT:
                fields[name] = encoded
        wire: Transport = owner._wire
        response = yield from wire.request(method, owner._base + address, fields, repeatable=repeatable, long=long)
        result = decode(response)
        if progress is not None and count is not None:
            progress(count(result), count(result))
        return result

    return Verb(like, plan, right)


def encode_value(value: Any, name: str) -> Any:
    """An argument as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return names(value, name) if name in _LISTS else value
