"""What a session or a shelf once lost, left behind or kept open: each of these went wrong before it was mended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone import Client, Memory
from keepstone.errors import TooLarge, ValidationError
from keepstone.integrations.coerce import joined
from keepstone.integrations.document_store import Shelf
from keepstone.integrations.json_escape import read, spelled, storable
from keepstone.integrations.message_items import _PIECE, Turn, Turns
from tests.server.running import running
from tests.servers import emptied

KEY = "sk-ant-api03-" + "a1B2c3D4" * 10
PROSE = "word and more words. " * 20_000
CARD = "My card is 4111 1111 1111 1111."


@pytest.fixture(params=["file", "server", "postgres"])
def memory(request: pytest.FixtureRequest, path: Path) -> Iterator[Memory | Client]:
    where = emptied(request.getfixturevalue("postgres_url")) if request.param == "postgres" else path
    with Memory.open(where) as opened:
        if request.param != "server":
            yield opened
        else:
            with running(opened) as server, Client(server.url, server.key("mended", user="dana")) as client:
                yield client


@pytest.mark.parametrize("said", [f"token:\n{KEY}", f'password="{KEY}"', f"\t{KEY}"], ids=["line", "quotes", "tab"])
@pytest.mark.parametrize("odd", [{"x": "a\0b"}, {"": 1}, {"x": 2**70}, {"x": "\ud800"}], ids=["nul", "key", "number", "half"])
def test_what_blocks_cannot_hold_hides_no_key(odd: dict[str, Any], said: str) -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        turns = Turns(memory, "s", of="test")
        turns.add([Turn("tool", "", {**odd, "output": said})])
        (kept,) = [turn.value for turn in turns.all()]
        assert KEY not in json.dumps(kept)
        assert "redacted" in kept["output"]
        assert {name: each for name, each in kept.items() if name != "output"} == odd


@pytest.mark.parametrize("before", range(1, len(KEY), 17))
def test_a_key_is_not_cut_in_two_where_a_long_text_is_divided(before: int) -> None:
    text = f"{PROSE[: _PIECE - before - 5]} key {KEY} {PROSE}"
    with Memory.open(":memory:", embedder="none") as memory:
        turns = Turns(memory, "s", of="test")
        turns.add([Turn("tool", "", {"output": text})])
        (kept,) = [turn.value["output"] for turn in turns.all()]
        assert KEY not in kept
        assert kept.replace("[redacted:secret]", KEY) == text


def test_a_long_text_without_a_seam_comes_back(memory: Memory | Client) -> None:
    value = {"image": "A" * 700_000, "mixed": "\0" + "é" * 300_000, "deep": [[[[[[[["\0"]]]]]]]]}
    turns = Turns(memory, "s", of="test")
    turns.add([Turn("tool", "", value)])
    assert [turn.value for turn in turns.all()] == [value]


def test_an_item_that_is_too_large_leaves_nothing_of_those_before_it(memory: Memory | Client) -> None:
    turns = Turns(memory, "s", of="test")
    with pytest.raises(TooLarge):
        turns.add([Turn("tool", "", {"o": "y" * 300_000}), Turn("user", "x", {"x": list(range(60_000))})])
    assert list(memory.conversation("s")) == []


@pytest.mark.parametrize("fine", [1, 120])
def test_an_item_that_is_refused_takes_the_others_of_its_call_with_it(path: Path, fine: int) -> None:
    with Memory.open(path, settings={"sensitive": {"card": "refuse"}}, embedder="none") as memory:
        turns = Turns(memory, "s", of="test")
        turns.add([Turn("user", "from before", {"n": -1})])
        with pytest.raises(ValidationError, match="was refused"):
            turns.add(
                [*(Turn("user", f"number {n}", {"n": n}) for n in range(fine)), Turn("user", CARD, {}), Turn("user", "x", {})]
            )
        with pytest.raises(ValidationError, match="was refused"):
            turns.add([Turn("tool", "", {"o": "z" * 300_000 + f" {CARD} "})])
        assert [turn.text for turn in turns.all()] == ["from before"]
        assert len(list(memory.conversation("s"))) == 1


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_document_that_is_refused_is_an_error(path: Path, size: int) -> None:
    with Memory.open(path, settings={"sensitive": {"card": "refuse"}}) as memory:
        shelf = Shelf(memory, "test")
        with pytest.raises(ValidationError, match="was refused") as caught:
            shelf.put(("a",), {"x": "y" * size}, text=CARD)
        assert "4111" not in str(caught.value)
        assert shelf.get(("a",)) is None
        assert list(memory.list()) == []


BIG = {"x": "y" * 20_000}


@pytest.mark.parametrize("held", [BIG, {"x": 1}], ids=["big", "small"])
def test_what_is_just_being_put_outlives_a_deletion(memory: Memory | Client, held: dict[str, Any]) -> None:
    shelf = Shelf(memory, "test")
    shelf.put(("a",), held)
    fields = shelf._fields(("a",), {"x": "z" * 20_000})  # a put that has come half way
    assert shelf.delete(("a",))
    memory.remember(**fields)
    found = shelf.get(("a",))
    assert found is not None
    assert found.value == {"x": "z" * 20_000}
    assert shelf.delete(("a",))
    assert list(memory.list()) == []


def test_what_was_put_while_a_document_was_deleted_leaves_nothing(
    memory: Memory | Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(memory, "test")
    shelf.put(("a",), BIG)
    seen = Shelf._versions

    def meanwhile(self: Shelf, record: Any) -> Any:
        found = seen(self, record)
        memory.remember(**shelf._fields(("a",), {"x": "z" * 20_000}))
        return found

    monkeypatch.setattr(Shelf, "_versions", meanwhile)
    assert shelf.delete(("a",))
    assert shelf.get(("a",)) is None
    assert list(memory.list()) == []


def test_what_a_put_left_that_died_goes_with_the_document(path: Path) -> None:
    with Memory.open(path) as memory:
        shelf = Shelf(memory, "test")
        shelf.put(("a",), {"x": 1})
        old = datetime.now(UTC) - timedelta(hours=1)
        shelf._pieces(shelf._fields(("a",), 1)["metadata"]).add([Turn("assistant", "", BIG, at=old)])
        assert shelf.delete(("a",))
        assert list(memory.list()) == []


def test_names_that_are_put_together_stay_apart() -> None:
    names = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "b", "c"), ("a%2Fb/c",)]
    assert len({joined(*each) for each in names}) == len(names)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text("\0\x01a0\ud800é", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("\0\x01pairsnumbe", max_size=8), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(ANY, st.integers(5, 9), st.integers(0, 40))
def test_any_json_can_be_spelled_and_read(value: Any, depth: int, levels: int) -> None:
    for _ in range(levels):
        value = {"": [value]}
    trees = spelled(value, depth)
    assert storable(trees, depth + 1)
    assert read(trees) == value
