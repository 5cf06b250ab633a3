"""A vector index in Chroma: in a folder, or on a server.

A space is a collection, and a scope what its entries are filtered by: a collection for each scope would find a little more and be
quicker, but takes some 3 MB of memory and 4 open files each. The vectors are ours: no embedding function is given, so that Chroma
never loads or downloads its own model; its telemetry is off.
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
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

VARIABLE = "CHROMA_TOKEN"
_PREFIX = "keepstone-"  # a name of ours in an engine that others may use, and never too short for it
_PAGE = 1000  # entries read at once
_EACH = 10_000  # entries that are looked at one by one, at most, where a search came back short
_BATCH = 500  # entries written at once, if the engine takes that many
# How far a search looks around, since it passes by the entries of other scopes. Among 60,000 random vectors of 20 scopes it finds
# 89 of a hundred that it should with Chroma's default of 100, and 98 with this, at 7 ms more; of vectors with structure, all.
_BREADTH = 1000


class ChromaIndex:
    """Chroma in a folder, `ChromaIndex("/data/chroma")`, or on a server, `ChromaIndex("http://localhost:8000", token="…")`.

    `timeout` is how many seconds a server may take to answer."""

    def __init__(self, where: str, *, token: str | None = None, timeout: float = TIMEOUT) -> None:
        installed("chromadb", "chroma")
        self._timeout = checked_timeout(timeout)
        self._served = "://" in where
        self._where = checked_address(where, VARIABLE) if self._served else os.path.abspath(os.path.expanduser(where))
        self._token = checked_key(token, VARIABLE)
        revive = "check that the server runs there (chroma run)" if self._served else "check the folder and who may write there"
        self._ask = Calls(f"chroma at {self._where}", VARIABLE, revive, self._timeout, self._token)
        self._lock = threading.Lock()
        self._client: ClientAPI | None = None
        self._opened: tuple[Collection, Space] | None = None
        self._batch = _BATCH

    @property
    def name(self) -> str:
        return self._ask.name

    def open(self, space: str, dimension: int) -> None:
        wanted = self._ask.space(space, dimension)
        what = f"open the space {space!r}"
        with self._lock, self._ask.reading(what):
            if self._client is None:
                self._client = self._ask("open", self._connected)
                most = self._ask("say how much it takes at once", self._client.get_max_batch_size)
                self._batch = max(1, min(_BATCH, most))
            collection = self._ask(what, partial(_collection, self._client, wanted))
            held = (collection.metadata or {}).get("dimension")
            if held != dimension:
                raise self._ask.other_width(held, wanted)
            self._opened = (collection, wanted)

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        collection, space = self._at()
        own = scope_hash(scope)
        for batch in batches(unique(entries), self._batch):
            ids = [f"{own}:{entry.sequence}" for entry in batch]
            rows = np.asarray([self._ask.numbers(entry.vector, space) for entry in batch], dtype=np.float32)
            fields: list[Any] = [_fields(own, entry) for entry in batch]
            self._ask(f"store {len(ids)} entries", partial(collection.upsert, ids=ids, embeddings=rows, metadatas=fields))

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        collection, _ = self._at()
        own = scope_hash(scope)
        for batch in batches(sorted(set(sequences)), self._batch):
            ids = [f"{own}:{sequence}" for sequence in batch]
            self._ask(f"take {len(ids)} entries out", partial(collection.delete, ids=ids))

    def clear(self, scope: Scope) -> None:
        collection, _ = self._at()
        where: Any = {"scope": scope_hash(scope)}
        self._ask("take a scope's entries out", lambda: collection.delete(where=where))

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        collection, _ = self._at()
        own, found = scope_hash(scope), set[int]()
        for batch in batches(sorted(set(sequences)), self._batch):
            ids = [f"{own}:{sequence}" for sequence in batch]
            what = f"look for {len(ids)} entries"
            got = self._ask(what, partial(collection.get, ids=ids, include=[]))
            with self._ask.reading(what):
                found |= set(self._sequences(what, own, got["ids"]))
            if not found <= set(sequences):
                raise self._ask.nonsense(what, "an entry that nobody asked for")
        return found

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        collection, _ = self._at()
        own, what, pairs = scope_hash(scope), "list a scope's entries", dict[int, str]()
        page = partial(collection.get, where={"scope": own}, limit=_PAGE, include=["metadatas"])
        while True:
            before = len(pairs)
            got = self._ask(what, partial(page, offset=before))
            with self._ask.reading(what):
                fields = [str((each or {}).get("print", "")) for each in got["metadatas"] or []]
                pairs |= dict(zip(self._sequences(what, own, got["ids"]), fields, strict=True))
            if len(fields) < _PAGE or len(pairs) == before:
                return iter(pairs.items())

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        collection, space = self._at()
        row = np.asarray(self._ask.numbers(vector, space), dtype=np.float32)
        if limit < 1 or empty(search_filter):
            return []
        own, what, rows = scope_hash(scope), "find the nearest entries", row.reshape(1, -1)
        where = _where(own, search_filter)
        answer = self._ask(what, partial(collection.query, query_embeddings=rows, n_results=limit, where=where, include=[]))
        with self._ask.reading(what):
            found = answer["ids"][0]
            if len(found) < limit:
                found = self._completed(collection, row, found, limit, where)
            return self._sequences(what, own, found)[:limit]

    def _completed(self, collection: Collection, row: Vector, found: list[str], limit: int, where: Any) -> list[str]:
        """What was found; if there is more that could have been, the nearest by looking at each: in a large collection the search
        cannot reach every entry."""
        what = "look for what a search left out"
        there = self._ask(what, partial(collection.get, where=where, limit=limit, include=[]))["ids"]
        if set(there) <= set(found):
            return found
        page = self._ask(what, partial(collection.get, where=where, limit=max(limit, _EACH), include=["embeddings"]))
        ids, vectors = page["ids"], np.asarray(page["embeddings"], dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        nearness = vectors @ row.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)
        return [ids[at] for at in np.argsort(-nearness, kind="stable")]

    def close(self) -> None:
        with self._lock:
            client, self._client, self._opened = self._client, None, None
        if client is not None:
            _close(client)

    def _at(self) -> tuple[Collection, Space]:
        opened = self._opened
        if opened is None:
            raise self._ask.not_open()
        return opened

    def _sequences(self, what: str, own: str, ids: list[str]) -> list[int]:
        """The sequences in ids of ours."""
        if not isinstance(ids, list):
            raise self._ask.nonsense(what, "no list")
        found: list[int] = []
        for id in ids:
            begin, _, number = str(id).partition(":")
            if begin != own or not number.isascii() or not number.isdigit():
                raise self._ask.nonsense(what, "an id that is not of this scope")
            found.append(int(number))
        return found

    def _connected(self) -> ClientAPI:
        import chromadb
        from chromadb.config import Settings

        options: dict[str, Any] = {"anonymized_telemetry": False, "_env_file": None}  # a .env that lies about is not ours
        settings = Settings(**options)
        if not self._served:
            return chromadb.PersistentClient(path=self._where, settings=settings)
        headers = {"Authorization": f"Bearer {self._token}", "X-Chroma-Token": self._token} if self._token else None
        secure = self._where.startswith("https://")
        client = _within(
            self._timeout, lambda: chromadb.HttpClient(host=self._where, ssl=secure, headers=headers, settings=settings)
        )
        for session in _sessions(client):  # Chroma's client waits for ever, and has no setting for it
            session.timeout = waits(self._timeout)
        return client


def _within(seconds: float, make: Callable[[], ClientAPI]) -> ClientAPI:
    """A client, or TimeoutError: making one asks the server things, and waits for ever."""
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
    """The HTTP clients that a client of a server has, which it neither bounds nor closes."""
    servers = [getattr(each, "_server", None) for each in (client, getattr(client, "_admin_client", None))]
    sessions = [getattr(server, "_session", None) for server in servers]
    return [session for session in sessions if session is not None]


def _close(client: Any) -> None:
    try:
        sessions = _sessions(client)
        client.close()
        for session in sessions:
            session.close()
    except Exception:  # what cannot be closed is gone already
        return


def _collection(client: ClientAPI, space: Space) -> Collection:
    settings: Any = {"hnsw": {"space": "cosine", "ef_search": _BREADTH}}
    return client.get_or_create_collection(
        _PREFIX + space.name, configuration=settings, metadata={"dimension": space.dimension}, embedding_function=None
    )


def _fields(own: str, entry: Entry) -> dict[str, str | None]:
    # Chroma keeps a field that is not mentioned: a session that is no more has to be said.
    return {"scope": own, "print": entry.vector_hash, "kind": entry.kind, "tag": entry.tag, "session": entry.session}


def _where(own: str, search_filter: SearchFilter) -> Any:
    wanted: list[dict[str, Any]] = [{"scope": own}]
    if search_filter.kinds is not None:
        wanted.append({"kind": {"$in": list(search_filter.kinds)}})
    if search_filter.tag is not None:
        wanted.append({"tag": search_filter.tag})
    if search_filter.session is not None:
        wanted.append({"session": search_filter.session})
    return wanted[0] if len(wanted) == 1 else {"$and": wanted}
