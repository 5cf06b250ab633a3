"""Files, folders and archives as rows of JSON, read a piece at a time.

A chat product's archive may have gigabytes, so nothing is held but the entry that is being read, and nothing is unpacked to disk.
What a hostile file can cost is bounded, and each bound is named in the error.
"""

from __future__ import annotations

import codecs
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

from keepstone.errors import ConfigurationError, TooLarge, ValidationError
from keepstone.importing.entries import Passed

MAX_ENTRY_CHARS = 64 * 1024 * 1024  # characters of one entry of a list, or of one line
MAX_OBJECT_CHARS = 256 * 1024 * 1024  # characters of a file that is one JSON object
MAX_UNPACKED_BYTES = 16 * 1024**3  # bytes of one file in an archive
MAX_COMPRESSION_RATIO = 200  # times that a file in an archive may be larger than what it is packed in, once it is large
_RATIO_CHECK_BYTES = 64 * 1024 * 1024
_MAX_FILES = 100_000
_CHUNK_BYTES = 1024 * 1024
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8
_SPACE = re.compile(r"[ \t\r\n]*")
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    ValueError,
    IndexError,
)

Row = tuple[str, Any]  # where it stands, in words; what stands there
Path_ = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON file, alone, in a folder or in an archive. `alone`: it was named itself."""

    name: str
    pieces: Callable[[], Iterator[bytes]]
    alone: bool = False

    def rows(self) -> Iterator[Row | Passed]:
        """The entries of a list, the lines of JSON lines, or the one object there is; what cannot be read says so in its
        place."""
        try:
            yield from _rows(_Text(self.pieces()), self.name)
        except (ValidationError, ConfigurationError) as error:
            yield Passed(self.name, "the file", str(error))


def documents(path: Path_) -> list[Document]:
    """The JSON files that a path stands for: itself, or those in a folder or a ZIP archive. ConfigurationError if it is none."""
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
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, ValidationError):
            raise
        raise ConfigurationError(
            f"{name} cannot be read ({getattr(error, 'strerror', None) or error}): check the path."
        ) from None
    return [Document(source.name, partial(_file_pieces, source), alone=True)]


_SUFFIXES = (".json", ".jsonl", ".ndjson", ".af")


def _read_archive(source: Path, name: str) -> list[Document]:
    try:
        with zipfile.ZipFile(source) as archive:
            held = archive.infolist()
    except (*_ARCHIVE_ERRORS, OSError) as error:
        raise ValidationError(f"{name} is a damaged archive ({type(error).__name__}): download it again.") from None
    if len(held) > _MAX_FILES:
        raise TooLarge(f"{name} holds {len(held)} files, the limit is {_MAX_FILES}: pack only the JSON files.")
    wanted = [each for each in held if Path(each.filename).suffix.lower() in _SUFFIXES and not each.is_dir()]
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


def _member_pieces(source: Path, held: zipfile.ZipInfo) -> Iterator[bytes]:
    name, read = f"{held.filename!r:.100} of {source.name!r:.100}", 0
    with ExitStack() as opened:
        try:
            archive = opened.enter_context(zipfile.ZipFile(source))
            member: IO[bytes] = opened.enter_context(archive.open(held))
            while piece := member.read(_CHUNK_BYTES):
                read += len(piece)
                if read > MAX_UNPACKED_BYTES or (
                    read > _RATIO_CHECK_BYTES and read > MAX_COMPRESSION_RATIO * max(held.compress_size, 1)
                ):
                    raise TooLarge(
                        f"{name} unpacks to more than {MAX_UNPACKED_BYTES} bytes or {MAX_COMPRESSION_RATIO} times its size, "
                        "which no export does: check where the archive comes from, or unpack it yourself."
                    )
                yield piece
        except (ValidationError, ConfigurationError):
            raise
        except (*_ARCHIVE_ERRORS, OSError) as error:
            said = "it has a password" if isinstance(error, RuntimeError) and "password" in str(error) else type(error).__name__
            raise ValidationError(f"{name} cannot be unpacked ({said}): download the archive again.") from None


# -- text and JSON ------------------------------------------------------------------------------------------------------
class _Text:
    """A file's text, as much of it as is being looked at. Bytes that are not UTF-8 stay marked as such."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.held, self.at, self.ended = "", 0, False
        self.more()
        self.held = self.held.removeprefix("\ufeff")

    def more(self, least: int = 1) -> bool:
        """Read on by at least so many characters; False at the end."""
        parts, got = [self.held[self.at :]], 0
        while got < least and not self.ended:
            piece = next(self._pieces, None)
            parts.append(self._decoder.decode(piece or b"", final=piece is None))
            got += len(parts[-1])
            self.ended = piece is None
        self.held, self.at = "".join(parts), 0
        return got > 0

    def next(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            self.at = _SPACE.match(self.held, self.at).end()  # type: ignore[union-attr]  # it matches nothing too
            if self.at < len(self.held):
                return self.held[self.at]
            if not self.more():
                return ""

    def line(self) -> str:
        """The text up to the end of the line, which is passed."""
        while (end := self.held.find("\n", self.at)) < 0:
            if len(self.held) - self.at > MAX_ENTRY_CHARS:
                raise TooLarge(f"the line is longer than {MAX_ENTRY_CHARS} characters: split it.")
            if not self.more(len(self.held) - self.at):
                end = len(self.held)
                break
        found = self.held[self.at : end]
        self.at = min(end + 1, len(self.held))
        return found

    def value(self, most: int) -> Any:
        """The JSON value that begins here, which is passed."""
        while True:
            try:
                found, end = _DECODER.raw_decode(self.held, self.at)
                if end < len(self.held) or self.ended:
                    start, self.at = self.at, end
                    return _whole(found, self.held, start, end)
            except json.JSONDecodeError as error:
                if self.ended:
                    raise ValidationError(f"this is not JSON ({error.msg}), or it was cut off: export it again.") from None
            except RecursionError:
                raise ValidationError("this is nested too deeply for an export: check what it is.") from None
            except ValueError as error:
                raise ValidationError(f"this cannot be read ({error}): export it again.") from None
            if len(self.held) - self.at > most:
                raise TooLarge(f"an entry has more than {most} characters: split it.")
            self.more(max(len(self.held) - self.at, _CHUNK_BYTES))


_DECODER = json.JSONDecoder(parse_constant=lambda name: None)  # Python writes NaN where a number is missing


def _whole(found: Any, text: str, start: int = 0, end: int | None = None) -> Any:
    if _NOT_UTF8.search(text, start, len(text) if end is None else end):
        return _NOT_TEXT
    return found


_NOT_TEXT = object()


def _rows(text: _Text, name: str) -> Iterator[Row | Passed]:
    first = text.next()
    if first == "[":
        yield from _read_list(text, name)
    elif first == "{":
        yield from _read_objects(text, name)
    else:
        problem = "it is empty" if not first else "it begins neither with a list nor with an object"
        raise ValidationError(f"{name!r:.100} is no JSON export: {problem}. Check the file.")


def _read_list(text: _Text, name: str) -> Iterator[Row | Passed]:
    """The entries of a list. What is broken ends it: where the next entry begins cannot be told."""
    text.at += 1
    number = 0
    while (sign := text.next()) != "]":
        number += 1
        where = f"entry {number}"
        try:
            if not sign:
                raise ValidationError("the file is cut off here: export it again.")
            found = text.value(MAX_ENTRY_CHARS)
            if text.next() not in (",", "]"):
                raise ValidationError("the file is cut off here, or is no list: export it again.")
        except ValidationError as error:
            yield Passed(name, where, f"{error} The rest of the file was not read.")
            return
        yield (where, found) if found is not _NOT_TEXT else _unreadable(name, where)
        if text.next() == ",":
            text.at += 1


def _read_objects(text: _Text, name: str) -> Iterator[Row | Passed]:
    """One object, or one on each line."""
    if not _by_line(text):
        try:
            found = text.value(MAX_OBJECT_CHARS)
        except ValidationError as error:
            yield Passed(name, "the file", str(error))
            return
        yield ("the file", found) if found is not _NOT_TEXT else _unreadable(name, "the file")
        if text.next():
            yield Passed(name, "the file", "something follows its one object, and was not read: export it again.")
        return
    number = 0
    while True:
        number += 1
        line = text.line()
        if line.strip():
            yield _parse_line(line, name, f"line {number}")
        elif text.at >= len(text.held) and not text.more():
            return


def _by_line(text: _Text) -> bool:
    """Whether each line is an object of its own, as far as the first two tell; the first may be a broken one."""
    text.more(0)  # from here on nothing lies before what is looked at
    while (end := text.held.find("\n", text.at)) < 0:
        if len(text.held) - text.at > MAX_ENTRY_CHARS or not text.more(len(text.held) - text.at):
            return False
    first = text.held[text.at : end].strip()
    if not first.endswith("}"):
        return False
    try:
        _DECODER.decode(first)
        whole = True
    except (ValueError, RecursionError):
        whole = False
    while (at := _SPACE.match(text.held, end).end()) == len(text.held):  # type: ignore[union-attr]
        if at > MAX_ENTRY_CHARS or not text.more(at):
            return False
    return whole or text.held[at] == "{"


def _parse_line(line: str, name: str, where: str) -> Row | Passed:
    if _NOT_UTF8.search(line):
        return _unreadable(name, where)
    try:
        return where, _DECODER.decode(line.strip())
    except json.JSONDecodeError as error:
        return Passed(name, where, f"this is not JSON ({error.msg} at column {error.colno}): export it again.")
    except RecursionError:
        return Passed(name, where, "this is nested too deeply for an export: check what it is.")
    except ValueError as error:
        return Passed(name, where, f"this cannot be read ({error}): export it again.")


def _unreadable(name: str, where: str) -> Passed:
    return Passed(name, where, "this is not UTF-8: export it as UTF-8.")
