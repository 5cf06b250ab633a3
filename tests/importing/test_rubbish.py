"""Archives and files that are damaged, hostile or nothing at all."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone import KeepstoneError, Memory
from keepstone.importing import FORMATS, import_from
from keepstone.maintenance import external_files
from tests.importing import samples as samples
from tests.importing.samples import archive, chatgpt_conversation, chatgpt_message, mem0_memory
from tests.importing.test_systems import everything


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", user="dana") as memory:
        yield memory


# -- archives -----------------------------------------------------------------------------------------------------------
def test_a_zip_bomb_ends_at_its_limit(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_files, "_RATIO_CHECK_BYTES", 1024 * 1024)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("conversations.json", "[" + " " * 8 * 1024 * 1024 + "]")
    summary = import_from(memory, tmp_path / "bomb.zip", format="chatgpt")
    assert summary.counts == {"refused": 1}
    assert "200 times its size" in summary.problems[0].reason


def test_an_entry_larger_than_the_limit_is_refused(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_files, "MAX_ENTRY_CHARS", 3 * 1024 * 1024)
    (tmp_path / "large.json").write_text(json.dumps([mem0_memory("1", "Likes tea"), mem0_memory("2", "word " * 2_000_000)]))
    summary = import_from(memory, tmp_path / "large.json")
    assert summary.counts == {"added": 1, "refused": 1}
    assert f"more than {3 * 1024 * 1024} characters" in summary.problems[0].reason


def test_a_damaged_archive_says_so(memory: Memory, tmp_path: Path) -> None:
    path = archive(tmp_path / "whole.zip", {"conversations.json": samples.chatgpt() * 50})
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(bytes(data))
    summary = import_from(memory, path, format="chatgpt")
    assert summary.refused == 1
    assert "cannot be unpacked" in summary.problems[0].reason or "not JSON" in summary.problems[0].reason


def test_large_archives_are_read_a_conversation_at_a_time(memory: Memory, tmp_path: Path) -> None:
    text = "".join(chr(97 + (number * 7919) % 26) for number in range(100_000))
    with (
        zipfile.ZipFile(tmp_path / "large.zip", "w", zipfile.ZIP_STORED) as packed,
        packed.open("conversations.json", "w") as file,
    ):
        file.write(b"[")
        for number in range(600):
            talk = chatgpt_conversation(
                f"c-{number}", "T", [chatgpt_message(f"m-{number}", "user", {"content_type": "thoughts", "x": text}, 1.0)]
            )
            file.write((b"," if number else b"") + json.dumps(talk).encode())
        file.write(b"]")
    assert (tmp_path / "large.zip").stat().st_size > 60_000_000
    tracemalloc.start()
    summary = import_from(memory, tmp_path / "large.zip", format="chatgpt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert summary.entries == 0
    assert peak < 20_000_000


# -- rubbish ------------------------------------------------------------------------------------------------------------
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "memory",
                    "id",
                    "results",
                    "mapping",
                    "message",
                    "author",
                    "content",
                    "parts",
                    "current_node",
                    "parent",
                    "children",
                    "chat_messages",
                    "text",
                    "sender",
                    "created_at",
                    "create_time",
                    "docs",
                    "uuid",
                    "fact",
                    "sessions",
                    "messages",
                    "facts",
                    "summary",
                    "name",
                    "namespace",
                    "key",
                    "value",
                    "agents",
                    "blocks",
                    "label",
                    "metadata",
                    "valid_at",
                    "invalid_at",
                    "role",
                    "role_type",
                    "attachments",
                    "conversations_memory",
                    "project_memories",
                    "recipient",
                    "content_type",
                    "model_set_context",
                    "user_id",
                    "categories",
                    "keepstone",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
NAMES = ("x.json", "x.jsonl", "x.zip", "x.md", "conversations.json")


@settings(max_examples=150, deadline=None)
@given(
    data=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()),
    name=st.sampled_from(NAMES),
    format=st.sampled_from(("auto", *FORMATS)),
)
def test_no_bytes_fail_with_anything_but_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str, format: str
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / name).write_bytes(data)
    with Memory.open(":memory:", embedder="none") as memory:
        summary = None
        with suppress(KeepstoneError):
            summary = import_from(memory, folder / name, format=format, users="all")
        stored = 0 if summary is None else sum(summary.counts.get(each, 0) for each in ("added", "redacted"))
        assert stored == len(everything(memory))


@settings(max_examples=60, deadline=None)
@given(value=JSON, at=st.integers(0, 2000), byte=st.integers(0, 255))
def test_no_damage_to_an_archive_fails_with_anything_but_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, value: Any, at: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("zip")
    path = archive(folder / "x.zip", {"conversations.json": [value, *samples.chatgpt()], "projects.json": [value]})
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(bytes(data))
    with Memory.open(":memory:", embedder="none") as memory:
        summary = None
        with suppress(KeepstoneError):
            summary = import_from(memory, path)
        assert summary is None or summary.entries >= len(everything(memory))


def test_empty_room_behind_an_entry_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_files, "MAX_ENTRY_CHARS", 4000)
    taken = []

    def pieces() -> Iterator[bytes]:
        yield b'{"fact": "It rains."}\n'
        for number in range(1000):
            taken.append(number)
            yield b" " * 1000

    rows = external_files.Document("one.json", pieces).rows()
    assert next(rows) == ("the file", {"fact": "It rains."})
    assert len(taken) < 20, "whether a second line follows is looked for within a limit"
    assert list(rows) == []
    assert len(taken) == 1000
