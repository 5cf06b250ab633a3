"""PineconeIndex keeps the contract of vector indexes: the official client over HTTP against Pinecone's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from keepstone.errors import ConfigurationError, IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.ports.values import SearchFilter
from keepstone.testing.indexes import HOME, WIDTH, PersistentIndexContract, entries, entry, opened, there, vectors
from keepstone.types import Scope
from keepstone.vector_indexes.engine import hash_scope
from keepstone.vector_indexes.pinecone import PineconeIndex
from keepstone.vector_indexes.registry import make_index
from tests.contracts.pinecone_endpoint import MOST_BYTES, PineconeEndpoint

KEY = "pcsk-0123456789"
NAME = "memories"


@pytest.fixture
def endpoint() -> Iterator[PineconeEndpoint]:
    with PineconeEndpoint(KEY) as endpoint:
        yield endpoint


class TestPinecone(PersistentIndexContract):
    @pytest.fixture
    def index(self, endpoint: PineconeEndpoint) -> Iterator[VectorIndex]:
        index = PineconeIndex(NAME, key=KEY, controller=endpoint.url)
        yield index
        index.close()

    @pytest.fixture
    def again(self, endpoint: PineconeEndpoint) -> Callable[[], VectorIndex]:
        return lambda: PineconeIndex(NAME, key=KEY, controller=endpoint.url)

    def test_the_index_is_made_if_it_is_not_there(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        endpoint.making = 2
        opened(index)
        assert endpoint.indexes[NAME]["schema"] == {
            "fields": {"_values": {"type": "dense_vector", "dimension": WIDTH, "metric": "cosine"}}
        }
        assert endpoint.indexes[NAME]["deployment"] == {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}
        opened(index)
        assert sum(request["method"] == "POST" and request["path"] == "/indexes" for request in endpoint.requests) == 1

    def test_an_index_made_by_another_process_meanwhile_is_used(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        answer, asked = endpoint.answer, []

        def late(request: dict) -> tuple:  # type: ignore[type-arg]
            if request["path"] == "/indexes" and not asked:
                asked.append(request)
                endpoint.add(NAME, WIDTH)
            return answer(request)

        endpoint.answer = late  # type: ignore[method-assign]
        opened(index)
        assert asked
        index.put(HOME, entries(vectors(1)))
        assert index.existing(HOME, [1]) == {1}

    def test_another_width_is_another_index(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        opened(index)
        opened(index, 24)
        assert set(endpoint.indexes) == {NAME, f"{NAME}-24"}
        opened(index)
        assert set(endpoint.indexes) == {NAME, f"{NAME}-24"}

    def test_a_scope_is_a_namespace_whose_name_tells_nothing(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        space = opened(index)
        scope = Scope("tenant-name", "agent-name", "user-name")
        index.put(scope, [entry(2**62, vectors(1)[0], "print", "fact", "tag", "session")])
        assert list(endpoint.namespaces) == [(NAME, f"{space}.{hash_scope(scope)}")]
        [namespace] = endpoint.namespaces.values()
        [(id, row)] = namespace.look("fetch", 0).items()
        assert (id, row["metadata"]) == (
            "4000000000000000",
            {"sequence": id, "print": "print", "kind": "fact", "tag": "tag", "session": "session"},
        )
        sent = json.dumps([[request["path"], request["query"], request["body"]] for request in endpoint.requests])
        assert [name for name in ("tenant-name", "agent-name", "user-name") if name in sent] == []

    def test_requests_stay_within_the_limits(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        opened(index, 1536)
        index.put(HOME, [entry(at, row, tag="😀" * 256) for at, row in enumerate(vectors(130, 1536))])
        opened(index, 2)
        index.put(HOME, entries(vectors(2500, 2)))
        index.drop(HOME, range(1, 2501))
        assert max(request["bytes"] for request in endpoint.requests) <= MOST_BYTES
        counts = [len(each["body"]["vectors"]) for each in endpoint.requests if each["path"].endswith("/vectors/upsert")]
        assert sum(counts) == 130 + 2500
        assert max(counts) <= 1000
        assert max(len(each["body"]["ids"]) for each in endpoint.requests if each["path"].endswith("/vectors/delete")) <= 1000

    def test_asks_for_no_more_than_pinecone_gives(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        opened(index)
        index.put(HOME, entries(vectors(3)))
        assert len(index.search(HOME, vectors(1)[0], 50_000)) == 3

    def test_an_index_that_measures_otherwise_is_refused(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        endpoint.add(NAME, WIDTH, "euclidean")
        with pytest.raises(IndexUnavailable, match="has the metric euclidean"):
            opened(index)

    def test_an_id_that_is_not_ours_is_no_answer(self, index: VectorIndex, endpoint: PineconeEndpoint) -> None:
        opened(index)
        index.put(HOME, entries(vectors(1)))
        [namespace] = endpoint.namespaces.values()
        for rows in namespace.seen.values():
            rows["foreign"] = {"id": "foreign", "values": [1.0] * WIDTH, "metadata": {}}
        with pytest.raises(IndexUnavailable, match="unexpected response"):
            index.search(HOME, vectors(1)[0], 3)
        with pytest.raises(IndexUnavailable, match="unexpected response"):
            index.vector_hashes(HOME)

    def test_with_a_host_alone_nothing_is_looked_up_or_made(self, endpoint: PineconeEndpoint) -> None:
        endpoint.add("elsewhere", WIDTH)
        index = PineconeIndex(NAME, key=KEY, host=endpoint.host("elsewhere"))
        opened(index)
        index.put(HOME, entries(vectors(2)))
        assert there(index, HOME, [1, 2, 3]) == [1, 2]
        with pytest.raises(IndexUnavailable, match="holds vectors of 8 numbers"):
            opened(index, 9)
        assert not [request for request in endpoint.requests if request["path"].startswith("/indexes")]
        index.close()


class TestPineconeThatSeesLate:
    """A write is seen by each way of reading only at the third look after it."""

    @pytest.fixture
    def index(self) -> Iterator[VectorIndex]:
        with PineconeEndpoint(KEY, lag=3) as endpoint:
            index = PineconeIndex(NAME, key=KEY, controller=endpoint.url)
            yield index
            index.close()

    def test_what_was_put_is_there_at_once(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(3)
        index.put(HOME, entries(rows))
        assert index.search(HOME, rows[1], 1) == [2]
        assert there(index, HOME, [1, 2, 3]) == [1, 2, 3]

    def test_what_was_replaced_is_so_at_once(self, index: VectorIndex) -> None:
        opened(index)
        old, new, other = vectors(3)
        index.put(HOME, [entry(1, old, "old", tag="red"), entry(2, other)])
        index.put(HOME, [entry(1, new, "new", tag="blue")])
        assert index.search(HOME, new, 1) == [1]
        assert index.search(HOME, new, 3, SearchFilter(tag="red")) == []
        assert sorted(index.vector_hashes(HOME)) == [(1, "new"), (2, "p2")]

    def test_what_was_dropped_is_gone_at_once(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(3)
        index.put(HOME, entries(rows))
        index.drop(HOME, [2])
        assert index.search(HOME, rows[1], 3, SearchFilter(kinds=("fact",))) != []
        assert 2 not in index.search(HOME, rows[1], 3)
        assert there(index, HOME, [1, 2, 3]) == [1, 3]

    def test_what_was_cleared_is_gone_at_once(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(3)
        index.put(HOME, entries(rows))
        index.clear(HOME)
        assert index.search(HOME, rows[1], 3) == []
        assert there(index, HOME, [1, 2, 3]) == []


def test_is_made_from_its_name(endpoint: PineconeEndpoint) -> None:
    values = {"PINECONE_API_KEY": KEY, "PINECONE_CONTROLLER_HOST": endpoint.url}
    values |= {"PINECONE_CLOUD": "gcp", "PINECONE_REGION": "europe-west4"}
    index = make_index(f"pinecone:{NAME}", environment=values.get)
    assert index is not None
    assert index.name == f"pinecone index {NAME}"
    assert endpoint.requests == []
    opened(index)
    deployment = endpoint.indexes[NAME]["deployment"]
    assert (deployment["cloud"], deployment["region"]) == ("gcp", "europe-west4")
    index.close()
    hosted = make_index(f"pinecone:{NAME}", environment={"PINECONE_API_KEY": KEY, "PINECONE_HOST": endpoint.host(NAME)}.get)
    assert hosted is not None
    opened(hosted)
    hosted.close()


@pytest.mark.parametrize(
    ("spec", "environment", "said"),
    [
        (f"pinecone:{NAME}", {}, "PINECONE_API_KEY"),
        (f"pinecone:{NAME}", {"PINECONE_API_KEY": "  "}, "PINECONE_API_KEY"),
        (f"pinecone:{NAME}", {"PINECONE_API_KEY": "kéy-secret"}, "copy it again"),
        ("pinecone:My Index", {"PINECONE_API_KEY": KEY}, "lower-case letters"),
        ("pinecone:" + "x" * 46, {"PINECONE_API_KEY": KEY}, "up to 45"),
        (f"pinecone:{NAME}", {"PINECONE_API_KEY": KEY, "PINECONE_HOST": "http://me:secret@host"}, "address"),
    ],
    ids=["no key", "blank key", "odd key", "odd name", "long name", "password"],
)
def test_refuses_what_cannot_work(spec: str, environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        make_index(spec, environment=environment.get)
    assert "secret" not in str(caught.value)
    assert KEY not in str(caught.value)
