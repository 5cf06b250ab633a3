"""Claude's memory tool on a store: over the official client, found by recall, with a history, each user's own, by several.

That its answers are those of the SDK's own tool is told by test_memory_tool_differential.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic.lib.tools import ToolError

from keepstone import AsyncClient, AsyncMemory, Client, Memory
from keepstone.errors import ConfigurationError, Conflict
from keepstone.integrations.anthropic import AsyncKeepstoneMemoryTool, KeepstoneMemoryTool
from keepstone.integrations.document_store import DocumentStore
from tests.models.endpoint import Endpoint, Request, Step, said, say, together, use
from tests.server.running import running

SECRET = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl"


@pytest.fixture
def tool(memory: Memory) -> KeepstoneMemoryTool:
    return KeepstoneMemoryTool(memory)


def create(tool: KeepstoneMemoryTool, path: str, text: str) -> Any:
    return tool.call({"command": "create", "path": path, "file_text": text})


def replace(tool: KeepstoneMemoryTool, path: str, old: str, new: str) -> Any:
    return tool.call({"command": "str_replace", "path": path, "old_str": old, "new_str": new})


def view(tool: KeepstoneMemoryTool, path: str = "/memories") -> Any:
    return tool.call({"command": "view", "path": path})


# -- the verbs ------------------------------------------------------------------------------------------------------
def test_every_verb(tool: KeepstoneMemoryTool) -> None:
    assert create(tool, "/memories/team/notes.md", "one\ntwo\nthree\n") == "File created successfully at: /memories/team/notes.md"
    with pytest.raises(ToolError, match=r"^File /memories/team/notes\.md already exists$"):
        create(tool, "/memories/team/notes.md", "again")
    assert view(tool) == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
        "4K\t/memories\n4K\t/memories/team/\n14B\t/memories/team/notes.md"
    )
    assert replace(tool, "/memories/team/notes.md", "two", "zwei") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tone\n     2\tzwei\n     3\tthree\n     4\t"
    )
    inserted = {"command": "insert", "path": "/memories/team/notes.md", "insert_line": 0, "insert_text": "zero\n"}
    assert tool.call(inserted) == "The file /memories/team/notes.md has been edited."
    assert tool.call({"command": "view", "path": "/memories/team/notes.md", "view_range": [1, 2]}) == (
        "Here's the content of /memories/team/notes.md with line numbers:\n     1\tzero\n     2\tone"
    )
    moved = {"command": "rename", "old_path": "/memories/team", "new_path": "/memories/crew"}
    assert tool.call(moved) == "Successfully renamed /memories/team to /memories/crew"
    assert tool.call({"command": "delete", "path": "/memories/crew/notes.md"}) == "Successfully deleted /memories/crew/notes.md"
    assert view(tool).endswith("4K\t/memories\n4K\t/memories/crew/"), "a directory stays when it is empty"
    assert tool.clear_all_memory() == "All memory cleared"
    assert view(tool).endswith(":\n4K\t/memories")


@pytest.mark.parametrize(
    "asked",
    [
        "/memories/../x", "/memories/a/../../x", "/memories/../../memories/x", "/memories..", "/etc/passwd", "notes.md", "",
        "/memories/\0",
    ],
    ids=["above", "above-in-between", "far-above", "above-without-a-slash", "elsewhere", "relative", "empty", "nul"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(memory: Memory, tool: KeepstoneMemoryTool, asked: str) -> None:
    for command in ("view", "delete"):
        with pytest.raises(ToolError):
            tool.call({"command": command, "path": asked})
    with pytest.raises(ToolError):
        create(tool, asked, "out of here")
    assert not memory.list()


def test_what_looks_like_a_way_out_is_a_name(tool: KeepstoneMemoryTool) -> None:
    for name in ("%2e%2e%2fx", "..\\x", "C:\\x", "~", "file:"):
        create(tool, f"/memories/{name}", "inside")
        assert view(tool, f"/memories/{name}").endswith("\tinside")


def test_options_of_the_sdk_go_through(memory: Memory) -> None:
    tool = KeepstoneMemoryTool(memory, cache_control={"type": "ephemeral"})
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    assert AsyncKeepstoneMemoryTool(memory).to_dict() == {"type": "memory_20250818", "name": "memory"}


# -- over the official client -----------------------------------------------------------------------------------------
def script(request: Request) -> Step:
    """A model that writes down what it is told, and looks at it when it is asked."""
    body = request["body"]
    asked = body["messages"][-1]["content"]
    if not isinstance(asked, str):
        return say(f"The tool said: {said(request)}")
    assert body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    if asked.endswith("?"):
        return use("memory", {"command": "view", "path": "/memories/user.md"})
    first = use("memory", {"command": "create", "path": "/memories/user.md", "file_text": asked})
    return together(first, use("memory", {"command": "delete", "path": "/memories/none"}))


def test_the_tool_runner_runs_it(path: Path) -> None:
    with Endpoint(script) as endpoint:
        client = anthropic.Anthropic(base_url=endpoint.url, api_key="k", max_retries=0)

        def ask(memory: Memory, text: str) -> str:
            run = client.beta.messages.tool_runner(
                model="claude-test",
                max_tokens=100,
                messages=[{"role": "user", "content": text}],
                tools=[KeepstoneMemoryTool(memory)],
            )
            return "".join(block.text for block in run.until_done().content if block.type == "text")

        with Memory.open(path) as memory:
            told = ask(memory, "Dana prefers dark mode.")
            assert "File created successfully at: /memories/user.md" in told
            assert "The path /memories/none does not exist" in told
        results = endpoint.requests[-1]["body"]["messages"][-1]["content"]
        assert [result.get("is_error", False) for result in results] == [False, True]
        with Memory.open(path) as memory:  # another process, later
            assert "     1\tDana prefers dark mode." in ask(memory, "Which theme?")


def test_the_async_tool_runner_runs_it(path: Path) -> None:
    async def go(endpoint: Endpoint) -> str:
        client = anthropic.AsyncAnthropic(base_url=endpoint.url, api_key="k", max_retries=0)
        async with client, AsyncMemory.open(path) as memory:
            told = ""
            for text in ("Dana prefers dark mode.", "Which theme?"):
                run = client.beta.messages.tool_runner(
                    model="claude-test", max_tokens=100, messages=[{"role": "user", "content": text}],
                    tools=[AsyncKeepstoneMemoryTool(memory)],
                )  # fmt: skip
                told += "".join(block.text for block in (await run.until_done()).content if block.type == "text")
            return told

    with Endpoint(script) as endpoint:
        told = asyncio.run(go(endpoint))
    assert "File created successfully at: /memories/user.md" in told
    assert "     1\tDana prefers dark mode." in told


# -- as memories ------------------------------------------------------------------------------------------------------
def test_recall_finds_what_a_file_says(memory: Memory, tool: KeepstoneMemoryTool) -> None:
    create(tool, "/memories/prefs.md", "Dana prefers dark mode in every editor.\n")
    create(tool, "/memories/empty.md", "")
    hit = memory.recall("Which theme does Dana like?")[0]
    assert hit.content == "Dana prefers dark mode in every editor.\n"
    assert (hit.record.kind, hit.record.source, hit.record.metadata["path"]) == ("memory_tool", "agent", ["prefs.md"])
    replace(tool, "/memories/prefs.md", "dark", "light")
    assert [version.content for version in memory.history(hit.id)] == [
        "Dana prefers dark mode in every editor.\n",
        "Dana prefers light mode in every editor.\n",
    ]
    tool.call({"command": "delete", "path": "/memories/prefs.md"})
    assert not any("editor" in each.content for each in memory.recall("Which theme does Dana like?"))
    assert {"remember", "update", "forget"} <= {row.verb for row in memory.audit()}


def test_each_user_has_files_of_their_own(memory: Memory) -> None:
    ann, bob = (KeepstoneMemoryTool(memory.with_scope(user=name)) for name in ("ann", "bob"))
    create(ann, "/memories/notes.md", "Ann's")
    create(bob, "/memories/notes.md", "Bob's")
    assert view(ann, "/memories/notes.md").endswith("\tAnn's")
    ann.clear_all_memory()
    assert view(bob, "/memories/notes.md").endswith("\tBob's")
    with pytest.raises(ToolError, match="does not exist"):
        view(ann, "/memories/notes.md")


def test_the_files_are_there_after_a_restart(path: Path) -> None:
    wide = "ü🙂\r\n" * 9000
    with Memory.open(path) as memory:
        tool = KeepstoneMemoryTool(memory)
        create(tool, "/memories/a/wide.txt", wide)
        create(tool, "/memories/b/c", "x")
        tool.call({"command": "delete", "path": "/memories/b/c"})
    with Memory.open(path) as memory:
        tool = KeepstoneMemoryTool(memory)
        assert "70.3K\t/memories/a/wide.txt" in view(tool)
        assert "4K\t/memories/b/" in view(tool)
        assert view(tool, "/memories/a/wide.txt").count("\tü🙂\r") == 9000


# -- what is not kept ---------------------------------------------------------------------------------------------------
def test_secrets_are_taken_out_of_files(path: Path, memory: Memory, tool: KeepstoneMemoryTool) -> None:
    told = create(tool, "/memories/keys.md", f"The key is {SECRET}.\nIt is Dana's.\n")
    assert told == "File created successfully at: /memories/keys.md"
    assert "     1\tThe key is [redacted:secret].\n     2\tIt is Dana's." in view(tool, "/memories/keys.md")
    assert "[redacted:secret]" in replace(tool, "/memories/keys.md", "Dana's", f"{SECRET} too")
    memory.close()
    assert all(SECRET.encode() not in each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def test_a_name_that_is_sensitive_is_refused(tool: KeepstoneMemoryTool) -> None:
    with pytest.raises(ToolError, match="sensitive"):
        create(tool, "/memories/card 4111 1111 1111 1111.md", "Dana's card")
    assert view(tool).endswith(":\n4K\t/memories")


def test_a_file_that_is_refused_is_told(path: Path) -> None:
    with Memory.open(path, settings={"sensitive": {"secret": "refuse"}}) as memory:
        tool = KeepstoneMemoryTool(memory)
        with pytest.raises(ToolError, match=r"keys.md was not stored: the document was refused: .*secret") as caught:
            create(tool, "/memories/keys.md", f"The key is {SECRET}.")
        assert SECRET not in str(caught.value)
        assert view(tool).endswith(":\n4K\t/memories")


# -- several at once ----------------------------------------------------------------------------------------------------
def test_no_edit_of_two_is_lost(path: Path) -> None:
    """Each puts a line at the top, ten times, and looks again when it was told to."""

    def write(memory: Memory, name: str) -> None:
        tool, done = KeepstoneMemoryTool(memory), 0
        while done < 10:
            try:
                tool.call({"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": f"{name}{done}"})
                done += 1
            except ToolError as error:
                if "view it again" not in str(error):
                    raise

    with Memory.open(path) as one, Memory.open(path) as other, ThreadPoolExecutor(2) as threads:
        create(KeepstoneMemoryTool(one), "/memories/log", "")
        list(threads.map(write, (one, other), "ab"))
        shown = view(KeepstoneMemoryTool(one), "/memories/log")
    lines = [line.partition("\t")[2] for line in shown.splitlines()[1:]]
    assert sorted(filter(None, lines)) == sorted(f"{name}{number}" for name in "ab" for number in range(10))


def test_of_two_that_create_a_file_one_does(path: Path) -> None:
    with Memory.open(path) as one, Memory.open(path) as other:
        tools = [KeepstoneMemoryTool(one), KeepstoneMemoryTool(other)]
        for number in range(20):
            told: list[str] = []
            gate = threading.Barrier(2)

            def make(who: int, name: str = f"/memories/{number}", told: list[str] = told, gate: threading.Barrier = gate) -> None:
                gate.wait()
                try:
                    told.append(create(tools[who], name, f"of {who}"))
                except ToolError as error:
                    told.append(str(error))

            threads = [threading.Thread(target=make, args=(who,)) for who in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(told) == [
                f"File /memories/{number} already exists",
                f"File created successfully at: /memories/{number}",
            ]


def test_an_edit_of_what_another_changed_is_refused(
    memory: Memory, tool: KeepstoneMemoryTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tool, "/memories/a", "one")
    held = tool._documents.get(("a",))
    replace(KeepstoneMemoryTool(memory), "/memories/a", "one", "two")
    monkeypatch.setattr(tool, "_file", lambda *_: held)  # what was read before the other came
    with pytest.raises(ToolError, match="view it again"):
        replace(tool, "/memories/a", "one", "three")
    assert view(tool, "/memories/a").endswith("\ttwo")


def test_a_file_can_be_made_again_where_one_was(tool: KeepstoneMemoryTool) -> None:
    for text in ("first", "second", "first"):
        create(tool, "/memories/a", text)
        tool.call({"command": "delete", "path": "/memories/a"})
    create(tool, "/memories/a", "third")
    assert view(tool, "/memories/a").endswith("\tthird")


def test_a_document_is_stored_over_the_expected_version(memory: Memory) -> None:
    documents = DocumentStore(memory, "things")
    first = documents.put(("a",), {"n": 1}, text="one", expected_version=0)
    with pytest.raises(Conflict):
        documents.put(("a",), {"n": 2}, text="two", expected_version=0)
    second = documents.put(("a",), {"n": 2}, text="two", expected_version=first.version)
    with pytest.raises(Conflict):
        documents.put(("a",), {"long": "x" * 50_000}, text="three", expected_version=first.version)
    third = documents.put(("a",), {"n": 3}, expected_version=second.version)  # found by nothing from now on
    held = documents.get(("a",))
    assert held is not None
    assert (held.value, held.text, held.version) == ({"n": 3}, "", third.version)
    assert [each.metadata["value"]["n"] for each in memory.history(held.id)] == [1, 2, 3]


# -- on a server --------------------------------------------------------------------------------------------------------
@pytest.fixture
def client(path: Path) -> Iterator[Client]:
    with (
        Memory.open(path) as memory,
        running(memory) as server,
        Client(server.url, server.key("alice", rights=("read", "write", "forget"))) as made,
    ):
        yield made


def test_it_works_on_a_server(client: Client) -> None:
    tool = KeepstoneMemoryTool(client)
    long = "".join(f"{number} is a number\n" for number in range(3000))
    create(tool, "/memories/long.md", long)
    replace(tool, "/memories/long.md", "\n1500 is", "\n1500 was")
    assert "  1501\t1500 was a number" in view(tool, "/memories/long.md")
    tool.call({"command": "rename", "old_path": "/memories/long.md", "new_path": "/memories/x/y.md"})
    with pytest.raises(ToolError, match=r"^File /memories/x/y\.md already exists$"):
        create(tool, "/memories/x/y.md", "")
    assert view(tool).splitlines()[2:] == ["4K\t/memories/x/", f"{(len(long) + 1) / 1024:.1f}K\t/memories/x/y.md"]
    assert client.recall("2 is a number")[0].record.metadata["path"] == ["x", "y.md"]


def test_an_async_client_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"pass a keepstone\.Client"):
        AsyncKeepstoneMemoryTool(AsyncClient("http://127.0.0.1:1", "k"))
