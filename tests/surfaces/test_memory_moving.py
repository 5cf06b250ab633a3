"""Export, round trips, backup and the doctor through Memory."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Scope
from keepstone.errors import ConfigurationError, KeepstoneError
from tests.surfaces.support import START, Clock, contents, everything, fill, timed


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


# -- round trips --------------------------------------------------------------------------------------------------
def test_an_export_imported_elsewhere_gives_the_same_export(source: Path, tmp_path: Path) -> None:
    clock = Clock(START + timedelta(days=2))
    with timed(tmp_path / "copy.db", clock) as memory:
        report = memory.import_(source)
        assert (report.added, report.skipped, report.errors) == (9, 0, ())
        memory.export(tmp_path / "again.jsonl")
        assert (tmp_path / "again.jsonl").read_bytes() == source.read_bytes()
        assert memory.upkeep.doctor().healthy
    with timed(tmp_path / "copy.db", clock) as memory, timed(tmp_path / "source.db", clock) as original:
        assert [record.with_(embedded=True) for record in everything(memory)] == everything(original)
        for record in everything(original):
            assert memory.history(record.id) == original.history(record.id)
        asked = "Where does Dana live?"
        assert [(hit.id, hit.score) for hit in memory.recall(asked)] == [(hit.id, hit.score) for hit in original.recall(asked)]
        assert memory.value("limits") == {"a": [1, {"b": None}]}
        assert memory.value("code") == "code 2"
        past = {"as_of": START - timedelta(days=2), "min_similarity": 0}
        assert contents(memory.recall(asked, **past)) == contents(original.recall(asked, **past)) == ["Dana lives in Oslo."]


def test_what_an_export_holds(source: Path) -> None:
    records = lines(source)
    by_content = {record["content"]: record for record in records}
    home = by_content["Dana lives in Oslo."]
    assert [version["content"] for version in home["versions"]] == [
        "Dana lives in Rome.",
        "Dana lives in Oslo.",
        "Dana lives in Oslo.",
    ]
    assert (home["access_count"], home["key"], home["version"]) == (3, "home", 3)
    assert home["last_accessed_at"] == (START + timedelta(days=2)).isoformat()
    assert home["scope"] == {"tenant": "local", "agent": "default", "user": ""}
    assert [record["role"] for record in records if record["kind"] == "message"] == ["user", "assistant"]
    assert by_content["code 1"]["status"] == "archived"
    assert by_content["gone soon"]["expires_at"] is not None
    assert all({"content", "id", "kind", "versions"} <= set(record) for record in records)


def test_what_was_quarantined_stays_so(source: Path, tmp_path: Path) -> None:
    records = [{**record, "status": "quarantined"} if record["tag"] == "odd" else record for record in lines(source)]
    with Memory.open(tmp_path / "copy.db") as memory:
        assert memory.import_(write(tmp_path / "changed.jsonl", records)).added == 9
        assert not memory.list(tag="odd")
        assert not memory.recall("weather quoted", min_similarity=0, tag="odd")
        id = next(record["id"] for record in records if record["tag"] == "odd")
        assert memory.get(id).status == "quarantined"  # type: ignore[union-attr]
        assert "quarantined" in memory.why("weather", id).reasons[0]
        memory.export(tmp_path / "again.jsonl")
        assert lines(tmp_path / "again.jsonl") == records


def test_importing_again_skips_what_is_there(source: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "copy.db") as memory:
        memory.import_(source)
        memory.export(tmp_path / "first.jsonl")
        report = memory.import_(source)
        assert (report.added, report.skipped, report.errors) == (0, 9, ())
        memory.export(tmp_path / "second.jsonl")
        assert (tmp_path / "second.jsonl").read_bytes() == (tmp_path / "first.jsonl").read_bytes()


def test_a_key_or_content_that_is_there_already_is_left_as_it_is(source: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "copy.db") as memory:
        memory.set("limits", "mine")
        memory.remember("Dana really prefers dark mode.")
        report = memory.import_(source)
        assert (report.added, report.skipped) == (8, 1)
        assert memory.value("limits") == "mine"
        assert memory.upkeep.doctor().healthy


def test_another_user_of_the_tenant_gets_the_records_as_their_own(source: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "copy.db", user="mei", agent="helper") as memory:
        assert memory.import_(source).added == 9
        assert {record.scope for record in everything(memory)} == {Scope("local", "helper", "mei")}
        assert not everything(memory.with_scope(user="", agent="default"))


def test_an_import_into_the_same_store_for_another_user_copies(source: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "source.db") as memory:
        other = memory.with_scope(user="mei")
        assert other.import_(source).added == 9
        other.forget(everything=True)
        assert memory.value("code") == "code 2"
        assert memory.upkeep.doctor().healthy


def test_an_import_goes_on_being_written_to(source: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "copy.db") as memory:
        memory.import_(source)
        assert memory.remember("Dana lives in Lima.", key="home").version == 4
        assert memory.remember("Dana really prefers the dark mode").action == "merged"
        id = memory.list(kind="message")[0].id
        assert memory.update(id, "ok!").version == 2
        assert memory.forget(source="web").forgotten == 1
        assert memory.upkeep.doctor().healthy


def test_an_empty_scope_and_an_empty_file(memory: Memory, tmp_path: Path) -> None:
    assert memory.export(tmp_path / "empty.jsonl") == 0
    assert (tmp_path / "empty.jsonl").read_bytes() == b""
    (tmp_path / "blank.jsonl").write_bytes(b"\n  \r\n\n")
    for name in ("empty", "blank"):
        report = memory.import_(tmp_path / f"{name}.jsonl")
        assert (report.added, report.skipped, report.errors) == (0, 0, ())


def test_blank_lines_between_records_are_skipped_and_counted(source: Path, memory: Memory, tmp_path: Path) -> None:
    raw = source.read_text("utf-8").splitlines()
    (tmp_path / "spaced.jsonl").write_text("\n\n".join(raw) + "\n\n", "utf-8")
    assert memory.import_(tmp_path / "spaced.jsonl").added == 9
    (tmp_path / "bad.jsonl").write_text("\n\n" + raw[0] + "\n\n{}\n", "utf-8")
    assert [number for number, _ in memory.import_(tmp_path / "bad.jsonl").errors] == [5]


# -- exports --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spoil", ["no folder", "a folder", "below a file", "nothing", "nul"])
def test_an_export_that_cannot_be_written_leaves_nothing_behind(memory: Memory, tmp_path: Path, spoil: str) -> None:
    memory.remember("x")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    target = {
        "no folder": str(tmp_path / "absent" / "x"), "a folder": str(tmp_path / "folder"),
        "below a file": str(tmp_path / "file" / "x"),
        "nothing": "", "nul": str(tmp_path / "a\0b"),
    }[spoil]  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    for verb in (memory.export, memory.backup):
        with pytest.raises((KeepstoneError, ValueError, OSError)):
            verb(target)
        assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_paths_that_cannot_be_written_give_our_errors(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    memory.export(tmp_path / ("x" * 254))
    assert (tmp_path / ("x" * 254)).is_file()
    for target in (tmp_path / "file" / "x", tmp_path / "a\0b", tmp_path / ("x" * 300)):
        for verb in (memory.export, memory.backup, memory.import_):
            with pytest.raises(KeepstoneError):
                verb(target)


def test_an_export_replaces_an_older_one_and_follows_progress(memory: Memory, tmp_path: Path) -> None:
    memory.remember_many([f"fact {at}" for at in range(100)])
    target = tmp_path / "export.jsonl"
    target.write_text("older")
    seen: list[tuple[int, int]] = []
    assert memory.export(target, progress=lambda done, total: seen.append((done, total))) == 100
    assert len(lines(target)) == 100
    assert seen[-1] == (100, 100)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith(".")) == []


# -- backups ------------------------------------------------------------------------------------------------------
def test_a_backup_made_while_others_write_is_whole(memory: Memory, tmp_path: Path) -> None:
    memory.remember_many([f"before {at}" for at in range(100)])
    done = threading.Event()

    def work() -> None:
        at = 0
        while not done.is_set():
            memory.remember(f"during {at}")
            at += 1

    writer = threading.Thread(target=work)
    writer.start()
    try:
        for at in range(3):
            memory.backup(tmp_path / f"backup{at}.db")
    finally:
        done.set()
        writer.join()
    for at in range(3):
        with Memory.open(tmp_path / f"backup{at}.db") as copy:
            held = contents(everything(copy))
            during = [int(text.split()[1]) for text in held if text.startswith("during")]
            assert during == list(reversed(range(len(during)))), "no gap: a state that was"
            assert len(held) == 100 + len(during)
            assert copy.upkeep.doctor().healthy
            assert copy.recall("before 42", min_similarity=0)[0].content == "before 42"


def test_a_backup_never_replaces_a_file(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(ConfigurationError, match="exists"):
        memory.backup(tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"


def test_the_doctor_is_content_after_everything(path: Path) -> None:
    fill(path)
    with Memory.open(path) as memory:
        for record in everything(memory):
            if record.key is None:
                memory.update(record.id, record.content + " More.")
        memory.forget(session="talk")
        memory.forget(key="home")
        diagnosis = memory.upkeep.doctor()
        assert (diagnosis.healthy, diagnosis.findings) == (True, ())
        assert diagnosis.records == 6
        assert {"engine", "words", "vectors"} <= set(diagnosis.checks)
        memory.forget(everything=True)
        assert memory.upkeep.doctor().records == 0
        assert memory.upkeep.doctor().healthy
