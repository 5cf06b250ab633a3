"""Pydantic AI: the memory tools as a toolset, what is known as instructions, message histories, and the conversation store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from pydantic_ai import RunContext
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord, ConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from keepstone.agent.tools import schemas
from keepstone.errors import Conflict, ValidationError
from keepstone.integrations.bridge import as_sync_memory, in_thread, run_to_completion
from keepstone.integrations.document_store import Document, DocumentStore
from keepstone.integrations.message_items import SessionItem, SessionItems
from keepstone.types import MESSAGE, Record

__all__ = ["KeepstoneConversationStore", "KeepstoneHistory", "KeepstoneToolset", "memory_instructions"]

HISTORY_STORE = "pydantic-ai"
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class KeepstoneToolset(AbstractToolset[Any]):
    """recall_memory, write_memory and update_memory for `Agent(toolsets=[KeepstoneToolset(memory)])`, and forget_memory where it
    is allowed. They work in the memory's own scope, whatever a model writes; the rules of remembering come as instructions."""

    def __init__(self, memory: Any, *, allow_forget: bool = False, id: str | None = "keepstone") -> None:
        self._memory = as_sync_memory(memory)
        self._allow_forget = allow_forget
        self._id = id

    @property
    def id(self) -> str | None:
        """The toolset's name among those of an agent."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools by their names."""
        return {each["name"]: self._tool(each) for each in schemas(self._allow_forget)}

    async def get_instructions(self, ctx: RunContext[Any]) -> str:
        """The rules of remembering, with the tags in use."""
        return await run_to_completion(self._memory.system_prompt)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
        """The answer for the model; what is wrong with its input stands there under "error"."""
        return await run_to_completion(self._memory.call_tool, name, tool_args, allow_forget=self._allow_forget)

    def _tool(self, schema: dict[str, Any]) -> ToolsetTool[Any]:
        defined = ToolDefinition(
            name=schema["name"], description=schema["description"], parameters_json_schema=schema["input_schema"]
        )
        return ToolsetTool(toolset=self, tool_def=defined, max_retries=1, args_validator=_OBJECT.validator)


def memory_instructions(memory: Any, *, max_tokens: int = 1500) -> Callable[[RunContext[Any]], Awaitable[str]]:
    """One of an Agent's `instructions`: what is known about what the user asks now, within `max_tokens`; each memory fenced, with
    its date and source."""
    chosen = as_sync_memory(memory)

    async def instructions(ctx: RunContext[Any]) -> str:
        query = text_of(ctx.prompt).strip()
        return await run_to_completion(chosen.context, query, max_tokens=max_tokens) if query else ""

    return instructions


class KeepstoneHistory:
    """The messages of one session: `agent.run_sync("…", message_history=history.load())`, and after it
    `history.save(result.new_messages())`.

    They come back as they were; what was said in them is found by recall. `aload`, `asave` and `aclear` are for event loops. With
    `extract`, facts are learned from what the user says."""

    def __init__(self, memory: Any, session: str, *, extract: bool = True) -> None:
        self._turns = SessionItems(memory, session, of=HISTORY_STORE)
        self._extract = extract

    def load(self, last: int | None = None) -> list[ModelMessage]:
        """The messages, oldest first: all, or the last so many."""
        return [message for turn in self._turns.all(last) if (message := to_message(turn)) is not None]

    def save(self, messages: Iterable[ModelMessage]) -> None:
        """Append messages; they are on disk when this returns. Raises ValidationError, TooLarge."""
        self._turns.add([to_item(message, {}, {}) for message in messages], extract=self._extract)

    def clear(self) -> None:
        """Erase the session's messages. Facts that were learned from them stay."""
        self._turns.clear()

    aload, asave, aclear = in_thread(load), in_thread(save), in_thread(clear)


_PLAIN = str.maketrans("-_", "+/")


def to_item(message: ModelMessage, value: Mapping[str, Any], labels: Mapping[str, Any]) -> SessionItem:
    """A message as it is kept: what the user or the model said by its words, everything else as a step."""
    packed = {**value, "message": _to_plain_base64(ModelMessagesTypeAdapter.dump_python([message], mode="json")[0])}
    if isinstance(message, ModelResponse):
        said = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        return SessionItem("assistant", said, packed, at=message.timestamp, labels=labels)
    asked = [part for part in message.parts if isinstance(part, UserPromptPart)]
    said = "\n".join(filter(None, (text_of(part.content) for part in asked)))
    # What a tool returns with its result comes as a prompt in the same request, and is not the user's.
    by_user = asked and not any(isinstance(part, (ToolReturnPart, RetryPromptPart)) for part in message.parts)
    return SessionItem(
        "user" if by_user else "tool", said, packed, at=asked[0].timestamp if asked else message.timestamp, labels=labels
    )


