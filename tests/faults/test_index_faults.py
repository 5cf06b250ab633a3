"""A vector index that is gone, silent, slow, refuses or talks nonsense: only IndexUnavailable, soon, and without the key."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.testing.builders import ALIKE
from keepstone.testing.indexes import HOME, WIDTH, entries, opened, there, vectors
from keepstone.types import Scope
from keepstone.vector_indexes.chroma import ChromaIndex
from keepstone.vector_indexes.engine import Engine, hash_scope
from keepstone.vector_indexes.pinecone import PineconeIndex
from keepstone.vector_indexes.qdrant import QdrantIndex
from keepstone.vector_indexes.registry import FORMS, make_index
from tests.contracts.pinecone_endpoint import PineconeEndpoint
from tests.contracts.qdrant_endpoint import FAULTS, Endpoint, QdrantEndpoint, Request, Step
from tests.contracts.test_chroma_index import chroma_server

KEY = "key-that-nobody-may-see"
SOON = 30.0  # seconds: that something came to an end at all, not how quick it was
VERBS: dict[str, Callable[[VectorIndex], Any]] = {
    "open": lambda index: index.open("another-space", WIDTH),
    "put": lambda index: index.put(HOME, entries(vectors(2))),
    "drop": lambda index: index.drop(HOME, [1, 2]),
    "clear": lambda index: index.clear(HOME),
    "existing": lambda index: index.existing(HOME, [1, 2]),
    "vector_hashes": lambda index: list(index.vector_hashes(HOME)),
    "search": lambda index: index.search(HOME, vectors(1)[0], 3),
}


class Relay(Endpoint):
    """Hands every request on to a real server, as long as it does not misbehave."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url)
        super().__init__()

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection(self.address.hostname or "", self.address.port, timeout=120)
        try:
            path = request["path"] + (f"?{urlencode(request['query'], doseq=True)}" if request["query"] else "")
            body = None if request["body"] is None else json.dumps(request["body"])
            connection.request(request["method"], path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null"), {}
        finally:
            connection.close()


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("chroma")) as (url, _):
        yield url


@pytest.fixture(params=["chroma", "pinecone", "qdrant"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[VectorIndex, Endpoint]]:
    """An index that is open, with two entries in it, and the endpoint behind it."""
    endpoint: Endpoint
    index: VectorIndex
    silent = "silence" in str(request.node.name)
    timeout = 1.0 if silent else 20.0
    if request.param == "chroma":
        endpoint = Relay(request.getfixturevalue("chroma"))
        index = ChromaIndex(endpoint.url, token=KEY, timeout=timeout)
    elif request.param == "pinecone":
        endpoint = PineconeEndpoint(KEY)
        index = PineconeIndex("memories", key=KEY, controller=endpoint.url, timeout=timeout)
    else:
        endpoint = QdrantEndpoint(KEY)
        index = QdrantIndex(endpoint.url, key=KEY, timeout=timeout)
    with endpoint:
        opened(index)
        index.put(HOME, entries(vectors(2)))
        yield index, endpoint
        index.close()


def ended(call: Callable[[], Any]) -> Any:
    """What a call gave, or the error it raised; it must come to an end."""
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SOON)
    assert results, "it hangs"
    return results[0]


