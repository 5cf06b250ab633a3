"""A vector index in Pinecone.

A space and a scope together are a namespace. An index holds vectors of one dimension: those of another go to an index of the same
name with the dimension appended. Pinecone is eventually consistent, so every write waits until it can be read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from keepstone.errors import ConfigurationError, IndexUnavailable
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
    check_address,
    conditions_of,
)

if TYPE_CHECKING:
    from pinecone import Index, Pinecone

KEY_VARIABLE = "PINECONE_API_KEY"
CLOUD, REGION = "aws", "us-east-1"
CONTROLLER = "https://api.pinecone.io"
_MAX_PUT_ENTRIES = 1000  # in one request
_MAX_PUT_BYTES = 2_000_000  # of one request
_NUMBER_BYTES = 25  # of a number of a vector as JSON, at most: "-1.2345678901234567e-05,"
_ENTRY_BYTES = 600  # of an entry without its vector, tag and session
_MAX_DROP_IDS = 1000  # in one request
_MAX_READ_IDS = 100  # in one request, whose address they are part of
_MAX_RESULTS = 10_000  # of one query
_VALUES = "_values"  # the field that Pinecone's vector API reads and writes
_FIRST_POLL_SECONDS, _MAX_POLL_SECONDS = 0.05, 0.5
_INDEX_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,43}[a-z0-9])?")
_CREATE_TIMEOUTS = 4  # how many timeouts the creation of an index may take


class PineconeIndex(VendorIndex["Index"]):
    """An index in Pinecone, `PineconeIndex("my-index", key="…")`; a serverless one is created if it does not exist.

    `host` is the address of the index, `controller` that of the API which creates indexes: for a local endpoint, or a private
    one. With a host alone nothing is looked up or created. `timeout` is how many seconds Pinecone may take to answer, and until
    a write can be read."""

    def __init__(
        self,
        index: str,
        *,
        key: str | None = None,
        host: str | None = None,
        controller: str | None = None,
        cloud: str | None = None,
        region: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        if _INDEX_NAME.fullmatch(index) is None:
            raise ConfigurationError(
                f"{index!r} is not the name of a Pinecone index: use up to 45 lower-case letters, digits and inner hyphens."
            )
        self._key = check_key(key, KEY_VARIABLE)
        if self._key is None:
            raise ConfigurationError(f"The Pinecone index {index!r} has no key: set {KEY_VARIABLE}, or pass key.")
        self._index_name, self._timeout = index, check_timeout(timeout)
        self._host = check_address(host if "://" in host else f"https://{host}", KEY_VARIABLE) if host else None
        self._controller = check_address(controller, KEY_VARIABLE) if controller else None
        self._deployment = {"deployment_type": "managed", "cloud": cloud or CLOUD, "region": region or REGION}
        remedy = "check the network, and PINECONE_HOST and PINECONE_CONTROLLER_HOST if they are set"
        engine = Engine(f"pinecone index {index}", KEY_VARIABLE, remedy, self._timeout, self._key)
        super().__init__("pinecone", "pinecone", engine, _MAX_DROP_IDS)
        self._client: Pinecone | None = None

    def _open(self, space: Space) -> Index:
        if self._client is None:
            self._client = self._engine.call("open", self._connect)
        host = self._host
        if host is None or self._controller is not None:
            found = self._index_host(self._client, space)
            host = host or found
        index = self._data_plane(self._client, host)
        actual = self._engine.call("describe itself", index.describe_index_stats).dimension
        if actual is not None and actual != space.dimension:
            raise self._engine.wrong_dimension(actual, space)
        if self._opened is not None and self._opened[0] is not index:
            with suppress(Exception):  # a client that cannot be closed is gone already
                self._opened[0].close()
        return index

    def _put(self, place: Place[Index], rows: Sequence[Row]) -> None:
        namespace = _namespace(place)
        vectors = [{"id": _id(entry.sequence), "values": row, "metadata": _metadata(entry)} for entry, row in rows]
        for batch in batches(vectors, _max_rows(vectors, place.space.dimension)):
            action = f"store {len(batch)} entries"
            done = self._engine.call(
                action, partial(place.handle.upsert, vectors=batch, namespace=namespace, show_progress=False)
            )
            if done.upserted_count != len(batch):
                raise self._engine.invalid_response(action, f"that it stored {done.upserted_count}")
        if vectors:
            last = vectors[-_MAX_READ_IDS:]
            self._wait_until("show what was stored", lambda: self._can_read(place.handle, namespace, last))

    def _drop(self, place: Place[Index], sequences: Sequence[int], action: str) -> None:
        namespace, ids = _namespace(place), [_id(sequence) for sequence in sequences]
        self._engine.call(action, partial(_delete, place.handle, ids=ids, namespace=namespace))
        any_of: Any = {"sequence": {"$in": ids}}
        self._wait_until("remove what was deleted", lambda: self._is_gone(place, namespace, ids, any_of))

    def _clear(self, place: Place[Index], action: str) -> None:
        namespace = _namespace(place)
        some = [item.id for item in self._list_ids(place.handle, namespace, limit=_MAX_READ_IDS).vectors]
        self._engine.call(action, partial(_delete, place.handle, delete_all=True, namespace=namespace))
        self._wait_until(
            "remove what was deleted",
            lambda: self._is_gone(place, namespace, some) and not self._list_ids(place.handle, namespace, limit=1).vectors,
        )

    def _existing(self, place: Place[Index], sequences: Sequence[int], action: str) -> set[int]:
        ids = [_id(sequence) for sequence in sequences]
        return {_sequence(id) for id in self._fetch_metadata(place.handle, _namespace(place), ids)}

    def _vector_hashes(self, place: Place[Index], action: str) -> dict[int, str]:
        namespace, ids = _namespace(place), dict[str, None]()
        token: str | None = None
        while True:
            got = self._list_ids(place.handle, namespace, limit=_MAX_READ_IDS, pagination_token=token)
            ids |= dict.fromkeys(item.id for item in got.vectors)
            after = got.pagination.next if got.pagination is not None else None
            if not after:
                break
            if after == token:
                raise self._engine.invalid_response(action, "the same page twice")
            token = after
        found = self._fetch_metadata(place.handle, namespace, list(ids))
        return {_sequence(id): str(fields.get("print", "")) for id, fields in found.items()}

    def _search(self, place: Place[Index], row: list[float], limit: int, filter: SearchFilter, action: str) -> list[int]:
        query = partial(place.handle.query, top_k=min(limit, _MAX_RESULTS), vector=row, namespace=_namespace(place))
        matches = self._engine.call(action, partial(query, filter=_filter(filter))).matches
        return [_sequence(match.id) for match in matches]

    def _close(self) -> None:
        client, self._client = self._client, None
        for resource in (self._opened[0] if self._opened else None, client):
            if resource is not None:
                resource.close()

    def _connect(self) -> Pinecone:
        from pinecone import Pinecone, RetryConfig

        seconds: Any = client_timeouts(self._timeout)  # the HTTP client accepts four timeouts, the signature has one
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
        index: Index = self._engine.call("open", partial(client.index, host=host))
        _disable_retries(index)
        return index

    def _index_host(self, client: Pinecone, space: Space) -> str:
        """The host of the index for vectors of this dimension; it is created if it does not exist."""
        for name in (self._index_name, f"{self._index_name[:38]}-{space.dimension}"):
            model = self._describe(client, name) or self._create(client, name, space)
            if getattr(model, "dimension", None) != space.dimension:
                continue
            if getattr(model, "metric", "cosine") != "cosine":
                raise IndexUnavailable(f"The Pinecone index {name} has the metric {model.metric}: use one with cosine.")
            return self._wait_until_ready(client, name)
        raise self._engine.invalid_response(f"open the space {space.name!r}", "an index of another dimension under this name")

    def _describe(self, client: Pinecone, name: str) -> Any:
        return self._engine.call("describe it", lambda: _none_if_missing(lambda: client.indexes.describe(name)))

    def _create(self, client: Pinecone, name: str, space: Space) -> Any:
        fields = {_VALUES: {"type": "dense_vector", "dimension": space.dimension, "metric": "cosine"}}
        make = partial(client.indexes.create, name=name, schema={"fields": fields}, deployment=self._deployment, timeout=-1)
        try:
            return self._engine.call(f"make the index {name}", make)
        except IndexUnavailable:
            model = self._describe(client, name)  # another process may have created it
            if model is None:
                raise
            return model

    def _wait_until_ready(self, client: Pinecone, name: str) -> str:
        found: list[str] = []

        def ready() -> bool:
            model = self._describe(client, name)
            if model is not None and model.status.ready and model.host:
                found.append(model.host)
            return bool(found)

        self._wait_until(f"get the index {name} ready", ready, self._timeout * _CREATE_TIMEOUTS)
        return found[0]

    def _wait_until(self, action: str, condition: Callable[[], bool], within: float | None = None) -> None:
        """Poll until a condition holds."""
        seconds = within or self._timeout
        deadline, pause = time.monotonic() + seconds, _FIRST_POLL_SECONDS
        while not condition():
            if time.monotonic() >= deadline:
                raise IndexUnavailable(
                    f"{self.name} did not {action} within {seconds:g} seconds: try again later, or allow a longer timeout."
                )
            time.sleep(pause)
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)

    def _can_read(self, index: Index, namespace: str, rows: list[Any]) -> bool:
        """Whether fetch, list and query return the last rows of a write; each becomes consistent in its own time."""
        last = rows[-1]
        fetched = self._fetch_metadata(index, namespace, [row["id"] for row in rows])
        listed = self._list_ids(index, namespace, prefix=last["id"], limit=1).vectors
        itself: Any = {"sequence": {"$eq": last["id"]}}
        query = partial(index.query, top_k=1, vector=last["values"], namespace=namespace, filter=itself, include_metadata=True)
        matches = self._engine.call("find an entry", query).matches
        found = any(match.id == last["id"] and match.metadata == last["metadata"] for match in matches)
        return found and bool(listed) and all(fetched.get(row["id"]) == row["metadata"] for row in rows)

    def _is_gone(self, place: Place[Index], namespace: str, ids: list[str], filter: Any = None) -> bool:
        """Whether neither a fetch of these entries nor a query finds any."""
        fetched = self._fetch_metadata(place.handle, namespace, ids)
        any_vector = [1.0] * place.space.dimension
        query = partial(place.handle.query, top_k=1, vector=any_vector, namespace=namespace, filter=filter)
        return not (self._engine.call("find an entry", query).matches or fetched)

    def _list_ids(self, index: Index, namespace: str, **action: Any) -> Any:
        return self._engine.call("list a scope's entries", partial(index.list_paginated, namespace=namespace, **action))

    def _fetch_metadata(self, index: Index, namespace: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The metadata of those entries that exist."""
        found: dict[str, dict[str, Any]] = {}
        for batch in batches(ids, _MAX_READ_IDS):
            action = f"look for {len(batch)} entries"
            got = self._engine.call(action, partial(index.fetch, ids=list(batch), namespace=namespace)).vectors
            found |= {id: dict(got[id].metadata or {}) for id in batch if id in got}
        return found


