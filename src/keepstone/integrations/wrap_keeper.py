"""Keeper: what a wrapped client knows before a call, and what it keeps of one.

Memory must never cost the answer: whatever fails in it is logged, and the call goes on without it.

Clients resend what was said before. Only what the user has said since the assistant's last turn can be new, and it is kept once:
not again where the same request comes again (a retry, another answer asked for), be it in this process or after a restart, when
the end of the stored session is compared.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from keepstone.errors import KeepstoneError
from keepstone.integrations.coerce import digest
from keepstone.integrations.wrap_wires import ASSISTANT, USER, Said, text_of
from keepstone.types import Message

if TYPE_CHECKING:
    from keepstone.integrations.coerce import MemoryOrClient

log = logging.getLogger("keepstone.wrap")
T = TypeVar("T")
_ASKED = 4000  # characters of a message that are looked up
_MARKS = 1000  # turns and requests that are told apart
_CONTEXTS = 64  # loops of tools that may be under way
_BESIDES = 20  # stored turns that are compared, beyond those of a request
_LONGEST = 60_000  # bytes of a message that are kept


class Keeper:
    """One session of one memory. Its methods wait for the store; they may be called from any thread."""

    def __init__(self, memory: MemoryOrClient, session: str, max_tokens: int, save: bool) -> None:
        self.memory = memory
        self.session = session
        self._max_tokens = max_tokens
        self._save = save
        self._lock = threading.RLock()
        self._contexts: OrderedDict[str, str] = OrderedDict()
        self._last = ""
        self._tail: list[str] | None = None  # marks of the session's last turns; None: not read yet
        self._seen: OrderedDict[str, None] = OrderedDict()  # marks of requests that were kept
        self._unanswered = False

    def before(self, turns: Sequence[Said]) -> str:
        """What is known about the user's last words, "" for nothing; what is new of them is kept."""
        context = safely(lambda: self._context(turns), "", "memory could not be read")
        if self._save and _new(turns):
            safely(lambda: self._keep(turns), None, "the message was not saved")
        return context

    def after(self, text: str) -> None:
        """Keep what the assistant said."""
        if self._save:
            safely(lambda: self._answered(text), None, "the answer was not saved")

    def _context(self, turns: Sequence[Said]) -> str:
        said = [at for at, turn in enumerate(turns) if turn.role == USER and turn.text]
        if not self._max_tokens or not said:  # without words of the user a request goes on with what came before
            return self._last
        mark = digest("".join(map(_mark, turns[: said[-1] + 1])))
        if _new(turns) or mark not in self._contexts:
            context = self.memory.context(turns[said[-1]].text[:_ASKED], max_tokens=self._max_tokens)
            with self._lock:
                _noted(self._contexts, mark, context, _CONTEXTS)
        else:
            context = self._contexts.get(mark, self._last)  # the same through a whole loop of tools
        self._last = context
        return context

    def _keep(self, turns: Sequence[Said]) -> None:
        new = _new(turns)
        marks = [_mark(turn) for turn in turns if turn.text]
        request = digest("".join(marks)) if any(turn.role == ASSISTANT for turn in turns) else ""
        with self._lock:
            tail = self._read(len(marks))
            if request and (request in self._seen or _within(marks, tail)):
                return
            fresh = new[self._again([_mark(turn) for turn in new], tail) :]
            self._store(fresh)
            self._unanswered = True
            if request:
                _noted(self._seen, request, None, _MARKS)

    def _answered(self, text: str) -> None:
        with self._lock:
            self._unanswered = False
            if text:
                self._read(0)
                self._store([Said(ASSISTANT, text)])

    def _read(self, turns: int) -> list[str]:
        """The marks of the session's last turns, from the store the first time."""
        if self._tail is None:
            stored = self.memory.conversation(self.session).last(turns + _BESIDES)
            said = [Said(each.role, text_of(each.content, each.role)) for each in stored if each.role in (USER, ASSISTANT)]
            self._tail = [_mark(turn) for turn in said if turn.text]
            self._unanswered = bool(stored) and stored[-1].role == USER
        return self._tail

    def _again(self, new: Sequence[str], tail: Sequence[str]) -> int:
        """How many of the new turns stand at the session's end already, without an answer: the call is a retry."""
        waiting = list(takewhile(lambda mark: mark.startswith(USER), reversed(tail)))[::-1] if self._unanswered else []
        most = min(len(new), len(waiting))
        return next((count for count in range(most, 0, -1) if waiting[-count:] == list(new[:count])), 0)

    def _store(self, turns: Sequence[Said]) -> None:
        if not turns:
            return
        messages = [Message(turn.role, _fitting(turn.text)) for turn in turns]
        for receipt in self.memory.ingest(messages, session=self.session):
            if receipt.action == "refused":
                log.warning("a message was not saved: %s", "; ".join(receipt.reasons))
        self._tail = [*(self._tail or ()), *map(_mark, turns)][-_MARKS:]


def safely(work: Callable[[], T], otherwise: T, what: str) -> T:
    """Do something with memory; if it fails, say so and go on."""
    try:
        return work()
    except KeepstoneError as error:
        log.warning("%s: %s", what, error)
    except Exception:  # a fault of ours, or a format that is not known: it must not cost the answer
        log.exception("%s", what)
    return otherwise


def _new(turns: Sequence[Said]) -> list[Said]:
    """What the user has said since the assistant's last turn."""
    return [turn for turn in list(takewhile(lambda turn: turn.role == USER, reversed(turns)))[::-1] if turn.text]


def _mark(turn: Said) -> str:
    return f"{turn.role}:{digest(' '.join(turn.text.split()))}"


def _within(marks: Sequence[str], tail: Sequence[str]) -> bool:
    """Whether all turns of a request stand in the session one after the other."""
    size = len(marks)
    return any(tail[at : at + size] == list(marks) for at in range(len(tail) - size + 1))


def _noted(held: OrderedDict[str, T], mark: str, value: T, most: int) -> None:
    held[mark] = value
    held.move_to_end(mark)
    while len(held) > most:
        held.popitem(last=False)


def _fitting(text: str) -> str:
    """A text without what no store can hold; cut where it is too long for a message."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(clean) <= _LONGEST:
        return clean.decode("utf-8")
    return clean[:_LONGEST].decode("utf-8", "ignore") + " … [cut]"
