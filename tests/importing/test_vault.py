"""Memories as a folder of Markdown notes, and back: what changed is shown, confirmed and carried over."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError
from keepstone.importing.vault import apply_changes, compare_vault, export_vault
from tests.cli.support import Cli

HARD = 'Two lines:\n# not a heading\n---\n"quotes", ünïcode and \U0001f600'


def notes(folder: Path) -> dict[str, Path]:
    """The notes by the texts in them."""
    return {path.read_text().split("---\n", 2)[2].strip("\n"): path for path in folder.rglob("*.md")}


def test_an_unchanged_vault_says_nothing_and_edits_come_back(memory: Memory, tmp_path: Path) -> None:
    tea = memory.remember("Dana drinks tea.", tag="drinks/hot").id or ""
    hard = memory.remember(HARD, tag="../..").id or ""
    memory.remember("Porto", key="city", tag="home")
    memory.ingest([{"role": "user", "content": "Hello there."}], session="s", extract=False)
    folder = tmp_path / "vault"
    assert export_vault(memory, folder) == 3
    assert compare_vault(memory, folder) == []
    assert {path.parent.parent for path in folder.rglob("*.md")} == {folder}, "no tag leads out of the folder"
    found = notes(folder)
    found["Dana drinks tea."].write_text(
        found["Dana drinks tea."].read_text().replace("tea", "mate").replace("drinks/hot", "cold")
    )
    found[HARD].write_text(found[HARD].read_text().replace("Two lines", "Four lines"))
    (folder / "new.md").write_text("Dana rows on Sundays.\n")
    changes = compare_vault(memory, folder)
    assert sorted((change.what, change.id) for change in changes if change.id) == sorted([("changed", tea), ("changed", hard)])
    assert [receipt.action for receipt in apply_changes(memory, changes)].count("added") == 1
    assert {record.content for record in memory.list()} >= {"Dana drinks mate.", "Dana rows on Sundays.", "Porto"}
    assert (record := memory.get(tea)) is not None
    assert (record.tag, record.version) == ("cold", 2)
    assert export_vault(memory, folder) == 4
    assert len([path for path in folder.rglob("*.md") if tea in path.name]) == 1, "a note moves with its tag"


def test_what_changed_on_both_sides_is_left_alone(memory: Memory, tmp_path: Path) -> None:
    changed, gone = memory.remember("Dana drinks tea.").id or "", memory.remember("Dana rows.").id or ""
    export_vault(memory, tmp_path)
    for path in tmp_path.rglob("*.md"):
        path.write_text(path.read_text().replace("Dana", "Ada"))
    memory.update(changed, "Dana drinks milk.")
    memory.forget(gone)
    changes = compare_vault(memory, tmp_path)
    assert {(change.what, change.id) for change in changes} == {("conflict", changed), ("gone", gone)}
    assert apply_changes(memory, changes) == []
    assert [record.content for record in memory.list()] == ["Dana drinks milk."]
    with pytest.raises(ConfigurationError, match="there is no folder"):
        compare_vault(memory, tmp_path / "none")


def test_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    cli("remember", "Dana drinks tea.", "--tag", "drinks")
    assert cli("vault", "export", "notes").out == "exported  1 note to notes\n"
    (path,) = (tmp_path / "notes").rglob("*.md")
    path.write_text(path.read_text().replace("tea", "mate"))
    shown = cli("vault", "import", "notes", "--dry-run")
    assert "    - Dana drinks tea.\n    + Dana drinks mate.\n" in shown.out
    assert "would apply  1 change, 0 skipped" in shown.out
    refused = cli("vault", "import", "notes")
    assert (refused.code, "add --yes" in refused.err) == (2, True), "without a terminal nothing is confirmed"
    assert cli("list", "--json").json["records"][0]["content"] == "Dana drinks tea."
    assert "applied  1 change" in cli("vault", "import", "notes", "--yes").out
    assert cli("list", "--json").json["records"][0]["content"] == "Dana drinks mate."


def test_a_file_without_a_text_is_one_error_in_the_commands_words(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a,b\n1,2\n")
    refused = cli("import", "f.csv")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert "name it with --field content=COLUMN. It has a, b." in refused.err
    piped = cli("import", "-", piped=b"Dana drinks tea.\nDana rows on Sundays.\n")
    assert piped.out.startswith("imported  2 entries of standard input (lines)")
