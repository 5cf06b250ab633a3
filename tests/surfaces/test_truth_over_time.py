"""What was true and what was known, at every time: random edits are replayed against a simple model, and every past view of the
store is held against it. Nothing that was written is overwritten, and what is forgotten is in no view."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone import KeepstoneError, Memory
from keepstone.errors import ValidationError
from tests.surfaces.support import FACTS, START, Clock, contents, timed

DAY = timedelta(days=1)
FAR = datetime(9998, 1, 1, tzinfo=START.tzinfo)
KINDS = ("fact", "note", "value", "message", "episode", "summary")
PLAIN = FACTS[::31]  # no two of them about the same
KEYS = ("home", "work", "diet")


@dataclass(frozen=True, slots=True)
class Said:
    """One version: what it says, since when that holds, since when it is known, until when it is to be believed."""

    content: str
    valid_from: datetime
    known_from: datetime
    expires: datetime | None = None


@dataclass(slots=True)
class Thing:
    """One record of the model."""

    id: str
    kind: str
    key: str | None
    versions: list[Said]
    archived: datetime | None = None
    blurred: bool = False  # it came back, or was extended: what is shown of the time before is not said here

    @property
    def last(self) -> Said:
        return self.versions[-1]

    def expired(self, now: datetime) -> bool:
        return self.last.expires is not None and self.last.expires <= now

    def seen(self, as_of: datetime | None, known_at: datetime | None, now: datetime) -> tuple[str, int] | None:
        """(content, version) as it was true then, as far as it was known then; None where it is not shown."""
        if as_of is None and known_at is None:
            shown = self.archived is None and not self.expired(now)
            return (self.last.content, len(self.versions)) if shown else None
        until, known = as_of or FAR, known_at or FAR
        held = [at for at, each in enumerate(self.versions) if each.known_from <= known and each.valid_from <= until]
        if not held or (self.archived is not None and self.archived <= min(until, known)):
            return None
        found = self.versions[held[-1]]
        over = found.expires is not None and found.expires <= (as_of or known_at or now)
        return None if over else (found.content, held[-1] + 1)


@dataclass(slots=True)
class Model:
    """What a store should hold, by hand."""

    things: list[Thing] = field(default_factory=list)

    def active(self) -> list[Thing]:
        return [each for each in self.things if each.archived is None]

    def same(self, content: str, kind: str, key: str | None) -> Thing | None:
        """The active one that a new memory repeats, or whose key it takes."""
        for each in self.active():
            if each.key == key and (key is not None or (each.kind, each.last.content) == (kind, content) != ("message", content)):
                return each
        return None


class Life:
    """Random edits of one memory and of its model."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.clock = Clock()
        self.memory = timed(path, self.clock, embedder="none", settings={"extract": False})
        self.chance = chance
        self.model = Model()
        self.instants = [START - 40 * DAY]
        self.forgotten: list[tuple[str, str]] = []
        self._new = iter(range(10**6))

    def step(self, edit: str) -> None:
        self.clock.forward(hours=self.chance.choice((1, 7, 30, 200)))
        getattr(self, edit)()
        self.instants.append(self.clock.at)

    def _since(self) -> datetime | None:
        return self.chance.choice((None, None, self.clock.at - self.chance.randint(1, 40) * DAY))

    def remember(self) -> None:
        self._remember(self.chance.choice(PLAIN), self.chance.choice(KINDS), None)

    def say_again(self) -> None:
        plain = [each for each in self.model.active() if each.key is None and each.kind != "message"]
        if plain:
            thing = self.chance.choice(plain)
            self._remember(thing.last.content, thing.kind, None)

    def remember_key(self) -> None:
        self._remember(f"{next(self._new)} {self.chance.choice(PLAIN)}", "fact", self.chance.choice(KEYS))

    def set_value(self) -> None:
        key, value = f"setting {self.chance.randint(1, 2)}", next(self._new)
        receipt = self.memory.set(key, value)
        self._written(receipt, str(value), "value", key, None, None)

    def _remember(self, content: str, kind: str, key: str | None) -> None:
        ttl = self.chance.choice((None, None, None, 5 * DAY, 20 * DAY))
        since = self._since()
        if kind == "message":
            said = {"role": "user", "content": content, **({"at": since} if since else {})}
            self._written(self.memory.ingest([said], session="s")[0], content, kind, None, since, None)
            return
        receipt = self.memory.remember(content, kind=kind, key=key, ttl=ttl, occurred_at=since)
        self._written(receipt, content, kind, key, since, ttl)

    def _written(self, receipt: Any, content: str, kind: str, key: str | None, since: Any, ttl: Any) -> None:
        now = self.clock.at
        new = Said(content, since or now, now, None if ttl is None else now + ttl)
        held = None if kind == "message" else self.model.same(content, kind, key)
        if held is not None and held.expired(now):
            held.archived, held = now, None  # it has run out; another takes its place
        if held is None:
            assert receipt.action == "added", receipt
            self.model.things.append(Thing(receipt.id, kind, key, [new]))
        elif held.last.content == content:
            assert (receipt.action, receipt.id) == ("duplicate", held.id)
            longest = None if None in (held.last.expires, new.expires) else max(held.last.expires, new.expires)  # type: ignore[type-var]
            if longest != held.last.expires:
                held.versions[-1] = replace(held.last, expires=longest)
                held.blurred = True
        else:
            assert (receipt.action, receipt.id) == ("superseded", held.id)
            held.versions.append(new)

    def reword(self) -> None:
        """The same in other words: one record, both wordings in its history."""
        plain = [each for each in self.model.active() if each.key is None and each.kind in ("fact", "note")]
        plain = [each for each in plain if each.last.expires is None and each.last.content.endswith(".")]
        if plain:
            thing, now = self.chance.choice(plain), self.clock.at
            wording = thing.last.content.rstrip(".")
            since = self._since() or now
            receipt = self.memory.remember(wording, kind=thing.kind, occurred_at=since)
            assert (receipt.action, receipt.id) == ("merged", thing.id), (receipt, thing)
            kept = self.memory.get(thing.id)
            assert kept is not None
            if kept.content == wording:
                thing.versions.append(replace(thing.last, content=wording, known_from=now))
            else:  # the old wording stays, the new one is only noted
                last = thing.last
                thing.versions += [Said(wording, since, now), replace(last, known_from=now)]

    def update(self) -> None:
        self._update(None)

    def correct(self) -> None:
        """It has been otherwise for some time, as is known only now."""
        self._update(self.clock.at - self.chance.randint(1, 60) * DAY)

    def _update(self, since: datetime | None) -> None:
        if self.model.active():
            thing, now = self.chance.choice(self.model.active()), self.clock.at
            content = f"{next(self._new)}: {self.chance.choice(PLAIN)}"
            receipt = self.memory.update(thing.id, content, occurred_at=since)
            assert receipt.action == "updated"
            thing.versions.append(Said(content, since or now, now, thing.last.expires))

    def weigh(self) -> None:
        """Another importance is another version that says the same."""
        if self.model.active():
            thing = self.chance.choice(self.model.active())
            self.memory.update(thing.id, importance=0.6 + next(self._new) / 10**6)
            thing.versions.append(replace(thing.last, known_from=self.clock.at))

    def archive(self) -> None:
        if self.model.active():
            thing = self.chance.choice(self.model.active())
            assert self.memory._engine.store.retention.archive(self.memory.scope, [thing.id], "retired")[0] == 1
            thing.archived = self.clock.at

    def restore(self) -> None:
        away = [each for each in self.model.things if each.archived is not None]
        if away:
            thing = self.chance.choice(away)
            taken = thing.kind != "message" and self.model.same(thing.last.content, thing.kind, thing.key) is not None
            assert self.memory.upkeep.restore([thing.id]) == (0 if taken else 1)
            if not taken:
                thing.archived, thing.blurred = None, True
                if thing.expired(self.clock.at):
                    thing.versions[-1] = replace(thing.last, expires=None)

    def forget(self) -> None:
        if self.model.things:
            thing = self.chance.choice(self.model.things)
            self.memory.forget(thing.id)
            self.model.things.remove(thing)
            self.forgotten.append((thing.id, thing.last.content))

    # -- checks ---------------------------------------------------------------------------------------------------
    def check(self) -> None:
        chance, now = self.chance, self.clock.at
        chosen = chance.sample(self.instants, min(8, len(self.instants)))
        times = [min(now, each + chance.choice((-1, 0, 1)) * timedelta(minutes=1)) for each in chosen]
        views = [(None, None), *((at, None) for at in times), *((None, at) for at in times)]
        views += [(true, known) for true in times for known in times]
        for as_of, known_at in views:
            self._check_view(as_of, known_at)
        for thing in self.model.things:
            past = self.memory.history(thing.id)
            assert [each.content for each in past] == [each.content for each in thing.versions], "every version, in order"
            assert [each.valid_from for each in past] == [each.valid_from for each in thing.versions]
            assert [each.version for each in past] == list(range(1, len(past) + 1))
        for id, _ in self.forgotten:
            assert self.memory.get(id) is None
            with pytest.raises(KeepstoneError):
                self.memory.history(id)

    def _check_view(self, as_of: datetime | None, known_at: datetime | None) -> None:
        hits = self.memory.recall("What is there?", as_of=as_of, known_at=known_at, min_similarity=0, limit=100)
        shown = {hit.id: (hit.content, hit.record.version) for hit in hits}
        assert len(shown) == len(hits)
        past = as_of is not None or known_at is not None
        known = {each.id: each for each in self.model.things}
        assert set(shown) <= set(known), "what was forgotten is in no view"
        for id, thing in known.items():
            if not (past and thing.blurred):
                assert shown.get(id) == thing.seen(as_of, known_at, self.clock.at), (thing, as_of, known_at)


