"""What was true and what was known, through Memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.surfaces.support import START, Clock, contents, timed


# -- the past -----------------------------------------------------------------------------------------------------
def test_what_was_true_and_what_was_known(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        day = timedelta(days=1)
        memory.remember("Dana lives in Rome.", key="home")
        clock.forward(days=10)
        memory.remember("Dana lives in Oslo.", key="home")
        clock.forward(days=10)
        memory.remember("Dana lives in Lima.", key="home", occurred_at=START + 5 * day)  # known late: it was so since day 5
        clock.forward(days=10)

        def ask(**when: Any) -> list[str]:
            return [text.split()[-1] for text in contents(memory.recall("Where does Dana live?", min_similarity=0, **when))]

        assert ask() == ["Lima."]
        assert ask(as_of=START + 2 * day) == ["Rome."]
        assert ask(as_of=START + 6 * day) == ["Lima."]
        assert ask(as_of=START - day) == []
        assert ask(known_at=START + 2 * day) == ["Rome."]
        assert ask(known_at=START + 12 * day) == ["Oslo."]
        assert ask(as_of=START + 6 * day, known_at=START + 12 * day) == ["Rome."]
        assert ask(as_of=START + 12 * day, known_at=START + 12 * day) == ["Oslo."]
        assert ask(known_at=START - day) == []
        assert ask(as_of=(START + 2 * day).isoformat()) == ["Rome."]
        past = memory.recall("Where does Dana live?", min_similarity=0, as_of=START + 2 * day)[0].record
        assert (past.version, past.valid_from, past.valid_to) == (1, START, START + 5 * day)


def test_updates_and_events_have_a_past_too(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        id = memory.remember("The build takes ten minutes.").id or ""
        memory.remember("The office opened.", occurred_at="2020-01-01")
        later = clock.forward(days=1)
        memory.update(id, "The build takes two minutes.", importance=0.9)
        assert contents(memory.recall("How long is the build?", as_of=START, min_similarity=0.3)) == [
            "The build takes ten minutes."
        ]
        assert contents(memory.recall("How long is the build?", as_of=later)) == ["The build takes two minutes."]
        assert contents(memory.recall("office", as_of="2021-01-01", min_similarity=0)) == ["The office opened."]
        assert not memory.recall("office", as_of="2019-01-01", min_similarity=0)
        assert not memory.recall("office", known_at="2021-01-01", min_similarity=0)


def test_what_expired_since_was_true_then(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("The code word is heron.", ttl=60)
        then = clock.forward(seconds=30)
        clock.forward(hours=1)
        assert contents(memory.recall("code word", as_of=then)) == ["The code word is heron."]


def test_writing_it_again_does_not_change_the_past(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("The code word is heron.", ttl=60)
        then = clock.forward(seconds=30)
        clock.forward(hours=1)
        memory.remember("The code word is heron.")
        assert contents(memory.recall("code word", as_of=then)) == ["The code word is heron."]


def test_what_was_known_then_includes_what_has_expired_since(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("The code word is heron.", ttl=60)
        then = clock.forward(seconds=30)
        clock.forward(hours=1)
        assert contents(memory.recall("code word", known_at=then)) == ["The code word is heron."]


def test_a_past_version_keeps_its_own_source(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("IBAN of the landlord: DE-one", key="iban", source="user", tag="money")
        clock.forward(days=1)
        memory.remember("IBAN of the landlord: XX-evil", key="iban", source="web:https://a.example", tag="web")
        record = memory.recall("landlord IBAN", as_of=START, min_similarity=0)[0].record
        assert (record.content, record.source, record.tag) == ("IBAN of the landlord: DE-one", "user", "money")
