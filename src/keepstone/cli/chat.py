"""chat: a conversation with a model that remembers, or with the memory alone; and sessions.

On a terminal a chat has a banner, a prompt and colours. Without one, each input line is a message, and standard output holds
only the answers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keepstone.cli import chat_terminal as view
from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.chat_commands import COMMANDS, KINDS
from keepstone.cli.exit_codes import OK, code_for
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import get_records
from keepstone.cli.output import Output, err, out, write_json
from keepstone.errors import ConfigurationError, KeepstoneError, ModelError, ValidationError
from keepstone.ports.serialize import document
from keepstone.types import MESSAGE, Hit, Record

if TYPE_CHECKING:
    from keepstone.agent import MemoryAgent, Reply
    from keepstone.memory import Memory

app = typer.Typer()
STRATEGIES = ("tools", "buffer", "summary", "vector")
INSTRUCTIONS = "You talk with the user in a terminal: plain text in short paragraphs, no Markdown."
LEARN_SECONDS = 15.0  # maximum time for learning at the end of a chat
_MAX_QUERY_CHARS = 4000


@o.command(app, "chat")
def chat(
    call: Invocation,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="The session; default: today's date.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the most recent session.")] = False,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="How memory reaches the model: tools, buffer, summary or vector.")
    ] = "tools",
    model: o.Model = None,
) -> int:
    """Chat with a model that remembers.

    Without a model, messages are stored and matching memories are shown. Each line of standard input is a message; with --json
    every answer is a JSON document on one line. /help lists the commands of a chat.
    """
    if strategy not in STRATEGIES:
        raise ValidationError(f"--strategy is {strategy!r:.40}: use {', '.join(STRATEGIES)}.")
    if session is not None and resume:
        raise ValidationError("--session and --resume exclude each other: use one of them.")
    named = _choose_model(call, model)
    with call.open(model=named) as memory:
        agent = None
        if named is not None:
            from keepstone.agent import MemoryAgent

            agent = MemoryAgent(memory, named, strategy=strategy, instructions=INSTRUCTIONS)
        last = memory.conversation.list(limit=1) if resume else ()
        name = session if session is not None else last[0].name if last else f"{datetime.now().astimezone():%Y-%m-%d}"
        running = ChatSession(call, memory, agent, name, named, strategy)
        running.print_banner()
        running.run()
        running.learn_remaining()
    running.leave()
    return running.code


def _choose_model(call: Invocation, model: str | None) -> str | None:
    """The model that answers. A chat over HTTP has none."""
    here = replace(call, url=None).model(model)
    if call.url is not None and here is not None:
        raise ConfigurationError(
            f"a chat with {here} needs a store, and KEEPSTONE_URL names a server: name a store with --db, or chat without a "
            "model (--model none)."
        )
    return here


class ChatSession:
    """One chat: its memory, agent, session and last question."""

    def __init__(
        self, call: Invocation, memory: Memory, agent: MemoryAgent | None, session: str, model: str | None, strategy: str
    ) -> None:
        self.call = call
        self.memory = memory
        self.agent = agent
        self.model = model
        self.strategy = strategy
        self.out = out()
        self.lines = view.Lines(quiet=call.json)
        self.question: str | None = None
        self.recalled_ids: tuple[str, ...] = ()  # ids of the memories in the last prompt
        self.code = OK
        self._learning: threading.Thread | None = None
        self._model_failed = False
        self.enter(session)

    def enter(self, session: str) -> None:
        """Switch to a session."""
        self.session = self.memory.conversation(session).session  # normalised; raises for an invalid name

    def answer(self, command: str, about: Mapping[str, Any], shown: Callable[[Output], None]) -> None:
        """Print the result of a chat command."""
        if self.call.json:
            write_json({"command": command, **about}, sys.stdout)
        else:
            shown(self.out)

    # -- the loop -------------------------------------------------------------------------------------------------
    def print_banner(self) -> None:
        """Print the banner on a terminal."""
        if self.lines.asks:
            count = len(self.memory.conversation(self.session))
            session = f"session {self.session} ({render.plural(count, 'message') if count else 'new'})"
            user = [f"user {self.call.user}"] if self.call.user else []
            answers = f"{self.model} answers (strategy {self.strategy})." if self.model else None
            view.banner(self.out, [self.call.shown, *user, session], answers)
        elif self.agent is None and not self.call.json:
            err().line((f"note: {view.OFFLINE}", "dim"))

    def run(self) -> None:
        """Read and answer lines until the input ends or the user quits."""
        while True:
            try:
                line = self.lines.next()
                if line is None or line.strip() in ("/quit", "/exit", "/q"):
                    return
                if line.strip():
                    self._handle_line(line.strip())
            except KeyboardInterrupt:
                if not self.lines.asks:
                    raise
                self.out.line()
                self.out.line(("Press Ctrl-D or type /quit to leave.", "dim"))
            except BrokenPipeError:
                raise
            except Exception as error:
                self._report_error(error)
            sys.stdout.flush()

    def _handle_line(self, line: str) -> None:
        if line.startswith("/") and not line.startswith("//"):
            name, _, words = line[1:].partition(" ")
            if name.lower() not in COMMANDS:
                raise ValidationError(f"/{name:.40} is no command: see /help. Begin a message that starts with a slash with two.")
            COMMANDS[name.lower()][1](self, words.strip())
        else:
            text = line[1:] if line.startswith("//") else line
            self.question, self.recalled_ids, self._model_failed = text, (), False
            if self.agent is None:
                self._answer_from_memory(text)
            else:
                self._answer_with_model(self.agent, text)
        if self.lines.asks:
            self.out.line()

    def _report_error(self, error: Exception) -> None:
        """Print the error on one line and continue. Without a terminal, the exit code reports it too."""
        if not isinstance(error, KeepstoneError) and os.environ.get("KEEPSTONE_DEBUG"):
            raise error
        self._model_failed = isinstance(error, ModelError)
        known = isinstance(error, KeepstoneError)
        message = str(error) if known else f"unexpected {type(error).__name__}: {error} (set KEEPSTONE_DEBUG=1 for a traceback)"
        if not self.lines.asks:
            self.code = code_for(error) if isinstance(error, KeepstoneError) else 1
        if self.call.json:
            write_json({"error": {"type": type(error).__name__, "message": message}}, sys.stderr)
        else:
            err().line(("error: ", "bold red"), message)
        if self.lines.asks:
            self.out.line()

    # -- answers --------------------------------------------------------------------------------------------------
    def _answer_with_model(self, agent: MemoryAgent, text: str) -> None:
        if self.call.json:
            whole = agent.chat(text, session=self.session)
            self.recalled_ids = whole.recalled
            write_json({"message": text, **document(whole)}, sys.stdout)
            return
        reply = self._stream_answer(agent, text)
        if isinstance(reply, str):
            self.out.line(("(stopped)", "dim"))
            if reply.strip():  # the next prompt contains what the user has read
                self.memory.conversation(self.session).add("assistant", reply, stopped=True)
            return
        self.recalled_ids = reply.recalled
        if self.lines.asks:
            view.render_reply(self.out, reply)

    def _stream_answer(self, agent: MemoryAgent, text: str) -> Reply | str:
        """Print the answer as it arrives; returns the reply, or the text so far if Ctrl-C stopped it."""
        stream = agent.stream(text, session=self.session)
        with view.AnswerStream(sys.stdout) as printed:
            try:
                for piece in stream:
                    printed.write(piece)
            except KeyboardInterrupt:
                if not self.lines.asks:
                    raise
                return printed.text
        if stream.reply is None:
            raise ModelError("the model ended without an answer: ask again.")
        return stream.reply

    def _answer_from_memory(self, text: str) -> None:
        """Store a message, show the facts learned from it and the matching memories: facts, or messages if there are none."""
        fitting = self._find_matches(text)  # before the message itself is stored
        receipt = self.memory.conversation(self.session).add("user", text)
        facts = get_records(self.memory, receipt.learned)
        asked = "?" in text or not facts
        hits = fitting if asked else []
        self.recalled_ids = tuple(hit.id for hit in hits)
        if self.call.json:
            about = {"message": text, "session": self.session, "text": None, "id": receipt.id}
            write_json({**about, "noted": document(facts), "hits": document(hits)}, sys.stdout)
        else:
            view.render_matches(self.out, facts, hits, asked)

    def _find_matches(self, text: str) -> list[Hit]:
        try:
            facts = self.memory.recall(text[:_MAX_QUERY_CHARS], limit=5, kinds=KINDS)
            messages = () if facts else self.memory.recall(text[:_MAX_QUERY_CHARS], limit=10, kinds=[MESSAGE])
        except KeepstoneError as error:
            self._report_error(error)
            return []
        return [*facts, *(hit for hit in messages if not _asks(hit.record))][:5]

    # -- leaving --------------------------------------------------------------------------------------------------
    def learn_remaining(self) -> None:
        """Learn from the last messages for a limited time; the rest stays in the queue."""
        from keepstone.settings import Settings

        if self.agent is None or not Settings.load().worker or not self.memory.jobs.list(state="waiting", limit=1):
            return
        if not self._model_failed:  # it would fail again
            self._learn()
        left = self.memory.jobs.list(limit=1000)
        if left and not self.call.json:
            jobs = f"{render.plural(len(left), 'job')} left"
            err().line((f"note: {jobs} to learn from; the next chat continues, and 'keepstone jobs' lists them.", "dim"))

    def leave(self) -> None:
        """End the process at once where a thread still waits for the model: Python may crash when it takes such a thread down."""
        if self._learning is not None and self._learning.is_alive():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)

    def _learn(self) -> None:
        working = self._learning = threading.Thread(target=self._run_jobs, daemon=True)
        try:
            if self.lines.asks:
                self.out.line(("Learning from the conversation; Ctrl-C postpones it.", "dim"))
            working.start()
            working.join(LEARN_SECONDS)
        except KeyboardInterrupt:
            if not self.lines.asks:
                raise
            self.out.line()

    def _run_jobs(self) -> None:
        try:
            self.memory.jobs.run()
        except KeepstoneError:
            return  # the jobs stay in the queue, and the note above counts them


def _asks(record: Record) -> bool:
    """Whether a message is a question, which answers nothing."""
    return record.content.rstrip().endswith("?") or record.role != "user"


@o.command(app, "sessions")
def sessions(call: Invocation, limit: o.Limit = 100) -> None:
    """List sessions, the most recently used first."""
    empty = f"There are no sessions yet ({call.place})."
    call.show(
        lambda memory: memory.conversation.list(limit=limit),
        lambda out, listed: render.sessions(out, listed) if listed else out.line(empty),
        field="sessions",
    )
