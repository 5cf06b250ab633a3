"""Random operations on a store against a dictionary that does the same.

`store_machine(open_store)` gives a hypothesis state machine; its `.TestCase` is what pytest runs. `open_store(name)`
opens the store of that name, creating it on first use: the machine closes and opens it again in mid-run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from keepstone.errors import Conflict, NotFound
from keepstone.ports.stores import Store
from keepstone.ports.values import Draft, ListQuery, Revision, Selector, Write
from keepstone.testing.builders import (
    DIMENSION,
    EMBEDDER,
    LONG_AGO,
    NOON,
    Row,
    at,
    contents,
    draft,
    past,
    present,
    row_of,
    unpacked,
    vector,
)
from keepstone.text.words import record_terms
from keepstone.types import MESSAGE, Receipt, Scope

SCOPES = [Scope("local", "default", "dana"), Scope("local", "default", "erik"), Scope("other", "default", "dana")]
ODD_JOBS = count()

scopes = st.sampled_from(SCOPES)
texts = st.sampled_from(["tea", "Tea", "milk and honey", "Rome", "'; drop table record; --", "🎉 日本", "not now"])
kinds = st.sampled_from(["fact", "note", MESSAGE])
tags = st.sampled_from(["general", "home"])
keys = st.sampled_from([None, None, None, "city", "drink"])
sources = st.sampled_from(["user", "web", "web:a", "website"])
sessions = st.sampled_from([None, "s1", "s2"])
importances = st.sampled_from([0.0, 0.25, 1.0])
metadata = st.sampled_from([{}, {"n": 1}, {"n": {"m": [None, "x"]}}])
picks = st.integers(0, 1000)


class StoreMachine(RuleBasedStateMachine):
    """The rules; `open_store` is set by `store_machine`."""

    open_store: Callable[[str], Store]

    def __init__(self) -> None:
        super().__init__()
        self.name = f"run-{next(ODD_JOBS)}"
        self.models = {scope: Model() for scope in SCOPES}
        self.store = self.opened()
        self.id = self.store.id

    def opened(self) -> Store:
        store = type(self).open_store(self.name)
        store.bind_embedder(EMBEDDER, DIMENSION)
        return store

    # -- writing --------------------------------------------------------------------------------------------------
    @rule(scope=scopes, content=texts, kind=kinds, tag=tags, key=keys, source=sources, session=sessions,
          importance=importances, metadata=metadata, expired=st.integers(0, 5), waits=st.booleans())  # fmt: skip
    def write(self, scope: Scope, content: str, expired: int, waits: bool, **rest: Any) -> None:
        if rest["kind"] == MESSAGE:
            rest["key"] = None
        else:
            rest["session"] = None  # what was said in two sessions, and forgotten in one, is the contract of lineage
        made = draft(content, **rest)
        if waits:
            made = replace(made, vector=None)
        if expired == 0 and made.key is None:
            made = replace(made, expires_at=LONG_AGO)
        self.accept(scope, made, self.store.write(scope, [Write(made)])[0])

    def accept(self, scope: Scope, made: Draft, receipt: Receipt) -> None:
        """Do in the dictionary what the store must have done, and compare the receipts."""
        model = self.models[scope]
        holder = next((e for e in model.live() if made.key is not None and e.draft.key == made.key), None)
        same = model.same(made)
        if holder is not None and facts(holder.draft) == facts(made):
            same = [holder]
        if same:
            entry = next(each for each in same if each.id == receipt.id)
            known = entry.draft
            taken = replace(
                known, metadata={**known.metadata, **made.metadata}, importance=max(known.importance, made.importance)
            )
            if facts(taken) != facts(known):
                self.changed(entry, taken)
            assert receipt.action == ("duplicate" if facts(taken) == facts(known) else "merged")
            assert receipt.version == entry.version
        elif holder is not None:
            self.changed(holder, made)
            assert (receipt.action, receipt.id, receipt.version) == ("superseded", holder.id, holder.version)
        else:
            assert (receipt.action, receipt.version) == ("added", 1)
            assert receipt.id is not None
            assert all(receipt.id not in other.entries for other in self.models.values())
            model.entries[receipt.id] = Entry(receipt.id, made)
            sequence = at(self.store, receipt.id, scope)
            assert all(sequence > each for other in self.models.values() for each in other.sequences.values())
            model.sequences[receipt.id] = sequence

    @staticmethod
    def changed(entry: Entry, made: Draft) -> None:
        entry.past.append(entry.draft)
        entry.draft = made
        entry.version += 1

    @rule(scope=scopes, key=st.sampled_from(["k1", "k2"]), content=texts, kind=kinds, beside=texts)
    def write_once(self, scope: Scope, key: str, content: str, kind: str, beside: str) -> None:
        model = self.models[scope]
        made, other = draft(content, kind=kind), draft(beside, kind=MESSAGE)
        fingerprint = f"{kind} {content}"
        known = model.receipts.get(key)
        writes = [Write(other), Write(made, idempotency_key=key, fingerprint=fingerprint)]
        if known is not None and known[0] != fingerprint:
            try:
                self.store.write(scope, writes)
            except Conflict:
                return  # the invariants see to it that the message beside it is not there either
            raise AssertionError(f"{key} was used for another body")
        first, receipt = self.store.write(scope, writes)
        self.accept(scope, other, first)
        if known is None:
            self.accept(scope, made, receipt)
            model.receipts[key] = (fingerprint, receipt)
        assert receipt == model.receipts[key][1]

    @rule(scope=scopes, pick=picks, content=st.none() | texts, importance=st.none() | importances,
          metadata=st.none() | metadata, waits=st.booleans(), expected=st.sampled_from([None, 0, 1, -1]))  # fmt: skip
    def revise(self, scope: Scope, pick: int, content: str | None, waits: bool, expected: int | None, **rest: Any) -> None:
        entry = self.models[scope].pick(pick)
        if entry is None:
            return
        made = replace(entry.draft, **{name: value for name, value in rest.items() if value is not None})
        revision = Revision(**rest, expected_version=None if expected is None else entry.version + expected)
        if content is not None:
            embedding = None if waits else vector(content)
            terms = record_terms(content, entry.draft.key)
            made = replace(made, content=content, terms=terms, vector=embedding)
            revision = replace(revision, content=content, terms=terms, vector=embedding)
        if expected:
            try:
                self.store.revise(scope, entry.id, revision)
            except Conflict:
                return
            raise AssertionError(f"version {entry.version + expected} is not {entry.version}")
        if content not in (None, entry.draft.content) and not entry.expired and self.models[scope].same(made):
            try:
                self.store.revise(scope, entry.id, revision)
            except Conflict:
                return
            raise AssertionError(f"two records would say {content!r}")
        receipt = self.store.revise(scope, entry.id, revision)
        if facts(made) == facts(entry.draft):
            assert (receipt.action, receipt.id, receipt.version) == ("duplicate", entry.id, entry.version)
            return
        if content == entry.draft.content:
            made = replace(made, terms=entry.draft.terms, vector=entry.draft.vector)
        self.changed(entry, made)
        assert (receipt.action, receipt.id, receipt.version) == ("updated", entry.id, entry.version)

    @rule(scope=scopes, picks=st.lists(st.tuples(picks, st.integers(1, 3)), max_size=3))
    def touch(self, scope: Scope, picks: list[tuple[int, int]]) -> None:
        model = self.models[scope]
        chosen = {entry.id: times for pick, times in picks if (entry := model.pick(pick))}
        self.store.touch(scope, {model.sequences[id]: times for id, times in chosen.items()}, NOON)
        for id, times in chosen.items():
            model.entries[id].accesses += times

    @rule(limit=st.integers(1, 5))
    def attach(self, limit: int) -> None:
        waiting = self.store.pending(limit)
        by_sequence = {s: model.entries[id] for model in self.models.values() for id, s in model.sequences.items()}
        expected = [s for s in sorted(by_sequence) if by_sequence[s].draft.vector is None]
        assert [each.sequence for each in waiting] == expected[:limit]
        given = [(each, vector(by_sequence[each.sequence].draft.content)) for each in waiting]
        assert self.store.attach(given) == len(waiting)
        assert self.store.attach([(replace(each, version=each.version + 1), made) for each, made in given]) == 0
        for each, made in given:
            entry = by_sequence[each.sequence]
            entry.draft = replace(entry.draft, vector=made)

    # -- forgetting -----------------------------------------------------------------------------------------------
    @rule(scope=scopes, pick=picks)
    def forget_one(self, scope: Scope, pick: int) -> None:
        entry = self.models[scope].pick(pick)
        self.forgotten(scope, Selector(id=entry.id if entry else "no-such-id"), lambda each: each is entry)

    @rule(scope=scopes, key=st.sampled_from(["city", "drink"]))
    def forget_key(self, scope: Scope, key: str) -> None:
        self.forgotten(scope, Selector(key=key), lambda entry: entry.draft.key == key)

    @rule(scope=scopes, source=sources)
    def forget_source(self, scope: Scope, source: str) -> None:
        """A source is undone: its versions go, and what another source said before shows again."""

        def meant(made: Draft) -> bool:
            return made.source == source or made.source.startswith(source + ":")

        model = self.models[scope]
        touched = {e.id for e in model.entries.values() if any(map(meant, [*e.past, e.draft]))}
        receipt = self.store.forget(scope, Selector(source=source))
        assert set(receipt.ids) == touched
        for entry in [model.entries[id] for id in touched]:
            entry.past = [made for made in entry.past if not meant(made)]
            if not meant(entry.draft):
                continue
            back = replace(entry.past[-1], key=entry.draft.key) if entry.past else None
            if back is None or [each for each in model.same(back) if each is not entry]:
                model.drop({entry.id})
            else:
                entry.draft, entry.version = back, entry.version + 1

    @rule(scope=scopes, session=st.sampled_from(["s1", "s2"]))
    def forget_session(self, scope: Scope, session: str) -> None:
        self.forgotten(scope, Selector(session=session), lambda entry: entry.draft.session == session)

    @rule(scope=scopes, really=st.integers(0, 3))
    def forget_everything(self, scope: Scope, really: int) -> None:
        if really == 0:
            self.forgotten(scope, Selector(everything=True), lambda entry: True)

    def forgotten(self, scope: Scope, selector: Selector, meant: Callable[[Entry], bool]) -> None:
        model = self.models[scope]
        ids = {entry.id for entry in model.entries.values() if meant(entry)}
        receipt = self.store.forget(scope, selector)
        assert receipt.forgotten == len(ids)
        assert set(receipt.ids) == ids
        model.drop(ids)
        for id in ids:
            assert self.store.get(scope, id) is None
            assert self.store.history(scope, id) is None

    # -- reading --------------------------------------------------------------------------------------------------
    @rule(scope=scopes, pick=picks)
    def get(self, scope: Scope, pick: int) -> None:
        if entry := self.models[scope].pick(pick):
            self.compare(scope, entry)

    @rule(scope=scopes, tag=st.none() | tags, kind=st.none() | kinds, limit=st.integers(1, 4), pick=picks)
    def page(self, scope: Scope, tag: str | None, kind: str | None, limit: int, pick: int) -> None:
        model = self.models[scope]
        start = model.pick(pick)
        before = model.sequences[start.id] if start else None
        found = self.store.list(scope, ListQuery(tag=tag, kind=kind, limit=limit, before=before))
        expected = [
            (model.sequences[entry.id], entry.id)
            for entry in reversed(model.live())
            if tag in (None, entry.draft.tag) and kind in (None, entry.draft.kind)
            if before is None or model.sequences[entry.id] < before
        ]
        assert [(sequence, record.id) for sequence, record in found] == expected[:limit]

    @rule(scope=scopes, other=scopes, pick=picks)
    def trespass(self, scope: Scope, other: Scope, pick: int) -> None:
        entry = self.models[other].pick(pick)
        if scope == other or entry is None:
            return
        sequence = self.models[other].sequences[entry.id]
        assert self.store.get(scope, entry.id) is None
        assert self.store.fetch(scope, [sequence]) == [None]
        assert self.store.forget(scope, Selector(id=entry.id)).forgotten == 0
        self.store.touch(scope, {sequence: 1}, NOON)
        try:
            self.store.revise(scope, entry.id, Revision(importance=0.123))
        except NotFound:
            return
        raise AssertionError(f"{scope} changed a record of {other}")

    @rule(scope=scopes)
    def follow(self, scope: Scope) -> None:
        """A reader catches up from where it was; what it holds then is what there is."""
        model = self.models[scope]
        changes = self.store.changes(scope, model.latest)
        rows = unpacked(changes.rows)
        assert changes.latest >= model.latest
        assert not set(rows) & set(changes.removed)
        for sequence in changes.removed:
            model.mirror.pop(sequence, None)
        model.mirror.update(rows)
        model.latest = changes.latest
        assert model.mirror == {
            model.sequences[entry.id]: row_of(present(self.store, entry.id, scope), entry.draft.terms, entry.draft.vector)
            for entry in model.entries.values()
        }

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()
        assert self.store.id == self.id
        assert self.store.embedder() == (EMBEDDER, DIMENSION)

    # -- what always holds ----------------------------------------------------------------------------------------
    def compare(self, scope: Scope, entry: Entry) -> None:
        record = present(self.store, entry.id, scope)
        for name in ("content", "kind", "tag", "key", "importance", "metadata", "source", "session"):
            assert getattr(record, name) == getattr(entry.draft, name), name
        assert record.scope == scope
        assert record.version == entry.version
        assert record.access_count == entry.accesses
        assert record.embedded == (entry.draft.vector is not None)
        versions = past(self.store, entry.id, scope)
        assert [version.content for version in versions] == [draft.content for draft in (*entry.past, entry.draft)]
        assert [version.source for version in versions] == [draft.source for draft in (*entry.past, entry.draft)]
        numbers = [version.version for version in versions]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == entry.version
        known = [version.known_from for version in versions]
        assert known == sorted(known)

    @invariant()
    def every_scope_lists_its_own(self) -> None:
        for scope, model in self.models.items():
            live = model.live()
            assert self.store.count(scope) == len(live)
            assert contents(self.store, scope) == [entry.draft.content for entry in reversed(live)]

    def teardown(self) -> None:
        try:
            for scope, model in self.models.items():
                for entry in model.entries.values():
                    self.compare(scope, entry)
                self.follow(scope)
                for key in ("city", "drink"):
                    found = self.store.by_key(scope, key)
                    expected = [entry.id for entry in model.live() if entry.draft.key == key]
                    assert ([found.id] if found else []) == expected
                terms = ["tea", "rome", "drop", "日本", "not"]
                stored = [set(entry.draft.terms) for entry in model.entries.values() if not entry.expired]
                ever = [set(entry.draft.terms) for entry in model.entries.values()]
                for term, number in zip(terms, self.store.document_frequencies(scope, terms), strict=True):
                    assert sum(term in each for each in stored) <= number <= sum(term in each for each in ever)
            diagnosis = self.store.doctor(record_terms)
            assert diagnosis.healthy, diagnosis.findings
        finally:
            self.store.close()


def store_machine(open_store: Callable[[str], Store]) -> type[StoreMachine]:
    """A state machine for the stores that this opens."""
    return type("StoreMachine", (StoreMachine,), {"open_store": staticmethod(open_store)})


def facts(made: Draft) -> tuple[object, ...]:
    """What has to differ for a write to be a change."""
    return (made.content, made.metadata, made.importance, made.tag, made.kind)


@dataclass
class Entry:
    """What the dictionary holds of a record."""

    id: str
    draft: Draft  # as it is now
    version: int = 1
    past: list[Draft] = field(default_factory=list)
    accesses: int = 0

    @property
    def expired(self) -> bool:
        return self.draft.expires_at is not None


@dataclass
class Model:
    """One scope of the dictionary, and what a reader of `changes` holds of the scope."""

    entries: dict[str, Entry] = field(default_factory=dict)
    receipts: dict[str, tuple[str, Receipt]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    mirror: dict[int, Row] = field(default_factory=dict)
    latest: int = 0

    def live(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if not entry.expired]

    def pick(self, number: int) -> Entry | None:
        entries = list(self.entries.values())
        return entries[number % len(entries)] if entries else None

    def same(self, made: Draft) -> list[Entry]:
        """The records that make this draft a duplicate."""
        if made.kind == MESSAGE or made.key is not None:
            return []
        wanted = (made.content, made.kind, made.tag, None)
        return [e for e in self.live() if (e.draft.content, e.draft.kind, e.draft.tag, e.draft.key) == wanted]

    def drop(self, ids: set[str]) -> None:
        for id in ids:
            del self.entries[id], self.sequences[id]
        self.receipts = {key: each for key, each in self.receipts.items() if each[1].id not in ids}
