"""A backup of a PostgresStore is a file that opens anywhere: whole, consistent, and made while others write."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError, StoreClosed
from keepstone.ports.stores import Store
from keepstone.testing.builders import DIMENSION, EMBEDDER, add, vector
from tests.contracts.moving_support import DANA, OTHER, WIDE, database, furnish, goes_on, healthy, opened, recalled, seen
from tests.server_processes import PostgresServer


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return database(postgres_server)


def filled(url: str, many: int) -> Store:
    store = opened(url)
    store.bind_embedder(EMBEDDER, DIMENSION)
    for scope in (DANA, OTHER):
        for n in range(many):
            add(store, f"fact {n}", scope)
    return store


def test_a_backup_is_the_store_as_a_file(url: str, tmp_path: Path) -> None:
    rich = furnish(url)
    calls: list[tuple[int, int]] = []
    with Memory.open(url, embedder="none") as memory:
        memory.backup(tmp_path / "copy.db", progress=lambda done, total: calls.append((done, total)))
    assert [path.name for path in tmp_path.iterdir()] == ["copy.db"]
    assert calls[-1][0] == calls[-1][1]
    assert seen(tmp_path / "copy.db", tmp_path) == seen(url, tmp_path)
    assert recalled(tmp_path / "copy.db") == recalled(url)
    goes_on(tmp_path / "copy.db", rich)


def test_a_backup_while_others_write_is_whole(url: str, tmp_path: Path) -> None:
    store = filled(url, 150)
    stop, written = threading.Event(), threading.Event()

    def write(number: int) -> None:
        scope, n = (DANA, OTHER)[number % 2], 0
        while not stop.is_set():
            add(store, f"writer {number} wrote {n}", scope, key=f"key {number} {n % 5}")
            n += 1
            written.set()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        assert written.wait(30)
        before = store.audit(DANA, limit=1)[0].number
        for name in ("one.db", "two.db"):
            store.backup(str(tmp_path / name))
        after = store.audit(DANA, limit=1)[0].number
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert after > before, "no writer was active meanwhile"
    for name in ("one.db", "two.db"):
        healthy(tmp_path / name)
        copy = opened(tmp_path / name)
        for scope in (DANA, OTHER):
            trail = copy.audit(scope, limit=10**6)
            theirs = {row.number: row for row in store.audit(scope, limit=10**6)}
            assert len(trail) >= 150
            assert all(theirs[row.number] == row for row in trail)
        assert add(copy, "written to the copy", DANA, vector=None).action == "added"
        copy.close()
    store.close()


def test_an_embedder_that_is_changed_meanwhile_does_not_mix_vectors(url: str, tmp_path: Path) -> None:
    store = filled(url, 5)
    changed: list[int] = []

    def change(done: int, total: int) -> None:
        if not changed:
            changed.append(store.change_embedder(*WIDE))
            waiting = store.pending(99)
            store.attach([(each, vector(each.content, WIDE[1])) for each in waiting])

    store.backup(str(tmp_path / "copy.db"), change)
    assert changed == [10]
    assert seen(tmp_path / "copy.db", tmp_path) == seen(url, tmp_path)
    healthy(tmp_path / "copy.db")
    store.close()


def test_what_is_in_the_way_is_left_alone(url: str, tmp_path: Path) -> None:
    store = filled(url, 2)
    (tmp_path / "taken.db").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"taken\.db exists already"):
        store.backup(str(tmp_path / "taken.db"))
    with pytest.raises(ConfigurationError, match=r"the folder .* does not exist"):
        store.backup(str(tmp_path / "nowhere" / "copy.db"))

    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.backup(str(tmp_path / "copy.db"), interrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.db"]
    assert (tmp_path / "taken.db").read_text() == "mine"
    store.close()
    with pytest.raises(StoreClosed):
        store.backup(str(tmp_path / "copy.db"))
    assert not (tmp_path / "copy.db").exists()
