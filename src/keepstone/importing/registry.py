"""The systems that can be imported from, and which one a path is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from keepstone.errors import ConfigurationError, KeepstoneError, ValidationError
from keepstone.importing import chatgpt, claude, langmem, letta, markdown, mem0, zep
from keepstone.importing.entries import Found, Passed
from keepstone.importing.json_files import Document, documents
from keepstone.maintenance.external_exports import recognised

Path_ = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class System:
    """One system: its name, what reads a path as entries, and what an owner of an entry is in it."""

    name: str
    read: Callable[[Path_], Iterator[Found]]
    owner: Literal["user", "agent"] = "user"


def _over(
    read: Callable[[list[Document]], Iterator[Found]], wanted: Callable[[Document], bool] = lambda document: True
) -> Callable[[Path_], Iterator[Found]]:
    def entries(path: Path_) -> Iterator[Found]:
        found = [each for each in documents(path) if wanted(each)]
        if not found:
            raise ConfigurationError(
                f"{str(path)!r:.100} holds no JSON file of such an export: check the path, or name its format."
            )
        return read(found)

    return entries


SYSTEMS: dict[str, System] = {
    each.name: each
    for each in (
        System("mem0", _over(mem0.entries)),
        System("letta", _over(letta.entries), owner="agent"),
        System("zep", _over(zep.entries)),
        System("langmem", _over(langmem.entries)),
        System("chatgpt", _over(chatgpt.entries, chatgpt.wanted)),
        System("claude", _over(claude.entries, claude.wanted)),
        System("markdown", markdown.entries),
    )
}
FORMATS = (*SYSTEMS, "keepstone")


def recognise(path: Path_) -> str | None:
    """The format of an export, a folder or an archive; None for what is not known. A file that cannot be read is not known."""
    try:
        if Path(path).is_file() and markdown.is_markdown(path):
            return "markdown"
        found = sorted(documents(path), key=lambda each: not chatgpt.wanted(each))
        for document in found[:20]:
            name = _of(document)
            if name is not None:
                return name
        return "markdown" if Path(path).is_dir() and markdown.is_markdown(path) else None
    except (KeepstoneError, OSError, ValueError, TypeError):
        return None


def system_of(path: Path_, format: str) -> str:
    """The name of the format that was asked for, or that a path has. ValidationError for one that is unknown."""
    if format not in ("auto", *FORMATS):
        raise ValidationError(f"the format {format!r:.40} is unknown: use auto, {', '.join(FORMATS)}.")
    if format != "auto":
        return format
    documents(path)  # says so if there is nothing to read
    found = recognise(path)
    if found is None:
        known = ", ".join(FORMATS)
        raise ConfigurationError(f"{str(path)!r:.100} is in no known format: name its format, one of {known}.")
    return found


def _of(document: Document) -> str | None:
    """The format of a file, by the first of its entries that can be read."""
    for number, row in enumerate(document.rows()):
        if not isinstance(row, Passed):
            given = row[1]
            if chatgpt.is_chatgpt(given):
                return "chatgpt"
            if claude.is_claude(given):
                return "claude"
            return "zep" if zep.is_zep(given) else recognised([("", given)], given)
        if number >= 100:
            break
    return None
