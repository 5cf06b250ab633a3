"""`keepstone chat` on a terminal: a banner, a prompt, streaming, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from keepstone import Memory
from keepstone.cli.chat_terminal import AnswerStream
from tests.cli.support import Terminal
from tests.models.endpoint import Endpoint, Request, Step, said, say, slow, status, use

DANA = "My name is Dana and I prefer dark mode."


NO_FACTS = say(json.dumps({"facts": []}))


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEEPSTONE_MODEL", "OPENAI_API_KEY", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


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


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for each in opened:
        each.close()


def test_a_terminal_without_a_model(tmp_path: Path, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(tmp_path, "chat", "--user", "dana"))
    banner = terminal.until("> ")
    for part in ("keepstone.db", "user dana", "session ", "(new)", "No model is set", "--model", "/help", "Ctrl-D"):
        assert part in banner
    terminal.say(DANA)
    assert "noted  The user's name is Dana." in terminal.until("> ")
    terminal.type("half a line")
    terminal.until("half a line")
    terminal.until("Press Ctrl-D or type /quit to leave.", interrupt=True)
    terminal.until("> ")
    terminal.say("/nonsense")
    assert "error: /nonsense is no command" in terminal.until("> ")
    assert terminal.leave() == 0
    assert "\x1b[" in terminal.raw


def test_forgetting_asks_and_takes_the_message_along(tmp_path: Path, terminals: list[Terminal]) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.conversation("s").add("user", "My account number is KX-20417.")
        (fact,) = memory.list(kind="fact")
    terminals.append(terminal := Terminal(tmp_path, "chat"))
    terminal.until("> ")
    terminal.say(f"/forget {fact.id}")
    assert terminal.until("[y/N]").count("will be erased") == 2
    terminal.say("n")
    assert "Nothing was erased." in terminal.until("> ")
    terminal.say("/forget account number")
    terminal.until("Which?")
    terminal.say("")
    assert "Nothing was erased." in terminal.until("> ")
    terminal.say("/forget account number")
    terminal.until("none: ")
    terminal.until("Nothing was erased.", interrupt=True)
    terminal.until("> ")
    terminal.say("/forget account number")
    terminal.until("Which?")
    terminal.say("1")
    terminal.until("[y/N]")
    terminal.say("y")
    assert "forgotten  2 records" in terminal.until("> ")
    terminal.say("/forget zebra crossing")
    assert "error: no memory matches" in terminal.until("> ")
    assert terminal.leave() == 0
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert len(memory.list()) == 0


def test_a_terminal_with_a_model(tmp_path: Path, terminals: list[Terminal]) -> None:
    def answer(request: Request) -> Step:
        if "fail" in said(request):
            return status(400)
        if request["body"]["messages"][-1]["role"] == "tool":
            return say("Tea it is.", usage=(1200, 9, 1000))
        return use("write_memory", {"tag": "preference", "content": "Dana drinks green tea."})

    with Endpoint(chatting(answer)) as endpoint:
        terminals.append(terminal := Terminal(tmp_path, "chat", "--model", f"openai:m@{endpoint.openai_url}"))
        assert f"openai:m@{endpoint.openai_url} answers (strategy tools)." in terminal.until("\r\n\r\n").replace("\r\n", " ")
        terminal.until("> ")
        terminal.say("I drink green tea.")
        shown = terminal.until("> ")
        assert "Tea it is.\r\nnoted  Dana drinks green tea.\r\n" in shown
        assert "1,210 tokens in (1,000 cached), 14 out" in shown
        terminal.say("please fail")
        assert "error: openai:m@" in terminal.until("> ")
        terminal.say("/memories")
        assert "Dana drinks green tea.  preference" in terminal.until("> ")
        assert terminal.leave() == 0


def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(tmp_path: Path, terminals: list[Terminal]) -> None:
    def answer(request: Request) -> Step:
        return slow() if "wait" in said(request) else say("Here again.")

    with Endpoint(chatting(answer)) as endpoint:
        terminals.append(terminal := Terminal(tmp_path, "chat", "--model", f"openai:m@{endpoint.openai_url}"))
        terminal.until("> ")
        terminal.say("wait for it")
        terminal.until("thinking")
        terminal.until("(stopped)", interrupt=True)
        terminal.until("> ")
        terminal.say("are you there?")
        assert "Here again." in terminal.until("> ")
        assert terminal.leave() == 0


class Stalling(BaseHTTPRequestHandler):
    """Begins to answer the first request and never ends; answers all others."""

    protocol_version = "HTTP/1.1"
    bodies: ClassVar[list[Any]] = []
    gone: ClassVar[threading.Event]

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        first = len(self.bodies) == 1
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        for delta, stop in [({"content": "Once upon a " if first else "The end."}, None), ({}, "stop")][: 1 if first else 2]:
            choices = [{"index": 0, "delta": delta, "finish_reason": stop}]
            self.wfile.write(f"data: {json.dumps({**chunk, 'choices': choices})}\n\n".encode())
        if first:
            self.gone.wait(60)
        self.close_connection = True


def test_what_was_read_of_a_stopped_answer_is_kept(tmp_path: Path, terminals: list[Terminal]) -> None:
    Stalling.bodies, Stalling.gone = [], threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = f"openai:m@http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        terminals.append(terminal := Terminal(tmp_path, "chat", "--model", model, KEEPSTONE_EXTRACT="false"))
        terminal.until("> ")
        terminal.say("Tell me a story.")
        terminal.until("Once upon ")
        terminal.until("(stopped)", interrupt=True)
        terminal.until("> ")
        terminal.say("Go on.")
        terminal.until("The end.")
        terminal.until("> ")
        assert terminal.leave() == 0
    finally:
        Stalling.gone.set()
        server.shutdown()
        server.server_close()
    talked = [(each["role"], each["content"]) for each in Stalling.bodies[-1]["messages"] if each["role"] != "system"]
    assert talked == [("user", "Tell me a story."), ("assistant", "Once upon a "), ("user", "Go on.")]


def test_leaving_waits_no_longer_than_one_wants(tmp_path: Path, terminals: list[Terminal]) -> None:
    with Endpoint(lambda request: slow() if learning(request) else say("How nice.")) as endpoint:
        terminals.append(terminal := Terminal(tmp_path, "chat", "--model", f"openai:m@{endpoint.openai_url}"))
        terminal.until("> ")
        terminal.say("I play the cello.")
        terminal.until("How nice.")
        terminal.until("> ")
        terminal.type("\x04")
        terminal.until("Ctrl-C postpones it.")
        terminal.until("1 job left to learn from", interrupt=True)
        assert terminal.process.wait(60) == 0
    assert "Traceback" not in terminal.raw
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert len(memory.jobs.list()) == 1


def test_no_colour_where_none_is_wanted(tmp_path: Path, terminals: list[Terminal]) -> None:
    with Endpoint(chatting(say("Plain."))) as endpoint:
        model = f"openai:m@{endpoint.openai_url}"
        terminals.append(terminal := Terminal(tmp_path, "chat", "--model", model, NO_COLOR="1"))
        terminal.until("> ")
        terminal.say("hello")
        terminal.until("Plain.")
        terminal.until("> ")
        assert terminal.leave() == 0
    assert re.search(r"\x1b\[[0-9;]*m", terminal.raw) is None
    assert "thinking" not in terminal.raw


class Screen:
    """A terminal of so many columns that keeps what is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))
        self.text = ""
        self.encoding = "utf-8"

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...

    def fileno(self) -> int:
        return 1

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_answers_are_wrapped_between_words_however_they_come(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = "\n\nThe quick brown fox jumps over\r\nthe lazy dog and runs\n\n" + "x" * 45 + " end"
    screen: Any = Screen(monkeypatch, 20)
    with AnswerStream(screen) as stream:
        for at in range(0, len(text), size):
            stream.write(text[at : at + size])
    lines = screen.text.split("\n")
    assert stream.text == text
    assert lines[:6] == ["The quick brown fox ", "jumps over", "the lazy dog and ", "runs", "", "x" * 45 + " end"]
    assert lines[6:] == [""]


def test_a_line_that_is_exactly_full_leaves_no_space_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    screen: Any = Screen(monkeypatch, 20)
    with AnswerStream(screen) as stream:
        stream.write("abcdefghi abcdefghij next")
    assert screen.text == "abcdefghi abcdefghij\nnext\n"


def test_words_without_spaces_do_not_wait_for_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen: Any = Screen(monkeypatch, 80)
    with AnswerStream(screen) as stream:
        stream.write("日本語の文章には" * 2)
        assert screen.text == "日本語の文章には" * 2
