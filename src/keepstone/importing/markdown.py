"""Folders of Markdown: each section a note, under a key made of its path, so that importing it again updates it.

Frontmatter is read as far as simple lines of `name: value` go. Hidden files stay out, and links that lead out of the folder are
not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from keepstone.errors import ConfigurationError
from keepstone.importing.entries import Entry, Found, clean_metadata, clean_text, read_safely, split_entry, time_of
from keepstone.maintenance.external_files import Unread

SUFFIXES = (".md", ".markdown")
MAX_FILE = 16 * 1024 * 1024
_NOTE = 4000  # bytes of one note: small enough to be found by what it says
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+")
_LONGEST = 200  # characters of a heading: it stands above every note below it
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_FIELD = re.compile(r"^([A-Za-z][\w -]{0,60}):[ \t]*(.*)$")
_DATES = ("updated", "modified", "date", "created")
_SLUG = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file below a heading: the headings above it and its own, the line it begins on, its text."""

    headings: tuple[str, ...]
    line: int
    text: str


def is_markdown(path: str | PathLike[str]) -> bool:
    """Whether a path is a Markdown file, or a folder with one in it."""
    source = Path(path)
    if source.is_dir():
        return any(isinstance(each, Path) for each in _files(source))
    return source.is_file() and source.suffix.lower() in SUFFIXES


