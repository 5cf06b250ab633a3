"""A vector index in Chroma: in a folder, or on a server.

A space is a collection, and a scope a field that entries are filtered by: a collection per scope would be a little more exact and
faster, but takes about 3 MB of memory and 4 open files each. No embedding function is set, so Chroma never loads or downloads a
model. Its telemetry is off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from keepstone.ports.caches import Entry, batches
from keepstone.ports.values import SearchFilter, Vector
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
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

KEY_VARIABLE = "CHROMA_TOKEN"
_PREFIX = "keepstone-"  # of collections, since the engine may be shared
_PAGE_ENTRIES = 1000  # in one response
_MAX_SCANNED_ENTRIES = 10_000  # compared one by one after a search that returned too few
_MAX_BATCH_ENTRIES = 500  # in one request
# Candidates of a search, which passes entries of other scopes. Among 60,000 random vectors of 20 scopes it finds 89 percent of
# the nearest with Chroma's default of 100, and 98 percent with this, in 7 ms more; of vectors with structure, all.
_SEARCH_CANDIDATES = 1000


class ChromaIndex(VendorIndex["Collection"]):
    """Chroma in a folder, `ChromaIndex("/data/chroma")`, or on a server, `ChromaIndex("http://localhost:8000", token="…")`.

    `timeout` is how many seconds a server may take to answer."""

    def __init__(self, location: str, *, token: str | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout, self._token = check_timeout(timeout), check_key(token, KEY_VARIABLE)
        self._is_remote = "://" in location
        self._location = expand_location(location, KEY_VARIABLE)
        remedy = "check that the server runs there (chroma run)" if self._is_remote else "check the folder and its permissions"
        engine = Engine(f"chroma at {self._location}", KEY_VARIABLE, remedy, self._timeout, self._token)
        super().__init__("chromadb", "chroma", engine, _MAX_BATCH_ENTRIES)
        self._client: ClientAPI | None = None

    def _open(self, space: Space) -> Collection:
        if self._client is None:
            self._client = self._engine.call("open", self._connect)
            batch_size = self._engine.call("report its batch size", self._client.get_max_batch_size)
            self._max_batch = max(1, min(_MAX_BATCH_ENTRIES, batch_size))
        collection = self._engine.call(f"open the space {space.name!r}", partial(_collection, self._client, space))
        actual = (collection.metadata or {}).get("dimension")
        if actual != space.dimension:
            raise self._engine.wrong_dimension(actual, space)
        return collection

    def _put(self, place: Place[Collection], rows: Sequence[Row]) -> None:
        for batch in batches(rows, self._max_batch):
            vectors = np.asarray([row for _, row in batch], dtype=np.float32)
            fields: list[Any] = [_fields(place.scope, entry) for entry, _ in batch]
            ids = _ids(place.scope, [entry.sequence for entry, _ in batch])
            store = partial(place.handle.upsert, ids=ids, embeddings=vectors, metadatas=fields)
            self._engine.call(f"store {len(ids)} entries", store)

    def _drop(self, place: Place[Collection], sequences: Sequence[int], action: str) -> None:
        self._engine.call(action, partial(place.handle.delete, ids=_ids(place.scope, sequences)))

    def _clear(self, place: Place[Collection], action: str) -> None:
        where: Any = {"scope": place.scope}
        self._engine.call(action, lambda: place.handle.delete(where=where))

    def _existing(self, place: Place[Collection], sequences: Sequence[int], action: str) -> set[int]:
        got = self._engine.call(action, partial(place.handle.get, ids=_ids(place.scope, sequences), include=[]))
        return set(self._sequences(action, place.scope, got["ids"]))

    def _vector_hashes(self, place: Place[Collection], action: str) -> dict[int, str]:
        pairs: dict[int, str] = {}
        page = partial(place.handle.get, where={"scope": place.scope}, limit=_PAGE_ENTRIES, include=["metadatas"])
        while True:
            before = len(pairs)
            got = self._engine.call(action, partial(page, offset=before))
            hashes = [str((metadata or {}).get("print", "")) for metadata in got["metadatas"] or []]
            pairs |= dict(zip(self._sequences(action, place.scope, got["ids"]), hashes, strict=True))
            if len(hashes) < _PAGE_ENTRIES or len(pairs) == before:
                return pairs

    def _search(self, place: Place[Collection], row: list[float], limit: int, filter: SearchFilter, action: str) -> list[int]:
        where, vector = _where(place.scope, filter), np.asarray(row, dtype=np.float32)
        query = partial(place.handle.query, query_embeddings=vector.reshape(1, -1), n_results=limit, where=where, include=[])
        found = self._engine.call(action, query)["ids"][0]
        if len(found) < limit:
            found = self._scan(place.handle, vector, found, limit, where)
        return self._sequences(action, place.scope, found)

    def _scan(self, collection: Collection, row: Vector, found: list[str], limit: int, where: Any) -> list[str]:
        """The ids of a search that returned too few, or of a comparison with every entry if there are more: in a large collection
        the search does not reach every entry."""
        action = "look for entries that a search missed"
        present = self._engine.call(action, partial(collection.get, where=where, limit=limit, include=[]))["ids"]
        if set(present) <= set(found):
            return found
        page = self._engine.call(
            action, partial(collection.get, where=where, limit=max(limit, _MAX_SCANNED_ENTRIES), include=["embeddings"])
        )
        ids, vectors = page["ids"], np.asarray(page["embeddings"], dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        similarities = vectors @ row.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)
        return [ids[position] for position in np.argsort(-similarities, kind="stable")]

    def _close(self) -> None:
        client: Any = self._client  # its type does not declare close
        self._client = None
        if client is not None:
            sessions = _sessions(client)
            client.close()
            for session in sessions:
                session.close()

    def _sequences(self, action: str, scope_id: str, ids: list[str]) -> list[int]:
        """The sequences in ids of this scope."""
        if not isinstance(ids, list):
            raise self._engine.invalid_response(action, "something other than a list")
        sequences: list[int] = []
        for id in ids:
            prefix, _, number = str(id).partition(":")
            if prefix != scope_id or not number.isascii() or not number.removeprefix("-").isdigit():
                raise self._engine.invalid_response(action, "an id that is not of this scope")
            sequences.append(int(number))
        return sequences

    def _connect(self) -> ClientAPI:
        import chromadb
        from chromadb.config import Settings

        options: dict[str, Any] = {"anonymized_telemetry": False, "_env_file": None}  # a .env file in the folder must not apply
        settings = Settings(**options)
        if not self._is_remote:
            return chromadb.PersistentClient(path=self._location, settings=settings)
        headers = {"Authorization": f"Bearer {self._token}", "X-Chroma-Token": self._token} if self._token else None
        secure = self._location.startswith("https://")
        client = _connect_within(
            self._timeout, lambda: chromadb.HttpClient(host=self._location, ssl=secure, headers=headers, settings=settings)
        )
        for session in _sessions(client):  # Chroma's client has no timeout setting
            session.timeout = client_timeouts(self._timeout)
        return client


def _connect_within(seconds: float, make: Callable[[], ClientAPI]) -> ClientAPI:
    """A client, or TimeoutError: Chroma's constructor sends requests without a timeout."""
    made: Future[ClientAPI] = Future()

    def work() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=work, name="keepstone-chroma", daemon=True).start()
    return made.result(seconds)


