"""wrap: what is known goes into every request, and what was said is kept, whichever way a client is asked."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import keepstone
from keepstone import Memory
from tests.integrations.speaking import spoken
from tests.integrations.ways import CHAT, MESSAGES, PLAIN, WAYS, Reply, client_of
from tests.models.endpoint import Request, say, use

TOLD = "My name is Dana and I prefer dark mode."
ASKED = "Which mode do I prefer, dark or light?"
every_way = pytest.mark.parametrize("name", WAYS)
both = pytest.mark.parametrize("vendor", PLAIN)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def kept(memory: Memory, session: str = "chat") -> list[tuple[str, Any]]:
    return [(each.role, each.content) for each in memory.conversation(session)]


def block(request: Request) -> str:
    """What memory put into a request; "" for nothing."""
    body = request["body"]
    if request["path"] == "/v1/chat/completions":
        texts = [each["content"] for each in body["messages"] if each["role"] == "system"]
    elif request["path"] == "/v1/responses":
        texts = [body.get("instructions") or ""]
    else:
        texts = [each["text"] for each in body.get("system") or ()]
    return "".join(text[text.index("<memory") :] for text in texts if "<memory" in text)


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory.open(tmp_path / "wrap.db", user="dana") as memory:
        yield memory


@every_way
def test_a_new_session_is_given_what_an_older_one_was_told(name: str, memory: Memory) -> None:
    vendor, way = WAYS[name]
    with spoken([say("Nice to meet you, Dana."), say("Dark mode.")]) as endpoint:
        monday = keepstone.wrap(client_of(vendor, endpoint), memory, session="monday")
        assert way(monday, [user(TOLD)]) == "Nice to meet you, Dana."
        tuesday = keepstone.wrap(client_of(vendor, endpoint), memory, session="tuesday")
        assert way(tuesday, [user(ASKED)]) == "Dark mode."
    first, second = endpoint.requests
    assert block(first) == ""
    assert "prefers dark mode" in block(second)
    assert kept(memory, "monday") == [("user", TOLD), ("assistant", "Nice to meet you, Dana.")]
    assert kept(memory, "tuesday") == [("user", ASKED), ("assistant", "Dark mode.")]


@every_way
def test_what_is_sent_is_what_the_bare_client_sends_and_what_is_known(name: str, memory: Memory) -> None:
    vendor, way = WAYS[name]
    memory.remember("Dana prefers dark mode.")
    messages = [user("Hello."), assistant("Hello!"), user(ASKED)]
    before = deepcopy(messages)
    with spoken([say("One."), say("One.")]) as endpoint:
        assert way(client_of(vendor, endpoint), messages) == way(keepstone.wrap(client_of(vendor, endpoint), memory), messages)
    assert messages == before
    bare, wrapped = (deepcopy(request) for request in endpoint.requests)
    known = block(wrapped)
    assert "Dana prefers dark mode." in known
    body = wrapped["body"]
    if "system" in body:
        assert body.pop("system") == [{"type": "text", "text": known}]
    elif "instructions" in body:
        assert body.pop("instructions") == known
    else:
        assert body["messages"].pop(-2) == {"role": "system", "content": known}
    assert body == bare["body"]
    same = {"content-length", "host", "x-stainless-retry-count"}
    assert {n: v for n, v in wrapped["headers"].items() if n not in same} == {
        n: v for n, v in bare["headers"].items() if n not in same
    }


# -- what is kept, once ----------------------------------------------------------------------------------------------
@both
def test_a_client_that_resends_everything_stores_nothing_twice(vendor: str, memory: Memory) -> None:
    history: list[dict[str, Any]] = []
    expected = []
    with spoken(lambda request: say(f"Answer {len(request['body']['messages'])}.")) as endpoint:
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        for text in ("One.", "Two.", "Three.", "Three."):
            history.append(user(text))
            history.append(assistant(PLAIN[vendor](client, history)))
            expected += [("user", text), ("assistant", history[-1]["content"])]
    assert kept(memory) == expected


@both
def test_the_same_request_again_keeps_only_its_new_answer(vendor: str, memory: Memory) -> None:
    messages = [user("Tell me a joke."), assistant("A horse walks into a bar."), user("Another one.")]
    with spoken([say("First."), say("Second."), say("Third.")]) as endpoint:
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        for _ in range(2):
            PLAIN[vendor](client, messages)
        assert kept(memory) == [("user", "Another one."), ("assistant", "First."), ("assistant", "Second.")]
        again = [user("Another one."), assistant("First."), assistant("Second."), user("One more.")]
        PLAIN[vendor](client, again)
    assert kept(memory)[3:] == [("user", "One more."), ("assistant", "Third.")]


@both
def test_after_a_restart_the_stored_session_is_compared(vendor: str, tmp_path: Path) -> None:
    history = [user("One.")]
    with spoken([say("Answer one."), say("Answer two."), say("Another answer two.")]) as endpoint:
        for _ in range(3):
            with Memory.open(tmp_path / "wrap.db") as memory:
                answer = PLAIN[vendor](keepstone.wrap(client_of(vendor, endpoint), memory, session="chat"), history)
                if len(history) == 1:
                    history += [assistant(answer), user("Two.")]
                said = kept(memory)
    assert said == [
        ("user", "One."), ("assistant", "Answer one."), ("user", "Two."), ("assistant", "Answer two."),
        ("assistant", "Another answer two."),
    ]  # fmt: skip


@both
def test_a_client_that_sends_only_what_is_new_is_kept_whole(vendor: str, memory: Memory) -> None:
    with spoken([say("Fine."), say("Fine."), say("Well.")]) as endpoint:
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        for text in ("Yes.", "Yes.", "No."):
            PLAIN[vendor](client, [user(text)])
    said = [("user", "Yes."), ("assistant", "Fine.")]
    assert kept(memory) == [*said, *said, ("user", "No."), ("assistant", "Well.")]


@both
def test_only_the_words_of_users_and_assistants_are_kept(vendor: str, memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    image = {
        "openai": {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    }[vendor]
    content = [{"type": "text", "text": "Which mode is this?"}, image, {"type": "text", "text": "Do I prefer it?"}]
    with spoken([say("Yes, it is dark.")]) as endpoint:
        PLAIN[vendor](keepstone.wrap(client_of(vendor, endpoint), memory, session="chat"), [{"role": "user", "content": content}])
    assert "dark mode" in block(endpoint.requests[0])
    said = kept(memory)
    assert [role for role, _ in said] == ["user", "assistant"]
    assert said[0][1] == "Which mode is this?\nDo I prefer it?"
    assert "<memory" not in json.dumps(said)


def test_a_very_long_message_is_kept_cut_and_sent_whole(memory: Memory) -> None:
    text = "Lisbon " * 20_000
    with spoken([say("Long.")]) as endpoint:
        PLAIN["openai"](keepstone.wrap(client_of("openai", endpoint), memory, session="chat"), [user(text)])
    assert endpoint.requests[0]["body"]["messages"][-1]["content"] == text
    said = kept(memory)[0][1]
    assert said.startswith("Lisbon Lisbon")
    assert said.endswith("[cut]")


# -- tools -----------------------------------------------------------------------------------------------------------
def test_a_loop_of_chat_completions_has_one_context(memory: Memory) -> None:
    memory.remember("Dana lives in Porto.")
    messages: list[Any] = [user("What is the weather where Dana lives?")]
    with spoken([use("weather", {"city": "Porto"}, "Let me look.", id="use_1"), say("Sunny.")]) as endpoint:
        client = keepstone.wrap(client_of("openai", endpoint), memory, session="chat")
        answer = client.chat.completions.create(messages=messages, **CHAT).choices[0].message
        memory.remember("The weather where Dana lives is often good.")  # later knowledge does not change the prompt
        messages += [answer, {"role": "tool", "tool_call_id": "use_1", "content": "sun"}]
        assert client.chat.completions.create(messages=messages, **CHAT).choices[0].message.content == "Sunny."
    first, second = endpoint.requests
    assert block(first) == block(second) != ""
    assert second["body"]["messages"][:2] == first["body"]["messages"]
    assert [each["role"] for each in second["body"]["messages"]] == ["system", "user", "assistant", "tool"]
    assert kept(memory) == [
        ("user", "What is the weather where Dana lives?"), ("assistant", "Let me look."), ("assistant", "Sunny."),
    ]  # fmt: skip


@pytest.mark.parametrize("thread", [True, False])
def test_a_tool_runner_has_one_context(thread: bool, memory: Memory) -> None:
    from anthropic import beta_tool

    memory.remember("Dana lives in Porto.")

    @beta_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        memory.remember(f"The weather where Dana lives, in {city}, is often good.")
        return "sun"

    with spoken([use("weather", {"city": "Porto"}), use("weather", {"city": "Porto"}), say("Sunny.")]) as endpoint:
        client = keepstone.wrap(client_of("anthropic", endpoint), memory, session="chat")
        asked = [user("What is the weather where Dana lives?")]
        options = {} if thread else {"thread": False}
        runner = client.beta.messages.tool_runner(messages=asked, tools=[weather], **MESSAGES, **options)
        assert runner.until_done().content[0].text == "Sunny."
    assert len({block(request) for request in endpoint.requests}) == 1
    assert "Porto" in block(endpoint.requests[2])
    assert kept(memory) == [("user", "What is the weather where Dana lives?"), ("assistant", "Sunny.")]


def test_results_of_functions_in_responses_go_on_with_the_same_context(memory: Memory) -> None:
    memory.remember("Dana lives in Porto.")
    memory.remember("Dana drinks mint tea.")
    with spoken([use("weather", {"city": "Porto"}, id="use_1"), say("Sunny."), say("Tea.")]) as endpoint:
        client = keepstone.wrap(client_of("openai", endpoint), memory, session="chat")
        client.responses.create(input="What is the weather where Dana lives?", instructions="Be brief.", **CHAT)
        result = {"type": "function_call_output", "call_id": "use_1", "output": "sun"}
        client.responses.create(input=[result], previous_response_id="resp_1", instructions="Be brief.", **CHAT)
        client.responses.create(input="What does Dana drink?", previous_response_id="resp_1", **CHAT)
    first, second, _ = (request["body"]["instructions"] for request in endpoint.requests)
    assert first == second
    assert first.startswith("Be brief.\n\n<memory")
    assert [role for role, _ in kept(memory)] == ["user", "assistant", "user", "assistant"]


# -- where it stands -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]])
def test_a_system_prompt_stays_in_front(system: Any, memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    before = deepcopy(system)
    with spoken([say("Dark.")]) as endpoint:
        client = keepstone.wrap(client_of("anthropic", endpoint), memory)
        client.messages.create(messages=iter([user(ASKED)]), system=system, **MESSAGES)
    own, ours = endpoint.requests[0]["body"]["system"]
    assert system == before
    assert own == ({"type": "text", "text": system} if isinstance(system, str) else system[0])
    assert ours["text"].startswith("<memory")
    assert endpoint.requests[0]["body"]["messages"] == [user(ASKED)]


def test_developers_messages_are_joined_by_one_of_their_role(memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    with spoken([say("Dark.")]) as endpoint:
        client = keepstone.wrap(client_of("openai", endpoint), memory)
        PLAIN["openai"](client, [{"role": "developer", "content": "Be brief."}, user("Hi."), assistant("Hello."), user(ASKED)])
    roles = [each["role"] for each in endpoint.requests[0]["body"]["messages"]]
    assert roles == ["developer", "user", "assistant", "developer", "user"]


@pytest.mark.parametrize("name", ["chat", "responses", "claude"])
@pytest.mark.parametrize("parts", [False, True])
def test_it_may_stand_before_the_users_words(name: str, parts: bool, memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    vendor, way = WAYS[name]
    kind = "input_text" if name == "responses" else "text"
    content: Any = [{"type": kind, "text": ASKED}] if parts else ASKED
    with spoken([say("Dark.")]) as endpoint:
        way(keepstone.wrap(client_of(vendor, endpoint), memory, session="chat", place="user"), [user(content)])
    body = endpoint.requests[0]["body"]
    sent = (body.get("messages") or body["input"])[0]["content"]
    known, asked = (sent[0]["text"], sent[1]["text"]) if parts else sent.split("\n\n")
    assert known.startswith("<memory")
    assert asked == ASKED
    assert "system" not in body
    assert kept(memory) == [("user", ASKED), ("assistant", "Dark.")]


def test_a_result_of_a_tool_stays_the_first_block(memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    result = {"type": "tool_result", "tool_use_id": "use_1", "content": "ok"}
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "use_1", "name": "clock", "input": {}}]}
    last = {"role": "user", "content": [result, {"type": "text", "text": ASKED}]}
    with spoken([say("Dark.")]) as endpoint:
        client = keepstone.wrap(client_of("anthropic", endpoint), memory, session="chat", place="user")
        PLAIN["anthropic"](client, [user("Hi."), called, last])
    sent = endpoint.requests[0]["body"]["messages"][2]["content"]
    assert [each["type"] for each in sent] == ["tool_result", "text", "text"]
    assert sent[1]["text"].startswith("<memory")
    assert kept(memory) == [("user", ASKED), ("assistant", "Dark.")]


def test_before_the_users_words_nothing_is_added_where_the_server_holds_them(memory: Memory) -> None:
    memory.remember("Dana lives in Porto.")
    result = {"type": "function_call_output", "call_id": "use_1", "output": "sun"}
    with spoken([use("weather", {}, id="use_1"), say("Sunny.")]) as endpoint:
        client = keepstone.wrap(client_of("openai", endpoint), memory, place="user")
        client.responses.create(input="What is the weather where Dana lives?", **CHAT)
        client.responses.create(input=[result], previous_response_id="resp_1", **CHAT)
    first, second = (request["body"] for request in endpoint.requests)
    assert first["input"].startswith("<memory")
    assert second == {"model": "gpt-test", "input": [result], "previous_response_id": "resp_1"}


@both
def test_an_answer_that_is_begun_by_the_caller_hides_no_question(vendor: str, memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    with spoken([say("dark mode.")]) as endpoint:
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        PLAIN[vendor](client, [user(ASKED), assistant("You prefer")])
    assert "Dana prefers dark mode." in block(endpoint.requests[0])
    assert endpoint.requests[0]["body"]["messages"][-1] == assistant("You prefer")
    assert kept(memory) == [("user", ASKED), ("assistant", "dark mode.")]


def test_nothing_is_kept_or_added_where_it_is_not_wanted(memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    with spoken([say("Dark."), say("Dark.")]) as endpoint:
        PLAIN["openai"](keepstone.wrap(client_of("openai", endpoint), memory, session="a", save=False), [user(ASKED)])
        PLAIN["openai"](keepstone.wrap(client_of("openai", endpoint), memory, session="b", max_tokens=0), [user(ASKED)])
    assert [bool(block(request)) for request in endpoint.requests] == [True, False]
    assert kept(memory, "a") == []
    assert kept(memory, "b") == [("user", ASKED), ("assistant", "Dark.")]


def test_parsed_answers_are_parsed_and_kept(memory: Memory) -> None:
    answer = '{"text": "dark"}'
    with spoken([say(answer), say(answer), say(answer)]) as endpoint:
        one = keepstone.wrap(client_of("openai", endpoint), memory, session="chat")
        other = keepstone.wrap(client_of("anthropic", endpoint), memory, session="claude")
        parsed = one.chat.completions.parse(messages=[user(ASKED)], response_format=Reply, **CHAT).choices[0].message.parsed
        assert parsed == Reply(text="dark")
        assert one.responses.parse(input="And now?", text_format=Reply, **CHAT).output_parsed == Reply(text="dark")
        assert other.messages.parse(messages=[user(ASKED)], output_format=Reply, **MESSAGES).parsed_output == Reply(text="dark")
    assert kept(memory) == [("user", ASKED), ("assistant", answer), ("user", "And now?"), ("assistant", answer)]
    assert kept(memory, "claude") == [("user", ASKED), ("assistant", answer)]
