"""What a framework is given, as keepstone takes it: a memory to work on, names of any shape.

Frameworks name threads, keys and users as they like; keepstone's names are at most 256 characters without control characters.
"""

from __future__ import annotations

import hashlib
import unicodedata
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from keepstone.errors import ConfigurationError
from keepstone.types import NAME_LIMIT

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

    Given: TypeAlias = Memory | Client

_START = 180  # characters of a long name that stay readable
_MARK = "#"  # stands before the digest of a name that could not stay as it was


def plain(memory: Any) -> Given:
    """The memory whose verbs are called: a Memory or a Client as it is, of an AsyncMemory the one it runs."""
    kind = type(memory).__name__
    if kind == "AsyncMemory":
        inner: Memory = memory._memory()
        return inner
    if kind == "AsyncClient":
        raise ConfigurationError("an AsyncClient cannot be called from a thread: give a keepstone.Client, it is called in one.")
    if not all(callable(getattr(memory, verb, None)) for verb in ("remember", "recall", "ingest", "conversation")):
        raise ConfigurationError(f"memory is a {kind}: give a keepstone.Memory, AsyncMemory or Client.")
    found: Given = memory
    return found


def opened(target: str | PathLike[str], **options: Any) -> Memory:
    """A memory opened for an adapter that was given a path or a URL."""
    from keepstone.memory import Memory

    return Memory.open(target, **options)


def named(text: str) -> str:
    """A name that keepstone takes, for any text: itself where that can be, else its beginning and a digest.

    >>> named("thread-1"), named("thread\\n1")
    ('thread-1', 'thread 1#6e5ec36c5a1b7c5d8a3bd8ef')
    """
    seen = text.strip() and unicodedata.normalize("NFC", text) == text
    if seen and _MARK not in text and len(text) <= NAME_LIMIT and not any(map(_hidden, text)):
        return text
    start = "".join(" " if _hidden(character) else character for character in text[:_START])
    return f"{unicodedata.normalize('NFC', start)[:_START]}{_MARK}{digest(text)}"


def joined(*names: str) -> str:
    """Several names as one, for `named`: another for other names, whatever is in them.

    >>> joined("strands", "a/b", "c")
    'strands/a%2Fb/c'
    """
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


def digest(text: str) -> str:
    """A short name for any text, the same in every process."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
