"""Arguments of a client's verbs, checked and encoded for a request."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from keepstone.client.codec import encode_body, seconds, when
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.recall.query import check_int as check_int
from keepstone.types import Message, Scope, clean_name


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
