"""Turns: the items of a framework's session, exactly as they were given, as messages of a conversation.

What an item says is the message's text, so that recall finds it; the item itself goes along as a block of type "original". One
that says nothing (a tool call, a state) is a step: kept in its place and never recalled. Long texts inside an item that is too
large for one message stand in steps before it, in pieces; an item that blocks cannot hold (NUL, empty keys, numbers past 64 bits)
is kept in another spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from keepstone.errors import KeepstoneError, NotFound, TooLarge, ValidationError
from keepstone.integrations.coerce import named, plain
from keepstone.integrations.json_escape import read, spelled, storable
from keepstone.types import Message
from keepstone.write.blocks import MAX_BLOCK_DEPTH, MAX_ORIGINAL, ORIGINAL, text_of
from keepstone.write.request import MAX_CONTENT, has_visible_text

_ROOM = MAX_ORIGINAL - 8 * 1024  # bytes of an item that goes along whole
_PIECE = 48 * 1024  # characters of a piece of a long text
_LONG = 4 * 1024  # a text longer than this is taken out of an item that is too large
_SAID = MAX_CONTENT // 4  # characters of what an item says that it can be found by
_BATCH = 100  # messages in one call
_LAST = 50_000  # messages that are asked for by their number; more are read from the first
_BYTES = 512 * 1024  # and about how many bytes: a server takes a megabyte
# Where a long text is cut, the best place first: not inside a word, which may be somebody's key, nor between lines of base64.
_SEAMS = tuple(
    map(re.compile, (r"\n\s*\n", r"[.!?;,)\]}]\n", r"[.!?] ", r" [a-z]{2,} (?=[a-z]{2,} )", r"[\]}],", r"\s", r"[\"'<>|&,;]"))
)

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One item of a session. `text` is what it says, "" where it says nothing; `value` is the framework's own item, None for a
    message that came another way; `id` is that of its record; `labels` are small data that lists and recall filter by."""

    role: str
    text: str
    value: Any = None
    name: str | None = None
    at: datetime | None = None
    id: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)


class Turns:
    """One session of one framework (`of`), over the public verbs of a Memory or a Client."""

    def __init__(self, memory: Any, session: str, *, of: str) -> None:
        self._memory = plain(memory)
        self._session = named(session)
        self._of = of

    @property
    def session(self) -> str:
        """The name of the conversation that the items are messages of."""
        return self._session

    def add(self, turns: Iterable[Turn], *, extract: bool = True) -> list[Turn]:
        """Append items in their order; they are on disk when this returns, or, where it raises, none of them is. Raises
        ValidationError, TooLarge."""
        stored: list[str] = []
        try:
            made = [self._message(turn, stored) for turn in turns]
            added: list[Turn] = []
            for batch in _batches(made):
                ids = self._ingest([message for _, message, _ in batch], extract, stored)
                added += [replace(turn, id=id) for (turn, _, _), id in zip(batch, ids, strict=True)]
        except Exception:
            for id in stored:
                with suppress(KeepstoneError):
                    self._forgotten(id)
            raise
        return added

    def all(self, last: int | None = None) -> list[Turn]:
        """The items, oldest first: all, or the last so many."""
        if last is None:
            return [turn for turn, _ in self._read(self._memory.conversation(self._session))]
        return [turn for turn, _ in self._newest(last)]

    def get(self, id: str) -> Turn | None:
        """One item by the id of its record."""
        record = self._memory.get(id)
        if record is None or record.session != self._session:
            return None
        found = self._read([Message(record.role or "user", list(record.blocks or ()) or record.content, record.name,
                                    record.occurred_at, record.metadata, record.id)])  # fmt: skip
        return found[0][0] if found else None

    def pop(self) -> Turn | None:
        """Take the newest item out, erased, and give it back; None where there is none."""
        while found := self._newest(1):
            turn, pieces = found[-1]
            if self._removed(turn.id or ""):  # else another has just taken it
                self.remove(pieces)
                return turn
        return None

    def remove(self, ids: Iterable[str]) -> int:
        """Erase items, with their pieces, by the ids of their records; how many there were."""
        return sum(self._removed(id) for id in ids if id)

    def clear(self, *, before: datetime | None = None) -> int:
        """Erase the whole session, or what is older; how many messages went."""
        talk = self._memory.conversation(self._session)
        if before is None:
            return talk.clear().forgotten
        return sum(self._forgotten(each.id or "") for each in list(talk) if each.at is not None and each.at < before)

    def __len__(self) -> int:
        return len(self.all())

    # -- parts ----------------------------------------------------------------------------------------------------
    def _ingest(self, messages: Sequence[Message], extract: bool, stored: list[str]) -> list[str]:
        """Messages as they are stored; their ids. One that is refused would be lost to who does not read receipts."""
        receipts = self._memory.ingest(messages, session=self._session, extract=extract)
        stored += [receipt.id for receipt in receipts if receipt.id is not None]
        for receipt in receipts:
            if receipt.id is None:
                raise ValidationError(f"an item of the session {self._session!r:.80} was refused: {'; '.join(receipt.reasons)}.")
        return [receipt.id or "" for receipt in receipts]

    def _newest(self, wanted: int) -> list[tuple[Turn, list[str]]]:
        most = wanted = max(0, wanted)
        while wanted:
            held = self._memory.conversation(self._session).last(most)
            found = self._read(held)
            if len(found) >= wanted or len(held) < most:
                return found[-wanted:]
            most *= 2  # some of them were pieces
            if most > _LAST:
                return self._read(self._memory.conversation(self._session))[-wanted:]
        return []

    def _removed(self, id: str) -> bool:
        record = self._memory.get(id)
        original = (None if record is None else _original_in(list(record.blocks or ()))) or {}
        gone = self._forgotten(id)
        for piece in (each for _, ids in original.get("long", ()) for each in ids):
            self._forgotten(piece)
        return gone

    def _forgotten(self, id: str) -> bool:
        try:
            return self._memory.forget(id).forgotten > 0
        except NotFound:
            return False

    def _message(self, turn: Turn, stored: list[str]) -> tuple[Turn, Message, int]:
        """An item as the message it is stored as, and about how large that is."""
        original, size = self._original(turn.value, stored)
        said = sayable(turn.text)
        if has_visible_text(said):
            first: dict[str, Any] = {"type": "text", "text": said}
        else:
            first = {"type": "step", "action": f"{self._of} {_kind(turn.value)}"}
        return turn, Message(turn.role, [first, original], turn.name, turn.at, turn.labels), size + len(said)

    def _original(self, value: Any, stored: list[str]) -> tuple[dict[str, Any], int]:
        packed = _packed(value)
        kept: dict[str, Any] = {"type": ORIGINAL, "of": self._of}
        if not storable(value, MAX_BLOCK_DEPTH - 4):
            value, kept["spelled"] = spelled(json.loads(packed), MAX_BLOCK_DEPTH - 6), True
            packed = _packed(value)
        if len(packed) <= _ROOM:
            return {**kept, "value": value}, len(packed)
        taken: list[tuple[Where, str]] = []
        small = _without_long(value, (), taken)
        size = len(_packed(small))
        if size > _ROOM:
            raise TooLarge(f"an item has {size} bytes beside its long texts, the limit is {_ROOM}: divide it into several.")
        return {**kept, "value": small, "long": [[list(where), self._pieces(text, stored)] for where, text in taken]}, size

    def _pieces(self, text: str, stored: list[str]) -> list[str]:
        """A long text in steps of its own; their ids."""
        steps = [
            Message("tool", [{"type": "step", "action": f"{self._of} piece"}, {"type": ORIGINAL, "of": self._of, "piece": each}])
            for each in _cut(text)
        ]
        together = 4  # a character may take four bytes, and a server a megabyte
        return [id for at in range(0, len(steps), together) for id in self._ingest(steps[at : at + together], False, stored)]

    def _read(self, messages: Iterable[Message]) -> list[tuple[Turn, list[str]]]:
        """Items, and the ids of the pieces of each, from messages in their order."""
        seen: dict[str, str] = {}
        found: list[tuple[Turn, list[str]]] = []
        for message in messages:
            original = _original_in(message.content)
            if original is not None and "piece" in original:
                seen[message.id or ""] = str(original["piece"])
                continue
            value, pieces = None, list[str]()
            if original is not None and original.get("of") == self._of:
                value = original.get("value")
                for where, ids in original.get("long", ()):
                    pieces += ids
                    value = _with_text(value, where, "".join(self._piece(id, seen) for id in ids))
                if original.get("spelled"):
                    value = read(value or [None])
            text = "" if _is_step(message.content) else text_of(message.content)
            found.append((Turn(message.role, text, value, message.name, message.at, message.id, message.metadata), pieces))
        return found

    def _piece(self, id: str, seen: Mapping[str, str]) -> str:
        if id in seen:
            return seen[id]
        record = self._memory.get(id)
        original = None if record is None else _original_in(list(record.blocks or ()))
        return "" if original is None else str(original.get("piece", ""))


