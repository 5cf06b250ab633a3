"""`keepstone chat` and `keepstone sessions`: through pipes, on a terminal, with a model behind a local endpoint and without."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.agent import strategies
from keepstone.cli import chat as chat_commands
from keepstone.conversation.conversation import Conversations
from tests.cli.support import Cli, process
from tests.models.endpoint import Endpoint, Request, Step, cut, said, say, status, use

DANA = "My name is Dana and I prefer dark mode."


NO_FACTS = say(json.dumps({"facts": []}))


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEEPSTONE_MODEL", "OPENAI_API_KEY", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def spoken(result: Any) -> list[Any]:
    return [json.loads(line) for line in result.out.splitlines()]


def learning(request: Request) -> bool:
    """Whether it is the extraction that asks, and not the chat."""
    return "response_format" in request["body"]


def chatting(answer: Step | Callable[[Request], Step]) -> Callable[[Request], Step]:
    """A script that answers the chat, and finds no facts."""

    def step(request: Request) -> Step:
        if learning(request):
            return NO_FACTS
        return answer(request) if callable(answer) else answer

    return step


def asked(endpoint: Endpoint) -> list[Request]:
    return [request for request in endpoint.requests if not learning(request)]


# -- without a model ----------------------------------------------------------------------------------------------
def test_without_a_model_it_notes_and_remembers(cli: Cli) -> None:
    first = cli("chat", "--user", "dana", piped=f"{DANA}\n\n".encode())
    assert first.code == 0
    facts_noted = [line.split("  ")[:2] for line in first.out.splitlines()]
    assert facts_noted == [["noted", "The user's name is Dana."], ["noted", "The user prefers dark mode."]]
    assert first.err.startswith("note: No model is set")
    assert "--model" in first.err
    assert first.err.count("\n") == 1
    later = cli("chat", "--user", "dana", "--session", "later", piped=b"Which theme do I like?\nTell me about glaciers")
    remembered, no_hits = later.out.splitlines()
    assert remembered.startswith("remembered  The user prefers dark mode.")
    assert no_hits == "Stored. No memory matches."
    assert cli("sessions", "--user", "dana", "--json").json["sessions"][0]["name"] == "later"


def test_a_question_does_not_answer_itself(cli: Cli) -> None:
    asked_twice = cli("chat", "--json", piped=b"Where is the blue key?\nWhere is the blue key?\n")
    assert [each["hits"] for each in spoken(asked_twice)] == [[], []]
    told = cli("chat", "--json", piped=b"The blue key hangs behind the kitchen door.\nWhere is the blue key?\n")
    assert [hit["content"] for hit in spoken(told)[1]["hits"]] == ["The blue key hangs behind the kitchen door."]


def test_as_json_each_line_is_answered_by_a_document(cli: Cli) -> None:
    result = cli("chat", "--json", "--session", "s", piped=f"{DANA}\nWhat is my name?\n".encode())
    first, second = spoken(result)
    assert (result.code, result.err) == (0, "")
    assert (first["message"], first["session"], first["text"], first["hits"]) == (DANA, "s", None, [])
    assert [each["content"] for each in first["noted"]] == ["The user's name is Dana.", "The user prefers dark mode."]
    assert second["hits"][0]["content"] == "The user's name is Dana."
    assert second["noted"] == []


def test_the_session_is_today_or_named_or_the_last_one(cli: Cli) -> None:
    (today,) = spoken(cli("chat", "--json", piped=b"one\n"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", today["session"])
    assert spoken(cli("chat", "--json", "--session", "work", piped=b"two\n"))[0]["session"] == "work"
    assert spoken(cli("chat", "--json", "--resume", piped=b"three\n"))[0]["session"] == "work"
    assert spoken(cli("chat", "--json", piped=b"four\n"))[0]["session"] in (today["session"], *_around(today["session"]))
    nobody = spoken(cli("chat", "--json", "--resume", "--user", "nobody", piped=b"five\n"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", nobody[0]["session"])


def _around(day: str) -> list[str]:
    """The day after: a test may run over midnight."""
    from datetime import date, timedelta

    return [(date.fromisoformat(day) + timedelta(days=1)).isoformat()]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--strategy", "guess"), 2),
        (("--session", "a", "--resume"), 2),
        (("--session", " "), 2),
        (("--model", "nobody:x"), 5),
        (("--model", "justaname"), 5),
        (("--db", "missing/x.db"), 5),
    ],
)
def test_bad_options(cli: Cli, arguments: tuple[str, ...], code: int) -> None:
    result = cli("chat", *arguments, piped=b"hello\n")
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: ")
    assert cli("chat", *arguments, "--json", piped=b"hello\n").error["message"]


@pytest.mark.parametrize("piped", [b"", b"\n\n  \n", b"/quit\nnot read\n"])
def test_nothing_to_say_is_no_error(cli: Cli, piped: bytes) -> None:
    result = cli("chat", piped=piped)
    assert (result.code, result.out) == (0, "")
    assert cli("list", "--json").json["records"] == []


def test_lines_that_are_no_text_are_said_and_the_chat_goes_on(cli: Cli) -> None:
    result = cli("chat", "--json", piped=b"\xff\xfe\n" + b"x" * (9 * 1024 * 1024 + 5) + b"\nMy name is Dana.\n")
    assert [each["message"] for each in spoken(result)] == ["My name is Dana."]
    problems = [json.loads(line)["error"]["type"] for line in result.err.splitlines()]
    assert (result.code, problems) == (2, ["ValidationError", "TooLarge"])


def test_what_nobody_foresaw_is_one_line_and_the_chat_goes_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Memory, "recall", broken)
    result = cli("chat", piped=b"one\n/model\n")
    assert "error: unexpected KeyError: 'oops'" in result.err
    assert result.out == "No model is set; rules extract facts.\n"
    assert result.code == 1


# -- commands of the chat -----------------------------------------------------------------------------------------
def test_commands_for_people(cli: Cli) -> None:
    cli("chat", "--session", "monday", piped=DANA.encode())
    lines = cli("chat", "--session", "tuesday", piped=b"/help\n").out.splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {
        "/help", "/memories", "/why", "/forget", "/session", "/model", "/quit"
    }  # fmt: skip
    memories = cli("chat", piped=b"/memories\n").out.splitlines()
    assert {line.split("  ")[0] for line in memories} == {"The user's name is Dana.", "The user prefers dark mode."}
    assert "prefers dark mode" in cli("chat", piped=b"/memories dark theme\n").out
    assert "matches 'quantum'" in cli("chat", piped=b"/memories quantum\n").out
    assert "monday" in cli("chat", "--session", "tuesday", piped=b"/session\n").out
    assert cli("chat", "--session", "tuesday", piped=b"/session monday\n").out == "session monday (1 message)\n"
    why = cli("chat", piped=b"Which theme do I like?\n/why\n").out
    assert "in every prompt: its tag is preference" in why
    assert "similarity" in why


def test_commands_as_json(cli: Cli) -> None:
    cli("chat", "--session", "monday", piped=DANA.encode())
    piped = b"/help\n/memories\n/memories theme\nWhich theme do I like?\n/why\n/session\n/session new\n/model\n"
    shown = spoken(cli("chat", "--session", "monday", "--json", piped=piped))
    commands = [each.get("command") for each in shown]
    assert commands == ["help", "memories", "memories", None, "why", "session", "session", "model"]
    assert set(shown[0]) == {"command", "commands"}
    assert [each["content"] for each in shown[1]["records"]] == ["The user prefers dark mode.", "The user's name is Dana."]
    assert shown[2]["hits"]
    first = shown[4]["memories"][0]
    assert (shown[4]["question"], first["content"]) == ("Which theme do I like?", "The user prefers dark mode.")
    assert first["explanation"]["reasons"]
    assert [each["name"] for each in shown[5]["sessions"]] == ["monday"]
    assert (shown[6]["session"], shown[6]["messages"]) == ("new", 0)
    assert (shown[7]["model"], shown[7]["strategy"]) == (None, None)


@pytest.mark.parametrize("line", ["/nonsense", "/why", "/forget", "/forget m_1", "/model openai:x", "/session \x01"])
def test_a_command_that_cannot_be_done_is_said(cli: Cli, line: str) -> None:
    result = cli("chat", piped=f"{line}\n/model\n".encode())
    assert (result.code, result.out) == (2, "No model is set; rules extract facts.\n")
    assert result.err.splitlines()[1].startswith("error: ")


def test_two_slashes_are_a_message(cli: Cli) -> None:
    assert spoken(cli("chat", "--json", piped=b"//etc/hosts is a file\n"))[0]["message"] == "/etc/hosts is a file"


# -- with a model -------------------------------------------------------------------------------------------------
def test_answers_come_alone_through_a_pipe(tmp_path: Path) -> None:
    with Endpoint(chatting(lambda request: say(f"You said {said(request).splitlines()[-1]!r}."))) as endpoint:
        done = process("chat", "--model", f"openai:m@{endpoint.openai_url}", cwd=tmp_path, piped=b"one\ntwo\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said 'one'.\nYou said 'two'.\n", "")


def test_a_reply_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("chat", piped=DANA.encode())

    def answer(request: Request) -> Step:
        if request["body"]["messages"][-1]["role"] == "tool":
            return say("Noted.", usage=(100, 7, 40))
        return use("write_memory", {"tag": "preference", "content": "Dana drinks green tea."})

    with Endpoint(chatting(answer)) as endpoint:
        monkeypatch.setenv("KEEPSTONE_MODEL", f"openai:m@{endpoint.openai_url}")
        result = cli("chat", "--session", "s", "--json", piped=b"I drink green tea.\n/model\n")
    reply, model = spoken(result)
    assert (result.code, reply["message"], reply["text"], reply["session"]) == (0, "I drink green tea.", "Noted.", "s")
    assert [(step["tool"], step["failed"]) for step in reply["steps"]] == [("write_memory", False)]
    assert (reply["usage"]["input_tokens"], reply["usage"]["cached_tokens"], reply["complete"]) == (110, 40, True)
    assert reply["recalled"]
    assert (model["model"], model["strategy"]) == (f"openai:m@{endpoint.openai_url}", "tools")
    assert "Dana drinks green tea." in [each["content"] for each in cli("list", "--json").json["records"]]


@pytest.mark.parametrize("strategy", chat_commands.STRATEGIES)
def test_every_strategy_tells_the_model_what_is_known(cli: Cli, strategy: str) -> None:
    cli("chat", "--session", "monday", piped=DANA.encode())
    with Endpoint(chatting(say("Dark, as you like it."))) as endpoint:
        model = f"openai:m@{endpoint.openai_url}"
        result = cli("chat", "--model", model, "--strategy", strategy, piped=b"Which theme do I want?\n")
    assert result.out == "Dark, as you like it.\n"
    assert "dark mode" in json.dumps(asked(endpoint)[0]["body"]["messages"])


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_model_that_fails_is_one_line_and_the_chat_goes_on(cli: Cli, options: tuple[str, ...]) -> None:
    def answer(request: Request) -> Step:
        return status(400) if "fail" in said(request) else say("Here again.")

    with Endpoint(chatting(answer)) as endpoint:
        result = cli("chat", "--model", f"openai:m@{endpoint.openai_url}", *options, piped=b"please fail\ngo on\n")
    assert result.code == 7
    assert result.err.count("\n") == 1
    assert "refused the request" in result.err
    assert (spoken(result)[0]["text"] if options else result.out.strip()) == "Here again."
    contents = [each["content"] for each in cli("list", "--json").json["records"]]
    assert {"please fail", "go on", "Here again."} <= set(contents)


def test_an_answer_that_breaks_off_is_said(cli: Cli) -> None:
    with Endpoint(chatting(cut("The answer is"))) as endpoint:
        result = cli("chat", "--model", f"openai:m@{endpoint.openai_url}", piped=b"well?\n")
    assert (result.code, result.out.strip()) == (7, "The answer is")
    assert "broke off" in result.err


def test_nobody_there_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_MODEL_RETRIES", "0")
    with Endpoint([]) as endpoint:
        gone = endpoint.openai_url
    result = cli("chat", "--model", f"openai:m@{gone}", piped=b"hello?\n")
    assert (result.code, result.out) == (7, "")
    assert "cannot be reached" in result.err
    assert "left to learn from" in result.err
    assert len(cli("jobs", "--json").json["jobs"]) == 1


def test_none_means_no_model_whatever_the_environment_says(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_MODEL", "nobody:x")
    assert cli("chat", piped=b"hello\n").code == 5
    assert cli("chat", "--model", "none", piped=b"hello\n").code == 0
    assert cli("recall", "hello").code == 0


def test_the_last_words_are_learned_from_before_it_leaves(cli: Cli) -> None:
    fact = {"turns": [1], "content": "The user plays the cello.", "type": "profile", "key": None, "confidence": 0.95}

    def answer(request: Request) -> Step:
        return say(json.dumps({"facts": [fact]})) if learning(request) else say("How nice.")

    with Endpoint(answer) as endpoint:
        cli("chat", "--model", f"openai:m@{endpoint.openai_url}", piped=b"I play the cello.\n")
        assert sum(map(learning, endpoint.requests)) == 1
    assert cli("jobs", "--json").json["jobs"] == []
    assert [each["content"] for each in cli("list", "--kind", "fact", "--json").json["records"]] == ["The user plays the cello."]


def test_text_of_a_model_cannot_steer_the_terminal(cli: Cli) -> None:
    with Endpoint(chatting(say("red \x1b[31m alert\x07"))) as endpoint:
        result = cli("chat", "--model", f"openai:m@{endpoint.openai_url}", piped=b"hello\n")
    assert result.out == "red \\x1b[31m alert\\x07\n"


def test_the_names_are_those_of_the_agent() -> None:
    assert chat_commands.STRATEGIES == strategies.NAMES


# -- sessions -----------------------------------------------------------------------------------------------------
def test_sessions(cli: Cli, tmp_path: Path) -> None:
    assert "There are no sessions yet" in cli("sessions").out
    assert list(tmp_path.iterdir()) == []
    cli("chat", "--session", "monday", piped=b"one\ntwo\n")
    cli("chat", "--session", "tuesday", piped=b"three\n")
    names = [line.split()[0] for line in cli("sessions").out.splitlines()]
    assert names == ["tuesday", "monday"]
    (first,) = cli("sessions", "--limit", "1", "--json").json["sessions"]
    assert (first["name"], first["messages"]) == ("tuesday", 1)
    assert cli("sessions", "--limit", "0").code == 2
    offered = inspect.signature(chat_commands.sessions).parameters
    assert offered["limit"].default == inspect.signature(Conversations.list).parameters["limit"].default
