"""Claude's memory tool with whatever a model may send: no path leads out of its scope, no other scope's file is read or touched,
and nothing is raised but ToolError, whose text can be sent on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from hypothesis import example, given
from hypothesis import strategies as st

from keepstone import Memory
from keepstone.integrations.anthropic import KeepstoneMemoryTool, resolve_path
from keepstone.integrations.document_store import DocumentStore

CANARY = "zqcanaryzq"  # stands in what others have, and nowhere else
DOTS = (
    "..|.|...|%2e%2e|%2E%2E%2f|．．|‥|․․|..\u200b|\u202e..|..\\|..%00|..;|..%c0%af|. ."
).split("|")  # fmt: skip
NAMES = "a|b.md|secret.txt|omar|memories|etc|passwd|| |~|C:|ü|u\u0308|\0|\ud800|a\nb|xxxx".replace("xxxx", "x" * 300).split("|")
STARTS = (
    "/memories/|/memories|/memories/../memories/|/memories//|/memories/./|memories/|/||//memories/|/MEMORIES/|file:///memories/"
    f"|\\memories\\|/memories\0/|/memories/../|/memories/../../etc/|/memoriesx/|/memories/{'d/' * 400}|/memories/{'../' * 300}"
).split("|")
FIELDS = "path|file_text|old_str|new_str|insert_line|insert_text|old_path|new_path|view_range".split("|")

parts = st.one_of(st.sampled_from(NAMES[:5]), st.sampled_from(DOTS), st.sampled_from(NAMES), st.text(max_size=5))
starts = st.sampled_from(STARTS[:1] * 6 + STARTS)
paths = st.one_of(
    st.builds(lambda start, inner: start + "/".join(inner), starts, st.lists(parts, max_size=5)),
    st.text(max_size=40),
    st.text(max_size=10).map(lambda text: f"/memories/{text}"),
)
odd = st.text(st.sampled_from("ab \n\r\0\ud800\u2028"), max_size=20)
texts = st.one_of(st.text(max_size=60), odd, st.just("long line\n" * 3000))
numbers = st.one_of(st.integers(-3, 5), st.integers())
COMMANDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "view": {"path": paths, "view_range": st.none() | st.lists(numbers, max_size=3)},
    "create": {"path": paths, "file_text": texts},
    "str_replace": {"path": paths, "old_str": texts, "new_str": texts},
    "insert": {"path": paths, "insert_line": numbers, "insert_text": texts},
    "delete": {"path": paths},
    "rename": {"old_path": paths, "new_path": paths},
}
commands = st.one_of(*(st.fixed_dictionaries({"command": st.just(name), **fields}) for name, fields in COMMANDS.items()))


def written(memory: Memory) -> list[tuple[str, Any]]:
    """Everything that a scope holds: files, and what is remembered beside them."""
    found, cursor = [], None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        found += [(record.id, record.version, record.content, json.dumps(record.metadata)) for record in page]
        if (cursor := page.cursor) is None:
            return sorted(found)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    place = tmp_path_factory.mktemp("fuzz") / "memory.db"
    with Memory.open(place, user="dana", settings={"durable": False}) as opened:
        yield opened
        assert opened.upkeep.doctor().healthy


@pytest.fixture(scope="module")
def others(memory: Memory) -> list[Memory]:
    """Scopes that are not to be touched: another user, another agent, another tenant; each with files of the same names."""
    views = [memory.with_scope(user="omar"), memory.with_scope(agent="other"), memory.with_scope(tenant="elsewhere")]
    for view in views:
        tool = KeepstoneMemoryTool(view)
        for path in ("/memories/a", "/memories/secret.txt", "/memories/omar/b.md"):
            tool.call({"command": "create", "path": path, "file_text": f"{CANARY} a\nb"})
    return views


def called(tool: KeepstoneMemoryTool, command: Any) -> str:
    """The answer, or what the error says; any other error is a failure. Either can be put into the next request."""
    try:
        answer = tool.call(command)
    except ToolError as error:
        answer = str(error)
    assert isinstance(answer, str)
    answer.encode("utf-8")
    return answer


@given(sequence=st.lists(commands, min_size=1, max_size=8))
@example(sequence=[{"command": "create", "path": "/memories/\ud800", "file_text": "a"}])
@example(sequence=[{"command": "view", "path": "\ud800", "view_range": None}])
def test_no_command_leaves_its_scope(memory: Memory, others: list[Memory], sequence: list[dict[str, Any]]) -> None:
    before = [written(view) for view in others]
    tool = KeepstoneMemoryTool(memory)
    for command in sequence:
        assert CANARY not in called(tool, command), command
    assert [written(view) for view in others] == before
    for names in DocumentStore(memory, "memory_tool").paths():
        assert names, "the root is no file"
        assert not {"", ".", ".."} & set(names), names
        assert not any("/" in name or "\0" in name for name in names), names
        escape = "/".join(("/memories", *names))
        assert resolve_path(escape) == tuple(names), "a file that is listed is found by the name it is listed under"
        assert "does not exist" not in called(tool, {"command": "view", "path": escape})
    tool.clear_all_memory()
    assert DocumentStore(memory, "memory_tool").paths() == []
    assert [written(view) for view in others] == before


@given(path=paths)
def test_a_path_is_below_memories_or_it_is_refused(path: str) -> None:
    try:
        names = resolve_path(path)
    except ToolError:
        return
    assert path.startswith("/memories")
    assert not {"", ".", ".."} & set(names)
    assert not any("/" in name or "\0" in name for name in names)
    assert resolve_path("/".join(("/memories", *names))) == names


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers() | st.text(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip
fields = st.dictionaries(st.sampled_from(FIELDS), anything | paths, max_size=5)


@given(command=st.sampled_from(sorted(COMMANDS)), fields=fields)
def test_a_command_that_is_none_is_refused(memory: Memory, others: list[Memory], command: str, fields: dict[str, Any]) -> None:
    """What a model sends is not checked before: fields may be missing, or be of another type."""
    tool = KeepstoneMemoryTool(memory)
    assert CANARY not in called(tool, {"command": command, **fields})
    tool.clear_all_memory()


def test_what_others_have_is_there_to_be_found(others: list[Memory]) -> None:
    """The canary is one: its own scope reads it."""
    assert CANARY in called(KeepstoneMemoryTool(others[0]), {"command": "view", "path": "/memories/secret.txt"})


def test_it_is_not_a_folder_of_the_machine(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text(CANARY)
    tool = KeepstoneMemoryTool(memory)
    for path in (f"/memories/../../..{tmp_path}/real.txt", str(tmp_path / "real.txt"), f"/memories{tmp_path}/real.txt"):
        assert CANARY not in called(tool, {"command": "view", "path": path})
