"""A vector index in Chroma: in a folder, or on a server.

A space is a collection, and a scope a field that entries are filtered by: a collection per scope would be a little more exact and
faster, but takes about 3 MB of memory and 4 open files each. No embedding function is set, so Chroma never loads or downloads a
model. Its telemetry is off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

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


class ChromaIndex:
    """Chroma in a folder, `ChromaIndex("/data/chroma")`, or on a server, `ChromaIndex("http://localhost:8000", token="…")`.

    `timeout` is how many seconds a server may take to answer."""

    def __init__(self, location: str, *, token: str | None = None, timeout: float = TIMEOUT_SECONDS) -> None:
        check_client("chromadb", "chroma")
        self._timeout = check_timeout(timeout)
        self._is_remote = "://" in location
        self._location = (
            check_address(location, KEY_VARIABLE) if self._is_remote else os.path.abspath(os.path.expanduser(location))
        )
        self._token = check_key(token, KEY_VARIABLE)
        remedy = "check that the server runs there (chroma run)" if self._is_remote else "check the folder and its permissions"
        self._engine = Engine(f"chroma at {self._location}", KEY_VARIABLE, remedy, self._timeout, self._token)
        self._lock = threading.Lock()
        self._client: ClientAPI | None = None
        self._opened: tuple[Collection, Space] | None = None
        self._batch = _MAX_BATCH_ENTRIES

    @property
    def name(self) -> str:
        return self._engine.name

    def open(self, space: str, dimension: int) -> None:
        wanted = self._engine.check_space(space, dimension)
        action = f"open the space {space!r}"
        with self._lock, self._engine.parsing(action):
            if self._client is None:
                self._client = self._engine.call("open", self._connect)
                batch_size = self._engine.call("report its batch size", self._client.get_max_batch_size)
                self._batch = max(1, min(_MAX_BATCH_ENTRIES, batch_size))
            collection = self._engine.call(action, partial(_collection, self._client, wanted))
            actual = (collection.metadata or {}).get("dimension")
            if actual != dimension:
                raise self._engine.wrong_dimension(actual, wanted)
            self._opened = (collection, wanted)

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        collection, space = self._open_space()
        scope_id = hash_scope(scope)
        for batch in batches(latest_entries(entries), self._batch):
            ids = [f"{scope_id}:{entry.sequence}" for entry in batch]
            rows = np.asarray([self._engine.check_vector(entry.vector, space) for entry in batch], dtype=np.float32)
            fields: list[Any] = [_fields(scope_id, entry) for entry in batch]
            self._engine.call(f"store {len(ids)} entries", partial(collection.upsert, ids=ids, embeddings=rows, metadatas=fields))

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        collection, _ = self._open_space()
        scope_id = hash_scope(scope)
        for batch in batches(sorted(set(sequences)), self._batch):
            ids = [f"{scope_id}:{sequence}" for sequence in batch]
            self._engine.call(f"remove {len(ids)} entries", partial(collection.delete, ids=ids))

    def clear(self, scope: Scope) -> None:
        collection, _ = self._open_space()
        where: Any = {"scope": hash_scope(scope)}
        self._engine.call("remove a scope's entries", lambda: collection.delete(where=where))

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        collection, _ = self._open_space()
        scope_id, found = hash_scope(scope), set[int]()
        for batch in batches(sorted(set(sequences)), self._batch):
            ids = [f"{scope_id}:{sequence}" for sequence in batch]
            action = f"look for {len(ids)} entries"
            got = self._engine.call(action, partial(collection.get, ids=ids, include=[]))
            with self._engine.parsing(action):
                found |= set(self._sequences(action, scope_id, got["ids"]))
            if not found <= set(sequences):
                raise self._engine.invalid_response(action, "an entry that was not requested")
        return found

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        collection, _ = self._open_space()
        scope_id, action, pairs = hash_scope(scope), "list a scope's entries", dict[int, str]()
        page = partial(collection.get, where={"scope": scope_id}, limit=_PAGE_ENTRIES, include=["metadatas"])
        while True:
            before = len(pairs)
            got = self._engine.call(action, partial(page, offset=before))
            with self._engine.parsing(action):
                fields = [str((metadata or {}).get("print", "")) for metadata in got["metadatas"] or []]
                pairs |= dict(zip(self._sequences(action, scope_id, got["ids"]), fields, strict=True))
            if len(fields) < _PAGE_ENTRIES or len(pairs) == before:
                return iter(pairs.items())

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        collection, space = self._open_space()
        row = np.asarray(self._engine.check_vector(vector, space), dtype=np.float32)
        if limit < 1 or search_filter.kinds == ():
            return []
        scope_id, action, rows = hash_scope(scope), "find the nearest entries", row.reshape(1, -1)
        where = _where(scope_id, search_filter)
        answer = self._engine.call(
            action, partial(collection.query, query_embeddings=rows, n_results=limit, where=where, include=[])
        )
        with self._engine.parsing(action):
            found = answer["ids"][0]
            if len(found) < limit:
                found = self._scan(collection, row, found, limit, where)
            return self._sequences(action, scope_id, found)[:limit]

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

    def close(self) -> None:
        with self._lock:
            client, self._client, self._opened = self._client, None, None
        if client is not None:
            _close(client)

    def _open_space(self) -> tuple[Collection, Space]:
        opened = self._opened
        if opened is None:
            raise self._engine.not_open()
        return opened

    def _sequences(self, action: str, scope_id: str, ids: list[str]) -> list[int]:
        """The sequences in ids of this scope."""
        if not isinstance(ids, list):
            raise self._engine.invalid_response(action, "something other than a list")
        sequences: list[int] = []
        for id in ids:
            prefix, _, number = str(id).partition(":")
            if prefix != scope_id or not number.isascii() or not number.isdigit():
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
    made: list[ClientAPI] = []
    failed: list[BaseException] = []
    lock, abandoned = threading.Lock(), threading.Event()

    def work() -> None:
        try:
            client = make()
        except BaseException as error:
            failed.append(error)
            return
        with lock:
            made.append(client)
        if abandoned.is_set():
            _close(client)

    thread = threading.Thread(target=work, name="keepstone-chroma", daemon=True)
    thread.start()
    thread.join(seconds)
    with lock:
        if made:
            return made[0]
        abandoned.set()
    raise failed[0] if failed else TimeoutError()


def _sessions(client: ClientAPI) -> list[Any]:
    """The HTTP clients of a server's client, which has no timeout for them and does not close them."""
    servers = [getattr(owner, "_server", None) for owner in (client, getattr(client, "_admin_client", None))]
    sessions = [getattr(server, "_session", None) for server in servers]
    return [session for session in sessions if session is not None]


