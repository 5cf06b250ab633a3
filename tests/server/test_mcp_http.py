"""/mcp over a real socket, by the official client in both revisions of the protocol, and by hand where it has to be odd."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.shared.auth import ProtectedResourceMetadata

from keepstone import Memory
from keepstone.server.mcp.caller import McpCaller
from keepstone.server.mcp.http import check_origin
from keepstone.server.mcp.server import make_server
from keepstone.server.problems import UNEXPECTED, RequestRefused
from tests.server.mcp_support import MODES, REVISIONS, called, contents, over_http, refused, run, text_of
from tests.server.running import Running, running

ACCEPTS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
OLD = {"mcp-protocol-version": "2025-11-25"}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server for all tests of this file; each has a user of its own."""
    path = tmp_path_factory.mktemp("mcp") / "memory.db"
    with Memory.open(path, settings={"mcp_forget": True}) as memory, running(memory) as made:
        yield made


def posted(
    server: Running, key: str | None, method: str, id: int | None = 1, *, headers: Any = (), **params: Any
) -> httpx2.Response:
    """A request of the older revision, by hand."""
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    sent = ACCEPTS | OLD | dict(headers) | ({} if key is None else {"authorization": f"Bearer {key}"})
    return httpx2.post(f"{server.url}/mcp", json=message, headers=sent, timeout=30)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_answers_as_its_schema_says(shared: Running, mode: str) -> None:
    key = shared.key(f"tools-{mode}")
    owner = shared.memory.with_scope(user=f"tools-{mode}")
    owner.conversation("monday").add("user", "The invoice of the plumber came to 420 euros.", name="Dana")

    async def work() -> None:
        async with over_http(shared, key, "auto" if mode != "legacy" else mode) as client:
            assert client.protocol_version == REVISIONS[mode]
            assert client.server_info is not None
            assert client.server_info.name == "keepstone"
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {
                "recall_memory", "write_memory", "update_memory", "forget_memory", "memory_context", "search_conversations",
                "rate_memory",
            }  # fmt: skip
            assert [name for name, tool in tools.items() if tool.annotations and tool.annotations.destructive_hint] == [
                "forget_memory"
            ]
            made = await called(client, "write_memory", tag="preference", content="Dana prefers dark mode.")
            assert made["action"] == "added"
            assert contents(await called(client, "recall_memory", query="Which mode does Dana prefer?", limit=1)) == [
                "Dana prefers dark mode."
            ]
            known = await called(client, "memory_context", query="Which mode does Dana prefer?")
            assert "Dana prefers dark mode." in known["context"]
            changed = await called(client, "update_memory", id=made["id"], content="Dana prefers light mode.")
            assert changed["action"] == "updated"
            assert contents(await called(client, "search_conversations", words="plumber")) == [
                "The invoice of the plumber came to 420 euros."
            ]
            rated = await called(client, "rate_memory", id=made["id"], helped=True)
            assert (rated["action"], rated["id"]) == ("updated", made["id"])
            assert (await called(client, "forget_memory", id=made["id"]))["erased"] is True
            assert contents(await called(client, "recall_memory", tag="preference")) == []

    run(work)
    assert {row.source for row in owner.audit() if row.verb == "remember"} >= {"agent:tool"}


@pytest.mark.parametrize("mode", MODES)
def test_resources_and_the_prompt(shared: Running, mode: str) -> None:
    key = shared.key(f"reads-{mode}")
    id = shared.memory.with_scope(user=f"reads-{mode}").remember("Dana lives in Porto.", tag="profile").id

    async def work() -> None:
        async with over_http(shared, key, mode) as client:
            for uri in ("memory://profile", "memory://recent", f"memory://memory/{id}"):
                content = (await client.read_resource(uri)).contents[0]
                assert "Dana lives in Porto." in getattr(content, "text", "")
            assert [str(each.uri) for each in (await client.list_resources()).resources][-1] == "memory://review"
            filled = await client.get_prompt("recall", {"query": "Where does Dana live?"})
            assert "Dana lives in Porto." in getattr(filled.messages[0].content, "text", "")
            assert getattr(filled.messages[1].content, "text", "") == "Where does Dana live?"

    run(work)


def test_no_worker_has_to_know_what_another_was_asked(tmp_path: Path) -> None:
    """Two servers on one store stand for two worker processes: one shakes hands, the other is asked."""
    path = tmp_path / "memory.db"
    with Memory.open(path) as one, Memory.open(path) as two, running(one) as first, running(two) as second:
        key = first.key()
        hello = posted(first, key, "initialize", **HANDSHAKE)
        assert hello.json()["result"]["protocolVersion"] == "2025-11-25"
        assert "mcp-session-id" not in hello.headers
        assert posted(second, key, "notifications/initialized", None).status_code == 202
        given = {"tag": "city", "content": "Dana lives in Porto."}
        written = posted(second, key, "tools/call", name="write_memory", arguments=given).json()["result"]
        assert written["structuredContent"]["action"] == "added"
        found = posted(first, key, "tools/call", name="recall_memory", arguments={"tag": "city"}).json()["result"]
        assert contents(found["structuredContent"]) == ["Dana lives in Porto."]


