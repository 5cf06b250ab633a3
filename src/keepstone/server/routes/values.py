"""Values under keys."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.server.identity import READ, WRITE
from keepstone.server.responses import Asked, Asking, Given, Json, also, answer, group, written
from keepstone.server.shapes_talking import ValueShape, ValuesShape
from keepstone.types import Receipt

router = group("values")
_NONE: Any = object()  # null is a value


class Value(Given):
    """A value, and its tag."""

    value: Json
    tag: str = "general"


class Tagged(Asked):
    tag: str = Field(min_length=1, max_length=256)


_THERE = {"model": Receipt, "description": "There was a value before; it stays in the history."}


@router.put(
    "/values/{key:path}", operation_id="set", response_model=Receipt, status_code=201, responses={200: _THERE, **also(413)}
)
async def set_(asking: Asking, key: str, given: Value) -> Response:
    """Save a value under a key: any JSON value. The old one stays in history."""
    asking.need(WRITE)
    values, source = asking.service.engine.values, asking.source(None)
    return written(await asking.run(values.set, asking.scope, key, given.value, given.tag, source))


@router.get("/values/{key:path}", operation_id="value", response_model=ValueShape, responses=also(404))
async def value(asking: Asking, key: str) -> Response:
    """The current value of a key."""
    asking.need(READ)
    found = await asking.run(asking.memory.value, key, _NONE)
    if found is _NONE:
        raise NotFound(f"there is no value under the key {key!r:.80} in this scope: check the key, or set it.")
    return answer({"key": key, "value": found})


@router.get("/values", operation_id="values", response_model=ValuesShape)
async def values(asking: Asking, given: Annotated[Tagged, Query()]) -> Response:
    """The value of every key with a tag, the last updated first."""
    asking.need(READ)
    return answer({"values": await asking.run(lambda: asking.memory.value(tag=given.tag))})
