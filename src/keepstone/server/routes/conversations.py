"""Routes for conversations (messages, windows, search, export), ingest, learn and chat exports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.client.conversation import ConversationsVerbs, ConversationVerbs
from keepstone.client.plans import routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.conversation.flow import Built, message_of_record
from keepstone.errors import ValidationError
from keepstone.server.files import JSONL, send_file
from keepstone.server.identity import READ, WRITE
from keepstone.server.routing import (
    Body,
    CurrentCaller,
    FailFastList,
    Json,
    QueryParams,
    add_verb,
    add_verbs,
    api_router,
    json_response,
    problems,
    request_model,
)
from keepstone.server.schemas import (
    ConversationSchema,
    MessageCountSchema,
    MessagePageSchema,
    MessagesSchema,
    ReceiptsSchema,
)
from keepstone.server.service import Caller
from keepstone.types import Message, Receipt, Record

router = api_router("conversations")
_MAX_LIMIT = 10_000_000
_PAGE_MESSAGES = 500
_DEFAULT_PAGE_MESSAGES = 100


class MessageBody(Body):
    """A message: text, or blocks as in the Messages API. `at` is when it was said; default: now."""

    role: str
    content: str | FailFastList[dict[str, Json]]
    name: str | None = None
    at: str | None = None
    metadata: dict[str, Json] | None = None

    def document(self) -> dict[str, Any]:
        return self.model_dump() | {"metadata": self.metadata or {}}


class MessagesBody(Body):
    """Messages in order. `extract`: find facts in them; `source`: the most trusted source they may have."""

    messages: FailFastList[MessageBody] = Field(min_length=1, max_length=100)
    extract: bool = True
    source: str | None = None


class IngestBody(MessagesBody):
    """Messages of a session, in order."""

    session: str


class SummaryBody(Body):
    """The summary of an exported conversation."""

    text: str
    messages: int
    by: str = ""


class ExportedConversationBody(Body):
    """A conversation in the form that `export` returns."""

    keepstone: Literal[1]
    session: str | None = None
    messages: FailFastList[MessageBody]
    summary: SummaryBody | None = None


class MessagesParams(QueryParams):
    """The last messages, or a page of all messages."""

    last: int | None = Field(None, ge=0, le=100_000)
    limit: int | None = Field(None, ge=1, le=500)
    cursor: str | None = None


class WindowParams(QueryParams):
    """The limits of the window. The `view_` limits apply to this request only; the summary is made for the others."""

    max_messages: int | None = Field(None, ge=1, le=_MAX_LIMIT)
    max_tokens: int | None = Field(None, ge=100, le=_MAX_LIMIT)
    summarise: bool | None = None
    view_messages: int | None = Field(None, ge=1, le=_MAX_LIMIT)
    view_tokens: int | None = Field(None, ge=100, le=_MAX_LIMIT)


class SearchParams(QueryParams):
    """The words to search for."""

    words: str
    limit: int = Field(20, ge=1, le=1000)


class ChatsParams(QueryParams):
    format: Literal["openai", "anthropic"] = "openai"
    only_successes: bool = False


# -- one session: routes with a suffix come first, because a name may contain slashes ----------------------------------------
@router.post(
    "/conversations/{session:path}/messages", operation_id="add_messages", response_model=ReceiptsSchema, responses=problems(413)
)
async def add_messages(caller: CurrentCaller, session: str, body: MessagesBody) -> Response:
    """Append messages in order; a receipt for each."""
    return await _ingest(caller, session, body)


async def _ingest(caller: Caller, session: str, body: MessagesBody) -> Response:
    caller.require(WRITE)
    messages = [message.document() for message in body.messages]
    source = caller.max_source if body.source is None else caller.source(body.source)  # a role is only a claim
    receipts = await caller.run(caller.backend.ingest, caller.scope, messages, session, source, body.extract)
    return json_response({"receipts": receipts})


@router.get("/conversations/{session:path}/messages", operation_id="messages", response_model=MessagePageSchema)
async def messages(caller: CurrentCaller, session: str, params: Annotated[MessagesParams, Query()]) -> Response:
    """The `last` messages, or all messages in pages; oldest first."""
    caller.require(READ)
    if params.last is not None and (params.limit is not None or params.cursor is not None):
        raise ValidationError("last cannot be combined with limit or cursor: ask for the last messages, or for pages.")
    records, cursor = await caller.run(_read_messages, caller, session, params)
    shown = [message_of_record(record) for record in records if caller.may_read(record)]
    return json_response({"messages": shown, "cursor": cursor})


def _read_messages(caller: Caller, session: str, params: MessagesParams) -> tuple[list[Record], str | None]:
    """Messages of a session, and the cursor of the next page."""
    name = caller.memory.conversation(session).session
    if params.last is not None:
        rows = caller.backend.messages(caller.scope, name, limit=params.last) if params.last else []
        return [record for _, record in rows], None
    limit = params.limit or _DEFAULT_PAGE_MESSAGES
    after = _parse_cursor(params.cursor)
    rows = caller.backend.messages(caller.scope, name, after=after, limit=limit + 1, oldest=True)
    cursor = str(rows[limit - 1][0]) if len(rows) > limit else None
    return [record for _, record in rows[:limit]], cursor


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise ValidationError(f"cursor is {cursor!r:.40}: use the cursor of the previous page.")
    return int(cursor)


@router.get("/conversations/{session:path}/window", operation_id="window", response_model=Built)
async def window(caller: CurrentCaller, session: str, params: Annotated[WindowParams, Query()]) -> Response:
    """The messages to send to a model: a summary of the older ones, if there is one, then the recent ones."""
    caller.require(READ)
    return json_response(await caller.run(_build_window, caller, session, params))


def _build_window(caller: Caller, session: str, params: WindowParams) -> Built:
    limits = params.model_dump(exclude_none=True, exclude={"view_messages", "view_tokens"})
    conversation = caller.backend.conversation(caller.scope, session, limits, caller.identity.bound_to_agent)
    return conversation.build(max_tokens=params.view_tokens, max_messages=params.view_messages)


@router.get("/conversations/{session:path}/search", operation_id="search", response_model=MessagesSchema)
async def search(caller: CurrentCaller, session: str, params: Annotated[SearchParams, Query()]) -> Response:
    """The newest messages that contain all the words, oldest first."""
    caller.require(READ)
    return json_response({"messages": await caller.run(_search, caller, session, params)})


def _search(caller: Caller, session: str, params: SearchParams) -> list[Message]:
    memory = caller.memory
    messages = memory.conversation(session).search(params.words, limit=params.limit)
    if not caller.identity.bound_to_agent:
        return messages
    records = [(message, None if message.id is None else memory.get(message.id)) for message in messages]
    return [message for message, record in records if record is not None and caller.may_read(record)]


def _export(caller: Caller, session: str) -> dict[str, Any]:
    conversation = caller.memory.conversation(session)
    exported = conversation.export()
    if caller.identity.bound_to_agent:
        hidden = [(message.role, message.content) for message in _hidden_messages(caller, conversation.session)]
        exported["messages"] = [
            message for message in exported["messages"] if (message["role"], message["content"]) not in hidden
        ]
    return exported


def _hidden_messages(caller: Caller, session: str) -> list[Message]:
    """The messages of a session that the caller may not read."""
    hidden, after = list[Message](), 0
    while rows := caller.backend.messages(caller.scope, session, after=after, limit=_PAGE_MESSAGES, oldest=True):
        after = rows[-1][0]
        hidden += [message_of_record(record) for _, record in rows if not caller.may_read(record)]
    return hidden


@router.post(
    "/conversations/{session:path}/import",
    operation_id="import_conversation",
    response_model=MessageCountSchema,
    responses=problems(413),
)
async def import_conversation(caller: CurrentCaller, session: str, body: ExportedConversationBody) -> Response:
    """Append an exported conversation: all of it or, if anything is invalid, nothing."""
    caller.require(WRITE, person="importing a conversation")
    memory = caller.memory
    exported = body.model_dump() | {"messages": [message.document() for message in body.messages]}
    return json_response({"messages": await caller.run(lambda: memory.conversation(session).import_(exported))})


add_verbs(
    router,
    ConversationVerbs,
    lambda memory, session: memory.conversation(session),
    "/conversations/{session:path}",
    export={"work": _export, "schema": ExportedConversationBody},
)


@router.get("/conversations/{session:path}", operation_id="conversation", response_model=ConversationSchema)
async def conversation(caller: CurrentCaller, session: str) -> Response:
    """The number of messages of a session."""
    caller.require(READ)
    return json_response(await caller.run(_count, caller, session))


def _count(caller: Caller, session: str) -> dict[str, Any]:
    conversation = caller.memory.conversation(session)
    return {"session": conversation.session, "messages": len(conversation)}


# -- across sessions -----------------------------------------------------------------------------------------------------------
add_verbs(router, ConversationsVerbs, lambda memory: memory.conversation)


@router.post("/ingest", operation_id="ingest", response_model=ReceiptsSchema, responses=problems(413))
async def ingest(caller: CurrentCaller, body: IngestBody) -> Response:
    """Append messages to a session, in order; a receipt for each."""
    return await _ingest(caller, body.session, body)


def _learn(caller: Caller, source: str | None, **arguments: Any) -> Receipt:
    return caller.memory.learn(source=caller.source(source), **arguments)


_LEARN = routes_of(RemoteVerbs)["learn"]
add_verb(router, _LEARN, _learn, model=request_model(_LEARN, source=(str | None, None)), statuses=(413,))


@router.get(
    "/chats",
    operation_id="export_chats",
    response_class=Response,
    responses={200: {"description": "One conversation per line.", "content": {JSONL: {"schema": {"type": "string"}}}}},
)
async def export_chats(caller: CurrentCaller, params: Annotated[ChatsParams, Query()]) -> Response:
    """Every conversation and task as a line of chat messages, for fine-tuning."""
    caller.require(READ, person="exporting conversations")
    memory, options = caller.memory, params.model_dump()
    return await send_file(caller, lambda path: memory.conversation.export_chats(path, **options), JSONL, "chats.jsonl")
