"""SessionItems: the items of a framework's session, stored unchanged as messages of a conversation.

The text of an item is the text of its message, so that recall finds it; the item itself is a block of type "original". An item
without a text (a tool call, a state) is a step, which is never recalled. Long texts of an item that is too large for one message
are stored in pieces, as steps before it. Data that a block cannot hold (NUL, empty keys, integers beyond 64 bits) is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
from typing import Any

from keepstone.errors import KeepstoneError, NotFound, TooLarge, ValidationError
from keepstone.integrations.bridge import as_sync_memory, to_name
from keepstone.ports.caches import sized_batches
from keepstone.text.words import has_visible_text
from keepstone.types import Message
from keepstone.write.blocks import MAX_BLOCK_DEPTH, MAX_ORIGINAL, ORIGINAL, text_of
from keepstone.write.request import MAX_CONTENT

_MAX_ITEM_BYTES = MAX_ORIGINAL - 8 * 1024  # of an item in one block
PIECE_CHARS = 48 * 1024
_LONG_TEXT_CHARS = 4 * 1024  # longer texts of an item that is too large become pieces
_MAX_TEXT_CHARS = MAX_CONTENT // 4
_MAX_BATCH_MESSAGES = 100
_MAX_LAST_MESSAGES = 50_000  # beyond this, the whole session is read
_MAX_BATCH_BYTES = 512 * 1024  # a server accepts a megabyte
# Where a long text is cut, best place first: not inside a word, which may be a secret, nor between lines of base64.
_CUT_PATTERNS = tuple(
    map(re.compile, (r"\n\s*\n", r"[.!?;,)\]}]\n", r"[.!?] ", r" [a-z]{2,} (?=[a-z]{2,} )", r"[\]}],", r"\s", r"[\"'<>|&,;]"))
)

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SessionItem:
    """One item of a session. `text` is its text, or ""; `value` is the framework's own item, None for a message that was stored
    by other means; `id` is the id of its record; `labels` are metadata for filters."""

    role: str
    text: str
    value: Any = None
    name: str | None = None
    at: datetime | None = None
    id: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)


class SessionItems:
    """One session of one framework (`of`), over the public verbs of a Memory or a Client."""

    def __init__(self, memory: Any, session: str, *, of: str) -> None:
        self._memory = as_sync_memory(memory)
        self._session = to_name(session)
        self._of = of

    @property
    def session(self) -> str:
        """The name of the conversation that the items are messages of."""
        return self._session

    def add(self, turns: Iterable[SessionItem], *, extract: bool = True) -> list[SessionItem]:
        """Append items in order: all of them, or none if it raises ValidationError or TooLarge."""
        stored: list[str] = []
        try:
            made = [self._message(turn, stored) for turn in turns]
            added: list[SessionItem] = []
            for batch in sized_batches(made, itemgetter(2), _MAX_BATCH_MESSAGES, _MAX_BATCH_BYTES):
                ids = self._ingest([message for _, message, _ in batch], extract, stored)
                added += [replace(turn, id=id) for (turn, _, _), id in zip(batch, ids, strict=True)]
        except Exception:
            for id in stored:
                with suppress(KeepstoneError):
                    self._forget(id)
            raise
        return added

    def all(self, last: int | None = None) -> list[SessionItem]:
        """The items, oldest first: all, or the last `last`."""
        if last is None:
            return [turn for turn, _ in self._read(self._memory.conversation(self._session))]
        return [turn for turn, _ in self._newest(last)]

    def get(self, id: str) -> SessionItem | None:
        """One item by the id of its record."""
        record = self._memory.get(id)
        if record is None or record.session != self._session:
            return None
        found = self._read([Message(record.role or "user", list(record.blocks or ()) or record.content, record.name,
                                    record.occurred_at, record.metadata, record.id)])  # fmt: skip
        return found[0][0] if found else None

    def pop(self) -> SessionItem | None:
        """Erase the newest item and return it; None if there is none."""
        while found := self._newest(1):
            turn, pieces = found[-1]
            if self._remove(turn.id or ""):  # otherwise another caller took it
                self.remove(pieces)
                return turn
        return None

    def remove(self, ids: Iterable[str]) -> int:
        """Erase items and their pieces by record id; returns the number of items."""
        return sum(self._remove(id) for id in ids if id)

    def clear(self, *, before: datetime | None = None) -> int:
        """Erase the whole session, or its messages before a time; returns the number of messages."""
        talk = self._memory.conversation(self._session)
        if before is None:
            return talk.clear().forgotten
        return sum(self._forget(each.id or "") for each in list(talk) if each.at is not None and each.at < before)

    def __len__(self) -> int:
        return len(self.all())

    # -- parts ----------------------------------------------------------------------------------------------------
    def _ingest(self, messages: Sequence[Message], extract: bool, stored: list[str]) -> list[str]:
        """Store messages and return their ids. Raises ValidationError if one is refused: frameworks do not read receipts."""
        receipts = self._memory.ingest(messages, session=self._session, extract=extract)
        stored += [receipt.id for receipt in receipts if receipt.id is not None]
        for receipt in receipts:
            if receipt.id is None:
                raise ValidationError(f"an item of the session {self._session!r:.80} was refused: {'; '.join(receipt.reasons)}.")
        return [receipt.id or "" for receipt in receipts]

    def _newest(self, wanted: int) -> list[tuple[SessionItem, list[str]]]:
        most = wanted = max(0, wanted)
        while wanted:
            held = self._memory.conversation(self._session).last(most)
            found = self._read(held)
            if len(found) >= wanted or len(held) < most:
                return found[-wanted:]
            most *= 2  # some were pieces
            if most > _MAX_LAST_MESSAGES:
                return self._read(self._memory.conversation(self._session))[-wanted:]
        return []

    def _remove(self, id: str) -> bool:
        record = self._memory.get(id)
        original = (None if record is None else _original_in(list(record.blocks or ()))) or {}
        gone = self._forget(id)
        for piece in (each for _, ids in original.get("long", ()) for each in ids):
            self._forget(piece)
        return gone

    def _forget(self, id: str) -> bool:
        try:
            return self._memory.forget(id).forgotten > 0
        except NotFound:
            return False

    def _message(self, turn: SessionItem, stored: list[str]) -> tuple[SessionItem, Message, int]:
        """The item, its message, and the approximate size of the message."""
        original, size = self._original(turn.value, stored)
        said = to_searchable_text(turn.text)
        if has_visible_text(said):
            first: dict[str, Any] = {"type": "text", "text": said}
        else:
            first = {"type": "step", "action": f"{self._of} {_kind(turn.value)}"}
        return turn, Message(turn.role, [first, original], turn.name, turn.at, turn.labels), size + len(said)

    def _original(self, value: Any, stored: list[str]) -> tuple[dict[str, Any], int]:
        packed = _to_json(value)
        kept: dict[str, Any] = {"type": ORIGINAL, "of": self._of}
        if not is_storable(value, MAX_BLOCK_DEPTH - 4):
            value, kept["spelled"] = escape(json.loads(packed), MAX_BLOCK_DEPTH - 6), True
            packed = _to_json(value)
        if len(packed) <= _MAX_ITEM_BYTES:
            return {**kept, "value": value}, len(packed)
        long_texts: list[tuple[Where, str]] = []
        small = _extract_long_texts(value, (), long_texts)
        size = len(_to_json(small))
        if size > _MAX_ITEM_BYTES:
            raise TooLarge(
                f"an item has {size} bytes without its long texts, the limit is {_MAX_ITEM_BYTES}: split it into several."
            )
        return {
            **kept,
            "value": small,
            "long": [[list(where), self._pieces(text, stored)] for where, text in long_texts],
        }, size

    def _pieces(self, text: str, stored: list[str]) -> list[str]:
        """Store a long text as steps and return their ids."""
        steps = [
            Message("tool", [{"type": "step", "action": f"{self._of} piece"}, {"type": ORIGINAL, "of": self._of, "piece": each}])
            for each in _cut_text(text)
        ]
        together = 4  # four bytes per character, and a server accepts a megabyte
        return [id for at in range(0, len(steps), together) for id in self._ingest(steps[at : at + together], False, stored)]

    def _read(self, messages: Iterable[Message]) -> list[tuple[SessionItem, list[str]]]:
        """Items with the ids of their pieces, from messages in order."""
        seen: dict[str, str] = {}
        found: list[tuple[SessionItem, list[str]]] = []
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
                    value = unescape(value or [None])
            is_step = not isinstance(message.content, str) and any(block.get("type") == "step" for block in message.content)
            text = "" if is_step else text_of(message.content)
            found.append((SessionItem(message.role, text, value, message.name, message.at, message.id, message.metadata), pieces))
        return found

    def _piece(self, id: str, seen: Mapping[str, str]) -> str:
        if id in seen:
            return seen[id]
        record = self._memory.get(id)
        original = None if record is None else _original_in(list(record.blocks or ()))
        return "" if original is None else str(original.get("piece", ""))


def to_searchable_text(text: str) -> str:
    """A text without characters that a store cannot hold, cut to the length of a message."""
    return text[:_MAX_TEXT_CHARS].replace("\0", "").encode("utf-8", "ignore").decode("utf-8")


def _to_json(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"an item is not JSON ({error}): use text, finite numbers, lists, dictionaries.") from None


def _cut_text(text: str) -> Iterator[str]:
    """Cut a long text into pieces. Each piece is screened alone, so sensitive data should not be divided."""
    first = 0
    while len(text) - first > PIECE_CHARS:
        window = text[first + PIECE_CHARS - _LONG_TEXT_CHARS : first + PIECE_CHARS]
        ends = (max((match.end() for match in seam.finditer(window)), default=0) for seam in _CUT_PATTERNS)
        last = first + PIECE_CHARS - _LONG_TEXT_CHARS + next(filter(None, ends), _LONG_TEXT_CHARS)
        yield text[first:last]
        first = last
    yield text[first:]


def _extract_long_texts(value: Any, where: Where, long_texts: list[tuple[Where, str]]) -> Any:
    if isinstance(value, str) and len(value) > _LONG_TEXT_CHARS:
        long_texts.append((where, value))
        return ""
    if isinstance(value, Mapping):
        return {key: _extract_long_texts(each, (*where, key), long_texts) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_extract_long_texts(each, (*where, at), long_texts) for at, each in enumerate(value)]
    return value


def _with_text(value: Any, where: Sequence[str | int], text: str) -> Any:
    """A value with a long text put back."""
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


def _kind(value: Any) -> str:
    """The type of an item without a text."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return kind[:60] if isinstance(kind, str) and has_visible_text(kind) else "item"