def to_message(turn: SessionItem) -> ModelMessage | None:
    """The message of an item; a plain one for a message from elsewhere, None for a step from elsewhere."""
    if turn.value is not None:
        return ModelMessagesTypeAdapter.validate_json(json.dumps([turn.value["message"]]))[0]
    if not turn.text or turn.role not in ("user", "assistant"):
        return None
    return ModelRequest.user_text_prompt(turn.text) if turn.role == "user" else ModelResponse(parts=[TextPart(turn.text)])


def text_of(content: str | Sequence[UserContent] | None) -> str:
    """The words of what a user gave."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (each if isinstance(each, str) else getattr(each, "content", None) for each in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _to_plain_base64(value: Any) -> Any:
    """Data with its files in plain base64, which Pydantic AI reads as well: with "-" and "_" a part of a file may look like a
    key, and would be redacted."""
    if isinstance(value, list):
        return [_to_plain_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    held = {key: _to_plain_base64(each) for key, each in value.items()}
    if held.get("kind") == "binary" and isinstance(held.get("data"), str):
        held["data"] = held["data"].translate(_PLAIN)
    return held


CONVERSATION_STORE = "pydantic-ai-store"
ENTRY, TALK = "pydantic_ai_entry", "pydantic_ai_talk"  # the labels of an entry: its id, and the session it stands in
_MAX_ANCESTORS = 16  # ids of earlier entries that are stored with one
_RECORD: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)

Known = tuple[ConversationEntry, list[str]]


class KeepstoneConversationStore(ConversationStore):
    """A store for `Conversation`s: `await store.load(id)`, `agent.run(…, conversation=…)`, `await store.save(result)`.

    `memory` is a Memory, AsyncMemory or Client, left open; its scope is whose conversations they are, and what is said in them is
    found by its recall. With `extract`, facts are learned from what users say. Deleting a conversation erases its messages, but
    for those that a fork has in common with it; facts that were learned from them stay."""

    def __init__(self, memory: Any, *, extract: bool = True) -> None:
        self._memory = as_sync_memory(memory)
        self._documents = DocumentStore(self._memory, CONVERSATION_STORE)
        self._extract = extract

    @in_thread
    def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None."""
        return self._record(conversation_id)

    @in_thread
    def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, or those of one scope, the last saved first."""
        found = [record for record in self._records() if scope is None or record.scope == scope]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    @in_thread
    def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store entries and then the record that reaches them, in the place of the one with that revision. Raises
        ConversationConflict if another came first."""
        id = record.conversation_id
        found = self._documents.get(_path(id))
        talk = id
        if found is not None and found.value["deleting"]:
            self._erase(found)
            found, talk = None, f"{id} {uuid4().hex}"  # another process may still be erasing it
        if (None if found is None else _record_of(found).revision) != expected_revision:
            raise ConversationConflict(id)
        if (
            record.head_id is not None
            and record.head_id not in {entry.id for entry in new_entries}
            and not self._messages(record.head_id)
        ):
            raise ConversationConflict(id)
        talk = talk if found is None else found.value["talk"]
        turns = SessionItems(self._memory, talk, of=CONVERSATION_STORE)
        before = self._before(record.head_id, new_entries)
        items = [
            to_item(entry.message, {"entry": entry.id, "before": before[entry.id]}, {ENTRY: entry.id, TALK: talk})
            for entry in new_entries
        ]
        added = turns.add(items, extract=self._extract)
        held = {"record": _RECORD.dump_python(record, mode="json"), "talk": talk, "deleting": False,
                "before": before[record.head_id] if record.head_id is not None else []}  # fmt: skip
        try:
            self._put(id, held, found)
        except (Conflict, ValidationError) as error:
            turns.remove([turn.id or "" for turn in added])
            if isinstance(error, Conflict):
                raise ConversationConflict(id) from None
            raise
        if found is None and record.forked_from is not None and not self._may_build_on(record):
            self._documents.delete(_path(id))
            raise ConversationConflict(id)

    @in_thread
    def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation with the entries that no other has: mark its record first. Raises ConversationConflict."""
        found = self._documents.get(_path(conversation_id))
        if found is None or found.value["deleting"] or _record_of(found).revision != expected_revision:
            raise ConversationConflict(conversation_id)
        try:
            self._put(conversation_id, {**found.value, "deleting": True}, found)
        except Conflict:
            raise ConversationConflict(conversation_id) from None
        self._erase(found)

    @in_thread
    def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry. Raises LookupError."""
        return self._history(entry_id, 1)[0]

    @in_thread
    def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to one, in order, or the last so many of them. Raises LookupError."""
        return self._history(head_id, limit)

    # -- records --------------------------------------------------------------------------------------------------
    def _record(self, id: str) -> ConversationRecord | None:
        """The record of a conversation that is not being deleted."""
        found = self._documents.get(_path(id))
        if found is None or found.value["deleting"]:
            return None
        record = _record_of(found)
        head = next(
            (each for each in (record.head_id, *found.value["before"]) if each is not None and self._messages(each)), None
        )
        return record if head == record.head_id else replace(record, head_id=head)  # what was said last was forgotten

    def _records(self) -> list[ConversationRecord]:
        """Those of all conversations."""
        return [_record_of(found) for found in self._documents.list(("conversation",)) if not found.value["deleting"]]

    def _put(self, id: str, held: dict[str, Any], found: Document | None) -> None:
        """Write a record in the place of exactly what was found, or of nothing. Raises Conflict."""
        version, was = (0, None) if found is None else (found.version, found.id)
        self._documents.put(_path(id), held, expected_version=version, expected_id=was)

    def _may_build_on(self, fork: ConversationRecord) -> bool:
        """Whether what a fork points at stays: its source was not being deleted when the fork could not be seen yet."""
        source = self._documents.get(_path(fork.forked_from or ""))
        return (source is None or not source.value["deleting"]) and (fork.head_id is None or bool(self._messages(fork.head_id)))

    def _erase(self, found: Document) -> None:
        """Take out the entries of a conversation that is marked as deleted, but for those that others reach, and its record."""
        record, others = _record_of(found), self._records()
        sharing = [each for each in others if record.forked_from is not None or each.forked_from is not None]
        kept = self._find_reachable(filter(None, (self._record(each.conversation_id) for each in sharing)))
        turns = SessionItems(self._memory, found.value["talk"], of=CONVERSATION_STORE)
        own = {turn.value["entry"]: turn.id or "" for turn in turns.all() if turn.value is not None}
        if record.forked_from is not None:  # of what it had in common with others, some may be its alone by now
            gone = self._find_reachable([record]) - kept - own.keys()
            turns.remove([each.id for entry in gone for each in self._messages(entry)])
        if kept.isdisjoint(own):
            turns.clear()
        else:
            turns.remove([id for entry, id in own.items() if entry not in kept])
        self._documents.delete(found.path)

    # -- entries --------------------------------------------------------------------------------------------------
    def _history(self, head: str | None, limit: int | None, known: dict[str, Known] | None = None) -> list[ConversationEntry]:
        """Entries up to one; a session is read at once, and `known` is what was read before."""
        known = {} if known is None else known
        found: list[ConversationEntry] = []
        most, line = limit, [] if head is None else [head]
        while line and (limit is None or len(found) < limit):
            at = next((each for each in line if each in known or self._look_up(each, known, most)), None)
            if at is None:
                if not found:
                    raise LookupError(f"there is no entry {line[0]!r:.80}: it was erased with its conversation, or never stored.")
                line = []
            if found:
                found[-1] = replace(found[-1], parent_id=at)
            if at is not None:
                entry, line = known[at]
                found.append(entry)
            most = None  # what was not among the last is further back, or in another session
        return found[::-1]

    def _look_up(self, id: str, known: dict[str, Known], most: int | None) -> bool:
        """Read the session of an entry into `known`; whether there is one."""
        found = self._messages(id)
        if not found:
            return False
        turns = SessionItems(self._memory, str(found[0].metadata[TALK]), of=CONVERSATION_STORE)
        known |= _parse_entries(turns.all(most))
        if id not in known:
            known |= _parse_entries([turns.get(found[0].id)])
        return id in known

    def _before(self, head: str | None, entries: Sequence[ConversationEntry]) -> dict[str, list[str]]:
        """Of new entries and a head those that came before, nearest first."""
        found: dict[str, list[str]] = {}
        for entry in entries:
            parent = entry.parent_id
            older = [] if parent is None else found[parent] if parent in found else self._stored_before(parent)
            found[entry.id] = [] if parent is None else [parent, *older][:_MAX_ANCESTORS]
        if head is not None and head not in found:
            found[head] = self._stored_before(head)
        return found

    def _stored_before(self, id: str) -> list[str]:
        known: dict[str, Known] = {}
        return known[id][1] if self._look_up(id, known, 1) else []

    def _find_reachable(self, records: Iterable[ConversationRecord]) -> set[str]:
        """Every entry that some conversations, or the branches they left, can be led back to."""
        known: dict[str, Known] = {}
        reached: set[str] = set()
        for record in records:
            for head in (record.head_id, *record.branches):
                if head is None or self._messages(head):  # else the end of the branch was forgotten
                    reached |= {entry.id for entry in self._history(head, None, known)}
        return reached

    def _messages(self, entry: str) -> Sequence[Record]:
        """The record of the message that an entry is, if there is one."""
        return self._memory.list(kind=MESSAGE, filter={ENTRY: entry}, limit=1)


def _path(conversation_id: str) -> tuple[str, str]:
    return ("conversation", conversation_id)


def _record_of(found: Document) -> ConversationRecord:
    return _RECORD.validate_json(json.dumps(found.value["record"]))


def _parse_entries(turns: Iterable[SessionItem | None]) -> dict[str, Known]:
    """The entries that turns hold, by their ids, each with those that came before it."""
    found: dict[str, Known] = {}
    for turn in turns:
        message = None if turn is None or turn.value is None else to_message(turn)
        if turn is not None and message is not None:
            id, before = turn.value["entry"], turn.value["before"]
            found[id] = (ConversationEntry(id=id, parent_id=before[0] if before else None, message=message), before)
    return found
