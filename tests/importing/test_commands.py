"""`keepstone import` for exports of other systems: here, over HTTP, with its report, its exit codes and its progress."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keepstone import Client, Memory
from keepstone.errors import Forbidden
from keepstone.importing import import_from
from tests.cli.support import process, surroundings
from tests.importing import samples as samples
from tests.importing.samples import archive, mem0_memory, written
from tests.importing.test_systems import contents, everything
from tests.server.running import running


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_command_recognises_reports_and_summarises(tmp_path: Path) -> None:
    rows = [
        *samples.MEM0["results"],
        mem0_memory("f4", None),
        mem0_memory("f5", samples.INJECTED),
        mem0_memory("f6", f"token {samples.token()}"),
    ]
    written(tmp_path / "mem0.json", {"results": rows})
    done = process("import", "mem0.json", "--report", "report.jsonl", cwd=tmp_path)
    assert done.returncode == 8
    lines = done.stdout.splitlines()
    assert lines[0] == "imported  6 entries of mem0.json (mem0)"
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["3", "added"],
        ["1", "redacted"],
        ["1", "quarantined"],
        ["1", "refused"],
    ]
    assert lines[5].strip().startswith("mem0.json, entry 4 of the file: the field memory is missing")
    report = told(tmp_path / "report.jsonl")
    assert [each["action"] for each in report] == ["added", "added", "added", "refused", "quarantined", "redacted"]
    assert set(report[0]) == {"file", "where", "theirs", "action", "id", "reason"}
    assert samples.token() not in (tmp_path / "report.jsonl").read_text() + done.stdout


def test_a_good_import_ends_with_nought_and_answers_with_json(tmp_path: Path) -> None:
    archive(tmp_path / "chatgpt.zip", {"conversations.json": samples.chatgpt()})
    dry = process("import", "chatgpt.zip", "--dry-run", "--json", cwd=tmp_path)
    assert (dry.returncode, json.loads(dry.stdout)["counts"]) == (0, {"new": 11})
    assert not (tmp_path / "keepstone.db").exists(), "a dry run makes no store"
    done = process("import", "chatgpt.zip", "--from", "chatgpt", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "format": "chatgpt",
        "entries": 11,
        "counts": {"added": 11},
        "problems": [],
        "dry_run": False,
        "sample": [],
        "skipped": {},
        "refused": 0,
    }
    assert json.loads(process("import", "chatgpt.zip", "--json", cwd=tmp_path).stdout)["counts"] == {"duplicate": 11}


def test_our_own_export_goes_the_old_way(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.remember("Dana prefers dark mode.")
        memory.export(tmp_path / "own.jsonl")
    done = process("import", "own.jsonl", "--json", "--db", "new.db", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"added": 1, "skipped": 0, "errors": []})
    dry = process("import", "own.jsonl", "--json", "--dry-run", "--db", "other.db", cwd=tmp_path)
    assert json.loads(dry.stdout)["counts"] == {"new": 1}
    (tmp_path / "broken.jsonl").write_text("not json\n")
    broken = process("import", "broken.jsonl", "--json", "--db", "new.db", cwd=tmp_path)
    assert broken.returncode == 5
    assert "holds no memories that can be read" in json.loads(broken.stderr)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nothing.json",), 5, "there is no file or folder"),
        (("mem0.json", "--from", "cognee"), 2, "the format 'cognee' is unknown"),
        (("mem0.json", "--users", "some"), 2, "users is 'some'"),
        (("mem0.json", "--report", "mem0.json"), 2, "name another file"),
        (("mem0.json", "--report", "no/such/folder.jsonl"), 5, "cannot write the report"),
        (("both.json",), 2, "several users"),
    ],
)
def test_what_cannot_be_taken(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    written(tmp_path / "mem0.json", samples.MEM0)
    written(tmp_path / "both.json", {"results": [mem0_memory("1", "a", "dana"), mem0_memory("2", "b", "erik")]})
    done = process("import", *arguments, cwd=tmp_path)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_report_overwrites_nothing_that_is_imported(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "soil.md").write_text("Use the 2 mm sieve.")
    for report in ("notes/soil.md", "notes/report.jsonl", "notes/../notes/soil.md"):
        done = process("import", "notes", "--report", report, cwd=tmp_path)
        assert (done.returncode, "name another file" in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "notes" / "soil.md").read_text() == "Use the 2 mm sieve."
    assert process("import", "notes", "--report", "notes.jsonl", cwd=tmp_path).returncode == 0


def test_a_bar_is_drawn_on_a_terminal_once_it_lasts(tmp_path: Path) -> None:
    rows = [mem0_memory(str(at), f"Stone number {at} lies in drawer {at * 31} of room {at % 17}") for at in range(600)]
    written(tmp_path / "many.json", rows)
    program = (
        "import sys, keepstone.cli.output as p; p.DELAY_SECONDS = 0.0; "
        "from keepstone.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program, "import", "many.json"]
    started = subprocess.Popen(command, cwd=tmp_path, env=surroundings(TERM="xterm"), stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        drawn += piece
    os.close(ours)
    assert started.stdout is not None
    said = started.stdout.read().decode()
    assert started.wait(60) == 0
    assert b"importing" in drawn
    assert said.startswith("imported  600 entries of many.json (mem0)")


# -- over HTTP ----------------------------------------------------------------------------------------------------------
def test_over_a_server_as_here(tmp_path: Path) -> None:
    files = {
        "chatgpt.json": samples.chatgpt(),
        "mem0.json": {"results": [*samples.MEM0["results"], mem0_memory("f9", "For long", expiration_date="2090-01-01")]},
        "graph.json": samples.GRAPHITI,
        "zep.json": samples.ZEP,
    }
    with (
        Memory.open(tmp_path / "here.db", user="alice") as here,
        Memory.open(tmp_path / "there.db") as store,
        running(store) as server,
        Client(server.url, server.key("alice")) as there,
    ):
        for name, value in files.items():
            path = written(tmp_path / name, value)
            first, second = (import_from(memory, path) for memory in (here, there))
            assert first.counts == second.counts
            again = import_from(there, path)
            assert set(again.counts) <= {"duplicate", "skipped"}
        seen = [
            {
                (record.content, record.source, record.kind, record.session, record.role, record.occurred_at)
                for record in everything(memory)
            }
            for memory in (here, there)
        ]
        assert seen[0] == seen[1]
        written(tmp_path / "quarantined.json", {"results": [mem0_memory("1", samples.INJECTED)]})
        assert import_from(there, tmp_path / "quarantined.json").counts == {"quarantined": 1}


def test_each_user_over_a_service_key_and_not_over_a_users(tmp_path: Path) -> None:
    rows = {"results": [mem0_memory("1", "Likes tea", "dana"), mem0_memory("2", "Likes coffee", "erik")]}
    path = written(tmp_path / "both.json", rows)
    with Memory.open(tmp_path / "there.db") as store, running(store) as server:
        service = server.key("importer", service=True, rights=("read", "write"))
        done = process(
            "import", "both.json", "--users", "each", "--json", cwd=tmp_path, KEEPSTONE_URL=server.url, KEEPSTONE_KEY=service
        )
        assert (done.returncode, json.loads(done.stdout)["counts"]) == (0, {"added": 2})
        assert contents(store.with_scope(user="erik")) == {"Likes coffee"}
        with Client(server.url, server.key("alice")) as alice, pytest.raises(Forbidden):
            import_from(alice, path, users="each")


def test_messages_that_a_key_brings_count_as_what_it_names_or_less(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "there.db") as store, running(store) as server, Client(server.url, server.key("alice")) as there:
        said = [
            {"role": "user", "content": "I like tea."},
            {"role": "assistant", "content": "Noted."},
            {"role": "tool", "content": "42"},
        ]
        receipts = there.ingest(said, session="s", source="import:chat")
        found = [there.get(receipt.id or "") for receipt in receipts]
        assert [record and (record.source, record.trust) for record in found] == [
            ("import:chat", 0.5),
            ("import:chat", 0.5),
            ("tool", 0.4),
        ]
        agent = server.key("bot", agent="bot", rights=("read", "write"))
        answer = server.http(agent).post("/v1/ingest", json={"session": "s", "messages": said[:1], "source": "user"})
        assert answer.status_code == 403
