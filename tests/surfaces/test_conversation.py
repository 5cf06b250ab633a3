"""A conversation's messages: kept as they are said, read back as they were, found by their words, erased on request."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keepstone import AsyncMemory, Memory
from keepstone.errors import ConfigurationError, KeepstoneError, StoreClosed, TooLarge, ValidationError
from keepstone.types import Message
from tests.conversation.test_window import IMAGE, refused, result, text, use
from tests.surfaces.support import Clock, contents, timed

EXCHANGE: list[tuple[str, Any]] = [
    ("user", "What is the weather in Oslo?"),
    ("assistant", [text("Let me look."), use("w1", city="Oslo")]),
    ("user", [result("w1", [text("Rain, 7 degrees"), IMAGE])]),
    ("assistant", "It rains at 7 degrees."),
]


def said(*messages: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in messages]


# -- keeping ------------------------------------------------------------------------------------------------------
def test_conversation_memory_messages_in_the_shape_of_the_messages_api(memory: Memory) -> None:
    talk = memory.conversation("weather")
    for role, content in EXCHANGE:
        assert talk.add(role, content).action == "added"
    assert talk.messages() == said(*EXCHANGE)
    assert [(each.role, each.content) for each in talk] == EXCHANGE
    assert (len(talk), talk.session, bool(memory.conversation("empty"))) == (4, "weather", True)


def test_messages_are_persisted_as_they_arrive(path: Path) -> None:
    with Memory.open(path) as memory, Memory.open(path) as other:
        for at, (role, content) in enumerate(EXCHANGE, 1):
            memory.conversation("s").add(role, content)
            assert len(other.conversation("s")) == at
            assert other.conversation("s").last(1)[0].content == content
    with Memory.open(path) as memory:
        assert memory.conversation("s").messages() == said(*EXCHANGE)


def test_name_time_and_metadata_come_back_with_the_message(memory: Memory) -> None:
    talk = memory.conversation("s")
    at = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    receipt = talk.add("user", "Good morning.", name="Ada", at=at, mood="fine", nested={"n": [1, None, 2.5, True]})
    [message] = talk
    assert message == Message(
        "user", "Good morning.", "Ada", at, {"mood": "fine", "nested": {"n": [1, None, 2.5, True]}}, receipt.id
    )


def test_images_are_kept_by_reference_only(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", [IMAGE, text("What is this?")])
    assert talk.messages()[0]["content"] == [IMAGE, text("What is this?")]
    inline = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    with pytest.raises(ValidationError, match=r"url or file_id"):
        talk.add("user", [inline])
    assert len(talk) == 1


@pytest.mark.parametrize(
    ("role", "content"),
    [
        ("", "hi"), ("wizard\0", "hi"), ("user", ""), ("user", "   "), ("user", []), ("user", None), ("user", 5), ("user", b"x"),
        ("user", [{"text": "no type"}]), ("user", ["just text"]), ("user", [{"type": "text"}]),
        ("assistant", [{"type": "tool_use", "id": "1"}]), ("user", [{"type": "tool_result"}]),
        ("user", [{"type": "tool_result", "tool_use_id": "1", "content": 5}]),
        ("user", "\ud800"), ("user", {"type": "text", "text": "one block"}),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_and_stores_nothing(memory: Memory, role: str, content: Any) -> None:
    talk = memory.conversation("s")
    with pytest.raises(ValidationError) as caught:
        talk.add(role, content)
    assert len(str(caught.value)) > 20
    assert (len(talk), talk.messages()) == (0, [])


def test_too_long_a_message_says_what_the_limit_is(memory: Memory) -> None:
    with pytest.raises(TooLarge, match="8388608"):
        memory.conversation("s").add("user", "x" * (8 * 1024 * 1024 + 1))
    with pytest.raises(TooLarge, match="8388608"):
        memory.conversation("s").add("user", [text("漢" * 3_000_000)])
    assert len(memory.conversation("s")) == 0


@pytest.mark.parametrize(
    "limits",
    [
        {"max_messages": 0}, {"max_messages": True}, {"max_tokens": 99}, {"max_tokens": 1e6}, {"max_tokens": "8k"},
        {"counter": 5}, {"model": "nobody:knows"}, {"summarise": "yes"}, {"max_token": 100},
    ],
)  # fmt: skip
def test_limits_that_cannot_be_used_are_named(memory: Memory, limits: dict[str, Any]) -> None:
    with pytest.raises((ConfigurationError, ValidationError), match=r"max_|counter|nobody|summarise"):
        memory.conversation("s", **limits)


@pytest.mark.parametrize("session", ["", "  ", "a\nb", "x" * 257, 5, None])
def test_a_session_needs_a_name(memory: Memory, session: Any) -> None:
    with pytest.raises(ValidationError, match="session"):
        memory.conversation(session)


def test_a_closed_memory_takes_no_messages(path: Path) -> None:
    with Memory.open(path) as memory:
        talk = memory.conversation("s")
    with pytest.raises(StoreClosed):
        talk.add("user", "Too late.")


# -- reading ------------------------------------------------------------------------------------------------------
def test_last_n_messages_oldest_first(memory: Memory) -> None:
    talk = memory.conversation("s")
    for at in range(12):
        talk.add("user", f"message {at}")
    assert contents(talk.last(3)) == ["message 9", "message 10", "message 11"]
    assert len(talk.last()) == 10
    assert len(talk.last(100_000)) == 12
    assert talk.last(0) == []
    for n in (-1, True, 1.5, "3", 100_001):
        with pytest.raises(ValidationError, match="n is"):
            talk.last(n)  # type: ignore[arg-type]


def test_keyword_search_finds_messages_with_all_the_words(memory: Memory) -> None:
    talk = memory.conversation("s")
    for role, content in (*EXCHANGE, ("user", "The STRASSE is called Weather Lane."), ("user", "Grüße aus Ærø")):
        talk.add(role, content)
    memory.conversation("other").add("user", "weather elsewhere")
    assert contents(talk.search("weather")) == ["What is the weather in Oslo?", "The STRASSE is called Weather Lane."]
    assert contents(talk.search("WEATHER oslo")) == ["What is the weather in Oslo?"]
    assert [each.content for each in talk.search("look_up oslo")] == [EXCHANGE[1][1]], "in a tool use"
    assert talk.search("7 rain,")[0].content == EXCHANGE[2][1], "in a tool result"
    assert contents(talk.search("straße")) == ["The STRASSE is called Weather Lane."]
    assert contents(talk.search("weather", limit=1)) == ["The STRASSE is called Weather Lane."], "the newest"
    assert talk.search("weath") == talk.search("eather") == [], "words, no parts of them"
    assert talk.search("weather snow") == []
    for words, limit in (("", 5), ("  ", 5), (None, 5), ("rain", 0), ("rain", True), ("rain", 1001)):
        with pytest.raises(ValidationError, match=r"words|limit"):
            talk.search(words, limit=limit)  # type: ignore[arg-type]


def test_a_search_for_a_number_finds_the_number_and_no_part_of_one(memory: Memory) -> None:
    talk = memory.conversation("numbers")
    for said in ("Invoice 12 is paid.", "The year 2012 was dry.", "Call 0312-7 at 12:30.", "Part 4471-902 fits.", "902 of 4471"):
        talk.add("user", said)
    assert contents(talk.search("12")) == ["Invoice 12 is paid.", "Call 0312-7 at 12:30."]
    assert contents(talk.search("4471-902")) == ["Part 4471-902 fits."]
    assert talk.search("447") == []
    talk.add("user", "东京的天气很好 🎉")
    assert contents(talk.search("天气")) == contents(talk.search("🎉")) == ["东京的天气很好 🎉"]


def test_messages_and_recent_are_read_in_the_same_ways(memory: Memory) -> None:
    memory.conversation("a").add("user", "I prefer dark mode.")
    for found in (memory.conversation("a").messages(), memory.conversation.recent(), memory.conversation("a").last()):
        assert [(each.role, each.content) for each in found] == [("user", "I prefer dark mode.")]
        assert [(each["role"], each["content"]) for each in found] == [("user", "I prefer dark mode.")]
        with pytest.raises(KeyError):
            found[0]["mood"]
    assert json.loads(json.dumps(memory.conversation("a").messages())) == [{"role": "user", "content": "I prefer dark mode."}]


def test_search_reaches_the_first_of_many_messages(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": f"line {at:04} of the log"} for at in range(1200)], session="s", extract=False)
    talk = memory.conversation("s")
    assert contents(talk.search("line 0000 LOG")) == ["line 0000 of the log"]
    assert len(talk.search("log", limit=1000)) == 1000
    assert contents(talk) == [f"line {at:04} of the log" for at in range(1200)]


def test_buffer_last_n_messages_of_a_user_across_sessions_in_order(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        for at in range(9):
            memory.conversation(f"session {at % 3}").add("user" if at % 2 else "assistant", f"message {at}")
            clock.forward(minutes=-1)  # order is that of arrival, whatever the clock says
        memory.remember("Not a message.")
        memory.tasks.start("Not said to anyone")
        memory.tasks.record("a thought")
        memory.with_scope(user="other").conversation("session 0").add("user", "Somebody else's.")
        assert contents(memory.conversation.recent(4)) == [f"message {at}" for at in (5, 6, 7, 8)]
        assert contents(memory.conversation.recent()) == [f"message {at}" for at in range(9)]
        assert [each.name for each in memory.conversation.list()] == ["session 2", "session 1", "session 0"]
        assert [each.messages for each in memory.conversation.list(limit=2)] == [3, 3]
        assert memory.conversation.recent(0) == []
        for n in (-1, True, "5"):
            with pytest.raises(ValidationError, match="n"):
                memory.conversation.recent(n)  # type: ignore[arg-type]


def test_two_scopes_with_the_same_session_never_see_each_other(memory: Memory) -> None:
    dana, omar = memory.with_scope(user="dana"), memory.with_scope(user="omar")
    for number in range(30):
        dana.conversation("s", max_messages=4).add("user", f"Dana's number is {number}-DANA.")
        omar.conversation("s", max_messages=4).add("user", f"Omar's number is {number}-OMAR.")
        for mine, theirs in ((dana, "OMAR"), (omar, "DANA")):
            assert theirs not in str(mine.conversation("s", max_messages=4).messages())
    assert dana.conversation("s").search("omar") == []
    assert "OMAR" not in str(dana.conversation("s").export())
    omar.conversation("s").clear()
    assert (len(dana.conversation("s")), len(omar.conversation("s"))) == (30, 0)


# -- clearing -----------------------------------------------------------------------------------------------------
def test_clear_erases_messages_and_summary_and_keeps_what_was_learned(path: Path) -> None:
    with Memory.open(path) as memory:
        talk = memory.conversation("s", max_messages=4)
        learned = talk.add("user", "My name is Dana and my code word is quokkamarmalade.").learned
        for at in range(8):
            talk.add("user", f"filler {at}")
        assert "quokkamarmalade" in talk.summary()
        memory.conversation("other").add("user", "stays")
        assert learned
        assert talk.clear().forgotten == 9
        assert (len(talk), talk.messages(), talk.summary(), talk.search("filler")) == (0, [], "", [])
        assert len(memory.conversation("other")) == 1
        assert [memory.get(each) is not None for each in learned] == [True] * len(learned)
        assert talk.clear().forgotten == 0
        for each in learned:
            memory.forget(each)
    assert b"quokkamarmalade" not in path.read_bytes()


# -- at the same time ---------------------------------------------------------------------------------------------
def test_two_threads_adding_to_one_conversation_keep_all_messages_while_a_third_builds(memory: Memory) -> None:
    failures: list[BaseException] = []
    done = threading.Event()

    def add(who: str) -> None:
        try:
            for at in range(60):
                memory.conversation("s", max_messages=10).add("user", f"{who} {at}")
        except BaseException as error:
            failures.append(error)

    def build() -> None:
        try:
            while not done.is_set():
                messages = memory.conversation("s", max_messages=10, max_tokens=400).messages()
                assert refused(messages) is None
                assert len(messages) <= 11
        except BaseException as error:
            failures.append(error)

    builder, writers = threading.Thread(target=build), [threading.Thread(target=add, args=(who,)) for who in ("ann", "bob")]
    for thread in (builder, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    builder.join()
    assert failures == []
    kept = contents(memory.conversation("s"))
    for who in ("ann", "bob"):
        assert [each for each in kept if each.startswith(who)] == [f"{who} {at}" for at in range(60)]
    last = memory.conversation("s", max_messages=10, max_tokens=400).messages()[-1]
    assert last["content"] == kept[-1]


def test_the_same_conversation_through_async_memory(path: Path) -> None:
    async def talk() -> None:
        async with AsyncMemory.open(path) as memory:
            conversation = memory.conversation("s", max_messages=2)
            for role, content in EXCHANGE:
                await conversation.add(role, content, name="Ada")
            assert await conversation.count() == 4
            assert [each.content async for each in conversation] == [content for _, content in EXCHANGE]
            messages = await conversation.messages()
            assert refused(messages) is None
            assert messages[-1]["content"] == "It rains at 7 degrees."
            assert (await conversation.build()).summary.messages > 0
            assert contents(await conversation.search("degrees", limit=1)) == ["It rains at 7 degrees."]
            assert contents(await memory.conversation.recent(1)) == ["It rains at 7 degrees."]
            assert [each.name for each in await memory.conversation.list()] == ["s"]
            assert (await conversation.clear()).forgotten == 4
            await asyncio.gather(*(conversation.add("user", f"message {at}") for at in range(20)))
            assert sorted(contents(await conversation.last(20))) == sorted(f"message {at}" for at in range(20))
            with pytest.raises(KeepstoneError):
                await conversation.add("user", "")

    asyncio.run(talk())
