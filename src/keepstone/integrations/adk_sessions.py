"""KeepstoneSessionService: the sessions of ADK agents in a keepstone store.

An app is an agent of the memory's tenant, its users are the users of that agent: they never see each other's. A session is a
document (state, when it was last changed, how many events there are, the last of them) and a conversation whose messages are the
events. A new event is written first and counts from when the document, at the version it was read at, says so; one that came too
late is taken out again. What a crash leaves in between belongs to no session.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from keepstone.errors import Conflict, ValidationError
from keepstone.integrations.adk_events import OF, event_of, json_of, scoped, turn_of
from keepstone.integrations.coerce import named, plain
from keepstone.integrations.document_store import Document, Shelf
from keepstone.integrations.message_items import Turn, Turns
from keepstone.integrations.run_to_completion import settled

SESSION = "adk_session"  # the label of events that stand in a session, and are memories only where they are added to them
_STATE = ("state",)
_LATE = "the session has been modified in storage since it was read: get it again, then append."


class KeepstoneSessionService(BaseSessionService):
    """Sessions for a Runner: `Runner(…, session_service=KeepstoneSessionService(Memory.open("me.db")))`.

    `memory` is a Memory, AsyncMemory or Client (with a key that may name agents and users), left open. What users and agents said
    is found by recall in the scope of the app and the user; with `extract`, facts are learned from what users say. State and
    events are what was given, but for what the policy for sensitive data takes out."""

    def __init__(self, memory: Any, *, extract: bool = True) -> None:
        self._memory = plain(memory)
        self._extract = extract
        self._locks: WeakValueDictionary[tuple[str, str, str], Any] = WeakValueDictionary()
        self._guard = threading.Lock()

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """A new session. Raises AlreadyExistsError for an id that is in use."""
        chosen = (session_id or "").strip() or platform_uuid.new_uuid()
        return await settled(self._create, app_name, user_id, chosen, state or {})

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or the recent ones that `config` asks for; None where there is none."""
        return await settled(self._get, app_name, user_id, session_id.strip(), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of all users of an app, without their events; the last changed comes last."""
        return ListSessionsResponse(sessions=await settled(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session with its events. Facts that were learned from them stay, and what was added to a memory service."""
        await settled(self._delete, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What all sessions of a user share, by keys without their prefix."""
        return await settled(lambda: _state(self._shelf(app_name, user_id)))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep an event, and what it changes of the state. Raises StaleSessionError where the session was changed elsewhere since
        it was read, SessionNotFoundError where it is gone."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        await settled(self._append, session, event)
        return event

    # -- in a thread ----------------------------------------------------------------------------------------------
    def _create(self, app: str, user: str, id: str, state: Mapping[str, Any]) -> Session:
        shelf, shared = self._shelf(app, user), self._shelf(app, None)
        of_app, of_user, own = _divided(state)
        if shared.get(("user", user)) is None:
            shared.put(("user", user), user)
        name = f"{OF}:{id}"
        if Turns(scoped(self._memory, app, user), name, of=OF).all(last=1):
            name = f"{name} {uuid4().hex}"  # a session of this name is just being deleted
        held = {"id": id, "user": user, "state": own, "updated": platform_time.get_time(), "talk": name,
                "count": 0, "head": None, "last": None}  # fmt: skip
        try:
            receipt = shelf.put(("session", id), held, expected_version=0)
        except Conflict:
            raise AlreadyExistsError(f"there is a session {id!r:.80} already: get it, or choose another id.") from None
        _merge(shared, of_app)
        _merge(shelf, of_user)
        return _session(app, held, _marker(receipt.id, receipt.version), [], _state(shared), _state(shelf))

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        shelf = self._shelf(app, user)
        found = shelf.get(("session", id))
        if found is None:
            return None
        after, wanted = config.after_timestamp, config.num_recent_events
        events = [event_of(turn) for turn in self._events(app, user, found.value, wanted if after is None else None)]
        if after is not None:
            events = [event for event in events if event.timestamp >= after]
            events = events if wanted is None else events[len(events) - min(wanted, len(events)) :]
        marker = _marker(found.id, found.version)
        return _session(app, found.value, marker, events, _state(self._shelf(app, None)), _state(shelf))

    def _list(self, app: str, user: str | None) -> list[Session]:
        shared = self._shelf(app, None)
        users = [path[1] for path in shared.paths(("user",))] if user is None else [user]
        of_app = _state(shared)
        found: list[Session] = []
        for each in users:
            shelf = self._shelf(app, each)
            of_user = _state(shelf)
            for held in shelf.list(("session",)):
                found.append(_session(app, held.value, _marker(held.id, held.version), [], of_app, of_user))
        return sorted(found, key=lambda session: (session.last_update_time, session.user_id, session.id))

    def _delete(self, app: str, user: str, id: str) -> None:
        shelf = self._shelf(app, user)
        found = shelf.get(("session", id))
        if found is not None and shelf.delete(("session", id)) and found.value["count"]:
            self._turns(app, user, found.value).clear()

    def _append(self, session: Session, event: Event) -> None:
        """Store an event, then put it into the session in hand, in the same order."""
        app, user = session.app_name, session.user_id
        shelf = self._shelf(app, user)
        with self._lock(app, user, session.id):
            found = shelf.get(("session", session.id))
            if found is None:
                raise SessionNotFoundError(f"there is no session {session.id!r:.80}: create it first.")
            turns = self._turns(app, user, found.value)
            if found.value["last"] == event.id and _holds(turns.get(found.value["head"]), event):  # it is sent again
                session._storage_update_marker = _marker(found.id, found.version)
                if not session.events or session.events[-1].id != event.id:
                    self._commit_event_to_session(session, event)
                return
            _check(session, found)
            of_app, of_user, own = _divided(event.actions.state_delta if event.actions else {})
            number = found.value["count"]
            place = {"at": number, "after": found.value["head"]}
            turn = turns.add([turn_of(event, place, {SESSION: named(session.id)})], extract=self._extract)[0]
            held = {**found.value, "state": {**found.value["state"], **own}, "updated": event.timestamp,
                    "count": number + 1, "head": turn.id, "last": event.id}  # fmt: skip
            try:
                receipt = shelf.put(("session", session.id), held, expected_version=found.version, expected_id=found.id)
            except (Conflict, ValidationError) as error:
                turns.remove([turn.id or ""])
                if isinstance(error, Conflict):
                    raise StaleSessionError(_LATE) from None
                raise
            session.last_update_time = event.timestamp
            session._storage_update_marker = _marker(receipt.id, receipt.version)
            self._commit_event_to_session(session, event)
        _merge(self._shelf(app, None), of_app)
        _merge(shelf, of_user)

    def _events(self, app: str, user: str, held: Mapping[str, Any], last: int | None) -> list[Turn]:
        """The events of a session in their order, all or the last so many."""
        turns = self._turns(app, user, held)
        if last is None:
            return _counted(turns.all(), held)
        most = wanted = min(last, held["count"])
        while wanted:
            read = turns.all(last=most)
            found = _counted(read, held)
            if len(found) >= wanted or len(read) < most:
                return found[-wanted:]
            most *= 2  # some of them belong to no session, or a message was forgotten
        return []

    # -- where things stand ---------------------------------------------------------------------------------------
    def _shelf(self, app: str, user: str | None) -> Shelf:
        return Shelf(scoped(self._memory, app, user), OF)

    def _turns(self, app: str, user: str, held: Mapping[str, Any]) -> Turns:
        return Turns(scoped(self._memory, app, user), held["talk"], of=OF)

    def _lock(self, *of: str) -> Any:
        """One append at a time in a session: branches of one run share its object."""
        with self._guard:
            return self._locks.setdefault(of, threading.Lock())  # type: ignore[arg-type]


def _counted(turns: Sequence[Turn], held: Mapping[str, Any]) -> list[Turn]:
    """Of turns those that the session counts, by their number. Where one came after it, that one says which it is."""
    events = [turn for turn in turns if turn.value is not None]
    built_on = {turn.value["after"] for turn in events} | {held["head"]}
    followed = {turn.value["at"] - 1 for turn in events} | {held["count"] - 1}
    found: dict[int, Turn] = {}
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


def _holds(turn: Turn | None, event: Event) -> bool:
    return turn is not None and turn.value is not None and event_of(turn) == event


def _marker(id: str | None, version: int) -> str:
    return f"{id}:{version}"


def _state(shelf: Shelf) -> dict[str, Any]:
    found = shelf.get(_STATE)
    return {} if found is None else dict(found.value)


def _merge(shelf: Shelf, delta: Mapping[str, Any]) -> None:
    """Change some keys of a shared state; what another writes to it meanwhile stays."""
    while delta:
        found = shelf.get(_STATE)
        try:
            shelf.put(_STATE, {**(found.value if found else {}), **delta}, expected_version=found.version if found else 0)
            return
        except Conflict:
            continue


def _divided(state: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """What of a state is the app's, the user's and the session's own, as JSON data; what is temporary is nobody's."""
    parts: tuple[dict[str, Any], ...] = ({}, {}, {})
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            parts[0][key.removeprefix(State.APP_PREFIX)] = json_of(value)
        elif key.startswith(State.USER_PREFIX):
            parts[1][key.removeprefix(State.USER_PREFIX)] = json_of(value)
        elif not key.startswith(State.TEMP_PREFIX):
            parts[2][key] = json_of(value)
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
