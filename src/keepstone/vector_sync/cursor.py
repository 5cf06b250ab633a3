"""How far an index has been fed, and who feeds it at the moment: one state of the store for each scope.

A cursor is written by compare-and-set only, so a later one is never overwritten by an earlier one. Whoever feeds puts a mark into
it first, which is given up at the end or runs out after half a minute; what the mark is for is told in `feeding`.

The very first cursor of a scope is written only where there is none: after a forget of everything, whoever begins anew must not
wipe out what another has just noted of the spaces in which something may still be.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace

from keepstone.errors import IndexUnavailable, KeepstoneError
from keepstone.ports.stores import Store
from keepstone.types import Scope

LENGTH = 30.0  # seconds that a mark lasts unless it is renewed: longer than an engine takes for one chunk
_ANY = 2**62  # a number that no cursor is above
_LOOK = 0.02  # seconds between two looks at somebody else's mark


class FedElsewhere(IndexUnavailable):
    """Somebody else is feeding the index just now, for longer than could be waited."""


class LostClaim(Exception):
    """Somebody else took the mark away: what was put since may be older than what they put."""


Spaces = tuple[tuple[str, int], ...]  # (space, how wide its vectors are)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Changes up to `number` are in a space of the index; they were read when the last row of the trail was `seen`. While
    somebody feeds, `holder` is set and `until` is the time (seconds since 1970) after which nobody waits for them. `others` are
    spaces in which something of the scope may still be and should not."""

    number: int = 0
    seen: int = 0
    space: str = ""
    dimension: int = 0
    holder: str = ""
    until: float = 0.0
    others: Spaces = ()

    @property
    def text(self) -> str:
        return json.dumps(astuple(self))

    @classmethod
    def of(cls, text: str | None) -> Cursor:
        """The cursor that a text stands for; one that cannot be read stands for the beginning."""
        try:
            number, seen, space, dimension, holder, until, others = json.loads(text or "")
            spaces = tuple((str(name), int(width)) for name, width in others)
            return cls(int(number), int(seen), str(space), int(dimension), str(holder), float(until), spaces)
        except (ValueError, TypeError):
            return cls()

    @property
    def spaces(self) -> Spaces:
        """Every space in which something of the scope may be."""
        return (*self.others, (self.space, self.dimension)) if self.space else self.others

    def back_to(self, number: int) -> Cursor:
        """One that is no further than a number; where that is a step back, it looks as if nothing had been seen, and is
        behind."""
        return self if self.number <= number else replace(self, number=number, seen=0)

    def within(self, space: str, dimension: int) -> Cursor:
        """One for this space, which begins at nothing if it is not the one that was used."""
        others = tuple(each for each in self.spaces if each[0] != space)
        same = self if self.space == space else self.back_to(0)
        return replace(same, space=space, dimension=dimension, others=others)

    def beside(self, spaces: Spaces) -> Cursor:
        """One that knows of further spaces."""
        others = {**dict(self.others), **dict(spaces)}
        others.pop(self.space, None)
        return replace(self, others=tuple(sorted(others.items())))

    def held(self, now: float) -> bool:
        """Whether somebody feeds; a mark that ends in a far future was made by a clock that ran ahead."""
        return bool(self.holder) and now < self.until <= now + 2 * LENGTH


class ClaimedCursor:
    """A cursor with our mark in it."""

    def __init__(self, cursors: Cursors, scope: Scope, marked: Cursor) -> None:
        self._cursors = cursors
        self._scope = scope
        self.cursor = marked

    @property
    def unmarked(self) -> Cursor:
        """The cursor where it is, without our mark."""
        return replace(self.cursor, holder="", until=0.0)

    def keep(self) -> None:
        """Renew the mark where it is time to; Overtaken if it is ours no more."""
        now = self._cursors.clock()
        if self.cursor.until - now > LENGTH * 2 / 3:
            return
        renewed = replace(self.cursor, until=now + LENGTH)
        if not self._cursors.exchange(self._scope, self.cursor, renewed):
            raise LostClaim
        self.cursor = renewed

    def move(self, to: Cursor) -> bool:
        """Set the cursor and take the mark out; False if somebody else has taken it."""
        return self._cursors.exchange(self._scope, self.cursor, to)

    def give_up(self) -> bool:
        """Take the mark out and leave the cursor where it was; False if somebody else has taken it."""
        return self.move(self.unmarked)

    def fail(self) -> None:
        """Stop half-way. If somebody else has the cursor by now, what we put may be older than what they put: then it is set
        back to where we began. Where the store fails too, the mark runs out by itself."""
        with contextlib.suppress(KeepstoneError):
            if not self.give_up():
                self._cursors.set_back(self._scope, self.cursor)


class Cursors:
    """The cursors of one index in one store."""

    def __init__(self, store: Store, index: str, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._name = "index:" + hashlib.blake2b(index.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        self.clock = clock

    def read(self, scope: Scope) -> Cursor:
        return Cursor.of(self._store.states.get(scope, self._name))

    def exchange(self, scope: Scope, known: Cursor, to: Cursor) -> bool:
        return self._store.states.put(scope, self._name, to.text, expected=known.text)

    def take(
        self, scope: Scope, space: tuple[str, int], last: Cursor | None, least: int | None, patience: float
    ) -> ClaimedCursor:
        """Put our mark in. Where the cursor is of another space, or `least` is below it, it goes back at once, and what our
        `last` attempt may have left elsewhere is noted: should we not come to an end, whoever follows begins there too.
        FedElsewhere if another mark stays for longer than `patience`."""
        deadline = time.monotonic() + patience
        while True:
            text = self._store.states.get(scope, self._name)
            cursor, now = Cursor.of(text), self.clock()
            if cursor.held(now):
                if time.monotonic() >= deadline:
                    raise FedElsewhere("somebody else is bringing it up to date just now")
                time.sleep(_LOOK)
                continue
            if text is None:
                text = cursor.text
                if not self._store.states.put(scope, self._name, text, new=True):
                    continue
            begins = cursor.within(*space).beside(last.spaces if last is not None else ())
            begins = begins if least is None else begins.back_to(least)
            marked = replace(begins, holder=uuid.uuid4().hex[:12], until=now + LENGTH)
            if self._store.states.put(scope, self._name, marked.text, expected=text):
                return ClaimedCursor(self, scope, marked)

    def set_back(self, scope: Scope, to: Cursor) -> None:
        """Let whoever comes next begin no later than a cursor and know of its spaces, and whoever is at it begin again."""
        while True:
            text = self._store.states.get(scope, self._name)
            cursor = Cursor.of(text)
            back = replace(cursor.back_to(to.number).beside(to.spaces), holder="", until=0.0)
            if text is not None and back == cursor:
                return
            if self._store.states.put(scope, self._name, back.text, expected=text, new=text is None):
                return

    def keep_place(self, scope: Scope, before: Cursor) -> None:
        """A forget of everything takes the cursor with it: let it be known again in which spaces something may still be, whoever
        may have begun a new cursor meanwhile."""
        known = self.read(scope).spaces
        if any(space not in known for space in before.spaces):
            self.set_back(scope, replace(before, number=_ANY))
