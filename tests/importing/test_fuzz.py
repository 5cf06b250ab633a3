"""Exports that were tampered with, of every format: an import ends with a report or an error of ours, what is stored is what was
told of and nothing else, no other tenant's scope is touched, and as much memory is taken as the file is large."""

from __future__ import annotations

import copy
import io
import json
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keepstone import KeepstoneError, Memory
from keepstone.importing import FORMATS, Outcome, import_from
from keepstone.types import Record
from tests.importing import samples as samples

MOST = 24_000_000  # bytes that an import of a file of some kilobytes may take


def exported() -> list[Any]:
    """An export of our own, line by line."""
    with Memory.open(":memory:", user="dana", embedder="none") as memory, tempfile.TemporaryDirectory() as folder:
        memory.remember("Dana keeps bees.", key="bees", metadata={"a": [1, {"b": None}]})
        memory.remember("Dana keeps more bees.", key="bees")
        memory.ingest([{"role": "user", "content": "I moved to Porto."}], session="s")
        memory.export(Path(folder) / "own.jsonl")
        return [json.loads(line) for line in (Path(folder) / "own.jsonl").read_text().splitlines()]


SAMPLES: dict[str, Any] = {
    "mem0": samples.MEM0,
    "letta": samples.LETTA,
    "zep": samples.ZEP,
    "graphiti": samples.GRAPHITI,
    "langmem": samples.LANGMEM,
    "chatgpt": samples.chatgpt(),
    "claude": samples.claude()["conversations.json"],
    "projects": samples.claude()["projects.json"],
    "memories": samples.claude()["memories.json"],
    "keepstone": exported(),
}

# -- tampering ----------------------------------------------------------------------------------------------------
junk = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.just([]), st.just({}), st.just("x" * 20_000),
    st.sampled_from([10**400, -(2**63) - 1, 1e308, "\ud800", "\0", "../../etc/passwd", "9999-12-31T23:59:59Z", "0000-00-00"]),
    st.sampled_from(["local", "elsewhere", "default", "omar", "admin", "m_nothing", "'; DROP TABLE record; --", "user:root"]),
    st.integers(2, 200).map(lambda depth: json.loads("[" * depth + "]" * depth)),
)  # fmt: skip
edits = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(("put", "drop", "twice", "wrap", "rename")), junk), max_size=5)


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: what holds it, and under which name or number."""
    found, left = [], [value]
    while left:
        holder = left.pop()
        places = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for name, each in list(places):
            found.append((holder, name))
            left.append(each)
    return found


def tampered(value: Any, changes: list[tuple[int, str, Any]]) -> Any:
    """A value with some of its parts replaced, taken out, doubled, wrapped or called otherwise."""
    value = copy.deepcopy(value)
    for number, how, given_ in changes:
        places = nodes(value)
        if not places:
            return given_
        holder, name = places[number % len(places)]
        if how == "put":
            holder[name] = copy.deepcopy(given_)
        elif how == "drop":
            del holder[name]
        elif how == "wrap":
            holder[name] = [holder[name]]
        elif how == "twice" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[name]))
        elif how == "rename" and isinstance(holder, dict):
            holder[str(given_)[:50]] = holder.pop(name)
    return value


def packed(value: Any, shape: str) -> bytes:
    """A value as a file: one JSON text, a line for each entry, or an archive of the one or the other."""
    rows = value if isinstance(value, list) else [value]
    text = "\n".join(json.dumps(row) for row in rows) if "lines" in shape else json.dumps(value)
    return text.encode("utf-8")


damage = st.lists(st.tuples(st.integers(0, 100_000), st.binary(max_size=3)), max_size=3)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file that was an export once: its name and its bytes."""
    which = draw(st.sampled_from(sorted(SAMPLES)))
    shape = draw(st.sampled_from(("json", "lines", "archive", "archive lines")))
    data = packed(tampered(SAMPLES[which], draw(edits)), "lines" if which == "keepstone" else shape)
    inner = draw(st.sampled_from(("conversations.json", "x.json", "../../x.json", "/etc/x.json", "projects/x.jsonl")))
    hurt = draw(damage)
    for at, piece in hurt if "archive" not in shape else ():
        data = data[: at % (len(data) + 1)] + piece + data[at % (len(data) + 1) + len(piece) :]
    if "archive" not in shape:
        return draw(st.sampled_from(("x.json", "x.jsonl", "conversations.json", "x.md"))), data
    whole = _archived(inner, data)
    for at, piece in hurt:
        whole = whole[: at % len(whole)] + piece + whole[at % len(whole) + len(piece) :]
    return "x.zip", whole


