"""Writer: entries of one system into one scope, and what became of each."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from keepstone.errors import Conflict, NotFound, RateLimited, ValidationError
from keepstone.importing.entries import Done, Entry, Outcome
from keepstone.memory import list_all
from keepstone.text.times import now
from keepstone.types import Message, Metadata, Receipt
from keepstone.write.blocks import text_of
from keepstone.write.request import WriteRequest

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

    Target = Memory | Client

_BATCH_ENTRIES = 100
_MAX_CACHED_SESSIONS = 1000  # conversations whose messages are known at once
_MAX_WAITS = 20  # that a limit on writes is waited for without getting on
_MAX_WAIT_SECONDS = 60.0
_ALREADY_IMPORTED = "it was imported before"
_REPEATABLE_ACTIONS = ("added", "merged", "redacted", "quarantined")  # that an idempotency key may answer again
T = TypeVar("T")


class Writer:
    """Brings entries into one scope. `by` is whose word they are; with `dry_run` nothing is written, with `learn` messages
    count as the words of those who said them, and facts are looked for in them."""

    def __init__(self, memory: Target, system: str, by: str, dry_run: bool, learn: bool = False) -> None:
        self._memory = memory
        self._system = system
        self._by = by
        self._dry_run = dry_run
        self._learn = learn
        self._known: KnownMemories | None = None
        self._talks: OrderedDict[str, KnownMessages] = OrderedDict()
        self._seen: dict[str, bytes] = {}  # ids of this run, and what they said
        self._began = now()

    # -- memories -------------------------------------------------------------------------------------------------
    def memories(self, entries: Sequence[Entry]) -> list[Outcome]:
        """Facts and notes: those that are there are left, those that have changed updated, the others added."""
        if not entries:
            return []
        outcomes: dict[int, Outcome] = {}
        new: list[int] = []
        for at, entry in enumerate(entries):
            settled = self._find_existing(entry)
            if settled is None:
                new.append(at)
            else:
                outcomes[at] = settled
        chosen = [entries[at] for at in new]
        outcomes |= dict(zip(new, self._add(chosen), strict=True))
        return [outcomes[at] for at in range(len(entries))]

    def _find_existing(self, entry: Entry) -> Outcome | None:
        """What becomes of an entry without being added; None if it is new."""
        if entry.expires_at is not None and entry.expires_at <= now():
            return _outcome(entry, "skipped", None, f"it expired there on {entry.expires_at:%Y-%m-%d}")
        if not entry.id and not self._dry_run:
            return None  # the store itself knows what it holds already
        if self._known is None:
            self._known = KnownMemories(self._memory, self._system)
        if not entry.id:
            id = self._known.said.get((entry.key, digest(entry.content)))
            return None if id is None else _outcome(entry, "duplicate", id, _ALREADY_IMPORTED)
        before = self._seen.get(entry.id)
        self._seen.setdefault(entry.id, digest(entry.content))
        known = self._known.named.get(entry.id[:400])
        if known is not None and known[1] == digest(entry.final):
            return _outcome(entry, "duplicate", known[0], _ALREADY_IMPORTED)
        if before is not None:
            same = "it stands twice" if before == digest(entry.content) else "another entry has the same id"
            return _outcome(entry, "skipped", None, f"{same} in what is imported")
        return None if known is None else self._update_changed(entry, known[0])

    def _update_changed(self, entry: Entry, id: str) -> Outcome | None:
        """An entry that was imported before, when it said something else, or that was changed here since; None if it goes in as
        a new one after all."""
        try:
            versions = self._memory.history(id)
            if any(version.content == entry.final for version in versions):
                return _outcome(entry, "duplicate", id, f"{_ALREADY_IMPORTED}, and was changed here since")
            if entry.until is not None and any(version.action == "merged" for version in versions):
                return None  # others that say the same may still hold
            if self._dry_run:
                return _outcome(entry, "new", id, "it has changed there: it would be updated")
            held = self._memory.get(id)
            if held is None:
                return None
            since = entry.until or entry.changed_at or entry.at
            if "[redacted:" in held.content:  # it may differ only in what was redacted: then its time must not differ either
                since = held.valid_from
            metadata = {**held.metadata, **provenance(self._system, entry)}
            (receipt,) = self._write(
                [entry.final], lambda left: [self._memory.update(id, left[0], metadata=metadata, occurred_at=since)]
            )
            return self._outcome_of_receipts(entry, receipt)
        except NotFound:
            return _outcome(entry, "skipped", None, "it was forgotten meanwhile")
        except (Conflict, ValidationError) as error:
            return _outcome(entry, "refused", id, str(error))

    def _add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """Entries in batches, each stored whole or not at all: what an entry said and until when stay together."""
        size = _BATCH_ENTRIES if all(entry.until is None for entry in entries) else _BATCH_ENTRIES // 2
        parts = (entries[at : at + size] for at in range(0, len(entries), size))
        return [outcome for part in parts for outcome in self._add_batch(part)]

    def _add_batch(self, entries: Sequence[Entry]) -> list[Outcome]:
        items = [self._items(entry) for entry in entries]
        if self._dry_run:
            return [_check_items(entry, own) for entry, own in zip(entries, items, strict=True)]
        try:
            receipts = iter(self._remember_all([item for own in items for item in own]))
        except (ValidationError, Conflict):  # one of them: nothing was stored
            return [self._add_one(entry, own) for entry, own in zip(entries, items, strict=True)]
        return [
            self._outcome_of_receipts(entry, *(next(receipts) for _ in own)) for entry, own in zip(entries, items, strict=True)
        ]

    def _add_one(self, entry: Entry, items: list[dict[str, Any]]) -> Outcome:
        try:
            try:
                return self._outcome_of_receipts(entry, *self._remember_all(items))
            except Conflict:  # it was imported before and read otherwise then: whether it is there, the content tells
                for item in items:
                    item.pop("idempotency_key", None)
                return self._outcome_of_receipts(entry, *self._remember_all(items))
        except (ValidationError, Conflict) as error:
            return _outcome(entry, "refused", None, str(error))

    def _outcome_of_receipts(self, entry: Entry, *receipts: Receipt) -> Outcome:
        """What became of an entry, of which all was refused if a part was."""
        receipt = next((each for each in receipts if each.action == "refused"), receipts[0])
        if self._is_repeated(entry, receipt):
            return _outcome(entry, "duplicate", receipt.id, _ALREADY_IMPORTED)
        return _outcome(entry, receipt.action, receipt.id, "; ".join(receipt.reasons))

    def _is_repeated(self, entry: Entry, receipt: Receipt) -> bool:
        """Whether a receipt is the answer to the first time that an entry was written, in another run."""
        if receipt.id is None or receipt.action not in _REPEATABLE_ACTIONS or not entry.id or self._known is None:
            return False
        if receipt.action != "quarantined":
            return receipt.version <= self._known.records.get(receipt.id, 0)
        held = self._memory.get(receipt.id)  # what waits for a review is in no list
        return held is not None and held.created_at < self._began

    def _items(self, entry: Entry) -> list[dict[str, Any]]:
        """remember()'s arguments; of what no longer holds twice, so that what it said is in the history of what it says now."""
        item: dict[str, Any] = {
            "content": entry.content, "kind": entry.kind, "tag": entry.tag, "key": entry.key, "source": self._by,
            "metadata": provenance(self._system, entry), "occurred_at": entry.at,
        }  # fmt: skip
        if entry.until is not None:
            return [item, {**item, "content": entry.final, "occurred_at": entry.until}]
        if entry.expires_at is not None:
            item["ttl"] = max(entry.expires_at - now(), timedelta(seconds=1))
        elif entry.id:
            # Of where it came from, and as of when. Not of what it says: a digest could be tried out for a secret that the guard
            # has taken out of it.
            changed = "" if entry.changed_at is None else entry.changed_at.isoformat()
            origin = "\0".join((self._system, entry.id, changed)).encode()
            item["idempotency_key"] = f"import-{hashlib.blake2b(origin, digest_size=16).hexdigest()}"
        return [item]

    # -- messages -------------------------------------------------------------------------------------------------
    def messages(self, session: str, entries: Sequence[Entry]) -> list[Outcome]:
        """What was said in one conversation, in order: whatever comes after the last message that is there is appended."""
        known = self._talks.pop(session, None) or KnownMessages(self._memory, session, self._system)
        self._talks[session] = known  # what was there before this run: messages of several conversations may be mixed
        if len(self._talks) > _MAX_CACHED_SESSIONS:
            self._talks.popitem(last=False)
        there = [known.holds(entry) for entry in entries]
        last = max((at for at, held in enumerate(there) if held), default=-1)
        outcomes = [
            _outcome(entry, "duplicate", None, _ALREADY_IMPORTED)
            if held
            else _outcome(entry, "skipped", None, "it was refused or is held back: what was said after it is there already")
            for entry, held in zip(entries[: last + 1], there, strict=False)
        ]
        for at in range(last + 1, len(entries), _BATCH_ENTRIES):
            outcomes += self._append(session, entries[at : at + _BATCH_ENTRIES])
        known.add(entries)
        return outcomes

    def _append(self, session: str, entries: Sequence[Entry]) -> list[Outcome]:
        if self._dry_run:
            return [_check_items(entry, self._items(entry)) for entry in entries]
        by = None if self._learn else self._by
        try:
            receipts = self._write(
                [self._message(entry) for entry in entries],
                lambda left: self._memory.ingest(left, session=session, extract=self._learn, source=by),
            )
        except ValidationError as error:  # one of them: nothing was stored
            if len(entries) == 1:
                return [_outcome(entries[0], "refused", None, str(error))]
            return [outcome for entry in entries for outcome in self._append(session, [entry])]
        return [
            _outcome(entry, receipt.action, receipt.id, "; ".join(receipt.reasons))
            for entry, receipt in zip(entries, receipts, strict=True)
        ]

    def _message(self, entry: Entry) -> Message:
        metadata = provenance(self._system, entry)
        return Message(entry.role or "user", entry.blocks or entry.content, name=entry.name, at=entry.at, metadata=metadata)

    # -- limits ---------------------------------------------------------------------------------------------------
    def _remember_all(self, items: Sequence[dict[str, Any]]) -> list[Receipt]:
        return self._write(items, self._memory.remember_many)

    def _write(self, items: Sequence[T], write: Callable[[list[T]], Sequence[Receipt]]) -> list[Receipt]:
        """The receipts of some writes. What a limit on writes refused is written again after a wait, in its order."""
        receipts: dict[int, Receipt] = {}
        left, attempts = list(range(len(items))), 0
        while left:
            attempts += 1
            try:
                receipts |= dict(zip(left, write([items[at] for at in left]), strict=True))
                late = [at for at in left if receipts[at].retry_after is not None]
                wait = receipts[late[0]].retry_after if late else None
            except RateLimited as error:  # from a server
                if attempts > _MAX_WAITS:
                    raise
                late, wait = left, error.retry_after
            if late != left:
                attempts = 0
            elif attempts > _MAX_WAITS:
                break
            left = late
            if late:
                time.sleep(min(wait or 1.0, _MAX_WAIT_SECONDS))
        return [receipts[at] for at in range(len(items))]


