"""The checks of the health report, each on small stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from keepstone.maintenance.health import HealthReport, Item, examine

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def ago(days: int) -> datetime:
    return NOW - timedelta(days=days)


def items(*contents: str, **fields: object) -> list[Item]:
    return [Item(str(number), content, **fields) for number, content in enumerate(contents, 1)]  # type: ignore[arg-type]


def found(report: HealthReport, check: str) -> list[tuple[str, ...]]:
    return [finding.ids for finding in report.findings if finding.check == check]


def look(*given: Item, **options: object) -> HealthReport:
    return examine(given, now=NOW, **options)  # type: ignore[arg-type]


# -- duplicates ---------------------------------------------------------------------------------------------------------
def test_the_best_of_some_duplicates_is_kept() -> None:
    same = [
        Item("old", "Ana likes tea", created_at=ago(9), access_count=1),
        Item("read", "Ana likes  tea.", created_at=ago(5), access_count=4),
        Item("new", "ana likes tea", created_at=ago(1)),
        Item("doubted", "Ana likes tea", trust=0.6, created_at=ago(20), access_count=50),
    ]
    report = look(*same)
    assert found(report, "duplicates") == [("read", "old", "new", "doubted")]
    assert report.counts["duplicates"] == 3
    assert found(look(same[0], same[2]), "duplicates") == [("old", "new")]


@pytest.mark.parametrize(
    "other",
    [
        Item("2", "Ana likes tea", user="ben"),
        Item("2", "Ana likes tea", kind="message"),
        Item("2", "Ana likes tea", key="drink"),
        Item("2", "Ana likes tea", status="archived"),
        Item("2", "ANA likes tea -A"),
    ],
)
def test_what_is_no_duplicate(other: Item) -> None:
    assert look(Item("1", "Ana likes tea"), other).counts["duplicates"] == 0


def test_a_success_and_a_failure_of_one_task_are_two_episodes() -> None:
    tried = [Item(tag, "Deployed the shop", kind="episode", tag=tag) for tag in ("success", "failure")]
    assert look(*tried).counts["duplicates"] == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user seems happy", "the user is happy today"),
        ("I really prefer dark mode", "The user prefers dark mode"),
    ],
)
def test_the_same_fact_in_other_words_is_put_aside(one: str, other: str) -> None:
    report = look(*items(one, other))
    assert found(report, "near duplicates") == [("1", "2")]
    assert [(step.action, step.ids) for step in report.plan] == [("archive", ("2",))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Ana keeps the spare garage key under the blue flower pot",
            "Ana keeps the spare garage key under the big blue flower pot",
        ),
        (
            "The quarterly report template lives inside the finance shared folder",
            "The quarterly report templates lives inside the finances shared folder online",
        ),
    ],
)
def test_nearly_the_same_words_are_to_be_looked_at(one: str, other: str) -> None:
    report = look(*items(one, other))
    assert found(report, "near duplicates") == [("1", "2")]
    assert [(step.action, step.ids) for step in report.plan] == [("review", ("1", "2"))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user has 3 cats and one very old grey parrot", "The user has 4 cats and one very old grey parrot"),
        ("Anna manages Ben in the small sales team of Porto", "Ben manages Anna in the small sales team of Porto"),
        ("User drinks green tea before work at the office desk", "User drinks green coffee before work at the office desk"),
        ("User eats fish on holidays with family at the sea", "User never eats fish on holidays with family at the sea"),
        ("User plays chess with Dana on Sundays at the old club", "User plays chess with Omar on Sundays at the old club"),
        ("Lives in Porto", "Lives in Lisbon"),
    ],
)
def test_what_differs_in_what_matters_is_no_near_duplicate(one: str, other: str) -> None:
    assert look(*items(one, other)).counts["near duplicates"] == 0


def test_near_duplicates_stay_within_a_user() -> None:
    two = [Item("1", "user seems happy", user="a"), Item("2", "the user is happy today", user="b")]
    assert look(*two).counts["near duplicates"] == 0


# -- echoes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "According to my memory, the user likes jasmine tea",
        "Based on our previous conversations, you like jasmine tea.",
        "As you mentioned earlier, you like jasmine tea",
        "I remember that you like jasmine tea",
        "[memory] likes jasmine tea",
        "<memory note='x'>- likes jasmine tea</memory>",
        "- [2026-01-02, user, fact] likes jasmine tea",
    ],
)
def test_an_answer_from_memory_is_an_echo(text: str) -> None:
    alone = look(Item("echo", text))
    assert [(step.check, step.action) for step in alone.plan] == [("echoes", "review")]
    report = look(Item("echo", text), Item("fact", "The user likes jasmine tea"))
    assert found(report, "echoes") == [("fact", "echo")]
    assert [(step.check, step.action, step.ids) for step in report.plan] == [("echoes", "archive", ("echo",))]


def test_a_fact_that_the_assistant_read_out_of_memory_is_an_echo() -> None:
    fact = Item("fact", "The user likes jasmine tea", created_at=ago(9))
    answer = Item("answer", "Sure. You like jasmine tea.", kind="message", role="assistant", created_at=ago(5))
    again = Item("again", "You like jasmine tea", created_at=ago(4))
    assert found(look(fact, answer, again), "echoes") == [("fact", "again")]
    said = Item("said", "You like jasmine tea", kind="message", role="user", created_at=ago(4))
    assert look(fact, answer, again, said).counts["echoes"] == 0
    assert look(answer, again).counts["echoes"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "I remember my grandmother's kitchen in Bari",
        "According to Dana the memory leak is in the parser",
        "The prompt wraps facts into <memory> tags",
        "Based on the survey most users want exports",
        "Memory usage must stay below 2 GB",
    ],
)
def test_speaking_of_memory_is_no_echo(text: str) -> None:
    assert look(Item("1", text)).counts["echoes"] == 0


# -- secrets ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Passage:
    kind: str


def seen(text: str) -> Sequence[Passage]:
    return [Passage(kind) for kind in ("secret", "email") if kind in text]


def test_secrets_are_found_in_memories_and_messages_and_never_told() -> None:
    held = [Item("1", "the secret is hunter2"), Item("2", "secret hunter2", kind="message"), Item("3", "an email of mine")]
    report = look(*held, find=seen)
    assert report.counts["secrets"] == 2
    assert [(step.action, step.ids) for step in report.plan] == [("redact", ("1", "2"))]
    assert "hunter2" not in repr(report)
    assert look(*held, find=seen, redacts=("email",)).counts["secrets"] == 1
    assert look(*held).counts["secrets"] == 0


# -- time ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Ana flies to Oslo tomorrow", 5),
        ("The team meets next week in Graz", 30),
        ("Ben is on vacation this week", 20),
        ("Ben is on parental leave until March 2025", 600),
        ("The visa is valid until 2024-05-01", 900),
        ("Tax return has to be filed by 2024-05-01", 900),
        ("Paper deadline: 12 March 2025", 600),
        ("Dana starts the new job in two weeks", 60),
        ("Rent is due on 3 April 2025", 500),
        ("Out of office until Friday", 30),
    ],
)
def test_what_was_tied_to_a_past_time_is_stale(text: str, days: int) -> None:
    assert look(Item("1", text, created_at=ago(days))).counts["stale"] == 1


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Ana flies to Oslo tomorrow", 1),
        ("Ana lived in Oslo until March 2019", 900),
        ("Plans tomorrow's day every evening", 300),
        ("Likes the film The Day After Tomorrow", 300),
        ("Ben bought a red car today", 300),
        ("The lease is valid until 2031-01-01", 900),
        ("Works until 6 pm", 300),
        ("The report was written by May", 300),
        ("Learned Rust in two weeks", 300),
        ("The shop next to the office sells stamps", 300),
        ("Version 2025 of the handbook is current", 300),
        ("Born in March 1990", 300),
    ],
)
def test_what_still_holds_is_not_stale(text: str, days: int) -> None:
    assert look(Item("1", text, created_at=ago(days))).counts["stale"] == 0


def test_relative_words_need_to_know_when_they_were_said() -> None:
    assert look(Item("1", "Ana flies to Oslo tomorrow")).counts["stale"] == 0
    assert look(Item("1", "Ana is away until 2025-01-01")).counts["stale"] == 1
    assert look(Item("1", "Ana flies to Oslo tomorrow", created_at=ago(0), valid_from=ago(9))).counts["stale"] == 1


def test_a_plan_is_stale_when_nobody_touches_it() -> None:
    plan = Item("1", "Learn to sail", tag="plan", created_at=ago(400))
    assert look(plan).counts["stale"] == 1
    assert look(replace(plan, created_at=ago(170))).counts["stale"] == 0
    read = Item("1", "Learn to sail", tag="plan", created_at=ago(400), last_accessed_at=ago(3))
    assert look(read).counts["stale"] == 0


def test_what_was_never_read_is_only_said() -> None:
    ages = [Item("1", "a b c", access_count=0, created_at=ago(91)), Item("2", "d e f", access_count=0, created_at=ago(89))]
    others = [Item("3", "g h i", created_at=ago(91)), Item("4", "j k l", access_count=1, created_at=ago(91))]
    report = look(*ages, *others)
    assert found(report, "never recalled") == [("1",)]
    assert [(step.action, step.ids) for step in report.plan] == [("nothing", ("1",))]
    assert report.score == 99


def test_times_without_a_zone_are_read_as_utc() -> None:
    naive = [
        Item("1", "a b c", access_count=0, created_at=datetime(2020, 1, 1)),
        Item("2", "d e", expires_at=datetime(2020, 1, 1)),
    ]
    report = examine(naive, now=datetime(2026, 1, 1))
    assert (report.counts["never recalled"], report.counts["expired"]) == (1, 1)


# -- contradictions, orphans, and the rest ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Dana lives in Porto", "Dana lives in Lisbon now"),
        ("The user lives in Porto.", "I live in Lisbon."),
        ("Dana's email is dana@example.org", "Dana's email is d.silva@example.org"),
        ("Dana's favourite colour is green", "Dana's favourite colour is teal"),
        ("The user works at Siemens", "User works for Bosch"),
        ("Ben is 34 years old", "Ben is 43 years old"),
        ("Ben's car is red", "Ben's car is blue"),
        ("My name is Ana", "The user's name is Anja"),
    ],
)
def test_two_values_for_one_thing_contradict(one: str, other: str) -> None:
    report = look(Item("1", one, created_at=ago(5)), Item("2", other, created_at=ago(1)))
    assert found(report, "contradictions") == [("2", "1")]
    assert [(step.action, step.ids) for step in report.plan] == [("review", ("2", "1"))]
    apart = [Item("1", one, user="a"), Item("2", other, user="b")]
    assert look(*apart).counts["contradictions"] == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Dana lives in Porto", "Dana lives in Porto, Portugal"),
        ("Dana lives in Porto", "Ben lives in Lisbon"),
        ("Dana lives in Porto", "Dana lived in Lisbon"),
        ("Dana's friend is Ben", "Dana's friend is Omar"),
        ("Dana's hobby is chess", "Dana's hobby is rowing"),
        ("Dana's code is clean", "Dana's code is on the server"),
        ("Dana lives in Spain in winter", "Dana lives in Berlin in summer"),
        ("Dana's email is dana@example.org", "Dana's other email is d.silva@example.org"),
    ],
)
def test_what_can_both_be_true_does_not_contradict(one: str, other: str) -> None:
    assert look(*items(one, other)).counts["contradictions"] == 0


def test_a_key_has_one_value_at_a_time() -> None:
    two = [Item("1", "Porto", key="city"), Item("2", "Lisbon", key="city")]
    assert look(*two).counts["contradictions"] == 2
    assert look(two[0], Item("2", "Lisbon", key="city", status="archived")).counts["contradictions"] == 0
    assert look(two[0], Item("2", "Lisbon", key="city", user="ben")).counts["contradictions"] == 0


def test_orphans_miss_a_parent_and_messages_are_parents() -> None:
    message = Item("m", "I like tea", kind="message", role="user")
    child = Item("1", "Likes tea", parents=("m", "gone"))
    assert found(look(message, child), "orphans") == [("1",)]
    assert look(message, Item("1", "Likes tea", parents=("m",)), Item("2", "Has a cat")).counts["orphans"] == 0


def test_what_has_expired_and_is_listed_is_put_aside() -> None:
    report = look(Item("1", "Likes tea", expires_at=ago(1)), Item("2", "Has a cat", expires_at=NOW + timedelta(days=1)))
    assert [(step.check, step.action, step.ids) for step in report.plan] == [("expired", "archive", ("1",))]


def test_the_untrusted_are_only_counted() -> None:
    later = ago(-9)
    report = look(
        Item("1", "Likes tea", trust=0.3, expires_at=later),
        Item("2", "Has a cat", trust=0.5, expires_at=later),
        Item("3", "Sails on Sundays", trust=0.3),  # it was confirmed: it does not expire
    )
    assert [(step.check, step.action, step.ids) for step in report.plan] == [("untrusted", "nothing", ("1",))]


def test_messages_are_a_log() -> None:
    said = [Item(str(number), "ok", kind="message", created_at=ago(500), trust=0.1, access_count=0) for number in range(9)]
    report = look(*said)
    assert (report.score, report.items, set(report.counts.values())) == (100, 9, {0})


def test_a_value_under_a_key_may_be_one_word() -> None:
    assert look(Item("1", "yes", key="newsletter")).counts["junk"] == 0
    assert look(Item("1", "yes")).counts["junk"] == 1
