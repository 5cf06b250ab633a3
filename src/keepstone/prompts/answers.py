"""What a model's answer holds: the JSON object in it, the text without its thoughts, sentences fit to be stored. Pure.

An answer is foreign text. Nothing here raises, whatever it says, and the cost grows with its length alone.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MAX_ANSWER_CHARS = 256 * 1024  # characters
MAX_DEPTH = 50  # objects and lists inside one another
_MAX_READS = 2  # how often a character may be read in vain before objects inside a broken one are given up

_TAG = r"<(?P<slash>/?)(?:think|thinking|thoughts?|reasoning)\b[^<>]{0,80}>"
_MARK = re.compile(r"\{|" + _TAG, re.IGNORECASE)
_TAG_OF_A_TEXT = re.compile(r"(?P<before>^[ \t]*)?" + _TAG + r"(?P<after>[ \t]*$)?", re.IGNORECASE | re.MULTILINE)

_SPACE = re.compile(r"\s*+")
_SCALAR = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[-+.\w]++', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NOTHING: Final = object()  # a value that the end of the text broke off


@dataclass(frozen=True, slots=True)
class Found:
    """The object in an answer. `cut`: the text ended inside it; what was complete by then is here, the half element is not."""

    value: dict[str, Any]
    cut: bool = False


def closed_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object with exactly these properties."""
    return {"type": "object", "properties": dict(properties), "required": list(properties), "additionalProperties": False}


def json_object(text: str, wanted: Collection[str] = ()) -> Found | None:
    """The last JSON object in a text that has all the wanted keys: plain, fenced, amid prose, or cut off at the end; never one
    inside thoughts. None where there is none, or where the text is too long or nested too deeply.

    >>> json_object('Sure! {"facts": ["a", "b')
    Found(value={'facts': ['a']}, cut=True)
    """
    if len(text) > MAX_ANSWER_CHARS:
        return None
    found: Found | None = None
    at, thinking, wasted = 0, 0, 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark["slash"] is not None:
            if mark["slash"] and not thinking:
                found = None  # some models' opening tag is in the prompt: all before this was thought
            thinking = max(0, thinking - 1) if mark["slash"] else thinking + 1
        elif not thinking:
            reader = _Reader(text, mark.start())
            try:
                value = reader.object(1)
            except _Broken:
                wasted += reader.at - mark.start()
                at = at if wasted <= _MAX_READS * len(text) else max(at, reader.at)
                continue
            except _TooDeep:
                return None
            at = reader.at
            if all(key in value for key in wanted) and (value or not reader.cut):
                found = Found(value, reader.cut)
    return found


class _Broken(Exception):
    """This is not JSON."""


class _TooDeep(Exception):
    """This is nested too deeply."""


class _Reader:
    """Reads one JSON object from a place in a text. At the end of the text it sets `cut` and returns what it has: of a list the
    complete elements, of an object the complete members and those that are lists or objects themselves."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.cut = False

    def object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for sign in self._elements("}", depth):
            if sign != '"':
                raise _Broken
            key = self._scalar()
            if not self.cut and self._peek() == ":":
                self.at += 1
                value = self._value(depth)
                if value is not _NOTHING:
                    members[key] = value
            elif not self.cut:
                raise _Broken
        return members

    def _list(self, depth: int) -> list[Any]:
        elements: list[Any] = []
        for _ in self._elements("]", depth):
            value = self._value(depth)
            if not self.cut:
                elements.append(value)
        return elements

    def _elements(self, close: str, depth: int) -> Iterator[str]:
        """The first character of each element up to the closing sign. A comma after the last, which models like, is skipped."""
        if depth > MAX_DEPTH:
            raise _TooDeep
        self.at += 1
        while (sign := self._peek()) and sign != close:
            yield sign
            sign = self._peek()
            if sign == ",":
                self.at += 1
            elif sign and sign != close:
                raise _Broken
        self.at += 1

    def _peek(self) -> str:
        """The next character that is no space; "" at the end, which is a cut wherever it is asked."""
        space = _SPACE.match(self.text, self.at)
        self.at = len(self.text) if self.cut or space is None else space.end()
        sign = self.text[self.at : self.at + 1]
        self.cut = self.cut or not sign
        return sign

    def _value(self, depth: int) -> Any:
        sign = self._peek()
        if not sign:
            return _NOTHING
        return self.object(depth + 1) if sign == "{" else self._list(depth + 1) if sign == "[" else self._scalar()

    def _scalar(self) -> Any:
        token = _SCALAR.match(self.text, self.at)
        quoted = self.text[self.at] == '"'
        if token is None and not quoted:
            raise _Broken
        if token is None or (token.end() == len(self.text) and not quoted and token[0] not in ("true", "false", "null")):
            self.cut = True  # a number might have gone on
            return _NOTHING
        self.at = token.end()
        try:
            return _DECODER.decode(token[0])
        except ValueError:
            if not quoted:
                raise _Broken from None
            return _DECODER.decode(_ESCAPE.sub(_known_escape, token[0]))  # an escape that JSON does not know, such as \' or \d


def _parse_finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(number)
    return value


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(strict=False, parse_float=_parse_finite, parse_constant=_refuse_constant)


def _known_escape(escape: re.Match[str]) -> str:
    known = len(escape[1]) == 5 or escape[1] in '"\\/bfnrt'
    return escape[0] if known else "\\" + escape[0]


def without_thoughts(text: str) -> str:
    """A plain text without its blocks of thoughts. Only a tag at the edge of a line opens or ends one there, so that a text may
    speak of the tags; what is opened and never closed is thought to the end.

    >>> without_thoughts("<think>Hm.</think>Dana drinks tea.")
    'Dana drinks tea.'
    """
    kept: list[str] = []
    start = thinking = 0
    for tag in _TAG_OF_A_TEXT.finditer(text):
        edge = tag["before"] is not None or tag["after"] is not None
        if tag["slash"] and (thinking or edge):
            if thinking == 0:
                kept.clear()
            thinking = max(0, thinking - 1)
            start = tag.end()
        elif not tag["slash"] and (thinking or tag["before"] is not None):
            if thinking == 0:
                kept.append(text[start : tag.start()])
            thinking += 1
    return "".join(kept) + ("" if thinking else text[start:])


def hidden(character: str) -> bool:
    """Control and format characters, tags and variation selectors, halves of pairs: what a reader cannot see but a model may.
    The joiner that holds emoji together is none of them."""
    if character == "\u200d":
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") or "\U000e0000" <= character <= "\U000e0fff"


def unescaped(text: str) -> str:
    """The characters that a prompt's escapes stand for: models copy `&amp;` as they see it."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


def sentence(value: Any) -> str:
    """A value of an answer as one line of visible text; "" where it is none or says nothing.

    >>> sentence(" Dana works at\\n R&amp;D. ")
    'Dana works at R&D.'
    """
    if not isinstance(value, str):
        return ""
    line = " ".join(unescaped(value).split())
    if not line.isascii() or not line.isprintable():
        line = "".join(each for each in line if not hidden(each)).strip()
    return line if any(each.isalnum() for each in line) else ""


# A fact is a statement. A sentence that commands the reader, or speaks of the prompt, was planted in the conversation. This is
# the second line of defence (the prompt is the first, trust the third): it lets an odd sentence pass rather than refuse
# a true one.
_COMMANDS = re.compile(
    tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))["pattern"],
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def commands(text: str) -> bool:
    """Whether a sentence gives the assistant orders instead of stating a fact. For short texts: the cost is not linear."""
    return _COMMANDS.search(unicodedata.normalize("NFKC", text).replace("’", "'")) is not None
