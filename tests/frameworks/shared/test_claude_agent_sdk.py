"""The Claude Agent SDK on a store: its own kit for session stores, tools through its in-process server, hooks as it calls them,
and the real program that it runs, asking a local endpoint."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    SessionKey,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    query,
    rename_session_via_store,
)
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge
from claude_agent_sdk.testing import run_session_store_conformance

from keepstone import Client, Memory
from keepstone.errors import ConfigurationError
from keepstone.integrations.claude_agent_sdk import (
    KeepstoneSessionStore,
    memory_hooks,
    memory_options,
    memory_server,
    memory_tools,
)
from tests.models.endpoint import Endpoint, Request, Step, say, use
from tests.server.running import running

KEY: Any = {"project_key": "-home-dana-app", "session_id": "5f0c1f2e-6a3e-4b7e-9c1d-0a1b2c3d4e5f"}
SUB: Any = {**KEY, "subpath": "subagents/agent-1"}


def user(uuid: str, text: Any, **more: Any) -> Any:
    message = {"role": "user", "content": text}
    return {
        "type": "user",
        "uuid": uuid,
        "timestamp": "2026-11-02T10:00:00.000Z",
        "sessionId": KEY["session_id"],
        "message": message,
        **more,
    }


def claude(uuid: str, *blocks: dict[str, Any]) -> Any:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": list(blocks)}
    return {"type": "assistant", "uuid": uuid, "timestamp": "2026-11-02T10:00:01.000Z", "message": message}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


# -- sessions -----------------------------------------------------------------------------------------------------------
def test_the_sdks_kit_passes_on_a_file(memory: Memory) -> None:
    users = itertools.count()
    asyncio.run(run_session_store_conformance(lambda: KeepstoneSessionStore(memory.with_scope(user=f"user-{next(users)}"))))
    assert next(users) > 10, "every contract had a store of its own"


def test_the_sdks_kit_passes_on_a_server(memory: Memory) -> None:
    users = itertools.count()
    with (
        running(memory) as server,
        Client(server.url, server.key("bot", service=True, rights=("read", "write", "forget"))) as client,
    ):
        asyncio.run(run_session_store_conformance(lambda: KeepstoneSessionStore(client.with_scope(user=f"user-{next(users)}"))))
    assert next(users) > 10


def test_an_entry_is_kept_once(path: Path) -> None:
    """From every path, however often; entries without a uuid are kept as often as they come."""
    title: Any = {"type": "custom-title", "customTitle": "Colours"}
    with Memory.open(path) as one, Memory.open(path) as other:
        here, there = KeepstoneSessionStore(one), KeepstoneSessionStore(other)
        first, second, third = (user(f"u{number}", f"Message {number}") for number in (1, 2, 3))
        asyncio.run(here.append(KEY, [first, first, title]))
        asyncio.run(there.append(KEY, [first, second]))
        asyncio.run(here.append(KEY, [second, third, title]))
        assert asyncio.run(here.load(KEY)) == [first, title, second, third, title]
    with Memory.open(path) as memory:
        asyncio.run(KeepstoneSessionStore(memory).append(KEY, [first, second, third]))
        assert asyncio.run(KeepstoneSessionStore(memory).load(KEY)) == [first, title, second, third, title]


def test_two_processes_may_append_at_once(path: Path) -> None:
    with Memory.open(path) as one, Memory.open(path) as other:
        stores = [KeepstoneSessionStore(one), KeepstoneSessionStore(other)]

        def write(who: int) -> None:
            for number in range(10):
                asyncio.run(
                    stores[who].append(KEY, [user(f"{who}-{number}", "Hello"), {"type": f"t{who}", "customTitle": f"{who}"}])
                )

        threads = [threading.Thread(target=write, args=(who,)) for who in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        loaded = asyncio.run(stores[0].load(KEY))
        assert loaded is not None
        for who in (0, 1):
            assert [each["uuid"] for each in loaded if each.get("uuid", "").startswith(f"{who}-")] == [
                f"{who}-{n}" for n in range(10)
            ]
        (summary,) = asyncio.run(stores[0].list_session_summaries(KEY["project_key"]))
        assert summary["data"]["first_prompt"] == "Hello"
        assert summary["data"]["custom_title"] in ("0", "1")


def test_large_and_odd_entries_come_back_as_they_were(memory: Memory) -> None:
    picture = base64.b64encode(random.Random(8).randbytes(500_000)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    entries = [
        user("u1", [{"type": "image", "source": source}, text("What is in this picture?")]),
        user("u2", [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": source}]}]),
        {"type": "file-history-snapshot", "": {"nul": "a\0b", "big": 2**80, "deep": [[[[[[[[[[[[1]]]]]]]]]]]]}},
        claude("u3", {"type": "thinking", "thinking": "A cat.", "signature": "c2ln"}, text("A cat 🐈.\r\n")),
    ]
    store = KeepstoneSessionStore(memory)
    asyncio.run(store.append(KEY, entries))
    assert asyncio.run(store.load(KEY)) == entries
    assert "picture" in memory.recall("What was asked about the picture?")[0].content


def test_what_was_said_is_found_and_learned_once(memory: Memory) -> None:
    store = KeepstoneSessionStore(memory)
    entries = [
        user("u1", "My name is Dana and I prefer dark mode."),
        claude(
            "a1", text("Noted, the editor is Zed."), {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
        ),
        user("u2", [{"type": "tool_result", "tool_use_id": "t1", "content": "I prefer light mode."}]),
        user("u3", "I prefer no caveats.", isMeta=True),
        user("u4", "<local-command-stdout>I prefer green mode.</local-command-stdout>"),
    ]
    for _ in range(3):
        asyncio.run(store.append(KEY, entries))
    asyncio.run(store.append(SUB, [user("s1", "I prefer red mode.", isSidechain=True)]))
    facts = [record.content for record in memory.list(limit=100) if record.kind == "fact"]
    assert sorted(facts) == ["The user prefers dark mode.", "The user's name is Dana."]
    found = {hit.content for hit in memory.recall("Which mode is preferred, in which editor?", limit=20, min_similarity=0)}
    assert {"My name is Dana and I prefer dark mode.", "Noted, the editor is Zed."} <= found
    assert not any(word in content for content in found for word in ("light", "green", "caveats", "red mode"))


def test_a_store_may_only_keep(memory: Memory) -> None:
    asyncio.run(KeepstoneSessionStore(memory, learn=False).append(KEY, [user("u1", "My name is Dana.")]))
    assert {record.kind for record in memory.list(limit=100)} == {"message"}


def test_the_sdks_own_functions_work_on_it(memory: Memory, tmp_path: Path) -> None:
    key = {**KEY, "project_key": project_key_for_directory(str(tmp_path))}
    store = KeepstoneSessionStore(memory)
    entries = [user("7d444840-9dc0-11d1-b245-5ffdce74fad2", "Which theme?", parentUuid=None, isSidechain=False)]

    async def go() -> None:
        await store.append(key, entries)  # type: ignore[arg-type]
        await rename_session_via_store(store, key["session_id"], "Themes", directory=str(tmp_path))
        forked = await fork_session_via_store(store, key["session_id"], directory=str(tmp_path))
        listed = await list_sessions_from_store(store, directory=str(tmp_path))
        assert {each.session_id for each in listed} == {key["session_id"], forked.session_id}
        assert next(each.custom_title for each in listed if each.session_id == key["session_id"]) == "Themes"
        (message,) = await get_session_messages_from_store(store, key["session_id"], directory=str(tmp_path))
        assert message.message["content"] == "Which theme?"
        await delete_session_via_store(store, key["session_id"], directory=str(tmp_path))
        assert [each.session_id for each in await list_sessions_from_store(store, directory=str(tmp_path))] == [forked.session_id]

    asyncio.run(go())


# -- tools --------------------------------------------------------------------------------------------------------------
def ask(memory: Memory, *requests: tuple[str, dict[str, Any]], allow_forget: bool = False) -> list[Any]:
    """What the SDK's server answers to what the program asks it."""

    async def go() -> list[Any]:
        bridge = SdkMcpBridge("memory", memory_server(memory, allow_forget=allow_forget)["instance"])
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude", "version": "1"}}
        try:
            given = [("initialize", client), *requests]
            answers = [
                await bridge.handle({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                for number, (method, params) in enumerate(given)
            ]
            return [answer["result"] for answer in answers[1:] if answer]
        finally:
            await bridge.aclose()

    return asyncio.run(go())


def test_claude_can_use_the_tools(memory: Memory) -> None:
    call = {"name": "write_memory", "arguments": {"content": "Dana prefers dark mode.", "tag": "preference"}}
    (listed,) = ask(memory, ("tools/list", {}))
    assert [f"mcp__memory__{tool['name']}" for tool in listed["tools"]] == memory_tools()
    assert [tool["inputSchema"] for tool in listed["tools"]] == [tool["input_schema"] for tool in memory.tools()]
    assert listed["tools"][0]["annotations"]["readOnlyHint"] is True
    written, found = ask(
        memory,
        ("tools/call", call),
        ("tools/call", {"name": "recall_memory", "arguments": {"query": "Which theme does Dana like?"}}),
    )
    assert not written.get("isError")
    (hit,) = json.loads(found["content"][0]["text"])["memories"]
    assert hit["content"] == memory.recall("Which theme does Dana like?")[0].content == "Dana prefers dark mode."


def test_forgetting_has_to_be_allowed(memory: Memory) -> None:
    id = memory.remember("Dana prefers dark mode.").id
    call = ("tools/call", {"name": "forget_memory", "arguments": {"id": id}})
    assert ask(memory, call)[0]["isError"]
    assert memory.get(id) is not None
    listed, answered = ask(memory, ("tools/list", {}), call, allow_forget=True)
    assert [f"mcp__memory__{tool['name']}" for tool in listed["tools"]] == memory_tools(allow_forget=True)
    assert not answered.get("isError")
    assert memory.get(id) is None


def test_what_is_wrong_with_a_call_is_an_error(memory: Memory) -> None:
    answered, unknown = ask(
        memory,
        ("tools/call", {"name": "update_memory", "arguments": {"id": "m_none", "content": "Something"}}),
        ("tools/call", {"name": "recall_memory", "arguments": {"tenant": "other"}}),
    )
    assert answered["isError"]
    assert "m_none" in answered["content"][0]["text"]
    assert unknown["isError"]


# -- hooks --------------------------------------------------------------------------------------------------------------
def hook_input(event: str, transcript: Path, **more: Any) -> dict[str, Any]:
    base = {"session_id": KEY["session_id"], "transcript_path": str(transcript), "cwd": "/app", "permission_mode": "default"}
    return {**base, "hook_event_name": event, **more}


def fire(hooks: Any, given: dict[str, Any]) -> Any:
    async def go() -> Any:
        return [
            await hook(given, None, {"signal": None}) for matcher in hooks[given["hook_event_name"]] for hook in matcher.hooks
        ]

    return asyncio.run(go())


def test_a_prompt_comes_with_what_is_known(memory: Memory, tmp_path: Path) -> None:
    hooks = memory_hooks(memory)
    asked = hook_input("UserPromptSubmit", tmp_path / "none.jsonl", prompt="Which theme does Dana like?")
    assert fire(hooks, asked) == [{}]
    memory.remember("Dana prefers dark mode.")
    (told,) = fire(hooks, asked)
    assert told["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "Dana prefers dark mode." in told["hookSpecificOutput"]["additionalContext"]
    assert told["hookSpecificOutput"]["additionalContext"] == memory.context("Which theme does Dana like?")


def test_what_was_said_is_saved_when_claude_stops(path: Path, tmp_path: Path) -> None:
    transcript = tmp_path / "-app" / f"{KEY['session_id']}.jsonl"
    stop = hook_input("Stop", transcript, stop_hook_active=False)
    compact = hook_input("PreCompact", transcript, trigger="auto", custom_instructions=None)
    with Memory.open(path) as memory:
        assert fire(memory_hooks(memory), stop) == [{}], "there is no transcript yet"
        transcript.parent.mkdir()
        lines = [{"type": "queue-operation"}, user("u1", "My name is Dana."), claude("a1", text("Hello Dana."))]
        transcript.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"type": "us')
        hooks = memory_hooks(memory)
        assert fire(hooks, stop) == fire(hooks, compact) == [{}]
    lines.append(user("u2", "I prefer dark mode."))
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Memory.open(path) as memory:  # another process goes on with the session
        assert fire(memory_hooks(memory), stop) == [{}]
        kinds = {kind: sorted(r.content for r in memory.list(limit=100, kind=kind)) for kind in ("fact", "message")}
        assert kinds["fact"] == ["The user prefers dark mode.", "The user's name is Dana."]
        assert [each for each in kinds["message"] if "agent-sdk" not in each] == [
            "Hello Dana.",
            "I prefer dark mode.",
            "My name is Dana.",
        ]
        # A store under the same memory knows them: nothing is said or learned twice.
        asyncio.run(KeepstoneSessionStore(memory).append({**KEY, "project_key": "-app"}, lines[1:]))
        assert len(asyncio.run(KeepstoneSessionStore(memory).load({**KEY, "project_key": "-app"})) or []) == 3


def test_hooks_may_only_load(memory: Memory) -> None:
    assert set(memory_hooks(memory, learn=False)) == {"UserPromptSubmit"}


def test_options_have_all_of_it_beside_what_is_given(memory: Memory) -> None:
    async def mine(*_: Any) -> Any:
        return {}

    given = HookMatcher(hooks=[mine])
    options = memory_options(
        memory,
        model="claude-test",
        allowed_tools=["Read"],
        mcp_servers={"x": {"command": "x"}},
        hooks={"UserPromptSubmit": [given]},
    )
    assert isinstance(options, ClaudeAgentOptions)
    assert isinstance(options.session_store, KeepstoneSessionStore)
    assert options.model == "claude-test"
    assert options.allowed_tools == ["Read", *memory_tools()]
    assert isinstance(options.mcp_servers, dict)
    assert set(options.mcp_servers) == {"x", "memory"}
    assert options.hooks is not None
    assert options.hooks["UserPromptSubmit"][0] is given
    assert len(options.hooks["UserPromptSubmit"]) == 2
    with pytest.raises(ConfigurationError, match="pass a dictionary"):
        memory_options(memory, mcp_servers="servers.json")


# -- the real program ---------------------------------------------------------------------------------------------------
@pytest.fixture
def claude_env(tmp_path: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1", "HOME": str(tmp_path), "IS_SANDBOX": "1",
    }  # fmt: skip


def test_claude_goes_on_with_a_session_in_another_place(path: Path, tmp_path: Path, claude_env: dict[str, str]) -> None:
    """Two runs of the real program with folders of their own: what the second knows, it has from the store."""
    seen: list[str] = []

    def script(request: Request) -> Step:
        messages = request["body"]["messages"]
        seen.append(json.dumps(messages, ensure_ascii=False))
        tools = {tool["name"] for tool in request["body"].get("tools", ())}
        if "mcp__memory__write_memory" in tools and "tool_result" not in seen[-1]:
            return use("mcp__memory__write_memory", {"content": "Dana uses the editor Zed.", "tag": "preference"})
        return say("I have written it down.")

    async def run(memory: Memory, prompt: str, place: str, **more: Any) -> ResultMessage:
        (tmp_path / "work").mkdir(exist_ok=True)
        options = memory_options(
            memory, cwd=tmp_path / "work", model="claude-sonnet-4-5", tools=[], setting_sources=[], max_turns=4,
            env={**claude_env, "ANTHROPIC_BASE_URL": endpoint.url, "CLAUDE_CONFIG_DIR": str(tmp_path / place)}, **more,
        )  # fmt: skip
        results = [message async for message in query(prompt=prompt, options=options) if isinstance(message, ResultMessage)]
        return results[-1]

    with Endpoint(script) as endpoint:
        with Memory.open(path) as memory:
            first = asyncio.run(run(memory, "My name is Dana and I prefer dark mode.", "here"))
            assert (first.result, first.is_error) == ("I have written it down.", False)
        with Memory.open(path) as memory:
            facts = {record.content for record in memory.list(kind="fact")}
            assert facts == {"The user prefers dark mode.", "The user's name is Dana.", "Dana uses the editor Zed."}
            before = len(seen)
            second = asyncio.run(run(memory, "Which theme do I like?", "there", resume=first.session_id))
            assert not second.is_error
    assert "My name is Dana and I prefer dark mode." in seen[before], "the transcript came from the store"
    assert "The user prefers dark mode." in seen[before], "what is known came with the prompt"


def test_a_transcript_with_a_message_from_elsewhere_can_be_read_and_written(memory: Memory) -> None:
    store, key = KeepstoneSessionStore(memory), SessionKey(project_key="p", session_id="s")
    entries: list[Any] = [
        {"type": "user", "uuid": str(at), "message": {"role": "user", "content": text}} for at, text in enumerate(("one", "two"))
    ]
    asyncio.run(store.append(key, entries[:1]))
    memory.conversation("claude-agent-sdk/p/s").add("user", "said by other means")
    asyncio.run(store.append(key, entries))
    assert asyncio.run(store.load(key)) == entries
