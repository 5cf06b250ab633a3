"""Shelf: documents of any size under paths, on the library and over a server."""

from __future__ import annotations

from pathlib import Path

from keepstone import Client, Memory
from keepstone.integrations.document_store import Shelf

BIG = {"lines": ["a long line of a file " * 50] * 40, "n": 7}


def test_what_is_put_is_there_until_it_is_deleted(either: Memory | Client) -> None:
    shelf = Shelf(either, "box")
    for path, value in {("a", "k"): {"x": 1}, ("a", "big"): BIG, ("a/b",): {"": None}, ("",): [1, "é"]}.items():
        shelf.put(path, value)
        found = shelf.get(path)
        assert found is not None
        assert (found.path, found.value) == (path, value)
    assert set(shelf.paths()) == {("a", "k"), ("a", "big"), ("a/b",), ("",)}
    assert shelf.delete(("a", "big"))
    assert not shelf.delete(("a", "big"))
    assert shelf.get(("a", "big")) is None
    assert not [record for record in either.list(kind="message", limit=100) if "long line" in str(record.blocks)]


def test_every_version_is_kept(either: Memory | Client) -> None:
    shelf = Shelf(either, "box")
    for value in ({"n": 1}, BIG, {"n": 3}):
        shelf.put(("k",), value, text="what it says")
    assert [each.value for each in shelf.history(("k",))] == [{"n": 1}, BIG, {"n": 3}]
    assert [each.version for each in shelf.history(("k",))] == [1, 2, 3]


def test_lists_are_narrowed_by_path_and_by_value(either: Memory | Client) -> None:
    shelf = Shelf(either, "box")
    shelf.put(("users", "dana", "1"), {"age": 30, "home": {"city": "Rome"}}, text="Dana lives in Rome")
    shelf.put(("users", "dana", "2"), {**BIG, "age": 50}, labels={"colour": "red"})
    shelf.put(("users", "bob", "1"), {"age": 40})
    shelf.put(("usersx",), {"age": 60})
    assert [each.path for each in shelf.list()] == [
        ("usersx",),
        ("users", "bob", "1"),
        ("users", "dana", "2"),
        ("users", "dana", "1"),
    ]
    assert [each.path for each in shelf.list(("users",), filter={"value.age": {"gte": 40}})] == [
        ("users", "bob", "1"),
        ("users", "dana", "2"),
    ]
    assert [each.path for each in shelf.list(filter={"value.home.city": "Rome"})] == [("users", "dana", "1")]
    assert [each.path for each in shelf.list(filter={"labels.colour": "red"})] == [("users", "dana", "2")]
    assert [each.path for each in shelf.list(limit=1)] == [("usersx",)]
    assert list(Shelf(either, "another").list()) == []


def test_what_has_a_text_is_found_and_nothing_else(either: Memory | Client) -> None:
    shelf = Shelf(either, "box")
    shelf.put(("a", "1"), {"n": 1}, text="Dana lives in Rome.")
    shelf.put(("b", "1"), {"n": 2}, text="Bob lives in Oslo.")
    shelf.put(("a", "2"), {"n": 3, "text": "Dana lives in Rome, says nobody."})
    assert [document.value for document, _ in shelf.search("Where does Dana live?", ("a",))] == [{"n": 1}]
    assert either.recall("Where does Dana live?")[0].content == "Dana lives in Rome."
    shelf.put(("a", "1"), {"n": 1})
    assert shelf.search("Where does Dana live?", ("a",)) == []


def test_what_has_outlived_its_time_is_gone_and_the_time_can_be_made_longer(either: Memory | Client) -> None:
    shelf = Shelf(either, "box")
    shelf.put(("k",), {"n": 1}, ttl=3600)
    first = shelf.get(("k",))
    shelf.put(("k",), {"n": 1}, ttl=7200)
    longer = shelf.get(("k",))
    assert first is not None
    assert longer is not None
    assert first.expires_at is not None
    assert longer.expires_at is not None
    assert longer.expires_at > first.expires_at
    assert longer.version == 1


def test_two_users_have_two_shelves(path: Path) -> None:
    with Memory.open(path) as memory:
        Shelf(memory.with_scope(user="dana"), "box").put(("k",), {"n": 1}, text="Dana's")
        assert Shelf(memory.with_scope(user="bob"), "box").get(("k",)) is None
        assert list(Shelf(memory.with_scope(user="bob"), "box").list()) == []
