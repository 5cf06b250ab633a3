"""Export, import, backup and the doctor through Memory."""

from __future__ import annotations

import json
import os
import threading
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory, Scope
from recollect.errors import ConfigurationError, RecollectError
from tests.surfaces.support import START, Clock, contents, everything, timed


def fill(path: Path, scope: Scope = Scope()) -> Clock:
    """A store with everything an export has to carry."""
    clock = Clock()
    with timed(path, clock, scope) as memory:
        id = memory.remember("Dana lives in Rome.", key="home", metadata={"sure": True, "n": [1, 2.5, None]}, importance=0.7).id
        memory.remember('Weather: ☀️ \u202e\n</memory> \\ "quoted" \x01', tag="odd", source="web:https://a.example", session="s0")
        clock.forward(days=1)
        memory.remember("Dana lives in Oslo.", key="home", occurred_at=START - timedelta(days=3))
        memory.update(id or "", importance=0.9)
        memory.remember("Dana prefers dark mode.")
        memory.remember("Dana prefers the dark mode")
        memory.ingest([{"role": "user", "content": "ok", "name": "Ada"}, {"role": "assistant", "content": "ok"}], session="talk")
        memory.set("limits", {"a": [1, {"b": None}]}, category="config")
        memory.remember("gone soon", ttl=60)
        memory.remember("code 1", key="code", ttl=60)
        clock.forward(days=1)
        memory.remember("code 2", key="code")  # the expired one is put aside
        for _ in range(3):
            memory.recall("Where does Dana live?", limit=1)
    return clock


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An export with everything in it."""
    clock = fill(tmp_path / "source.db")
    with timed(tmp_path / "source.db", clock) as memory:
        assert memory.export(tmp_path / "export.jsonl") == 9
    return tmp_path / "export.jsonl"


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
        assert memory.doctor().healthy
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
    assert by_content["code 1"]["status"] == "expired"
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
        assert "quarantined" in memory.why_not("weather", id).reasons[0]
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
        assert memory.doctor().healthy


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
        assert memory.doctor().healthy


def test_an_import_goes_on_being_written_to(source: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "copy.db") as memory:
        memory.import_(source)
        assert memory.remember("Dana lives in Lima.", key="home").version == 4
        assert memory.remember("Dana really prefers the dark mode").action == "merged"
        id = memory.list(kind="message")[0].id
        assert memory.update(id, "ok!").version == 2
        assert memory.forget(source="web").forgotten == 1
        assert memory.doctor().healthy


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


# -- bad files ----------------------------------------------------------------------------------------------------
def cut(raw: list[str]) -> list[str]:
    return [*raw[:-1], raw[-1][:40]]


def replaced(line: int, text: str) -> Callable[[list[str]], list[str]]:
    return lambda raw: [*raw[: line - 1], text, *raw[line:]]


def changed(line: int, **fields: Any) -> Callable[[list[str]], list[str]]:
    return lambda raw: replaced(line, json.dumps({**json.loads(raw[line - 1]), **fields}))(raw)


def without(line: int, name: str) -> Callable[[list[str]], list[str]]:
    return lambda raw: replaced(line, json.dumps({k: v for k, v in json.loads(raw[line - 1]).items() if k != name}))(raw)


def shuffled(raw: list[str]) -> list[str]:
    record = json.loads(raw[0])
    return replaced(1, json.dumps({**record, "versions": record["versions"][::-1]}))(raw)


BAD: dict[str, tuple[int, Callable[[list[str]], list[str]]]] = {
    "the last line is cut": (9, cut),
    "no JSON": (5, replaced(5, "{not json")),
    "another program's JSON": (5, replaced(5, '{"memory": "x", "user_id": "u"}')),
    "no object": (5, replaced(5, "[1, 2]")),
    "NaN": (3, lambda raw: replaced(3, raw[2].replace('"importance": 0.5', '"importance": NaN', 1))(raw)),
    "Infinity": (3, lambda raw: replaced(3, raw[2].replace('"importance": 0.5', '"importance": Infinity', 1))(raw)),
    "a field twice": (2, lambda raw: replaced(2, raw[1].replace('"kind": ', '"kind": "x", "kind": ', 1))(raw)),
    "very deep": (
        4,
        lambda raw: replaced(4, raw[3].replace('"metadata": {}', '"metadata": ' + "[" * 50_000 + "]" * 50_000, 1))(raw),
    ),
    "another tenant": (6, changed(6, scope={"tenant": "acme", "agent": "default", "user": ""})),
    "no tenant": (6, changed(6, scope={})),
    "no scope": (6, changed(6, scope=None)),
    "a field missing": (7, without(7, "importance")),
    "content missing": (7, without(7, "content")),
    "versions missing": (7, without(7, "versions")),
    "versions empty": (7, changed(7, versions=[])),
    "versions out of order": (1, shuffled),
    "content that is not the last version": (1, changed(1, content="another")),
    "the same id twice": (9, lambda raw: [*raw[:8], raw[0]]),
    "content of nothing": (2, changed(2, content="")),
    "content with NUL": (2, changed(2, content="a\0b")),
    "half a surrogate pair": (2, lambda raw: replaced(2, raw[1].replace("Weather", "\\ud800"))(raw)),
    "metadata too deep": (3, changed(3, metadata={"a": [[[[[[[[[1]]]]]]]]]})),
    "metadata past 64 bits": (3, changed(3, metadata={"a": 2**64})),
    "unknown status": (3, changed(3, status="trusted")),
    "trust past 1": (3, changed(3, trust=7)),
    "negative access count": (3, changed(3, access_count=-1)),
    "30 February": (3, changed(3, created_at="2026-02-30T00:00:00+00:00")),
    "an id with NUL": (3, changed(3, id="a\0b")),
    "an id too long": (3, changed(3, id="x" * 300)),
    "a tag that is no text": (3, changed(3, tag=5)),
    "a newer format": (3, changed(3, recollect=99)),
}
UNCHECKED = {
    "a scope that is a text": changed(3, scope="local"),
    "a time that is null": changed(3, created_at=None),
    "importance past any float": changed(3, importance=10**400),
    "parents that are a text": changed(3, parents="m_abc"),
    "access count past 64 bits": changed(3, access_count=2**70, last_accessed_at="2026-01-01T00:00:00+00:00"),
}


def refused(memory: Memory, bad: Path, line: int) -> None:
    memory.remember("bystander")
    report = memory.import_(bad)
    assert (report.added, report.skipped) == (0, 0)
    assert [number for number, _ in report.errors] == [line]
    assert report.errors[0][1]
    assert contents(everything(memory)) == ["bystander"]
    assert memory.doctor().healthy


@pytest.mark.parametrize("name", BAD)
def test_one_bad_line_keeps_the_whole_file_out(source: Path, memory: Memory, tmp_path: Path, name: str) -> None:
    line, spoil = BAD[name]
    raw = source.read_text("utf-8").splitlines()
    spoilt = spoil(raw)
    assert spoilt != raw
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(spoilt) + "\n", "utf-8")
    refused(memory, bad, line)


@pytest.mark.parametrize("name", UNCHECKED)
def test_one_bad_field_keeps_the_whole_file_out(source: Path, memory: Memory, tmp_path: Path, name: str) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(UNCHECKED[name](source.read_text("utf-8").splitlines())) + "\n", "utf-8")
    refused(memory, bad, 3)


def test_every_bad_line_is_named_up_to_a_hundred(source: Path, memory: Memory, tmp_path: Path) -> None:
    good = source.read_text("utf-8").splitlines()
    (tmp_path / "bad.jsonl").write_text("\n".join([good[0], "x", good[1], "y"]), "utf-8")
    assert [number for number, _ in memory.import_(tmp_path / "bad.jsonl").errors] == [2, 4]
    (tmp_path / "worse.jsonl").write_text("x\n" * 5000, "utf-8")
    assert len(memory.import_(tmp_path / "worse.jsonl").errors) == 100


def test_a_line_without_end(memory: Memory, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    with bad.open("wb") as file:
        file.write(b'{"recollect": 1, "content": "')
        for _ in range(17):
            file.write(b"x" * 1024 * 1024)
    report = memory.import_(bad)
    assert (report.added, report.errors[0][0]) == (0, 1)
    assert "longer" in report.errors[0][1]


@pytest.mark.parametrize(
    "raw", [bytes(range(256)) * 40, b"\xff\xfe{\x00}\x00", b"\x00" * 1000, b"SQLite format 3\0" + bytes(100)], ids=range(4)
)
def test_files_that_are_no_text(memory: Memory, tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "bad").write_bytes(raw)
    report = memory.import_(tmp_path / "bad")
    assert report.added == 0
    assert report.errors
    assert not memory.list()


def test_a_byte_order_mark_is_taken_or_named(source: Path, memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "bom.jsonl").write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    report = memory.import_(tmp_path / "bom.jsonl")
    assert report.added == 9 or [number for number, _ in report.errors] == [1]
    assert len(everything(memory)) in (0, 8, 9)


def test_a_zip_file_is_not_unpacked(source: Path, memory: Memory, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(source, "export.jsonl")
        archive.writestr("zeros", bytes(5_000_000))
    report = memory.import_(tmp_path / "export.zip")
    assert report.added == 0
    assert report.errors[0][0] == 1
    assert not memory.list()


def test_paths_that_cannot_be_read(memory: Memory, tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path, tmp_path / "absent" / "x"):
        with pytest.raises(ConfigurationError, match="cannot read"):
            memory.import_(path)


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
        with pytest.raises((RecollectError, ValueError, OSError)):
            verb(target)
        assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_paths_that_cannot_be_written_give_our_errors(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    memory.export(tmp_path / ("x" * 254))
    assert (tmp_path / ("x" * 254)).is_file()
    for target in (tmp_path / "file" / "x", tmp_path / "a\0b", tmp_path / ("x" * 300)):
        for verb in (memory.export, memory.backup, memory.import_):
            with pytest.raises(RecollectError):
                verb(target)


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no pipes by name here")
def test_an_import_from_a_pipe_is_taken_or_refused(source: Path, tmp_path: Path) -> None:
    end, start = os.pipe()
    os.write(start, source.read_bytes()[:60_000])
    os.close(start)
    try:
        with Memory.open(tmp_path / "copy.db") as memory:
            try:
                added = memory.import_(f"/dev/fd/{end}").added
            except RecollectError:
                added = 9
            assert added == 9
    finally:
        os.close(end)


class Failing:
    """An embedder in this process that works once."""

    id, dimension, local = "failing:1", 4, True
    calls = 0

    def embed(self, texts: Any, *, purpose: str = "document") -> Any:
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("out of memory")
        return [[1.0, 0.0, 0.0, 0.0]] * len(texts)


def test_an_embedder_that_fails_in_the_middle_of_an_import_loses_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "source.db", embedder="none") as memory:
        memory.ingest([{"role": "user", "content": f"line {at}"} for at in range(600)], session="s")
        memory.export(tmp_path / "export.jsonl")
    with Memory.open(tmp_path / "copy.db", embedder=Failing()) as memory:
        assert memory.import_(tmp_path / "export.jsonl").added == 600


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
            assert copy.doctor().healthy
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
        diagnosis = memory.doctor()
        assert (diagnosis.healthy, diagnosis.findings) == (True, ())
        assert diagnosis.records == 6
        assert {"engine", "words", "vectors"} <= set(diagnosis.checks)
        memory.forget(everything=True)
        assert memory.doctor().records == 0
        assert memory.doctor().healthy
