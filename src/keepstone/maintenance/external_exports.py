"""Exports of other memory systems, read as items for the health report.

Known are mem0 (`get_all` of the platform and of the open source, exports, lines of JSON), Letta (agent files, older exports,
lists of blocks or passages), LangMem (items of a LangGraph store) and our own export. A file is data: nothing in it is run or
fetched.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from keepstone.distribution import export_format
from keepstone.errors import TooLarge, ValidationError
from keepstone.maintenance.external_formats import LETTA_PARTS, Row, Rows, entries, langmem, letta, mem0, own
from keepstone.maintenance.health import Item

MAX_BYTES = 256 * 1024 * 1024
FORMATS = ("mem0", "letta", "langmem", "keepstone")


def read_export(path: str | PathLike[str], format: str = "auto") -> tuple[str, list[Item]]:
    """The format of an export and the memories in it. ValidationError says which line or entry cannot be read, and why."""
    if format not in ("auto", *FORMATS):
        raise ValidationError(f"the format {format!r:.40} is unknown: use auto, {', '.join(FORMATS)}.")
    name = f"{str(path)!r:.100}"
    rows, whole = _parsed(_bytes(path, name), name)
    found = recognised(rows, whole) if format == "auto" else format
    if found is None:
        raise ValidationError(f"{name} is in no known format: known are exports of {', '.join(FORMATS)}.")
    try:
        return found, list(_with_own_ids(_READERS[found](rows)))
    except ValidationError as error:
        raise ValidationError(f"{name}, {error} Mend it, or leave it out of the file.") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValidationError(f"{name} cannot be read as {found} ({type(error).__name__}): name its `format`.") from None


# -- bytes and JSON -----------------------------------------------------------------------------------------------------
def _bytes(path: str | PathLike[str], name: str) -> bytes:
    try:
        source = Path(path)
        if not source.is_file():
            raise ValidationError(f"{name} is not an ordinary file: check the path.")
        with source.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except ValidationError:
        raise
    except (OSError, ValueError, TypeError) as error:
        problem = getattr(error, "strerror", None) or error
        raise ValidationError(f"{name} cannot be read ({problem}): check the path.") from None
    if len(data) > MAX_BYTES:
        raise TooLarge(f"{name} is larger than {MAX_BYTES} bytes: split the export into several files.")
    return data


def _parsed(data: bytes, name: str) -> tuple[list[Row], Any]:
    """(the entries, each with where it stands; the whole document, None for lines of JSON)."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise ValidationError(f"{name} is empty: name an export with something in it.")
    if _by_line(data):
        lines = ((number, line) for number, line in enumerate(io.BytesIO(data), 1) if line.strip())
        return [(f"line {number}", _json(line, name, number)) for number, line in lines], None
    whole = _json(data, name)
    return [(f"entry {number}", each) for number, each in enumerate(whole if isinstance(whole, list) else [whole], 1)], whole


def _by_line(data: bytes) -> bool:
    """Whether each line is an object of its own, as far as the first one tells; it may be a broken one."""
    start = len(data) - len(data.lstrip())
    end = data.find(b"\n", start)
    line = data[start:end].rstrip() if end > 0 else b""
    return line.startswith(b"{") and line.endswith(b"}") and bool(data[end:].strip())


def _json(data: bytes, name: str, line: int | None = None) -> Any:
    """The JSON of a line, or of the whole file."""
    where = f"{name}, line {line}" if line is not None else name
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_missing)
    except UnicodeDecodeError as error:
        at = line or data[: error.start].count(b"\n") + 1
        raise ValidationError(f"{name}, line {at} is not UTF-8 ({error.reason}): export it as UTF-8 JSON.") from None
    except json.JSONDecodeError as error:
        at = line or error.lineno
        raise ValidationError(f"{name}, line {at} is not JSON ({error.msg} at column {error.colno}): export it again.") from None
    except RecursionError:
        raise ValidationError(f"{where} is nested too deeply for an export: check what it is.") from None
    except ValueError as error:
        raise ValidationError(f"{where} cannot be read ({error}): export it again.") from None


def _missing(name: str) -> float:
    return math.nan  # Python writes NaN where a number is missing


# -- which format -------------------------------------------------------------------------------------------------------
def recognised(rows: list[Row], whole: Any) -> str | None:
    """The format that the first entry tells; None for an unknown one."""
    first = next((each for _, each in rows if isinstance(each, Mapping)), None)
    if first is None:
        return "mem0" if whole == [] else None
    if export_format(first) is not None:
        return "keepstone"
    listed = entries(first) if LETTA_PARTS.isdisjoint(first) else None
    head = first if listed is None else next((each for each in listed if isinstance(each, Mapping)), {})
    if "value" in head and ("namespace" in head or "prefix" in head):
        return "langmem"
    if listed is not None or (head.get("memory") is not None and isinstance(head["memory"], str)):
        return "mem0"
    if not LETTA_PARTS.isdisjoint(head) or {"label", "value"} <= head.keys() or "in_context_message_ids" in head:
        return "letta"
    if isinstance(head.get("memory"), Mapping) or ("text" in head and not _PASSAGE.isdisjoint(head)):
        return "letta"
    return "mem0" if not _MEM0.isdisjoint(head) else None


_PASSAGE = frozenset({"archive_id", "agent_id", "embedding_config", "source_id", "file_id", "organization_id", "is_deleted"})
_MEM0 = frozenset({"data", "payload", "hash", "user_id", "app_id"})
_READERS: dict[str, Callable[[Rows], Iterator[Item]]] = {"mem0": mem0, "letta": letta, "langmem": langmem, "keepstone": own}


def _with_own_ids(items: Iterable[Item]) -> Iterator[Item]:
    """Each item once and under an id of its own: what has none gets one of its content."""
    seen: dict[str, str] = {}
    for item in items:
        id = item.id or hashlib.blake2b(f"{item.user}\0{item.content}".encode(), digest_size=8).hexdigest()
        if item.id and seen.get(id) == item.content:
            continue  # two pages of one export may overlap
        name, number = id, 2
        while name in seen:
            name, number = f"{id}#{number}", number + 1
        seen[name] = item.content
        yield item if item.id == name else replace(item, id=name)
