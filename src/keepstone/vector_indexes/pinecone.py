"""A vector index in Pinecone.

A space and a scope are a namespace together. An index holds vectors of one width: those of another go to an index of the same
name with the width behind it. Pinecone sees what was written only after a while, so every write waits until it does.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import Entry
from keepstone.ports.values import SearchFilter, Vector
from keepstone.types import Scope
from keepstone.vector_indexes import (
    TIMEOUT,
    Calls,
    Space,
    batches,
    checked_address,
    checked_key,
    checked_timeout,
    empty,
    installed,
    scope_hash,
    unique,
    waits,
)

if TYPE_CHECKING:
    from pinecone import Index, Pinecone

VARIABLE = "PINECONE_API_KEY"
CLOUD, REGION = "aws", "us-east-1"
CONTROLLER = "https://api.pinecone.io"
_WRITTEN = 1000  # vectors in one request, and
_BYTES = 2_000_000  # bytes of it
_A_NUMBER = 25  # bytes of a number of a vector as JSON, at most: "-1.2345678901234567e-05,"
_A_REST = 600  # bytes of an entry beside its vector, without its tag and session
_DROPPED = 1000  # ids in one request
_READ = 100  # ids in one request that reads: they stand in its address
_MOST = 10_000  # results of one query
_VALUES = "_values"  # the field that Pinecone's vector API reads and writes
_PAUSES = (0.05, 0.5)  # seconds between two looks, at first and at most
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,43}[a-z0-9])?")
_MAKING = 4  # timeouts that an index may take to be made


class PineconeIndex:
    """An index in Pinecone, `PineconeIndex("my-index", key="…")`; a serverless one is made if it is not there.

    `host` is where the index itself is, `controller` where indexes are made: for a local endpoint, or one of your own. With a
    host alone nothing is looked up or made. `timeout` is how many seconds Pinecone may take to answer, and to see a write."""

    def __init__(
        self,
        index: str,
        *,
        key: str | None = None,
        host: str | None = None,
        controller: str | None = None,
        cloud: str | None = None,
        region: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        installed("pinecone", "pinecone")
        if _NAME.fullmatch(index) is None:
            raise ConfigurationError(
                f"{index!r} is no name of a Pinecone index: use up to 45 lower-case letters, digits and hyphens between them."
            )
        self._key = checked_key(key, VARIABLE)
        if self._key is None:
            raise ConfigurationError(f"The Pinecone index {index!r} has no key: set {VARIABLE}, or pass key.")
        self._index_name, self._timeout = index, checked_timeout(timeout)
        self._host = checked_address(host if "://" in host else f"https://{host}", VARIABLE) if host else None
        self._controller = checked_address(controller, VARIABLE) if controller else None
        self._place = {"deployment_type": "managed", "cloud": cloud or CLOUD, "region": region or REGION}
        revive = "check the network, and PINECONE_HOST and PINECONE_CONTROLLER_HOST if they are set"
        self._ask = Calls(f"pinecone index {index}", VARIABLE, revive, self._timeout, self._key)
        self._lock = threading.Lock()
        self._client: Pinecone | None = None
        self._opened: tuple[Index, Space] | None = None

    @property
    def name(self) -> str:
        return self._ask.name

    def open(self, space: str, dimension: int) -> None:
        wanted = self._ask.space(space, dimension)
        with self._lock:
            if self._client is None:
                self._client = self._ask("open", self._connected)
            host = self._host
            if host is None or self._controller is not None:
                found = self._found(self._client, wanted)
                host = host or found
            index = self._data_plane(self._client, host)
            held = self._ask("describe itself", index.describe_index_stats).dimension
            if held is not None and held != dimension:
                raise self._ask.other_width(held, wanted)
            before, self._opened = self._opened, (index, wanted)
        if before is not None and before[0] is not index:
            _close(before[0])

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        index, space = self._at()
        namespace = _namespace(space, scope)
        rows = [
            {"id": _id(entry.sequence), "values": self._ask.numbers(entry.vector, space), "metadata": _metadata(entry)}
            for entry in unique(entries)
        ]
        committed: int | None = None
        for batch in _sized(rows, space.dimension):
            what = f"store {len(batch)} entries"
            done = self._ask(what, partial(index.upsert, vectors=batch, namespace=namespace, show_progress=False))
            if done.upserted_count != len(batch):
                raise self._ask.nonsense(what, f"that it stored {done.upserted_count}")
            committed = _number(done, "lsn_committed", committed)
        if rows:
            last = rows[-_READ:]
            self._until("show what was stored", lambda: self._shows(index, namespace, last, committed))

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        index, space = self._at()
        namespace = _namespace(space, scope)
        ids = [_id(sequence) for sequence in sorted(set(sequences))]
        for batch in batches(ids, _DROPPED):
            self._ask(f"take {len(batch)} entries out", partial(_deleted, index, ids=list(batch), namespace=namespace))
            self._until("let go of what was taken out", partial(self._hides, index, space, namespace, list(batch)))

    def clear(self, scope: Scope) -> None:
        index, space = self._at()
        namespace = _namespace(space, scope)
        some = [self._known(item.id) for item in self._listed(index, namespace, limit=_READ).vectors]
        self._ask("take a scope's entries out", partial(_deleted, index, delete_all=True, namespace=namespace))
        self._until("let go of what was taken out", lambda: self._is_empty(index, space, namespace, some))

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        index, space = self._at()
        ids = [_id(sequence) for sequence in sorted(set(sequences))]
        return {int(id, 16) for id in self._fetched(index, _namespace(space, scope), ids)}

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        index, space = self._at()
        namespace, ids = _namespace(space, scope), dict[str, None]()
        token: str | None = None
        while True:
            got = self._listed(index, namespace, limit=_READ, pagination_token=token)
            ids |= dict.fromkeys(self._known(item.id) for item in got.vectors)
            after = got.pagination.next if got.pagination is not None else None
            if not after:
                break
            if after == token:
                raise self._ask.nonsense("list a scope's entries", "the same page twice")
            token = after
        found = self._fetched(index, namespace, list(ids))
        return iter([(int(id, 16), str(fields.get("print", ""))) for id, fields in found.items()])

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        index, space = self._at()
        row = self._ask.numbers(vector, space)
        if limit < 1 or empty(search_filter):
            return []
        limit = min(limit, _MOST)
        query = partial(index.query, top_k=limit, vector=row, namespace=_namespace(space, scope), filter=_filter(search_filter))
        matches = self._ask("find the nearest entries", query).matches
        return [int(self._known(match.id), 16) for match in matches][:limit]

    def close(self) -> None:
        with self._lock:
            client, opened, self._client, self._opened = self._client, self._opened, None, None
        for each in (opened[0] if opened else None, client):
            if each is not None:
                _close(each)

    def _at(self) -> tuple[Index, Space]:
        opened = self._opened
        if opened is None:
            raise self._ask.not_open()
        return opened

    def _connected(self) -> Pinecone:
        from pinecone import Pinecone, RetryConfig

        seconds: Any = waits(self._timeout)  # its HTTP client takes four figures where the signature has one
        return Pinecone(
            api_key=self._key,
            host=self._controller or CONTROLLER,
            timeout=seconds,
            retry_config=RetryConfig(max_retries=0),
            source_tag="keepstone",
        )

    def _data_plane(self, client: Pinecone, host: str) -> Index:
        if self._opened is not None and self._opened[0].host == host:
            return self._opened[0]
        index: Index = self._ask("open", partial(client.index, host=host))
        _calm(index)
        return index

    def _found(self, client: Pinecone, space: Space) -> str:
        """Where the index for vectors of this width is; it is made if it is not there."""
        for name in (self._index_name, f"{self._index_name[:38]}-{space.dimension}"):
            model = self._described(client, name) or self._made(client, name, space)
            if getattr(model, "dimension", None) != space.dimension:
                continue
            if getattr(model, "metric", "cosine") != "cosine":
                raise IndexUnavailable(f"The Pinecone index {name} measures by {model.metric}: name one that measures by cosine.")
            return self._ready(client, name)
        raise self._ask.nonsense(f"open the space {space.name!r}", "an index of another width under the name for this one")

    def _described(self, client: Pinecone, name: str) -> Any:
        return self._ask("describe it", lambda: _known_or_none(lambda: client.indexes.describe(name)))

    def _made(self, client: Pinecone, name: str, space: Space) -> Any:
        fields = {_VALUES: {"type": "dense_vector", "dimension": space.dimension, "metric": "cosine"}}
        make = partial(client.indexes.create, name=name, schema={"fields": fields}, deployment=self._place, timeout=-1)
        try:
            return self._ask(f"make the index {name}", make)
        except IndexUnavailable:
            model = self._described(client, name)  # another process may have been quicker
            if model is None:
                raise
            return model

    def _ready(self, client: Pinecone, name: str) -> str:
        found: list[str] = []

        def ready() -> bool:
            model = self._described(client, name)
            if model is not None and model.status.ready and model.host:
                found.append(model.host)
            return bool(found)

        self._until(f"get the index {name} ready", ready, self._timeout * _MAKING)
        return found[0]

    def _until(self, what: str, seen: Callable[[], bool], within: float | None = None) -> None:
        """Look until something is so."""
        seconds = within or self._timeout
        deadline, pause = time.monotonic() + seconds, _PAUSES[0]
        while not seen():
            if time.monotonic() >= deadline:
                raise IndexUnavailable(
                    f"{self.name} did not {what} within {seconds:g} seconds: try again later, or allow a longer timeout."
                )
            time.sleep(pause)
            pause = min(pause * 1.5, _PAUSES[1])

    def _shows(self, index: Index, namespace: str, rows: list[Any], committed: int | None) -> bool:
        """Whether reading, listing and searching all have caught up with the last rows of a write: each does in its own time."""
        last = rows[-1]
        fetched = self._fetched(index, namespace, [row["id"] for row in rows])
        listed = self._listed(index, namespace, prefix=last["id"], limit=1).vectors
        itself: Any = {"sequence": {"$eq": last["id"]}}
        query = partial(index.query, top_k=1, vector=last["values"], namespace=namespace, filter=itself, include_metadata=True)
        answer = self._ask("find an entry", query)
        reconciled = _number(answer, "lsn_reconciled", None)
        if committed is not None and reconciled is not None:
            found = reconciled >= committed
        else:
            found = any(match.id == last["id"] and match.metadata == last["metadata"] for match in answer.matches)
        return found and bool(listed) and all(fetched.get(row["id"]) == row["metadata"] for row in rows)

    def _hides(self, index: Index, space: Space, namespace: str, ids: list[str]) -> bool:
        fetched = self._fetched(index, namespace, ids)
        any_of: Any = {"sequence": {"$in": ids}}
        query = partial(index.query, top_k=1, vector=_anything(space), namespace=namespace, filter=any_of)
        return not (self._ask("find an entry", query).matches or fetched)

    def _is_empty(self, index: Index, space: Space, namespace: str, some: list[str]) -> bool:
        fetched, listed = self._fetched(index, namespace, some), self._listed(index, namespace, limit=1).vectors
        query = partial(index.query, top_k=1, vector=_anything(space), namespace=namespace)
        return not (self._ask("find an entry", query).matches or fetched or listed)

    def _listed(self, index: Index, namespace: str, **what: Any) -> Any:
        return self._ask("list a scope's entries", partial(index.list_paginated, namespace=namespace, **what))

    def _fetched(self, index: Index, namespace: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The fields of those entries that are there."""
        found: dict[str, dict[str, Any]] = {}
        for batch in batches(ids, _READ):
            what = f"look for {len(batch)} entries"
            got = self._ask(what, partial(index.fetch, ids=list(batch), namespace=namespace)).vectors
            if not set(got) <= set(batch):
                raise self._ask.nonsense(what, "an entry that nobody asked for")
            found |= {id: dict(got[id].metadata or {}) for id in batch if id in got}
        return found

    def _known(self, id: object) -> str:
        """An id of ours."""
        if not isinstance(id, str) or re.fullmatch("[0-9a-f]{16}", id) is None:
            raise self._ask.nonsense("find entries", "an id that is none of ours")
        return id