def _archived(name: str, data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return made.getvalue()


# -- looking at it ------------------------------------------------------------------------------------------------
def everything(memory: Memory) -> list[Record]:
    found, cursor = list[Record](), None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        found += page
        if (cursor := page.cursor) is None:
            return found


@contextmanager
def scoped() -> Iterator[tuple[Memory, Memory]]:
    """A memory to import into, and one of another tenant beside it."""
    with Memory.open(":memory:", user="dana", embedder="none") as memory:
        other = memory.with_scope(tenant="elsewhere", user="dana")
        other.remember("Omar has a kite.", key="kite")
        yield memory, other


def brought(memory: Memory, path: Path, format: str, users: str) -> tuple[str, list[Outcome]]:
    """What an import that came to its end took the file for, else ""; and what it told of. An error not of ours is a failure."""
    told: list[Outcome] = []
    try:
        summary = import_from(memory, path, format=format, users=users, each=told.append)
    except KeepstoneError as error:
        str(error).encode("utf-8")
        return "", told
    assert summary.entries == len(told)
    return summary.format, told


def contents(memory: Memory) -> list[tuple[str, int, str]]:
    """All that the store holds in this tenant, of every user."""
    scopes = memory._engine.store.retention.scopes(memory.scope.tenant)
    views = [memory.with_scope(agent=each.agent, user=each.user) for each in scopes]
    return sorted((record.id, record.version, record.content) for view in views for record in everything(view))


@given(file=files(), format=st.sampled_from(("auto", "auto", *FORMATS)), users=st.sampled_from(("one", "each", "all")))
def test_an_export_that_was_tampered_with(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, bytes], format: str, users: str
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / file[0]
    path.write_bytes(file[1])
    with scoped() as (memory, other):
        before = contents(other)
        taken, told = brought(memory, path, format, users)
        stored = contents(memory)
        if taken != "keepstone":  # our own tells of lines, not of records
            assert {id for id, _, _ in stored} <= {each.id for each in told}, "what is stored was told of"
        assert taken or format == "keepstone" or not stored, "an error before anything was stored"
        assert contents(other) == before, "another tenant's memory is as it was"
        assert {each.tenant for each in memory._engine.store.retention.scopes(None)} <= {"local", "elsewhere"}
        again, _ = brought(memory, path, format, users)
        assert again == taken, "the same file has the same end"
        if taken:
            assert len(contents(memory)) == len(stored), "a second time adds nothing"
        assert memory.upkeep.doctor().healthy


@given(changes=edits, cut=st.integers(0, 5))
def test_our_own_export_goes_in_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str, Any]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("own") / "x.jsonl"
    path.write_bytes(packed(tampered(SAMPLES["keepstone"], changes), "lines")[: -cut or None])
    with scoped() as (memory, other):
        before = contents(other)
        added = refused = 0
        try:
            report = memory.import_(path)
            added, refused = report.added, len(report.errors)
        except KeepstoneError as error:
            str(error).encode("utf-8")
        assert not (added and refused), "all lines, or none"
        found = contents(memory)
        assert bool(found) == bool(added)
        assert contents(other) == before
        assert memory.upkeep.doctor().healthy


@given(file=files(), format=st.sampled_from(("auto", *FORMATS)))
@example(file=("session.json", b'[{"type": "user"}]'), format="claude-code")
def test_no_file_takes_more_memory_than_its_size_allows(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, bytes], format: str
) -> None:
    path = tmp_path_factory.mktemp("memory") / file[0]
    path.write_bytes(file[1])
    with scoped() as (memory, _):
        tracemalloc.start()
        try:
            brought(memory, path, format, "all")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < MOST + 60 * len(file[1])
