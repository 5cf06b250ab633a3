"""A vector index in Qdrant: on a server, or in the client's own local mode, in a folder or in memory.

A space is a collection. A scope is a field that every request is filtered by; on a server it is marked as what tenants are told
apart by, so that each has a graph of its own, and there is none over all of them.
"""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

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
    from qdrant_client import QdrantClient
    from qdrant_client.models import Filter

VARIABLE = "QDRANT_API_KEY"
MEMORY = ":memory:"
_PREFIX = "keepstone-"
_BATCH = 500  # entries written at once
_PAGE = 1000  # entries read at once
_EDGES = 16  # of an entry in its tenant's graph


class QdrantIndex:
    """Qdrant on a server, `QdrantIndex("http://localhost:6333", key="…")`, in a folder, `QdrantIndex("/data/qdrant")`, or in
    memory, `QdrantIndex(":memory:")`. A folder is one process's own.

    `timeout` is how many seconds a server may take to answer."""

    def __init__(self, where: str, *, key: str | None = None, timeout: float = TIMEOUT) -> None:
        installed("qdrant_client", "qdrant")
        self._timeout = checked_timeout(timeout)
        self._served = "://" in where
        self._key = checked_key(key, VARIABLE)
        if self._served:
            self._where, revive = checked_address(where, VARIABLE), "check that the server runs there"
        else:
            self._where = where if where == MEMORY else os.path.abspath(os.path.expanduser(where))
            revive = "check the folder and who may write there"
        name = "qdrant in memory" if where == MEMORY else f"qdrant at {self._where}"
        self._ask = Calls(name, VARIABLE, revive, self._timeout, self._key)
        self._opening = threading.Lock()
        # The client's local mode is plain lists and arrays: one thread at a time.
        self._turn: AbstractContextManager[Any] = nullcontext() if self._served else threading.RLock()
        self._client: QdrantClient | None = None
        self._space: Space | None = None

    @property
    def name(self) -> str:
        return self._ask.name

    def open(self, space: str, dimension: int) -> None:
        wanted = self._ask.space(space, dimension)
        with self._opening, self._turn:
            if self._client is None:
                self._client = self._ask("open", self._connected)
            client = self._client
            what = f"open the space {space!r}"
            if not self._ask(what, lambda: client.collection_exists(_PREFIX + space)):
                self._make(client, wanted)
            held = self._ask(what, lambda: client.get_collection(_PREFIX + space))
            params = held.config.params.vectors
            size, distance = getattr(params, "size", None), getattr(params, "distance", None)
            if size != dimension:
                raise self._ask.other_width(size, wanted)
            if str(getattr(distance, "value", distance)).lower() != "cosine":
                raise self._ask.nonsense(what, f"a collection that measures by {distance}, not by cosine,")
            if self._served:
                self._index_fields(client, wanted, held.payload_schema)
            self._space = wanted

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        from qdrant_client import models

        client, space, collection = self._at()
        own = scope_hash(scope)
        for batch in batches(unique(entries), _BATCH):
            points = [
                models.PointStruct(
                    id=_id(own, entry.sequence), vector=self._ask.numbers(entry.vector, space), payload=_payload(own, entry)
                )
                for entry in batch
            ]
            with self._turn:
                self._ask(f"store {len(points)} entries", partial(client.upsert, collection, points, wait=True))

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        from qdrant_client import models

        client, _, collection = self._at()
        own = scope_hash(scope)
        for batch in batches(sorted(set(sequences)), _BATCH):
            chosen = models.PointIdsList(points=[_id(own, sequence) for sequence in batch])
            with self._turn:
                self._ask(f"take {len(batch)} entries out", partial(client.delete, collection, chosen, wait=True))

    def clear(self, scope: Scope) -> None:
        from qdrant_client import models

        client, _, collection = self._at()
        chosen = models.FilterSelector(filter=_filter(scope_hash(scope)))
        with self._turn:
            self._ask("take a scope's entries out", lambda: client.delete(collection, chosen, wait=True))

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        client, _, collection = self._at()
        own, found = scope_hash(scope), set[int]()
        for batch in batches(sorted(set(sequences)), _PAGE):
            what = f"look for {len(batch)} entries"
            ids = [_id(own, sequence) for sequence in batch]
            with self._turn:
                records = self._ask(what, partial(client.retrieve, collection, ids, with_payload=["sequence"]))
            found |= {self._sequence(what, own, record) for record in records}
            if not found <= set(sequences):
                raise self._ask.nonsense(what, "an entry that nobody asked for")
        return found

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        client, _, collection = self._at()
        own, what, pairs = scope_hash(scope), "list a scope's entries", dict[int, str]()
        page = partial(client.scroll, collection, _filter(own), limit=_PAGE, with_payload=["sequence", "print"])
        offset: Any = None
        while True:
            with self._turn:
                records, after = self._ask(what, partial(page, offset=offset))
            for record in records:
                pairs[self._sequence(what, own, record)] = str((record.payload or {}).get("print", ""))
            if after is None:
                return iter(pairs.items())
            if after == offset:
                raise self._ask.nonsense(what, "the same page twice")
            offset = after

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        client, space, collection = self._at()
        row = self._ask.numbers(vector, space)
        if limit < 1 or empty(search_filter):
            return []
        own, what = scope_hash(scope), "find the nearest entries"
        query = partial(client.query_points, collection, row, query_filter=_filter(own, search_filter), limit=limit)
        with self._turn:
            found = self._ask(what, partial(query, with_payload=["sequence"], with_vectors=False)).points
        return [self._sequence(what, own, point) for point in found][:limit]

    def close(self) -> None:
        with self._opening, self._turn:
            client, self._client, self._space = self._client, None, None
            if client is not None:
                try:
                    client.close()
                except Exception:  # what cannot be closed is gone already
                    return

    def _at(self) -> tuple[QdrantClient, Space, str]:
        client, space = self._client, self._space
        if client is None or space is None:
            raise self._ask.not_open()
        return client, space, _PREFIX + space.name

    def _sequence(self, what: str, own: str, point: Any) -> int:
        """The sequence of a point, whose id must be the one that this sequence has in this scope."""
        sequence = (point.payload or {}).get("sequence")
        if isinstance(sequence, bool) or not isinstance(sequence, int) or str(point.id) != _id(own, sequence):
            raise self._ask.nonsense(what, "a point that is not of this scope")
        return sequence

    def _connected(self) -> QdrantClient:
        from qdrant_client import QdrantClient

        if not self._served:
            memory = self._where == MEMORY
            return QdrantClient(MEMORY) if memory else QdrantClient(path=self._where, force_disable_check_same_thread=True)
        client = QdrantClient(
            url=self._where,
            headers={"api-key": self._key} if self._key else None,
            timeout=max(1, round(self._timeout)),
            check_compatibility=False,  # a thread that asks the server once more, and warns
        )
        session = getattr(client.http.client, "_client", None)
        if session is not None:  # the client's own setting has one figure for all
            session.timeout = waits(self._timeout)
        return client

    def _make(self, client: QdrantClient, space: Space) -> None:
        from qdrant_client import models

        name, what = _PREFIX + space.name, f"make the space {space.name!r}"
        vectors = models.VectorParams(size=space.dimension, distance=models.Distance.COSINE)
        if not self._served:
            self._ask(what, lambda: client.create_collection(name, vectors))
            return
        graph = models.HnswConfigDiff(m=0, payload_m=_EDGES)
        try:
            self._ask(what, lambda: client.create_collection(name, vectors, hnsw_config=graph))
        except Exception:
            if not self._ask(what, lambda: client.collection_exists(name)):  # else another process was quicker
                raise

    def _index_fields(self, client: QdrantClient, space: Space, there: Mapping[str, object]) -> None:
        """Make the indexes of fields that are missing: also those that whoever made the space did not get to."""
        from qdrant_client import models

        name, what = _PREFIX + space.name, f"make the space {space.name!r}"
        for field in ("scope", "kind", "tag", "session"):
            if field not in there:
                tenant = True if field == "scope" else None
                kind = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=tenant)
                self._ask(what, partial(client.create_payload_index, name, field, kind, wait=True))


def _id(own: str, sequence: int) -> str:
    """An id as Qdrant takes them, a UUID, made of scope and sequence."""
    return str(uuid.UUID(bytes=hashlib.blake2b(f"{own}:{sequence}".encode(), digest_size=16).digest()))


def _payload(own: str, entry: Entry) -> dict[str, Any]:
    fields = {"scope": own, "sequence": int(entry.sequence), "print": entry.vector_hash, "kind": entry.kind, "tag": entry.tag}
    return fields if entry.session is None else {**fields, "session": entry.session}


def _filter(own: str, search_filter: SearchFilter = SearchFilter()) -> Filter:
    from qdrant_client import models

    must: list[Any] = [models.FieldCondition(key="scope", match=models.MatchValue(value=own))]
    if search_filter.kinds is not None:
        must.append(models.FieldCondition(key="kind", match=models.MatchAny(any=list(search_filter.kinds))))
    if search_filter.tag is not None:
        must.append(models.FieldCondition(key="tag", match=models.MatchValue(value=search_filter.tag)))
    if search_filter.session is not None:
        must.append(models.FieldCondition(key="session", match=models.MatchValue(value=search_filter.session)))
    return models.Filter(must=must)
