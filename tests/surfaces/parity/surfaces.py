"""What every surface is to the tests: the verbs that all share, the ways to refuse, and the adapters for the library and its HTTP
clients, which have the same verbs. The adapters for MCP and for the command line are in files of their own."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from keepstone import AsyncClient, Client, Memory
from keepstone.errors import KeepstoneError
from tests.cli.support import surroundings
from tests.surfaces.parity.served import Served

SESSION = "monday"
LIMIT = 5


@dataclass(frozen=True)
class Written:
    """What became of a write."""

    action: str
    id: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """One memory that was found."""

    id: str
    content: str


class Refusal(Exception):
    """A surface refused: its own sign for it (an error's name, an exit code, isError), and what it said."""

    def __init__(self, sign: str, said: str) -> None:
        super().__init__(f"{sign}: {said}")
        self.sign, self.said = sign, said


class Surface(ABC):
    """One way to reach a memory, in the scope of one user. `signs` are its ways to refuse: an unknown id, a value that cannot be
    taken, one that is too large. `store` is the file behind it. Verbs that only some surfaces have are not declared here."""

    signs: Mapping[str, str] = {"unknown": "NotFound", "bad": "ValidationError", "large": "TooLarge", "refused": "refused"}
    store: Path

    @abstractmethod
    def remember(self, content: str, tag: str = "general", **more: str) -> Written: ...

    @abstractmethod
    def recall(self, query: str, tag: str | None = None, limit: int = LIMIT) -> list[Found]: ...

    @abstractmethod
    def update(self, id: str, content: str) -> Written: ...

    @abstractmethod
    def forget(self, id: str) -> None: ...

    @abstractmethod
    def context(self, query: str, **narrowed: Any) -> str: ...

    @abstractmethod
    def search_conversations(self, words: str) -> list[str]: ...

    @abstractmethod
    def listed(self) -> list[Found]:
        """Newest first."""

    @abstractmethod
    def review(self) -> list[str]:
        """The ids of what waits for a decision."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Say something in the conversation SESSION."""

    @abstractmethod
    def another(self) -> Surface:
        """The same surface for another user of the same store."""

    @abstractmethod
    def remember_then_kill(self, content: str) -> Written:
        """Remember, and kill -9 the process that holds the memory as soon as it has answered; then it is started anew."""

    @abstractmethod
    def at_once(self, content: str, times: int) -> list[Written]:
        """Remember the same so many times at once."""

    @property
    def beside(self) -> Surface:
        """A way into the same memory that may say where something comes from."""
        return self

    def argument(self, name: str) -> str:
        """What its errors call an argument of the library."""
        return name

    def kept(self) -> bytes:
        """Every byte of the store. Another process reads it: closing a file that SQLite has open here would end its locks."""
        files = sorted(str(each) for each in self.store.parent.glob(self.store.name + "*"))
        return subprocess.run(["cat", *files], capture_output=True, check=True).stdout


def refused(surface: Surface, sort: str, verb: Callable[..., Any], *given: Any, **named: Any) -> str:
    """What a surface says where it refuses, in its own way, for this sort of reason."""
    with pytest.raises(Refusal) as caught:
        verb(*given, **named)
    assert caught.value.sign == surface.signs[sort]
    return caught.value.said


# -- the library, and the clients that have its verbs -----------------------------------------------------------------
class OfMemory(Surface):
    """Anything with the verbs of Memory. With a portal, what has to be awaited is awaited in its event loop."""

    def __init__(self, memory: Any, store: Path, portal: BlockingPortal | None = None) -> None:
        self.memory, self.store, self.portal = memory, store, portal

    def ask(self, verb: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            answer = verb(*given, **named)
            if self.portal is not None and inspect.isawaitable(answer):
                answer = self.portal.call(_awaited, answer)
            return answer
        except KeepstoneError as error:
            raise Refusal(type(error).__name__, str(error)) from error

    def remember(self, content: str, tag: str = "general", **more: str) -> Written:
        return _written(self.ask(self.memory.remember, content, tag=tag, **more))

    def recall(self, query: str, tag: str | None = None, limit: int = LIMIT) -> list[Found]:
        return [Found(hit.id, hit.content) for hit in self.ask(self.memory.recall, query, tag=tag, limit=limit)]

    def update(self, id: str, content: str) -> Written:
        return _written(self.ask(self.memory.update, id, content))

    def forget(self, id: str) -> None:
        assert self.ask(self.memory.forget, id).forgotten == 1

    def context(self, query: str, **narrowed: Any) -> str:
        block: str = self.ask(self.memory.context, query, **narrowed)
        return block

    def search_conversations(self, words: str) -> list[str]:
        return [each.content for each in self.ask(self.memory.conversation(SESSION).search, words)]

    def say(self, text: str) -> None:
        self.ask(self.memory.conversation(SESSION).add, "user", text)

    def listed(self) -> list[Found]:
        return [Found(each.id, each.content) for each in self.ask(self.memory.list)]

    def review(self) -> list[str]:
        return [item.id for item in self.ask(self.memory.review.list)]

    def history(self, id: str) -> Sequence[str]:
        return [each.content for each in self.ask(self.memory.history, id)]

    def why(self, query: str, id: str) -> tuple[bool, Sequence[str]]:
        found = self.ask(self.memory.why, query, id)
        return found.recalled, found.reasons

    def set(self, key: str, value: Any) -> Written:
        return _written(self.ask(self.memory.set, key, value))

    def value(self, key: str) -> Any:
        return self.ask(self.memory.value, key)

    def audit(self) -> str:
        return json.dumps([[row.verb, row.action, row.id, row.reasons] for row in self.ask(self.memory.audit)])

    def export(self, path: Path) -> int:
        records: int = self.ask(self.memory.export, path)
        return records

    def at_once(self, content: str, times: int) -> list[Written]:
        with ThreadPoolExecutor(times) as threads:
            return list(threads.map(self.remember, [content] * times))


class Library(OfMemory):
    """The library in this process, on a file of its own."""

    def another(self) -> Surface:
        return Library(self.memory.with_scope(user="another"), self.store)

    def remember_then_kill(self, content: str) -> Written:
        """A process of its own writes, tells what became of it, and is killed while it waits."""
        program = (
            "import sys, time\n"
            "from keepstone import Memory\n"
            "receipt = Memory.open(sys.argv[1]).remember(sys.argv[2])\n"
            "print(receipt.action, receipt.id, flush=True)\n"
            "time.sleep(600)\n"
        )
        action, id = killed([sys.executable, "-c", program, str(self.store), content]).split()
        return Written(action, id)


class OverHttp(OfMemory):
    """Client against `keepstone serve`, with a key of its own user."""

    def __init__(self, served: Served) -> None:
        self.served, self.key = served, served.key()
        super().__init__(Client(served.url, self.key), served.store)

    def another(self) -> Surface:
        return self.served.closing(OverHttp(self.served))

    def remember_then_kill(self, content: str) -> Written:
        written = self.remember(content)
        self.served.kill()
        self.served.start()
        return written

    def close(self) -> None:
        self.ask(self.memory.close)


class OverHttpAsync(OverHttp):
    """AsyncClient against the same."""

    def __init__(self, served: Served, portal: BlockingPortal) -> None:
        self.served, self.key = served, served.key()
        OfMemory.__init__(self, portal.call(_opened, served.url, self.key), served.store, portal)

    def another(self) -> Surface:
        assert self.portal is not None
        return self.served.closing(OverHttpAsync(self.served, self.portal))

    def at_once(self, content: str, times: int) -> list[Written]:
        async def gathered() -> list[Any]:
            return await asyncio.gather(*(self.memory.remember(content) for _ in range(times)))

        return [_written(receipt) for receipt in self.ask(gathered)]


def library(path: Path) -> Library:
    return Library(Memory.open(path), path)


def killed(command: Sequence[str], piped: str = "") -> str:
    """The first line a process says; then it is killed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=surroundings(), text=True, encoding="utf-8", **pipes) as started:  # type: ignore[call-overload]
        assert started.stdin is not None
        assert started.stdout is not None
        try:
            started.stdin.write(piped)
            started.stdin.close()
            line: str = started.stdout.readline()
        finally:
            started.kill()
    assert line, "it ended without an answer"
    return line


async def _opened(url: str, key: str) -> AsyncClient:
    return await AsyncClient(url, key)


async def _awaited(answer: Any) -> Any:
    return await answer


def _written(receipt: Any) -> Written:
    if receipt.action == "refused":
        raise Refusal("refused", "; ".join(receipt.reasons))
    return Written(receipt.action, receipt.id, tuple(receipt.reasons))
