"""chat: talking to a model that remembers, or to memory alone; and sessions.

On a terminal a chat has a banner, a prompt and colours. Where lines are piped in, each is a message, and standard output holds
nothing but the answers.
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

from keepstone.cli import chat_view as view
from keepstone.cli import options as o
from keepstone.cli import show
from keepstone.cli.chat_commands import COMMANDS, KINDS
from keepstone.cli.exits import OK, code_for
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import found
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
PATIENCE = 15.0  # seconds that leaving waits until the last words are learned from
_QUERY = 4000  # characters of a message that are looked up


@o.command(app, "chat")
def chat(
    call: Invocation,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="The conversation; by default today's date.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in the conversation last spoken in.")] = False,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="How memory reaches the model: tools, buffer, summary or vector.")
    ] = "tools",
    model: o.Model = None,
) -> int:
    """Talk to a model that remembers.

    Without a model, what you say is kept and what fits it is shown. Piped lines are messages, one each; with --json every answer
    is a JSON document on a line. /help shows what else can be typed.
    """
    if strategy not in STRATEGIES:
        raise ValidationError(f"--strategy is {strategy!r:.40}: use {', '.join(STRATEGIES)}.")
    if session is not None and resume:
        raise ValidationError("--session and --resume name two conversations: leave one out.")
    named = _model(call, model)
    with call.open(model=named) as memory:
        agent = None
        if named is not None:
            from keepstone.agent import MemoryAgent

            agent = MemoryAgent(memory, named, strategy=strategy, instructions=INSTRUCTIONS)
        last = memory.conversation.list(limit=1) if resume else ()
        name = session if session is not None else last[0].name if last else f"{datetime.now().astimezone():%Y-%m-%d}"
        talk = Talk(call, memory, agent, name, named, strategy)
        talk.begin()
        talk.until_it_ends()
        talk.learn_the_rest()
    return talk.code


def _model(call: Invocation, model: str | None) -> str | None:
    """Who answers. A model works on a store of this machine: over HTTP there is memory alone."""
    here = replace(call, url=None).model(model)
    if call.url is not None and here is not None:
        raise ConfigurationError(
            f"a chat with {here} works on a store, and KEEPSTONE_URL names a server: name a store with --db, or chat without a "
            "model (--model none)."
        )
    return here


class Talk:
    """One chat: whose memory, who answers, in which session, and what was said last."""

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
        self.given: tuple[str, ...] = ()  # ids of the memories that the last answer was given
        self.code = OK
        self._model_failed = False
        self.enter(session)

    def enter(self, session: str) -> None:
        """Go on in a session."""
        self.session = self.memory.conversation(session).session  # as it is compared; refuses what is no name

    def answer(self, command: str, about: Mapping[str, Any], shown: Callable[[Output], None]) -> None:
        """Answer a command of the chat."""
        if self.call.json:
            write_json({"command": command, **about}, sys.stdout)
        else:
            shown(self.out)

    # -- the loop -------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Say where we are, if somebody is there."""
        if self.lines.asks:
            spoken = len(self.memory.conversation(self.session))
            session = f"session {self.session} ({show.counted(spoken, 'message') if spoken else 'new'})"
            user = [f"user {self.call.user}"] if self.call.user else []
            answers = f"{self.model} answers (strategy {self.strategy})." if self.model else None
            view.banner(self.out, [self.call.shown, *user, session], answers)
        elif self.agent is None and not self.call.json:
            err().line((f"note: {view.OFFLINE}", "dim"))

    def until_it_ends(self) -> None:
        """Read and answer until there is nothing more to read, or somebody leaves."""
        while True:
            try:
                line = self.lines.next()
                if line is None or line.strip() in ("/quit", "/exit", "/q"):
                    return
                if line.strip():
                    self._line(line.strip())
            except KeyboardInterrupt:
                if not self.lines.asks:
                    raise
                self.out.line()
                self.out.line(("Ctrl-D or /quit leaves.", "dim"))
            except BrokenPipeError:
                raise
            except Exception as error:
                self._failed(error)
            sys.stdout.flush()

    def _line(self, line: str) -> None:
        if line.startswith("/") and not line.startswith("//"):
            name, _, words = line[1:].partition(" ")
            if name.lower() not in COMMANDS:
                raise ValidationError(
                    f"there is no /{name:.40}: /help shows what there is; a message that begins with a slash is written with two."
                )
            COMMANDS[name.lower()][1](self, words.strip())
        else:
            text = line[1:] if line.startswith("//") else line
            self.question, self.given, self._model_failed = text, (), False
            if self.agent is None:
                self._by_memory(text)
            else:
                self._by_model(self.agent, text)
        if self.lines.asks:
            self.out.line()

    def _failed(self, error: Exception) -> None:
        """One line; the chat goes on. Where nobody sits there to see it, the exit code tells."""
        if not isinstance(error, KeepstoneError) and os.environ.get("KEEPSTONE_DEBUG"):
            raise error
        self._model_failed = isinstance(error, ModelError)
        known = isinstance(error, KeepstoneError)
        message = str(error) if known else f"unexpected {type(error).__name__}: {error} (KEEPSTONE_DEBUG=1 shows where)"
        if not self.lines.asks:
            self.code = code_for(error) if isinstance(error, KeepstoneError) else 1
        if self.call.json:
            write_json({"error": {"type": type(error).__name__, "message": message}}, sys.stderr)
        else:
            err().line(("error: ", "bold red"), message)
        if self.lines.asks:
            self.out.line()

    # -- answers --------------------------------------------------------------------------------------------------
    def _by_model(self, agent: MemoryAgent, text: str) -> None:
        if self.call.json:
            reply = agent.chat(text, session=self.session)
            self.given = reply.recalled
            write_json({"message": text, **document(reply)}, sys.stdout)
            return
        stopped = self._streamed(agent, text)
        if isinstance(stopped, str):
            self.out.line(("(stopped)", "dim"))
            if stopped.strip():  # so that the model knows what the user has read
                self.memory.conversation(self.session).add("assistant", stopped, stopped=True)
            return
        self.given = stopped.recalled
        if self.lines.asks:
            view.tail(self.out, stopped)

    def _streamed(self, agent: MemoryAgent, text: str) -> Reply | str:
        """The answer, shown as it came; what came of it, if somebody has stopped it."""
        stream = agent.stream(text, session=self.session)
        with view.Speech(sys.stdout) as speech:
            try:
                for piece in stream:
                    speech.hear(piece)
            except KeyboardInterrupt:
                if not self.lines.asks:
                    raise
                return speech.said
        if stream.reply is None:
            raise ModelError("the model ended without an answer: ask again.")
        return stream.reply

    def _by_memory(self, text: str) -> None:
        """Keep a message, say what was noted, and show what is known about it: facts, or what was said where there are none."""
        fitting = self._fitting(text)  # before the message itself is a memory
        receipt = self.memory.conversation(self.session).add("user", text)
        facts = found(self.memory, receipt.learned)
        asked = "?" in text or not facts
        hits = fitting if asked else []
        self.given = tuple(hit.id for hit in hits)
        if self.call.json:
            about = {"message": text, "session": self.session, "text": None, "id": receipt.id}
            write_json({**about, "noted": document(facts), "hits": document(hits)}, sys.stdout)
        else:
            view.remembered(self.out, facts, hits, asked)

    def _fitting(self, text: str) -> list[Hit]:
        try:
            facts = self.memory.recall(text[:_QUERY], limit=5, kinds=KINDS)
            said = () if facts else self.memory.recall(text[:_QUERY], limit=10, kinds=[MESSAGE])
        except KeepstoneError as error:
            self._failed(error)
            return []
        return [*facts, *(hit for hit in said if not _asks(hit.record))][:5]

    # -- leaving --------------------------------------------------------------------------------------------------
    def learn_the_rest(self) -> None:
        """Let the model learn from the last words, for as long as a person waits; the rest stays in the queue."""
        from keepstone.settings import Settings

        if self.agent is None or not Settings.load().worker or not self.memory.jobs.list(state="waiting", limit=1):
            return
        if not self._model_failed:  # it would only fail again
            self._learn()
        left = self.memory.jobs.list(limit=1000)
        if left and not self.call.json:
            jobs = f"{show.counted(len(left), 'job')} {'is' if len(left) == 1 else 'are'} left to learn from"
            err().line((f"note: {jobs}; the next chat goes on with it, 'keepstone jobs' shows more.", "dim"))

    def _learn(self) -> None:
        working = threading.Thread(target=self._run_jobs, daemon=True)
        try:
            if self.lines.asks:
                self.out.line(("Learning from what was said; Ctrl-C leaves it for later.", "dim"))
            working.start()
            working.join(PATIENCE)
        except KeyboardInterrupt:
            if not self.lines.asks:
                raise
            self.out.line()

    def _run_jobs(self) -> None:
        try:
            self.memory.jobs.run()
        except KeepstoneError:
            return  # what is left is said, and stays in the queue


def _asks(record: Record) -> bool:
    """Whether a message only asks, and so can answer nothing."""
    return record.content.rstrip().endswith("?") or record.role != "user"


@o.command(app, "sessions")
def sessions(call: Invocation, limit: o.Limit = 100) -> None:
    """The conversations there are, the last one spoken in first."""
    with call.open(missing="empty") as memory:
        listed = memory.conversation.list(limit=limit)
    empty = f"Nothing has been said here yet ({call.place})."
    call.answer({"sessions": document(list(listed))}, lambda out: show.sessions(out, listed) if listed else out.line(empty))
