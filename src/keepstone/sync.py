"""Two-way synchronisation of a memory with another store, with a server, or through a folder that another program synchronises.

Both sides end with the same records: versions of either are kept, forgetting wins. Every step can be repeated, so a kill loses
nothing: positions are saved only after what they stand for is stored on both sides.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

from keepstone.backend import Backend, backend_of
from keepstone.client.client import Client
from keepstone.errors import ConfigurationError
from keepstone.maintenance.files import open_for_reading, whole
from keepstone.memory import Memory
from keepstone.types import Scope

_HEAD = "keepstone-sync"
_PAGE_RECORDS = 200
_MAX_LINE_BYTES = 64 * 1024 * 1024
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How many records changed there (`sent`) and here (`received`), how many were `forgotten` on either side, how many
    `conflicts` wait on the review list of this store, and how many files of a folder are not whole yet (`waiting`)."""

    target: str
    sent: int = 0
    received: int = 0
    forgotten: int = 0
    conflicts: int = 0
    waiting: int = 0


class _Side(Protocol):
    """A store that gives and takes pages of changes."""

    def changes(self, cursor: str | None) -> Json: ...

    def apply(self, records: Sequence[Json], forgotten: Sequence[str]) -> Json: ...


@dataclass(frozen=True, slots=True)
class _LocalSide:
    backend: Backend
    scope: Scope

    def changes(self, cursor: str | None) -> Json:
        return self.backend.sync_changes(self.scope, cursor, _PAGE_RECORDS)

    def apply(self, records: Sequence[Json], forgotten: Sequence[str]) -> Json:
        return self.backend.sync_apply(self.scope, records, forgotten)


@dataclass(frozen=True, slots=True)
class _ServerSide:
    client: Client

    def changes(self, cursor: str | None) -> Json:
        page: Json = self.client._request("GET", "/v1/sync", {"cursor": cursor, "limit": _PAGE_RECORDS})
        return page

    def apply(self, records: Sequence[Json], forgotten: Sequence[str]) -> Json:
        page: Json = self.client._request("POST", "/v1/sync", {"records": records, "forgotten": forgotten})
        return page


def sync(
    memory: Memory,
    target: str | PathLike[str] | Memory | Client,
    *,
    full: bool = False,
    plaintext: bool = False,
    embedder: Any = "auto",
) -> SyncReport:
    """Synchronise the scope of a memory with a target, in both directions.

    The target is a path or a postgresql:// URL of another store (the same scope there), the http(s):// URL of a server (the key
    is in KEEPSTONE_KEY), an existing folder that another program synchronises, or an open Memory or Client. Only what changed
    since the last time is exchanged; `full` compares everything again. Files in a folder are not encrypted: for an encrypted
    store they are written only with `plaintext`.

    >>> report = sync(memory, "laptop.db")
    >>> report.sent, report.received
    (1, 0)"""
    backend = backend_of(memory)
    mine = _LocalSide(backend, memory.scope)
    shown = target if isinstance(target, str) else fspath(target) if isinstance(target, PathLike) else repr(target)
    folder = Path(shown) if "://" not in shown and Path(shown).is_dir() else None
    position = _Position(backend, memory.scope, str(folder.resolve()) if folder else shown, full)
    if folder is not None:
        backend.check_plaintext(plaintext)
        report = _sync_folder(mine, folder, position)
    else:
        with ExitStack() as stack:
            report = _exchange(mine, _open_side(target, shown, memory, embedder, stack), position)
    conflicts = sum(item.flag == "conflict" for item in memory.review)
    return replace(report, target=shown, conflicts=conflicts)


def _open_side(target: Any, shown: str, memory: Memory, embedder: Any, stack: ExitStack) -> _Side:
    if isinstance(target, Client):
        return _ServerSide(target)
    if shown.startswith(("http://", "https://")):
        return _ServerSide(stack.enter_context(Client(shown)))
    if not isinstance(target, Memory):
        if Path(shown).resolve() == Path(backend_of(memory).target).resolve():
            raise ConfigurationError(f"{shown} is the store itself: name another store, a server or a folder.")
        scope = memory.scope
        other = Memory.open(shown, tenant=scope.tenant, agent=scope.agent, user=scope.user, embedder=embedder)
        target = stack.enter_context(other)
    return _LocalSide(backend_of(target), target.scope)


class _Position:
    """How far this store and a target are, kept as a state of the scope."""

    def __init__(self, backend: Backend, scope: Scope, target: str, full: bool) -> None:
        self._backend, self._scope = backend, scope
        self._name = f"sync:{hashlib.blake2b(target.encode(), digest_size=12).hexdigest()}"
        saved = None if full else backend.key_states.get(scope, self._name)
        self.values: Json = {} if saved is None else json.loads(saved)

    def save(self, **values: Any) -> None:
        if any(self.values.get(name) != value for name, value in values.items()):
            self.values |= values
            self._backend.key_states.put(self._scope, self._name, json.dumps(self.values))


