"""Routes for conversations (messages, windows, search, export), ingest, learn and chat exports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.client.conversation import ConversationsVerbs, ConversationVerbs
from keepstone.client.plans import Route, routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.conversation.conversation import Conversation
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
    operation,
    request_model,
)
from keepstone.server.schemas import envelope
from keepstone.server.service import Caller
from keepstone.types import Message, Receipt, Record

router = api_router("conversations")
_SESSION = "/conversations/{session:path}"
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


Messages = Annotated[FailFastList[MessageBody], Field(min_length=1, max_length=100)]


Last = Annotated[int | None, Field(ge=0, le=100_000)]
PageSize = Annotated[int | None, Field(ge=1, le=500)]
MaxMessages = Annotated[int | None, Field(ge=1, le=10_000_000)]
MaxTokens = Annotated[int | None, Field(ge=100, le=10_000_000)]


# -- one session: routes with a suffix come first, because a name may contain slashes ----------------------------------------
@operation(router, "POST", "/ingest", "ingest", rights=(WRITE,), result="receipts", statuses=(413,))
@operation(router, "POST", f"{_SESSION}/messages", "add_messages", rights=(WRITE,), result="receipts", statuses=(413,))
def ingest(caller: Caller, session: str, messages: Messages, extract: bool = True, source: str | None = None) -> list[Receipt]:
    """Append messages to a session, in order; a receipt for each. `extract`: find facts in them; `source`: the most trusted
    source they may have."""
    most = caller.max_source if source is None else caller.source(source)  # a role is only a claim
    return caller.backend.ingest(caller.scope, [message.document() for message in messages], session, most, extract)


@operation(
    router,
    "GET",
    f"{_SESSION}/messages",
    "messages",
    schema=envelope("MessagesResult", "Messages, oldest first.", messages=list[Message], cursor=str | None),
)
def read_messages(
    caller: Caller,
    session: str,
    last: Last = None,
    limit: PageSize = None,
    cursor: str | None = None,
) -> dict[str, Any]:
    """The `last` messages, or all messages in pages; oldest first."""
    if last is not None and (limit is not None or cursor is not None):
        raise ValidationError("last cannot be combined with limit or cursor: ask for the last messages, or for pages.")
    records, next_cursor = _read_records(caller, caller.memory.conversation(session).session, last, limit, cursor)
    return {"messages": [message_of_record(record) for record in records], "cursor": next_cursor}


def _read_records(
    caller: Caller, session: str, last: int | None, limit: int | None, cursor: str | None
) -> tuple[list[Record], str | None]:
    """Messages of a session as records, and the cursor of the next page."""
    if last is not None:
        rows = caller.backend.messages(caller.scope, session, limit=last) if last else []
        return [record for _, record in rows], None
    limit = limit or _DEFAULT_PAGE_MESSAGES
    after = 0 if cursor is None else caller.backend.open_cursor(caller.scope, session, cursor)
    rows = caller.backend.messages(caller.scope, session, after=after, limit=limit + 1, oldest=True)
    next_cursor = caller.backend.close_cursor(caller.scope, session, rows[limit - 1][0]) if len(rows) > limit else None
    return [record for _, record in rows[:limit]], next_cursor


@operation(router, "GET", f"{_SESSION}/window", "window")
def build_window(
    caller: Caller,
    session: str,
    max_messages: MaxMessages = None,
    max_tokens: MaxTokens = None,
    summarise: bool | None = None,
    view_messages: MaxMessages = None,
    view_tokens: MaxTokens = None,
) -> Built:
    """The messages to send to a model: a summary of the older ones, if there is one, then the recent ones. The `view_` limits
    apply to this request only; the summary is made for the others."""
    limits = {"max_messages": max_messages, "max_tokens": max_tokens, "summarise": summarise}
    given = {name: value for name, value in limits.items() if value is not None}
    conversation = caller.backend.conversation(caller.scope, session, given)
    return conversation.build(max_tokens=view_tokens, max_messages=view_messages)


def _import(caller: Caller, session: str, messages: list[MessageBody], **exported: Any) -> int:
    documents = [message.document() for message in messages]
    summary = exported.pop("summary")
    exported |= {"messages": documents, "summary": None if summary is None else summary.model_dump()}
    return caller.memory.conversation(session).import_(exported)


_IMPORT = Route(
    Conversation.import_,
    "POST",
    f"{_SESSION}/import",
    "import_conversation",
    "messages",
    (WRITE,),
    "importing a conversation",
)
add_verb(router, _IMPORT, _import, model=ExportedConversationBody, statuses=(413,))
add_verbs(
    router,
    ConversationVerbs,
    lambda memory, session: memory.conversation(session),
    _SESSION,
    export={"schema": ExportedConversationBody},
)


@operation(router, "GET", _SESSION, "conversation", schema=envelope("ConversationResult", session=str, messages=int))
def count_messages(caller: Caller, session: str) -> dict[str, Any]:
    """The number of messages of a session; 0 for an unknown one."""
    conversation = caller.memory.conversation(session)
    return {"session": conversation.session, "messages": len(conversation)}


# -- across sessions -----------------------------------------------------------------------------------------------------------
add_verbs(router, ConversationsVerbs, lambda memory: memory.conversation)


def _learn(caller: Caller, source: str | None, **arguments: Any) -> Receipt:
    return caller.memory.learn(source=caller.source(source), **arguments)


_LEARN = routes_of(RemoteVerbs)["learn"]
add_verb(router, _LEARN, _learn, model=request_model(_LEARN, source=(str | None, None)), statuses=(413,))


class ChatsParams(QueryParams):
    format: Literal["openai", "anthropic"] = "openai"
    only_successes: bool = False
    plaintext: bool = False


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