def assert_unavailable(result: Any, index: VectorIndex) -> None:
    assert isinstance(result, IndexUnavailable), repr(result)
    assert KEY not in str(result)
    assert str(result).startswith((index.name, "The Pinecone index"))
    assert str(result).endswith(".")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_misbehaves(pair: tuple[VectorIndex, Endpoint], fault: str) -> None:
    index, endpoint = pair
    # What Chroma's server says to a write its client does not look at, if it is JSON at all.
    unseen = (
        {"put", "drop", "clear"} if isinstance(index, ChromaIndex) and fault in ("another shape", "a list", "null") else set()
    )
    for verb, call in VERBS.items():
        if fault == "silence" and verb not in ("open", "search"):
            continue  # each takes as long as the timeout, and they wait as the others do
        endpoint.misbehave(FAULTS[fault])
        result = ended(lambda call=call: call(index))  # type: ignore[misc]
        if verb not in unseen:
            assert_unavailable(result, index)
        assert endpoint.requests, verb
    endpoint.misbehave(None)
    index.put(HOME, entries(vectors(3)))
    assert there(index, HOME, [1, 2, 3]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "said"), [("500", "failed on the server's side"), ("429", "rate limit"), ("HTML", "unreadable response")]
)
def test_what_went_wrong_is_said(pair: tuple[VectorIndex, Endpoint], fault: str, said: str) -> None:
    index, endpoint = pair
    endpoint.misbehave(FAULTS[fault])
    told = str(ended(lambda: VERBS["search"](index)))
    if not isinstance(index, ChromaIndex):  # its client does not tell the status of an answer that is not Chroma's own
        assert said in told
    assert "when it was asked to find the nearest entries" in told


@pytest.mark.parametrize(("fault", "tries"), [("500", 1), ("429", 1), ("silence", 1), ("a dropped connection", 2)])
def test_only_a_lost_connection_is_tried_again_and_once(pair: tuple[VectorIndex, Endpoint], fault: str, tries: int) -> None:
    index, endpoint = pair
    endpoint.misbehave(FAULTS[fault])
    assert_unavailable(ended(lambda: VERBS["search"](index)), index)
    assert len(endpoint.requests) == tries


def test_a_connection_lost_once_is_not_noticed(pair: tuple[VectorIndex, Endpoint]) -> None:
    index, endpoint = pair
    for call in VERBS.values():
        endpoint.misbehave(FAULTS["a dropped connection"], times=1)
        call(index)


def test_a_server_that_quotes_the_key(pair: tuple[VectorIndex, Endpoint]) -> None:
    index, endpoint = pair
    said = json.dumps({"status": {"error": f"no {KEY}"}, "message": f"no {KEY}", "error": {"code": "X", "message": f"no {KEY}"}})
    for status in (400, 401, 500):
        endpoint.misbehave(Step(status, said.encode()))
        assert_unavailable(ended(lambda: VERBS["search"](index)), index)


def test_a_server_that_is_gone(pair: tuple[VectorIndex, Endpoint]) -> None:
    index, endpoint = pair
    endpoint.close()
    for call in VERBS.values():
        result = ended(lambda call=call: call(index))  # type: ignore[misc]
        assert_unavailable(result, index)
        assert "cannot be reached" in str(result)


def test_chroma_s_process_is_killed(tmp_path: Path) -> None:
    with chroma_server(tmp_path) as (url, process):
        index = ChromaIndex(url, timeout=5)
        opened(index)
        index.put(HOME, entries(vectors(2)))
        process.kill()
        process.wait()
        for call in VERBS.values():
            result = ended(lambda call=call: call(index))  # type: ignore[misc]
            assert_unavailable(result, index)
            assert "chroma run" in str(result)
        index.close()
        assert_unavailable(ended(lambda: opened(ChromaIndex(url, timeout=5))), index)


@pytest.mark.parametrize("make", [ChromaIndex, QdrantIndex], ids=["chroma", "qdrant"])
def test_a_server_that_is_silent_from_the_start(make: Callable[..., VectorIndex]) -> None:
    with QdrantEndpoint() as endpoint:
        endpoint.misbehave(FAULTS["silence"])
        index = make(endpoint.url, timeout=0.5)
        result = ended(lambda: opened(index))
        assert_unavailable(result, index)
        assert "did not answer within 0.5 seconds" in str(result)


