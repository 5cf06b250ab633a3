"""Conversations: what is said, page by page, and what a model is given of it; ingest, learn, recent, chats."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.conversation.flow import Built, message_of_record
from keepstone.errors import ValidationError
from keepstone.server.files import JSONL, handed
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.responses import Asked, Asking, Given, Json, Many, also, answer, group, written
from keepstone.server.service import Caller
from keepstone.server.shapes import ReceiptsShape
from keepstone.server.shapes_talking import (
    ConversationShape,
    CountShape,
    ExportShape,
    MaybeReceiptShape,
    MessagePageShape,
    MessagesShape,
    SessionsShape,
)
from keepstone.types import ForgetReceipt, Message, Receipt, Record

router = group("conversations")
_MOST = 10_000_000
_PAGE = 500


class Said(Given):
    """One message: text, or blocks as the Messages API has them. `at` is when it was said, where that was not just now."""

    role: str
    content: str | Many[dict[str, Json]]
    name: str | None = None
    at: str | None = None
    metadata: dict[str, Json] | None = None

    def document(self) -> dict[str, Any]:
        return self.model_dump() | {"metadata": self.metadata or {}}


class Messages(Given):
    """What was said, in order. `extract`: look for facts in it; `source`: as whose words it counts at the most."""

    messages: Many[Said] = Field(min_length=1, max_length=100)
    extract: bool = True
    source: str | None = None


class Ingest(Messages):
    """What was said in a session, in order."""

    session: str


class Learn(Given):
    """A text to keep as a note and to look for facts in."""

    content: str
    metadata: dict[str, Json] | None = None
    source: str | None = None
    session: str | None = None
    occurred_at: str | None = None


class SummaryGiven(Given):
    """The summary of an exported conversation."""

    text: str
    messages: int
    by: str = ""


class Exported(Given):
    """A conversation as `export` gave it."""

    keepstone: Literal[1]
    session: str | None = None
    messages: Many[Said]
    summary: SummaryGiven | None = None


class Paging(Asked):
    """The last messages, or a page of them all."""

    last: int | None = Field(None, ge=0, le=100_000)
    limit: int | None = Field(None, ge=1, le=500)
    cursor: str | None = None


class Window(Asked):
    """How much of a conversation a model is to be given; the `view_` limits are those of this one look, where they differ from
    those that the summary is made for."""

    max_messages: int | None = Field(None, ge=1, le=_MOST)
    max_tokens: int | None = Field(None, ge=100, le=_MOST)
    summarise: bool | None = None
    view_messages: int | None = Field(None, ge=1, le=_MOST)
    view_tokens: int | None = Field(None, ge=100, le=_MOST)


class Searching(Asked):
    """Words to look for."""

    words: str
    limit: int = Field(20, ge=1, le=1000)


class Sessions(Asked):
    """How many to list."""

    limit: int = Field(100, ge=1, le=10_000)


class Recent(Asked):
    """How many messages."""

    n: int = Field(20, ge=0, le=100_000)


class Chats(Asked):
    """Which lines to write, and how."""

    format: Literal["openai", "anthropic"] = "openai"
    only_successes: bool = False


@router.get("/conversations", operation_id="sessions", response_model=SessionsShape)
async def sessions(asking: Asking, given: Annotated[Sessions, Query()]) -> Response:
    """The conversations there are, the last one spoken in first."""
    asking.need(READ)
    memory = asking.memory
    return answer({"sessions": list(await asking.run(lambda: memory.conversation.list(limit=given.limit)))})


# -- one session: what has a suffix comes first, as a name may hold slashes -----------------------------------------
@router.post(
    "/conversations/{session:path}/messages", operation_id="add_messages", response_model=ReceiptsShape, responses=also(413)
)
async def add_messages(asking: Asking, session: str, given: Messages) -> Response:
    """Append what was said, in order; a receipt for each message."""
    return await _ingested(asking, session, given)


async def _ingested(asking: Caller, session: str, given: Messages) -> Response:
    asking.need(WRITE)
    messages = [each.document() for each in given.messages]
    most = asking.speaks_as if given.source is None else asking.source(given.source)  # a role is a claim
    ingest = partial(asking.service.engine.learner.ingest, extract=given.extract, most=most)
    return answer({"receipts": await asking.run(ingest, asking.scope, messages, session)})


@router.get("/conversations/{session:path}/messages", operation_id="messages", response_model=MessagePageShape)
async def messages(asking: Asking, session: str, given: Annotated[Paging, Query()]) -> Response:
    """The `last` messages, or all of them a page at a time; oldest first either way."""
    asking.need(READ)
    if given.last is not None and (given.limit is not None or given.cursor is not None):
        raise ValidationError("last comes with limit or cursor: ask for the last messages, or for pages of all.")
    found, cursor = await asking.run(_messages, asking, session, given)
    shown = [message_of_record(record) for record in found if _open(asking, record)]
    return answer({"messages": shown, "cursor": cursor})


def _messages(asking: Caller, session: str, given: Paging) -> tuple[list[Record], str | None]:
    """Some records of a session, and the cursor of what comes after them."""
    turns, name = asking.service.engine.store.message_log, asking.memory.conversation(session).session
    if given.last is not None:
        page = turns.page(asking.scope, name, limit=given.last) if given.last else []
        return [record for _, record in page], None
    limit = given.limit or 100
    page = turns.page(asking.scope, name, after=_sequence(given.cursor), limit=limit + 1, oldest=True)
    more = len(page) > limit
    return [record for _, record in page[:limit]], str(page[limit - 1][0]) if more else None


def _sequence(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise ValidationError(f"cursor is {cursor!r:.40}: use the cursor that the page before came with.")
    return int(cursor)


def _open(asking: Caller, record: Record | None) -> bool:
    """Whether the caller may see a record: quarantine is closed to agents."""
    return record is not None and not (record.status == "quarantined" and asking.identity.bound_to_agent)


@router.get("/conversations/{session:path}/window", operation_id="window", response_model=Built)
async def window(asking: Asking, session: str, given: Annotated[Window, Query()]) -> Response:
    """What to send to a model: the summary of the older part in front, where there is one, then the recent messages."""
    asking.need(READ)
    return answer(await asking.run(_window, asking, session, given))


def _window(asking: Caller, session: str, given: Window) -> Built:
    limits = given.model_dump(exclude_none=True, exclude={"view_messages", "view_tokens"})
    engine, withhold = asking.service.engine, asking.identity.bound_to_agent
    talk = engine.conversation(asking.scope, session, limits, withhold=withhold)
    return talk.build(max_tokens=given.view_tokens, max_messages=given.view_messages)


@router.get("/conversations/{session:path}/search", operation_id="search", response_model=MessagesShape)
async def search(asking: Asking, session: str, given: Annotated[Searching, Query()]) -> Response:
    """The newest messages in which all the words stand, oldest first."""
    asking.need(READ)
    return answer({"messages": await asking.run(_search, asking, session, given)})


def _search(asking: Caller, session: str, given: Searching) -> list[Message]:
    memory = asking.memory
    found = memory.conversation(session).search(given.words, limit=given.limit)
    if not asking.identity.bound_to_agent:
        return found
    return [message for message in found if message.id is not None and _open(asking, memory.get(message.id))]


@router.post("/conversations/{session:path}/consolidate", operation_id="consolidate", response_model=MaybeReceiptShape)
async def consolidate(asking: Asking, session: str) -> Response:
    """Store what the session came to as one memory that names the messages it was made from."""
    asking.need(WRITE)
    memory = asking.memory
    return answer({"receipt": await asking.run(lambda: memory.conversation(session).consolidate())})


@router.get("/conversations/{session:path}/export", operation_id="export_conversation", response_model=ExportShape)
async def export(asking: Asking, session: str) -> Response:
    """The whole conversation."""
    asking.need(READ)
    return answer(await asking.run(_exported, asking, session))


def _exported(asking: Caller, session: str) -> dict[str, Any]:
    conversation = asking.memory.conversation(session)
    found = conversation.export()
    if asking.identity.bound_to_agent:
        closed = [message_of_record(record) for record in _records(asking, conversation.session) if not _open(asking, record)]
        said = [(each.role, each.content) for each in closed]
        found["messages"] = [each for each in found["messages"] if (each["role"], each["content"]) not in said]
    return found


def _records(asking: Caller, session: str) -> Iterator[Record]:
    """Every message of a session, oldest first."""
    turns, after = asking.service.engine.store.message_log, 0
    while page := turns.page(asking.scope, session, after=after, limit=_PAGE, oldest=True):
        after = page[-1][0]
        yield from (record for _, record in page)


@router.post(
    "/conversations/{session:path}/import", operation_id="import_conversation", response_model=CountShape, responses=also(413)
)
async def import_(asking: Asking, session: str, given: Exported) -> Response:
    """Append an exported conversation, all of it or, if anything is wrong, nothing."""
    asking.need(WRITE, person="importing a conversation")
    memory = asking.memory
    data = given.model_dump() | {"messages": [each.document() for each in given.messages]}
    return answer({"messages": await asking.run(lambda: memory.conversation(session).import_(data))})


@router.get("/conversations/{session:path}", operation_id="conversation", response_model=ConversationShape)
async def conversation(asking: Asking, session: str) -> Response:
    """How many messages a session has."""
    asking.need(READ)
    return answer(await asking.run(_counted, asking, session))


def _counted(asking: Caller, session: str) -> dict[str, Any]:
    found = asking.memory.conversation(session)
    return {"session": found.session, "messages": len(found)}


@router.delete("/conversations/{session:path}", operation_id="clear", response_model=ForgetReceipt)
async def clear(asking: Asking, session: str) -> Response:
    """Erase the session's messages and every summary made of them. Facts that were learned from them stay."""
    asking.need(FORGET)
    memory = asking.memory
    return answer(await asking.run(lambda: memory.conversation(session).clear()))