# -- escapes ----------------------------------------------------------------------------------------------------------
# NUL and lone surrogates are escaped within texts, objects with empty or long keys become lists of pairs, integers beyond 64 bits
# become text, and deep levels move to separate trees. Texts stay texts under their keys, so that sensitive data in them is found.
_MARK = "\x01"  # begins every escape, and is escaped itself
_PAIRS, _NUMBER, _BESIDE = f"{_MARK}pairs", f"{_MARK}number", f"{_MARK}beside"
_UNSTORABLE = re.compile("[\0\x01\ud800-\udfff]")
_ESCAPED = re.compile("\x01([0-9a-f]{4})")
_MAX_KEY_CHARS = 256


def is_storable(value: Any, depth: int) -> bool:
    """Whether a block can hold a value unchanged, with at most `depth` levels."""
    if depth <= 0:
        return False
    if isinstance(value, Mapping):
        keys = all(isinstance(key, str) and 0 < len(key) <= _MAX_KEY_CHARS and is_storable(key, depth) for key in value)
        return keys and all(is_storable(each, depth - 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return all(is_storable(each, depth - 1) for each in value)
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def escape(value: Any, depth: int) -> list[Any]:
    """JSON data as trees of at most `depth` levels that blocks can hold; the first is the root."""
    trees: list[Any] = []
    waiting = [value]
    while len(trees) < len(waiting):
        trees.append(_escape(waiting[len(trees)], depth, waiting))
    return trees


def unescape(trees: list[Any]) -> Any:
    """The data that `escape` was given."""
    found: dict[int, Any] = {}
    for at in reversed(range(len(trees))):  # a tree refers only to later ones
        found[at] = _unescape(trees[at], found)
    return found[0]


def _escape(value: Any, depth: int, waiting: list[Any]) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(lambda match: f"{_MARK}{ord(match[0]):04x}", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return {_NUMBER: str(value)}
    if not isinstance(value, (dict, list)):
        return value
    if depth < 5:  # pairs take three levels, a reference two
        waiting.append(value)
        return {_BESIDE: len(waiting) - 1}
    if isinstance(value, list):
        return [_escape(each, depth - 1, waiting) for each in value]
    keys = [_escape(key, 0, waiting) for key in value]
    if all(0 < len(key) <= _MAX_KEY_CHARS for key in keys):
        return {key: _escape(each, depth - 1, waiting) for key, each in zip(keys, value.values(), strict=True)}
    return {_PAIRS: [[key, _escape(each, depth - 3, waiting)] for key, each in zip(keys, value.values(), strict=True)]}


def _unescape(value: Any, found: Mapping[int, Any]) -> Any:
    if isinstance(value, str):
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    if isinstance(value, list):
        return [_unescape(each, found) for each in value]
    if not isinstance(value, dict):
        return value
    if _NUMBER in value:
        return _number(value[_NUMBER])
    if _BESIDE in value:
        return found[value[_BESIDE]]
    if _PAIRS in value:
        return {_unescape(key, found): _unescape(each, found) for key, each in value[_PAIRS]}
    return {_unescape(key, found): _unescape(each, found) for key, each in value.items()}


def _number(text: str) -> Any:
    """A number, or the mark that replaced it if it was redacted."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text
