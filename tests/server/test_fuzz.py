"""Every operation of the OpenAPI document, asked with what fits its schema and with what does not, over a real socket: no answer
is a failure of the server, and each is one that the document tells of, in the shape it tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.torture.fuzz import EVERY, fuzz, usable
from keepstone import Memory
from tests.server.running import Running, running


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with (
        Memory.open(tmp_path_factory.mktemp("fuzz") / "memory.db", settings={"durable": False}) as memory,
        running(memory) as made,
    ):
        yield made


def test_no_request_is_too_much_for_the_server(fuzzed: Running) -> None:
    asked = fuzz(fuzzed, fuzzed.key("alice", rights=EVERY), 20)
    seen = asked.statuses
    assert asked.problems == []
    assert not [status for status in seen if status >= 500]
    assert seen.total() >= 2000, seen
    assert min(seen[200], seen[422]) > 100, "both that which is taken and that which is not"
    assert usable(fuzzed)


def test_nor_with_a_key_that_may_only_read(fuzzed: Running) -> None:
    reader = fuzzed.memory.with_scope(user="rita")
    before = reader.remember("Rita has a kite.").id
    asked = fuzz(fuzzed, fuzzed.key("rita", rights=("read",)), 3)
    seen = asked.statuses
    assert asked.problems == []
    assert not [status for status in seen if status >= 500]
    assert seen.total() >= 300, seen
    assert seen[403] > 50
    assert [record.id for record in reader.list(limit=100)] == [before], "nothing came and nothing went"
    assert usable(fuzzed)
