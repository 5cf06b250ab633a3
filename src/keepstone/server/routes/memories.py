"""remember, get, list, update, forget, history."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.problems import Refused
from keepstone.server.responses import Asked, Asking, Given, Json, Many, also, answer, etag, group, header, version_in, written
from keepstone.server.service import Caller
from keepstone.server.shapes import PageShape, ReceiptsShape, VersionsShape
from keepstone.types import ForgetReceipt, Page, Receipt, Record

router = group("memories")


class Remember(Given):
    """One memory to store."""

    content: str
    kind: str = "fact"
    tag: str = "general"
    key: str | None = None
    importance: float = 0.5
    metadata: dict[str, Json] | None = None
    ttl: float | None = None
    source: str | None = None
    session: str | None = None
    occurred_at: str | None = None
    idempotency_key: str | None = None


class RememberMany(Given):
    """Up to 100 memories, stored all or none."""

    items: Many[Remember]


class Update(Given):
    """What to change of a memory."""

    content: str | None = None
    importance: float | None = None
    metadata: dict[str, Json] | None = None
    expected_version: int | None = None
    occurred_at: str | None = None


class Forget(Given):
    """What to erase: exactly one of these."""

    id: str | None = None
    key: str | None = None
    source: str | None = None
    session: str | None = None
    everything: bool = False


class Listing(Asked):
    """Which records to list."""

    tag: str | None = None
    kind: str | None = None
    filter: str | None = None
    key: str | None = None
    limit: int = 20
    cursor: str | None = None


_THERE = {"model": Receipt, "description": "It was there already, or replaces what was."}


@router.post(
    "/memories", operation_id="remember", response_model=Receipt, status_code=201, responses={200: _THERE, **also(409, 413)}
)
async def remember(
    asking: Asking, given: Remember, request: Request, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """Store one memory and say what became of it. When this answers, the content is on disk."""
    asking.need(WRITE)
    named = header(request, "idempotency-key")  # the same bytes as in a body: the one above is for the description
    if named is not None and given.idempotency_key not in (None, named):
        raise ValidationError("the header Idempotency-Key and idempotency_key in the body differ: send one of them.")
    arguments = _arguments(asking, given) | {"idempotency_key": given.idempotency_key if named is None else named}
    return written(await asking.run(lambda: asking.memory.remember(**arguments)))


def _arguments(asking: Caller, given: Remember) -> dict[str, Any]:
    return given.model_dump() | {"source": asking.source(given.source)}


@router.post("/memories/batch", operation_id="remember_many", response_model=ReceiptsShape, responses=also(409, 413))
async def remember_many(asking: Asking, given: RememberMany) -> Response:
    """Store up to 100 memories in one transaction, all or none; a receipt for each."""
    asking.need(WRITE)
    items = [{name: value for name, value in _arguments(asking, each).items() if value is not None} for each in given.items]
    return answer({"receipts": await asking.run(asking.memory.remember_many, items)})


@router.get("/memories", operation_id="list", response_model=PageShape)
async def list_(asking: Asking, given: Annotated[Listing, Query()]) -> Response:
    """Records, newest first, a page at a time. `filter` are conditions on the metadata, as JSON; `key` alone asks for the one
    record that stands under a key now."""
    asking.need(READ)
    if given.key is not None:
        return answer(await asking.run(_under_key, asking, given))
    conditions = filter_in(given.filter)
    memory = asking.memory
    page = await asking.run(
        lambda: memory.list(tag=given.tag, kind=given.kind, filter=conditions, limit=given.limit, cursor=given.cursor)
    )
    return answer(page)


def _under_key(asking: Caller, given: Listing) -> Page:
    if (given.tag, given.kind, given.filter, given.cursor) != (None,) * 4:
        raise ValidationError("key names one record already: leave out tag, kind, filter and cursor.")
    found = asking.memory.get(key=given.key)
    return Page(() if found is None else (found,))


def filter_in(text: str | None) -> Any:
    """Conditions from a query parameter."""
    from keepstone.server.bodies import strict_json

    if text is None:
        return None
    found = strict_json(text.encode("utf-8", "surrogatepass"))
    if not isinstance(found, dict):
        raise ValidationError('filter must be a JSON object of conditions: {"age": {"gte": 18}}.')
    return found


@router.get("/memories/{id:path}/history", operation_id="history", response_model=VersionsShape, responses=also(404))
async def history(asking: Asking, id: str) -> Response:
    """Every version of a record, oldest first."""
    asking.need(READ)
    versions = await asking.run(_history, asking, id)
    return answer({"id": id, "versions": list(versions)})


def _history(asking: Caller, id: str) -> Any:
    readable(asking, asking.memory.get(id), id)
    return asking.memory.history(id)


def readable(asking: Caller, record: Record | None, id: str) -> Record:
    """A record that the caller may see: quarantine is closed to agents."""
    if record is None or (record.status == "quarantined" and asking.identity.bound_to_agent):
        raise NotFound(f"there is no record {id!r:.80} in this scope: the list shows what there is.")
    return record


def open_to(asking: Caller, id: str) -> None:
    """NotFound for an agent's key, where the record is in quarantine: it is not there for it, nor to be erased by it."""
    if asking.identity.bound_to_agent:
        readable(asking, asking.memory.get(id), id)