def test_what_is_no_request_of_the_protocol(shared: Running) -> None:
    key = shared.key("odd")
    http = shared.http(key)
    stream = http.get("/mcp", headers={"accept": "text/event-stream"})
    assert (stream.status_code, stream.headers["allow"]) == (405, "POST")
    assert http.delete("/mcp").status_code == 405
    for raw in (b"", b"{", b"\xff", b'{"id": NaN}', b'{"id": 1, "id": 2}', b"[" * 20_000, b'{"id": 99999999999999999999}'):
        for version in MODES:
            answer = http.post("/mcp", content=raw, headers=ACCEPTS | {"mcp-protocol-version": REVISIONS[version]})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700), raw[:40]
    for odd in ([], 1, "x", {"jsonrpc": "2.0"}, [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]):
        assert http.post("/mcp", json=odd, headers=ACCEPTS | OLD).status_code == 400
    assert http.post("/mcp", content=b"{}", headers=ACCEPTS | {"content-type": "text/plain"}).status_code == 400
    assert http.post("/mcp", content=b" " * 10_000_000, headers=ACCEPTS).status_code == 413
    assert posted(shared, key, "no/such").json()["error"]["code"] == -32601
    assert posted(shared, key, "tools/call", name="recall_memory", arguments=[]).json()["error"]["code"] == -32602
    assert posted(shared, key, "ping").json()["result"] == {}


def test_half_a_character_is_refused_in_words(shared: Running) -> None:
    key = shared.key("surrogate")
    raw = b'{"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "recall", "arguments": {"query": "\\ud83d"}}}'
    for version in REVISIONS.values():
        answer = shared.http(key).post("/mcp", content=raw, headers=ACCEPTS | {"mcp-protocol-version": version})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
        assert "surrogate" in answer.json()["error"]["message"]


