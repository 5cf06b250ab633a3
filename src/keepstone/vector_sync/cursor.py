"""How far a vector index has been fed: one cursor per scope and index, kept as a state of the store.

A cursor is written by compare-and-set only, so that a later one is never overwritten by an earlier one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace

from keepstone.ports.stores import Store
from keepstone.types import Scope

Space = tuple[str, int]  # (name, dimension of its vectors)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Changes up to `number` are in `space`; they were read when the last audit entry of the scope was `seen`. `stale_spaces`
    may still hold entries of the scope and have to be cleared. `rewinds` counts how often the cursor was set back."""

    number: int = 0
    seen: int = 0
    space: str = ""
    dimension: int = 0
    stale_spaces: tuple[Space, ...] = ()
    rewinds: int = 0

    @property
    def text(self) -> str:
        return json.dumps(astuple(self))

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        """The cursor in a text; the beginning if it cannot be read."""
        try:
            fields = json.loads(text or "")
            if len(fields) == 7:  # version 0.1 kept a claim in fields 4 and 5
                fields = [*fields[:4], fields[6], 0]
            number, seen, space, dimension, stale, rewinds = fields
            spaces = tuple((str(name), int(width)) for name, width in stale)
            return cls(int(number), int(seen), str(space), int(dimension), spaces, int(rewinds))
        except (ValueError, TypeError):
            return cls()

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Every space that may hold entries of the scope."""
        return (*self.stale_spaces, (self.space, self.dimension)) if self.space else self.stale_spaces

    def back_to(self, number: int) -> Cursor:
        """A cursor no further than a number. If that is a step back, it has seen nothing and counts as behind."""
        return self if self.number <= number else replace(self, number=number, seen=0)

    def in_space(self, name: str, dimension: int) -> Cursor:
        """A cursor of this space, at the beginning if it was of another."""
        stale = tuple(space for space in self.spaces if space[0] != name)
        start = self if self.space == name else self.back_to(0)
        return replace(start, space=name, dimension=dimension, stale_spaces=stale)

    def with_stale(self, spaces: tuple[Space, ...]) -> Cursor:
        """A cursor that knows of further spaces to clear."""
        stale = {**dict(self.stale_spaces), **dict(spaces)}
        stale.pop(self.space, None)
        return replace(self, stale_spaces=tuple(sorted(stale.items())))


class Cursors:
    """The cursors of one index in one store."""

    def __init__(self, store: Store, index: str) -> None:
        self._states = store.states
        self.name = "index:" + hashlib.blake2b(index.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()

    def read(self, scope: Scope) -> Cursor:
        return Cursor.parse(self._states.get(scope, self.name))

    def begin(self, scope: Scope, space: Space, max_number: int | None) -> tuple[Cursor, str]:
        """(the cursor to feed from, its stored text). A cursor of another space, or beyond `max_number`, is set back in the
        store first: should the feeding not finish, the next one starts there and knows which spaces to clear."""

        def start(cursor: Cursor) -> Cursor:
            moved = cursor.in_space(*space)
            return moved if max_number is None else moved.back_to(max_number)

        return self._change(scope, start)

    def move(self, scope: Scope, text: str | None, cursor: Cursor) -> bool:
        """Replace the cursor; False if it is not the one with this text any more."""
        return self._states.put(scope, self.name, cursor.text, expected=text, new=text is None)

    def rewind(self, scope: Scope, to: Cursor) -> None:
        """Make the next feeding start no later than a cursor and clear its other spaces. A feeding that is under way cannot
        move the cursor then, and starts again."""
        self._change(
            scope,
            lambda cursor: replace(cursor.back_to(to.number).with_stale(to.spaces), rewinds=cursor.rewinds + 1),
        )

    def restore_spaces(self, scope: Scope, before: Cursor) -> None:
        """Record again which spaces may hold entries: forgetting everything deletes the cursor with all other states."""
        if not set(before.spaces) <= set(self.read(scope).spaces):
            self._change(scope, lambda cursor: cursor.with_stale(before.spaces))

    def _change(self, scope: Scope, change: Callable[[Cursor], Cursor]) -> tuple[Cursor, str]:
        """(the changed cursor, its stored text). It is repeated until no other process has changed it meanwhile."""
        while True:
            text = self._states.get(scope, self.name)
            cursor = Cursor.parse(text)
            changed = change(cursor)
            if text is not None and changed == cursor:
                return cursor, text
            if self.move(scope, text, changed):
                return changed, changed.text