def _calm(index: Index) -> None:
    """No retries of its own, up to minutes long, for what the client has no setting."""
    from pinecone import RetryConfig

    transport: Any = getattr(getattr(getattr(index, "_http", None), "_client", None), "_transport", None)
    if hasattr(transport, "_config"):
        transport._config = RetryConfig(max_retries=0)


def _deleted(index: Index, **what: Any) -> None:
    _known_or_none(lambda: index.delete(**what))  # a namespace that is not there has nothing to delete


def _known_or_none(call: Callable[[], Any]) -> Any:
    from pinecone import NotFoundError

    try:
        return call()
    except NotFoundError:
        return None


def _close(client: Any) -> None:
    try:
        client.close()
    except Exception:  # what cannot be closed is gone already
        return


def _namespace(space: Space, scope: Scope) -> str:
    return f"{space.name}.{scope_hash(scope)}"


def _id(sequence: int) -> str:
    """All of one length, so that a whole id is the prefix of no other; numbers in metadata would lose digits."""
    return f"{sequence:016x}"


def _metadata(entry: Entry) -> dict[str, str]:
    fields = {"sequence": _id(entry.sequence), "print": entry.vector_hash, "kind": entry.kind, "tag": entry.tag}
    return fields if entry.session is None else {**fields, "session": entry.session}


def _filter(search_filter: SearchFilter) -> dict[str, Any] | None:
    wanted: dict[str, Any] = {}
    if search_filter.kinds is not None:
        wanted["kind"] = {"$in": list(search_filter.kinds)}
    if search_filter.tag is not None:
        wanted["tag"] = {"$eq": search_filter.tag}
    if search_filter.session is not None:
        wanted["session"] = {"$eq": search_filter.session}
    return wanted or None


def _sized(rows: Sequence[Any], dimension: int) -> Iterator[Sequence[Any]]:
    """Runs of rows that one request can carry."""
    widest = max((len(str(row["metadata"]).encode()) for row in rows), default=0)
    return batches(rows, max(1, min(_WRITTEN, _BYTES // (dimension * _A_NUMBER + _A_REST + 2 * widest))))


def _anything(space: Space) -> list[float]:
    return [1.0] * space.dimension


def _number(answer: Any, name: str, other: int | None) -> int | None:
    """A number of the write-ahead log that came with an answer."""
    number = getattr(getattr(answer, "response_info", None), name, None)
    return number if isinstance(number, int) else other
