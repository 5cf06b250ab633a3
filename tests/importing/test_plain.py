"""Plain files as memories: lines, bullets, tables, JSON, folders, standard input; and one clear error for a file that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.importing import import_from
from tests.cli.support import process

FILES = {
    "notes.txt": "Ana lives in Porto.\n\n  Bert rows on Mondays.\n",
    "facts.md": "# Habits\n- Ana lives in Porto.\n* [x] Bert rows\n  on Mondays.\n",
    "facts.csv": 'memory;topic;mood\nAna lives in Porto.;home;good\n"Bert rows; he likes it.";sport;\n',
    "facts.jsonl": '{"text": "Ana lives in Porto.", "mood": "good"}\n{"text": "Bert rows.", "date": "2026-03-01"}\n',
    "list.json": '["Ana lives in Porto.", "Bert rows."]',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "notes"
    inside.mkdir()
    for name, text in FILES.items():
        (inside / name).write_text(text)
    return inside


@pytest.mark.parametrize(
    ("name", "format", "second"),
    [
        ("notes.txt", "lines", "Bert rows on Mondays."),
        ("facts.md", "bullets", "Bert rows on Mondays."),
        ("facts.csv", "csv", "Bert rows; he likes it."),
        ("facts.jsonl", "json", "Bert rows."),
        ("list.json", "json", "Bert rows."),
    ],
)
def test_each_part_of_a_plain_file_is_a_memory(memory: Memory, folder: Path, name: str, format: str, second: str) -> None:
    done = import_from(memory, folder / name)
    assert (done.format, done.counts) == (format, {"added": 2})
    assert {record.content for record in memory.list()} == {"Ana lives in Porto.", second}
    assert import_from(memory, folder / name).counts == {"duplicate": 2}


def test_columns_become_fields_and_what_is_left_is_metadata(memory: Memory, folder: Path) -> None:
    import_from(memory, folder / "facts.csv")
    home = next(record for record in memory.list(tag="home"))
    assert dict(home.metadata)["mood"] == "good"
    import_from(memory, folder / "facts.jsonl", fields={"content": "text", "tag": "mood"}, format="json")
    rows = {record.content: record for record in memory.list(tag="good")}
    assert set(rows) == {"Ana lives in Porto."}
    with pytest.raises(ValidationError, match="'colour', which no memory has"):
        import_from(memory, folder / "facts.csv", fields={"colour": "mood"})
    wrong = import_from(memory, folder / "facts.csv", fields={"content": "nothing"})
    assert wrong.refused == 1
    assert "has no column 'nothing': it has memory, topic, mood" in wrong.problems[0].reason


def test_a_folder_is_read_file_by_file(memory: Memory, folder: Path) -> None:
    (folder / "facts.md").unlink()
    (folder / "photo.png").write_bytes(b"\x89PNG")
    done = import_from(memory, folder, format="files")
    assert done.refused == 0
    assert len({record.content for record in memory.list()}) == 4


def test_a_dry_run_shows_a_sample_and_writes_nothing(memory: Memory, folder: Path) -> None:
    done = import_from(memory, folder / "notes.txt", dry_run=True)
    assert done.sample == ("Ana lives in Porto.", "Bert rows on Mondays.")
    assert done.counts == {"new": 2}
    assert not memory.list()


def test_a_wrong_file_is_one_clear_error(memory: Memory, folder: Path) -> None:
    (folder / "broken.json").write_text("oh\n" * 200)
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n" * 100)
    for name in ("broken.json", "photo.png"):
        with pytest.raises(ConfigurationError, match="holds no memories that can be read"):
            import_from(memory, folder / name)
    with pytest.raises(ConfigurationError, match="there is no file or folder"):
        import_from(memory, folder / "absent.csv")


def test_the_command_reads_standard_input_and_columns(folder: Path) -> None:
    piped = process("import", "-", "--json", cwd=folder, piped=b"Ana lives in Porto.\nBert rows.\n")
    assert json.loads(piped.stdout)["counts"] == {"added": 2}
    table = process("import", "facts.csv", "--field", "content=memory", "--dry-run", cwd=folder)
    assert "e.g. Ana lives in Porto." in table.stdout
    missing = process("import", "absent.csv", cwd=folder)
    assert (missing.returncode, missing.stderr.count("\n")) == (5, 1)
    assert "there is no file or folder 'absent.csv'" in missing.stderr
