"""A local HTTP server that speaks Pinecone's REST API as far as our adapter uses it, late or misbehaving when told to. No test
lives here.

    with PineconeEndpoint(key="k") as endpoint:
        index = PineconeIndex("my-index", key="k", controller=endpoint.url)
        …

The control plane is at `url`, the data plane of an index at `url/data/NAME`. Shapes, limits and headers are those of the API's
version 2026-07 as Pinecone's client has them. Numbers in metadata are floats, as they are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.contracts.qdrant_endpoint import Endpoint, Refused, Request, unit

MOST_VECTORS, MOST_BYTES, MOST_IDS, MOST_LISTED, MOST_RESULTS = 1000, 2 * 1024 * 1024, 1000, 100, 10_000
VIEWS = ("fetch", "list", "query")


@dataclass
class Namespace:
    """What was written to a namespace, in order, and what each way of reading has seen of it."""

    log: list[tuple[str, Any]] = field(default_factory=list)  # ("put" or "delete" or "delete all", rows or ids)
    seen: dict[str, dict[str, Any]] = field(default_factory=lambda: {view: {} for view in VIEWS})
    upto: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VIEWS, 0))
    looks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VIEWS, 0))

    def look(self, view: str, lag: int) -> dict[str, Any]:
        """What a way of reading sees; a write only at the `lag`th look after it."""
        if self.upto[view] < len(self.log):
            self.looks[view] += 1
            if self.looks[view] >= lag:
                for what, rows in self.log[self.upto[view] :]:
                    self._apply(self.seen[view], what, rows)
                self.upto[view], self.looks[view] = len(self.log), 0
        return self.seen[view]

    @staticmethod
    def _apply(rows: dict[str, Any], what: str, given: Any) -> None:
        if what == "put":
            rows.update({row["id"]: row for row in given})
        elif what == "delete":
            for id in given:
                rows.pop(id, None)
        else:
            rows.clear()


class PineconeEndpoint(Endpoint):
    """Pinecone: `indexes` by name, `namespaces` by index and name. `lag` is at which look a write is seen, `making` how
    often a new index is described as not ready."""

    def __init__(self, key: str | None = None, *, lag: int = 0, making: int = 0) -> None:
        self.lag, self.making = lag, making
        self.indexes: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[tuple[str, str], Namespace] = {}
        super().__init__(key)

    def host(self, index: str) -> str:
        return f"{self.url}/data/{index}"

    def add(self, name: str, dimension: int, metric: str = "cosine") -> None:
        """An index that is there."""
        field = {"type": "dense_vector", "dimension": dimension, "metric": metric}
        self._create({"name": name, "schema": {"fields": {"_values": field}}, "deployment": {"deployment_type": "managed"}})

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        if self.key is not None and request["headers"].get("api-key") != self.key:
            raise _error(401, "UNAUTHENTICATED", "Invalid API Key")
        if not request["headers"].get("x-pinecone-api-version"):
            raise _error(400, "INVALID_ARGUMENT", "no API version")
        method, body = request["method"], request["body"] or {}
        match request["parts"]:
            case ["indexes"] if method == "GET":
                return 200, {"indexes": [self._described(name) for name in self.indexes]}, {}
            case ["indexes"] if method == "POST":
                return 201, self._create(body), {}
            case ["indexes", name] if method == "GET":
                return 200, self._described(name), {}
            case ["data", name, *rest] if name in self.indexes:
                return self._data(name, "/".join(rest), request)
        raise _error(404, "NOT_FOUND", "no such path")

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name = body["name"]
        if name in self.indexes:
            raise _error(409, "ALREADY_EXISTS", "Resource  already exists")
        deployment = {"cloud": "aws", "region": "us-east-1", **body["deployment"]}
        self.indexes[name] = {
            "name": name,
            "host": self.host(name),
            "schema": body["schema"],
            "deployment": deployment,
            "deletion_protection": "disabled",
            "read_capacity": {"mode": "OnDemand", "status": {"state": "Ready"}},
            "waiting": self.making,
        }
        return self._described(name, look=False)

    def _described(self, name: str, look: bool = True) -> dict[str, Any]:
        index = self.indexes.get(name)
        if index is None:
            raise _error(404, "NOT_FOUND", f"Resource {name} not found")
        waiting = index["waiting"]
        if look and waiting:
            index["waiting"] -= 1
        status = {"ready": not waiting, "state": "Initializing" if waiting else "Ready"}
        return {**{key: value for key, value in index.items() if key != "waiting"}, "status": status}

    def _data(self, index: str, call: str, request: Request) -> tuple[int, Any, dict[str, str]]:
        body, query, dimension = request["body"] or {}, request["query"], self._dimension(index)
        name = body.get("namespace") or (query.get("namespace") or [""])[0]
        here = self.namespaces.get((index, name))
        match request["method"], call:
            case "POST", "vectors/upsert":
                return self._upsert(index, name, body["vectors"], request["bytes"])
            case "POST", "vectors/delete":
                return self._delete(here, body)
            case "POST", "query":
                return self._query(here or Namespace(), name, body, dimension)
            case "GET", "vectors/fetch":
                rows, ids = (here or Namespace()).look("fetch", self.lag), query["ids"]
                if len(ids) > MOST_IDS:
                    raise _error(400, "INVALID_ARGUMENT", "too many ids")
                found = {id: rows[id] for id in ids if id in rows}
                return 200, {"vectors": found, "namespace": name, "usage": {"readUnits": 1}}, {}
            case "GET", "vectors/list":
                return self._list(here or Namespace(), name, query)
            case "POST", "describe_index_stats":
                counts = {
                    own: {"vectorCount": len(each.look("list", self.lag))}
                    for (at, own), each in self.namespaces.items()
                    if at == index
                }
                total = sum(each["vectorCount"] for each in counts.values())
                stats = {"namespaces": counts, "dimension": dimension, "indexFullness": 0, "totalVectorCount": total}
                return 200, {**stats, "metric": "cosine", "vectorType": "dense"}, {}
            case "GET", "namespaces":
                own = [{"name": each, "record_count": "0"} for at, each in self.namespaces if at == index]
                return 200, {"namespaces": own, "pagination": None}, {}
        raise _error(404, "NOT_FOUND", "no such path")

    def _dimension(self, index: str) -> int:
        return int(self.indexes[index]["schema"]["fields"]["_values"]["dimension"])

    def _upsert(self, index: str, name: str, rows: list[Any], size: int) -> tuple[int, Any, dict[str, str]]:
        if size > MOST_BYTES:
            raise _error(413, "OUT_OF_RANGE", "request is larger than 2MB")
        if not 1 <= len(rows) <= MOST_VECTORS:
            raise _error(400, "INVALID_ARGUMENT", f"between 1 and {MOST_VECTORS} vectors")
        for row in rows:
            if len(row["values"]) != self._dimension(index):
                raise _error(400, "INVALID_ARGUMENT", f"Vector dimension {len(row['values'])} does not match the index")
            if not any(row["values"]):
                raise _error(400, "INVALID_ARGUMENT", "Dense vectors must contain at least one non-zero value.")
            row["metadata"] = {key: float(each) if isinstance(each, int) else each for key, each in row["metadata"].items()}
        here = self.namespaces.setdefault((index, name), Namespace())
        here.log.append(("put", rows))
        return 200, {"upsertedCount": len(rows)}, {}

    def _delete(self, here: Namespace | None, body: Mapping[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if here is None:
            raise Refused(404, json.dumps({"code": 5, "message": "Namespace not found", "details": []}).encode())
        if body.get("deleteAll"):
            here.log.append(("delete all", None))
            return 200, {}, {}
        if not 1 <= len(body["ids"]) <= MOST_IDS:
            raise _error(400, "INVALID_ARGUMENT", "too many ids")
        here.log.append(("delete", body["ids"]))
        return 200, {}, {}

    def _query(self, here: Namespace, name: str, body: Mapping[str, Any], dimension: int) -> tuple[int, Any, dict[str, str]]:
        if not 1 <= body["topK"] <= MOST_RESULTS:
            raise _error(400, "INVALID_ARGUMENT", "topK is out of range")
        if len(body["vector"]) != dimension:
            raise _error(400, "INVALID_ARGUMENT", "Vector dimension does not match the index")
        rows, asked = here.look("query", self.lag), unit(body["vector"])
        passing = [row for row in rows.values() if _passes(body.get("filter"), row["metadata"])]
        scored = sorted(((float(unit(row["values"]) @ asked), row["id"]) for row in passing), reverse=True)[: body["topK"]]
        fields = (lambda id: {"metadata": rows[id]["metadata"]}) if body.get("includeMetadata") else (lambda id: {})
        matches = [{"id": id, "score": score, "values": [], **fields(id)} for score, id in scored]
        return 200, {"matches": matches, "namespace": name, "usage": {"readUnits": 1}}, {}

    def _list(self, here: Namespace, name: str, query: Mapping[str, list[str]]) -> tuple[int, Any, dict[str, str]]:
        limit, prefix = int(query.get("limit", ["100"])[0]), query.get("prefix", [""])[0]
        if not 1 <= limit <= MOST_LISTED:
            raise _error(400, "INVALID_ARGUMENT", "limit is out of range")
        after = query.get("paginationToken", [""])[0].removeprefix("after-")
        ids = [id for id in sorted(here.look("list", self.lag)) if id.startswith(prefix) and id > after]
        page = {"vectors": [{"id": id} for id in ids[:limit]], "namespace": name, "usage": {"readUnits": 1}}
        if len(ids) > limit:
            page["pagination"] = {"next": f"after-{ids[limit - 1]}"}
        return 200, page, {}


def _error(status: int, code: str, message: str) -> Refused:
    return Refused(status, json.dumps({"error": {"code": code, "message": message}, "status": status}).encode())


def _passes(wanted: Mapping[str, Any] | None, metadata: Mapping[str, Any]) -> bool:
    for name, condition in (wanted or {}).items():
        [(operator, value)] = condition.items()
        held = metadata.get(name)
        if (held not in value) if operator == "$in" else (held != value):
            return False
    return True
