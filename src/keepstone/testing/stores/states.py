"""What `states` promises: texts under names that go with what they were made from; and what `written` counts."""

from __future__ import annotations

import pytest

from keepstone.ports.queue import EVERY_SESSION
from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector
from keepstone.testing.builders import AWAY, HOME, NeedsStore, add, add_id, contents, wording
from keepstone.types import Scope

NAMES = ("of s", "of t", "of all", "of none")


def derived(store: Store, scope: Scope = HOME) -> list[str]:
    """Two conversations of two messages, and a state made from each, one from both, one from neither; the messages' ids."""
    said = [
        add_id(store, f"{session} {source}", scope, kind="message", session=session, source=source)
        for session in ("s", "t")
        for source in ("user", f"tool:{session}")
    ]
    for name, session in zip(NAMES, ("s", "t", EVERY_SESSION, None), strict=True):
        store.states.put(scope, name, f"text {name}", session=session)
    return said


def left(store: Store, scope: Scope = HOME) -> list[str]:
    """Which of those states are still there."""
    return [name for name in NAMES if store.states.get(scope, name) is not None]


class StatesContract(NeedsStore):
    def test_a_state_is_kept_exactly_and_overwritten(self, bound: Store) -> None:
        assert bound.states.get(HOME, "plan") is None
        for value in ("first", "", "naïve 😀\n\t\"'\\ \u2028", "long " * 20_000, "0", '{"a":1}'):
            bound.states.put(HOME, "plan", value)
            assert bound.states.get(HOME, "plan") == value
        assert [bound.states.get(HOME, name) for name in ("Plan", "plan ", "", "%")] == [None] * 4

    def test_a_state_is_dropped_once(self, bound: Store) -> None:
        bound.states.put(HOME, "plan", "tea")
        bound.states.put(HOME, "plan b", "coffee")
        assert [bound.states.drop(HOME, "plan"), bound.states.drop(HOME, "plan")] == [True, False]
        assert [bound.states.get(HOME, name) for name in ("plan", "plan b")] == [None, "coffee"]
        bound.states.put(HOME, "plan", "again")
        assert bound.states.get(HOME, "plan") == "again"

    def test_states_of_scopes_are_kept_apart(self, bound: Store) -> None:
        bound.states.put(HOME, "plan", "mine", session="s")
        assert bound.states.get(AWAY, "plan") is None
        assert bound.states.drop(AWAY, "plan") is False
        bound.states.put(AWAY, "plan", "theirs", session="s")
        assert [bound.states.get(scope, "plan") for scope in (HOME, AWAY)] == ["mine", "theirs"]
        add(bound, "hello", AWAY, kind="message", session="s")
        bound.forget(AWAY, Selector(session="s"))
        assert [bound.states.get(scope, "plan") for scope in (HOME, AWAY)] == ["mine", None]

    def test_a_state_is_no_memory(self, bound: Store) -> None:
        bound.states.put(HOME, "plan", "zanzibar", session="s")
        assert (bound.count(HOME), contents(bound), list(bound.export_records(HOME))) == (0, [], [])
        assert bound.search_words(HOME, ["zanzibar"], 9) == []
        assert bound.message_log.count(HOME, None) == 0

    @pytest.mark.parametrize("by", ["id", "source", "session", "session and kind"])
    def test_states_go_with_a_message_they_were_made_from(self, bound: Store, by: str) -> None:
        said = derived(bound)
        match by:
            case "id":
                selector = Selector(id=said[0])
            case "source":
                selector = Selector(source="tool:s")
            case "session":
                selector = Selector(session="s")
            case _:
                selector = Selector(session="s", kind="message")
        assert bound.forget(HOME, selector).forgotten == (2 if "session" in by else 1)
        assert left(bound) == ["of t", "of none"]

    def test_a_source_in_several_sessions_takes_the_states_of_all_of_them(self, bound: Store) -> None:
        derived(bound)
        bound.forget(HOME, Selector(source="tool"))
        assert left(bound) == ["of none"]

    def test_states_stay_when_no_message_of_theirs_goes(self, bound: Store) -> None:
        derived(bound)
        derived(bound, AWAY)
        fact = add_id(bound, "a fact", session="s", key="k", source="web")
        add(bound, "another fact", session="s")
        for selector in (
            Selector(id="no such"),
            Selector(session="no such"),
            Selector(id=fact),
            Selector(source="web"),
            Selector(key="k"),
        ):
            bound.forget(HOME, selector)
            assert left(bound) == list(NAMES), selector
        bound.forget(AWAY, Selector(session="s"))
        assert (left(bound), left(bound, AWAY)) == (list(NAMES), ["of t", "of none"])

    def test_states_go_when_a_message_is_reworded(self, bound: Store) -> None:
        said = derived(bound)
        for revision in (Revision(importance=0.9), Revision(metadata={"a": 1}), wording("s user")):
            bound.revise(HOME, said[0], revision)
            assert left(bound) == list(NAMES), revision
        assert bound.revise(HOME, said[0], wording("quite other words")).action == "updated"
        assert left(bound) == ["of t", "of none"]

    def test_states_stay_when_a_fact_of_the_session_is_reworded(self, bound: Store) -> None:
        derived(bound)
        bound.revise(HOME, add_id(bound, "a fact", session="s"), wording("another fact"))
        assert left(bound) == list(NAMES)

    def test_all_states_go_with_everything(self, bound: Store) -> None:
        derived(bound)
        derived(bound, AWAY)
        assert bound.forget(HOME, Selector(everything=True)).forgotten == 4
        assert (left(bound), left(bound, AWAY)) == ([], list(NAMES))

    def test_everything_takes_states_where_there_is_nothing_else(self, bound: Store) -> None:
        bound.states.put(HOME, "of none", "text")
        assert bound.forget(HOME, Selector(everything=True)).forgotten == 0
        assert left(bound) == []

    def test_a_state_is_put_only_over_what_was_expected(self, bound: Store) -> None:
        assert bound.states.put(HOME, "name", "first")
        assert not bound.states.put(HOME, "name", "second", expected="other")
        assert not bound.states.put(HOME, "new", "second", expected="first")
        assert (bound.states.get(HOME, "name"), bound.states.get(HOME, "new")) == ("first", None)
        assert bound.states.put(HOME, "name", "second", expected="first")
        assert bound.states.get(HOME, "name") == "second"

    def test_a_new_state_is_put_only_where_there_is_none(self, bound: Store) -> None:
        assert bound.states.put(HOME, "name", "first", new=True)
        assert not bound.states.put(HOME, "name", "second", new=True)
        assert bound.states.get(HOME, "name") == "first"
        assert bound.states.put(AWAY, "name", "theirs", new=True)

    def test_a_state_is_put_only_while_what_it_was_made_from_is_as_it_was(self, bound: Store) -> None:
        id = add_id(bound, "said", kind="message", session="s")
        assert bound.states.put(HOME, "name", "first", made_from=[(id, 1)])
        assert not bound.states.put(HOME, "name", "second", made_from=[(id, 2)])
        assert not bound.states.put(HOME, "name", "second", made_from=[(id, 1), ("no such", 1)])
        bound.forget(HOME, Selector(id=id))
        assert not bound.states.put(HOME, "name", "second", made_from=[(id, 1)])
        assert bound.states.get(HOME, "name") == "first"

    def test_the_session_of_a_state_is_that_of_its_last_put(self, bound: Store) -> None:
        said = derived(bound)
        bound.states.put(HOME, "of s", "made anew from t", session="t")
        bound.states.put(HOME, "of all", "made anew from nothing")
        bound.forget(HOME, Selector(id=said[0]))
        assert left(bound) == list(NAMES)
        bound.forget(HOME, Selector(session="t"))
        assert left(bound) == ["of all", "of none"]
