"""Verbs of a client, each written once as a plan that a thread or an event loop executes.

A plan is a generator. It yields steps, functions without arguments that do input or output, and gets their results back. A verb
that is one request has a Route, which says how its arguments and its result travel; the server declares its routes from these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, wraps
from inspect import Parameter, signature
from types import MethodType, NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from keepstone.client.codec import check_int, names, path_segment, read
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.ports.coroutines import run_blocking
from keepstone.rights import effects_of

if TYPE_CHECKING:
    from keepstone.client.transport import Transport

T = TypeVar("T")
P = ParamSpec("P")
Step = Callable[[], Any]
Plan: TypeAlias = Generator[Step, Any, T]
_LISTS = (Iterable, Sequence, Collection)
_PLACEHOLDER = re.compile(r"{(\w+)(?::\w+)?}")
_BASIC_RIGHTS = frozenset(("read", "write", "forget"))


def run(plan: Plan[T]) -> T:
    """Execute a plan in this thread."""
    return run_blocking(_execute(plan, blocking=True))


async def run_async(plan: Plan[T]) -> T:
    """Execute a plan in this event loop; its steps return awaitables."""
    return await _execute(plan, blocking=False)


async def _execute(plan: Plan[T], *, blocking: bool) -> T:
    try:
        step = next(plan)
        while True:
            try:
                result = step() if blocking else await step()
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


class RemoteGroup(Remote):
    """Verbs that a client offers under one name."""

    def __init__(self, client: Remote) -> None:
        self._wire = client._wire


class Synchronous:
    """Mixin of a class whose verbs run in the calling thread."""


class Asynchronous:
    """Mixin of a class whose verbs are coroutine functions."""


@dataclass(frozen=True)
class Route:
    """A verb of the library as an HTTP request: its arguments are in the path, then in the query of a GET or the body."""

    verb: Callable[..., Any]
    method: str
    path: str  # in Starlette's form: /memories/{id:path}
    operation: str
    result: str = ""  # the field of the response that holds the result; "": the response is the result
    rights: tuple[str, ...] = ()
    person: str = ""  # what an agent's key may not do; "": it may
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of numbers
    local: Mapping[str, str] = field(default_factory=dict)  # arguments that cannot be sent: what to do instead

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that are sent, with resolved annotations."""
        _, *found = signature(self.verb).parameters.values()
        unsent = {"progress", *self.local}
        return {
            parameter.name: parameter.replace(annotation=self.hints[parameter.name])
            for parameter in found
            if parameter.name not in unsent
        }

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the verb's parameters and of its result."""
        from keepstone.ports.stores import Progress
        from keepstone.vector_sync.indexing import Repaired

        return get_type_hints(self.verb, localns={"Progress": Progress, "Repaired": Repaired}, include_extras=True)

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """The parameters that are in the path."""
        return tuple(_PLACEHOLDER.findall(self.path))

    def encode(self, name: str, value: Any) -> Any:
        """An argument as JSON has it. What a query would turn into text silently is refused."""
        kinds = (hint := self.parameters[name].annotation, *get_args(hint))
        if value is None and NoneType not in kinds and hint is not Any:
            raise ValidationError(f"{name} is None: leave it out, or pass a value.")
        if value is not None and name in self.bounds and int in kinds:
            return check_int(value, name, *self.bounds[name])
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if any(get_origin(kind) in _LISTS for kind in kinds):
            return names(value, name)
        if self.method == "GET" and str in kinds and not isinstance(value, str | None):
            raise ValidationError(f"{name} must be text, got {type(value).__name__}: pass a str.")
        return value

    def decode(self, response: Any) -> Any:
        """The result from a response."""
        kind = self.hints["return"]
        return None if kind is NoneType else read(kind, response[self.result] if self.result else response)


class Verb(Generic[P, T]):
    """A verb with the signature and documentation of its counterpart in the library. It is a function of Synchronous classes
    and a coroutine function of Asynchronous ones."""

    def __init__(self, like: Callable[..., Any], plan: Callable[..., Plan[T]], rights: Collection[str] = ()) -> None:
        @wraps(like)
        def call(*args: Any, **kwargs: Any) -> T:
            return run(plan(*args, **kwargs))

        @wraps(like)
        async def call_async(*args: Any, **kwargs: Any) -> T:
            return await run_async(plan(*args, **kwargs))

        if needed := " and ".join(sorted(filter(None, set(rights) - _BASIC_RIGHTS))):
            call.__doc__ = call_async.__doc__ = f"{like.__doc__}\n\n        Needs a key with the right {needed}."
        self._call, self._call_async = call, call_async
        self.route: Route | None = None

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
    return lambda plan: Verb(like, plan, (right,))


def route(
    like: Callable[Concatenate[Any, P], T],
    method: str,
    path: str,
    operation: str = "",
    *,
    result: str = "",
    bounds: Mapping[str, tuple[int, int]] | None = None,
    local: Mapping[str, str] | None = None,
    encode: Mapping[str, Callable[[Any], Any]] | None = None,
    count: Callable[[T], int] | None = None,
    repeatable: bool | None = None,
    long: bool = False,
) -> Verb[P, T]:
    """A verb of the library as one request. The table of rights says what it needs.

    `encode` converts arguments by name in another way than the route does, `count` is the total that `progress` is called with.
    A request that is `repeatable` is sent again after a failure; every GET is."""
    effects = effects_of(like)
    person = "" if effects.decides is not None else effects.person
    described = Route(like, method, path, operation or like.__name__, result, effects.rights, person, bounds or {}, local or {})
    parameters, encoders = signature(like), dict(encode or {})

    def plan(*args: Any, **kwargs: Any) -> Plan[T]:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        owner, *_ = bound.arguments.values()
        for name, remedy in described.local.items():
            if remedy and bound.arguments[name] != parameters.parameters[name].default:
                raise ConfigurationError(remedy)
        fields: dict[str, Any] = {}
        for name in described.parameters:
            value = bound.arguments[name]
            fields[name] = encoders[name](value) if name in encoders else described.encode(name, value)
        for name in described.bounds.keys() & described.path_names:
            fields[name] = str(fields[name])
        address = _PLACEHOLDER.sub(lambda found: path_segment(fields.pop(found[1]), found[1]), path)
        wire: Transport = owner._wire
        response = yield from wire.request(method, owner._base + address, fields, repeatable=repeatable, long=long)
        returned: T = described.decode(response)
        if (progress := bound.arguments.get("progress")) is not None and count is not None:
            progress(count(returned), count(returned))
        return returned

    made: Verb[P, T] = Verb(like, plan, effects.rights)
    made.route = described
    return made


def routes_of(group: type) -> dict[str, Route]:
    """The routes of a class of verbs, by name."""
    return {name: value.route for name, value in vars(group).items() if isinstance(value, Verb) and value.route is not None}
