"""KeepstoneMemoryTool, AsyncKeepstoneMemoryTool: Claude's memory tool with keepstone behind it.

client.beta.messages.tool_runner(model=…, max_tokens=…, messages=…, tools=[KeepstoneMemoryTool(memory)]).until_done()
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from anyio.to_thread import run_sync

from keepstone.errors import Conflict, ValidationError
from keepstone.integrations.document_store import Document, DocumentStore, Path
from keepstone.text.words import has_visible_text

ROOT = "/memories"
_MAX_LINES = 999_999
_NUMBER_WIDTH = len(str(_MAX_LINES))
_MAX_NAME_BYTES = 255  # bytes, as in most file systems
_DIRECTORY_BYTES = 4096  # shown for a directory, as on most disks
_LISTED_LEVELS = 2


class KeepstoneMemoryTool(BetaAbstractMemoryTool):
    """The files that Claude keeps under /memories, in one scope: found by recall, with a history, in the audit log.

    `memory` is a Memory, an AsyncMemory or a Client. Threads may share the tool; of two processes that edit one version of a
    file, the later is refused."""

    def __init__(self, memory: Any, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._documents = DocumentStore(memory, "memory_tool")
        self._lock = threading.Lock()

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """A file with line numbers, or what is in a directory, two levels deep. Raises ToolError."""
        path, view_range = command.path, command.view_range
        where = resolve_path(path)
        held = self._require(where, path)
        if not isinstance(held, Document):
            listed = "\n".join(f"{size}\t{name}" for size, name in list_directory(path, where, self._documents.list(where)))
            said = f"Here're the files and directories up to {_LISTED_LEVELS} levels deep in {path}, excluding hidden items:"
            return f"{said}\n{listed}"
        lines = _content(held).split("\n")
        if len(lines) > _MAX_LINES:
            raise ToolError(f"File {path} exceeds maximum line limit of {_MAX_LINES:,} lines.")
        first = 0
        if view_range is not None and not (
            isinstance(view_range, (list, tuple)) and all(type(each) is int for each in view_range)
        ):
            raise ToolError(
                f"view_range is {view_range!r:.40}: give the numbers of the first and of the last line, -1 for the end."
            )
        if view_range and len(view_range) == 2:
            first, last = max(1, view_range[0]) - 1, view_range[1]
            lines = lines[first : len(lines) if last == -1 else last]
        return f"Here's the content of {path} with line numbers:\n" + number_lines(lines, first + 1)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """A new file, and the directories it is in. Raises ToolError, also if there is one already."""
        path = command.path
        where, text = resolve_path(path), check_text(command.file_text, "file_text")
        with self._lock, _as_tool_errors(path):
            self._check_place(where, path)
            if self._stat(where):
                raise ToolError(f"File {path} already exists")
            try:
                self._write(where, path, text, 0)
            except Conflict:
                raise ToolError(f"File {path} already exists") from None
        return f"File created successfully at: {path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that stands in a file once. Raises ToolError."""
        path = command.path
        where, old, new = resolve_path(path), check_text(command.old_str, "old_str"), check_text(command.new_str, "new_str")
        with self._lock, _as_tool_errors(path):
            held = self._file(where, path)
            content = _content(held)
            count = content.count(old)
            if count == 0:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if count > 1:
                lines = ", ".join(str(line) for line in _lines_with(content, old))
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                    "Please ensure it is unique"
                )
            line = content.count("\n", 0, content.find(old))
            stored = self._write(where, path, content.replace(old, new), held.version).split("\n")
        first = max(0, line - 2)
        edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        return edited + number_lines(stored[first : line + 3], first + 1)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put a text after a line; 0 is before the first. Raises ToolError."""
        path, line = command.path, command.insert_line
        where, text = resolve_path(path), check_text(command.insert_text, "insert_text")
        if isinstance(line, bool) or not isinstance(line, int):
            raise ToolError(f"Invalid `insert_line` parameter: {line!r:.40}. It should be a whole number.")
        with self._lock, _as_tool_errors(path):
            held = self._file(where, path)
            lines = _content(held).split("\n")
            if lines[-1] == "":
                lines.pop()  # what a last line's end leaves
            if line < 0 or line > len(lines):
                raise ToolError(f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}].")
            lines.insert(line, text.rstrip("\n"))
            content = "\n".join(lines)
            self._write(where, path, content if content.endswith("\n") else content + "\n", held.version)
        return f"The file {path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Erase a file with its history, or a directory with all that is in it. Raises ToolError."""
        path = command.path
        where = resolve_path(path)
        if not where:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        with self._lock, _as_tool_errors(path):
            held = self._stat(where)
            if not held:
                raise ToolError(f"The path {path} does not exist")
            self._keep(where[:-1])
            for each in [where] if isinstance(held, Document) else self._documents.paths(where):
                self._documents.delete(each)
        return f"Successfully deleted {path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a directory with all that is in it, and create the directories of the new path. Raises ToolError."""
        old, new = command.old_path, command.new_path
        source, target = resolve_path(old), resolve_path(new)
        if not source:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        with self._lock, _as_tool_errors(old):
            if self._stat(target):
                raise ToolError(f"The destination {new} already exists")
            held, inside = self._stat(source), target[:-1][: len(source)] == source
            if not held and not inside:
                with suppress(ToolError):  # the directories are made all the same, where they can be
                    self._check_place(target[:-1], new)
                    self._keep(target[:-1])
            if not held:
                raise ToolError(f"The path {old} does not exist")
            self._check_place(target, new)
            if inside:
                raise ToolError(f"The directory {old} cannot be moved into itself, to {new}")
            self._keep(source[:-1])
            self._move([held] if isinstance(held, Document) else list(self._documents.list(source)), source, target, new)
        return f"Successfully renamed {old} to {new}"

    def clear_all_memory(self) -> str:
        """Erase every file of this scope."""
        with self._lock, _as_tool_errors(ROOT):
            for each in self._documents.paths():
                self._documents.delete(each)
        return "All memory cleared"

    # -- parts ----------------------------------------------------------------------------------------------------
    def _stat(self, where: Path) -> Document | bool:
        """What a path names: a file's document, True for a directory, False for nothing."""
        held = self._documents.get(where) if where else None
        if held is not None:
            return _marks_directory(held) or held
        return not where or any(True for _ in self._documents.list(where, limit=1))

    def _require(self, where: Path, path: str) -> Document | bool:
        held = self._stat(where)
        if not held:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return held

    def _file(self, where: Path, path: str) -> Document:
        held = self._require(where, path)
        if not isinstance(held, Document):
            raise ToolError(f"The path {path} is not a file.")
        return held

    def _check_place(self, where: Path, path: str) -> None:
        """Check that a path can be used: its names are not too long, and it is not inside a file."""
        if any(len(name.encode("utf-8")) > _MAX_NAME_BYTES for name in where):
            raise ToolError(f"The path {path} has a name of more than {_MAX_NAME_BYTES} bytes: use shorter names.")
        for part in (where[:length] for length in range(1, len(where))):
            held = self._documents.get(part)
            if held is not None and not _marks_directory(held):
                raise ToolError(f"The path {path} cannot be used: {_format_path(part)} is a file, not a directory.")

    def _write(self, where: Path, path: str, text: str, version: int) -> str:
        """Replace a version of a file; returns the stored text."""
        found_by = text if has_visible_text(text) else _format_path(where)
        receipt = self._documents.put(where, {"content": text}, text=found_by, expected_version=version)
        if receipt.action != "redacted":
            return text
        stored = self._documents.get(where)
        if stored is not None and stored.path != where:
            self._documents.delete(where)  # its listed name would not find it
            raise ToolError(f"The path {path} holds sensitive data, which is not kept: use another name.")
        return text if stored is None else _content(stored)

    def _keep(self, where: Path) -> None:
        """Keep a directory when its files are deleted."""
        if where and self._documents.get(where) is None:
            with suppress(Conflict):  # another has made it, or a file
                self._documents.put(where, {"directory": True}, expected_version=0)

    def _move(self, found: Sequence[Document], source: Path, target: Path, new: str) -> None:
        """Write everything to the new path, then delete the old one, so that an interruption loses nothing."""
        for each in found:
            place = (*target, *each.path[len(source) :])
            if _marks_directory(each):
                self._keep(place)
            else:
                self._write(place, new, _content(each), 0)
        for each in found:
            now = self._documents.get(each.path)
            if now is not None and now.version != each.version:
                raise Conflict(f"{_format_path(each.path)!r:.80} was changed while it was moved: it is under both paths.")
            self._documents.delete(each.path)


