"""Exports of other systems: what is read of each, and that a bad file is told apart and told why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keepstone.errors import ValidationError
from keepstone.maintenance.external_exports import FORMATS, read_export
from keepstone.maintenance.health import Item, examine
from keepstone.memory import Memory

AT = "2025-03-01T09:30:00+00:00"
MOMENT = datetime(2025, 3, 1, 9, 30, tzinfo=UTC)
MEM0 = {
    "id": "m1",
    "memory": "Ana keeps bees",
    "hash": "5f",
    "metadata": {"mood": "calm"},
    "categories": ["hobbies", "animals"],
    "created_at": "2025-03-01T01:30:00-08:00",
    "updated_at": None,
    "user_id": "ana",
}
LANGMEM = {
    "namespace": ["ana", "memories"],
    "key": "k1",
    "value": {"kind": "Memory", "content": {"content": "Ana keeps bees"}},
    "created_at": AT,
    "updated_at": AT,
    "score": None,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "export.json"


def wrote(path: Path, *documents: Any) -> Path:
    path.write_text("\n".join(json.dumps(each) for each in documents), encoding="utf-8")
    return path


def read(path: Path, *documents: Any, format: str = "auto") -> tuple[str, list[Item]]:
    return read_export(wrote(path, *documents), format)


# -- mem0 ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "documents",
    [
        [{"results": [MEM0]}],
        [{"count": 1, "next": None, "previous": None, "results": [MEM0]}],
        [{"results": [MEM0], "relations": []}],
        [{"memories": [MEM0]}],
        [[MEM0]],
        [MEM0],
        [{"results": [MEM0]}, {"results": [MEM0]}],
    ],
)
def test_mem0_in_all_its_wrappings(path: Path, documents: list[Any]) -> None:
    assert read(path, *documents) == (
        "mem0",
        [Item("m1", "Ana keeps bees", tag="hobbies", user="ana", created_at=MOMENT)],
    )


def test_mem0_lines_and_older_names(path: Path) -> None:
    store = {"id": 7, "payload": {"data": "Ana keeps bees", "user_id": "ana", "hash": "5f"}}
    agent = {"id": "m3", "memory": "Answers in French", "agent_id": "helper", "expiration_date": "2025-03-01"}
    found, items = read(path, MEM0, store, agent, {**MEM0, "id": "m4", "event": "DELETE"})
    assert found == "mem0"
    assert [(item.id, item.user) for item in items] == [("m1", "ana"), ("7", "ana"), ("m3", "helper")]
    assert items[2].expires_at == datetime(2025, 3, 1, tzinfo=UTC)


def test_seconds_and_milliseconds_are_times(path: Path) -> None:
    seconds = int(MOMENT.timestamp())
    items = read(path, {**MEM0, "created_at": seconds}, {**MEM0, "id": "2", "created_at": seconds * 1000})[1]
    assert [item.created_at for item in items] == [MOMENT, MOMENT]


# -- LangMem ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("documents", [[[LANGMEM]], [LANGMEM], [{"items": [LANGMEM]}], [LANGMEM, LANGMEM]])
def test_langmem_in_all_its_wrappings(path: Path, documents: list[Any]) -> None:
    expected = Item("ana/memories/k1", "Ana keeps bees", user="ana/memories", created_at=MOMENT, updated_at=MOMENT)
    assert read(path, *documents) == ("langmem", [expected])


@pytest.mark.parametrize(
    ("value", "content", "tag"),
    [
        ({"content": "Ana keeps bees"}, "Ana keeps bees", "general"),
        ({"kind": "Memory", "content": "Ana keeps bees"}, "Ana keeps bees", "general"),
        ({"text": "Ana keeps bees"}, "Ana keeps bees", "general"),
        (
            {"kind": "Profile", "content": {"name": "Ana", "age": 40, "pets": ["bees", "dog"]}},
            "name: Ana; age: 40; pets: bees, dog",
            "Profile",
        ),
        ({"rules": ["short", "direct"]}, "rules: short, direct", "general"),
        ("Ana keeps bees", "Ana keeps bees", "general"),
    ],
)
def test_langmem_values_become_text(path: Path, value: Any, content: str, tag: str) -> None:
    items = read(path, {**LANGMEM, "namespace": "ana.memories", "value": value})[1]
    assert [(item.content, item.tag, item.user) for item in items] == [(content, tag, "ana/memories")]


# -- Letta --------------------------------------------------------------------------------------------------------------
def test_a_letta_agent_file(path: Path) -> None:
    file = {
        "agents": [
            {
                "id": "agent-0",
                "name": "helper",
                "block_ids": ["block-0"],
                "messages": [
                    {"id": "message-0", "role": "user", "content": [{"type": "text", "text": "I keep bees"}], "created_at": AT},
                    {"id": "message-1", "role": "assistant", "content": None, "tool_calls": [{"id": "x"}]},
                ],
            }
        ],
        "blocks": [
            {"id": "block-0", "label": "human", "value": "Ana keeps bees", "limit": 5000},
            {"id": "block-1", "label": "notes", "value": ""},
        ],
        "tools": [],
        "mcp_servers": [],
    }
    assert read(path, file) == (
        "letta",
        [
            Item("message-0", "I keep bees", kind="message", user="agent-0", role="user", created_at=MOMENT),
            Item("block-0", "Ana keeps bees", kind="block", tag="human", user="agent-0"),
        ],
    )


@pytest.mark.parametrize(
    "document",
    [
        {"name": "helper", "core_memory": [{"label": "human", "value": "Ana keeps bees"}], "messages": []},
        {"name": "helper", "core_memory": {"human": "Ana keeps bees"}},
        {"name": "helper", "memory": {"blocks": [{"label": "human", "value": "Ana keeps bees"}]}},
        {"name": "helper", "memory": {"memory": {"human": {"value": "Ana keeps bees", "limit": 2000}}}},
        {"name": "helper", "blocks": [{"label": "human", "value": "Ana keeps bees"}]},
        {"name": "helper", "memory_blocks": [{"label": "human", "value": "Ana keeps bees"}]},
    ],
)
def test_older_letta_exports(path: Path, document: dict[str, Any]) -> None:
    assert read(path, document) == ("letta", [Item("helper/human", "Ana keeps bees", kind="block", tag="human", user="helper")])


def test_letta_passages(path: Path) -> None:
    passage = {"id": "p1", "text": "Ana keeps bees", "archive_id": "a", "created_at": AT, "tags": ["garden"], "is_deleted": False}
    gone = {**passage, "id": "p2", "is_deleted": True}
    found, items = read(path, [passage, gone])
    assert found == "letta"
    assert items[0] == Item("p1", "Ana keeps bees", tag="garden", user="a", created_at=MOMENT)
    assert items[1].status == "archived"
    inside = read(path, {"name": "helper", "archival_memory": ["Ana keeps bees", {"content": "Ben keeps goats"}]})[1]
    assert [item.content for item in inside] == ["Ana keeps bees", "Ben keeps goats"]


# -- our own ------------------------------------------------------------------------------------------------------------
def test_our_own_export_keeps_what_a_report_needs(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store.db", user="ana", embedder="none") as memory:
        first = memory.remember("Ana keeps bees", tag="garden").id
        second = memory.remember("Porto", key="city").id
        memory.export(tmp_path / "out.jsonl")
        expected = {id: Item.of(memory.get(id)) for id in (first, second) if id is not None}
    found, items = read_export(tmp_path / "out.jsonl")
    assert found == "keepstone"
    assert {item.id: item for item in items} == expected
    assert examine(items, now=MOMENT).items == 2


# -- ids ----------------------------------------------------------------------------------------------------------------
def test_every_item_has_an_id_of_its_own(path: Path) -> None:
    rows = [{"memory": "Ana keeps bees"}, {"memory": "Ana keeps bees"}, MEM0, {**MEM0, "memory": "Ana sold the bees"}]
    ids = [item.id for item in read(path, rows)[1]]
    assert len(ids) == len(set(ids)) == 4
    assert ids[2:] == ["m1", "m1#2"]
    assert ids == [item.id for item in read(path, rows)[1]]


# -- what cannot be read ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"[1, 2", "entry 2: the file is cut off here"),
        (b'[\n{"memory": "x"},\n{"memory": }\n]', "entry 2: this is not JSON"),
        (b'{"memory": "x"}\n{"memory": "y"\n', "line 2: this is not JSON"),
        (b'{"memory": "x",}\n{"memory": "y"}\n', "line 1: this is not JSON"),
        (b'{"memory": "x"}\n\n["y"]\n', "line 3 is a list, not an object"),
        (b'{"memory": "x"}\n{"id": 3}\n', "line 2: the field memory is missing"),
        (b'{"memory": "x"}\n{"memory": "y", "created_at": "soon"}', "line 2: created_at 'soon' is not a time"),
        (b'{"memory": "x", "created_at": 1e300, "id": 1}', "created_at 1e\\+300 is not a time"),
        (b'{"memory": "x", "id": {"a": 1}}', "id is an object, not text"),
        (b'{"memory": "\xff"}', "the file: this is not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' * 200_000, "nested too deeply"),
        (b'{"a": 1}', "known are exports of mem0, letta, langmem, keepstone"),
        (b'"text"', "neither with a list nor with an object"),
        (b"[1, 2, 3]", "known are exports of"),
        (b'{"namespace": 4, "key": "k", "value": "v"}', "has no namespace and value"),
        (b'{"agents": {"id": "a"}}', "agents is an object, not a list"),
        (b'{"agents": [4]}', "entry 1 of agents, the file is a number"),
        (b'{"keepstone": 2}', "not a line of a keepstone export"),
        (b'{"keepstone": 1, "id": "a", "content": "x", "trust": NaN}', "trust is None: use a number from 0 to 1"),
        (b'{"keepstone": 1, "id": "a", "content": "x", "parents": "p"}', "parents is not a list"),
        (b'{"id": 1' + b"0" * 5000 + b', "memory": "x"}', "cannot be read"),
    ],
)
def test_a_bad_file_is_told_where_and_why(path: Path, raw: bytes, message: str) -> None:
    path.write_bytes(raw)
    with pytest.raises(ValidationError, match=message) as raised:
        read_export(path)
    assert "export.json" in str(raised.value)
    assert len(str(raised.value)) < 500


def test_values_that_are_nested_too_deeply(path: Path) -> None:
    value: Any = "x"
    for _ in range(100):
        value = {"a": value}
    with pytest.raises(ValidationError, match="nested deeper than 50"):
        read(path, {**LANGMEM, "value": value})


def test_formats_have_to_be_known(path: Path) -> None:
    with pytest.raises(ValidationError, match="use auto, mem0, letta, langmem, keepstone"):
        read(path, MEM0, format="zep")
    with pytest.raises(ValidationError, match="not a line of a keepstone export"):
        read(path, MEM0, format="keepstone")
    assert read(path, {"content": "Ana keeps bees"}, format="mem0")[1][0].content == "Ana keeps bees"


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "nowhere.json", "a\0b"):
        with pytest.raises(ValidationError, match=r"(?i)check the path"):
            read_export(wrong)


def test_half_a_character_is_replaced(path: Path) -> None:
    path.write_bytes(b'{"memory": "bees \\ud83d", "id": "1"}')
    assert read_export(path)[1][0].content == "bees ?"


def test_a_byte_order_mark_is_no_content(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(MEM0).encode())
    assert read_export(path)[0] == "mem0"


NAMES = """memory id user_id created_at results metadata namespace key value content kind agents blocks messages label text
core_memory passages archival_memory block_ids keepstone scope parents trust access_count payload role tags is_deleted""".split()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(json_values, st.sampled_from(["auto", *FORMATS]))
def test_any_json_is_read_or_refused(path: Path, document: Any, format: str) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        found, items = read_export(path, format)
    except ValidationError:
        return
    assert found in FORMATS
    assert len({item.id for item in items}) == len(items)
    assert examine(items, now=MOMENT).items == len(items)