def _sessions(client: ClientAPI) -> list[Any]:
    """The HTTP clients of a server's client, which has no timeout for them and does not close them."""
    servers = [getattr(owner, "_server", None) for owner in (client, getattr(client, "_admin_client", None))]
    sessions = [getattr(server, "_session", None) for server in servers]
    return [session for session in sessions if session is not None]


def _collection(client: ClientAPI, space: Space) -> Collection:
    settings: Any = {"hnsw": {"space": "cosine", "ef_search": _SEARCH_CANDIDATES}}
    return client.get_or_create_collection(
        _PREFIX + space.name, configuration=settings, metadata={"dimension": space.dimension}, embedding_function=None
    )


def _ids(scope_id: str, sequences: Sequence[int]) -> list[str]:
    return [f"{scope_id}:{sequence}" for sequence in sequences]


def _fields(scope_id: str, entry: Entry) -> dict[str, str | None]:
    # Chroma keeps a field that is missing here, so a session that was removed has to be None.
    return {"scope": scope_id, "print": entry.vector_hash, "kind": entry.kind, "tag": entry.tag, "session": entry.session}


def _where(scope_id: str, search_filter: SearchFilter) -> Any:
    conditions: list[dict[str, Any]] = [{"scope": scope_id}]
    for name, value in conditions_of(search_filter).items():
        conditions.append({name: {"$in": value} if isinstance(value, list) else value})
    return conditions[0] if len(conditions) == 1 else {"$and": conditions}
