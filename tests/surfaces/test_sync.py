"""Synchronisation of two stores: nothing is lost, forgetting wins, and a kill at any point does no harm."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from keepstone import Client, Memory
from keepstone import sync as syncing
from keepstone.errors import ConfigurationError, Forbidden
from keepstone.sync import sync
from tests.faults.support import environment
from tests.server.running import running

SIDES = st.sampled_from(["desk", "laptop"])
CHOICE = st.integers(0, 10**6)


class Killed(BaseException):
    """The process ends here."""


def opened(path: Path, **options: Any) -> Memory:
    return Memory.open(path, user="dana", embedder="none", **options)


def state(memory: Memory) -> dict[str, Any]:
    """All that two stores must agree on."""
    exports = memory._engine.store.export_records(memory.scope)
    return {export.record.id: export.fingerprint for export in exports}


def texts(memory: Memory) -> dict[str, set[str]]:
    """Every wording that each record has or had."""
    exports = memory._engine.store.export_records(memory.scope)
    return {export.record.id: {version.content for version in export.versions} for export in exports}


class TwoStores(RuleBasedStateMachine):
    """Random changes in two stores, exchanged directly or through a folder; some exchanges are killed."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "shared").mkdir()
        self.stores = {name: opened(self.folder / f"{name}.db") for name in ("desk", "laptop")}
        self.written: dict[str, set[str]] = {}
        self.forgotten: set[str] = set()
        self.numbers = itertools.count()

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        desk, laptop = self.stores.values()
        for through in (lambda: sync(desk, laptop), lambda: self.through_folder()):
            for _ in range(4):
                through()
            assert state(desk) == state(laptop)
        for memory in self.stores.values():
            held = texts(memory)
            assert not self.forgotten & held.keys(), "forgetting wins"
            for id in self.written.keys() - self.forgotten:
                assert self.written[id] <= held[id], "a wording was lost"
            assert memory.upkeep.doctor().healthy
            assert memory.audit.verify().whole
            memory.close()
        shutil.rmtree(self.folder)

    def through_folder(self) -> None:
        for memory in self.stores.values():
            sync(memory, self.folder / "shared")

    def text(self) -> str:
        number = next(self.numbers)
        return f"Parcel {number * 7919 % 10007} went to street {number * 104729 % 9973}."

    def one(self, side: str, choice: int) -> str | None:
        ids = sorted(record.id for record in self.stores[side].list(limit=100))
        return ids[choice % len(ids)] if ids else None

    @rule(side=SIDES)
    def remember(self, side: str) -> None:
        text = self.text()
        self.written[self.stores[side].remember(text).id or ""] = {text}

    @rule(side=SIDES, key=st.sampled_from(["city", "phone"]))
    def set_value(self, side: str, key: str) -> None:
        text = self.text()
        self.written.setdefault(self.stores[side].set(key, text).id or "", set()).add(text)

    @rule(side=SIDES, choice=CHOICE)
    def update(self, side: str, choice: int) -> None:
        if (id := self.one(side, choice)) is not None:
            text = self.text()
            self.stores[side].update(id, text)
            self.written[id].add(text)

    @rule(side=SIDES, choice=CHOICE)
    def forget(self, side: str, choice: int) -> None:
        if (id := self.one(side, choice)) is not None:
            self.stores[side].forget(id)
            self.forgotten.add(id)

    @rule(side=SIDES, choice=CHOICE)
    def archive(self, side: str, choice: int) -> None:
        if (id := self.one(side, choice)) is not None:
            store = self.stores[side]._engine.store
            store.retention.archive(self.stores[side].scope, [id], "retired")

    @rule(side=SIDES)
    def restore(self, side: str) -> None:
        memory = self.stores[side]
        memory.upkeep.restore([archived.record.id for archived in memory.upkeep.archived()])

    @rule(side=SIDES)
    def exchange(self, side: str) -> None:
        first, second = (self.stores[name] for name in (side, "laptop" if side == "desk" else "desk"))
        sync(first, second)

    @rule(side=SIDES)
    def use_folder(self, side: str) -> None:
        sync(self.stores[side], self.folder / "shared")

    @rule(side=SIDES, at=st.integers(0, 5), folder=st.booleans())
    def be_killed(self, side: str, at: int, folder: bool) -> None:
        first, second = (self.stores[name] for name in (side, "laptop" if side == "desk" else "desk"))
        calls = itertools.count()

        def dying(work: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if next(calls) == at:
                    raise Killed
                return work(*args, **kwargs)

            return call

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(syncing._LocalSide, "apply", dying(syncing._LocalSide.apply))
            patch.setattr(syncing._Position, "save", dying(syncing._Position.save))
            patch.setattr(syncing, "_write_pages", dying(syncing._write_pages))
            with contextlib.suppress(Killed):
                sync(first, self.folder / "shared" if folder else second)

    @invariant()
    def what_was_forgotten_stays_away(self) -> None:
        for memory in getattr(self, "stores", {}).values():
            if not self.forgotten:
                return
            keys = [record.key for record in memory.list(limit=100) if record.key is not None]
            assert len(keys) == len(set(keys))


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_both_wordings_are_kept_and_the_conflict_is_listed(tmp_path: Path) -> None:
    with opened(tmp_path / "desk.db") as desk, opened(tmp_path / "laptop.db") as laptop:
        id = desk.remember("The meeting is on Monday.").id or ""
        assert sync(desk, laptop).sent == 1
        desk.update(id, "The meeting is on Tuesday.")
        laptop.update(id, "The meeting is on Friday.")
        report = sync(desk, laptop)
        assert (report.sent, report.received, report.conflicts) == (1, 1, 1)
        for memory in (desk, laptop):
            assert [version.content for version in memory.history(id)] == [
                "The meeting is on Monday.", "The meeting is on Tuesday.", "The meeting is on Friday.",
            ]  # fmt: skip
        (item,) = desk.review.list()
        assert (item.id, item.flag) == (id, "conflict")
        desk.review.resolve(item.number, "correct", content="The meeting is on Tuesday, in Porto.")
        assert sync(laptop, desk).conflicts == 0
        assert laptop.get(id).content == "The meeting is on Tuesday, in Porto."
        assert {"sync"} <= {row.verb for row in laptop.audit()}
        assert sync(desk, laptop).sent == 0


def test_two_values_of_one_key_leave_the_later_one_and_archive_the_other(tmp_path: Path) -> None:
    with opened(tmp_path / "desk.db") as desk, opened(tmp_path / "laptop.db") as laptop:
        desk.set("city", "Porto")
        laptop.set("city", "Lisbon")
        sync(desk, laptop)
        for memory in (desk, laptop):
            assert memory.value("city") == "Lisbon"
            assert [archived.record.content for archived in memory.upkeep.archived()] == ["Porto"]
        assert sync(desk, laptop).conflicts + sync(laptop, desk).conflicts > 0


def test_forgetting_travels_with_what_was_derived_and_leaves_no_bytes(tmp_path: Path) -> None:
    with opened(tmp_path / "desk.db") as desk, opened(tmp_path / "laptop.db") as laptop:
        (tmp_path / "shared").mkdir()
        desk.conversation("talk").add("user", "My name is Quillfeather.")
        desk.learn("I live in Quillfeather Lane.", session="talk")
        desk.remember("The safe opens with Quillfeather.", key="safe", source="web:page")
        id = desk.remember("The safe is in the hall.", key="safe").id or ""
        for _ in range(2):
            for memory in (desk, laptop):
                sync(memory, tmp_path / "shared")
        assert state(desk) == state(laptop)
        laptop.forget(session="talk")
        laptop.forget(source="web:page")
        for _ in range(2):
            for memory in (laptop, desk):
                sync(memory, tmp_path / "shared")
        assert state(desk) == state(laptop)
        assert [version.content for version in desk.history(id)] == ["The safe is in the hall."]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"Quillfeather" not in path.read_bytes(), path


def test_a_file_that_is_not_whole_yet_waits(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with opened(tmp_path / "desk.db") as desk, opened(tmp_path / "laptop.db") as laptop:
        desk.remember("Dana drinks tea.")
        sync(desk, shared)
        (file,) = shared.iterdir()
        content = file.read_bytes()
        file.write_bytes(content[:-20])
        assert (sync(laptop, shared).waiting, len(laptop.list())) == (1, 0)
        file.write_bytes(content)
        assert (sync(laptop, shared).received, len(laptop.list())) == (1, 1)
        other = opened(tmp_path / "laptop.db").with_scope(user="omar")
        assert sync(other, shared).received == 0, "another scope has files of its own"
        desk._engine.transfer._encrypted = True
        with pytest.raises(ConfigurationError, match="plaintext"):
            sync(desk, shared)
        with pytest.raises(ConfigurationError, match="is the store itself"):
            sync(desk, tmp_path / "desk.db")


def test_a_server_and_the_rights_of_its_keys(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "desk.db") as desk,
        Memory.open(tmp_path / "there.db", embedder="none") as there,
        running(there) as server,
    ):
        mine = desk.remember("Dana drinks tea.").id or ""
        with Client(server.url, server.key("dana", rights=("read", "write", "forget"))) as client:
            theirs = client.remember("Dana lives in Porto.").id or ""
            report = sync(desk, client)
            assert (report.sent, report.received) == (1, 1)
            assert {record.id for record in client.list()} == {record.id for record in desk.list()} == {mine, theirs}
            client.forget(mine)
            desk.update(theirs, "Dana lives in Lisbon.")
            assert sync(desk, client).forgotten == 1
            assert [record.content for record in client.list()] == ["Dana lives in Lisbon."]
            assert desk.get(mine) is None
            cursor = client._request("GET", "/v1/sync")["cursor"]
        with Client(server.url, server.key("omar")) as client:
            own = client.remember("Omar has a boat.").id
            page = client._request("GET", "/v1/sync", {"cursor": cursor})
            assert [record["id"] for record in page["records"]] == [own], "a cursor of another scope means nothing"
        for given in ({"rights": ("read", "write")}, {"agent": "helper", "rights": ("read", "write", "forget")}):
            desk.remember(f"Dana knows {len(given)}.")
            with Client(server.url, server.key("eve", **given)) as client, pytest.raises(Forbidden):
                sync(desk, client)


def test_a_killed_command_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill -9 at random instants of the time that the command takes."""
    with opened(tmp_path / "desk.db") as desk, opened(tmp_path / "laptop.db") as laptop:
        for memory, what in ((desk, "Parcel"), (laptop, "Letter")):
            for start in range(0, 600, 100):
                memory.remember_many([f"{what} {at * 7919} went to street {at * 104729}." for at in range(start, start + 100)])
    stores = [str(tmp_path / "laptop.db"), "--db", str(tmp_path / "desk.db")]
    command = [sys.executable, "-m", "keepstone", "sync", *stores, "--user", "dana", "--embedder", "none", "--json"]
    choose, killed = random.Random(3), 0
    for _ in range(8):
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            process.communicate(timeout=choose.uniform(0.4, 2.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
    assert killed, "no command was killed"
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with opened(tmp_path / "desk.db") as desk, opened(tmp_path / "laptop.db") as laptop:
        assert len(state(desk)) == 1200
        assert state(desk) == state(laptop)
        assert desk.upkeep.doctor().healthy
        assert laptop.upkeep.doctor().healthy