def _check_items(entry: Entry, items: list[dict[str, Any]]) -> Outcome:
    """What a dry run can say of a new entry: whether it could be written at all."""
    try:
        for item in items:
            WriteRequest.of(item).draft(now())
    except ValidationError as error:
        return _outcome(entry, "refused", None, str(error))
    return _outcome(entry, "new", None, "")


def _outcome(entry: Entry, action: Done, id: str | None, reason: str) -> Outcome:
    said = "; ".join(each for each in (reason, entry.note) if each)
    return Outcome(entry.file, entry.where, entry.id, action, id, said)


IMPORTED = "imported"


def provenance(system: str, entry: Entry) -> dict[str, Any]:
    """An entry's metadata with where it came from. Only what is the same in the next export is in it: else nothing could be told
    to be there already."""
    origin: dict[str, Any] = {"from": system}
    if entry.id:
        origin["id"] = entry.id[:400]
    if system == "markdown":
        origin["file"] = entry.file[:400]
    return {**entry.metadata, IMPORTED: origin}


def digest(text: str) -> bytes:
    """What tells one content from another; held in memory only, as it could be tried out for what was taken out of a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


class KnownMemories:
    """The memories of one scope that came from a system: by what they were called there, else by what they say under which key;
    and the versions of their records."""

    def __init__(self, memory: Target, system: str) -> None:
        self.named: dict[str, tuple[str, bytes]] = {}
        self.records: dict[str, int] = {}
        self.said: dict[tuple[str | None, bytes], str] = {}
        for record in list_all(memory, filter={f"{IMPORTED}.from": system}):
            self.records[record.id] = record.version
            id = origin_id(record.metadata, system)
            if id:
                self.named[id] = (record.id, digest(record.content))
            else:
                self.said[record.key, digest(record.content)] = record.id


class KnownMessages:
    """The messages of one session that came from a system. Of those without an id, or whose id the guard took out, what they say
    is held instead."""

    def __init__(self, memory: Target, session: str, system: str) -> None:
        self._ids: set[str] = set()
        self._said: set[tuple[str, bytes]] = set()
        for message in memory.conversation(session):
            id = origin_id(message.metadata, system)
            if id is None:
                continue
            if id and "[redacted:" not in id and not (system == "cursor" and id.startswith("byte ")):  # as hooks count
                self._ids.add(id)
            else:
                self._said.add((message.role, digest(text_of(message.content))))

    def holds(self, entry: Entry) -> bool:
        """Whether a message is there."""
        if entry.id and entry.id[:400] in self._ids:
            return True
        return bool(self._said) and (entry.role or "user", digest(entry.content)) in self._said

    def add(self, entries: Iterable[Entry]) -> None:
        """Messages that have been stored."""
        for entry in entries:
            if entry.id:
                self._ids.add(entry.id[:400])


def origin_id(metadata: Metadata, system: str) -> str | None:
    """What a record was called where it came from, by an import or by hooks; "" if nothing, None if it came from elsewhere."""
    origin = metadata.get(IMPORTED)
    if isinstance(origin, dict) and origin.get("from") == system:
        id = origin.get("id")
    elif metadata.get("client") == system:
        id = metadata.get("transcript_id")
    else:
        return None
    return id if isinstance(id, str) else ""