# -- across sessions --------------------------------------------------------------------------------------------------
@router.get("/messages", operation_id="recent", response_model=MessagesShape)
async def recent(asking: Asking, given: Annotated[Recent, Query()]) -> Response:
    """The user's last messages across all sessions, oldest first."""
    asking.need(READ)
    return answer({"messages": await asking.run(asking.memory.conversation.recent, given.n)})


@router.post("/ingest", operation_id="ingest", response_model=ReceiptsShape, responses=also(413))
async def ingest(asking: Asking, given: Ingest) -> Response:
    """Append what was said in a session, in order; a receipt for each message."""
    return await _ingested(asking, given.session, given)


_THERE = {"model": Receipt, "description": "It was there already, or replaces what was."}


@router.post("/learn", operation_id="learn", response_model=Receipt, status_code=201, responses={200: _THERE, **also(413)})
async def learn(asking: Asking, given: Learn) -> Response:
    """Keep a text as it is, as a note, and look for facts in it."""
    asking.need(WRITE)
    memory, arguments = asking.memory, given.model_dump() | {"source": asking.source(given.source)}
    return written(await asking.run(lambda: memory.learn(**arguments)))


_LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "A conversation a line.", "content": {JSONL: {"schema": {"type": "string"}}}}
}


@router.get("/chats", operation_id="export_chats", response_class=Response, responses=_LINES)
async def chats(asking: Asking, given: Annotated[Chats, Query()]) -> Response:
    """Every conversation and task as a line of chat messages, ready for fine-tuning."""
    asking.need(READ)
    memory, how = asking.memory, given.model_dump()
    return await handed(asking, lambda path: memory.conversation.export_chats(path, **how), JSONL, "chats.jsonl")
