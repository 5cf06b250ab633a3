"""Exports of other systems as rows of JSON: files, folders and archives, read a piece at a time.

An archive may have gigabytes, so only the entry that is being read is held in memory, and nothing is unpacked to disk. What a
hostile file can cost is bounded, and each bound is named in the error.
"""

from __future__ import annotations

import codecs
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from keepstone.errors import ConfigurationError, TooLarge, ValidationError

MAX_ENTRY_CHARS = 256 * 1024 * 1024  # of one entry of a list, one line, or a file that is one object
MAX_UNPACKED_BYTES = 16 * 1024**3  # of one file in an archive
MAX_COMPRESSION_RATIO = 200  # of a file in an archive, from _RATIO_CHECK_BYTES on
_RATIO_CHECK_BYTES = 64 * 1024 * 1024
_MAX_FILES = 100_000
_CHUNK_BYTES = 1024 * 1024
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8
_SPACE = re.compile(r"[ \t\r\n]*")
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OverflowError, ValueError, IndexError)

Row = tuple[str, Any]  # the place of an entry in words; its value
PathOrText = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a source that is not read: what is invalid is refused, what is of no use is skipped."""

    file: str
    where: str
    reason: str
    action: Literal["refused", "skipped"] = "refused"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON file, by itself (`alone`), in a folder or in an archive."""

    name: str
    pieces: Callable[[], Iterator[bytes]]
    alone: bool = False

    def rows(self) -> Iterator[Row | Unread]:
        """The entries of a list, the lines of JSON lines, or the one object of the file."""
        try:
            yield from _rows(_Text(self.pieces()), self.name)
        except (ValidationError, ConfigurationError) as error:
            yield Unread(self.name, "the file", str(error))


def documents(path: PathOrText) -> list[Document]:
    """The JSON files of a path: itself, or those in a folder or a ZIP archive. Raises ConfigurationError."""
    name = f"{str(path)!r:.100}"
    try:
        source = Path(path)
        if source.is_dir():
            inside = sorted(
                each for each in source.iterdir() if each.suffix.lower() in _SUFFIXES and not each.name.startswith(".")
            )
            return [Document(each.name, partial(_file_pieces, each)) for each in inside if each.is_file()]
        if not source.is_file():
            raise ConfigurationError(f"cannot read {name}: it is neither an ordinary file nor a folder. Check the path.")
        if zipfile.is_zipfile(source):
            return _read_archive(source, name)
    except ValidationError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{name} cannot be read ({getattr(error, 'strerror', None) or error}): check the path."
        ) from None
    return [Document(source.name, partial(_file_pieces, source), alone=True)]


_SUFFIXES = (".json", ".jsonl", ".ndjson", ".af")


def _read_archive(source: Path, name: str) -> list[Document]:
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
    except (*_ARCHIVE_ERRORS, OSError) as error:
        raise ValidationError(f"{name} is a damaged archive ({type(error).__name__}): download it again.") from None
    if len(members) > _MAX_FILES:
        raise TooLarge(f"{name} holds {len(members)} files, the limit is {_MAX_FILES}: pack only the JSON files.")
    wanted = [each for each in members if Path(each.filename).suffix.lower() in _SUFFIXES and not each.is_dir()]
    wanted = [each for each in wanted if not any(part.startswith((".", "__")) for part in Path(each.filename).parts)]
    return [
        Document(each.filename[:200], partial(_member_pieces, source, each))
        for each in sorted(wanted, key=lambda each: each.filename)
    ]


def _file_pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                yield piece
    except OSError as error:
        raise ConfigurationError(f"{path.name!r:.100} cannot be read ({error.strerror}): check the file.") from None


def _member_pieces(source: Path, info: zipfile.ZipInfo) -> Iterator[bytes]:
    name, size = f"{info.filename!r:.100} of {source.name!r:.100}", 0
    try:
        with zipfile.ZipFile(source) as archive, archive.open(info) as member:
            while piece := member.read(_CHUNK_BYTES):
                size += len(piece)
                ratio = size / max(info.compress_size, 1) if size > _RATIO_CHECK_BYTES else 0
                if size > MAX_UNPACKED_BYTES or ratio > MAX_COMPRESSION_RATIO:
                    raise TooLarge(
                        f"{name} unpacks to more than {MAX_UNPACKED_BYTES} bytes or {MAX_COMPRESSION_RATIO} times its size, "
                        "which no export does: check where the archive comes from, or unpack it yourself."
                    )
                yield piece
    except ValidationError:
        raise
    except (*_ARCHIVE_ERRORS, OSError) as error:
        problem = "it has a password" if "password" in str(error) else type(error).__name__
        raise ValidationError(f"{name} cannot be unpacked ({problem}): download the archive again.") from None


