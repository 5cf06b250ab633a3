"""What the tests of the MCP server share: the official client over a socket or a process, in either revision of the protocol."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.cli.support import surroundings
from tests.server.running import Running

REVISIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}  # a client's mode -> the revision it then speaks
MODES = tuple(REVISIONS)


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run what a test does with a client; a test that hangs ends after five minutes."""

    async def bounded() -> None:
        with anyio.fail_after(300):
            await work()

    anyio.run(bounded)


@asynccontextmanager
async def over_http(server: Running, key: str | None, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """A client at /mcp with a key and these headers (underscores stand for dashes)."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if key is not None:
        sent["authorization"] = f"Bearer {key}"
    async with (
        httpx2.AsyncClient(headers=sent, timeout=120) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def command(*arguments: str, cwd: Path, **environment: str) -> StdioServerParameters:
    """`keepstone mcp` as a client starts it."""
    given = ["-m", "keepstone", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=given, cwd=cwd, env=surroundings(**environment))


def text_of(result: CallToolResult) -> str:
    """The text of a result, for clients that read no data."""
    return "".join(each.text for each in result.content if isinstance(each, TextContent))


async def called(client: Client, name: str, **given: Any) -> Any:
    """The data of a call that went well, which is what the tool's schema says."""
    result = await client.call_tool(name, given)
    assert not result.is_error, text_of(result)
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    Draft202012Validator(schemas[name] or {}).validate(result.structured_content)
    return result.structured_content


async def refused(client: Client, name: str, **given: Any) -> str:
    """What a call was refused with."""
    result = await client.call_tool(name, given)
    assert result.is_error, text_of(result)
    return text_of(result)


def contents(found: Any) -> list[str]:
    """The texts of what recall_memory or search_conversations found."""
    shown: Sequence[Any] = found["memories"] if "memories" in found else found["messages"]
    return [each["content"] for each in shown]
