"""Stores of every released schema open, keep all they hold, and survive a migration that is killed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import apsw
import pytest

from bench.torture import Options, upgrade
from bench.torture.released_stores import FOLDER, contents, extract_store, version_of
from keepstone import Memory, Scope
from keepstone.errors import StoreError
from keepstone.recall import question
from keepstone.stores import sqlite
from keepstone.stores.common import store as store_module
from keepstone.stores.sqlite import files, migrate
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.text import words
from keepstone.types import Diagnosis
from tests.migrations.freeze import DANA, ERIK, Letters

FROZEN = sorted(path.name.removesuffix(".db.xz") for path in FOLDER.glob("schema_*.db.xz"))


def schema(db: apsw.Connection) -> list[str]:
    rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    return [" ".join(row[0].split()) for row in rows]


def test_the_schema_file_is_the_sum_of_the_migrations() -> None:
    migrated, read = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    migrate.migrate(migrated, ":memory:")
    read.execute((Path(sqlite.__file__).parent / "schema.sql").read_text(encoding="utf-8"))
    assert schema(read) == schema(migrated) != []
    assert migrated.pragma("user_version") == migrate.newest()
    assert migrated.pragma("application_id") == files.APPLICATION_ID


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    assert [number for number, _ in migrate.migrations()] == list(range(1, migrate.newest() + 1))


def test_a_second_migration_changes_nothing(path: Path) -> None:
    SqliteStore.open(str(path)).close()
    before = path.read_bytes()
    SqliteStore.open(str(path)).close()
    assert path.read_bytes() == before


def test_every_schema_is_frozen() -> None:
    assert [f"schema_{number:04}" for number in range(1, migrate.newest() + 1)] == FROZEN, (
        "run: python -m tests.migrations.freeze"
    )


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_store_has_the_schema_of_its_migrations(name: str, path: Path) -> None:
    extract_store(name, path)
    fresh, frozen = apsw.Connection(":memory:"), apsw.Connection(str(path))
    for number, script in migrate.migrations():
        if number <= int(name.removeprefix("schema_")):
            fresh.execute(script)
    try:
        assert schema(frozen) == schema(fresh), (
            "a released migration was changed; before a release: python -m tests.migrations.freeze"
        )
    finally:
        frozen.close()


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_store_opens_with_all_it_held(name: str, path: Path) -> None:
    expected = extract_store(name, path)
    assert len({row["id"] for row in expected}) >= 25
    with Memory.open(path, embedder=Letters(), user="dana") as memory:
        diagnosis: Diagnosis = memory.upkeep.doctor()
        assert diagnosis.findings == ()
        assert diagnosis.healthy
        assert diagnosis.records == len({row["id"] for row in expected})
        for row in expected:
            if row["user"] == "dana":
                version = next(each for each in memory.history(row["id"]) if each.version == row["version"])
                assert version.content == row["content"]
                assert version.metadata == json.loads(row["metadata"])
    assert contents(path) == expected
    assert version_of(path) == migrate.newest()


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_store_is_in_use_again(name: str, path: Path) -> None:
    extract_store(name, path)
    with Memory.open(path, embedder=Letters(), user=DANA.user) as memory:
        assert memory.value("ui_theme") == "auto"
        assert memory.value("limits") == {"daily": 5, "text": "naïve 東京 😀"}
        theme = next(record for record in memory.list(tag="settings") if record.key == "ui_theme")
        assert [version.content for version in memory.history(theme.id)] == ["light", "dark", "auto"]
        assert memory.recall("Maria plays the violin", min_similarity=0)[0].content.startswith("Maria plays the violin")
        assert (
            memory.remember("Tomas lives in Rome", metadata={"number": 10, "nested": {"list": [10, None, True, 0.5]}}).action
            == "duplicate"
        )
        assert memory.set("ui_theme", "light", tag="settings").action == "superseded"
        assert not any(record.content == "Gone in an hour" for record in memory.list(limit=100))
        assert memory.upkeep.reembed().embedded == 2
        assert memory.forget(source="web").forgotten == 1
        assert memory.upkeep.doctor().healthy
    with Memory.open(path, embedder="none", tenant=ERIK.tenant, agent=ERIK.agent, user=ERIK.user) as memory:
        assert {record.content for record in memory.list()} == {"Erik's own secret", "dark"}


def test_a_newer_store_is_refused_and_left_as_it_was(path: Path) -> None:
    extract_store(FROZEN[-1], path)
    db = apsw.Connection(str(path))
    newest = migrate.newest()
    db.pragma("user_version", newest + 7)
    db.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(
            StoreError, match=rf"was written by a newer keepstone \(schema {newest + 7}, this version knows {newest}\): upgrade"
        ):
            Memory.open(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir() if each.stat().st_size] == [path.name]


def test_a_migration_that_fails_leaves_the_store_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = extract_store(FROZEN[-1], path)
    released, newest = migrate.migrations(), migrate.newest()
    broken = "ALTER TABLE record ADD COLUMN extra TEXT; DELETE FROM record; SELECT nothing FROM nowhere;"
    monkeypatch.setattr(migrate, "migrations", lambda: (*released, (newest + 1, broken)))
    with pytest.raises(StoreError):
        SqliteStore.open(str(path))
    monkeypatch.setattr(migrate, "migrations", lambda: released)
    assert version_of(path) == newest
    assert contents(path) == expected
    store = SqliteStore.open(str(path))
    assert store.count(Scope(user="dana")) > 20
    store.close()


def test_migrations_run_in_order_and_each_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract_store(FROZEN[-1], path)
    released = migrate.migrations()
    numbers = range(migrate.newest() + 1, migrate.newest() + 4)
    more = tuple((n, f"CREATE TABLE step{n} (x); INSERT INTO step{n} SELECT count(*) FROM sqlite_schema;") for n in numbers)
    monkeypatch.setattr(migrate, "migrations", lambda: (*released, *more[:2]))
    SqliteStore.open(str(path)).close()
    monkeypatch.setattr(migrate, "migrations", lambda: (*released, *more))
    for _ in range(2):
        SqliteStore.open(str(path)).close()
    db = apsw.Connection(str(path))
    counts = [db.execute(f"SELECT x FROM step{n}").fetchall() for n in numbers]
    db.close()
    assert [len(rows) for rows in counts] == [1, 1, 1]
    assert counts[0] < counts[1] < counts[2]


def test_a_migration_may_hold_a_statement_that_returns_rows() -> None:
    db = apsw.Connection(":memory:")
    migrate._apply(db, 2, "CREATE TABLE a (x); INSERT INTO a VALUES (1) RETURNING x; CREATE TABLE b (x);")
    assert [row[0] for row in db.execute("SELECT name FROM sqlite_schema")] == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
def test_killed_and_simultaneous_migrations_lose_nothing(tmp_path: Path) -> None:
    """From every released schema: in the middle of statements, at any instant, and by four processes at once."""
    verdict = upgrade.run(Options(kills=30, seed=7, folder=tmp_path))
    assert verdict.problems == []
    assert verdict.whole
    assert verdict.tries == 30 + upgrade.AT_ONCE * len(FROZEN)
    assert verdict.figures["kills"] >= 20, "those in the middle of statements all died"
    assert verdict.figures["schemas"] == FROZEN


# -- another way to split words --------------------------------------------------------------------------------------
def spelt_backwards(text: str) -> list[str]:
    return [word[::-1] for word in re.findall(r"[^\W_]+", text.lower())]


def test_a_new_analyser_writes_the_words_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = extract_store(FROZEN[0], path)
    Memory.open(path, embedder=Letters(), user="dana").close()  # now it has the words of today's analyser
    monkeypatch.setattr(words, "_split", spelt_backwards)
    monkeypatch.setattr(
        question, "asked_words", lambda text: [words.AskedWord(word, word, (), "") for word in spelt_backwards(text)]
    )
    with Memory.open(path, embedder=Letters(), user="dana") as memory:
        assert not memory.upkeep.doctor().healthy  # the doctor sees words of another analyser
    monkeypatch.setattr(store_module, "ANALYSER", "backwards")
    for _ in range(2):
        with Memory.open(path, embedder=Letters(), user="dana") as memory:
            assert memory.upkeep.doctor().findings == ()
            assert memory.recall("Maria plays the violin", min_similarity=0)[0].signals["coverage"] == 1
            theme = next(record for record in memory.list(tag="settings") if record.key == "ui_theme")
            then = memory.history(theme.id)[0].known_from
            past = {
                hit.content: hit.signals["coverage"] for hit in memory.recall("light", known_at=then, limit=100, min_similarity=0)
            }
            assert past["light"] == 1
    assert contents(path) == expected
    db = apsw.Connection(str(path))
    done = db.execute("SELECT count(*) FROM audit WHERE verb = 'reindex'").fetchall()
    db.close()
    assert done == [(2,)], "the words were written anew although nothing changed"


def test_writes_go_on_after_the_words_were_written_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract_store(FROZEN[-1], path)
    monkeypatch.setattr(words, "_split", spelt_backwards)
    monkeypatch.setattr(
        question, "asked_words", lambda text: [words.AskedWord(word, word, (), "") for word in spelt_backwards(text)]
    )
    monkeypatch.setattr(store_module, "ANALYSER", "backwards")
    with Memory.open(path, embedder=Letters(), user="dana") as memory:
        record = memory.recall("Maria plays the violin", min_similarity=0)[0].record
        memory.update(record.id, "Maria sold her violin")
        memory.forget(key="ui_theme")
        memory.remember("Maria has a new cello")
        assert memory.recall("cello", min_similarity=0)[0].content == "Maria has a new cello"
        assert memory.upkeep.doctor().findings == ()


def test_a_kill_while_the_words_are_written_anew_leaves_the_old_ones(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = extract_store(FROZEN[-1], path)
    count = 0

    def failing(text: str) -> list[str]:
        nonlocal count
        count += 1
        if count == 10:
            raise KeyboardInterrupt
        return spelt_backwards(text)

    with monkeypatch.context() as patch:
        patch.setattr(words, "_split", failing)
        patch.setattr(store_module, "ANALYSER", "backwards")
        with pytest.raises(KeyboardInterrupt):
            SqliteStore.open(str(path))
    with Memory.open(path, embedder=Letters()) as memory:
        assert memory.upkeep.doctor().findings == ()
    assert contents(path) == expected