class _Text:
    """The text of a file, as much of it as is needed. Bytes that are not UTF-8 become lone surrogates."""

    def __init__(self, pieces: Iterator[bytes], text: str = "") -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text, self.at, self.ended = text, 0, False
        self.more()
        self.text = self.text.removeprefix("\ufeff")

    def more(self, least: int = 1) -> bool:
        """Read at least so many characters, and drop those before the position; False at the end."""
        parts, count = [self.text[self.at :]], 0
        while count < least and not self.ended:
            piece = next(self._pieces, None)
            parts.append(self._decoder.decode(piece or b"", final=piece is None))
            count += len(parts[-1])
            self.ended = piece is None
        self.text, self.at = "".join(parts), 0
        return count > 0

    def peek(self) -> str:
        """The next character that is no space, which the position moves to; "" at the end."""
        while True:
            self.at = _skip_space(self.text, self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def line(self) -> str:
        """The text up to the end of the line."""
        while (end := self.text.find("\n", self.at)) < 0:
            if len(self.text) - self.at > MAX_ENTRY_CHARS:
                raise TooLarge(f"the line is longer than {MAX_ENTRY_CHARS} characters: split it.")
            if not self.more(len(self.text) - self.at):
                end = len(self.text)
                break
        line = self.text[self.at : end]
        self.at = min(end + 1, len(self.text))
        return line

    def row(self, name: str, where: str) -> Row | Unread:
        """The JSON value at the position. Raises ValidationError if its end is not known."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
                if end < len(self.text) or self.ended:
                    break
            except json.JSONDecodeError as error:
                if self.ended:
                    raise ValidationError(f"this is not JSON ({error.msg}), or it was cut off: export it again.") from None
            except RecursionError:
                raise ValidationError("this is nested too deeply for an export: check what it is.") from None
            except ValueError as error:
                raise ValidationError(f"this cannot be read ({error}): export it again.") from None
            if len(self.text) - self.at > MAX_ENTRY_CHARS:
                raise TooLarge(f"an entry has more than {MAX_ENTRY_CHARS} characters: split it.")
            self.more(max(len(self.text) - self.at, _CHUNK_BYTES))
        start, self.at = self.at, end
        if _NOT_UTF8.search(self.text, start, end):
            return Unread(name, where, "this is not UTF-8: export it as UTF-8.")
        return where, value


_DECODER = json.JSONDecoder(parse_constant=lambda name: None)  # Python writes NaN where a number is missing


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _rows(text: _Text, name: str) -> Iterator[Row | Unread]:
    first = text.peek()
    if first == "[":
        text.at += 1
        yield from _read_list(text, name)
    elif first != "{":
        problem = "it is empty" if not first else "it begins neither with a list nor with an object"
        raise ValidationError(f"{name!r:.100} is no JSON export: {problem}. Check the file.")
    elif _has_lines(text):
        yield from _read_lines(text, name)
    else:
        yield text.row(name, "the file")
        if text.peek():
            yield Unread(name, "the file", "something follows its one object, and was not read: export it again.")


def _read_list(text: _Text, name: str) -> Iterator[Row | Unread]:
    """The entries of a list. An invalid entry ends it, since the beginning of the next is not known."""
    number = 0
    while text.peek() != "]":
        number += 1
        where = f"entry {number}"
        try:
            row = text.row(name, where)
            if text.peek() not in (",", "]"):
                raise ValidationError("the file is cut off here, or is no list: export it again.")
        except ValidationError as error:
            yield Unread(name, where, f"{error} The rest of the file was not read.")
            return
        yield row
        if text.peek() == ",":
            text.at += 1


def _has_lines(text: _Text) -> bool:
    """Whether each line is an object of its own: the first ends as one, and what follows does not continue it."""
    text.more(0)  # drops what is before the position
    while (end := text.text.find("\n")) < 0:
        if len(text.text) > MAX_ENTRY_CHARS or not text.more(len(text.text)):
            return False
    if not text.text[:end].rstrip().endswith("}"):
        return False
    while (at := _skip_space(text.text, end)) == len(text.text):
        if at > MAX_ENTRY_CHARS or not text.more(at):
            return False
    return text.text[at] not in ",}]"


def _read_lines(text: _Text, name: str) -> Iterator[Row | Unread]:
    for number in count(1):
        line = text.line().strip()
        if line:
            yield _read_line(line, name, f"line {number}")
        elif text.at >= len(text.text) and not text.more():
            return


def _read_line(line: str, name: str, where: str) -> Row | Unread:
    text = _Text(iter(()), line)
    try:
        row = text.row(name, where)
    except ValidationError as error:
        return Unread(name, where, str(error))
    return Unread(name, where, "this is not JSON (something follows the object): export it again.") if text.peek() else row