# -- with another store ---------------------------------------------------------------------------------------------------
def _exchange(mine: _Side, other: _Side, position: _Position) -> SyncReport:
    sent = received = forgotten = 0
    same: set[str] = set()  # came just now: it need not go back
    for page in _pages(other, position.values.get("received")):
        answer = mine.apply(page["records"], page["forgotten"])
        received, forgotten = received + answer["received"], forgotten + answer["erased"]
        differing = [record["id"] for record in answer["records"]]
        same |= {record["id"] for record in page["records"]} - {*differing, *answer["forgotten"]}
        if differing or answer["forgotten"]:
            result = other.apply(answer["records"], answer["forgotten"])
            sent, forgotten = sent + result["received"], forgotten + result["erased"]
        position.save(received=page["cursor"])
    for page in _pages(mine, position.values.get("sent")):
        records = [record for record in page["records"] if record["id"] not in same]
        if records or page["forgotten"]:
            result = other.apply(records, page["forgotten"])
            sent, forgotten = sent + result["received"], forgotten + result["erased"]
            if result["records"] or result["forgotten"]:
                answer = mine.apply(result["records"], result["forgotten"])
                received, forgotten = received + answer["received"], forgotten + answer["erased"]
        position.save(sent=page["cursor"])
    return SyncReport("", sent, received, forgotten)


def _pages(side: _Side, cursor: str | None) -> Iterator[Json]:
    more = True
    while more:
        page = side.changes(cursor)
        yield page
        cursor, more = page["cursor"], page["more"]


# -- through a folder -----------------------------------------------------------------------------------------------------
def _sync_folder(mine: _LocalSide, folder: Path, position: _Position) -> SyncReport:
    """Read the files of the other stores, then write the own one anew if it changed. A file holds everything that its store has
    of the scope, so what was forgotten is in it no more."""
    own, prefix = _own_file(mine, folder)
    received = forgotten = waiting = 0
    read: dict[str, Any] = dict(position.values.get("files", {}))
    for path in sorted(folder.glob(f"{prefix}*.jsonl")):
        mark = [path.stat().st_size, path.stat().st_mtime_ns]
        if path == own or read.get(path.name) == mark:
            continue
        if not _is_whole(path):
            waiting += 1
            continue
        for page in _read_pages(path):
            answer = mine.apply(page["records"], page["forgotten"])
            received, forgotten = received + answer["received"], forgotten + answer["erased"]
        read[path.name] = mark
    sent, cursor = 0, position.values.get("sent")
    page = mine.changes(cursor)
    if page["records"] or page["forgotten"] or not own.exists():
        sent, cursor = _write_pages(own, _pages(mine, None))
    position.save(files=read, sent=cursor)
    return SyncReport("", sent, received, forgotten, waiting=waiting)


def _own_file(mine: _LocalSide, folder: Path) -> tuple[Path, str]:
    """The file of this store and scope, and what the names of all stores' files of the scope begin with. A copy of a store on
    another machine, or at another path, has a file of its own."""
    scope = hashlib.blake2b(json.dumps([mine.scope.agent, mine.scope.user]).encode(), digest_size=6).hexdigest()
    place = f"{mine.backend.store_id} {socket.gethostname()} {Path(mine.backend.target).resolve()}"
    name = hashlib.blake2b(place.encode(), digest_size=6).hexdigest()
    return folder / f"{_HEAD}-{scope}-{name}.jsonl", f"{_HEAD}-{scope}-"


def _write_pages(path: Path, pages: Iterator[Json]) -> tuple[int, str | None]:
    """Write all pages to a file. Returns the number of records and the last cursor."""
    lines, cursor = 0, None
    with whole(path) as file:
        for page in pages:
            cursor = page["cursor"]
            for line in ({"record": record} for record in page["records"]):
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
                lines += 1
            if page["forgotten"]:
                file.write(json.dumps({"forgotten": page["forgotten"]}).encode() + b"\n")
        file.write(json.dumps({"end": lines}).encode() + b"\n")
    return lines, cursor


def _is_whole(path: Path) -> bool:
    """Whether the other program has brought all of a file: its last line says how many records are before it."""
    count, last = 0, b""
    with open_for_reading(path) as (file, _):
        for line in iter(lambda: file.readline(_MAX_LINE_BYTES), b""):
            count += line.startswith(b'{"record"')
            last = line
    return last == json.dumps({"end": count}).encode() + b"\n"


def _read_pages(path: Path) -> Iterator[Json]:
    records: list[Mapping[str, Any]] = []
    with open_for_reading(path) as (file, _):
        for raw in iter(lambda: file.readline(_MAX_LINE_BYTES), b""):
            line = json.loads(raw)
            if "record" in line:
                records.append(line["record"])
            if "forgotten" in line:
                yield {"records": [], "forgotten": line["forgotten"]}
            if len(records) == _PAGE_RECORDS or "end" in line:
                yield {"records": records, "forgotten": []}
                records = []
