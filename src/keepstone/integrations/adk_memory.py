"""KeepstoneMemoryService: the long-term memory of ADK agents in a keepstone store.

An app is an agent of the memory's tenant, its users are the users of that agent. Events that are added stand in conversations of
their own, so that they outlive their session; memories that are added directly are documents. A search answers with both, with
the facts that were learned, and with whatever else is remembered for the user. What is only in a session is not found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from keepstone.errors import NotFound
from keepstone.integrations.adk_events import event_of, json_of, said, scoped, time_of, turn_of
from keepstone.integrations.adk_sessions import SESSION
from keepstone.integrations.coerce import named, plain
from keepstone.integrations.document_store import Shelf
from keepstone.integrations.message_items import Turns
from keepstone.integrations.run_to_completion import settled
from keepstone.types import MESSAGE, Record

OF = "adk-memory"
EVENT, TALK = "adk_event", "adk_talk"  # the labels of events that are memories: their id, and the conversation they stand in
_NOWHERE = "no session"


class KeepstoneMemoryService(BaseMemoryService):
    """Memory for a Runner: `Runner(…, memory_service=KeepstoneMemoryService(Memory.open("me.db")))`, and the tools
    load_memory and preload_memory of its agents.

    `memory` is a Memory, AsyncMemory or Client (with a key that may name agents and users), left open. `limit` is the most that a
    search answers with; with `extract`, facts are learned from what users said in the events that are added."""

    def __init__(self, memory: Any, *, limit: int = 10, extract: bool = True) -> None:
        self._memory = plain(memory)
        self._limit = limit
        self._extract = extract

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember what is said in a session; what was added before is there once."""
        await settled(self._add, session.app_name, session.user_id, session.events, session.id, None)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember what is said in some events. `custom_metadata` comes back with them; none of its keys has a meaning here."""
        await settled(self._add, app_name, user_id, events, session_id, custom_metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some memories as they are; one with the id of another takes its place. Raises ValueError for one that says
        nothing."""
        await settled(self._add_entries, app_name, user_id, memories, custom_metadata or {})

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What is remembered for a user about a query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        return SearchMemoryResponse(memories=await settled(self._search, app_name, user_id, query))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erase a memory by the id that a search gave, with the facts that only it says; an event does not come back when its
        session is added again. An unknown id is no error."""
        if memory_id:
            await settled(self._delete, app_name, user_id, memory_id)

    # -- in a thread ----------------------------------------------------------------------------------------------
    def _add(
        self, app: str, user: str, events: Sequence[Event], session: str | None, metadata: Mapping[str, object] | None
    ) -> None:
        memory = scoped(self._memory, app, user)
        talk = f"{OF}:{session or _NOWHERE}"
        turns = Turns(memory, talk, of=OF)
        known = {str(turn.labels.get(EVENT)) for turn in turns.all()}
        known |= {path[1] for path in Shelf(memory, OF).paths(("gone",))}
        new = {event.id: event for event in events if said(event.content) and event.id not in known}
        value = {"metadata": json_of(dict(metadata or {}))}
        turns.add([turn_of(event, value, {EVENT: id, TALK: talk}) for id, event in new.items()], extract=self._extract)

    def _add_entries(self, app: str, user: str, entries: Sequence[MemoryEntry], metadata: Mapping[str, object]) -> None:
        shelf = Shelf(scoped(self._memory, app, user), OF)
        if any(not said(entry.content) for entry in entries):
            raise ValueError("a memory has no text in its content: give it a part with text, which it can be found by.")
        for entry in entries:
            held = entry.model_copy(update={"custom_metadata": {**metadata, **entry.custom_metadata}})
            value = json_of(held.model_dump(mode="json", exclude_defaults=True))
            source = "user" if entry.author == "user" else "agent"
            shelf.put(("memory", entry.id or uuid4().hex), value, text=said(entry.content), source=source)

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        memory = scoped(self._memory, app, user)
        hits = memory.recall(query, limit=self._limit, filter={SESSION: {"exists": False}})
        found = [_entry(memory, hit.record) for hit in hits]
        return list({entry.id: entry for entry in reversed(found)}.values())[::-1]

    def _delete(self, app: str, user: str, id: str) -> None:
        memory = scoped(self._memory, app, user)
        shelf = Shelf(memory, OF)
        if shelf.delete(("memory", id)):
            return
        events = list(memory.list(kind=MESSAGE, filter={EVENT: id}))
        if events:
            shelf.put(("gone", id), True)
        record = memory.get(id) if not events and named(id) == id else None
        if record is not None and SESSION not in record.metadata:
            events = [record]
        for each in events:
            try:
                memory.forget(each.id)
            except NotFound:
                continue


def _entry(memory: Any, record: Record) -> MemoryEntry:
    """A record as the ADK's memory: as it was added, or, where it came another way, what it says."""
    if record.metadata.get("shelf") == OF:
        document = Shelf(memory, OF).get(record.metadata["path"])
        if document is not None:
            return MemoryEntry.model_validate({**document.value, "id": document.path[1]})
    if EVENT in record.metadata:
        turn = Turns(memory, record.metadata[TALK], of=OF).get(record.id)
        if turn is not None and turn.value is not None:
            event = event_of(turn)
            at = time_of(event.timestamp)
            return MemoryEntry(
                content=event.content,
                id=event.id,
                author=event.author,
                timestamp=None if at is None else at.isoformat(),
                custom_metadata=turn.value["metadata"],
            )
    author = record.name or record.role or record.source
    content = types.Content(role="model" if record.role == "assistant" else "user", parts=[types.Part(text=record.content)])
    return MemoryEntry(content=content, id=record.id, author=author, timestamp=record.occurred_at.isoformat())
