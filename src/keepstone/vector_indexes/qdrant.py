"""A vector index in Qdrant: on a server, or in the client's own local mode, in a folder or in memory.

A space is a collection. A scope is a field that every request is filtered by. On a server it is marked as the tenant field, so
that each scope has a graph of its own and there is none over all of them.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from keepstone.ports.caches import Entry, batches
from keepstone.ports.values import SearchFilter
from keepstone.provider_http import check_key, check_timeout, client_timeouts
from keepstone.vector_indexes.engine import (
    TIMEOUT_SECONDS,
    Engine,
    Place,
    Row,
    Space,
    VendorIndex,
    conditions_of,
    expand_location,
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


class QdrantIndex(VendorIndex["QdrantClient"]):
    """Qdrant on a server, `QdrantIndex("http://localhost:6333", key="…")`, in a folder, `QdrantIndex("/data/qdrant")`, or in
    memory, `QdrantIndex(":memory:")`. Only one process can use a folder.

    `timeout` is how many seconds a server may take to answer."""

    def __init__(self, location: str, *, key: str | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout, self._key = check_timeout(timeout), check_key(key, KEY_VARIABLE)
        self._is_remote = "://" in location
        self._location = location if location == MEMORY else expand_location(location, KEY_VARIABLE)
        remedy = "check that the server runs there" if self._is_remote else "check the folder and its permissions"
        name = "qdrant in memory" if location == MEMORY else f"qdrant at {self._location}"
        lock = nullcontext() if self._is_remote else threading.RLock()  # the client's local mode is not thread-safe
        engine = Engine(name, KEY_VARIABLE, remedy, self._timeout, self._key, lock)
        super().__init__("qdrant_client", "qdrant", engine, _MAX_BATCH_ENTRIES)
        self._client: QdrantClient | None = None

    def _open(self, space: Space) -> QdrantClient:
        if self._client is None:
            self._client = self._engine.call("open", self._connect)
        client, name, action = self._client, _PREFIX + space.name, f"open the space {space.name!r}"
        if not self._engine.call(action, lambda: client.collection_exists(name)):
            self._create(client, space)
        info = self._engine.call(action, lambda: client.get_collection(name))
        params = info.config.params.vectors
        size, distance = getattr(params, "size", None), getattr(params, "distance", None)
        if size != space.dimension:
            raise self._engine.wrong_dimension(size, space)
        if str(getattr(distance, "value", distance)).lower() != "cosine":
            raise self._engine.invalid_response(action, f"a collection with the distance {distance} instead of cosine")
        if self._is_remote:
            self._index_fields(client, space, info.payload_schema)
        return client

    def _put(self, place: Place[QdrantClient], rows: Sequence[Row]) -> None:
        from qdrant_client import models

        points = [
            models.PointStruct(id=_id(place.scope, entry.sequence), vector=row, payload=_payload(place.scope, entry))
            for entry, row in rows
        ]
        for batch in batches(points, self._max_batch):
            store = partial(place.handle.upsert, _PREFIX + place.space.name, batch, wait=True)
            self._engine.call(f"store {len(batch)} entries", store)

    def _drop(self, place: Place[QdrantClient], sequences: Sequence[int], action: str) -> None:
        from qdrant_client import models

        chosen = models.PointIdsList(points=[_id(place.scope, sequence) for sequence in sequences])
        self._engine.call(action, partial(place.handle.delete, _PREFIX + place.space.name, chosen, wait=True))

    def _clear(self, place: Place[QdrantClient], action: str) -> None:
        from qdrant_client import models

        chosen = models.FilterSelector(filter=_filter(place.scope))
        self._engine.call(action, lambda: place.handle.delete(_PREFIX + place.space.name, chosen, wait=True))

    def _existing(self, place: Place[QdrantClient], sequences: Sequence[int], action: str) -> set[int]:
        ids = [_id(place.scope, sequence) for sequence in sequences]
        retrieve = partial(place.handle.retrieve, _PREFIX + place.space.name, ids, with_payload=["sequence"])
        return {self._sequence(action, place.scope, record) for record in self._engine.call(action, retrieve)}

    def _vector_hashes(self, place: Place[QdrantClient], action: str) -> dict[int, str]:
        pairs: dict[int, str] = {}
        scroll = partial(place.handle.scroll, _PREFIX + place.space.name, _filter(place.scope), limit=_PAGE_ENTRIES)
        offset: Any = None
        while True:
            records, after = self._engine.call(action, partial(scroll, with_payload=["sequence", "print"], offset=offset))
            for record in records:
                pairs[self._sequence(action, place.scope, record)] = str((record.payload or {}).get("print", ""))
            if after is None:
                return pairs
            if after == offset:
                raise self._engine.invalid_response(action, "the same page twice")
            offset = after

    def _search(self, place: Place[QdrantClient], row: list[float], limit: int, filter: SearchFilter, action: str) -> list[int]:
        query = partial(
            place.handle.query_points, _PREFIX + place.space.name, row, query_filter=_filter(place.scope, filter), limit=limit
        )
        found = self._engine.call(action, partial(query, with_payload=["sequence"], with_vectors=False)).points
        return [self._sequence(action, place.scope, point) for point in found]

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with self._engine.lock:
                client.close()

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
    for name, value in conditions_of(search_filter).items():
        match = models.MatchAny(any=value) if isinstance(value, list) else models.MatchValue(value=value)
        must.append(models.FieldCondition(key=name, match=match))
    return models.Filter(must=must)
