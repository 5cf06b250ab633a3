"""A local HTTP server that speaks Qdrant's REST API as far as our adapter uses it, and misbehaves when told to. No test lives
here.

    with QdrantEndpoint(key="k") as endpoint:
        index = QdrantIndex(endpoint.url, key="k")
        …
    endpoint.requests[0]["body"]

Answers have the shape of Qdrant's own (`{"result", "status", "time"}`), as its OpenAPI description and the models of its client
have them. `Endpoint` and `Step` are shared with Pinecone's endpoint.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from tests.models.server import Handler, Server

Request = dict[str, Any]
MOST_BYTES = 32 * 1024 * 1024  # of a request that Qdrant takes


@dataclass(frozen=True)
class Step:
    """How an endpoint misbehaves: with a status, with a body of its own, by breaking off in the middle, by never answering."""

    status: int = 200
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    waits: bool = False
    drops: bool = False


FAULTS = {
    "500": Step(500, b'{"status": {"error": "Service internal error: broken"}, "time": 0.0}'),
    "503 without a body": Step(503, b""),
    "429": Step(429, b'{"status": {"error": "Rate limit exceeded"}}', {"retry-after": "3600"}),
    "cut JSON": Step(cut=True),
    "half a JSON": Step(200, b'{"result": {"points": [{"id": '),
    "an empty body": Step(200, b""),
    "HTML": Step(200, b"<html><body>Welcome to nginx!</body></html>", {"content-type": "text/html"}),
    "another shape": Step(200, b'{"result": 7, "vectors": 7, "matches": 7, "status": "ok", "time": 0}'),
    "a list": Step(200, b"[1, 2, 3]"),
    "null": Step(200, b"null"),
    "a dropped connection": Step(drops=True),
    "silence": Step(waits=True),
}


class Refused(Exception):
    """An error the real server would answer with."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class Endpoint:
    """A server that answers each request by `answer`; a context manager."""

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.requests: list[Request] = []
        self._fault: Step | None = None
        self._only, self._times = "", -1
        self.lock = threading.RLock()
        self._left = threading.Event()
        self._server = Server(self, _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.002,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once; connections that are open are dropped."""
        if self._left.is_set():
            return
        self._left.set()
        self._server.shutdown()
        self._server.drop()
        self._server.server_close()
        self._thread.join()

    def misbehave(self, fault: Step | None, only: str = "", times: int = -1) -> None:
        """From now on, requests whose path has `only` in it get this, so many of them, or all; None: no more."""
        with self.lock:
            self._fault, self._only, self._times = fault, only, times
            self.requests.clear()

    def step(self, request: Request) -> Step:
        """What is done with a request; called by the handler, in its thread."""
        with self.lock:
            self.requests.append(request)
            fault = self._fault if self._only in request["path"] and self._times != 0 else None
            self._times -= fault is not None
        if fault is not None and fault.waits:
            self._left.wait()
        if fault is not None and not fault.cut:
            return fault
        try:
            with self.lock:
                status, body, headers = self.answer(request)
        except Refused as refused:
            return Step(refused.status, refused.body)
        return Step(status, json.dumps(body).encode(), headers, cut=fault is not None)

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        """(status, JSON, headers) for a request."""
        raise NotImplementedError


class _Handler(Handler):
    def _do(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        request = {
            "method": self.command,
            "path": url.path,
            "parts": [unquote(part) for part in url.path.strip("/").split("/")],
            "query": parse_qs(url.query, keep_blank_values=True),
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "bytes": len(raw),
            "body": json.loads(raw) if raw else None,
        }
        step = self.server.endpoint.step(request)
        if step.drops or step.waits:
            self.close_connection = True
            return
        self.whole(step.status, step.body or b"", step.headers, step.cut)

    do_GET = do_POST = do_PUT = do_DELETE = _do


def unit(vector: list[float]) -> np.ndarray:
    """A vector of length 1, as both engines keep it to measure by cosine."""
    row = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(row))
    return row / length if length else row


class QdrantEndpoint(Endpoint):
    """Qdrant: `collections` by name, each with its configuration, its fields' indexes and its points."""

    def __init__(self, key: str | None = None) -> None:
        self.collections: dict[str, dict[str, Any]] = {}
        super().__init__(key)

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        if self.key is not None and request["headers"].get("api-key") != self.key:
            raise Refused(401, b"Invalid API key or JWT")
        if request["bytes"] > MOST_BYTES:
            raise self._error(413, "Payload error: JSON payload is larger than allowed")
        method, body = request["method"], request["body"]
        match request["parts"]:
            case ["collections", name, "exists"] if method == "GET":
                result: Any = {"exists": name in self.collections}
            case ["collections", name] if method == "PUT":
                result = self._create(name, body)
            case ["collections", name] if method == "GET":
                result = self._described(self._collection(name))
            case ["collections", name, "index"] if method == "PUT":
                self._collection(name)["indexes"][body["field_name"]] = body["field_schema"]
                result = {"operation_id": 1, "status": self._completed(request)}
            case ["collections", name, "points", *rest]:
                result = self._points(self._collection(name), method, rest, request)
            case _:
                raise Refused(404, b"")
        return 200, {"result": result, "status": "ok", "time": 0.001}, {}

    def _error(self, status: int, text: str) -> Refused:
        return Refused(status, json.dumps({"status": {"error": text}, "time": 0.001}).encode())

    def _collection(self, name: str) -> dict[str, Any]:
        if name not in self.collections:
            raise self._error(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.collections[name]

    def _create(self, name: str, body: Mapping[str, Any]) -> bool:
        if name in self.collections:
            raise self._error(409, f"Wrong input: Collection `{name}` already exists!")
        self.collections[name] = {"config": body, "indexes": {}, "points": {}}
        return True

    def _described(self, collection: Mapping[str, Any]) -> dict[str, Any]:
        points, hnsw = collection["points"], {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
        optimizer = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0}
        config = {
            "params": {"vectors": collection["config"]["vectors"], "shard_number": 1, "on_disk_payload": True},
            "hnsw_config": {**hnsw, **(collection["config"].get("hnsw_config") or {})},
            "optimizer_config": {**optimizer, "flush_interval_sec": 5},
            "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
        }
        fields = {
            name: {"data_type": schema["type"], "params": schema, "points": len(points)}
            for name, schema in collection["indexes"].items()
        }
        counts = {"indexed_vectors_count": 0, "points_count": len(points), "segments_count": 2}
        return {"status": "green", "optimizer_status": "ok", **counts, "config": config, "payload_schema": fields}

    def _completed(self, request: Request) -> str:
        return "completed" if request["query"].get("wait") == ["true"] else "acknowledged"

    def _points(self, collection: dict[str, Any], method: str, rest: list[str], request: Request) -> Any:
        points, body = collection["points"], request["body"]
        if method == "PUT" and not rest:
            size = collection["config"]["vectors"]["size"]
            for point in body["points"]:
                if len(point["vector"]) != size:
                    raise self._error(
                        400, f"Wrong input: Vector dimension error: expected dim: {size}, got {len(point['vector'])}"
                    )
                points[self._id(point["id"])] = (unit(point["vector"]), point.get("payload") or {})
            return {"operation_id": 2, "status": self._completed(request)}
        if rest == ["delete"]:
            gone = [self._id(id) for id in body.get("points", [])]
            if "filter" in body:
                gone = [id for id, (_, payload) in points.items() if _passes(body["filter"], payload)]
            for id in gone:
                points.pop(id, None)
            return {"operation_id": 3, "status": self._completed(request)}
        shown = body.get("with_payload")
        if not rest:
            asked = [self._id(id) for id in body["ids"]]
            return [{"id": id, "payload": _shown(points[id][1], shown)} for id in asked if id in points]
        passing = {id: point for id, point in sorted(points.items()) if _passes(body.get("filter"), point[1])}
        if rest == ["scroll"]:
            ids = [id for id in passing if id >= (body.get("offset") or "")]
            page, after = ids[: body["limit"]], ids[body["limit"] :]
            listed = [{"id": id, "payload": _shown(passing[id][1], shown)} for id in page]
            return {"points": listed, "next_page_offset": after[0] if after else None}
        if rest == ["query"]:
            row = unit(body["query"]["nearest"])
            scored = sorted(((float(vector @ row), id) for id, (vector, _) in passing.items()), reverse=True)
            best = [{"id": id, "version": 0, "score": score} for score, id in scored[: body["limit"]]]
            return {"points": [{**each, "payload": _shown(passing[each["id"]][1], shown)} for each in best]}
        raise Refused(404, b"")

    def _id(self, id: Any) -> str:
        try:
            return str(uuid.UUID(id))
        except (ValueError, TypeError, AttributeError):
            raise self._error(
                400, f"{id} is not a valid point ID, valid values are either an unsigned integer or a UUID"
            ) from None


def _shown(payload: Mapping[str, Any], shown: Any) -> dict[str, Any] | None:
    if isinstance(shown, list):
        return {name: payload[name] for name in shown if name in payload}
    return dict(payload) if shown is True else None


def _passes(wanted: Mapping[str, Any] | None, payload: Mapping[str, Any]) -> bool:
    for condition in (wanted or {}).get("must", []):
        value, match = payload.get(condition["key"]), condition["match"]
        if value not in match["any"] if "any" in match else value != match["value"]:
            return False
    return True
