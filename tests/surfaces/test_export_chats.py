"""The trail of everything said and done as training data: a conversation or a task a line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from keepstone import AsyncMemory, Memory
from keepstone.errors import ConfigurationError
from tests.conversation.test_window import result, text, use
from tests.surfaces.test_conversation import EXCHANGE
from tests.surfaces.test_episodes import done


def exported(memory: Memory, path: Path, **options: Any) -> list[list[dict[str, Any]]]:
    """The messages of every line."""
    count = memory.conversation.export_chats(path, **options)
    rows = path.read_text(encoding="utf-8").split("\n")
    assert rows.pop() == ""
    assert len(rows) == count
    made = [json.loads(row) for row in rows]
    assert all(set(each) == {"messages"} for each in made)
    return [each["messages"] for each in made]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "chats.jsonl"


def test_append_only_trail_exportable_as_fine_tuning_jsonl(memory: Memory, out: Path) -> None:
    for role, content in EXCHANGE:
        memory.conversation("weather").add(role, content)
    assert exported(memory, out) == [
        [
            {"role": "user", "content": "What is the weather in Oslo?"},
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {"id": "w1", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Oslo"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "w1", "content": "Rain, 7 degrees\n[image]"},
            {"role": "assistant", "content": "It rains at 7 degrees."},
        ]
    ]
    assert exported(memory, out, format="anthropic") == [[{"role": role, "content": content} for role, content in EXCHANGE]]


def test_a_use_without_words_and_results_with_words(memory: Memory, out: Path) -> None:
    talk = memory.conversation("s")
    talk.add("user", "Two things, please. 漢字 🎉")
    talk.add("assistant", [use("1"), use("2", q="漢字")])
    talk.add("user", [result("1", "one"), result("2"), text("And now?")])
    talk.add("assistant", "Done.")
    [line] = exported(memory, out)
    assert [message["role"] for message in line] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert line[1]["content"] is None
    assert [call["function"]["arguments"] for call in line[1]["tool_calls"]] == ["{}", '{"q": "漢字"}']
    assert [message["tool_call_id"] for message in line[2:4]] == ["1", "2"]
    assert line[4]["content"] == "And now?"
    assert "漢字 🎉" in out.read_text(encoding="utf-8"), "as it was written"


def test_a_task_is_what_was_wanted_what_was_done_and_how_it_ended(memory: Memory, out: Path) -> None:
    done(memory, "Deploy the shop", True, "Deployed.", ("Build first", "make image", "built"), ("", "push", ""), ("", "", "seen"))
    assert exported(memory, out) == [
        [
            {"role": "user", "content": "Deploy the shop"},
            {"role": "assistant", "content": "Thought: Build first\nAction: make image"},
            {"role": "user", "content": "Result: built"},
            {"role": "assistant", "content": "Action: push"},
            {"role": "user", "content": "Result: seen"},
            {"role": "assistant", "content": "Deployed."},
        ]
    ]


def test_only_successes_leaves_out_tasks_that_failed(memory: Memory, out: Path) -> None:
    done(memory, "Deploy the shop", False, "The token had expired.", ("", "push", "denied"))
    done(memory, "Deploy the shop again", True, "Deployed.", ("", "push", "ok"))
    memory.conversation("talk").add("user", "Hello.")
    memory.conversation("talk").add("assistant", "Good morning.")
    every, good = exported(memory, out), exported(memory, out, only_successes=True)
    assert [line[0]["content"] for line in every] == ["Deploy the shop", "Deploy the shop again", "Hello."]
    assert [line[0]["content"] for line in good] == ["Deploy the shop again", "Hello."]


def test_sessions_come_in_the_order_they_began_and_one_without_an_answer_is_left_out(memory: Memory, out: Path) -> None:
    for name in ("b", "a", "c", "unanswered"):
        memory.conversation(name).add("user", f"Hello from {name}.")
    for name in ("c", "a", "b"):
        memory.conversation(name).add("assistant", f"Hello, {name}.")
    assert [line[0]["content"] for line in exported(memory, out)] == [f"Hello from {name}." for name in "bac"]


def test_a_long_session_is_one_line_with_all_its_messages(memory: Memory, out: Path) -> None:
    said = [{"role": "assistant" if at % 2 else "user", "content": f"message {at}"} for at in range(1203)]
    memory.ingest(said, session="long", extract=False)
    [line] = exported(memory, out)
    assert line == said


def test_a_summary_changes_nothing_in_the_trail(memory: Memory, out: Path) -> None:
    talk = memory.conversation("s", max_messages=4)
    for at in range(20):
        talk.add("assistant" if at % 2 else "user", f"message {at}")
        talk.messages()
    assert [message["content"] for message in exported(memory, out)[0]] == [f"message {at}" for at in range(20)]


def test_what_was_forgotten_and_other_scopes_are_not_in_it(memory: Memory, out: Path) -> None:
    other = memory.with_scope(user="other")
    other.conversation("s").add("assistant", "Not yours.")
    talk = memory.conversation("s")
    secret = talk.add("user", "My code word is quokka.").id or ""
    talk.add("assistant", "Noted.")
    memory.forget(secret)
    assert exported(memory, out) == [[{"role": "assistant", "content": "Noted."}]]
    talk.clear()
    assert exported(memory, out) == []
    assert exported(other, out) == [[{"role": "assistant", "content": "Not yours."}]]


@pytest.mark.parametrize("format", ["", "chatml", "OpenAI", None])
def test_an_unknown_format_is_named_and_nothing_is_written(memory: Memory, out: Path, format: Any) -> None:
    out.write_text("what was there", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="openai or anthropic"):
        memory.conversation.export_chats(out, format=format)
    assert out.read_text(encoding="utf-8") == "what was there"
    assert [each.name for each in out.parent.iterdir() if "chats" in each.name] == ["chats.jsonl"], "no draft is left"


def test_a_path_that_cannot_be_written_is_refused(memory: Memory, path: Path, tmp_path: Path) -> None:
    memory.conversation("s").add("assistant", "Hello.")
    for target in (path, tmp_path, tmp_path / "missing" / "chats.jsonl"):
        with pytest.raises(ConfigurationError):
            memory.conversation.export_chats(target)
    assert memory.upkeep.doctor().healthy


def test_the_same_export_through_async_memory(path: Path, out: Path) -> None:
    async def written() -> int:
        async with AsyncMemory.open(path) as memory:
            for role, content in EXCHANGE:
                await memory.conversation("weather").add(role, content)
            return await memory.conversation.export_chats(out, format="anthropic")

    assert asyncio.run(written()) == 1
    assert json.loads(out.read_text(encoding="utf-8"))["messages"][0]["content"] == "What is the weather in Oslo?"
