"""What a chat looks like: its banner, answers as they come, what a turn took, and the lines that are read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from keepstone.cli import show
from keepstone.cli.given import MAX_PIPED
from keepstone.cli.output import Output, coloured, printable
from keepstone.errors import TooLarge, ValidationError
from keepstone.types import Hit, Record

if TYPE_CHECKING:
    from rich.status import Status

    from keepstone.agent import Reply

PROMPT = "> "
HOW_TO_SET = "--model anthropic:NAME, openai:NAME or ollama:NAME (or KEEPSTONE_MODEL)"
OFFLINE = f"No model is set, so nobody answers: what you say is kept, and what fits it is shown. Set one with {HOW_TO_SET}."
_PARTS = re.compile(r"\n|[^\S\n]+|\S+")
_COLUMNS = 80  # where the terminal does not say
_LONG = 24  # cells of a word that is shown before it has ended: languages without spaces are one long word
_WRITES = {"write_memory": "noted", "update_memory": "changed"}


def banner(out: Output, about: Sequence[str], answers: str | None) -> None:
    """Where we are, who answers, and how to get help."""
    out.line(("keepstone", "bold"), ("  " + " · ".join(about), "dim"))
    out.line((OFFLINE, "yellow") if answers is None else (answers, "dim"), indent=0)
    out.line(("/help shows what else you can type; Ctrl-D leaves.", "dim"))
    out.line()


# -- answers ------------------------------------------------------------------------------------------------------
class Speech:
    """An answer as it comes, wrapped between words on a terminal; until the first word, something moves. A context manager."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = _width(stream)
        self._transfer = coloured(stream) and stream.isatty()
        self._status: Status | None = None
        self._held = ""  # a word that may go on, or half a line break
        self._column = 0
        self._begun = False
        self._inside = False  # a word of which the beginning is shown
        self.said = ""

    def __enter__(self) -> Speech:
        if self._transfer:
            from rich.console import Console
            from rich.status import Status

            spinner = "dots" if (self._stream.encoding or "").lower().startswith("utf") else "line"
            self._status = Status("[dim]thinking[/]", console=Console(file=self._stream), spinner=spinner, spinner_style="dim")
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._still()
        self._put(printable(self._held))
        self._held = ""
        if self._column:
            self._write("\n")
        self._stream.flush()

    def hear(self, piece: str) -> None:
        """The next piece of the answer."""
        self.said += piece
        if not self._begun:
            piece = piece.lstrip()
            if not piece:
                return
        self._begun = True
        text = self._held + piece
        self._still()
        self._held = ""
        parts = _PARTS.findall(printable(text) if not text.endswith("\r") else printable(text[:-1]))
        if text.endswith("\r"):
            self._held = "\r"
        elif parts and not parts[-1].isspace() and self._width and _cells(parts[-1]) < _LONG:
            self._held = parts.pop()
        for part in parts:
            self._put(part)
        self._stream.flush()

    def _put(self, part: str) -> None:
        """A word, a space or a line break, on the next line if it does not fit; the rest of a long word where that is."""
        goes_on = self._inside and not part.isspace()
        self._inside = not part.isspace()
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
        if self._column > self._width:  # the terminal itself has broken it
            self._column %= self._width

    def _write(self, text: str) -> None:
        self._stream.write(text)

    def _still(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _width(stream: TextIO) -> int:
    """Columns of a terminal; 0 where nothing is to be wrapped."""
    if not stream.isatty():
        return 0
    try:
        return max(os.get_terminal_size(stream.fileno()).columns or _COLUMNS, 20)
    except OSError:
        return _COLUMNS


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def tail(out: Output, reply: Reply) -> None:
    """What a turn left behind: memories that the model wrote, what it was given, what it took; and what went wrong."""
    for step in reply.steps:
        if step.tool in _WRITES and not step.failed:
            out.line((_WRITES[step.tool], "green"), f"  {show.one_line(str(step.input.get('content', '')))}")
    for note in reply.notes:
        out.line((f"note: {note}", "yellow"))
    if not reply.complete:
        out.line(("note: it used its tools as often as it may; the answer may be unfinished.", "yellow"))
    took = [show.spent(reply.usage)] if reply.usage.calls else []
    given = [f"{show.counted(len(reply.recalled), 'memory', 'memories')} given (/why)"] if reply.recalled else []
    if took or given:
        out.line(("  " + " · ".join([*took, *given]), "dim"))


def remembered(out: Output, facts: Sequence[Record], hits: Sequence[Hit], asked: bool) -> None:
    """What memory alone has to say: what it noted, and what it knows about it."""
    show.noted(out, facts)
    for hit in hits:
        when = f"{'said' if hit.record.kind == 'message' else 'known since'} {hit.record.occurred_at:%Y-%m-%d}"
        out.line(("remembered", "cyan"), f"  {show.one_line(hit.content)}", (f"  {when}", "dim"))
    if asked and not hits:
        out.line(("Kept. Nothing that is remembered fits it.", "dim"))


# -- lines --------------------------------------------------------------------------------------------------------
class Lines:
    """What is typed or piped in, a line at a time. `asks` says whether somebody sits there who can be asked."""

    def __init__(self, *, quiet: bool) -> None:
        self.asks = not quiet and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        if self.asks:
            with suppress(ImportError):  # not on every system
                import readline  # noqa: F401 - input() then edits and remembers lines
        self._prompt = PROMPT
        if self.asks and coloured(sys.stdout):
            self._prompt = f"\001\x1b[1;36m\002{PROMPT}\001\x1b[0m\002"

    def next(self) -> str | None:
        """The next line without its end; None when there is no more. Raises ValidationError for one that is no text."""
        return self._typed(self._prompt) if self.asks else self._piped()

    def answer(self, question: str) -> str:
        """What somebody answers to a question; "" for nothing, or where nobody can be asked."""
        if not self.asks:
            return ""
        try:
            return (self._typed(f"{question} ") or "").strip().lower()
        except KeyboardInterrupt:
            print()
            return ""

    def _typed(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            print()
            return None
        except UnicodeDecodeError:
            raise ValidationError("what was typed is not text in the terminal's encoding: type it again.") from None

    def _piped(self) -> str | None:
        if sys.stdin is None:
            return None
        raw = sys.stdin.buffer.readline(MAX_PIPED + 1)
        if not raw:
            return None
        if len(raw) > MAX_PIPED:
            while raw and not raw.endswith(b"\n"):
                raw = sys.stdin.buffer.readline(MAX_PIPED)
            raise TooLarge(f"a line of more than {MAX_PIPED} bytes was piped in: split it.")
        try:
            return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValidationError(f"a line that was piped in is not UTF-8 (byte {error.start}): convert it first.") from None
