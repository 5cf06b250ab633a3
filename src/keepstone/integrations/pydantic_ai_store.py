"""KeepstoneConversationStore: Pydantic AI's conversations in a keepstone store.

A conversation is a document (its record) and a session whose messages are the entries that it was the first to have; a fork
points at the entries of others. Entries are written first and count from when the record, at the version it was read at, says so:
of two writers one hears of a conflict, and takes its entries out again. To delete, a record is marked first, so that nobody
builds on it any more, then the entries that no other conversation reaches are erased, and the record at last. Each entry knows
some that came before it: where one message is forgotten, the others stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord, ConversationStore

from keepstone.errors import Conflict, ValidationError
from keepstone.integrations.coerce import plain
from keepstone.integrations.document_store import Document, Shelf
from keepstone.integrations.message_items import Turn, Turns
from keepstone.integrations.pydantic_ai_messages import message_of, turn_of
from keepstone.integrations.run_to_completion import settled
from keepstone.types import MESSAGE, Record

OF = "pydantic-ai-store"
ENTRY, TALK = "pydantic_ai_entry", "pydantic_ai_talk"  # the labels of an entry: its id, and the session it stands in
_BEFORE = 16  # of the entries that came before one, how many it knows
_RECORD: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)

Known = tuple[ConversationEntry, list[str]]


class KeepstoneConversationStore(ConversationStore):
    """A store for `Conversation`s: `await store.load(id)`, `agent.run(…, conversation=…)`, `await store.save(result)`.

    `memory` is a Memory, AsyncMemory or Client, left open; its scope is whose conversations they are, and what is said in them is
    found by its recall. With `extract`, facts are learned from what users say. Deleting a conversation erases its messages, but
    for those that a fork has in common with it; facts that were learned from them stay."""

    def __init__(self, memory: Any, *, extract: bool = True) -> None:
        self._log = Log(memory, extract)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, or None."""
        return await settled(self._log.record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, or those of one scope, the last saved first."""
        records = await settled(self._log.records)
        found = [record for record in records if scope is None or record.scope == scope]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store entries and the record that reaches them, in the place of the one with that revision. Raises
        ConversationConflict where another came first."""
        await settled(self._log.write, record, list(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation with the entries that no other has. Raises ConversationConflict."""
        await settled(self._log.delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry. Raises LookupError."""
        return (await settled(self._log.history, entry_id, 1))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to one, in order, or the last so many of them. Raises LookupError."""
        return await settled(self._log.history, head_id, limit)


class Log:
    """What the store does, in a thread."""

    def __init__(self, memory: Any, extract: bool) -> None:
        self._memory = plain(memory)
        self._shelf = Shelf(self._memory, OF)
        self._extract = extract

    def record(self, id: str) -> ConversationRecord | None:
        """The record of a conversation that is not being deleted."""
        found = self._shelf.get(_path(id))
        if found is None or found.value["deleting"]:
            return None
        record = _record(found)
        head = next(
            (each for each in (record.head_id, *found.value["before"]) if each is not None and self._messages(each)), None
        )
        return record if head == record.head_id else replace(record, head_id=head)  # what was said last was forgotten

    def records(self) -> list[ConversationRecord]:
        """Those of all conversations."""
        return [_record(found) for found in self._shelf.list(("conversation",)) if not found.value["deleting"]]

    def write(self, record: ConversationRecord, entries: Sequence[ConversationEntry], expected: str | None) -> None:
        """Entries first, then the record that reaches them."""
        id = record.conversation_id
        found = self._shelf.get(_path(id))
        talk = id
        if found is not None and found.value["deleting"]:
            self.erase(found)
            found, talk = None, f"{id} {uuid4().hex}"  # whoever began to erase it may not be done yet
        if (None if found is None else _record(found).revision) != expected:
            raise ConversationConflict(id)
        if (
            record.head_id is not None
            and record.head_id not in {entry.id for entry in entries}
            and not self._messages(record.head_id)
        ):
            raise ConversationConflict(id)
        talk = talk if found is None else found.value["talk"]
        turns = Turns(self._memory, talk, of=OF)
        before = self._before(record.head_id, entries)
        added = turns.add([_turn(entry, before[entry.id], talk) for entry in entries], extract=self._extract)
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
            self._shelf.delete(_path(id))
            raise ConversationConflict(id)

    def _put(self, id: str, held: dict[str, Any], found: Document | None) -> None:
        """Write a record in the place of exactly what was found, or of nothing. Raises Conflict."""
        version, was = (0, None) if found is None else (found.version, found.id)
        self._shelf.put(_path(id), held, expected_version=version, expected_id=was)

    def _may_build_on(self, fork: ConversationRecord) -> bool:
        """Whether what a fork points at stays: its source was not being deleted when the fork could not be seen yet."""
        source = self._shelf.get(_path(fork.forked_from or ""))
        return (source is None or not source.value["deleting"]) and (fork.head_id is None or bool(self._messages(fork.head_id)))

    def delete(self, id: str, expected: str) -> None:
        """Mark a record, then erase what it alone reaches."""
        found = self._shelf.get(_path(id))
        if found is None or found.value["deleting"] or _record(found).revision != expected:
            raise ConversationConflict(id)
        try:
            self._put(id, {**found.value, "deleting": True}, found)
        except Conflict:
            raise ConversationConflict(id) from None
        self.erase(found)

    def erase(self, found: Document) -> None:
        """Take out the entries of a conversation that is marked as deleted, but for those that others reach, and its record."""
        record, others = _record(found), self.records()
        sharing = [each for each in others if record.forked_from is not None or each.forked_from is not None]
        kept = self._reached(filter(None, (self.record(each.conversation_id) for each in sharing)))
        turns = Turns(self._memory, found.value["talk"], of=OF)
        own = {turn.value["entry"]: turn.id or "" for turn in turns.all() if turn.value is not None}
        if record.forked_from is not None:  # of what it had in common with others, some may be its alone by now
            gone = self._reached([record]) - kept - own.keys()
            turns.remove([each.id for entry in gone for each in self._messages(entry)])
        if kept.isdisjoint(own):
            turns.clear()
        else:
            turns.remove([id for entry, id in own.items() if entry not in kept])
        self._shelf.delete(found.path)

    # -- entries --------------------------------------------------------------------------------------------------
    def history(self, head: str | None, limit: int | None, known: dict[str, Known] | None = None) -> list[ConversationEntry]:
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
        turns = Turns(self._memory, str(found[0].metadata[TALK]), of=OF)
        known |= _known(turns.all(most))
        if id not in known:
            known |= _known([turns.get(found[0].id)])
        return id in known

    def _before(self, head: str | None, entries: Sequence[ConversationEntry]) -> dict[str, list[str]]:
        """Of new entries and a head those that came before, nearest first."""
        found: dict[str, list[str]] = {}
        for entry in entries:
            parent = entry.parent_id
            older = [] if parent is None else found[parent] if parent in found else self._stored_before(parent)
            found[entry.id] = [] if parent is None else [parent, *older][:_BEFORE]
        if head is not None and head not in found:
            found[head] = self._stored_before(head)
        return found

    def _stored_before(self, id: str) -> list[str]:
        known: dict[str, Known] = {}
        return known[id][1] if self._look_up(id, known, 1) else []

    def _reached(self, records: Iterable[ConversationRecord]) -> set[str]:
        """Every entry that some conversations, or the branches they left, can be led back to."""
        known: dict[str, Known] = {}
        reached: set[str] = set()
        for record in records:
            for head in (record.head_id, *record.branches):
                if head is None or self._messages(head):  # else the end of a branch was forgotten, and what led to it is nobody's
                    reached |= {entry.id for entry in self.history(head, None, known)}
        return reached

    def _messages(self, entry: str) -> Sequence[Record]:
        """The record of the message that an entry is, if there is one."""
        return self._memory.list(kind=MESSAGE, filter={ENTRY: entry}, limit=1)


def _path(conversation_id: str) -> tuple[str, str]:
    return ("conversation", conversation_id)


def _record(found: Document) -> ConversationRecord:
    return _RECORD.validate_json(json.dumps(found.value["record"]))


def _turn(entry: ConversationEntry, before: Sequence[str], talk: str) -> Turn:
    return turn_of(entry.message, {"entry": entry.id, "before": list(before)}, {ENTRY: entry.id, TALK: talk})


def _known(turns: Iterable[Turn | None]) -> dict[str, Known]:
    """The entries that turns hold, by their ids, each with those that came before it."""
    found: dict[str, Known] = {}
    for turn in turns:
        message = None if turn is None or turn.value is None else message_of(turn)
        if turn is not None and message is not None:
            id, before = turn.value["entry"], turn.value["before"]
            found[id] = (ConversationEntry(id=id, parent_id=before[0] if before else None, message=message), before)
    return found
