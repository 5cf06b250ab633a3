"""What forgetting promises of what was derived: it goes with its roots, unless it was said elsewhere too."""

from __future__ import annotations

import pytest

from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NOON,
    NeedsStore,
    add,
    add_id,
    at,
    contents,
    draft,
    healthy,
    learned,
    message,
    past,
    present,
    vector,
)
from keepstone.text import times
from keepstone.text.words import record_terms


class LineageContract(NeedsStore):
    def test_what_was_learned_goes_with_its_message(self, bound: Store) -> None:
        first, second = message(bound, "I moved"), message(bound, "to Oslo")
        for _ in range(3):  # the same again is no second support
            fact = learned(bound, "lives in zanzibar", first, second, session="s1")
        other = learned(bound, "speaks", second, session="s1")
        gone, seen = [at(bound, first), at(bound, fact)], bound.changes(HOME, 0).latest
        receipt = bound.forget(HOME, Selector(id=first))
        assert set(receipt.ids) == {first, fact}
        assert (receipt.forgotten, receipt.places["records"], receipt.places["derived"]) == (2, 2, 1)
        assert sorted(bound.changes(HOME, seen).removed) == gone
        assert present(bound, other).parents == (second,)
        assert bound.search_words(HOME, ["zanzibar"], 9) == []
        assert bound.history(HOME, fact) is None
        healthy(bound)

    def test_a_chain_goes_to_its_end(self, bound: Store) -> None:
        said = message(bound, "a")
        summary, another = (learned(bound, text, said, kind="summary", session="s1") for text in ("summary", "another summary"))
        fact = learned(bound, "fact of the summary", summary)
        last = learned(bound, "fact of the fact", fact)
        stays = learned(bound, "apart", message(bound, "b", "s2"))
        receipt = bound.forget(HOME, Selector(id=said))
        assert set(receipt.ids) == {said, summary, another, fact, last}
        assert (receipt.places["summaries"], receipt.places["derived"]) == (2, 2)
        assert receipt.summarised == ("s1",), "once, however many summaries went"
        assert bound.get(HOME, stays) is not None
        healthy(bound)

    def test_no_cascade_crosses_a_scope(self, bound: Store) -> None:
        root = add_id(bound, "root")
        learned(bound, "theirs", root, scope=AWAY)
        rows = [ImportRow(archive, record_terms(archive.record.content, None), None) for archive in bound.export_records(HOME)]
        assert bound.import_records(AWAY, rows) == (1, 0)
        assert bound.forget(HOME, Selector(id=root)).ids == (root,)
        assert contents(bound, AWAY) == ["root", "theirs"]
        assert bound.forget(AWAY, Selector(id=root)).forgotten == 2

    def test_archived_and_quarantined_records_go_too(self, bound: Store) -> None:
        root = add_id(bound, "root")
        archived = learned(bound, "put away", root)
        held = add(bound, "held", parents=(root,), status="quarantined").id
        bound.retention.archive(HOME, [archived])
        assert set(bound.forget(HOME, Selector(id=root)).ids) == {root, archived, held}
        assert bound.reviews.list(HOME) == []
        assert list(bound.export_records(HOME)) == []
        healthy(bound)

    def test_what_it_counts(self, bound: Store) -> None:
        root = add_id(bound, "root", key="k")
        add(bound, "root two", key="k")
        waiting = learned(bound, "waits for its vector", root, vector=None)
        bound.touch(HOME, {at(bound, root): 2, at(bound, waiting): 1}, NOON)
        add(bound, "with a receipt")
        bound.write(HOME, [Write(draft("answered", parents=(root,)), idempotency_key="i", fingerprint="f")])
        places = bound.forget(HOME, Selector(id=root)).places
        wanted = {"records": 3, "words": 3, "vectors": 2, "versions": 1, "reads": 2, "derived": 2, "receipts": 1}
        assert {name: count for name, count in places.items() if count} == wanted

    def test_a_present_version_gives_way_to_the_one_before(self, bound: Store) -> None:
        city = add_id(bound, "Rome", key="city")
        said = message(bound, "I moved to Oslo")
        learned(bound, "Oslo", said, key="city")
        seen = bound.changes(HOME, 0).latest
        assert set(bound.forget(HOME, Selector(id=said)).ids) == {said, city}
        assert (present(bound, city).content, present(bound, city).parents) == ("Rome", ())
        assert "Oslo" not in [version.content for version in past(bound, city)]
        assert bound.document_frequencies(HOME, ["rome", "oslo"]) == [1, 0]
        assert bound.changes(HOME, seen).rows.sequences.tolist() == [at(bound, city)]
        assert bound.search_vectors(HOME, vector("Rome"), 1) == [at(bound, city)]
        healthy(bound)

    @pytest.mark.parametrize("by_session", [False, True])
    @pytest.mark.parametrize("changed", [False, True])
    def test_learned_from_two_messages(self, bound: Store, by_session: bool, changed: bool) -> None:
        first, second = message(bound, "tea"), message(bound, "tea!", "s2")
        fact = learned(bound, "likes tea", first, session="s1")
        assert learned(bound, "likes tea", second, session="s2") == fact
        if changed:
            bound.revise(HOME, fact, Revision(metadata={"a": 1}))
        seen = bound.changes(HOME, 0).latest
        keep = not by_session and changed  # what is kept names the support that is left
        gone = Selector(session="s1") if by_session else Selector(id=first, keep_facts=keep)
        assert bound.forget(HOME, gone).ids == (first,)
        assert (present(bound, fact).parents, present(bound, fact).session) == ((second,), "s2")
        assert present(bound, fact).metadata == ({"a": 1} if changed else {})
        assert bound.changes(HOME, seen).rows.sessions == ["s2"]
        assert set(bound.forget(HOME, Selector(session="s2") if by_session else Selector(id=second)).ids) == {second, fact}
        healthy(bound)

    def test_what_was_learned_can_stay(self, bound: Store) -> None:
        said = message(bound, "tea")
        summary = learned(bound, "summary", said, kind="summary", session="s1")
        fact, note = learned(bound, "likes tea", said), learned(bound, "note", summary, kind="note")
        receipt = bound.forget(HOME, Selector(session="s1", kind="message", keep_facts=True))
        assert set(receipt.ids) == {said, summary}
        assert (receipt.places["summaries"], receipt.summarised) == (1, ("s1",))
        for id in (fact, note):
            assert present(bound, id).parents == ()
        assert bound.forget(HOME, Selector(session="s1")).forgotten == 0
        assert bound.count(HOME) == 2
        healthy(bound)

    def test_jobs_lose_what_was_forgotten(self, bound: Store) -> None:
        first, second = message(bound, "a"), message(bound, "b")
        bound.jobs.add(HOME, JobDraft("both", "s1", times.now(), 9), [first, second])
        bound.jobs.add(HOME, JobDraft("one", None, times.now(), 9), [first])
        bound.jobs.add(AWAY, JobDraft("both", "s1", times.now(), 9), [first])
        receipt = bound.forget(HOME, Selector(id=first))
        assert receipt.places["jobs"] == 2
        assert [(job.scope, job.kind, job.ids) for job in bound.jobs.list()] == [
            (HOME, "both", (second,)),
            (AWAY, "both", (first,)),
        ]