def test_nobody_gets_in_without_a_key(shared: Running) -> None:
    answer = posted(shared, None, "tools/list")
    assert (answer.status_code, answer.json()["error"]) == (401, "Unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer realm="keepstone"'
    assert 'error="invalid_token"' in posted(shared, "ks_00000000_wrong", "tools/list").headers["www-authenticate"]
    # without an issuer there is nothing to discover: a client that finds something leaves out the key it was given
    for path in ("oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server"):
        assert httpx2.get(f"{shared.url}/.well-known/{path}", timeout=60).status_code == 404


def test_with_an_issuer_a_client_learns_where_to_get_a_token(tmp_path: Path) -> None:
    settings = {"token_issuer": "https://login.example.org"}
    with Memory.open(tmp_path / "memory.db", settings=settings) as memory, running(memory) as server:
        where = f"{server.url}/.well-known/oauth-protected-resource/mcp"
        challenge = posted(server, None, "tools/list").headers["www-authenticate"]
        assert challenge.startswith("Bearer ")
        assert f'resource_metadata="{where}"' in challenge
        assert 'scope="read write forget"' in challenge
        assert "error=" not in challenge
        known = ProtectedResourceMetadata.model_validate(httpx2.get(where, timeout=60).json())
        assert str(known.resource) == f"{server.url}/mcp"
        assert [str(each) for each in known.authorization_servers] == ["https://login.example.org"]
        assert known.scopes_supported == ["read", "write", "forget"]
        assert (
            httpx2.get(f"{server.url}/.well-known/oauth-protected-resource", timeout=60).json()
            == httpx2.get(where, timeout=60).json()
        )


def test_pages_of_other_addresses_may_not_ask(shared: Running) -> None:
    key = shared.key("pages")
    for origin in (shared.url, "http://localhost:6274", "http://[::1]:3000", "https://app.localhost"):
        assert posted(shared, key, "ping", headers={"origin": origin}).status_code == 200
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://[", "http://localhost@evil.example"):
        assert posted(shared, key, "ping", headers={"origin": origin}).status_code == 403
    assert posted(shared, key, "ping", headers={"host": "localhost:1"}).status_code == 200
    for host in ("evil.example", "evil.example:8700", "127.0.0.1.evil.example", "["):
        assert posted(shared, key, "ping", headers={"host": host}).status_code == 421


def test_behind_a_proxy_the_public_address_counts(tmp_path: Path) -> None:
    settings = {"public_url": "https://memory.example.org/", "token_issuer": "https://login.example.org"}
    with Memory.open(tmp_path / "memory.db", settings=settings) as memory, running(memory) as server:
        server.service.address = "https://memory.example.org"  # running() has set where it listens
        key = server.key()
        for host in ("memory.example.org", "keepstone:8700", "10.0.0.7"):
            assert posted(server, key, "ping", headers={"host": host}).status_code == 200
        assert posted(server, key, "ping", headers={"origin": "https://memory.example.org"}).status_code == 200
        assert posted(server, key, "ping", headers={"origin": "https://evil.example"}).status_code == 403
        known = httpx2.get(f"{server.url}/.well-known/oauth-protected-resource/mcp", timeout=60).json()
        assert known["resource"] == "https://memory.example.org/mcp"
        assert known["authorization_servers"] == ["https://login.example.org"]
        challenge = posted(server, None, "ping").headers["www-authenticate"]
        assert 'resource_metadata="https://memory.example.org/.well-known/oauth-protected-resource/mcp"' in challenge


def test_a_client_that_is_killed_in_mid_call_leaves_the_server_well(shared: Running) -> None:
    key = shared.key("killed")
    body = json.dumps({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "write_memory", "arguments": {"tag": "city", "content": "Dana lives in Porto."}},
    }).encode()  # fmt: skip
    head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\n"
    head += f"authorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n"
    port = int(shared.url.rpartition(":")[2])
    for sent in (body, body, body[: len(body) // 2]):  # all of it and away, twice; and half of it
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # ends with a reset
            gone.sendall(head.encode() + sent)
    written = posted(shared, key, "tools/call", name="write_memory", arguments={"tag": "pet", "content": "Dana has a cat."})
    assert written.json()["result"]["structuredContent"]["action"] == "added"
    kept = [each.content for each in shared.memory.with_scope(user="killed").list()]
    assert kept.count("Dana lives in Porto.") <= 1
    assert "Dana has a cat." in kept


def test_calls_are_among_the_figures(shared: Running) -> None:
    key = shared.key("figures")
    posted(shared, key, "tools/call", name="update_memory", arguments={"id": "m_0", "content": "x"})
    posted(shared, key, "tools/call", name="recall_memory", arguments={})
    figures = httpx2.get(f"{shared.url}/metrics", timeout=60).text
    assert 'keepstone_verbs_total{outcome="refused",verb="mcp_update_memory"}' in figures
    assert 'keepstone_verbs_total{outcome="ok",verb="mcp_recall_memory"}' in figures


@pytest.mark.parametrize("mode", MODES)
def test_a_store_that_fails_is_an_answer_and_no_crash(path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory.open(path)
    server = make_server(lambda context: McpCaller.over_stdio(memory, allow_forget=True))
    memory.close()

    async def closed() -> None:
        async with Client(server, mode=mode) as client:
            for name, given in (
                ("recall_memory", {"query": "x"}),
                ("write_memory", {"tag": "a", "content": "b"}),
                ("memory_context", {"query": "x"}),
                ("forget_memory", {"id": "m_0"}),
                ("search_conversations", {"words": "x"}),
            ):
                assert "closed" in await refused(client, name, **given)
            with pytest.raises(MCPError, match="closed"):
                await client.read_resource("memory://profile")

    async def broken() -> None:
        async with Client(server, mode=mode) as client:
            result = await client.call_tool("recall_memory", {"query": "x"})
            assert (result.is_error, text_of(result)) == (True, UNEXPECTED)
            with pytest.raises(MCPError, match="unexpected error") as raised:
                await client.read_resource("memory://recent")
            assert "hidden" not in str(raised.value)

    def fails(*given: Any, **more: Any) -> Any:
        raise RuntimeError("hidden: /home/somebody/secret")

    run(closed)
    monkeypatch.setattr(Memory, "call_tool", fails)
    run(broken)


def test_from_another_machine_any_name_will_do() -> None:
    """On all networks without a public address, a name in the local network or of a container is as good as any."""
    for reached in ("192.168.1.5", "172.18.0.2", "fd00::5", None):
        check_origin(None, "keepstone:8700", "http://127.0.0.1:8700", reached)
    for reached in ("127.0.0.1", "::1"):
        with pytest.raises(RequestRefused, match="public_url"):
            check_origin(None, "keepstone:8700", "http://127.0.0.1:8700", reached)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_older_clients_are_answered_in_their_own_revision_and_in_text(shared: Running, version: str) -> None:
    key = shared.key(f"old-{version}")
    shared.memory.with_scope(user=f"old-{version}").remember("Dana lives in Porto.", tag="city")
    hello = posted(
        shared, key, "initialize", headers={"mcp-protocol-version": version}, **HANDSHAKE | {"protocolVersion": version}
    )
    assert hello.json()["result"]["protocolVersion"] == version
    given = {"name": "recall_memory", "arguments": {"tag": "city"}}
    found = posted(shared, key, "tools/call", headers={"mcp-protocol-version": version, "accept": "*/*"}, **given).json()[
        "result"
    ]
    assert contents(json.loads(found["content"][0]["text"])) == ["Dana lives in Porto."]
