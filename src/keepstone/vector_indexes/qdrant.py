"""A vector index in Qdrant: on a server, or in the client's own local mode, in a folder or in memory.

A space is a collection. A scope is a field that every request is filtered by. On a server it is marked as the tenant field, so
that each scope has a graph of its own and there is none over all of them.
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
from keepstone.providers.http import check_key, check_timeout, client_timeouts
from keepstone.types import Scope
from keepstone.vector_indexes.engine import (
    TIMEOUT_SECONDS,
    Engine,
    Space,
    batches,
    check_address,
    check_client,
    hash_scope,
    latest_entries,
)

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Filter

KEY_VARIABLE = "QDRANT_API_KEY"
MEMORY = ":memory:"
_PREFIX = "keepstone-"
_MAX_BATCH_ENTRIES = 500  # in one request
_PAGE_ENTRIES = 1000  # in one response
_GRAPH_EDGES = 16  # per entry, in the graph of its scope


class QdrantIndex:
    """Qdrant on a server, `QdrantIndex("http://localhost:6333", key="…")`, in a folder, `QdrantIndex("/data/qdrant")`, or in
    memory, `QdrantIndex(":memory:")`. Only one process can use a folder.

    `timeout` is how many seconds a server may take to answer."""

    def __init__(self, location: str, *, key: str | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
        check_client("qdrant_client", "qdrant")
        self._timeout = check_timeout(timeout)
        self._is_remote = "://" in location
        self._key = check_key(key, KEY_VARIABLE)
        if self._is_remote:
            self._location, remedy = check_address(location, KEY_VARIABLE), "check that the server runs there"
        else:
            self._location = location if location == MEMORY else os.path.abspath(os.path.expanduser(location))
            remedy = "check the folder and its permissions"
        name = "qdrant in memory" if location == MEMORY else f"qdrant at {self._location}"
        self._engine = Engine(name, KEY_VARIABLE, remedy, self._timeout, self._key)
        self._opening = threading.Lock()
        # The client's local mode is not thread-safe.
        self._local_lock: AbstractContextManager[Any] = nullcontext() if self._is_remote else threading.RLock()
        self._client: QdrantClient | None = None
        self._space: Space | None = None

    @property
    def name(self) -> str:
        return self._engine.name

    def open(self, space: str, dimension: int) -> None:
        wanted = self._engine.check_space(space, dimension)
        with self._opening, self._local_lock:
            if self._client is None:
                self._client = self._engine.call("open", self._connect)
            client = self._client
            action = f"open the space {space!r}"
            if not self._engine.call(action, lambda: client.collection_exists(_PREFIX + space)):
                self._create(client, wanted)
            info = self._engine.call(action, lambda: client.get_collection(_PREFIX + space))
            params = info.config.params.vectors
            size, distance = getattr(params, "size", None), getattr(params, "distance", None)
            if size != dimension:
                raise self._engine.wrong_dimension(size, wanted)
            if str(getattr(distance, "value", distance)).lower() != "cosine":
                raise self._engine.invalid_response(action, f"a collection with the distance {distance} instead of cosine")
            if self._is_remote:
                self._index_fields(client, wanted, info.payload_schema)
            self._space = wanted

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        from qdrant_client import models

        client, space, collection = self._open_space()
        scope_id = hash_scope(scope)
        for batch in batches(latest_entries(entries), _MAX_BATCH_ENTRIES):
            points = [
                models.PointStruct(
                    id=_id(scope_id, entry.sequence),
                    vector=self._engine.check_vector(entry.vector, space),
                    payload=_payload(scope_id, entry),
                )
                for entry in batch
            ]
            with self._local_lock:
                self._engine.call(f"store {len(points)} entries", partial(client.upsert, collection, points, wait=True))

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        from qdrant_client import models

        client, _, collection = self._open_space()
        scope_id = hash_scope(scope)
        for batch in batches(sorted(set(sequences)), _MAX_BATCH_ENTRIES):
            chosen = models.PointIdsList(points=[_id(scope_id, sequence) for sequence in batch])
            with self._local_lock:
                self._engine.call(f"remove {len(batch)} entries", partial(client.delete, collection, chosen, wait=True))

    def clear(self, scope: Scope) -> None:
        from qdrant_client import models

        client, _, collection = self._open_space()
        chosen = models.FilterSelector(filter=_filter(hash_scope(scope)))
        with self._local_lock:
            self._engine.call("remove a scope's entries", lambda: client.delete(collection, chosen, wait=True))

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        client, _, collection = self._open_space()
        scope_id, found = hash_scope(scope), set[int]()
        for batch in batches(sorted(set(sequences)), _PAGE_ENTRIES):
            action = f"look for {len(batch)} entries"
            ids = [_id(scope_id, sequence) for sequence in batch]
            with self._local_lock:
                records = self._engine.call(action, partial(client.retrieve, collection, ids, with_payload=["sequence"]))
            found |= {self._sequence(action, scope_id, record) for record in records}
            if not found <= set(sequences):
                raise self._engine.invalid_response(action, "an entry that was not requested")
        return found

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        client, _, collection = self._open_space()
        scope_id, action, pairs = hash_scope(scope), "list a scope's entries", dict[int, str]()
        page = partial(client.scroll, collection, _filter(scope_id), limit=_PAGE_ENTRIES, with_payload=["sequence", "print"])
        offset: Any = None
        while True:
            with self._local_lock:
                records, after = self._engine.call(action, partial(page, offset=offset))
            for record in records:
                pairs[self._sequence(action, scope_id, record)] = str((record.payload or {}).get("print", ""))
            if after is None:
                return iter(pairs.items())
            if after == offset:
                raise self._engine.invalid_response(action, "the same page twice")
            offset = after

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        client, space, collection = self._open_space()
        row = self._engine.check_vector(vector, space)
        if limit < 1 or search_filter.kinds == ():
            return []
        scope_id, action = hash_scope(scope), "find the nearest entries"
        query = partial(client.query_points, collection, row, query_filter=_filter(scope_id, search_filter), limit=limit)
        with self._local_lock:
            found = self._engine.call(action, partial(query, with_payload=["sequence"], with_vectors=False)).points
        return [self._sequence(action, scope_id, point) for point in found][:limit]

    def close(self) -> None:
        with self._opening, self._local_lock:
            client, self._client, self._space = self._client, None, None
            if client is not None:
                try:
                    client.close()
                except Exception:  # a client that cannot be closed is gone already
                    return

    def _open_space(self) -> tuple[QdrantClient, Space, str]:
        client, space = self._client, self._space
        if client is None or space is None:
            raise self._engine.not_open()
        return client, space, _PREFIX + space.name

    def _sequence(self, action: str, scope_id: str, point: Any) -> int:
        """The sequence of a point, whose id must be that of the sequence in this scope."""
        sequence = (point.payload or {}).get("sequence")
        if isinstance(sequence, bool) or not isinstance(sequence, int) or str(point.id) != _id(scope_id, sequence):
            raise self._engine.invalid_response(action, "a point that is not of this scope")
        return sequence

    def _connect(self) -> QdrantClient:
        from qdrant_client import QdrantClient

        if not self._is_remote:
            memory = self._location == MEMORY
            return QdrantClient(MEMORY) if memory else QdrantClient(path=self._location, force_disable_check_same_thread=True)
        client = QdrantClient(
            url=self._location,
            headers={"api-key": self._key} if self._key else None,
            timeout=max(1, round(self._timeout)),
            check_compatibility=False,  # would send one more request, and warn
        )
        session = getattr(client.http.client, "_client", None)
        if session is not None:  # the client's own setting is one timeout for everything
            session.timeout = client_timeouts(self._timeout)
        return client

    def _create(self, client: QdrantClient, space: Space) -> None:
        from qdrant_client import models

        name, action = _PREFIX + space.name, f"create the space {space.name!r}"
        vectors = models.VectorParams(size=space.dimension, distance=models.Distance.COSINE)
        if not self._is_remote:
            self._engine.call(action, lambda: client.create_collection(name, vectors))
            return
        graph = models.HnswConfigDiff(m=0, payload_m=_GRAPH_EDGES)
        try:
            self._engine.call(action, lambda: client.create_collection(name, vectors, hnsw_config=graph))
        except Exception:
            if not self._engine.call(action, lambda: client.collection_exists(name)):  # else another process created it
                raise

    def _index_fields(self, client: QdrantClient, space: Space, existing: Mapping[str, object]) -> None:
        """Create missing field indexes, also those that an interrupted creation left out."""
        from qdrant_client import models

        name, action = _PREFIX + space.name, f"create the space {space.name!r}"
        for field in ("scope", "kind", "tag", "session"):
            if field not in existing:
                tenant = True if field == "scope" else None
                kind = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=tenant)
                self._engine.call(action, partial(client.create_payload_index, name, field, kind, wait=True))


def _id(scope_id: str, sequence: int) -> str:
    """The id of an entry: a UUID made of scope and sequence."""
    return str(uuid.UUID(bytes=hashlib.blake2b(f"{scope_id}:{sequence}".encode(), digest_size=16).digest()))


def _payload(scope_id: str, entry: Entry) -> dict[str, Any]:
    fields = {
        "scope": scope_id,
        "sequence": int(entry.sequence),
        "print": entry.vector_hash,
        "kind": entry.kind,
        "tag": entry.tag,
    }
    return fields if entry.session is None else {**fields, "session": entry.session}


def _filter(scope_id: str, search_filter: SearchFilter = SearchFilter()) -> Filter:
    from qdrant_client import models

    must: list[Any] = [models.FieldCondition(key="scope", match=models.MatchValue(value=scope_id))]
    if search_filter.kinds is not None:
        must.append(models.FieldCondition(key="kind", match=models.MatchAny(any=list(search_filter.kinds))))
    if search_filter.tag is not None:
        must.append(models.FieldCondition(key="tag", match=models.MatchValue(value=search_filter.tag)))
    if search_filter.session is not None:
        must.append(models.FieldCondition(key="session", match=models.MatchValue(value=search_filter.session)))
    return models.Filter(must=must)
