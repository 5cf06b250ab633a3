"""Each system's export comes in with what it says, when, of whom and from where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.importing import ImportSummary, Outcome, import_each, import_from, recognise
from keepstone.types import Record
from tests.importing import samples as samples
from tests.importing.samples import archive, written


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", user="dana") as memory:
        yield memory


def everything(memory: Memory) -> list[Record]:
    found, cursor = list[Record](), None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        found += page
        cursor = page.cursor
        if cursor is None:
            return found


def contents(memory: Memory, **where: Any) -> set[str]:
    return {
        record.content for record in everything(memory) if all(getattr(record, name) == value for name, value in where.items())
    }


def imported(memory: Memory, path: Path, **options: Any) -> tuple[ImportSummary, list[Outcome]]:
    told: list[Outcome] = []
    summary = import_from(memory, path, each=told.append, **options)
    assert summary.entries == len(told)
    return summary, told


def test_mem0(memory: Memory, tmp_path: Path) -> None:
    summary, told = imported(memory, written(tmp_path / "export.json", samples.MEM0))
    assert (summary.format, summary.counts) == ("mem0", {"added": 3})
    assert [each.theirs for each in told] == ["f1", "f2", "f3"]
    record = memory.get(told[0].id or "")
    assert record is not None
    assert (record.content, record.tag, record.source, record.trust) == ("Prefers dark mode", "preferences", "import:mem0", 0.5)
    assert record.metadata == {"project": "atlas", "imported": {"from": "mem0", "id": "f1"}}
    assert record.occurred_at == datetime(2024, 5, 1, 17, tzinfo=UTC)
    assert memory.recall("Which theme?")[0].content == "Prefers dark mode"


def test_mem0_as_lines_and_what_has_expired(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    lines = [
        samples.mem0_memory("1", "Was here for a day", expiration_date="2024-05-02"),
        samples.mem0_memory("2", "Is here for long", expiration_date="2090-01-01"),
        samples.mem0_memory("3", "Was deleted", event="DELETE"),
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    summary, told = imported(memory, path)
    assert summary.counts == {"skipped": 1, "added": 1}
    assert "expired there on 2024-05-02" in told[0].reason
    kept = memory.get(told[1].id or "")
    assert kept is not None
    assert kept.expires_at is not None
    assert abs(kept.expires_at - datetime(2090, 1, 1, tzinfo=UTC)) < timedelta(minutes=1)
    assert import_from(memory, path).counts == {"skipped": 1, "duplicate": 1}


def test_letta(memory: Memory, tmp_path: Path) -> None:
    summary, told = imported(memory, written(tmp_path / "agent.af", samples.LETTA))
    assert summary.format == "letta"
    assert summary.counts == {"added": 4, "skipped": 2}
    assert contents(memory, kind="note", tag="human") == {"Name: Dana. Likes tea."}
    assert contents(memory, kind="fact") == {"Dana's sister is called Inês."}
    session = memory.conversation("letta:agent-0")
    assert [(each.role, each.content) for each in session] == [("user", "I moved to Lisbon."), ("assistant", "Noted: Lisbon.")]
    assert {each.reason for each in told if each.action == "skipped"} == {
        "it is the agent's system prompt.",
        "it was deleted there.",
    }


def test_langmem(memory: Memory, tmp_path: Path) -> None:
    summary, _ = imported(memory, written(tmp_path / "store.json", samples.LANGMEM))
    assert (summary.format, summary.counts) == ("langmem", {"added": 2})
    assert contents(memory) == {"Dana plays the cello.", "city: Porto; age: 41"}
    assert contents(memory, tag="UserProfile") == {"city: Porto; age: 41"}


def test_zep_sessions(memory: Memory, tmp_path: Path) -> None:
    summary, _ = imported(memory, written(tmp_path / "zep.json", samples.ZEP))
    assert (summary.format, summary.counts) == ("zep", {"added": 4})
    said = [(each.role, each.name, each.content) for each in memory.conversation("zep:s-1")]
    assert said == [("user", "Dana", "I bought a kayak."), ("assistant", "Max", "Which colour?")]
    assert contents(memory, kind="fact") == {"Dana owns a kayak."}
    assert contents(memory, tag="summary") == {"Dana told of a kayak."}


def test_graphiti_facts_keep_until_when_they_held(memory: Memory, tmp_path: Path) -> None:
    path = written(tmp_path / "graph.json", samples.GRAPHITI)
    summary, _ = imported(memory, path)
    assert (summary.format, summary.counts) == ("zep", {"added": 4, "skipped": 1})
    now = contents(memory, kind="fact", tag="works_at")
    assert now == {"Dana works at Acme. (This held until 2023-06-01.)", "Dana works at Initech."}
    then = memory.recall("Where does Dana work?", as_of="2022-06-01", kinds=["fact"])
    assert [hit.content for hit in then] == ["Dana works at Acme."]
    assert contents(memory, tag="entity") == {"Dana: A geologist."}
    assert contents(memory, tag="episode") == {"dana: I left Acme for Initech."}
    assert import_from(memory, path).counts == {"duplicate": 4, "skipped": 1}
    assert contents(memory, kind="fact", tag="works_at") == now


def test_a_fact_that_ended_leaves_alone_what_says_the_same_and_holds(memory: Memory, tmp_path: Path) -> None:
    def edge(id: str, since: str, until: str | None) -> dict[str, Any]:
        return {"uuid": id, "name": "WORKS_AT", "fact": "Dana works at Acme.", "valid_at": since, "invalid_at": until}

    again = edge("e-2", "2025-01-01T00:00:00Z", None)
    path = written(tmp_path / "edges.json", [again, edge("e-1", "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")])
    assert import_from(memory, path).counts == {"added": 2}
    both = {"Dana works at Acme.", "Dana works at Acme. (This held until 2021-01-01.)"}
    assert contents(memory) == both
    assert import_from(memory, path).counts == {"duplicate": 2}
    ended = written(tmp_path / "later.json", [again | {"invalid_at": "2026-02-01T00:00:00Z"}])
    assert import_from(memory, ended).counts == {"updated": 1}
    assert contents(memory) == {
        "Dana works at Acme. (This held until 2026-02-01.)",
        "Dana works at Acme. (This held until 2021-01-01.)",
    }


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "bare"])
def test_chatgpt(memory: Memory, tmp_path: Path, packed: bool) -> None:
    files = {
        "conversations.json": samples.chatgpt(),
        "user.json": {"id": "u"},
        "chat.html": "<html>",
        "message_feedback.json": [],
    }
    path = archive(tmp_path / "chatgpt.zip", files) if packed else written(tmp_path / "saved.json", samples.chatgpt())
    summary, told = imported(memory, path)
    assert summary.format == "chatgpt"
    assert summary.counts == {"added": 11}
    talk = list(memory.conversation("chatgpt:c-1"))
    assert [(each.role, each.content) for each in talk] == [
        ("user", "[image: file-service://file-abc]\n\nWhat is this rock?"),
        ("assistant", "It looks like basalt."),
        ("assistant", "```python\nprint(1)\n```"),
        ("tool", "1"),
        ("assistant", "Done."),
    ]
    assert talk[0].at == datetime.fromtimestamp(1_700_000_001.25, UTC)
    assert talk[0].metadata == {"title": "Rocks", "imported": {"from": "chatgpt", "id": "m-1"}}
    assert {record.source for record in everything(memory)} == {"import:chatgpt", "tool"}, "a tool is trusted even less"
    facts = {record.content: record.occurred_at for record in everything(memory) if record.kind == "fact"}
    assert set(facts) == {"I am a geologist.", "User has a cat called Miso.", "Likes tea.", "User collects rocks."}
    assert facts["User has a cat called Miso."] == datetime(2024, 5, 1, tzinfo=UTC)
    assert memory.conversation("chatgpt:c-1").messages(), "it can be given to a model"
    assert memory.recall("steeping sencha")[0].content in ("How long does sencha steep?", "About one minute.")
    assert all(each.where.startswith(("message", "memory in message")) for each in told)


def test_chatgpt_without_a_current_node_and_in_several_files(memory: Memory, tmp_path: Path) -> None:
    first, second = samples.chatgpt()
    del second["current_node"]
    path = archive(tmp_path / "big.zip", {"conversations-000.json": [first], "conversations-001.json": [second]})
    summary, _ = imported(memory, path)
    assert summary.counts == {"added": 11}
    assert [each.content for each in memory.conversation("chatgpt:c-2")] == ["How long does sencha steep?", "About one minute."]


def test_a_chatgpt_conversation_that_went_on(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, written(tmp_path / "old.json", samples.chatgpt()))
    newer = samples.chatgpt()
    node = {
        "id": "t-3",
        "parent": "t-2",
        "children": [],
        "message": samples.chatgpt_message("t-3", "user", "And gyokuro?", 1_700_200_000.0),
    }
    newer[1]["mapping"]["t-3"] = node
    newer[1]["current_node"] = "t-3"
    summary = import_from(memory, written(tmp_path / "new.json", newer))
    assert summary.counts == {"duplicate": 11, "added": 1}
    assert [each.content for each in memory.conversation("chatgpt:c-2")][-1] == "And gyokuro?"


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "unpacked"])
def test_claude(memory: Memory, tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "data.zip"
    if packed:
        archive(path, samples.claude())
    else:
        path = tmp_path / "data"
        path.mkdir()
        for name, value in samples.claude().items():
            written(path / name, value)
    summary, told = imported(memory, path)
    assert summary.format == "claude"
    assert summary.counts == {"added": 8, "skipped": 1}
    assert [(each.role, each.content) for each in memory.conversation("claude:cl-1")] == [
        ("user", "How do I sort soil?\n\n[file: photo.png]"),
        ("user", "[attachment: soil.txt]\nclay 40 %, sand 60 %"),
        ("assistant", "Use a sieve."),
    ]
    assert contents(memory, tag="project") == {"Maps of the coast.", "The coast is rocky near Peniche."}
    assert contents(memory, tag="instructions") == {"Answer briefly."}
    assert contents(memory, tag="memory") == {"**Work**\n\nDana maps soils.", "Peniche first."}
    assert not any("Reis" in content for content in contents(memory)), "users.json is not read"
    assert {each.file for each in told} == {"conversations.json", "projects.json", "memories.json"}


def test_markdown(memory: Memory, tmp_path: Path) -> None:
    root = samples.vault(tmp_path / "vault")
    summary, told = imported(memory, root)
    assert (summary.format, summary.counts) == ("markdown", {"skipped": 1, "added": 5})
    assert [each.reason for each in told if each.action == "skipped"] == ["it is a link that leads out of the folder."]
    records = {record.key: record for record in everything(memory)}
    assert set(records) == {
        "plain.md",
        "work/soil.md",
        "work/soil.md#sieves",
        "work/soil.md#sieves/drying",
        "work/soil.md#empty/deep",
    }
    sieves = records["work/soil.md#sieves"]
    assert sieves.content == "Soil lab › Sieves\n\nUse the 2 mm sieve.\n\n```sh\n# no heading\n```"
    assert (sieves.tag, sieves.kind, sieves.source) == ("work", "note", "import:markdown")
    assert sieves.metadata == {
        "title": "Soil lab",
        "tags": ["lab", "soil"],
        "imported": {"from": "markdown", "file": "work/soil.md"},
    }
    assert sieves.occurred_at == datetime(2024, 3, 1, tzinfo=UTC)
    assert not any("somebody else" in content or "not this" in content for content in contents(memory))


def test_markdown_again_supersedes_what_was_changed(memory: Memory, tmp_path: Path) -> None:
    root = samples.vault(tmp_path / "vault")
    import_from(memory, root)
    assert import_from(memory, root).counts == {"skipped": 1, "duplicate": 5}
    (root / "plain.md").write_text("Bread needs salt and time.")
    assert import_from(memory, root).counts == {"skipped": 1, "duplicate": 4, "superseded": 1}
    record = next(record for record in everything(memory) if record.key == "plain.md")
    assert [version.content for version in memory.history(record.id)] == ["Bread needs salt.", "Bread needs salt and time."]


def test_long_texts_are_split_between_paragraphs(memory: Memory, tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number} tells of stone {number} at some length. " * 20 for number in range(20)]
    (tmp_path / "long.md").write_text("# Stones\n\n" + "\n\n".join(paragraphs))
    summary, _ = imported(memory, tmp_path / "long.md")
    keys = sorted(record.key or "" for record in everything(memory))
    assert summary.counts == {"added": len(keys)}
    assert keys[:2] == ["long.md#stones", "long.md#stones~2"]
    assert all(len(content) <= 4000 for content in contents(memory))
    said = samples.chatgpt_conversation(
        "c-9", "Long", [samples.chatgpt_message("m-1", "user", "word " * 40_000, 1_700_000_000.0)]
    )
    assert imported(memory, written(tmp_path / "long.json", [said]))[0].counts == {"added": 4}
    whole = " ".join(str(each.content) for each in memory.conversation("chatgpt:c-9"))
    assert whole.split() == ["word"] * 40_000


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (samples.MEM0, "mem0"),
        (samples.LETTA, "letta"),
        (samples.LANGMEM, "langmem"),
        (samples.ZEP, "zep"),
        (samples.GRAPHITI["edges"], "zep"),
        (samples.GRAPHITI["nodes"], "zep"),
        (samples.GRAPHITI["episodes"], "zep"),
        (samples.chatgpt(), "chatgpt"),
        (samples.claude()["conversations.json"], "claude"),
        (samples.claude()["projects.json"], "claude"),
        ({"weather": "fine"}, "json"),
        ([1, 2], None),
        ("text", None),
    ],
)
def test_a_format_is_recognised(tmp_path: Path, value: Any, name: str | None) -> None:
    assert recognise(written(tmp_path / "some.json", value)) == name


def test_users(memory: Memory, tmp_path: Path) -> None:
    both = {"results": [samples.mem0_memory("1", "Likes tea", "dana"), samples.mem0_memory("2", "Likes coffee", "erik")]}
    path = written(tmp_path / "both.json", both)
    with pytest.raises(ValidationError, match="several users \\('dana', 'erik'\\)"):
        import_from(memory, path)
    assert everything(memory) == []
    assert import_from(memory, path, users="each").counts == {"added": 2}
    assert contents(memory) == {"Likes tea"}
    assert contents(memory.with_scope(user="erik")) == {"Likes coffee"}
    other = memory.with_scope(user="zoe")
    assert import_from(other, path, users="all").counts == {"added": 2}
    assert contents(other) == {"Likes tea", "Likes coffee"}
    with pytest.raises(ValidationError, match="users is 'some'"):
        import_from(memory, path, users="some")


def test_each_agent_of_letta_has_a_scope_of_its_own(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, written(tmp_path / "agent.af", samples.LETTA), users="each")
    assert everything(memory) == []
    assert "Name: Dana. Likes tea." in contents(memory.with_scope(agent="agent-0"))


def test_options_and_paths_that_cannot_be_taken(memory: Memory, tmp_path: Path) -> None:
    path = written(tmp_path / "export.json", samples.MEM0)
    with pytest.raises(ValidationError, match="format 'cognee' is unknown: use auto, mem0"):
        import_from(memory, path, format="cognee")
    with pytest.raises(ConfigurationError, match="there is no file or folder"):
        import_from(memory, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="holds no JSON file"):
        import_from(memory, tmp_path / "empty", format="chatgpt")
    with pytest.raises(ConfigurationError, match="holds no Markdown file"):
        import_from(memory, tmp_path / "empty", format="markdown")
    with pytest.raises(ConfigurationError, match="holds no memories that can be read"):
        import_from(memory, written(tmp_path / "other.json", [1, 2]))
    nameless = import_from(memory, written(tmp_path / "other.json", {"weather": "fine"}))
    assert nameless.counts == {"refused": 1}
    assert "name it, content=COLUMN. It has weather." in nameless.problems[0].reason
    assert everything(memory) == []
    with pytest.raises(ValidationError, match="whole or not at all"):
        import_each(memory, path, format="keepstone")


def test_our_own_export(memory: Memory, tmp_path: Path) -> None:
    memory.remember("Dana prefers dark mode.")
    memory.export(tmp_path / "own.jsonl")
    with Memory.open(tmp_path / "new.db", user="dana") as other:
        assert import_from(other, tmp_path / "own.jsonl", dry_run=True).counts == {"new": 1}
        assert everything(other) == []
        assert import_from(other, tmp_path / "own.jsonl").counts == {"added": 1}
        assert import_from(other, tmp_path / "own.jsonl").counts == {"duplicate": 1}
