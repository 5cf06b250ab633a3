"""A local HTTP server that speaks the embeddings API, as OpenAI made it and Voyage has it, and fails as it is told to.

    with Embeddings(status(429, retry_after="0"), sound()) as endpoint:
        embedder = OpenAIEmbedder("any", base_url=endpoint.url)
        …
    endpoint.requests[0]["body"]["input"]

Steps are used one a request, in the order they come; after the last, and where there are none, `endpoint.always` is, which
is a sound answer until a test sets it. A request is `{"path", "headers" (names in lower case), "body"}`. Sound answers give the
vectors last to first, each with its index, so that no test passes without their being put in order.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.models.server import NO_SUCH_PATH, Handler, Server

WIDTH = 1024
SAME = {"automobile": "car", "vehicle": "car", "physician": "doctor"}
Request = dict[str, Any]
Row = dict[str, Any]


def vector(text: str, width: int = WIDTH) -> list[float]:
    """Words as directions; some words share one, which is what this model knows of meaning."""
    row = [0.001] * width
    for word in text.lower().split():
        word = word.rstrip(".?")
        row[zlib.crc32(SAME.get(word, word).encode("utf-8", "replace")) % width] += 1.0
    return row


@dataclass(frozen=True)
class Step:
    """What the endpoint does with a request; made by the functions below."""

    change: Callable[[list[Row]], object] | None = None
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    waits: bool = False


def sound() -> Step:
    """A vector for each text."""
    return Step()


def changed(change: Callable[[list[Row]], object]) -> Step:
    """A sound answer's rows, in the order of the texts, after a function has been at them."""
    return Step(change=change)


def every(change: Callable[[list[float]], object]) -> Step:
    """A sound answer but for its vectors, which a function has been at."""
    return changed(lambda rows: [{**row, "embedding": change(row["embedding"])} for row in rows])


def last(**fields: object) -> Step:
    """A sound answer but for these fields of its last row; None takes a field out."""

    def change(rows: list[Row]) -> list[Row]:
        return [*rows[:-1], {name: value for name, value in {**rows[-1], **fields}.items() if value is not None}]

    return changed(change)


def status(code: int, message: str = "refused", *, kind: str = "some_error", **headers: str) -> Step:
    """An error; `retry_after="3"` becomes the header retry-after."""
    body = json.dumps({"error": {"message": message, "type": kind, "code": None}}).encode()
    return Step(status=code, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def garbage(body: bytes = b'{"object": "list", "data": [{"emb') -> Step:
    """Status 200 with a body that is no answer."""
    return Step(body=body)


def cut() -> Step:
    """The connection breaks in the middle of the answer."""
    return Step(cut=True)


def slow() -> Step:
    """Nothing until the endpoint is left."""
    return Step(waits=True)


class Embeddings:
    """The server; a context manager. `url` is the base URL. With `most`, a text of more words is refused as too long."""

    def __init__(self, *steps: Step, width: int = WIDTH, most: int | None = None) -> None:
        self.requests: list[Request] = []
        self.always = sound()
        self.width, self._most = width, most
        self._steps = list(steps)
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._server = Server(self, _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.002,), daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """How many connections were made."""
        return self._server.connections

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._server.shutdown()
        self._server.drop()
        self._server.server_close()
        self._thread.join()

    @property
    def texts(self) -> list[str]:
        """All texts that were sent."""
        return [text for request in self.requests for text in request["body"]["input"]]

    def answer(self, request: Request) -> tuple[Step, bytes]:
        """What is done with a request and the body that is sent; called by the handler, in its thread."""
        with self._lock:
            self.requests.append(request)
            step = self._steps.pop(0) if self._steps else self.always
        body = request["body"]
        if step.waits:
            self._left.wait()
        if self._most is not None and any(len(text.split()) > self._most for text in body["input"]):
            step = status(400, f"This model's maximum context length is {self._most} tokens")
        if step.body:
            return step, step.body
        width = body.get("dimensions") or body.get("output_dimension") or self.width
        rows = [
            {"object": "embedding", "index": index, "embedding": vector(text, width)} for index, text in enumerate(body["input"])
        ]
        data = rows[::-1] if step.change is None else step.change(rows)
        return step, json.dumps({"object": "list", "data": data, "model": body["model"]}).encode()


class _Handler(Handler):
    def do_POST(self) -> None:
        request = self.received()
        if self.path != "/v1/embeddings":
            self.whole(404, NO_SUCH_PATH)
            return
        step, body = self.server.endpoint.answer(request)
        self.whole(step.status, body, step.headers, step.cut)
