"""KeepstoneMemoryService: the long-term memory of ADK agents in a keepstone store.

An app is an agent of the memory's tenant, its users are the users of that agent. Events that are added are messages of separate
conversations, so that they outlive their session; memories that are added directly are documents. A search finds both, the facts
that were learned, and every other memory of the user, but not what is only in a session.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.genai import types
from pydantic_core import to_jsonable_python

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.integrations.bridge import as_sync_memory, in_thread, to_name
from keepstone.integrations.document_store import Document, DocumentStore
from keepstone.integrations.message_items import SessionItem, SessionItems
from keepstone.types import MESSAGE, Record

MEMORY_STORE = "adk-memory"
EVENT, TALK = "adk_event", "adk_talk"  # the labels of events that are memories: their id, and the conversation they stand in
_NO_SESSION = "no session"


class KeepstoneMemoryService(BaseMemoryService):
    """Memory for a Runner: `Runner(…, memory_service=KeepstoneMemoryService(Memory.open("me.db")))`, and the tools
    load_memory and preload_memory of its agents.

    `memory` is a Memory, AsyncMemory or Client (with a key that may name agents and users), left open. `limit` is the most that a
    search returns; with `extract`, facts are learned from what users said in the events that are added."""

    def __init__(self, memory: Any, *, limit: int = 10, extract: bool = True) -> None:
        self._memory = as_sync_memory(memory)
        self._limit = limit
        self._extract = extract

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the messages of a session; those that were added before are not stored twice."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    @in_thread
    def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember what is said in some events. `custom_metadata` comes back with them; none of its keys has a meaning here."""
        memory = scope_memory(self._memory, app_name, user_id)
        talk = f"{MEMORY_STORE}:{session_id or _NO_SESSION}"
        turns = SessionItems(memory, talk, of=MEMORY_STORE)
        known = {str(turn.labels.get(EVENT)) for turn in turns.all()}
        known |= {path[1] for path in DocumentStore(memory, MEMORY_STORE).paths(("gone",))}
        new = {event.id: event for event in events if text_of(event.content) and event.id not in known}
        value = {"metadata": to_json_data(dict(custom_metadata or {}))}
        turns.add([to_item(event, value, {EVENT: id, TALK: talk}) for id, event in new.items()], extract=self._extract)

    @in_thread
    def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some memories as they are; one replaces another of the same id. Raises ValueError for one without
        text."""
        documents = DocumentStore(scope_memory(self._memory, app_name, user_id), MEMORY_STORE)
        if any(not text_of(entry.content) for entry in memories):
            raise ValueError("a memory has no text in its content: give it a part with text, which it can be found by.")
        for entry in memories:
            whole = entry.model_copy(update={"custom_metadata": {**(custom_metadata or {}), **entry.custom_metadata}})
            value = to_json_data(whole.model_dump(mode="json", exclude_defaults=True))
            source = "user" if entry.author == "user" else "agent"
            documents.put(("memory", entry.id or uuid4().hex), value, text=text_of(entry.content), source=source)

    @in_thread
    def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What is remembered for a user about a query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        memory = scope_memory(self._memory, app_name, user_id)
        hits = memory.recall(query, limit=self._limit, filter={SESSION: {"exists": False}})
        found = [_entry(memory, hit.record) for hit in hits]
        return SearchMemoryResponse(memories=list({entry.id: entry for entry in reversed(found)}.values())[::-1])

    @in_thread
    def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erase a memory by the id that a search gave, with the facts that only it says; an event does not come back when its
        session is added again. An unknown id is no error."""
        memory = scope_memory(self._memory, app_name, user_id)
        documents = DocumentStore(memory, MEMORY_STORE)
        if not memory_id or documents.delete(("memory", memory_id)):
            return
        events = list(memory.list(kind=MESSAGE, filter={EVENT: memory_id}))
        if events:
            documents.put(("gone", memory_id), True)
        record = memory.get(memory_id) if not events and to_name(memory_id) == memory_id else None
        if record is not None and SESSION not in record.metadata:
            events = [record]
        for event in events:
            with suppress(NotFound):
                memory.forget(event.id)


