"""The history of coding agents, imported: Claude Code, Codex, Gemini CLI and Cursor, in the shapes that they write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.backfill import UNKNOWN, measure
from keepstone import Memory, Record
from keepstone.cli.coding_agents.hooks import HookHandler
from keepstone.importing import ImportSummary, import_from
from keepstone.importing.project import find_past_project
from tests.cli.support import process
from tests.importing import samples

AT = "2025-03-01T09:00:00Z"
ONE = "11111111-2222-4333-8444-555555555555"
TWO = "22222222-2222-4333-8444-555555555555"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", user="dana") as memory:
        yield memory


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a remote."""
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "shop" / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/shop.git\n')
    return tmp_path / "shop"


def write_lines(path: Path, *lines: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def records(memory: Memory, agent: str = "project:github.com/acme/shop") -> list[Record]:
    """The messages of a project in their order, steps included."""
    view = memory.with_scope(agent=agent)
    return list(view.list(kind="message", limit=100))[::-1]


def said(memory: Memory, agent: str = "project:github.com/acme/shop") -> list[tuple[str | None, str, str]]:
    return [(record.role, record.tag, record.content) for record in records(memory, agent)]


def claude(role: str, id: str, content: Any, folder: Path, **fields: Any) -> dict[str, Any]:
    message = {"role": role, "content": content}
    return {"type": role, "uuid": id, "sessionId": ONE, "timestamp": AT, "cwd": str(folder), "message": message, **fields}


def claude_session(root: Path, folder: Path) -> Path:
    tool = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make deploy"}}]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "deployed " + "x" * 5000}]}]
    lines = [
        {"type": "summary", "summary": "Deploying", "leafUuid": "x"},
        claude("user", "u1", f"I prefer pnpm over npm. We deploy on Fridays. The key is {samples.token()}", folder),
        claude("assistant", "a1", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I will deploy."}], folder),
        claude("assistant", "a2", tool, folder),
        claude("user", "u2", result, folder),
        claude("user", "s1", "of a subagent", folder, isSidechain=True),
        claude("user", "m1", "<command-name>/clear</command-name>", folder),
        claude("assistant", "a3", [{"type": "text", "text": "Done."}, {"type": "hologram"}], folder),
        {"type": "telepathy", "sessionId": ONE, "mode": "x"},
        "{not json\n",
    ]
    return write_lines(root / "-home-dana-shop" / f"{ONE}.jsonl", *lines)


def test_a_session_of_claude_code_is_a_conversation_of_its_project(memory: Memory, shop: Path, tmp_path: Path) -> None:
    root = tmp_path / "projects"
    claude_session(root, shop)
    write_lines(root / "-home-dana-shop" / ONE / "subagents" / "agent-7.jsonl", claude("user", "x", "of a subagent", shop))
    write_lines(root / "-home-dana-shop" / "agent-8.jsonl", claude("user", "y", "of a subagent", shop))
    done = import_from(memory, root, format="claude-code")
    found = records(memory)
    assert [(record.role, record.tag) for record in found] == [
        ("user", "general"), ("assistant", "general"), ("assistant", "step"), ("tool", "step"), ("assistant", "general"),
    ]  # fmt: skip
    assert [record.content for record in found][1:3] == ["I will deploy.", '[uses Bash {"command": "make deploy"}]']
    assert samples.token() not in found[0].content
    assert "We deploy on Fridays." in found[0].content
    assert "deployed" in found[3].content
    assert len(found[3].content) < 2100
    assert {(record.session, record.occurred_at.isoformat()) for record in found} == {(ONE, "2025-03-01T09:00:00+00:00")}
    assert {record.source for record in found} == {"import:claude-code", "tool"}
    assert done.counts == {"redacted": 1, "added": 4, "skipped": 3}
    assert done.skipped == {
        "not known: type 'telepathy'": 1,
        "not known: block 'hologram'": 1,
        "not known: a line that is not JSON": 1,
    }
    assert "subagent" not in str(said(memory))
    assert memory.with_scope(agent="project:github.com/acme/shop").recall("When do we deploy?")[0].record.session == ONE


def test_what_hooks_have_captured_is_not_imported_again_and_the_other_way_round(
    memory: Memory, shop: Path, tmp_path: Path
) -> None:
    path = claude_session(tmp_path / "projects", shop)
    hooks = HookHandler(memory, tmp_path / "marks")

    def capture() -> None:
        hooks.answer("stop", "claude-code", "auto", {"session_id": ONE, "cwd": str(shop), "transcript_path": str(path)}, "/")

    capture()
    before = said(memory)
    assert [role for role, _, _ in before] == ["user", "assistant", "assistant"]
    import_from(memory, path, format="claude-code")
    assert said(memory) == before
    memory.with_scope(agent="project:github.com/acme/shop").forget(session=ONE)
    import_from(memory, path, format="claude-code")
    imported = said(memory)
    assert len(imported) == 5
    hooks = HookHandler(memory, tmp_path / "no marks")
    capture()
    assert said(memory) == imported


def test_a_session_of_codex_and_its_fork(memory: Memory, tmp_path: Path) -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": AT, "type": "response_item", "payload": payload}

    def text(role: str, text: str) -> dict[str, Any]:
        return item(type="message", role=role, content=[{"type": f"{'in' if role == 'user' else 'out'}put_text", "text": text}])

    git = {"repository_url": "https://github.com/acme/shop.git"}
    talk = [
        text("developer", "be brief"),
        text("user", "<environment_context>\n/home\n</environment_context>"),
        text("user", "Which port does the mail service use?"),
        item(type="reasoning", encrypted_content="…"),
        item(type="function_call", name="shell", arguments='{"command": ["grep", "port"]}', call_id="c1"),
        item(type="function_call_output", call_id="c1", output='{"output": "port 2525"}'),
        text("assistant", "It uses port 2525."),
        {"timestamp": AT, "type": "event_msg", "payload": {"type": "agent_message", "message": "It uses port 2525."}},
    ]
    meta = {"timestamp": AT, "type": "session_meta", "payload": {"id": ONE, "cwd": "/gone/shop", "git": git}}
    forked = {**meta, "payload": {**meta["payload"], "id": TWO, "forked_from_id": ONE}}
    root = tmp_path / "sessions"
    write_lines(root / "2025" / "03" / "01" / f"rollout-2025-03-01T09-00-00-{ONE}.jsonl", meta, *talk)
    more = [text("user", "And the queue?"), item(type="dream")]
    write_lines(root / "2025" / "03" / "02" / f"rollout-2025-03-02T09-00-00-{TWO}.jsonl", forked, *talk, *more)
    old = [{"id": "x", "timestamp": AT, "instructions": ""}, {"record_type": "state"}, talk[2]["payload"]]
    write_lines(root / "rollout-2024-01-01-old.jsonl", *old)
    done = import_from(memory, root, format="codex")
    assert said(memory) == [
        ("user", "general", "Which port does the mail service use?"),
        ("assistant", "step", '[uses shell {"command": ["grep", "port"]}]'),
        ("tool", "step", '[result: {"output": "port 2525"}]'),
        ("assistant", "general", "It uses port 2525."),
        ("user", "general", "And the queue?"),
    ]
    assert [record.session for record in records(memory)] == [ONE] * 4 + [TWO]
    assert said(memory, "default") == [("user", "general", "Which port does the mail service use?")]
    assert done.skipped == {
        "it repeats the session that this one goes on from": 4,
        "not known: type 'dream'": 1,
    }


def test_sessions_of_gemini_cli_as_document_and_as_lines(memory: Memory, shop: Path, tmp_path: Path) -> None:
    chats = tmp_path / "gemini" / "tmp" / "shop" / "chats"
    calls = [{"id": "c1", "name": "read_file", "args": {"path": "a"}, "result": [{"text": "tabs"}], "status": "success"}]
    first = {"id": "1", "timestamp": AT, "type": "user", "content": [{"text": "Use tabs."}]}
    document = {"sessionId": ONE, "projectHash": "h", "messages": [
        first, {"id": "2", "timestamp": AT, "type": "gemini", "content": "Yes.", "toolCalls": calls},
        {"id": "3", "type": "info", "content": "Update available"}]}  # fmt: skip
    write_lines(chats / "session-2025-03-01T09-00-1111.json", document)
    write_lines(
        chats / "session-2025-03-02T09-00-2222.jsonl",
        {"sessionId": TWO, "projectHash": "h", "startTime": AT},
        {"id": "a", "timestamp": AT, "type": "user", "content": "Why spaces?"},
        {"id": "b", "timestamp": AT, "type": "gemini", "content": "", "toolCalls": calls[:0]},
        {"id": "b", "timestamp": AT, "type": "gemini", "content": "By habit.", "toolCalls": calls},
        {"id": "c", "timestamp": AT, "type": "user", "content": "taken back"},
        {"$rewindTo": "c"},
        {"$set": {"summary": "tabs"}},
    )
    write_lines(chats / ONE / "session-x.jsonl", {"sessionId": "s", "projectHash": "h", "kind": "subagent"}, first)
    (tmp_path / "gemini" / "projects.json").write_text(json.dumps({"projects": {str(shop): "shop"}}))
    done = import_from(memory, tmp_path / "gemini" / "tmp", format="gemini-cli")
    steps = [("assistant", "step", '[uses read_file {"path": "a"}]'), ("tool", "step", "[result: tabs]")]
    assert said(memory) == [
        ("user", "general", "Use tabs."), ("assistant", "general", "Yes."), *steps,
        ("user", "general", "Why spaces?"), ("assistant", "general", "By habit."), *steps,
    ]  # fmt: skip
    assert [record.session for record in records(memory)] == [ONE] * 4 + [TWO] * 4
    assert done.counts == {"added": 8}


def test_chats_in_the_database_of_cursor(memory: Memory, shop: Path, tmp_path: Path) -> None:
    user = tmp_path / "Cursor" / "User"
    place = user / "workspaceStorage" / "abc"
    place.mkdir(parents=True)
    (place / "workspace.json").write_text(json.dumps({"folder": shop.as_uri()}))
    tool = {"name": "run_terminal_cmd", "toolCallId": "t", "rawArgs": '{"command": "ls"}', "result": '{"output": "a b"}'}
    bubbles: dict[str, Any] = {
        f"bubbleId:{ONE}:1": {"type": 1, "bubbleId": "1", "text": "List the files.", "createdAt": "2025-03-02T09:00:00Z"},
        f"bubbleId:{ONE}:2": {"type": 2, "bubbleId": "2", "text": "", "toolFormerData": tool},
        f"bubbleId:{ONE}:3": {"type": 2, "bubbleId": "3", "text": "There are two."},
        f"composerData:{ONE}": {"composerId": ONE, "name": "Files", "createdAt": 1740819600000, "fullConversationHeadersOnly": [
            {"bubbleId": name, "type": 1} for name in "1234"]},
        f"composerData:{TWO}": {"composerId": TWO, "createdAt": 1, "conversation": [
            {"bubbleId": "9", "type": 1, "text": "Older."}, {"bubbleId": "8", "type": 7, "text": "?"}]},
    }  # fmt: skip
    listed = {"composer.composerData": {"allComposers": [{"composerId": ONE}]}}
    for path, table, rows in ((place, "ItemTable", listed), (user / "globalStorage", "cursorDiskKV", bubbles)):
        path.mkdir(exist_ok=True)
        with sqlite3.connect(path / "state.vscdb") as connection:
            connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
            connection.executemany(
                f"INSERT INTO {table} VALUES (?, ?)", [(name, json.dumps(value)) for name, value in rows.items()]
            )
    done = import_from(memory, user, format="cursor")
    assert said(memory) == [
        ("user", "general", "List the files."),
        ("assistant", "step", '[uses run_terminal_cmd {"command": "ls"}]'),
        ("tool", "step", '[result: {"output": "a b"}]'),
        ("assistant", "general", "There are two."),
    ]
    assert [record.occurred_at.day for record in records(memory)] == [2, 1, 1, 1]
    assert said(memory, "default") == [("user", "general", "Older.")]
    assert done.skipped == {"not known: a message without content": 1, "not known: bubble of type '7'": 1}
    assert import_from(memory, user, format="cursor").counts == {"duplicate": 5, "skipped": 2}


def test_a_killed_import_goes_on_and_nothing_is_doubled(tmp_path: Path) -> None:
    result = measure(tmp_path, sessions=20, messages=1200)
    assert (result["lost"], result["doubled"], result["added_by_repeat"], result["secrets"]) == (0, 0, 0, 0)
    assert 600 <= result["stored_at_kill"] < 1200, "the kill came halfway"
    assert result["resumed"]["duplicate"] == result["stored_at_kill"]
    assert result["skipped"][f"not known: type {UNKNOWN!r}"] == 20


def test_the_command_finds_the_sessions_and_the_store_of_the_hooks(shop: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    nothing = process("import", "claude-code", cwd=tmp_path, **home)
    assert (nothing.returncode, "has kept no sessions in" in nothing.stderr) == (5, True)
    claude_session(tmp_path / ".claude" / "projects", shop)
    done = process("import", "claude-code", "--learn", cwd=tmp_path, **home)
    assert done.returncode == 0, done.stderr
    assert "imported  8 entries" in done.stdout
    assert "1 × not known: type 'telepathy'" in done.stdout
    with Memory.open(tmp_path / "data" / "keepstone" / "memory.db", agent="project:github.com/acme/shop") as memory:
        assert [record.content for record in memory.list(kind="fact")] == ["The user prefers pnpm over npm."]
    summary = process("import", "claude-code", ".claude/projects", "--users", "all", "--db", "x.db", "--json", cwd=tmp_path)
    assert json.loads(summary.stdout)["counts"] == {"redacted": 1, "added": 4, "skipped": 3}
    two = process("import", "notes.md", "more.md", cwd=tmp_path)
    assert (two.returncode, "is none of claude-code" in two.stderr) == (2, True)


def test_a_folder_that_is_gone_is_a_project_of_its_own(tmp_path: Path, shop: Path) -> None:
    gone = find_past_project(str(tmp_path / "gone"))
    assert gone is not None
    assert gone.startswith("gone-")
    assert find_past_project(str(shop / "worktrees" / "gone")) == "github.com/acme/shop"
    assert find_past_project(str(tmp_path)) is None


def test_the_summary_names_at_most_a_hundred_reasons(memory: Memory, shop: Path, tmp_path: Path) -> None:
    lines = [{"type": f"type-{number}", "sessionId": ONE, "cwd": str(shop)} for number in range(150)]
    path = write_lines(tmp_path / "many.jsonl", *lines)
    done: ImportSummary = import_from(memory, path, format="claude-code", dry_run=True)
    assert (done.counts, len(done.skipped)) == ({"skipped": 150}, 100)