def _in_thread(verb: str) -> Any:
    """A command of KeepstoneMemoryTool, called in a thread."""

    async def call(self: AsyncKeepstoneMemoryTool, *given: Any) -> Any:
        return await run_sync(getattr(self._tool, verb), *given)

    return call


class AsyncKeepstoneMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for AsyncAnthropic; the store is called in a thread."""

    def __init__(self, memory: Any, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = KeepstoneMemoryTool(memory)

    view, create, str_replace = _in_thread("view"), _in_thread("create"), _in_thread("str_replace")
    insert, delete, rename = _in_thread("insert"), _in_thread("delete"), _in_thread("rename")
    clear_all_memory = _in_thread("clear_all_memory")


def resolve_path(path: str) -> Path:
    """The names of a path below /memories; ToolError for one that is not there. Nothing is read for it: there are no links."""
    if not check_text(path, "path").startswith(ROOT):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    if "\0" in path:
        raise ToolError("The path holds a character that no name can have (NUL): remove it.")
    parts = [ROOT]
    for name in (name for name in path[len(ROOT) :].split("/") if name not in ("", ".")):
        if name != "..":
            parts.append(name if parts else f"/{name}")  # /memories/../memories/x is allowed
        elif parts:
            parts.pop()
        else:
            break
    else:
        if parts[:1] == [ROOT]:
            return tuple(parts[1:])
    raise ToolError(f"Path {path} would escape {ROOT} directory")


def check_text(value: Any, name: str) -> str:
    """A text that a model has sent. ToolError if it is no text, or has a lone surrogate, which UTF-8 cannot encode."""
    if not isinstance(value, str):
        raise ToolError(f"{name} is {'missing' if value is None else f'{value!r:.40}'}: give it as text.")
    if value.encode("utf-8", "replace").decode("utf-8") != value:
        raise ToolError(f"The {name} holds a character that no text can have (half a surrogate pair): remove it.")
    return value


def list_directory(path: str, where: Path, documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """What is in a directory, two levels deep: (size, name), in the order of the names; hidden ones are left out."""
    sizes: dict[Path, int | None] = {}
    for document in documents:
        inner = document.path[len(where) :]
        shown = tuple(takewhile(lambda name: not name.startswith("."), inner[:_LISTED_LEVELS]))
        for length in range(1, len(shown) + 1):
            sizes.setdefault(shown[:length], None)
        if shown == inner and not _marks_directory(document):
            sizes[inner] = len(_content(document).encode("utf-8"))
    yield format_size(_DIRECTORY_BYTES), path
    for inner in sorted(sizes):
        held = sizes[inner]
        name = f"{path}/{'/'.join(inner)}"
        yield (format_size(_DIRECTORY_BYTES), f"{name}/") if held is None else (format_size(held), name)


def number_lines(lines: Sequence[str], first: int) -> str:
    """Lines with their numbers, as they are shown to a model."""
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def format_size(count: int) -> str:
    """Bytes in the unit that fits.

    >>> format_size(0), format_size(1000), format_size(1536), format_size(4096)
    ('0B', '1000B', '1.5K', '4K')
    """
    power = min(max(0, count.bit_length() - 1) // 10, 3)
    number = count / 1024**power
    return f"{int(number) if number == int(number) else f'{number:.1f}'}{'BKMG'[power]}"


def _lines_with(content: str, text: str) -> Iterator[int]:
    """The line of every occurrence of a text, overlapping ones included."""
    line, seen = 1, 0
    at = content.find(text)
    while at != -1:
        line += content.count("\n", seen, at)
        seen = at
        yield line
        at = content.find(text, at + 1)


def _format_path(where: Path) -> str:
    return "/".join((ROOT, *where))


def _content(document: Document) -> str:
    return str(document.value.get("content", "")) if isinstance(document.value, dict) else ""


def _marks_directory(document: Document) -> bool:
    return isinstance(document.value, dict) and "directory" in document.value


@contextmanager
def _as_tool_errors(path: str) -> Iterator[None]:
    """Turn errors of the store into errors for the model."""
    try:
        yield
    except Conflict:
        raise ToolError(f"The file {path} was changed by another in the meantime: view it again, then repeat the edit.") from None
    except ValidationError as error:
        raise ToolError(f"The file {path} was not stored: {error}") from None
