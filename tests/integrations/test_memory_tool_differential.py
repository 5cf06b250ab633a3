"""The memory tool against the SDK's own for a folder: the same commands, the same answers and errors, the same files at the end.

What is not compared, and why:
- the size shown for a directory: it is the file system's own (ours is that of most disks, 4K);
- the text of what the SDK's tool lets through from the operating system (OSError, ValueError: a name that is too long, a file
  where a directory is needed, a NUL in a path): it tells of the machine. Ours is a ToolError that says what is wrong;
- new, empty directories that the SDK's tool has made before the operating system refused: ours need not have them.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaAsyncLocalFilesystemMemoryTool, BetaLocalFilesystemMemoryTool
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keepstone import Memory
from keepstone.integrations.anthropic import AsyncKeepstoneMemoryTool, KeepstoneMemoryTool
from keepstone.integrations.document_store import DocumentStore

Command = dict[str, Any]

NAMES = [
    "a", "b", "c", "notes.md", "a.md", ".hidden", "..", ".", "...", " ", "a b", "~", "#1", "-", "back\\slash", "..\\x", "%2e%2e",
    "x%2fy", "ü", "u\u0308", "日本語", "🙂", "\u200b", "x\ny", "\r", "C:", "x" * 255, "ü" * 127, "ü" * 128, "x" * 256, "n\0l",
]  # fmt: skip
STARTS = ["/memories/"] * 12 + [
    "/memories", "/memories//", "/memories/../", "/memories/../memories/", "/memories/./", "memories/", "/", "", "/memorie/",
    "/etc/", "\\memories\\", "/memories/../../memories/", "/memories/a/../../memories/b/",
]  # fmt: skip
FEW = st.sampled_from(NAMES[:6])
names = st.one_of(
    FEW, FEW, FEW, st.sampled_from(NAMES), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\t"), max_size=4)
)
paths = st.builds(
    lambda start, inner, end: start + "/".join(inner) + end,
    st.sampled_from(STARTS),
    st.lists(names, max_size=4),
    st.sampled_from(["", "", "", "", "", "/", "//", "/."]),
)
plain_paths = st.builds(lambda inner: "/memories/" + "/".join(inner), st.lists(FEW, min_size=1, max_size=3))
some_path = st.one_of(plain_paths, plain_paths, paths)
PIECES = [
    "a",
    "b",
    "aa",
    "ab",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "ü",
    "u\u0308",
    "🙂",
    "日本",
    "line one\n",
    "line two\n",
    "\u2028",
    "\x0b",
    "\x0c",
    "\x85",
    "\0",
]
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
)
numbers = st.integers(-3, 14)
commands = st.one_of(
    st.builds(lambda path, text: {"command": "create", "path": path, "file_text": text}, some_path, texts),
    st.builds(lambda path, text: {"command": "create", "path": path, "file_text": text}, some_path, texts),
    st.builds(
        lambda path, range: {"command": "view", "path": path, "view_range": range},
        st.one_of(some_path, st.just("/memories")),
        st.one_of(st.none(), st.lists(numbers, min_size=2, max_size=2), st.lists(numbers, max_size=3)),
    ),
    st.builds(
        lambda path, old, new: {"command": "str_replace", "path": path, "old_str": old, "new_str": new},
        some_path, st.one_of(st.sampled_from(PIECES), st.just(""), texts), texts,
    ),
    st.builds(
        lambda path, line, text: {"command": "insert", "path": path, "insert_line": line, "insert_text": text},
        some_path, numbers, texts,
    ),
    st.builds(lambda path: {"command": "delete", "path": path}, some_path),
    st.builds(lambda old, new: {"command": "rename", "old_path": old, "new_path": new}, some_path, some_path),
)  # fmt: skip
everything = st.one_of(commands, commands, commands, commands, st.just({"command": "clear"}))


def create(path: str, text: str) -> Command:
    return {"command": "create", "path": path, "file_text": text}


def rename(old: str, new: str) -> Command:
    return {"command": "rename", "old_path": old, "new_path": new}


def view(path: str) -> Command:
    return {"command": "view", "path": path}


DEEP = [
    create("/memories/a/b/c/d.md", "deep"),
    create("/memories/a/.b/c", "hidden"),
    create("/memories/a/z", "x" * 1536),
    view("/memories/"),
]
LEFT = [
    create("/memories/a/b/c", "x"),
    {"command": "delete", "path": "/memories/a/b/c"},
    view("/memories"),
    create("/memories/a/b/c", "y"),
]
INTO = [
    create("/memories/a/b", "x"),
    rename("/memories/a", "/memories/a/c/d"),
    rename("/memories/a/b", "/memories/a/b/c"),
    view("/memories"),
]
NOWHERE = [
    rename("/memories/a", "/memories/a/b"),
    rename("/memories/b/c", "/memories/b/c"),
    rename("/memories/a", "/memories/x/y/z"),
    view("/memories"),
    rename("/memories/x", "/memories/q/x"),
    view("/memories/q"),
]
UNDER = [
    create("/memories/a", "x"),
    create("/memories/a/b", "y"),
    create("/memories/a/b/c", "y"),
    view("/memories/a/b"),
    rename("/memories/a/b", "/memories/c"),
]
OVERLAP = [create("/memories/a", "aaaa\naa"), {"command": "str_replace", "path": "/memories/a", "old_str": "aa", "new_str": ""}]
EMPTY = [
    create("/memories/a", ""),
    {"command": "str_replace", "path": "/memories/a", "old_str": "", "new_str": "b"},
    view("/memories/a"),
]


@given(st.lists(everything, min_size=1, max_size=25))
@example(DEEP)
@example(LEFT)
@example(INTO)
@example(NOWHERE)
@example(UNDER)
@example(OVERLAP)
@example(EMPTY)
def test_the_same_commands_have_the_same_answers(sequence: list[Command]) -> None:
    compare(sequence, BetaLocalFilesystemMemoryTool, KeepstoneMemoryTool, called)


@settings(max_examples=30)
@given(st.lists(everything, min_size=1, max_size=25))
@example(DEEP)
@example(NOWHERE)
def test_the_async_tool_has_the_same_answers(sequence: list[Command]) -> None:
    compare(sequence, BetaAsyncLocalFilesystemMemoryTool, AsyncKeepstoneMemoryTool, lambda *given: asyncio.run(acalled(*given)))


def test_long_files_are_the_same(tmp_path: Path) -> None:
    """Past what fits a record: half a megabyte with wide characters, and more lines than are shown."""
    long = "".join(f"{number} ü🙂 {'x' * 90}\n" for number in range(5000))
    path = "/memories/long.txt"
    edits: list[Command] = [
        create(path, long),
        {"command": "view", "path": path, "view_range": [4998, -1]},
        {"command": "str_replace", "path": path, "old_str": "\n2500 ü", "new_str": "\n2500\r\nü"},
        {"command": "insert", "path": path, "insert_line": 5001, "insert_text": "the end"},
        view(path),
        view("/memories"),
        create("/memories/lines", "\n" * 999_999),
        view("/memories/lines"),
        create("/memories/fewer", "\n" * 999_998),
        {"command": "view", "path": "/memories/fewer", "view_range": [999_998, 999_999]},
    ]
    compare(edits, BetaLocalFilesystemMemoryTool, KeepstoneMemoryTool, called)


def compare(sequence: list[Command], theirs: type[Any], ours: type[Any], call: Callable[[Any, Command], tuple[str, str]]) -> None:
    folder = Path(tempfile.mkdtemp())
    with Memory.open(":memory:", embedder="none") as memory:
        try:
            reference, tool = theirs(base_path=str(folder)), ours(memory)
            for command in sequence:
                before = tree_in(folder / "memories")
                expected, got = call(reference, command), call(tool, command)
                if expected[0] == "failed":
                    assert got[0] == "error", (command, expected, got)
                    for made in sorted(
                        tree_in(folder / "memories").keys() - before.keys() - tree_of(memory).keys(), reverse=True
                    ):
                        folder.joinpath("memories", *made).rmdir()
                else:
                    assert got == expected, command
            assert tree_of(memory) == tree_in(folder / "memories")
        finally:
            shutil.rmtree(folder)


def called(tool: Any, command: Command) -> tuple[str, str]:
    try:
        said = tool.clear_all_memory() if command["command"] == "clear" else tool.call(command)
        return "said", sizeless(said)
    except ToolError as error:
        return "error", str(error.content)
    except (OSError, ValueError) as error:
        return "failed", repr(error)


async def acalled(tool: Any, command: Command) -> tuple[str, str]:
    try:
        said = await (tool.clear_all_memory() if command["command"] == "clear" else tool.call(command))
        return "said", sizeless(said)
    except ToolError as error:
        return "error", str(error.content)
    except (OSError, ValueError) as error:
        return "failed", repr(error)


def sizeless(said: str) -> str:
    """A listing without the sizes of directories: the one that is listed, and those whose lines end with a slash."""
    if not said.startswith("Here're the files"):
        return said
    return re.sub(r"(?m)^[\d.]+[BKMG](?=\t[^\t]*/$)", "", re.sub(r"(items:\n)[\d.]+[BKMG]", r"\1", said))


def tree_in(folder: Path) -> dict[tuple[str, ...], str | None]:
    """Files with what they say, directories with None."""
    return {each.relative_to(folder).parts: None if each.is_dir() else each.read_bytes().decode() for each in folder.rglob("*")}


def tree_of(memory: Memory) -> dict[tuple[str, ...], str | None]:
    tree: dict[tuple[str, ...], str | None] = {}
    for document in DocumentStore(memory, "memory_tool").list():
        tree |= {document.path[:length]: tree.get(document.path[:length]) for length in range(1, len(document.path))}
        tree[document.path] = document.value.get("content")
    return tree
