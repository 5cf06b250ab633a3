"""The health report as a whole: the score, the plan, and what both promise."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.errors import ValidationError
from keepstone.maintenance import health_checks
from keepstone.maintenance.health import CHECKS, WEIGHTS, HealthReport, Item, examine, score
from keepstone.types import Record, Scope

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=700)
SOUND = [
    "Ana keeps bees on the roof",
    "The printer stands in room 12",
    "Deploys run on Thursday evenings",
    "Ben is allergic to kiwi",
    "Omar plays the cello in a quartet",
    "The alarm code was changed by the landlord",
    "Lena prefers trains to planes",
    "Invoices go to the Graz office",
]
FAULTS = {
    "junk": {"content": "ok thanks"},
    "expired": {"expires_at": LONG_AGO},
    "orphans": {"parents": ("nowhere",)},
    "stale": {"content": "Ana is away until March 2024"},
    "secrets": {"content": "The vault opens with SESAME"},
    "untrusted": {"trust": 0.1, "expires_at": NOW + timedelta(days=9)},
    "never recalled": {"access_count": 0, "created_at": LONG_AGO},
    "duplicates": {"content": "Ana keeps bees on the roof"},
    "echoes": {"content": "According to my memory, Ana keeps bees"},
}


@dataclass(frozen=True)
class Passage:
    kind: str = "secret"


def find(text: str) -> list[Passage]:
    return [Passage()] if "SESAME" in text else []


def look(items: list[Item], **options: object) -> HealthReport:
    return examine(items, now=NOW, find=find, **options)  # type: ignore[arg-type]


def sound(number: int = len(SOUND)) -> list[Item]:
    return [Item(str(at), text) for at, text in enumerate(SOUND[:number])]


def faulty(id: str, fault: str) -> Item:
    return replace(Item(id, f"The boat of number {id} is moored at pier {id}"), **FAULTS[fault])


faults = st.lists(st.sampled_from(sorted(FAULTS)), max_size=8)
OTHERS = """
ok
User has a preference
The vault opens with SESAME
Dana lives in Porto
Dana lives in Lisbon
According to my memory, Dana lives in Porto
user seems happy
the user is happy today
Ana leaves tomorrow
""".strip().splitlines()
contents = st.sampled_from([*SOUND, *OTHERS])
stores = st.lists(
    st.builds(
        Item,
        id=st.uuids().map(str),
        content=contents,
        kind=st.sampled_from(["fact", "fact", "message", "note"]),
        user=st.sampled_from(["", "ben"]),
        trust=st.sampled_from([0.2, 1.0]),
        role=st.sampled_from([None, "user", "assistant"]),
        created_at=st.sampled_from([None, LONG_AGO, NOW]),
        access_count=st.sampled_from([None, 0, 3]),
        expires_at=st.sampled_from([None, None, LONG_AGO]),
        parents=st.sampled_from([(), (), ("nowhere",)]),
        status=st.sampled_from(["active", "active", "archived"]),
    ),
    max_size=20,
)


# -- the score ----------------------------------------------------------------------------------------------------------
def test_nothing_found_is_a_hundred() -> None:
    for report in (look([]), look(sound())):
        assert (report.score, report.findings, report.plan) == (100, (), ())
        assert report.counts == dict.fromkeys(CHECKS, 0)


@given(stores)
def test_a_hundred_and_nothing_found_are_the_same(items: list[Item]) -> None:
    report = look(items)
    assert 0 <= report.score <= 100
    assert (report.score == 100) == (not report.findings) == (not any(report.counts.values()))


@given(st.dictionaries(st.sampled_from(CHECKS), st.integers(0, 50)), st.integers(0, 200), st.sampled_from(CHECKS))
def test_one_fault_more_never_raises_the_score(counts: dict[str, int], healthy: int, check: str) -> None:
    worse = {**counts, check: counts.get(check, 0) + 1}
    assert score(worse, healthy) <= score(counts, healthy)
    assert score(worse, max(0, healthy - 1)) <= score(counts, healthy)
    assert score(counts, healthy + 1) >= score(counts, healthy)


@given(faults, st.sampled_from(sorted(set(FAULTS) & set(WEIGHTS))))
def test_one_faulty_memory_more_never_raises_the_score_of_a_store(already: list[str], fault: str) -> None:
    store = sound() + [faulty(f"x{at}", each) for at, each in enumerate(already)]
    assert look([*store, faulty("new", fault)]).score <= look(store).score


@given(faults, st.sampled_from(sorted(FAULTS)), st.integers(1, len(SOUND) - 1))
def test_a_sound_memory_that_turns_faulty_never_raises_the_score(already: list[str], fault: str, at: int) -> None:
    store = sound() + [faulty(f"x{number}", each) for number, each in enumerate(already)]
    turned = [replace(item, **FAULTS[fault]) if item.id == str(at) else item for item in store]
    assert look(turned).score <= look(store).score


def test_a_secret_weighs_most() -> None:
    scores = {fault: look([*sound(), faulty("x", fault)]).score for fault in FAULTS}
    assert min(scores, key=scores.__getitem__) == "secrets"
    assert all(scores["secrets"] < other for fault, other in scores.items() if fault != "secrets")
    assert max(WEIGHTS.values()) == WEIGHTS["secrets"]


def test_a_long_log_does_not_hide_what_is_wrong_with_memories() -> None:
    junk = [faulty("j", "junk")]
    log = [Item(f"m{number}", "hello", kind="message") for number in range(500)]
    assert look(sound(1) + junk + log).score == look(sound(1) + junk).score == 50


def test_a_secret_in_a_log_lowers_the_score_of_the_log() -> None:
    log = [Item(f"m{number}", "hello", kind="message") for number in range(90)]
    told = Item("told", "The vault opens with SESAME", kind="message")
    assert look([*sound(), *log]).score == 100
    assert look([*sound(), *log, told]).score == 90


# -- the plan -----------------------------------------------------------------------------------------------------------
@given(stores)
def test_an_id_is_put_aside_or_redacted_once_and_something_of_each_group_stays(items: list[Item]) -> None:
    report = look(items)
    taken = [id for step in report.plan if step.action in ("archive", "redact") for id in step.ids]
    assert len(taken) == len(set(taken))
    assert set(taken) <= {item.id for item in items}
    archived = {id for step in report.plan if step.action == "archive" for id in step.ids}
    grave = {id for step in report.plan if step.check in ("junk", "expired") for id in step.ids}
    for finding in report.findings:
        if finding.check in ("duplicates", "near duplicates") and not set(finding.ids) <= grave:
            assert not set(finding.ids) <= archived


def test_of_two_duplicates_the_expired_one_goes() -> None:
    best = Item("best", "Ana keeps bees", access_count=9, expires_at=LONG_AGO)
    report = look([best, Item("other", "Ana keeps bees")])
    assert [(step.check, step.ids) for step in report.plan] == [("expired", ("best",))]
    assert report.findings[0].ids == ("other", "best")


def test_what_goes_is_not_reviewed() -> None:
    lasting = Item("1", "Dana lives in Porto")
    report = look([lasting, Item("2", "Dana lives in Lisbon", expires_at=LONG_AGO)])
    assert report.counts["contradictions"] == 2
    assert [(step.check, step.ids) for step in report.plan] == [("expired", ("2",))]


def test_each_check_has_its_action() -> None:
    report = look([*sound(), *(faulty(fault, fault) for fault in FAULTS), *contradicting()])
    assert {(step.check, step.action) for step in report.plan} == {
        ("junk", "archive"),
        ("expired", "archive"),
        ("duplicates", "archive"),
        ("echoes", "archive"),
        ("secrets", "redact"),
        ("stale", "review"),
        ("orphans", "review"),
        ("contradictions", "review"),
        ("untrusted", "nothing"),
        ("never recalled", "nothing"),
    }


def contradicting() -> list[Item]:
    return [Item("c1", "Dana lives in Porto"), Item("c2", "Dana lives in Lisbon")]


def test_no_reason_holds_content() -> None:
    items = [*sound(), *(faulty(fault, fault) for fault in FAULTS), *contradicting()]
    report = look(items)
    said = " ".join(each.reason for each in (*report.findings, *report.plan)).casefold()
    assert not [name for name in ("sesame", "vault", "bees", "march", "porto", "lisbon", "boat", "thanks") if name in said]


def test_findings_are_capped_and_counts_are_not() -> None:
    many = [Item(str(number), "ok") for number in range(30)]
    report = look(many, most=4)
    assert len([finding for finding in report.findings if finding.check == "junk"]) == 4
    assert report.counts["junk"] == 30
    assert len(report.plan[0].ids) == 30
    assert look(many, most=0).findings == ()
    with pytest.raises(ValidationError, match="most is -1"):
        look(many, most=-1)


def test_an_id_given_twice_is_one_memory() -> None:
    report = look([Item("1", "Ana keeps bees"), Item("1", "Ana keeps bees")])
    assert (report.items, report.score) == (1, 100)


def test_a_record_becomes_an_item() -> None:
    record = Record(
        id="r1",
        scope=Scope(user="dana"),
        kind="note",
        tag="garden",
        key="hive",
        content="Ana keeps bees",
        metadata={},
        importance=0.7,
        source="tool",
        trust=0.4,
        session="s",
        role="user",
        name="Ana",
        occurred_at=LONG_AGO,
        created_at=LONG_AGO + timedelta(days=1),
        updated_at=LONG_AGO + timedelta(days=2),
        valid_from=LONG_AGO + timedelta(days=3),
        valid_to=None,
        expires_at=LONG_AGO + timedelta(days=4),
        last_accessed_at=LONG_AGO + timedelta(days=5),
        access_count=3,
        version=2,
        status="quarantined",
        parents=("p",),
    )
    item = Item.of(record)
    assert item.user == "dana"
    for field in fields(Item):
        if field.name not in ("user", "dedup_key"):
            assert getattr(item, field.name) == getattr(record, field.name, ()), field.name


def test_progress_is_told_after_every_check_and_ends_complete() -> None:
    told: list[tuple[int, int]] = []
    examine([Item("a", "Ana likes tea")], now=NOW, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, len(CHECKS)) for done in range(1, len(CHECKS) + 1)]


def test_only_the_last_memories_of_a_user_are_held_against_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ("The user's flat is on floor 3.", "Ana plays chess in Lisbon.", "The user's flat is on floor 5.")
    items = [Item(str(number), text) for number, text in enumerate(texts)]
    assert examine(items, now=NOW).counts["contradictions"] == 2
    monkeypatch.setattr(health_checks, "_MAX_COMPARED", 2)
    assert examine(items, now=NOW).counts["contradictions"] == 0


def test_progress_is_told_while_a_large_store_is_read() -> None:
    told: list[tuple[int, int]] = []
    items = (Item(str(number), f"Ana has seen film number {number}") for number in range(2500))
    examine(items, now=NOW, expected=2500, progress=lambda done, total: told.append((done, total)))
    assert told[:3] == [(0, 5000), (1000, 5000), (2000, 5000)]
    assert told[-1] == (5000, 5000)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_key_that_the_store_keeps_is_used_instead_of_reading_the_text_again() -> None:
    texts = {"a": "the user is happy today", "b": "user seems happy", "c": "Ana plays chess in Lisbon"}
    items = [Item(id, text) for id, text in texts.items()]
    stored = [replace(each, dedup_key=b"1" if each.id != "b" else b"2") for each in items]
    assert examine(items, now=NOW).counts["near duplicates"] == 1
    assert examine(stored, now=NOW).counts["near duplicates"] == 0
