"""What all integrations share: the memory they are given, valid names, and calls in threads.

Frameworks allow any name for threads, keys and users; names in keepstone have at most 256 characters and no control characters.
"""

from __future__ import annotations

import asyncio
import hashlib
import unicodedata
from collections.abc import Callable, Coroutine
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from keepstone.errors import ConfigurationError
from keepstone.types import NAME_LIMIT

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

    MemoryOrClient: TypeAlias = Memory | Client

P = ParamSpec("P")
T = TypeVar("T")
_PREFIX_CHARS = 180  # of a long name that stay readable
_MARK = "#"  # before the digest of a changed name


def as_sync_memory(memory: Any) -> MemoryOrClient:
    """The synchronous memory: a Memory or a Client itself, or the Memory of an AsyncMemory."""
    kind = type(memory).__name__
    if kind == "AsyncMemory":
        inner: Memory = memory._target()
        return inner
    if kind == "AsyncClient":
        raise ConfigurationError("an AsyncClient cannot be called from a thread: pass a keepstone.Client.")
    if not all(callable(getattr(memory, verb, None)) for verb in ("remember", "recall", "ingest", "conversation")):
        raise ConfigurationError(f"memory is a {kind}: pass a keepstone.Memory, AsyncMemory or Client.")
    found: MemoryOrClient = memory
    return found


def open_memory(target: str | PathLike[str], **options: Any) -> Memory:
    """Open a memory from a path or a URL."""
    from keepstone.memory import Memory

    return Memory.open(target, **options)


def to_name(text: str) -> str:
    """A valid name for any text: the text itself if possible, otherwise its beginning and a digest.

    >>> to_name("thread-1"), to_name("thread\\n1")
    ('thread-1', 'thread 1#6e5ec36c5a1b7c5d8a3bd8ef')
    """
    seen = text.strip() and unicodedata.normalize("NFC", text) == text
    if seen and _MARK not in text and len(text) <= NAME_LIMIT and not any(map(_hidden, text)):
        return text
    start = "".join(" " if _hidden(character) else character for character in text[:_PREFIX_CHARS])
    return f"{unicodedata.normalize('NFC', start)[:_PREFIX_CHARS]}{_MARK}{digest(text)}"


def join_names(*names: str) -> str:
    """Join names unambiguously, for `to_name`.

    >>> join_names("strands", "a/b", "c")
    'strands/a%2Fb/c'
    """
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


def digest(text: str) -> str:
    """A short digest of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


async def run_to_completion(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call in a thread; a cancellation is raised only after the call has ended, when its result is known."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # retrieved, so that asyncio does not log it
        raise cancelled
    return task.result()


def in_thread(work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The asyncio form of a blocking method: it runs to its end in a thread."""

    @wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_to_completion(work, *args, **kwargs)

    return call