def _batches(made: Sequence[tuple[Turn, Message, int]]) -> Iterator[list[tuple[Turn, Message, int]]]:
    """Messages in groups that one call takes."""
    batch: list[tuple[Turn, Message, int]] = []
    held = 0
    for each in made:
        if batch and (len(batch) == _BATCH or held + each[2] > _BYTES):
            yield batch
            batch, held = [], 0
        batch.append(each)
        held += each[2]
    if batch:
        yield batch


def sayable(text: str) -> str:
    """A text as it can be found by: without what no store can hold, and not longer than a message."""
    return text[:_SAID].replace("\0", "").encode("utf-8", "ignore").decode("utf-8")


def _packed(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"an item is not JSON ({error}): use text, finite numbers, lists, dictionaries.") from None


def _cut(text: str) -> Iterator[str]:
    """A long text in pieces. Sensitive data is looked for in each alone, and should not be divided."""
    first = 0
    while len(text) - first > _PIECE:
        window = text[first + _PIECE - _LONG : first + _PIECE]
        ends = (max((match.end() for match in seam.finditer(window)), default=0) for seam in _SEAMS)
        last = first + _PIECE - _LONG + next(filter(None, ends), _LONG)
        yield text[first:last]
        first = last
    yield text[first:]


def _without_long(value: Any, where: Where, taken: list[tuple[Where, str]]) -> Any:
    if isinstance(value, str) and len(value) > _LONG:
        taken.append((where, value))
        return ""
    if isinstance(value, Mapping):
        return {key: _without_long(each, (*where, key), taken) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_long(each, (*where, at), taken) for at, each in enumerate(value)]
    return value


def _with_text(value: Any, where: Sequence[str | int], text: str) -> Any:
    """A value with a text put back where it was taken out."""
    if not where:
        return text
    inner = value
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = text
    return value


def _original_in(content: Any) -> Mapping[str, Any] | None:
    if isinstance(content, str):
        return None
    return next((block for block in content if block.get("type") == ORIGINAL), None)


def _is_step(content: Any) -> bool:
    return not isinstance(content, str) and any(block.get("type") == "step" for block in content)


def _kind(value: Any) -> str:
    """What an item that says nothing is called."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return kind[:60] if isinstance(kind, str) and has_visible_text(kind) else "item"