def _disable_retries(index: Index) -> None:
    """Disable the client's own retries, which can take minutes and have no setting."""
    from pinecone import RetryConfig

    transport: Any = getattr(getattr(getattr(index, "_http", None), "_client", None), "_transport", None)
    if hasattr(transport, "_config"):
        transport._config = RetryConfig(max_retries=0)


def _delete(index: Index, **action: Any) -> None:
    _none_if_missing(lambda: index.delete(**action))  # a missing namespace has nothing to delete


def _none_if_missing(call: Callable[[], Any]) -> Any:
    from pinecone import NotFoundError

    try:
        return call()
    except NotFoundError:
        return None


def _namespace(place: Place[Index]) -> str:
    return f"{place.space.name}.{place.scope}"


def _id(sequence: int) -> str:
    """The id of a sequence. All ids have one length, so that none is a prefix of another. Metadata would round numbers."""
    return f"{sequence & 0xFFFFFFFFFFFFFFFF:016x}"  # the number of a passage is negative


def _sequence(id: str) -> int:
    number = int(id, 16)
    return number if number < 1 << 63 else number - (1 << 64)


def _metadata(entry: Entry) -> dict[str, str]:
    fields = {"sequence": _id(entry.sequence), "print": entry.vector_hash, "kind": entry.kind, "tag": entry.tag}
    return fields if entry.session is None else {**fields, "session": entry.session}


def _filter(search_filter: SearchFilter) -> dict[str, Any] | None:
    conditions = conditions_of(search_filter)
    return {name: {"$in" if isinstance(value, list) else "$eq": value} for name, value in conditions.items()} or None


def _max_rows(rows: Sequence[Any], dimension: int) -> int:
    """How many of these rows fit into one request."""
    widest = max((len(str(row["metadata"]).encode()) for row in rows), default=0)
    return max(1, min(_MAX_PUT_ENTRIES, _MAX_PUT_BYTES // (dimension * _NUMBER_BYTES + _ENTRY_BYTES + 2 * widest)))