@router.get(
    "/memories/{id:path}",
    operation_id="get",
    response_model=Record,
    responses={304: {"description": "It has not changed."}, **also(404)},
)
async def get(asking: Asking, id: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """One record by its id. Its ETag is its version."""
    asking.need(READ)
    record = readable(asking, await asking.run(asking.memory.get, id), id)
    tag = etag(record.version, record.status)
    if if_none_match is not None and not {tag, "*"}.isdisjoint(
        each.strip().removeprefix("W/") for each in if_none_match.split(",")
    ):
        return Response(status_code=304, headers={"etag": tag})
    return answer(record, headers={"etag": tag})


@router.patch("/memories/{id:path}", operation_id="update", response_model=Receipt, responses=also(404, 409, 412, 413))
async def update(asking: Asking, id: str, given: Update, if_match: Annotated[str | None, Header()] = None) -> Response:
    """Change a record; what it was stays in its history. With If-Match, only if it still is at that version."""
    asking.need(WRITE)
    return written(await asking.run(_update, asking, id, given, version_in(if_match)))


def _update(asking: Caller, id: str, given: Update, matched: int | None) -> Receipt:
    source = None
    open_to(asking, id)
    if asking.identity.bound_to_agent:
        source = None if given.content is None else asking.source(None)  # its words, whoever said it first
    try:
        return asking.service.engine.writing.update(
            asking.scope, id, given.content, given.importance, given.metadata,
            given.expected_version if matched is None else matched, source, given.occurred_at,
        )  # fmt: skip
    except Conflict as error:
        if matched is not None:
            raise Refused(412, str(error)) from None
        raise


@router.delete("/memories/{id:path}", operation_id="forget_one", response_model=ForgetReceipt, responses=also(404, 412))
async def forget_one(asking: Asking, id: str, if_match: Annotated[str | None, Header()] = None) -> Response:
    """Erase one record, with its history and what was derived from it alone. With If-Match, only if it still is at that
    version."""
    asking.need(FORGET)
    return answer(await asking.run(_forget_one, asking, id, version_in(if_match)))


def _forget_one(asking: Caller, id: str, matched: int | None) -> ForgetReceipt:
    open_to(asking, id)
    if matched is not None:
        record = readable(asking, asking.memory.get(id), id)
        if record.version != matched:
            raise Refused(412, f"record {id} is at version {record.version}, not {matched}: read it again, then decide.")
    return asking.memory.forget(id)


@router.post("/forget", operation_id="forget", response_model=ForgetReceipt, responses=also(404))
async def forget(asking: Asking, given: Forget) -> Response:
    """Erase one record, a key, all that came from a source or a session, or everything in this scope."""
    sweeping = given.source is not None or given.everything  # what waits for a review would go with it
    asking.need(FORGET, person="erasing all of a source, or everything," if sweeping else None)
    return answer(await asking.run(_forget, asking, given))


def _forget(asking: Caller, given: Forget) -> ForgetReceipt:
    if given.id is not None and given.model_dump(exclude_defaults=True).keys() == {"id"}:
        open_to(asking, given.id)
    return asking.memory.forget(**given.model_dump())
