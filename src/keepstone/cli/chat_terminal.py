"""Input and output of a chat: banner, streamed answers, usage, and input lines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from keepstone.cli import render
from keepstone.cli.arguments import MAX_PIPED
from keepstone.cli.output import Output, coloured, printable
from keepstone.errors import TooLarge, ValidationError
from keepstone.types import Hit, Record

if TYPE_CHECKING:
    from rich.status import Status

    from keepstone.agent import Reply

PROMPT = "> "
HOW_TO_SET = "--model anthropic:NAME, openai:NAME or ollama:NAME (or KEEPSTONE_MODEL)"
OFFLINE = f"No model is set: messages are stored, and matching memories are shown. Set one with {HOW_TO_SET}."
_PARTS = re.compile(r"\n|[^\S\n]+|\S+")
_DEFAULT_COLUMNS = 80
_MAX_PENDING_CELLS = 24  # of an unfinished word; longer ones are shown at once, for languages without spaces
_WRITES = {"write_memory": "noted", "update_memory": "changed"}


def banner(out: Output, about: Sequence[str], answers: str | None) -> None:
    """Print the store, the session, the model and the help command."""
    out.line(("keepstone", "bold"), ("  " + " · ".join(about), "dim"))
    out.line((OFFLINE, "yellow") if answers is None else (answers, "dim"), indent=0)
    out.line(("/help lists the commands; Ctrl-D leaves.", "dim"))
    out.line()


# -- answers ------------------------------------------------------------------------------------------------------
class AnswerStream:
    """A streamed answer, wrapped between words on a terminal, with a spinner until the first word. A context manager."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = _width(stream)
        self._animated = coloured(stream) and stream.isatty()
        self._status: Status | None = None
        self._pending = ""  # an unfinished word, or half a line break
        self._column = 0
        self._started = False
        self._in_word = False  # the beginning of the current word is shown
        self.text = ""

    def __enter__(self) -> AnswerStream:
        if self._animated:
            from rich.console import Console
            from rich.status import Status

            spinner = "dots" if (self._stream.encoding or "").lower().startswith("utf") else "line"
            self._status = Status("[dim]thinking[/]", console=Console(file=self._stream), spinner=spinner, spinner_style="dim")
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop_spinner()
        self._write_part(printable(self._pending))
        self._pending = ""
        if self._column:
            self._write("\n")
        self._stream.flush()

    def write(self, piece: str) -> None:
        """Print the next piece of the answer."""
        self.text += piece
        if not self._started:
            piece = piece.lstrip()
            if not piece:
                return
        self._started = True
        text = self._pending + piece
        self._stop_spinner()
        self._pending = ""
        parts = _PARTS.findall(printable(text) if not text.endswith("\r") else printable(text[:-1]))
        if text.endswith("\r"):
            self._pending = "\r"
        elif parts and not parts[-1].isspace() and self._width and _cells(parts[-1]) < _MAX_PENDING_CELLS:
            self._pending = parts.pop()
        for part in parts:
            self._write_part(part)
        self._stream.flush()

    def _write_part(self, part: str) -> None:
        """Write a word, a space or a line break, on the next line if it does not fit; a long word continues where it is."""
        goes_on = self._in_word and not part.isspace()
        self._in_word = not part.isspace()
        if part == "\n" or not self._width:
            self._write(part)
            self._column = 0 if part.endswith("\n") else self._column + len(part)
            return
        cells = _cells(part)
        if self._column + cells > self._width and self._column and not goes_on:
            self._write("\n")
            self._column = 0
            if part.isspace():
                return
        self._write(part)
        self._column += cells
        if self._column > self._width:  # the terminal has wrapped it
            self._column %= self._width

    def _write(self, text: str) -> None:
        self._stream.write(text)

    def _stop_spinner(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _width(stream: TextIO) -> int:
    """Columns of a terminal; 0 without one."""
    if not stream.isatty():
        return 0
    try:
        return max(os.get_terminal_size(stream.fileno()).columns or _DEFAULT_COLUMNS, 20)
    except OSError:
        return _DEFAULT_COLUMNS


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def render_reply(out: Output, reply: Reply) -> None:
    """Print the memories the model wrote, the notes, the usage and the number of memories in the prompt."""
    for step in reply.steps:
        if step.tool in _WRITES and not step.failed:
            out.line((_WRITES[step.tool], "green"), f"  {render.shorten(str(step.input.get('content', '')))}")
    for note in reply.notes:
        out.line((f"note: {note}", "yellow"))
    if not reply.complete:
        out.line(("note: the maximum number of tool calls was reached; the answer may be incomplete.", "yellow"))
    usage = [render.format_usage(reply.usage)] if reply.usage.calls else []
    recalled = [f"{render.plural(len(reply.recalled), 'memory', 'memories')} used (/why)"] if reply.recalled else []
    if usage or recalled:
        out.line(("  " + " · ".join([*usage, *recalled]), "dim"))


def render_matches(out: Output, facts: Sequence[Record], hits: Sequence[Hit], asked: bool) -> None:
    """Print the facts learned from a message and the matching memories."""
    render.facts_noted(out, facts)
    for hit in hits:
        when = f"{'text' if hit.record.kind == 'message' else 'since'} {hit.record.occurred_at:%Y-%m-%d}"
        out.line(("remembered", "cyan"), f"  {render.shorten(hit.content)}", (f"  {when}", "dim"))
    if asked and not hits:
        out.line(("Stored. No memory matches.", "dim"))


# -- lines --------------------------------------------------------------------------------------------------------
class Lines:
    """Lines typed on a terminal or read from standard input. `asks` says whether a terminal is there for questions."""

    def __init__(self, *, quiet: bool) -> None:
        self.asks = not quiet and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        if self.asks:
            with suppress(ImportError):  # not on every system
                import readline  # noqa: F401 - input() then edits and remembers lines
        self._prompt = PROMPT
        if self.asks and coloured(sys.stdout):
            self._prompt = f"\001\x1b[1;36m\002{PROMPT}\001\x1b[0m\002"

    def next(self) -> str | None:
        """The next line without its end; None at the end. Raises ValidationError if it is not text."""
        return self._read_typed(self._prompt) if self.asks else self._read_piped()

    def answer(self, question: str) -> str:
        """The answer to a question; "" for none, or without a terminal."""
        if not self.asks:
            return ""
        try:
            return (self._read_typed(f"{question} ") or "").strip().lower()
        except KeyboardInterrupt:
            print()
            return ""

    def _read_typed(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            print()
            return None
        except UnicodeDecodeError:
            raise ValidationError("the input is not text in the terminal's encoding: type it again.") from None

    def _read_piped(self) -> str | None:
        if sys.stdin is None:
            return None
        raw = sys.stdin.buffer.readline(MAX_PIPED + 1)
        if not raw:
            return None
        if len(raw) > MAX_PIPED:
            while raw and not raw.endswith(b"\n"):
                raw = sys.stdin.buffer.readline(MAX_PIPED)
            raise TooLarge(f"a line of standard input has more than {MAX_PIPED} bytes: split it.")
        try:
            return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValidationError(f"a line of standard input is not UTF-8 (byte {error.start}): convert it first.") from None
