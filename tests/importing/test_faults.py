"""Imports that are repeated, killed, limited, or fed with bad entries and with something dangerous."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepstone import Memory
from keepstone.importing import Outcome, import_from, writer
from keepstone.importing.entries import split_text
from tests.cli.support import surroundings
from tests.importing import samples as samples
from tests.importing.samples import chatgpt_conversation, chatgpt_message, mem0_memory, written
from tests.importing.test_systems import contents, everything


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", user="dana") as memory:
        yield memory


EVERY: dict[str, Any] = {
    "mem0": samples.MEM0,
    "letta": samples.LETTA,
    "langmem": samples.LANGMEM,
    "zep": samples.ZEP,
    "graphiti": samples.GRAPHITI,
    "chatgpt": samples.chatgpt(),
    "claude": samples.claude()["conversations.json"],
    "projects": samples.claude()["projects.json"],
    "memories": samples.claude()["memories.json"],
}


# -- again --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EVERY)
def test_importing_again_changes_nothing(memory: Memory, tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "one.json", EVERY[name])
    first = import_from(memory, path)
    before = {record.id: (record.content, record.version) for record in everything(memory)}
    audited = len(memory.audit(limit=1000))
    again = import_from(memory, path.rename(tmp_path / "under another name.json"))
    assert first.counts["added"] == len(before) == again.counts["duplicate"]
    assert {record.id: (record.content, record.version) for record in everything(memory)} == before
    changes = [row for row in memory.audit(limit=1000)[: -audited or None] if row.action != "duplicate"]
    assert changes == [], "nothing but repetitions is in the trail"


def test_what_has_changed_there_is_updated(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, written(tmp_path / "old.json", samples.MEM0))
    newer = json.loads(json.dumps(samples.MEM0))
    newer["results"][1] |= {"memory": "Lives in Lisbon", "updated_at": "2024-09-01T00:00:00Z"}
    newer["results"].append(mem0_memory("f4", "Has a cat"))
    assert import_from(memory, written(tmp_path / "new.json", newer)).counts == {"duplicate": 2, "updated": 1, "added": 1}
    assert "Lives in Lisbon" in contents(memory)
    assert "Lives in Porto" not in contents(memory)
    assert memory.recall("Lives where?", as_of="2024-07-01")[0].content == "Lives in Porto"


def test_what_was_changed_here_stays(memory: Memory, tmp_path: Path) -> None:
    path = written(tmp_path / "old.json", samples.MEM0)
    told: list[Outcome] = []
    import_from(memory, path, each=told.append)
    memory.update(told[1].id or "", "Lives in Braga")
    assert import_from(memory, path).counts == {"duplicate": 3}
    assert "Lives in Braga" in contents(memory)


def test_near_duplicates_of_an_export_are_merged(memory: Memory, tmp_path: Path) -> None:
    rows = [
        mem0_memory("1", "Dana prefers dark mode."),
        mem0_memory("2", "Dana prefers dark mode"),
        mem0_memory("3", "Dana prefers dark mode."),
    ]
    path = written(tmp_path / "twice.json", {"results": rows})
    counts = import_from(memory, path).counts
    assert counts == {"added": 1, "merged": 2}
    assert len(everything(memory)) == 1
    assert import_from(memory, path).counts == {"duplicate": 3}


def test_an_entry_that_stands_twice(memory: Memory, tmp_path: Path) -> None:
    rows = [mem0_memory("1", "Likes tea"), mem0_memory("1", "Likes tea"), mem0_memory("1", "Likes coffee")]
    told: list[Outcome] = []
    import_from(memory, written(tmp_path / "twice.json", {"results": rows}), each=told.append)
    assert [each.action for each in told] == ["added", "skipped", "skipped"]
    assert contents(memory) == {"Likes tea"}


# -- dry run ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EVERY)
def test_a_dry_run_writes_nothing(memory: Memory, tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "one.json", EVERY[name])
    dry = import_from(memory, path, dry_run=True)
    assert dry.dry_run
    assert everything(memory) == []
    assert memory.audit() == []
    wet = import_from(memory, path)
    assert dry.counts.get("new") == wet.counts["added"]
    assert dry.counts.get("skipped") == wet.counts.get("skipped")
    assert "new" not in import_from(memory, path, dry_run=True).counts


# -- bad entries --------------------------------------------------------------------------------------------------------
def test_bad_lines_are_told_and_the_others_imported(memory: Memory, tmp_path: Path) -> None:
    lines = [
        json.dumps(mem0_memory(str(number), f"Stone number {number} is in drawer {number}")).encode() for number in range(300)
    ]
    lines[7] = b'{"id": "7", "memory": '
    lines[50] = b'{"id": "50", "memory": "caf\xe9"}'
    lines[120] = json.dumps(mem0_memory("120", None)).encode()
    lines[121] = b"[1, 2]"
    lines[299] = json.dumps(mem0_memory("299", "x", created_at="yesterday")).encode()
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join(lines))
    summary = import_from(memory, path)
    assert summary.counts["refused"] == 5
    assert summary.counts["added"] + summary.counts.get("merged", 0) == 295
    assert [each.where for each in summary.problems] == ["line 8", "line 51", "line 121", "line 122", "line 300"]
    assert "not UTF-8" in summary.problems[1].reason
    assert not any("caf" in each.reason for each in summary.problems)


def test_one_bad_message_does_not_cost_the_conversation(memory: Memory, tmp_path: Path) -> None:
    talk = samples.chatgpt()
    talk[1]["mapping"]["t-1"]["message"]["create_time"] = "soon"
    summary = import_from(memory, written(tmp_path / "chat.json", [talk[1], {"title": "no mapping"}, talk[0]]))
    assert summary.counts == {"refused": 2, "added": 10}
    assert [each.content for each in memory.conversation("chatgpt:c-2")] == ["About one minute."]


def test_a_file_that_is_cut_off_gives_what_came_before(memory: Memory, tmp_path: Path) -> None:
    talks = [
        chatgpt_conversation(f"c-{at}", "T", [chatgpt_message(f"m-{at}", "user", f"Said {at}.", 1_700_000_000.0 + at)])
        for at in range(20)
    ]
    whole = json.dumps(talks)
    (tmp_path / "cut.json").write_text(whole[: len(whole) * 3 // 4])
    summary = import_from(memory, tmp_path / "cut.json")
    assert summary.counts == {"added": 15, "refused": 1}
    assert "The rest of the file was not read." in summary.problems[0].reason
    (tmp_path / "cut.json").write_text(whole)
    assert import_from(memory, tmp_path / "cut.json").counts == {"duplicate": 15, "added": 5}


def test_half_characters_nul_and_long_names_are_no_trouble(memory: Memory, tmp_path: Path) -> None:
    rows = [
        mem0_memory("1", "half \ud83d a character"),
        mem0_memory("2", "nul \0 inside"),
        mem0_memory("x" * 5000, "long id"),
        mem0_memory("4", "a long tag", categories=["c" * 500 + "\n"]),
        mem0_memory("5", "large metadata", metadata={"a": "b" * 20_000}),
        mem0_memory("6", "\u200b \n"),
        mem0_memory("7", "deep", metadata={"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}),
    ]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(rows), encoding="ascii")
    told: list[Outcome] = []
    summary = import_from(memory, path, each=told.append)
    assert summary.counts == {"added": 6, "skipped": 1}
    assert "its metadata was left out" in told[4].reason
    assert "its metadata was left out" in told[6].reason
    assert {"half ? a character", "nul  inside"} <= contents(memory)
    assert import_from(memory, path).counts == {"duplicate": 6, "skipped": 1}


# -- the guard ----------------------------------------------------------------------------------------------------------
def test_secrets_are_taken_out_and_told(memory: Memory, tmp_path: Path) -> None:
    secret = samples.token()
    rows = [mem0_memory("1", f"The deploy token is {secret}", updated_at="2025-01-01T00:00:00Z"), mem0_memory("2", "Likes tea")]
    told: list[Outcome] = []
    path = written(tmp_path / "secret.json", {"results": rows})
    assert import_from(memory, path, each=told.append).counts == {"redacted": 1, "added": 1}
    assert told[0].reason
    assert secret not in told[0].reason
    assert not any(secret in content for content in contents(memory))
    assert import_from(memory, path).counts == {"duplicate": 2}
    talk = chatgpt_conversation("c-1", "Keys", [chatgpt_message("m-1", "user", f"My token is {secret}", 1_700_000_000.0)])
    assert import_from(memory, written(tmp_path / "chat.json", [talk])).counts == {"redacted": 1}
    assert import_from(memory, tmp_path / "chat.json").counts == {"duplicate": 1}
    memory.close()
    assert not any(secret.encode() in file.read_bytes() for file in tmp_path.glob("memory.db*"))


def test_instructions_are_put_in_quarantine_and_told(memory: Memory, tmp_path: Path) -> None:
    path = written(tmp_path / "bad.json", {"results": [mem0_memory("1", samples.INJECTED), mem0_memory("2", "Likes tea")]})
    told: list[Outcome] = []
    assert import_from(memory, path, each=told.append).counts == {"quarantined": 1, "added": 1}
    assert "waits for a review" in told[0].reason
    assert not any("evil" in hit.content for hit in memory.recall("instructions passwords"))
    assert import_from(memory, path).counts == {"duplicate": 2}
    talk = chatgpt_conversation(
        "c-1",
        "Bad",
        [
            chatgpt_message("m-1", "user", samples.INJECTED, 1_700_000_000.0),
            chatgpt_message("m-2", "assistant", "No.", 1_700_000_001.0),
        ],
    )
    chat = written(tmp_path / "chat.json", [talk])
    assert import_from(memory, chat).counts == {"quarantined": 1, "added": 1}
    assert import_from(memory, chat).counts == {"duplicate": 2}


def test_an_import_does_not_speak_for_the_user(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, written(tmp_path / "chat.json", samples.chatgpt()))
    assert max(record.trust for record in everything(memory)) == 0.5
    import_from(memory.with_scope(user="erik"), tmp_path / "chat.json", source="web:https://example.org")
    assert {record.source for record in everything(memory.with_scope(user="erik"))} == {"web:https://example.org"}


# -- limits and kills ---------------------------------------------------------------------------------------------------
def test_a_limit_on_writes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def waited(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    rows = [mem0_memory(str(number), f"Stone number {number} lies in drawer {number * 7}") for number in range(40)]
    talk = [chatgpt_message(f"m-{at}", "user", f"Stone {at} is grey.", 1_700_000_000.0 + at) for at in range(40)]
    monkeypatch.setattr(writer, "time", SimpleNamespace(sleep=waited))
    with Memory.open(tmp_path / "slow.db", embedder="none", settings={"write_interval": 0.002}) as memory:
        assert import_from(memory, written(tmp_path / "m.json", {"results": rows})).counts == {"added": 40}
        talked = written(tmp_path / "c.json", [chatgpt_conversation("c-1", "Stones", talk)])
        assert import_from(memory, talked).counts == {"added": 40}
        assert [each.content for each in memory.conversation("chatgpt:c-1")] == [f"Stone {at} is grey." for at in range(40)]
    assert len(waits) >= 40


@pytest.mark.parametrize("what", ["memories", "messages"])
def test_killed_half_way_and_run_again(tmp_path: Path, what: str) -> None:
    count = 1200
    if what == "memories":
        path = written(
            tmp_path / "x.json",
            [mem0_memory(str(at), f"Stone number {at} lies in drawer {at * 31} of room {at % 17}") for at in range(count)],
        )
    else:
        said = [
            [chatgpt_message(f"m-{talk}-{at}", "user", f"Stone {talk}-{at} is grey.", 1.7e9 + at) for at in range(150)]
            for talk in range(8)
        ]
        path = written(tmp_path / "x.json", [chatgpt_conversation(f"c-{talk}", "Stones", each) for talk, each in enumerate(said)])
    command = [sys.executable, "-m", "keepstone", "import", str(path), "--db", "kill.db", "--report", "report.jsonl", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, env=surroundings(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report = tmp_path / "report.jsonl"
    deadline = time.monotonic() + 60
    while not (report.exists() and report.stat().st_size > 20_000) and process.poll() is None:
        assert time.monotonic() < deadline, "the import does not get anywhere"
        time.sleep(0.005)
    process.kill()
    process.wait()
    with Memory.open(tmp_path / "kill.db") as memory:
        begun = len(everything(memory))
        assert 0 < begun < count, "it was killed half-way"
        summary = import_from(memory, path)
        stored = everything(memory)
        assert summary.counts == {"duplicate": begun, "added": count - begun}
        assert len(stored) == len({record.content for record in stored}) == count
        if what == "messages":
            assert [each.content for each in memory.conversation("chatgpt:c-7")] == [
                f"Stone 7-{at} is grey." for at in range(150)
            ]
        assert memory.upkeep.doctor().healthy


# -- mixed, misnamed, in the way ------------------------------------------------------------------------------------------
def said(session: str, role: str, text: str) -> str:
    return json.dumps({"session_id": session, "role_type": role, "content": text})


def test_conversations_whose_messages_are_mixed_keep_all_of_them(memory: Memory, tmp_path: Path) -> None:
    lines = [
        said("s1", "user", "ok"), said("s2", "user", "Hello."), said("s1", "assistant", "Which colour?"),
        said("s2", "assistant", "Hi."), said("s1", "user", "ok"), said("s2", "user", "Bye."), said("s1", "user", "Blue."),
    ]  # fmt: skip
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines))
    for counts in ({"added": 7}, {"duplicate": 7}):
        assert import_from(memory, tmp_path / "mixed.jsonl").counts == counts
        assert [each.content for each in memory.conversation("zep:s1")] == ["ok", "Which colour?", "ok", "Blue."]
        assert [each.content for each in memory.conversation("zep:s2")] == ["Hello.", "Hi.", "Bye."]


@pytest.mark.parametrize("owner", ["a\nb", "x" * 300, "\u200b"], ids=["line", "long", "invisible"])
def test_an_owner_that_no_scope_can_be_of_costs_its_own_entries_alone(memory: Memory, tmp_path: Path, owner: str) -> None:
    rows = [mem0_memory("1", "Likes tea"), mem0_memory("2", "Likes bikes", owner), mem0_memory("3", "Likes boats", "erik")]
    summary = import_from(memory, written(tmp_path / "users.json", rows), users="each")
    assert (summary.counts, summary.problems[0].theirs) == ({"added": 2, "refused": 1}, "2")
    assert "the user it belongs to" in summary.problems[0].reason
    assert contents(memory.with_scope(user="erik")) == {"Likes boats"}


def test_one_owner_written_in_two_ways_is_one(memory: Memory, tmp_path: Path) -> None:
    rows = [mem0_memory("1", "Likes tea", "Jos\u00e9"), mem0_memory("2", "Likes boats", "Jose\u0301")]
    assert import_from(memory, written(tmp_path / "users.json", rows), users="each").counts == {"added": 2}
    assert contents(memory.with_scope(user="Jos\u00e9")) == {"Likes tea", "Likes boats"}


def test_what_is_no_ordinary_file_is_not_waited_for(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes"
    (notes / "closed").mkdir(parents=True)
    (notes / "one.md").write_text("Use the 2 mm sieve.")
    os.mkfifo(notes / "pipe.md")
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    summary = import_from(memory, notes, format="markdown")
    assert summary.counts == {"added": 1, "skipped": 1, "refused": 1}
    assert (summary.problems[0].file, summary.problems[0].where) == ("closed", "the folder"), (
        "its notes are missed, and it is said"
    )


def test_headings_of_any_length_and_shape(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text(
        f"# x{' ' * 50_000}y\n\n## {'h' * 100_000}\n\nOne.\n\n## C#\n\nTwo.\n\n## Closed ##  \n\nThree.\n\n## ##\n\nFour.\n"
    )
    assert import_from(memory, tmp_path / "long.md").counts == {"added": 4}
    found = contents(memory)
    assert max(map(len, found)) < 500, "a heading stands above each note below it, so it is cut"
    assert {"x y › C#\n\nTwo.", "x y › Closed\n\nThree.", "x y\n\nFour."} <= found


def test_parts_of_a_long_text_say_all_of_it_and_nothing_is_no_part() -> None:
    assert list(split_text(" " * 50 + "word", 8)) == ["word"]
    text = "Größe · ☃ 雪 " * 40_000
    parts = list(split_text(text, 4000))
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert max(len(each.encode()) for each in parts) <= 4000