def entries(path: str | PathLike[str]) -> Iterator[Found]:
    """The notes of a file, or of all files of a folder in the order of their names."""
    source = Path(path)
    if source.is_file():
        yield from _file(source, source.name)
        return
    if not source.is_dir():
        raise ConfigurationError(f"cannot read {str(path)!r:.100}: it is neither a Markdown file nor a folder. Check the path.")
    empty = True
    for each in _files(source):
        empty = False
        if isinstance(each, Unread):
            yield each
        else:
            yield from _file(each, each.relative_to(source).as_posix())
    if empty:
        raise ConfigurationError(f"{str(path)!r:.100} holds no Markdown file ({' or '.join(SUFFIXES)}): check the path.")


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A Markdown file: its path, its name in its folder, its frontmatter and the text after that."""

    path: Path
    name: str
    fields: dict[str, Any]
    body: str


def read_notes(folder: Path) -> Iterator[MarkdownFile]:
    """The Markdown files of a folder that can be read, in the order of their names."""
    for path in _files(folder):
        if isinstance(path, Path) and path.stat().st_size <= MAX_FILE:
            try:
                fields, body, _ = _frontmatter(path.read_text(encoding="utf-8-sig"))
            except (OSError, UnicodeDecodeError):
                continue
            yield MarkdownFile(path, path.relative_to(folder).as_posix(), fields, body)


def _files(root: Path) -> Iterator[Path | Unread]:
    inside = root.resolve()
    closed: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=closed.append):  # links to folders are not followed
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES:
                continue
            where = clean_text(path.relative_to(root).as_posix())
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                yield Unread(where, "the file", "it is a link that leads out of the folder.", "skipped")
            elif not path.is_file():  # a pipe would be waited for
                yield Unread(where, "the file", "it is not an ordinary file.", "skipped")
            else:
                yield path
    for error in closed:
        where = clean_text(Path(error.filename).relative_to(root).as_posix())
        yield Unread(where, "the folder", f"it cannot be read ({error.strerror}): check the folder.")


def _file(path: Path, name: str) -> Iterator[Found]:
    name = clean_text(name)
    try:
        with path.open("rb") as file:
            data, changed = file.read(MAX_FILE + 1), os.fstat(file.fileno()).st_mtime
    except OSError as error:
        yield Unread(name, "the file", f"it cannot be read ({error.strerror}): check the file.")
        return
    if len(data) > MAX_FILE:
        yield Unread(name, "the file", f"it has more than {MAX_FILE} bytes: split it.")
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Unread(name, f"line {data[: error.start].count(10) + 1}", "it is not UTF-8: save it as UTF-8.")
        return
    yield from read_safely(_notes(text.replace("\r\n", "\n"), name, changed), name, "the file")


def _notes(text: str, name: str, changed: float) -> Iterator[Found]:
    fields, body, line = _frontmatter(text)
    title = _words(fields.get("title"))
    value = fields.get("tags", fields.get("tag"))
    listed = value if isinstance(value, list) else re.split(r"[,\s]+", value) if isinstance(value, str) else []
    tags = [clean_text(each).lstrip("#")[:100] for each in listed if each.strip("# ")][:20]
    folder = name.rpartition("/")[0]
    tag = folder or (tags[0] if tags else "notes")
    metadata, note = clean_metadata({**({"title": title} if title else {}), **({"tags": tags} if tags else {})})
    at = _date(fields, changed)
    seen: dict[str, int] = {}
    for section in _sections(body, line):
        slug = "/".join(filter(None, (_SLUG.sub("-", each.casefold()).strip("-") for each in section.headings)))
        seen[slug] = seen.get(slug, 0) + 1
        key = f"{name}#{slug}" if slug else name
        key = key if seen[slug] == 1 else f"{key}-{seen[slug]}"
        headings = [each for each in (title, *section.headings) if each]
        head = " › ".join(dict.fromkeys(headings))
        yield from split_entry(Entry(
            f"{head}\n\n{section.text}" if head else section.text, name, f"line {section.line}",
            kind="note", tag=tag, key=key, metadata=metadata, at=at, note=note,
        ), _NOTE)  # fmt: skip
    if not seen:
        yield Unread(name, "the file", "there is no text in it.", "skipped")


def _sections(text: str, first: int) -> Iterator[Section]:
    """The parts of a text between its headings that say something; what looks like a heading in a block of code is none."""
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    began, fence = first, ""
    given = [*text.split("\n"), ""]
    for number, line in enumerate(given, first):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else mark[1]
        heading = None if fence or mark else _HEADING.match(line)
        last = number == first + len(given) - 1
        if heading is None and not last:
            lines.append(line)
            continue
        body = "\n".join(lines).strip("\n")
        if body.strip():
            yield Section(tuple(name for _, name in headings), began, body)
        if heading is not None:
            depth = len(heading[1])
            bare = line[heading.end() :].rstrip(" \t")
            open_ = bare.rstrip("#")
            words = (open_ if not open_ or open_[-1].isspace() else bare).split()  # '# C#' ends with its name
            name = " ".join(words)[:_LONGEST].rstrip()
            headings = [*((level, name) for level, name in headings if level < depth), (depth, name)]
        lines, began = [], number


def _frontmatter(text: str) -> tuple[dict[str, Any], str, int]:
    """The simple fields in front of a text, the text, and the line on which it begins."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:200], 1) if line.rstrip() in ("---", "...")), None)
    if lines[0].rstrip() != "---" or end is None:
        return {}, text, 1
    fields: dict[str, Any] = {}
    name = ""
    for line in lines[1:end]:
        if match := _FIELD.match(line):
            name = match[1].strip().lower()
            fields[name] = _value(match[2])
        elif name and line.lstrip().startswith("- "):
            held = fields[name]
            fields[name] = [*(held if isinstance(held, list) else []), _bare(line.lstrip()[2:])]
    return fields, "\n".join(lines[end + 1 :]), end + 2


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_bare(each) for each in text[1:-1].split(",") if each.strip()]
    return _bare(text)


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _words(value: Any) -> str:
    return clean_text(value)[:200] if isinstance(value, str) else ""


def _date(fields: dict[str, Any], changed: float) -> datetime | None:
    """When a note is of: as it says itself, else when its file was last changed."""
    given = (time_of(fields[name]) for name in _DATES if isinstance(fields.get(name), str))
    return next((at for at in given if at is not None), time_of(changed))