def test_a_wrong_key_is_said() -> None:
    with QdrantEndpoint("right") as first, PineconeEndpoint("right") as second:
        for index, variable in (
            (QdrantIndex(first.url, key=KEY), "QDRANT_API_KEY"),
            (PineconeIndex("memories", key=KEY, controller=second.url), "PINECONE_API_KEY"),
        ):
            result = ended(lambda index=index: opened(index))  # type: ignore[misc]
            assert_unavailable(result, index)
            assert "does not accept the API key" in str(result)
            assert variable in str(result)
            index.close()


def test_pinecone_that_never_shows_what_was_written() -> None:
    with PineconeEndpoint(KEY) as endpoint:
        index = PineconeIndex("memories", key=KEY, controller=endpoint.url, timeout=0.5)
        opened(index)
        index.put(HOME, entries(vectors(2)))
        endpoint.lag = 10**9
        for verb, call in {"put": lambda: index.put(HOME, entries(vectors(3))), "drop": lambda: index.drop(HOME, [1])}.items():
            result = ended(call)
            assert_unavailable(result, index)
            assert "within 0.5 seconds" in str(result), verb
        index.close()


def test_a_pinecone_index_that_is_never_ready() -> None:
    with PineconeEndpoint(KEY, making=10**9) as endpoint:
        index = PineconeIndex("memories", key=KEY, controller=endpoint.url, timeout=0.2)
        assert "ready" in str(ended(lambda: opened(index)))
        index.close()


@pytest.mark.parametrize("make", [ChromaIndex, QdrantIndex], ids=["chroma", "qdrant"])
def test_a_file_where_the_folder_should_be(make: Callable[..., VectorIndex], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    index = make(str(tmp_path / "file"))
    assert_unavailable(ended(lambda: opened(index)), index)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("make", "file"), [(ChromaIndex, "chroma.sqlite3"), (QdrantIndex, "meta.json")], ids=["chroma", "qdrant"]
)
def test_a_folder_that_is_damaged(make: Callable[..., VectorIndex], file: str, tmp_path: Path) -> None:
    index = make(str(tmp_path / "index"))
    opened(index)
    index.put(HOME, entries(vectors(2)))
    index.close()
    (tmp_path / "index" / file).write_bytes(b"{rubbish" * 2000)
    assert_unavailable(ended(lambda: opened(index)), index)


# -- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["chromadb", "pinecone", "qdrant_client"])
def test_a_package_that_is_not_there(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    extra = {"chromadb": "chroma", "qdrant_client": "qdrant"}.get(package, package)
    with pytest.raises(ConfigurationError, match=rf"needs the package {package}: pip install .*\[{extra}\]'"):
        make_index(f"{extra}:anything", environment={"PINECONE_API_KEY": KEY}.get)


@pytest.mark.parametrize(
    "spec", ["", "chrome:/x", "weaviate:http://u:secret@h", "chroma", "qdrant:", "pinecone: ", 7, object(), QdrantIndex]
)
def test_what_names_no_index(spec: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_index(spec, environment=lambda name: None)
    assert "secret" not in str(caught.value)
    assert (FORMS in str(caught.value)) is not isinstance(spec, type)


def test_a_name_that_is_nearly_right_is_guessed() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'chroma'"):
        make_index("chrome:/x", environment=lambda name: None)


def test_no_index_and_an_index_of_one_s_own() -> None:
    own = QdrantIndex(":memory:")
    assert make_index(None, environment=lambda name: None) is None
    assert make_index(own, environment=lambda name: None) is own


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_timeout_that_is_none(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        QdrantIndex(":memory:", timeout=timeout)


def test_hashes_of_scopes_differ_and_stay() -> None:
    assert len({hash_scope(scope) for scope in ALIKE}) == len(ALIKE)
    assert hash_scope(Scope("a", "b", "c")) == hash_scope(Scope("a", "b", "c"))
    assert hash_scope(Scope()) == "34d276a06060ee675b4e6d122291c34d"  # of entries that are stored: it must not change


def test_an_interrupt_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Engine("index", "KEY", "look", 1.0).call("be asked", interrupted)