EDITS = (
    "remember", "remember", "remember", "say_again", "remember_key", "remember_key", "set_value", "reword", "update", "correct",
    "weigh", "archive", "restore", "forget",
)  # fmt: skip


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), edits=st.lists(st.sampled_from(EDITS), min_size=5, max_size=40))
def test_every_past_view_is_as_the_model_has_it(seed: int, edits: list[str]) -> None:
    with TemporaryDirectory() as folder:
        life = Life(Path(folder) / "memory.db", random.Random(seed))
        with life.memory:
            for edit in edits:
                life.step(edit)
            life.clock.forward(days=1)
            life.check()
            assert life.memory.upkeep.doctor().healthy
            assert life.memory.audit.verify().whole


# -- by example ---------------------------------------------------------------------------------------------------
@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(path: Path, clock: Clock) -> Iterator[Memory]:
    with timed(path, clock) as opened:
        yield opened


def asked(memory: Memory, **when: Any) -> list[str]:
    """The last words of what is recalled."""
    return sorted(text.split()[-1] for text in contents(memory.recall("Dana", min_similarity=0, limit=100, **when)))


def test_a_correction_changes_the_past_as_known_now_and_not_as_known_then(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Dana lives in Rome").id or ""
    then = clock.forward(days=10)
    clock.forward(days=10)
    memory.update(id, "Dana lives in Oslo", occurred_at=START + 5 * DAY)
    clock.forward(days=10)
    assert asked(memory, as_of=then) == ["Oslo"]
    assert asked(memory, as_of=then, known_at=then) == ["Rome"]
    assert asked(memory, as_of=START + 2 * DAY) == ["Rome"]
    assert asked(memory, known_at=then) == ["Rome"]
    memory.update(id, "Dana lives in Lima", occurred_at=START + 3 * DAY)  # it was neither
    assert asked(memory, as_of=then) == ["Lima"]
    assert asked(memory, as_of=then, known_at=START + 25 * DAY) == ["Oslo"]
    assert [(each.content.split()[-1], each.valid_from) for each in memory.history(id)] == [
        ("Rome", START), ("Oslo", START + 5 * DAY), ("Lima", START + 3 * DAY),
    ]  # fmt: skip


def test_of_a_single_valued_tag_a_subject_has_one_at_a_time(memory: Memory, clock: Clock) -> None:
    def lives(place: str, subject: Any = "Dana Roth", **more: Any) -> Any:
        return memory.remember(f"Dana lives in {place}", tag="city", metadata={"subject": subject}, **more)

    first = lives("Rome")
    clock.forward(days=1)
    second = lives("Oslo", "dana  ROTH")
    assert (second.action, second.id) == ("superseded", first.id)
    assert asked(memory) == ["Oslo"]
    assert asked(memory, as_of=START) == ["Rome"]
    third = lives("Lima", "Omar")
    assert third.action == "added"
    memory.remember("Dana lives in Bonn", tag="city")  # of no person in particular
    memory.remember("Dana likes Graz", tag="hobby", metadata={"subject": "Dana Roth"})
    lives("Turin", ["Dana Roth"])  # not a name
    note = memory.remember("Dana lives in Kiel", tag="city", kind="note", metadata={"subject": "Dana Roth"})
    assert note.action == "added"
    assert asked(memory) == ["Bonn", "Graz", "Kiel", "Lima", "Oslo", "Turin"]
    memory.remember("Dana lives in Nice", key="holiday", tag="city", metadata={"subject": "Dana Roth"})
    assert "Oslo" in asked(memory), "a key of its own goes before the tag's"


def test_a_setting_names_more_single_valued_tags(path: Path, clock: Clock) -> None:
    with timed(path, clock, settings={"single_valued": "car, pet"}) as memory:
        for text in ("drives a Fiat", "drives a Volvo", "lives in Rome", "lives in Oslo"):
            memory.remember(f"Dana {text}", tag="car" if "drives" in text else "city", metadata={"subject": "dana"})
        assert asked(memory) == ["Oslo", "Volvo"]


def test_what_was_learned_later_about_earlier_is_superseded_in_the_order_it_was_learned(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana works at Acme", key="work")
    clock.forward(days=10)
    memory.remember("Dana works at Initech", key="work", occurred_at=START - 10 * DAY)
    assert asked(memory) == ["Initech"]
    assert asked(memory, as_of=START - 5 * DAY) == ["Initech"]
    assert asked(memory, as_of=START - 5 * DAY, known_at=START + 5 * DAY) == []
    assert asked(memory, as_of=START + DAY, known_at=START + 5 * DAY) == ["Acme"]


def test_what_was_put_aside_since_was_there_before(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana keeps bees")
    before = clock.forward(days=400)
    clock.forward(days=1)
    memory.upkeep.age()
    assert asked(memory) == []
    assert asked(memory, as_of=before) == ["bees"]
    assert asked(memory, known_at=before) == ["bees"]
    assert asked(memory, as_of=clock.at) == []
    assert asked(memory, known_at=clock.at) == []


# -- the difference -----------------------------------------------------------------------------------------------
def test_a_diff_tells_what_came_changed_and_went(memory: Memory, clock: Clock) -> None:
    ids = {word: memory.remember(f"Dana likes {word}").id or "" for word in ("tea", "jazz", "chess", "rain")}
    memory.remember("Dana has a day ticket", ttl=DAY)
    since = clock.forward(hours=1)
    clock.forward(days=2)
    memory.update(ids["tea"], "Dana likes green tea")
    memory.forget(ids["jazz"])
    memory._engine.store.retention.archive(memory.scope, [ids["chess"]], "retired")
    memory.remember("Dana paints", kind="note")
    until = clock.forward(days=1)
    clock.forward(days=1)
    memory.update(ids["rain"], "Dana likes snow")
    found = memory.audit.diff(since, until)
    assert (found.since, found.until, found.forgotten) == (since, until, 1)
    assert contents(found.added) == ["Dana paints"]
    assert [(each.before.content, each.after.content) for each in found.changed] == [("Dana likes tea", "Dana likes green tea")]
    assert sorted(contents(found.removed)) == ["Dana has a day ticket", "Dana likes chess"]
    assert not any("jazz" in str(part) for part in (found.added, found.changed, found.removed))
    assert contents(memory.audit.diff(since, until, kinds=["note"]).added) == ["Dana paints"]


def test_a_diff_of_nothing_and_one_the_wrong_way_round(memory: Memory, clock: Clock) -> None:
    memory.remember("Dana keeps bees")
    later = clock.forward(days=1)
    quiet = memory.audit.diff(later)
    assert (quiet.added, quiet.changed, quiet.removed, quiet.forgotten) == ((), (), (), 0)
    assert contents(memory.audit.diff(START - DAY, START).added) == ["Dana keeps bees"]
    with pytest.raises(ValidationError, match="lies before since"):
        memory.audit.diff(later, START)


def test_a_diff_is_of_what_was_known_and_not_of_what_was_true(memory: Memory, clock: Clock) -> None:
    id = memory.remember("Dana lives in Rome").id or ""
    before = clock.forward(days=5)
    clock.forward(days=5)
    memory.update(id, "Dana lives in Oslo", occurred_at=START + DAY)
    assert memory.audit.diff(START, before).changed == ()
    (change,) = memory.audit.diff(before).changed
    assert (change.before.content, change.after.content) == ("Dana lives in Rome", "Dana lives in Oslo")
    assert memory.with_scope(user="omar").audit.diff(START).added == ()
