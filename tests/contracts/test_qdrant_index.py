"""QdrantIndex keeps the contract of vector indexes: in the client's local mode, and over HTTP against Qdrant's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import Entry, VectorIndex
from keepstone.ports.values import SearchFilter, Vector
from keepstone.testing.indexes import (
    AWAY,
    HOME,
    WIDTH,
    IndexContract,
    PersistentIndexContract,
    entries,
    entry,
    opened,
    vectors,
)
from keepstone.types import Scope
from keepstone.vector_indexes.engine import hash_scope
from keepstone.vector_indexes.qdrant import QdrantIndex
from keepstone.vector_indexes.registry import make_index
from tests.contracts.qdrant_endpoint import QdrantEndpoint

KEY = "qdrant-key-0123456789"


class TestQdrantInMemory(IndexContract):
    @pytest.fixture
    def index(self) -> Iterator[VectorIndex]:
        index = QdrantIndex(":memory:")
        yield index
        index.close()


class TestQdrantInAFolder(PersistentIndexContract):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[VectorIndex]:
        index = QdrantIndex(str(tmp_path / "qdrant"))
        yield index
        index.close()

    @pytest.fixture
    def again(self, tmp_path: Path) -> Callable[[], VectorIndex]:
        return lambda: QdrantIndex(str(tmp_path / "qdrant"))

    def test_a_folder_is_one_process_s_own(self, index: VectorIndex, again: Callable[[], VectorIndex]) -> None:
        opened(index)
        other = again()
        with pytest.raises(IndexUnavailable, match="already accessed"):
            opened(other)
        index.close()
        opened(other)
        other.close()


@pytest.fixture
def endpoint() -> Iterator[QdrantEndpoint]:
    with QdrantEndpoint(KEY) as endpoint:
        yield endpoint


class TestQdrantServer(PersistentIndexContract):
    @pytest.fixture
    def index(self, endpoint: QdrantEndpoint) -> Iterator[VectorIndex]:
        index = QdrantIndex(endpoint.url, key=KEY)
        yield index
        index.close()

    @pytest.fixture
    def again(self, endpoint: QdrantEndpoint) -> Callable[[], VectorIndex]:
        return lambda: QdrantIndex(endpoint.url, key=KEY)

    def test_a_space_is_a_collection_that_tells_tenants_apart(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        space = opened(index)
        [(name, collection)] = endpoint.collections.items()
        assert name == f"keepstone-{space}"
        assert collection["config"]["vectors"] == {"size": WIDTH, "distance": "Cosine"}
        assert collection["config"]["hnsw_config"] == {"m": 0, "payload_m": 16}
        assert collection["indexes"]["scope"] == {"type": "keyword", "is_tenant": True}
        assert {collection["indexes"][field]["type"] for field in ("kind", "tag", "session")} == {"keyword"}

    def test_a_space_without_its_indexes_gets_them(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        space = opened(index)
        endpoint.collections[f"keepstone-{space}"]["indexes"].clear()
        index.open(space, WIDTH)
        assert set(endpoint.collections[f"keepstone-{space}"]["indexes"]) == {"scope", "kind", "tag", "session"}

    def test_every_search_is_filtered_and_every_write_waits(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        opened(index)
        index.put(HOME, entries(vectors(2)))
        index.search(HOME, vectors(1)[0], 3, SearchFilter(tag="x"))
        list(index.vector_hashes(HOME))
        index.drop(HOME, [1])
        index.clear(HOME)
        for request in endpoint.requests:
            path, body = request["path"], request["body"] or {}
            if path.endswith(("/query", "/scroll")) or (path.endswith("/delete") and "filter" in body):
                assert {"key": "scope", "match": {"value": hash_scope(HOME)}} in body["filter"]["must"]
            if (request["method"] == "PUT" and "/points" in path) or path.endswith("/delete"):
                assert request["query"]["wait"] == ["true"]

    def test_names_of_scopes_are_not_sent(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        opened(index)
        scope = Scope("tenant-name", "agent-name", "user-name")
        index.put(scope, entries(vectors(2)))
        index.search(scope, vectors(1)[0], 3)
        sent = json.dumps([[request["path"], request["body"]] for request in endpoint.requests])
        assert "tenant-name" not in sent
        assert "agent-name" not in sent
        assert "user-name" not in sent

    def test_writes_in_batches(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        opened(index)
        index.put(HOME, entries(vectors(1203)))
        sizes = [len(each["body"]["points"]) for each in endpoint.requests if each["path"].endswith("/points")]
        assert sum(sizes) == 1203
        assert max(sizes) <= 500

    def test_a_collection_made_by_another_process_meanwhile_is_used(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        exists = {"asked": 0}
        answer = endpoint.answer

        def late(request: dict) -> tuple:  # type: ignore[type-arg]
            if request["path"].endswith("/exists") and not exists["asked"]:
                exists["asked"] = 1
                status, body, headers = answer(request)
                endpoint.collections[request["parts"][1]] = {
                    "config": {"vectors": {"size": WIDTH, "distance": "Cosine"}},
                    "indexes": {},
                    "points": {},
                }
                return status, body, headers
            return answer(request)

        endpoint.answer = late  # type: ignore[method-assign]
        opened(index)
        index.put(HOME, entries(vectors(1)))
        assert index.existing(HOME, [1]) == {1}

    @pytest.mark.parametrize(
        "change",
        [
            lambda payload: payload.update(sequence="1"),
            lambda payload: payload.update(sequence=1.5),
            lambda payload: payload.update(sequence=2),
            lambda payload: payload.update(sequence=True),
            lambda payload: payload.pop("sequence"),
        ],
        ids=["text", "fraction", "another", "truth", "none"],
    )
    def test_a_point_that_is_not_ours_is_no_answer(
        self,
        index: VectorIndex,
        endpoint: QdrantEndpoint,
        change: Callable[[dict], None],  # type: ignore[type-arg]
    ) -> None:
        opened(index)
        index.put(HOME, entries(vectors(1)))
        [collection] = endpoint.collections.values()
        [(_, payload)] = collection["points"].values()
        change(payload)
        with pytest.raises(IndexUnavailable, match="not of this scope"):
            index.search(HOME, vectors(1)[0], 3)
        with pytest.raises(IndexUnavailable, match="not of this scope"):
            index.vector_hashes(HOME)

    def test_a_collection_of_another_kind_is_refused(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        space = opened(index)
        with pytest.raises(IndexUnavailable, match=r"holds vectors of 8 numbers.* opened for 9"):
            index.open(space, WIDTH + 1)
        endpoint.collections[f"keepstone-{space}"]["config"]["vectors"]["distance"] = "Euclid"
        with pytest.raises(IndexUnavailable, match="cosine"):
            index.open(space, WIDTH)

    def test_a_collection_that_was_removed_is_said_and_made_anew(self, index: VectorIndex, endpoint: QdrantEndpoint) -> None:
        space = opened(index)
        endpoint.collections.clear()
        with pytest.raises(IndexUnavailable, match=r"status 404.*open the memory again"):
            index.put(AWAY, [entry(1, vectors(1)[0])])
        index.open(space, WIDTH)
        index.put(AWAY, [entry(1, vectors(1)[0])])
        assert index.existing(AWAY, [1]) == {1}


def test_is_made_from_its_name(endpoint: QdrantEndpoint, tmp_path: Path) -> None:
    served = make_index(f"qdrant:{endpoint.url}", environment={"QDRANT_API_KEY": KEY}.get)
    assert served is not None
    assert served.name == f"qdrant at {endpoint.url}"
    opened(served)
    assert endpoint.requests[0]["headers"]["api-key"] == KEY
    served.close()
    folder = make_index(f"qdrant:{tmp_path / 'q'}", environment=lambda name: None)
    memory = make_index("qdrant::memory:", environment=lambda name: None)
    assert folder is not None
    assert memory is not None
    assert (folder.name, memory.name) == (f"qdrant at {tmp_path / 'q'}", "qdrant in memory")
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize(
    "spec", ["qdrant:ftp://host", "qdrant:http://", "qdrant:http://me:secret@host:6333", "qdrant:http://h?a=secret"]
)
def test_refuses_addresses_that_are_none(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="address") as caught:
        make_index(spec, environment=lambda name: None)
    assert "secret" not in str(caught.value)


class Careless(QdrantIndex):
    """An index with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__(":memory:")
        self.fault = fault

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        if self.fault == "floats":
            entries = [replace(each, sequence=int(float(each.sequence))) for each in entries]
        super().put(HOME if self.fault == "one scope" else scope, entries)

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        if self.fault != "keeps":
            super().drop(scope, sequences)

    def clear(self, scope: Scope) -> None:
        for each in (HOME, AWAY) if self.fault == "clears all" else (scope,):
            super().clear(each)

    def search(self, scope: Scope, vector: Vector, limit: int, among: SearchFilter = SearchFilter()) -> list[int]:
        found = super().search(scope, vector, limit, SearchFilter() if self.fault == "narrows not" else among)
        if self.fault == "short":
            return found[: max(1, len(found) - 1)]
        return found[::-1] if self.fault == "farthest first" else found

    def open(self, space: str, dimension: int) -> None:
        super().open("one" if self.fault == "one space" else space, dimension)


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("floats", IndexContract.test_tells_large_sequences_apart),
        ("one scope", IndexContract.test_scopes_are_apart),
        ("keeps", IndexContract.test_dropping_takes_out_and_nothing_else),
        ("clears all", IndexContract.test_clearing_empties_one_scope),
        ("narrows not", IndexContract.test_narrows_by_kind_tag_and_session),
        ("short", IndexContract.test_a_scope_among_many_gets_as_many_as_it_asks_for),
        ("farthest first", IndexContract.test_gives_the_nearest_first_by_cosine),
        ("one space", IndexContract.test_another_space_sees_nothing_of_the_first),
    ],
)
def test_the_contract_catches(fault: str, test: Callable[[IndexContract, VectorIndex], None]) -> None:
    test(IndexContract(), Careless("none"))
    with pytest.raises(AssertionError):
        test(IndexContract(), Careless(fault))
