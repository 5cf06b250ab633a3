"""The one way of the server's surfaces to a memory: Memory and Backend with the rights of a caller.

HTTP, MCP, tools, dashboard and compatibility paths all get their memory from a Caller, which hands out these. Each verb is looked
up in the table of `keepstone.rights` when it is called; a verb without a row is refused, so a new one is closed until it has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from keepstone.conversation.conversation import Conversation
from keepstone.errors import ConfigurationError, Forbidden
from keepstone.recall.query import other_scopes
from keepstone.rights import GROUPS, READ, VERBS, Effects
from keepstone.types import Scope

if TYPE_CHECKING:
    from keepstone.server.identity import Identity
    from keepstone.server.service import Caller
    from keepstone.settings import Settings

T = TypeVar("T")
_CLOSED = Effects(closed=True)
BUILT_IN_EMBEDDERS = ("auto", "static", "static-256-v2", "none")  # they need no address, no key and no download


def grant(target: T, caller: Caller) -> T:
    """An object whose verbs a caller may call as far as the table allows."""
    return cast("T", _Granted(target, caller))


@lru_cache(maxsize=1000)
def _row(kind: type, name: str) -> tuple[str, Effects]:
    """The row of an attribute: a verb is looked up under the class that defines it."""
    owner = next((base for base in kind.__mro__ if name in vars(base)), kind)
    key = f"{owner.__qualname__}.{name}"
    return key, VERBS.get(key, _CLOSED)


@lru_cache(maxsize=1000)
def _signature(kind: type, name: str) -> inspect.Signature | None:
    """The signature of a verb whose arguments matter; None for any other."""
    effects, signature = _row(kind, name)[1], inspect.signature(getattr(kind, name))
    scoped = not signature.parameters.keys().isdisjoint(("scope", "tenant"))
    return None if effects.is_plain and not scoped else signature


class _Granted:
    """Stands for an object. Attributes of GROUPS are granted too; other attributes are verbs, or values with a free row."""

    __slots__ = ("_caller", "_kind", "_target")
    _target: object
    _kind: Any  # its class
    _caller: Caller

    def __init__(self, target: object, caller: Caller) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_kind", type(target))
        object.__setattr__(self, "_caller", caller)

    def __getattr__(self, name: str) -> Any:
        target, caller = self._target, self._caller
        key, effects = _row(self._kind, name)
        if key in GROUPS:
            return _Granted(getattr(target, name), caller)
        if effects.closed:
            if name.startswith("_"):
                raise AttributeError(name)
            raise Forbidden(f"{key} is closed to keys: it has no row in the table of rights.")
        value = getattr(target, name)
        return self._guard(name, value, effects) if inspect.ismethod(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        _, effects = _row(self._kind, name)
        if effects.closed:
            raise AttributeError(name)
        setattr(self._target, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__getattr__("__call__")(*args, **kwargs)

    def __len__(self) -> int:
        return int(self.__getattr__("__len__")())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return cast("Iterator[Any]", self.__getattr__("__iter__")())

    def _guard(self, name: str, verb: Callable[..., Any], effects: Effects) -> Callable[..., Any]:
        target, caller, signature = self._target, self._caller, _signature(self._kind, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if signature is None:
                caller.require(*effects.rights, person=effects.person or None)
                result = verb(*args, **kwargs)
            else:
                bound = signature.bind(target, *args, **kwargs)
                claims = effects.speaks in bound.arguments
                bound.apply_defaults()
                with caller.audit_denials():
                    _check(caller, effects, bound.arguments, claims)
                result = verb(*bound.args[1:], **bound.kwargs)
            if effects.hide is not None and not caller.identity.may(READ):
                result = effects.hide(result)
            return _Granted(result, caller) if isinstance(result, Conversation) else result

        return call


def _check(caller: Caller, effects: Effects, arguments: dict[str, Any], claims: bool) -> None:
    """Forbidden if the caller may not call a verb with these arguments. Unless it `claims` a source, an agent's key writes as an
    agent."""
    identity = caller.identity
    identity.require(*effects.rights, *(effects.more(arguments) if effects.more is not None else ()))
    if effects.person and (effects.decides is None or effects.decides(arguments)):
        identity.require_person(effects.person)
    if effects.every_agent is not None and effects.every_agent(arguments) and identity.agent is not None:
        raise Forbidden("this key is bound to one agent, and this covers all agents: use a key bound to none.")
    if "scope" in arguments and arguments["scope"] != caller.scope:
        raise Forbidden("a request acts in the scope of its key: name the agent and the user in headers.")
    if arguments.get("tenant", identity.tenant) != identity.tenant:
        raise Forbidden("a request acts in the tenant of its key: use a key of that tenant.")
    if effects.provider and arguments[effects.provider] is not None:
        _require_allowed(arguments[effects.provider], caller.service.settings)
    if effects.reaches:
        given = arguments[effects.reaches]
        single = isinstance(given, (Scope, Mapping))
        others = other_scopes(caller.scope, [given] if single else given)
        for scope in others:
            identity.require_scope(scope)
        arguments[effects.reaches] = (others or (caller.scope,))[0] if single else others
    if effects.speaks == "items":
        arguments["items"] = [_speak_item(identity, item) for item in arguments["items"]]
    elif claims or (effects.speaks and identity.bound_to_agent):
        arguments[effects.speaks] = _speak(identity, arguments[effects.speaks] if claims else None)


def _require_allowed(embedder: Any, settings: Settings) -> None:
    """Refuse an embedder that a request may not name. Forbidden for a provider: it would get every text, and its key would go to
    an address of the request's choice."""
    allowed = [*BUILT_IN_EMBEDDERS, *(name.strip() for name in settings.request_embedders.split(",") if name.strip())]
    if embedder not in allowed:
        refusal = Forbidden if ":" in str(embedder) else ConfigurationError
        raise refusal(
            f"a request may not name this embedder: use one of {', '.join(allowed)}, or list it in the setting request_embedders "
            "of the server."
        )


def _speak(identity: Identity, source: str | None) -> str | None:
    """The source of a write; what names none counts as the agent's word, if the key is an agent's."""
    if source is None:
        return identity.max_source if identity.bound_to_agent else None
    identity.require_source(source)
    return source


def _speak_item(identity: Identity, item: Any) -> Any:
    if isinstance(item, Mapping):
        source = _speak(identity, item.get("source"))
        return item if source is None else {**item, "source": source}
    return {"content": item, "source": identity.max_source} if identity.bound_to_agent else item
