"""Writing to the terminal: styled where it can be, plain text everywhere else.

What was remembered may hold escape sequences; nothing reaches the terminal before `printable` has made them visible.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Part = str | tuple[str, str]  # text, or text and a rich style
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Text that can neither steer the terminal nor hide or reorder what is read; line breaks and tabs stay.

    >>> printable("\\x1b[31mred")
    '\\\\x1b[31mred'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def coloured(stream: TextIO) -> bool:
    """Whether styles may be written to a stream: a terminal that knows them, and nobody asked for none."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


class Output:
    """Lines for a person on one stream. On a terminal they are wrapped between words, so that ids stay whole; anywhere
    else they are left as they are."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console: Console | None = None
        if coloured(stream):
            from rich.console import Console

            self._console = Console(file=stream, highlight=False, markup=False, emoji=False, force_terminal=True)

    def line(self, *parts: Part, indent: int = 4) -> None:
        """One line made of plain and styled parts; where it is wrapped, what follows is indented."""
        pieces = [(part, "") if isinstance(part, str) else part for part in parts]
        visible = [(printable(text), style) for text, style in pieces]
        if self._console is None:
            print("".join(text for text, _ in visible).rstrip(), file=self._stream)
            return
        from rich.text import Text

        whole = Text.assemble(*visible)
        if whole.cell_len > self._console.width:
            wrapped = whole.wrap(self._console, max(self._console.width - indent, 20))
            whole = Text("\n" + " " * indent).join(wrapped)
        self._console.print(whole, soft_wrap=True)

    def block(self, text: str) -> None:
        """Text to be copied: neither styled nor wrapped."""
        print(printable(text), file=self._stream)


def out() -> Output:
    """Standard output."""
    return Output(sys.stdout)


def err() -> Output:
    """Standard error."""
    return Output(sys.stderr)


def write_json(document: Any, stream: TextIO) -> None:
    """One JSON document on a line of its own; only ASCII where the stream is not Unicode."""
    plain = not (stream.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(document, ensure_ascii=plain, allow_nan=False), file=stream)
