"""Messages of a conversation as a model gets them: budget, tool blocks, summaries; tasks and contexts within them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone import Memory
from keepstone.conversation.flow import Limits
from keepstone.errors import KeepstoneError
from tests.conversation.test_window import refused, result, taken, text, use

SECRET = "quokkamarmalade"


# -- forgotten text comes back ------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["forget", "clear", "update"])
def test_a_message_forgotten_while_a_model_summarises_is_not_in_the_summary_afterwards(path: Path, how: str) -> None:
    with Memory.open(path, settings={"extract": False}) as memory:
        armed: list[str] = []

        def model(prompt: Any) -> str:
            if armed:
                id = armed.pop()
                if how == "forget":
                    memory.forget(id)
                elif how == "clear":
                    memory.conversation("s").clear()
                else:
                    memory.update(id, "Never mind.")
                return f"The code word is {SECRET}."
            return "They talked."

        talk = memory.conversation("s", max_messages=4, model=model)
        id = talk.add("user", f"My code word is {SECRET}.").id or ""
        for at in range(6):
            talk.add("user", f"turn {at}")
        armed.append(id)
        talk.messages()
        talk.add("user", "And now?")
        assert SECRET not in str(talk.messages())
    assert how == "update" or SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize("what", ["id", "session"])
def test_a_forgotten_step_is_not_left_in_the_saved_working_memory(path: Path, what: str) -> None:
    with Memory.open(path) as memory:
        task = memory.tasks.start("Find the zebra")
        step = memory.tasks.record(f"The password is {SECRET}")
        receipt = memory.forget(step.id) if what == "id" else memory.forget(session=task.session)
    assert not (receipt.erased and SECRET.encode() in path.read_bytes())


# -- the budget ---------------------------------------------------------------------------------------------------
def test_a_summary_full_of_brackets_stays_within_the_budget(memory: Memory) -> None:
    talk = memory.conversation("s", max_tokens=400, max_messages=4)
    for at in range(10):
        talk.add("user", f"My code number is {1000 + at}: " + "<" * 240)
        assert taken(talk.messages()) <= 400


def test_a_smaller_limit_than_the_summary_was_made_for_is_kept(memory: Memory) -> None:
    talk = memory.conversation("s", max_tokens=8000, max_messages=1)
    for at in range(100):
        talk.add("user", f"My account number {at} is DE{at}-5501-{at * 7} and I live in street number {at}.")
        talk.messages()
    assert taken(talk.messages(max_tokens=200)) <= 200


def test_one_look_with_a_small_limit_does_not_spoil_the_window_for_good(memory: Memory) -> None:
    talk = memory.conversation("s")
    for at in range(40):
        talk.add("user", f"message {at}")
    before = talk.messages()
    talk.messages(max_tokens=200)
    assert talk.messages() == before


def test_a_count_of_one_scope_is_not_taken_for_another_scopes_message(memory: Memory, tmp_path: Path) -> None:
    one, other = memory.with_scope(user="one"), memory.with_scope(user="other")
    id = one.conversation("s").add("user", "hello").id or ""
    one.export(tmp_path / "out.jsonl")
    other.import_(tmp_path / "out.jsonl")
    one.update(id, "short")
    other.update(id, "word " * 5000)
    one.conversation("s").messages()
    assert taken(other.conversation("s", max_tokens=300).messages()) <= 300


def test_orphan_results_as_words_are_counted_as_words(memory: Memory) -> None:
    talk = memory.conversation("s", counter=len, max_tokens=150, summarise=False)
    for at in range(20):
        talk.add("user", [result(f"{at}{each}", "x") for each in range(3)])
        built = talk.build()
        assert taken(built.messages, len) <= min(150, built.tokens)


# -- what a model is given ----------------------------------------------------------------------------------------
def test_system_messages_do_not_push_everything_else_out_of_the_window(memory: Memory) -> None:
    talk = memory.conversation("s", max_messages=4)
    talk.add("user", "hello")
    for at in range(5):
        talk.add("system", f"note {at}")
    assert any("hello" in str(message["content"]) for message in talk.messages())


def test_reading_an_unchanged_conversation_writes_nothing(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = memory.conversation("s", max_messages=2)
    talk.add("user", "hello")
    talk.add("system", "a")
    talk.add("system", "b")
    talk.messages()
    puts: list[Any] = []
    monkeypatch.setattr(memory._engine.store.states, "put", lambda *args, **more: puts.append(args))
    for _ in range(5):
        talk.messages()
    assert puts == []


def test_ids_and_tokens_are_those_of_the_messages_that_are_given(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("assistant", "Welcome! How can I help?")
    built = talk.build()
    assert (len(built.ids), built.tokens) == (len(built.messages), taken(built.messages))
    talk.add("user", "Hello.")
    built = talk.build()
    assert (len(built.ids), built.tokens) == (len(built.messages), taken(built.messages))


def test_results_stand_before_words_in_a_message(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", "q")
    talk.add("assistant", [use("1")])
    talk.add("user", [result("0", "lost"), result("1", "found")])
    kinds = [block["type"] for block in talk.messages()[-1]["content"]]
    assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result"), "the API refuses a result behind a text"


def test_a_use_is_answered_once(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", "q")
    talk.add("assistant", [use("1")])
    talk.add("user", [result("1", "a"), result("1", "b")])
    assert [block["type"] for block in talk.messages()[-1]["content"]].count("tool_result") == 1


def test_results_of_the_assistant_and_uses_of_the_user_become_words(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", [text("q"), use("9")])
    talk.add("assistant", [result("9"), use("1")])
    talk.add("assistant", [result("1", "a")])
    talk.add("user", "x")
    for message in talk.messages():
        blocks = message["content"] if isinstance(message["content"], list) else []
        wrong = "tool_use" if message["role"] == "user" else "tool_result"
        assert wrong not in [block["type"] for block in blocks]


def test_empty_text_blocks_are_not_sent(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", [text(""), text("hi")])
    assert text("") not in talk.messages()[0]["content"], "the API refuses empty text"


def test_a_session_called_star_is_a_session_like_any_other(memory: Memory) -> None:
    for at in range(10):
        memory.conversation("x").add("user", f"My secret number is {at}-4711.")
    memory._engine.window_builder.build(memory.scope, None, Limits(max_messages=2))  # as the summary strategy does
    talk = memory.conversation("*")
    talk.add("user", "hi")
    assert talk.messages() == [{"role": "user", "content": "hi"}]


def test_no_model_is_asked_for_a_summary_that_has_no_room(memory: Memory) -> None:
    calls: list[int] = []
    talk = memory.conversation("s", max_tokens=100, max_messages=2, model=lambda prompt: calls.append(1) or "A fine summary.")
    for at in range(6):
        talk.add("user", f"turn {at}")
    assert "A fine" in str(talk.messages()) or not calls


def test_what_a_model_took_is_counted_even_where_its_answer_is_of_no_use(memory: Memory) -> None:
    talk = memory.conversation("s", max_messages=2, model=lambda prompt: "...")
    for at in range(6):
        talk.add("user", f"turn {at}")
    assert talk.build().usage.calls == 1


def test_a_conversations_model_consolidates_too(memory: Memory) -> None:
    calls: list[int] = []
    talk = memory.conversation("s", model=lambda prompt: calls.append(1) or "{}")
    for at in range(6):
        talk.add("user", f"My order number {at} is AB-{at}77.")
    talk.consolidate()
    assert calls


def test_a_counter_that_cannot_be_hashed_counts(memory: Memory) -> None:
    class Tokenizer:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, text: str) -> int:
            return len(text)

    memory.conversation("s", counter=Tokenizer()).messages()


@pytest.mark.parametrize("messages", ["abc", None, [], {}])
def test_an_import_with_a_broken_summary_stores_nothing(memory: Memory, messages: Any) -> None:
    data = memory.conversation("a").export()
    data["messages"] = [{"role": "user", "content": "hi"}]
    data["summary"] = {"text": "x", "messages": messages, "by": ""}
    talk = memory.conversation("b")
    try:
        talk.import_(data)
    except KeepstoneError:
        assert len(talk) == 0


# -- tasks --------------------------------------------------------------------------------------------------------
def test_a_backslash_u0000_in_words_is_no_nul(memory: Memory) -> None:
    memory.tasks.start("Clean the text")
    memory.tasks.record("Strip \\u0000 from it", "sed 's/\\u0000//'", "ok")
    assert len(memory.working.steps) == 1


def test_a_long_task_can_be_recorded_to_its_end(path: Path) -> None:
    with Memory.open(path, embedder="none", settings={"durable": False}) as memory:
        memory.tasks.start("A long task")
        for at in range(40):
            memory.tasks.record(f"{at}: " + "thinking " * 4000, "act", "done")
        memory.tasks.end(True, "Done.")


def test_a_step_that_is_stored_is_acknowledged(memory: Memory) -> None:
    task = memory.tasks.start("A task")
    memory.working.result("when", {1, 2})  # cannot be saved; either this says so, or the step is recorded
    before = len(memory.conversation(task.session))
    try:
        memory.tasks.record("a thought")
    except KeepstoneError:
        assert len(memory.conversation(task.session)) == before
        assert memory.working.steps == []


def test_two_tasks_that_fail_alike_are_both_left_out_of_the_successes(memory: Memory, tmp_path: Path) -> None:
    for _ in range(2):
        memory.tasks.start("Deploy the shop")
        memory.tasks.record("", "push", "denied")
        memory.tasks.end(False, "The token had expired.")
    assert memory.conversation.export_chats(tmp_path / "out.jsonl", only_successes=True) == 0


def test_a_task_that_never_ended_is_no_success(memory: Memory, tmp_path: Path) -> None:
    memory.tasks.start("Deploy the shop")
    memory.tasks.record("", "push", "denied")
    memory.tasks.start("Another")
    memory.tasks.end(True, "Done.")
    assert memory.conversation.export_chats(tmp_path / "out.jsonl", only_successes=True) == 1


# -- context ------------------------------------------------------------------------------------------------------
def migrated(memory: Memory, version: int, steps: int = 20) -> None:
    memory.tasks.start(f"Migrate the billing database to version {version}")
    for at in range(steps):
        result = "billing database error: " + "the lock of the billing database could not be taken " * 4
        memory.tasks.record("", f"migrate the billing database, part {at} to version {version}", result)
    memory.tasks.end(False, f"The migration of the billing database to {version} failed.")


def test_a_long_episode_is_a_lesson_too(memory: Memory) -> None:
    migrated(memory, 16)
    assert memory.tasks.start("Migrate the billing database to version 17").lessons
    assert ", failure]" in memory.context("Migrate the billing database to version 17")


def test_steps_of_past_tasks_do_not_crowd_knowledge_out_of_the_context(memory: Memory) -> None:
    facts = ["Ask Priya before any migration of billing data.", "Migrations of databases are only allowed at night."]
    memory.remember_many(facts)
    assert all(fact in memory.context("Migrate the billing database to version 17") for fact in facts)
    for version in range(10, 16):
        migrated(memory, version)
    shown = memory.context("Migrate the billing database to version 17")
    assert [fact for fact in facts if fact not in shown] == []


def test_the_task_in_hand_is_not_recalled_to_itself(memory: Memory) -> None:
    memory.tasks.start("Count herons in the river delta")
    memory.tasks.record("Look", "count herons in the delta", "12 herons")
    assert memory.context("Count herons in the river delta").count("12 herons") == 1


def test_the_context_of_a_long_task_is_not_empty(memory: Memory) -> None:
    memory.working.start("齉" * 300, goal="A short goal")
    assert "A short goal" in memory.working.context()


def test_the_present_subgoal_is_shown_before_those_around_it_run_out_of_room(memory: Memory) -> None:
    memory.working.start("A task")
    for at in range(40):
        memory.working.push(f"subgoal number {at} with some words that take room in it")
    assert (memory.working.current_goal or "-") in memory.working.context()


def test_restore_after_the_end_says_that_there_is_no_task(memory: Memory) -> None:
    memory.tasks.start("A task")
    memory.tasks.end(True, "Done.")
    assert not memory.working.restore()


# -- anything at all ----------------------------------------------------------------------------------------------
ids = st.sampled_from(["1", "2"])
plain = st.sampled_from(["ok", "漢" * 400, "<" * 900, "My number is AB-12. " + "&" * 200, "x " * 900])
block = st.one_of(st.builds(text, plain), st.builds(result, ids, plain), ids.map(use))
turn = st.tuples(st.sampled_from(["user", "assistant", "system", "tool"]), plain | st.lists(block, min_size=1, max_size=3))


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    st.lists(turn, min_size=1, max_size=14),
    st.lists(st.tuples(st.integers(100, 3000), st.integers(1, 8)), min_size=1, max_size=4),
)
def test_any_conversation_under_changing_limits(turns: list[Any], limits: list[tuple[int, int]]) -> None:
    with Memory.open(":memory:", embedder="none", settings={"extract": False}) as memory:
        talk = memory.conversation("s")
        for at, (role, content) in enumerate(turns):
            talk.add(role, content)
            tokens, most = limits[at % len(limits)]
            built = talk.build(max_tokens=tokens, max_messages=most)
            assert taken(built.messages) <= tokens
            assert refused(built.messages) is None
            said = [each for each in turns[: at + 1] if each[0] != "system"]
            if said and said[-1][0] != "assistant":
                assert built.messages
                assert built.messages[-1]["role"] == "user"
            json.dumps(built.messages)


# -- steps and tool results ----------------------------------------------------------------------------------------
def test_long_turns_of_which_a_model_sees_little_share_a_call(memory: Memory) -> None:
    calls: list[int] = []
    talk = memory.conversation("s", max_messages=4, model=lambda prompt: calls.append(1) or "They talked.")
    for _ in range(12):
        talk.add("user", "word " * 12_000)  # 4,000 characters of it are shown to the model
    talk.messages()
    assert len(calls) <= 4


def test_steps_recorded_at_the_same_time_have_numbers_of_their_own(path: Path) -> None:
    import asyncio

    from keepstone import AsyncMemory

    async def worked() -> list[int]:
        async with AsyncMemory.open(path) as memory:
            task = await memory.tasks.start("A task")
            await asyncio.gather(*(memory.tasks.record(f"thought {at}") for at in range(20)))
            return [each.metadata["step"] async for each in memory.conversation(task.session) if "step" in each.metadata]

    assert sorted(asyncio.run(worked())) == list(range(1, 21))


def test_the_openai_trail_is_valid_chat(memory: Memory, tmp_path: Path) -> None:
    talk = memory.conversation("s")
    talk.add("user", [{"type": "image", "source": {"type": "url", "url": "https://pictures.example/cat.png"}}])
    talk.add("assistant", [use("1")])
    talk.add("user", "never mind")
    talk.add("assistant", "ok")
    memory.conversation.export_chats(tmp_path / "out.jsonl")
    messages = json.loads((tmp_path / "out.jsonl").read_text())["messages"]
    assert messages[0]["role"] == "user", "what the user showed is not dropped"
    for at, message in enumerate(messages):
        for call in message.get("tool_calls", ()):
            assert any(each.get("tool_call_id") == call["id"] for each in messages[at + 1 :]), "every call has its answer"


def test_results_that_come_in_two_messages_answer_their_uses(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", "q")
    talk.add("assistant", [use("1"), use("2")])
    talk.add("user", [result("1")])
    talk.add("user", [result("2")])
    assert [block["type"] for block in talk.messages()[1]["content"]] == ["tool_use", "tool_use"]


def test_who_speaks_is_told_of_blocks_too(memory: Memory) -> None:
    talk = memory.conversation("s")
    talk.add("user", "hi", name="Ada")
    talk.add("user", [text("ho")], name="Bo")
    assert "Bo" in str(talk.messages()[1]["content"])
