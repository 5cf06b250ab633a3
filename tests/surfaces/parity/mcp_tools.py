"""The adapters for MCP: the official client against `keepstone mcp` over pipes, and against /mcp of `keepstone serve`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import psutil
from anyio.from_thread import BlockingPortal
from mcp import Client
from mcp_types import TextResourceContents

from keepstone import Memory
from tests.server.mcp_support import command, over_http, text_of
from tests.surfaces.parity.served import LOOSE, Served
from tests.surfaces.parity.surfaces import LIMIT, Found, Library, OverHttp, Refusal, Surface, Written


class Tools(Surface):
    """The memory tools and resources, as a model's client has them. `beside` is for what no tool can do: talking, and words of
    other sources."""

    signs = {"unknown": "isError", "bad": "isError", "large": "isError", "refused": "isError"}

    def __init__(self, client: Client, portal: BlockingPortal, beside: Surface) -> None:
        self.client, self.portal, self._beside, self.store = client, portal, beside, beside.store

    @property
    def beside(self) -> Surface:
        return self._beside

    def call(self, name: str, **given: Any) -> dict[str, Any]:
        result = self.portal.call(self.client.call_tool, name, given)
        if result.is_error:
            raise Refusal("isError", text_of(result))
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    def remember(self, content: str, tag: str = "general", **more: str) -> Written:
        return _written(self.call("write_memory", content=content, tag=tag, **more))

    def recall(self, query: str, tag: str | None = None, limit: int = LIMIT) -> list[Found]:
        narrowed = {} if tag is None else {"tag": tag}
        return _found(self.call("recall_memory", query=query, limit=limit, **narrowed))

    def update(self, id: str, content: str) -> Written:
        return _written(self.call("update_memory", id=id, content=content))

    def forget(self, id: str) -> None:
        assert self.call("forget_memory", id=id)["id"] == id

    def context(self, query: str, **narrowed: Any) -> str:
        return str(self.call("memory_context", query=query, **narrowed)["context"])

    def search_conversations(self, words: str) -> list[str]:
        return [each["content"] for each in self.call("search_conversations", words=words)["messages"]]

    def say(self, text: str) -> None:
        self.beside.say(text)

    def listed(self) -> list[Found]:
        return _found(self.call("recall_memory", limit=20))

    def review(self) -> list[str]:
        read = self.portal.call(self.client.read_resource, "memory://review").contents[0]
        assert isinstance(read, TextResourceContents)
        return [item["id"] for item in json.loads(read.text)["items"]]

    def at_once(self, content: str, times: int) -> list[Written]:
        async def write(into: list[Any]) -> None:
            into.append(await self.client.call_tool("write_memory", {"content": content, "tag": "general"}))

        async def together() -> list[Any]:
            answers: list[Any] = []
            async with anyio.create_task_group() as tasks:
                for _ in range(times):
                    tasks.start_soon(write, answers)
            return answers

        answers = self.portal.call(together)
        assert [text_of(each) for each in answers if each.is_error] == []
        return [_written(each.structured_content) for each in answers]


# -- over pipes -------------------------------------------------------------------------------------------------------
class Pipes:
    """`keepstone mcp` on one store, a process for each user that is asked for. A process takes a second to start, so tests share
    them: what a test has left is forgotten before the next one begins."""

    def __init__(self, folder: Path, portal: BlockingPortal) -> None:
        self.store, self.portal = folder / "piped.db", portal
        self.memory = Memory.open(self.store)
        self._open: dict[str, tuple[AbstractContextManager[Client], Client]] = {}

    def client(self, user: str) -> Client:
        """The client of a user's process, which is started where there is none."""
        if user not in self._open:
            given = ("--db", str(self.store), "--user", user, "--allow-forget")
            start = Client(command(*given, cwd=self.store.parent, **LOOSE))
            context = self.portal.wrap_async_context_manager(start)
            self._open[user] = (context, context.__enter__())
        return self._open[user][1]

    def kill(self, user: str) -> None:
        """kill -9 of a user's process."""
        mine = [each for each in psutil.Process().children() if each.cmdline()[-4:] == [*_of(self.store, user)]]
        assert len(mine) == 1
        mine[0].kill()
        mine[0].wait()
        context, _ = self._open.pop(user)
        context.__exit__(None, None, None)

    def empty(self) -> None:
        for user in self._open:
            self.memory.with_scope(user=user).forget(everything=True)

    def close(self) -> None:
        for context, _ in self._open.values():
            context.__exit__(None, None, None)
        self.memory.close()


class OverPipes(Tools):
    """MCP over standard input and output."""

    def __init__(self, pipes: Pipes, user: str = "dana") -> None:
        self.pipes, self.user = pipes, user
        super().__init__(pipes.client(user), pipes.portal, Library(pipes.memory.with_scope(user=user), pipes.store))

    def another(self) -> Surface:
        return OverPipes(self.pipes, "another")

    def remember_then_kill(self, content: str) -> Written:
        written = self.remember(content)
        self.pipes.kill(self.user)
        self.client = self.pipes.client(self.user)
        return written


# -- over HTTP --------------------------------------------------------------------------------------------------------
class OverMcpHttp(Tools):
    """MCP over streamable HTTP; one key for the tools and for what is beside them."""

    def __init__(self, served: Served, portal: BlockingPortal) -> None:
        self.served = served
        beside = served.closing(OverHttp(served))
        key = beside.key
        context = portal.wrap_async_context_manager(over_http(served, key))  # type: ignore[arg-type]
        super().__init__(served.tests.enter_context(context), portal, beside)

    def another(self) -> Surface:
        return OverMcpHttp(self.served, self.portal)

    def remember_then_kill(self, content: str) -> Written:
        written = self.remember(content)
        self.served.kill()
        self.served.start()
        return written


def _of(store: Path, user: str) -> Sequence[str]:
    return (str(store), "--user", user, "--allow-forget")


def _written(answer: dict[str, Any]) -> Written:
    return Written(answer["action"], answer["id"], tuple(answer["reasons"]))


def _found(answer: dict[str, Any]) -> list[Found]:
    return [Found(each["id"], each["content"]) for each in answer["memories"]]
