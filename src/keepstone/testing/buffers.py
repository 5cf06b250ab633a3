"""The contract of buffers, as a pytest class.

Test an adapter by a subclass with one fixture, an open and empty buffer that keeps windows for a minute or longer:

    class TestAcmeBuffer(BufferContract):
        @pytest.fixture
        def buffer(self):
            buffer = AcmeBuffer(...)
            yield buffer
            buffer.close()
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from keepstone.ports.caches import Buffer, Window
from keepstone.testing.builders import ALIKE, AWAY, HOME, NOON, together
from keepstone.types import Record, Scope

ODD_SESSIONS = (None, "", "None", "null", "*", "a", "a:b", "a b", "A", "w", "token", "{a}", "ж😀", "x" * 256)


def said(content: str, scope: Scope = HOME, **overrides: Any) -> Record:
    """A message as a store returns it."""
    times = dict.fromkeys(("occurred_at", "created_at", "updated_at", "valid_from"), NOON)
    unset = dict.fromkeys(("key", "name", "valid_to", "expires_at", "last_accessed_at"))
    fields: dict[str, Any] = {
        "id": f"m_{content}", "scope": scope, "kind": "message", "tag": "general", "content": content, "metadata": {},
        "importance": 0.5, "source": "user", "trust": 1.0, "session": "s", "role": "user", "access_count": 0, "version": 1,
        "status": "active",
    }  # fmt: skip
    return Record(**fields | times | unset | overrides)


def window(*contents: str, number: int = 9, whole: bool = True, scope: Scope = HOME) -> Window:
    """The messages of a session that begins with audit entry 3."""
    return Window(number, tuple((at, said(text, scope)) for at, text in enumerate(contents, 3)), whole)


class BufferContract:
    """Subclass it and give it a `buffer` fixture."""

    def test_names_itself(self, buffer: Buffer) -> None:
        assert buffer.name.strip() == buffer.name != ""
        assert type(buffer.bound) is int
        assert buffer.bound > 0
        assert buffer.problem is None

    # -- windows --------------------------------------------------------------------------------------------------
    def test_a_window_comes_back_exactly_in_the_place_of_the_one_before(self, buffer: Buffer) -> None:
        for kept in (window("hello", "again"), window("instead", number=2**62, whole=False), Window(1, (), True)):
            buffer.put(HOME, "s", kept)
            assert buffer.window(HOME, "s") == kept == buffer.window(HOME, "s")
        assert buffer.problem is None

    def test_what_cannot_be_kept_exactly_is_not_kept(self, buffer: Buffer) -> None:
        odd = ({"a": float("nan")}, {"a": b"bytes"}, {"a": "\ud800"})
        for metadata in odd:
            kept = Window(9, ((3, said("hello", metadata=metadata)),), True)
            buffer.put(HOME, "s", kept)
            found = buffer.window(HOME, "s")
            assert found is None or repr(found) == repr(kept), metadata
        assert buffer.problem is None

    def test_other_scopes_see_nothing(self, buffer: Buffer) -> None:
        buffer.put(HOME, "s", window("mine"))
        assert buffer.window(AWAY, "s") is None
        for at, scope in enumerate(ALIKE):
            assert buffer.window(scope, "s") is None, scope
            buffer.put(scope, "s", window(f"of {at}", scope=scope))
        for at, scope in enumerate(ALIKE):
            assert buffer.window(scope, "s") == window(f"of {at}", scope=scope)
        assert buffer.window(HOME, "s") == window("mine")

    def test_every_session_has_its_own(self, buffer: Buffer) -> None:
        for at, session in enumerate(ODD_SESSIONS):
            assert buffer.window(HOME, session) is None, session
            buffer.put(HOME, session, window(f"of {at}"))
        for at, session in enumerate(ODD_SESSIONS):
            assert buffer.window(HOME, session) == window(f"of {at}"), session

    def test_no_more_messages_than_its_bound(self, buffer: Buffer) -> None:
        full = window(*(f"turn {n}" for n in range(buffer.bound)))
        buffer.put(HOME, "s", full)
        assert buffer.window(HOME, "s") == full
        buffer.put(HOME, "s", window(*(f"turn {n}" for n in range(buffer.bound + 1))))
        assert buffer.window(HOME, "s") is None, "neither it nor the one before, which it was to replace"

    # -- letting go -----------------------------------------------------------------------------------------------
    def test_clear_lets_go_of_all_sessions_of_a_scope_which_are_filled_again(self, buffer: Buffer) -> None:
        assert buffer.clear(HOME) is True
        for session in ODD_SESSIONS:
            buffer.put(AWAY, session, window("theirs", scope=AWAY))
        for number in range(2):
            for session in ODD_SESSIONS:
                buffer.put(HOME, session, window(f"at {number}"))
                assert buffer.window(HOME, session) == window(f"at {number}")
            assert buffer.clear(HOME) is True
            assert [buffer.window(HOME, session) for session in ODD_SESSIONS] == [None] * len(ODD_SESSIONS)
        assert all(buffer.window(AWAY, session) == window("theirs", scope=AWAY) for session in ODD_SESSIONS)

    @pytest.mark.parametrize("before", [False, True])
    def test_what_was_read_before_a_clear_is_not_kept_after_it(self, buffer: Buffer, before: bool) -> None:
        """A thread looks up a window and reads the store; the messages are erased; then the thread puts what it read."""
        if before:
            buffer.put(HOME, "s", window("an older window"))
        asked, cleared = threading.Event(), threading.Event()

        def fill() -> None:
            buffer.window(HOME, "s")
            asked.set()
            assert cleared.wait(30)
            buffer.put(HOME, "s", window("erased meanwhile"))

        thread = threading.Thread(target=fill)
        thread.start()
        assert asked.wait(30)
        assert buffer.clear(HOME)
        cleared.set()
        thread.join()
        assert buffer.window(HOME, "s") is None

    # -- together, and at the end ---------------------------------------------------------------------------------
    def test_serves_threads(self, buffer: Buffer) -> None:
        def work(number: int) -> list[str]:
            wrong = []
            for turn in range(20):
                kept = window(f"{number} at {turn}")
                buffer.put(HOME, f"session {number}", kept)
                found = buffer.window(HOME, f"session {number}")
                if found != kept:
                    wrong.append(f"{found} instead of {kept}")
            return wrong

        assert together(8, work) == [[]] * 8
        assert buffer.problem is None

    def test_nothing_raises_after_close(self, buffer: Buffer) -> None:
        buffer.put(HOME, "s", window("hello"))
        buffer.close()
        buffer.close()
        assert buffer.window(HOME, "s") is None
        buffer.put(HOME, "s", window("hello"))
        assert isinstance(buffer.clear(HOME), bool)
        assert isinstance(buffer.name, str)
