"""ChromaIndex keeps the contract of vector indexes: in a folder, and on a real server that runs as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.testing.indexes import (
    HOME,
    WIDTH,
    PersistentIndexContract,
    entries,
    entry,
    nearest,
    opened,
    there,
    vectors,
)
from keepstone.types import Scope
from keepstone.vector_indexes.chroma import ChromaIndex
from keepstone.vector_indexes.engine import hash_scope
from keepstone.vector_indexes.registry import make_index
from tests.contracts.qdrant_endpoint import Endpoint, Refused, Request
from tests.faults.support import run

TOKEN = "ck-0123456789abcdef"


@contextmanager
def chroma_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Chroma server on a free port that answers; killed when it is left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "chroma"), "run", "--path", str(folder / "data")]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(folder)},
        )
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
        while not _answers(url):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield url, process
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/heartbeat", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("chroma")) as (url, _):
        yield url


class TestChromaInAFolder(PersistentIndexContract):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[VectorIndex]:
        index = ChromaIndex(str(tmp_path / "chroma"))
        yield index
        index.close()

    @pytest.fixture
    def again(self, tmp_path: Path) -> Callable[[], VectorIndex]:
        return lambda: ChromaIndex(str(tmp_path / "chroma"))

    def test_a_scope_among_many_is_searched_whole(self, index: VectorIndex) -> None:
        opened(index, 32)
        rows = vectors(20 * 200, 32).reshape(20, 200, 32)
        for at in range(20):
            index.put(Scope(user=f"user {at}"), entries(rows[at]))
        found: list[float] = []
        for at in range(20):
            for query in (rows[(at + 1) % 20][0], rows[at][5]):
                got = [index.search(Scope(user=f"user {at}"), query, limit) for limit in (10, 200, 500)]
                assert [len(set(each)) for each in got] == [10, 200, 200]
                found.append(len(set(got[0]) & set(nearest(rows[at], query)[:10])) / 10)
        assert np.mean(found) >= 0.99

    def test_what_a_search_leaves_out_is_looked_up(self, index: ChromaIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        opened(index)
        rows = vectors(9)
        index.put(HOME, entries(rows))
        collection = index._place(HOME).handle
        query = collection.query

        def forgetful(**options: object) -> object:
            answer = query(**options)  # type: ignore[arg-type]
            return {**answer, "ids": [answer["ids"][0][1::2]]}

        monkeypatch.setattr(collection, "query", forgetful)
        assert index.search(HOME, rows[3], 9) == nearest(rows, rows[3])
        assert index.search(HOME, rows[3], 5) == nearest(rows, rows[3])[:5]

    def test_another_width_needs_another_space(self, index: VectorIndex) -> None:
        space = opened(index)
        with pytest.raises(IndexUnavailable, match=r"holds vectors of 8 numbers.* opened for 9"):
            index.open(space, WIDTH + 1)

    def test_ids_and_fields_do_not_tell_names_or_texts(self, index: ChromaIndex) -> None:
        opened(index)
        scope = Scope("tenant-name", "agent-name", "user-name")
        index.put(scope, [entry(2**62, vectors(1)[0], "print", "fact", "tag", "session")])
        collection = index._place(HOME).handle
        held = collection.get()
        assert held["ids"] == [f"{hash_scope(scope)}:{2**62}"]
        assert held["documents"] == [None]
        assert held["metadatas"] == [
            {"scope": hash_scope(scope), "print": "print", "kind": "fact", "tag": "tag", "session": "session"}
        ]

    @pytest.mark.parametrize("id", ["foreign", "{own}:x", "{own}:--1", "{own}:-", "{other}:1"])
    def test_an_id_that_is_not_ours_is_no_answer(self, index: ChromaIndex, id: str) -> None:
        opened(index)
        collection = index._place(HOME).handle
        own = hash_scope(HOME)
        collection.add(ids=[id.format(own=own, other="0" * 32)], embeddings=vectors(1), metadatas=[{"scope": own, "print": "x"}])
        with pytest.raises(IndexUnavailable, match="not of this scope"):
            index.search(HOME, vectors(1)[0], 3)
        with pytest.raises(IndexUnavailable, match="not of this scope"):
            index.vector_hashes(HOME)


class TestChromaServer(PersistentIndexContract):
    @pytest.fixture
    def index(self, server: str) -> Iterator[VectorIndex]:
        index = ChromaIndex(server)
        yield index
        index.close()

    @pytest.fixture
    def again(self, server: str) -> Callable[[], VectorIndex]:
        return lambda: ChromaIndex(server)

    def test_a_collection_that_was_removed_is_said_and_made_anew(self, index: ChromaIndex) -> None:
        space = opened(index)
        index._client.delete_collection(f"keepstone-{space}")  # type: ignore[union-attr]
        with pytest.raises(IndexUnavailable, match=r"status 404.*open the memory again"):
            index.put(HOME, entries(vectors(1)))
        index.open(space, WIDTH)
        index.put(HOME, entries(vectors(1)))
        assert there(index, HOME, [1, 2]) == [1]

    def test_two_clients_see_each_other_s_writes(self, index: VectorIndex, again: Callable[[], VectorIndex]) -> None:
        space, rows = opened(index), vectors(3)
        other = again()
        other.open(space, WIDTH)
        index.put(HOME, entries(rows))
        assert other.search(HOME, rows[1], 1) == [2]
        other.drop(HOME, [2])
        assert there(index, HOME, [1, 2, 3]) == [1, 3]
        other.close()


ALONE = """
import json, sys
calls = []
sys.addaudithook(lambda event, args: calls.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
import keepstone.vector_indexes.registry as registry
light = [name for name in ("chromadb", "qdrant_client", "pinecone") if name in sys.modules]
from keepstone.testing.indexes import HOME, entries, opened, vectors
index = registry.make_index("chroma:" + sys.argv[1], environment=lambda name: None)
opened(index)
index.put(HOME, entries(vectors(5)))
found = index.search(HOME, vectors(5)[3], 1)
index.close()
models = [name for name in ("onnxruntime", "tokenizers", "sentence_transformers") if name in sys.modules]
print(json.dumps([light, found, calls, models]))
"""


def test_asks_nobody_and_loads_no_model(tmp_path: Path) -> None:
    light, found, calls, models = run(ALONE, tmp_path / "chroma", cwd=tmp_path)
    assert (light, found, calls, models) == ([], [4], [], [])
    assert {each.name for each in tmp_path.iterdir()} == {"chroma"}


class Recorder(Endpoint):
    """Refuses everything, and keeps what came."""

    def answer(self, request: Request) -> tuple[int, object, dict[str, str]]:
        raise Refused(401, b'{"error": "AuthorizationError", "message": "Unauthorized"}')


def test_is_made_from_its_name(server: str, tmp_path: Path) -> None:
    folder = make_index(f"chroma:{tmp_path / 'c'}", environment=lambda name: None)
    served = make_index(f"chroma:{server}/", environment=lambda name: None)
    assert folder is not None
    assert served is not None
    assert (folder.name, served.name) == (f"chroma at {tmp_path / 'c'}", f"chroma at {server}")
    assert not (tmp_path / "c").exists()
    opened(served)
    served.close()


def test_the_token_is_sent_and_a_wrong_one_said() -> None:
    with Recorder() as endpoint:
        index = make_index(f"chroma:{endpoint.url}", environment={"CHROMA_TOKEN": TOKEN}.get)
        assert index is not None
        with pytest.raises(IndexUnavailable, match=r"does not accept the API key.*CHROMA_TOKEN") as caught:
            opened(index)
    headers = endpoint.requests[0]["headers"]
    assert (headers["authorization"], headers["x-chroma-token"]) == (f"Bearer {TOKEN}", TOKEN)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["chroma:ftp://host", "chroma:http://", "chroma:http://me:secret@host", "chroma:http://h?a=secret"]
)
def test_refuses_addresses_that_are_none(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="address") as caught:
        make_index(spec, environment=lambda name: None)
    assert "secret" not in str(caught.value)
