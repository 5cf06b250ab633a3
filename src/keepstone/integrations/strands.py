"""Strands: KeepstoneMemoryStore for a MemoryManager, KeepstoneSessionRepository for sessions.

The store's facts are memories like any other. A session's agents and their states are documents, its messages are
messages of a conversation, so that recall finds what was said in other sessions.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any

from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, Metadata, SearchOptions
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, decode_bytes_values, encode_bytes_values

from keepstone.errors import ValidationError
from keepstone.integrations.bridge import as_sync_memory, join_names, run_to_completion, to_name
from keepstone.integrations.document_store import DocumentStore
from keepstone.integrations.message_items import SessionItem, SessionItems, to_searchable_text
from keepstone.text.words import has_visible_text
from keepstone.types import Receipt
from keepstone.write.request import MAX_CONTENT

if TYPE_CHECKING:
    from keepstone.integrations.bridge import MemoryOrClient

_OF = "strands"
_DEFAULT_RESULTS = 10
_MAX_RESULTS = 100
_MAX_MESSAGE_CHARS = MAX_CONTENT // 4  # characters: each may take four bytes


class KeepstoneMemoryStore(MemoryStore):
    """A memory for `MemoryManager(stores=[KeepstoneMemoryStore(memory)])`.

    `add` stores a fact; with `extraction=True` the manager passes on messages, and keepstone finds the facts in them by its
    rules or its model. `search` covers the whole scope."""

    def __init__(
        self,
        memory: Any,
        *,
        name: str = "keepstone",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        min_similarity: float | None = None,
    ) -> None:
        if not name.strip():
            raise ValidationError("name must not be empty: it distinguishes a store from others.")
        self.name = name
        self.description = description
        self.max_search_results = None if max_search_results is None else _check_limit(max_search_results)
        self.writable = writable
        self.extraction = extraction
        self._memory: MemoryOrClient = as_sync_memory(memory)
        self._least = min_similarity
        self._session = f"{_OF}-{uuid.uuid4().hex[:12]}"
        self._taken: dict[int, str] = {}  # messages of this run by their number: a batch that is tried again is kept once

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """The memories that answer a query, best first; id, score, date and source are in their metadata."""
        asked = (options or {}).get("max_search_results")
        limit = _check_limit(asked) if asked is not None else self.max_search_results or _DEFAULT_RESULTS
        if not query.strip():
            return []
        hits = await run_to_completion(
            lambda: self._memory.recall(query, limit=min(limit, _MAX_RESULTS), min_similarity=self._least)
        )
        return [
            MemoryEntry(
                content=hit.content,
                metadata={
                    **hit.record.metadata, "id": hit.id, "score": hit.score, "at": hit.record.occurred_at.isoformat(),
                    "source": hit.record.source,
                },
            )
            for hit in hits
        ]  # fmt: skip

    async def add(self, content: str, metadata: Metadata | None = None) -> Receipt:
        """Keep a fact; the receipt says what became of it. The same fact twice is one."""
        self._check_writable()
        if not content.strip():
            raise ValidationError("content must not be empty: give the fact as text.")
        source = to_name(f"agent:{self.name}")
        return await run_to_completion(lambda: self._memory.remember(content, metadata=metadata, source=source))

    async def add_messages(self, messages: list[Any], context: AddMessagesContext | None = None) -> list[Receipt]:
        """Keep what was said, in order, and look for facts in it."""
        self._check_writable()
        numbers = None if context is None else context.sequence_numbers
        return await run_to_completion(self._ingest, messages, numbers)

    def _check_writable(self) -> None:
        if not self.writable:
            raise ValidationError(f"store is not writable: make {self.name!r:.60} with writable=True to add to it.")

    def _ingest(self, messages: list[Any], numbers: list[int] | None) -> list[Receipt]:
        marks = [hashlib.blake2b(repr(message).encode("utf-8", "replace"), digest_size=16).hexdigest() for message in messages]
        if numbers is not None:
            if any(self._taken.get(number, mark) != mark for number, mark in zip(numbers, marks, strict=True)):
                self._taken = {}  # numbers begin anew with every run
            messages = [each for each, at in zip(messages, numbers, strict=True) if at not in self._taken]
        said = [{"role": message["role"], "content": part} for message in messages for part in _parts(_text(message))]
        receipts = self._memory.ingest(said, session=self._session) if said else []
        self._taken |= dict(zip(numbers or (), marks, strict=False))  # now: what failed is handed over again
        return receipts


class KeepstoneSessionRepository(SessionRepository):
    """Sessions for `RepositorySessionManager(session_id=…, session_repository=KeepstoneSessionRepository(memory))`."""

    def __init__(self, memory: Any) -> None:
        self._memory: MemoryOrClient = as_sync_memory(memory)
        self._documents = DocumentStore(self._memory, _OF)

    # -- sessions -------------------------------------------------------------------------------------------------
    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Keep a new session. Raises SessionException if there is one of that id."""
        if self._documents.get(("session", session.session_id)) is not None:
            raise SessionException(f"Session {session.session_id} already exists")
        self._documents.put(("session", session.session_id), session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        found = self._documents.get(("session", session_id))
        return None if found is None else Session.from_dict(found.value)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Erase a session with its agents, states and messages. Raises SessionException if there is none."""
        self._check_session(session_id)
        for path in self._documents.paths(("agent", session_id)):
            self._turns(session_id, path[-1]).clear()
            self._documents.delete(path)
        for path in self._documents.paths(("multi_agent", session_id)):
            self._documents.delete(path)
        self._documents.delete(("session", session_id))

    # -- agents ---------------------------------------------------------------------------------------------------
    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        self._check_session(session_id)
        if self._documents.get(("agent", session_id, session_agent.agent_id)) is not None:
            raise SessionException(f"Agent {session_agent.agent_id} already exists in session {session_id}")
        self._documents.put(("agent", session_id, session_agent.agent_id), session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        found = self._documents.get(("agent", session_id, agent_id))
        return None if found is None else SessionAgent.from_dict(found.value)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Keep an agent's state in the place of the one before; when it was made stays."""
        before = self._documents.get(("agent", session_id, session_agent.agent_id))
        if before is None:
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        session_agent.created_at = before.value["created_at"]
        self._documents.put(("agent", session_id, session_agent.agent_id), session_agent.to_dict())

    # -- messages -------------------------------------------------------------------------------------------------
    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        self._check_agent(session_id, agent_id)
        self._turns(session_id, agent_id).add([_to_item(session_message)])

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        return next((each for each in self._messages(session_id, agent_id) if each.message_id == message_id), None)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Put a message in the place of the one of that number, which is erased: it was changed because it may not stay."""
        self._check_agent(session_id, agent_id)
        turns = self._turns(session_id, agent_id)
        before = [turn for turn in turns.all() if turn.value and turn.value["message_id"] == session_message.message_id]
        if not before:
            raise SessionException(f"Message {session_message.message_id} does not exist in session {session_id}")
        session_message.created_at = before[-1].value["created_at"]
        turns.add([_to_item(session_message)])
        turns.remove([turn.id for turn in before if turn.id])

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """An agent's messages in their order."""
        found = self._messages(session_id, agent_id)
        return found[offset:] if limit is None else found[offset : offset + limit]

    # -- several agents -------------------------------------------------------------------------------------------
    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        self._check_session(session_id)
        self._documents.put(("multi_agent", session_id, multi_agent.id), encode_bytes_values(multi_agent.serialize_state()))

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        found = self._documents.get(("multi_agent", session_id, multi_agent_id))
        return None if found is None else decode_bytes_values(found.value)

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        if self._documents.get(("multi_agent", session_id, multi_agent.id)) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self.create_multi_agent(session_id, multi_agent)

    # -- parts ----------------------------------------------------------------------------------------------------
    def _turns(self, session_id: str, agent_id: str) -> SessionItems:
        return SessionItems(self._memory, join_names(session_id, agent_id), of=_OF)

    def _messages(self, session_id: str, agent_id: str) -> list[SessionMessage]:
        """The messages of an agent by their numbers; one that was being replaced when a process died is there once."""
        held = {turn.value["message_id"]: turn.value for turn in self._turns(session_id, agent_id).all() if turn.value}
        return [SessionMessage.from_dict(held[number]) for number in sorted(held)]

    def _check_session(self, session_id: str) -> None:
        if self._documents.get(("session", session_id)) is None:
            raise SessionException(f"Session {session_id} does not exist")

    def _check_agent(self, session_id: str, agent_id: str) -> None:
        if self._documents.get(("agent", session_id, agent_id)) is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")


def _to_item(message: SessionMessage) -> SessionItem:
    value = json.loads(json.dumps(message.to_dict()))
    shown = message.to_message()
    return SessionItem(str(shown["role"]), _text(shown), value)


def _text(message: Any) -> str:
    """What a message says: its text alone, without tools and images."""
    return "\n".join(str(block["text"]) for block in message.get("content", ()) if "text" in block).strip()


def _parts(text: str) -> list[str]:
    """What a message says, as messages that can be kept: one, or, where it is long, several."""
    cut = (to_searchable_text(text[at : at + _MAX_MESSAGE_CHARS]) for at in range(0, len(text), _MAX_MESSAGE_CHARS))
    return [part for part in cut if has_visible_text(part)]


def _check_limit(results: int) -> int:
    if results < 1:
        raise ValidationError(f"max_search_results must be at least 1, got {results}.")
    return results