def _entry(memory: Any, record: Record) -> MemoryEntry:
    """A record as the ADK's memory: as it was added, or its content if it came from elsewhere."""
    if record.metadata.get("shelf") == MEMORY_STORE:
        document = DocumentStore(memory, MEMORY_STORE).get(record.metadata["path"])
        if document is not None:
            return MemoryEntry.model_validate({**document.value, "id": document.path[1]})
    if EVENT in record.metadata:
        turn = SessionItems(memory, record.metadata[TALK], of=MEMORY_STORE).get(record.id)
        if turn is not None and turn.value is not None:
            event = to_event(turn)
            at = to_time(event.timestamp)
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


SESSION = "adk_session"  # the label of events that stand in a session, and are memories only where they are added to them
_STATE = ("state",)
_LATE = "the session has been modified in storage since it was read: get it again, then append."


class KeepstoneSessionService(BaseSessionService):
    """Sessions for a Runner: `Runner(…, session_service=KeepstoneSessionService(Memory.open("me.db")))`.

    `memory` is a Memory, AsyncMemory or Client (with a key that may name agents and users), left open. What users and agents said
    is found by recall in the scope of the app and the user; with `extract`, facts are learned from what users say. State and
    events are what was given, but for what the policy for sensitive data takes out."""

    def __init__(self, memory: Any, *, extract: bool = True) -> None:
        self._memory = as_sync_memory(memory)
        self._extract = extract
        self._locks: WeakValueDictionary[tuple[str, str, str], Any] = WeakValueDictionary()
        self._guard = threading.Lock()

    @in_thread
    def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """A new session. Raises AlreadyExistsError for an id that is in use."""
        id = (session_id or "").strip() or platform_uuid.new_uuid()
        documents, shared = self._documents(app_name, user_id), self._documents(app_name, None)
        of_app, of_user, own = _split_state(state or {})
        if shared.get(("user", user_id)) is None:
            shared.put(("user", user_id), user_id)
        name = f"{SESSION_STORE}:{id}"
        if SessionItems(scope_memory(self._memory, app_name, user_id), name, of=SESSION_STORE).all(last=1):
            name = f"{name} {uuid4().hex}"  # a session of this name is being deleted
        held = {"id": id, "user": user_id, "state": own, "updated": platform_time.get_time(), "talk": name,
                "count": 0, "head": None, "last": None}  # fmt: skip
        try:
            receipt = documents.put(("session", id), held, expected_version=0)
        except Conflict:
            raise AlreadyExistsError(f"there is a session {id!r:.80} already: get it, or choose another id.") from None
        _merge(shared, of_app)
        _merge(documents, of_user)
        return _session(app_name, held, _marker(receipt.id, receipt.version), [], _state(shared), _state(documents))

    @in_thread
    def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or the recent ones that `config` asks for; None without one."""
        documents = self._documents(app_name, user_id)
        found = documents.get(("session", session_id.strip()))
        if found is None:
            return None
        after, wanted = (None, None) if config is None else (config.after_timestamp, config.num_recent_events)
        events = [to_event(turn) for turn in self._events(app_name, user_id, found.value, wanted if after is None else None)]
        if after is not None:
            events = [event for event in events if event.timestamp >= after]
            events = events if wanted is None else events[len(events) - min(wanted, len(events)) :]
        shared = _state(self._documents(app_name, None))
        return _session(app_name, found.value, _marker(found.id, found.version), events, shared, _state(documents))

    @in_thread
    def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of all users of an app, without their events; the last changed comes last."""
        shared = self._documents(app_name, None)
        users = [path[1] for path in shared.paths(("user",))] if user_id is None else [user_id]
        of_app = _state(shared)
        found: list[Session] = []
        for user in users:
            documents = self._documents(app_name, user)
            of_user = _state(documents)
            for held in documents.list(("session",)):
                found.append(_session(app_name, held.value, _marker(held.id, held.version), [], of_app, of_user))
        found.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=found)

    @in_thread
    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session with its events. Facts that were learned from them stay, and what was added to a memory service."""
        documents, path = self._documents(app_name, user_id), ("session", session_id.strip())
        found = documents.get(path)
        if found is not None and documents.delete(path) and found.value["count"]:
            self._turns(app_name, user_id, found.value).clear()

    @in_thread
    def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What all sessions of a user share, by keys without their prefix."""
        return _state(self._documents(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep an event, and what it changes of the state. Raises StaleSessionError if the session was changed elsewhere since it
        was read, SessionNotFoundError if it was deleted."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        await self._append(session, event)
        return event

    # -- parts ----------------------------------------------------------------------------------------------------
    @in_thread
    def _append(self, session: Session, event: Event) -> None:
        """Store an event, then append it to the session object."""
        app, user = session.app_name, session.user_id
        documents = self._documents(app, user)
        with self._lock(app, user, session.id):
            found = documents.get(("session", session.id))
            if found is None:
                raise SessionNotFoundError(f"there is no session {session.id!r:.80}: create it first.")
            turns = self._turns(app, user, found.value)
            head = turns.get(found.value["head"]) if found.value["last"] == event.id else None
            if head is not None and head.value is not None and to_event(head) == event:  # a retry
                session._storage_update_marker = _marker(found.id, found.version)
                if not session.events or session.events[-1].id != event.id:
                    self._commit_event_to_session(session, event)
                return
            _check(session, found)
            of_app, of_user, own = _split_state(event.actions.state_delta if event.actions else {})
            number = found.value["count"]
            place = {"at": number, "after": found.value["head"]}
            turn = turns.add([to_item(event, place, {SESSION: to_name(session.id)})], extract=self._extract)[0]
            held = {**found.value, "state": {**found.value["state"], **own}, "updated": event.timestamp,
                    "count": number + 1, "head": turn.id, "last": event.id}  # fmt: skip
            try:
                receipt = documents.put(("session", session.id), held, expected_version=found.version, expected_id=found.id)
            except (Conflict, ValidationError) as error:
                turns.remove([turn.id or ""])
                if isinstance(error, Conflict):
                    raise StaleSessionError(_LATE) from None
                raise
            session.last_update_time = event.timestamp
            session._storage_update_marker = _marker(receipt.id, receipt.version)
            self._commit_event_to_session(session, event)
        _merge(self._documents(app, None), of_app)
        _merge(documents, of_user)

    def _events(self, app: str, user: str, held: Mapping[str, Any], last: int | None) -> list[SessionItem]:
        """The events of a session in their order, all or the last so many."""
        turns = self._turns(app, user, held)
        if last is None:
            return _select_counted(turns.all(), held)
        most = wanted = min(last, held["count"])
        while wanted:
            read = turns.all(last=most)
            found = _select_counted(read, held)
            if len(found) >= wanted or len(read) < most:
                return found[-wanted:]
            most *= 2  # some of them belong to no session, or a message was forgotten
        return []

    def _documents(self, app: str, user: str | None) -> DocumentStore:
        return DocumentStore(scope_memory(self._memory, app, user), SESSION_STORE)

    def _turns(self, app: str, user: str, held: Mapping[str, Any]) -> SessionItems:
        return SessionItems(scope_memory(self._memory, app, user), held["talk"], of=SESSION_STORE)

    def _lock(self, *of: str) -> Any:
        """One append at a time in a session: branches of one run share its object."""
        with self._guard:
            return self._locks.setdefault(of, threading.Lock())  # type: ignore[arg-type]


def _select_counted(turns: Sequence[SessionItem], held: Mapping[str, Any]) -> list[SessionItem]:
    """The items that belong to the session, by their number. If two have one number, the one that the next item names counts."""
    events = [turn for turn in turns if turn.value is not None]
    built_on = {turn.value["after"] for turn in events} | {held["head"]}
    followed = {turn.value["at"] - 1 for turn in events} | {held["count"] - 1}
    found: dict[int, SessionItem] = {}
    for turn in events:
        at = turn.value["at"]
        if turn.id in built_on or at not in followed:
            found[at] = turn
    return [found[at] for at in sorted(found) if at < held["count"]]


def _check(session: Session, found: Document) -> None:
    """Refuse a session that is not what is stored now."""
    marker = session._storage_update_marker
    if marker is not None:
        late = marker != _marker(found.id, found.version)
    else:  # it was made by hand, or by another service
        newest = session.events[-1].id if session.events else None
        late = found.value["updated"] > session.last_update_time and newest != found.value["last"]
    if late:
        raise StaleSessionError(_LATE)


def _marker(id: str | None, version: int) -> str:
    return f"{id}:{version}"


def _state(documents: DocumentStore) -> dict[str, Any]:
    found = documents.get(_STATE)
    return {} if found is None else dict(found.value)


def _merge(documents: DocumentStore, delta: Mapping[str, Any]) -> None:
    """Change some keys of a shared state; concurrent changes of other keys stay."""
    while delta:
        found = documents.get(_STATE)
        try:
            documents.put(_STATE, {**(found.value if found else {}), **delta}, expected_version=found.version if found else 0)
            return
        except Conflict:
            continue


def _split_state(state: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """What of a state is the app's, the user's and the session's own, as JSON data; what is temporary is left out."""
    parts: tuple[dict[str, Any], ...] = ({}, {}, {})
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            parts[0][key.removeprefix(State.APP_PREFIX)] = to_json_data(value)
        elif key.startswith(State.USER_PREFIX):
            parts[1][key.removeprefix(State.USER_PREFIX)] = to_json_data(value)
        elif not key.startswith(State.TEMP_PREFIX):
            parts[2][key] = to_json_data(value)
    return parts


def _session(
    app: str, held: Mapping[str, Any], marker: str, events: list[Event], of_app: Mapping[str, Any], of_user: Mapping[str, Any]
) -> Session:
    state = dict(held["state"])
    state |= {f"{State.APP_PREFIX}{key}": value for key, value in of_app.items()}
    state |= {f"{State.USER_PREFIX}{key}": value for key, value in of_user.items()}
    session = Session(
        id=held["id"], app_name=app, user_id=held["user"], state=state, events=events, last_update_time=held["updated"]
    )
    session._storage_update_marker = marker
    return session


SESSION_STORE = "adk"
_PLAIN = str.maketrans("-_", "+/")


def scope_memory(memory: Any, app_name: str, user_id: str | None) -> Any:
    """The memory of one user of one app; without a user, what all users of the app share."""
    given: Any = as_sync_memory(memory)
    return given.with_scope(agent=to_name(app_name), user="" if user_id is None else to_name(user_id))


def to_json_data(value: Any) -> Any:
    """A value as JSON data; what JSON cannot hold becomes its repr."""
    return to_jsonable_python(value, fallback=repr, inf_nan_mode="null")


def to_item(event: Event, value: Mapping[str, Any], labels: Mapping[str, Any]) -> SessionItem:
    """An event as it is kept: what a user or an agent said by its words, everything else as a step."""
    by_user = event.author == "user"
    tool = event.content is not None and any(part.function_response for part in event.content.parts or ())
    return SessionItem(
        "user" if by_user else "tool" if tool else "assistant",
        text_of(event.content),
        {**value, "event": _to_plain_base64(to_json_data(event.model_dump(mode="json", exclude_defaults=True)))},
        name=None if by_user or not event.author else to_name(event.author),
        at=to_time(event.timestamp),
        labels=labels,
    )


def to_event(turn: SessionItem) -> Event:
    """The event that a turn holds."""
    return Event.model_validate(turn.value["event"])


def text_of(content: types.Content | None) -> str:
    """The words of a content; thoughts are not said."""
    parts = (content.parts if content is not None else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def to_time(timestamp: float) -> datetime | None:
    """The time of an event; None if the number is no time."""
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _to_plain_base64(event: dict[str, Any]) -> dict[str, Any]:
    """An event with its images and signatures in plain base64, which is read as well: with "-" and "_" a piece of one may look
    like a secret, and would be redacted."""
    for part in (event.get("content") or {}).get("parts") or ():
        answered = (part.get("function_response") or {}).get("parts") or ()
        for each in (part, *answered):
            blob = each.get("inline_data") or {}
            for holder, name in ((each, "thought_signature"), (blob, "data")):
                if isinstance(holder.get(name), str):
                    holder[name] = holder[name].translate(_PLAIN)
    return event