def _close(client: Any) -> None:
    try:
        sessions = _sessions(client)
        client.close()
        for session in sessions:
            session.close()
    except Exception:  # a client that cannot be closed is gone already
        return


def _collection(client: ClientAPI, space: Space) -> Collection:
    settings: Any = {"hnsw": {"space": "cosine", "ef_search": _SEARCH_CANDIDATES}}
    return client.get_or_create_collection(
        _PREFIX + space.name, configuration=settings, metadata={"dimension": space.dimension}, embedding_function=None
    )


def _fields(scope_id: str, entry: Entry) -> dict[str, str | None]:
    # Chroma keeps a field that is missing here, so a session that was removed has to be None.
    return {"scope": scope_id, "print": entry.vector_hash, "kind": entry.kind, "tag": entry.tag, "session": entry.session}


def _where(scope_id: str, search_filter: SearchFilter) -> Any:
    conditions: list[dict[str, Any]] = [{"scope": scope_id}]
    if search_filter.kinds is not None:
        conditions.append({"kind": {"$in": list(search_filter.kinds)}})
    if search_filter.tag is not None:
        conditions.append({"tag": search_filter.tag})
    if search_filter.session is not None:
        conditions.append({"session": search_filter.session})
    return conditions[0] if len(conditions) == 1 else {"$and": conditions}
