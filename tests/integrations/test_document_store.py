"""DocumentStore: documents of any size under paths, in the library and over a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Client, Memory
from keepstone.errors import ValidationError
from keepstone.integrations.document_store import DocumentStore
from keepstone.integrations.message_items import SessionItem

CARD = "My card is 4111 1111 1111 1111."
LARGE = {"x": "y" * 20_000}
BIG = {"lines": ["a long line of a file " * 50] * 40, "n": 7}


def test_what_is_put_is_there_until_it_is_deleted(either: Memory | Client) -> None:
    documents = DocumentStore(either, "box")
    for path, value in {("a", "k"): {"x": 1}, ("a", "big"): BIG, ("a/b",): {"": None}, ("",): [1, "é"]}.items():
        documents.put(path, value)
        found = documents.get(path)
        assert found is not None
        assert (found.path, found.value) == (path, value)
    assert set(documents.paths()) == {("a", "k"), ("a", "big"), ("a/b",), ("",)}
    assert documents.delete(("a", "big"))
    assert not documents.delete(("a", "big"))
    assert documents.get(("a", "big")) is None
    assert not [record for record in either.list(kind="message", limit=100) if "long line" in str(record.blocks)]


def test_every_version_is_kept(either: Memory | Client) -> None:
    documents = DocumentStore(either, "box")
    for value in ({"n": 1}, BIG, {"n": 3}):
        documents.put(("k",), value, text="what it says")
    found = documents.get(("k",))
    assert found is not None
    versions = either.history(found.id)
    assert [each.metadata.get("value") for each in versions] == [{"n": 1}, None, {"n": 3}]
    kept = either.get(versions[1].metadata["kept"])
    assert kept is not None


def test_lists_are_narrowed_by_path_and_by_value(either: Memory | Client) -> None:
    documents = DocumentStore(either, "box")
    documents.put(("users", "dana", "1"), {"age": 30, "home": {"city": "Rome"}}, text="Dana lives in Rome")
    documents.put(("users", "dana", "2"), {**BIG, "age": 50}, labels={"colour": "red"})
    documents.put(("users", "bob", "1"), {"age": 40})
    documents.put(("usersx",), {"age": 60})
    assert [each.path for each in documents.list()] == [
        ("usersx",),
        ("users", "bob", "1"),
        ("users", "dana", "2"),
        ("users", "dana", "1"),
    ]
    assert [each.path for each in documents.list(("users",), filter={"value.age": {"gte": 40}})] == [
        ("users", "bob", "1"),
        ("users", "dana", "2"),
    ]
    assert [each.path for each in documents.list(filter={"value.home.city": "Rome"})] == [("users", "dana", "1")]
    assert [each.path for each in documents.list(filter={"labels.colour": "red"})] == [("users", "dana", "2")]
    assert [each.path for each in documents.list(limit=1)] == [("usersx",)]
    assert list(DocumentStore(either, "another").list()) == []


def test_what_has_a_text_is_found_and_nothing_else(either: Memory | Client) -> None:
    documents = DocumentStore(either, "box")
    documents.put(("a", "1"), {"n": 1}, text="Dana lives in Rome.")
    documents.put(("b", "1"), {"n": 2}, text="Bob lives in Oslo.")
    documents.put(("a", "2"), {"n": 3, "text": "Dana lives in Rome, says nobody."})
    assert [document.value for document, _ in documents.search("Where does Dana live?", ("a",))] == [{"n": 1}]
    assert either.recall("Where does Dana live?")[0].content == "Dana lives in Rome."
    documents.put(("a", "1"), {"n": 1})
    assert documents.search("Where does Dana live?", ("a",)) == []


def test_what_has_outlived_its_time_is_gone_and_the_time_can_be_made_longer(either: Memory | Client) -> None:
    documents = DocumentStore(either, "box")
    documents.put(("k",), {"n": 1}, ttl=3600)
    first = documents.get(("k",))
    documents.put(("k",), {"n": 1}, ttl=7200)
    longer = documents.get(("k",))
    assert first is not None
    assert longer is not None
    assert first.expires_at is not None
    assert longer.expires_at is not None
    assert longer.expires_at > first.expires_at
    assert longer.version == 1


def test_two_users_have_two_shelves(path: Path) -> None:
    with Memory.open(path) as memory:
        DocumentStore(memory.with_scope(user="dana"), "box").put(("k",), {"n": 1}, text="Dana's")
        assert DocumentStore(memory.with_scope(user="bob"), "box").get(("k",)) is None
        assert list(DocumentStore(memory.with_scope(user="bob"), "box").list()) == []


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_refused_document_raises(path: Path, size: int) -> None:
    with Memory.open(path, settings={"sensitive": {"card": "refuse"}}) as memory:
        documents = DocumentStore(memory, "test")
        with pytest.raises(ValidationError, match="was refused") as caught:
            documents.put(("a",), {"x": "y" * size}, text=CARD)
        assert "4111" not in str(caught.value)
        assert documents.get(("a",)) is None
        assert list(memory.list()) == []


@pytest.mark.parametrize("held", [LARGE, {"x": 1}], ids=["big", "small"])
def test_a_put_in_progress_survives_a_deletion(everywhere: Memory | Client, held: dict[str, Any]) -> None:
    documents = DocumentStore(everywhere, "test")
    documents.put(("a",), held)
    fields = documents._fields(("a",), {"x": "z" * 20_000})  # a put that has come half way
    assert documents.delete(("a",))
    everywhere.remember(**fields)
    found = documents.get(("a",))
    assert found is not None
    assert found.value == {"x": "z" * 20_000}
    assert documents.delete(("a",))
    assert list(everywhere.list()) == []


def test_a_put_during_a_deletion_leaves_no_value_behind(everywhere: Memory | Client, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = DocumentStore(everywhere, "test")
    documents.put(("a",), LARGE)
    seen = DocumentStore._versions

    def meanwhile(self: DocumentStore, record: Any) -> Any:
        found = seen(self, record)
        everywhere.remember(**documents._fields(("a",), {"x": "z" * 20_000}))
        return found

    monkeypatch.setattr(DocumentStore, "_versions", meanwhile)
    assert documents.delete(("a",))
    assert documents.get(("a",)) is None
    assert list(everywhere.list()) == []


def test_a_deletion_erases_the_value_of_a_put_that_died(path: Path) -> None:
    with Memory.open(path) as memory:
        documents = DocumentStore(memory, "test")
        documents.put(("a",), {"x": 1})
        old = datetime.now(UTC) - timedelta(hours=1)
        documents._pieces(documents._fields(("a",), 1)["metadata"]).add([SessionItem("assistant", "", LARGE, at=old)])
        assert documents.delete(("a",))
        assert list(memory.list()) == []
