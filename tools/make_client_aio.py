"""Writes the async twins of keepstone.client: transport, verbs, doing, parts and talking as aio_transport.py and so on, from
their own source, so that the two cannot drift apart.

    python tools/make_client_aio.py                  # write the files
    python tools/make_client_aio.py --print verbs    # show one

Whatever sends becomes `async def` and is awaited: a method that calls the HTTP client, and every method that calls one of those.
The few words that differ beside that stand in WORDS. A test compares the files with what this prints.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOM = Path(__file__).parent.parent / "src" / "keepstone" / "client"
FILES = ("transport", "conversation", "parts", "verbs", "agent_verbs")
SENDS = {"get", "post", "put", "patch", "delete", "fetch", "push"}  # of self._wire
HTTP = {"send", "aclose"}  # of self._http
RESPONSE = {"aread", "aclose"}  # of response
WORDS = {
    "import time\n": "import asyncio\n",
    "import secrets\nfrom abc": "import asyncio\nimport secrets\nfrom abc",
    "time.sleep(": "asyncio.sleep(",
    "    _may_forget: bool\n": "    _may_forget: bool\n    _step: asyncio.Lock  # held while a task's step is recorded\n",
    "    def schedule(": "    async def schedule(",  # it sends nothing, and is awaited all the same
    "with working.lock:": "async with self._step:",
    "self._httpx.Client(": "self._httpx.AsyncClient(",
    "httpx2.BaseTransport": "httpx2.AsyncBaseTransport",
    "self._http.close()": "self._http.aclose()",
    "response.close()": "response.aclose()",
    "response.read()": "response.aread()",
    "for piece in response.iter_bytes()": "async for piece in response.aiter_bytes()",
    " pieces": " async_pieces",
    "def __len__(self) -> int:": 'def count(self) -> int:\n        """How many there are."""',
    "def __iter__(self) -> Iterator[": "def __aiter__(self) -> AsyncIterator[",
    "yield from page\n": "for each in page:\n                yield each\n",
    "`len` counts its messages, iterating gives them oldest first": "`count()` counts its messages, `async for` gives them",
    "import Callable, Collection, Iterable, Iterator,": "import AsyncIterator, Callable, Collection, Iterable,",
    "import Iterator, Mapping, Sequence": "import AsyncIterator, Mapping, Sequence",
}
NAMES = {
    "Transport": "AsyncTransport",
    "Verbs": "AsyncVerbs",
    "Doing": "AsyncDoing",
    "RemoteConversation": "AsyncRemoteConversation",
    "RemoteConversations": "AsyncRemoteConversations",
    "RemoteAudit": "AsyncRemoteAudit",
    "RemoteTasks": "AsyncRemoteTasks",
    "RemoteUpkeep": "AsyncRemoteUpkeep",
    "RemoteReview": "AsyncRemoteReview",
    "RemoteJobs": "AsyncRemoteJobs",
    **{f"keepstone.client.{name}": f"keepstone.client.aio_{name}" for name in FILES},
}


def render(name: str) -> str:
    """The async twin of one file."""
    text = (ROOM / f"{name}.py").read_text(encoding="utf-8")
    for word, other in WORDS.items():
        text = text.replace(word, other)
    doc, _, rest = _awaited(_renamed(text)).removeprefix('"""').partition('"""\n')
    made = f"Made by tools/make_client_aio.py from {name}.py; do not edit."
    return _formatted(f'"""{doc.rstrip()}\n\n{made}\n"""\n{rest}', ROOM / f"aio_{name}.py")


def _renamed(text: str) -> str:
    """Classes and modules under the names of their twins."""
    for name, other in NAMES.items():
        text = re.sub(rf"(?<![\w.`]){re.escape(name)}(?!\w)", other, text)
    return text


def _awaited(text: str) -> str:
    """`async def` for what sends, `await` before what is sent."""
    tree = ast.parse(text)
    edits: list[tuple[int, int, str]] = []
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode("utf-8")))
    for owner in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        methods = [node for node in owner.body if isinstance(node, ast.FunctionDef)]
        sending: set[str] = set()
        while found := {each.name for each in methods if each.name not in sending and any(_calls(each, sending))}:
            sending |= found
        for method in methods:
            if method.name in sending:
                edits.append((starts[method.lineno - 1] + method.col_offset, 0, "async "))
            for call, parent in _calls(method, sending):
                start = starts[call.lineno - 1] + call.col_offset
                end = starts[(call.end_lineno or 0) - 1] + (call.end_col_offset or 0)
                wrapped = isinstance(parent, (ast.Attribute, ast.Subscript))
                edits.append((start, 0, "(await " if wrapped else "await "))
                if wrapped:
                    edits.append((end, 1, ")"))
    raw = text.encode("utf-8")
    for at, _, what in sorted(edits, reverse=True):
        raw = raw[:at] + what.encode() + raw[at:]
    return raw.decode("utf-8")


def _calls(method: ast.AST, sending: set[str]) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Calls in a method that have to be awaited, each with what it is part of."""
    for parent in ast.walk(method):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _sends(node.func, sending):
                yield node, parent


def _sends(called: ast.Attribute, sending: set[str]) -> bool:
    owner = ast.unparse(called.value)
    known = {
        "self": sending,
        "self._client": {"_start_task", "_record_step", "_end_task"},
        "self._wire": SENDS,
        "self._http": HTTP,
        "response": RESPONSE,
        "asyncio": {"sleep"},
    }
    return called.attr in known.get(owner, ())


def _formatted(text: str, target: Path) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    checked = subprocess.run([*ruff, "check", "--select", "I,F401", "--fix-only", "-q", "--stdin-filename", str(target), "-"],
                             input=text, capture_output=True, text=True, check=True).stdout  # fmt: skip
    return subprocess.run([*ruff, "format", "--stdin-filename", str(target), "-"], input=checked, capture_output=True,
                          text=True, check=True).stdout  # fmt: skip


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(render(sys.argv[-1]), end="")
    else:
        for each in FILES:
            (ROOM / f"aio_{each}.py").write_text(render(each), encoding="utf-8")
