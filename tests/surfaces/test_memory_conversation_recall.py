"""Conversations through Memory, on a real file: neighbours, speakers, times, revisions, budgets, and what other handles write."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from keepstone import Memory
from keepstone.text.token_count import estimate_tokens
from tests.surfaces.support import FACTS, START, Clock, contents, timed

ASKED = {"role": "user", "content": "Which restaurant in Lisbon should I book for our anniversary?"}
REPLY = {"role": "assistant", "content": "Go for Cervejaria Ramiro, and sit upstairs."}
SMALL_TALK = [
    {"role": "user", "content": "My bicycle has a flat tyre again."},
    {"role": "assistant", "content": "A patch kit will do, or try a new tube."},
    {"role": "user", "content": "It has been raining since Monday."},
    {"role": "assistant", "content": "Then take an umbrella with you."},
]


def fill(memory: Memory, count: int) -> None:
    """So many facts that have nothing to do with what is asked."""
    for at in range(0, count, 100):
        memory.remember_many(FACTS[at : min(at + 100, count)])


def order(memory: Memory, text: str, **rest: Any) -> list[tuple[str, float]]:
    return [(hit.content, hit.score) for hit in memory.recall(text, **({"limit": 20, "min_similarity": 0} | rest))]


# -- neighbours --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("others", [0, 2, 290])
def test_a_reply_is_found_by_the_question_before_it(path: Path, others: int) -> None:
    with Memory.open(path) as memory:
        fill(memory, others)
        memory.ingest(SMALL_TALK, session="other")
        memory.ingest([ASKED, REPLY], session="trip")
        found = contents(memory.recall("What did you recommend for our anniversary in Lisbon?", limit=2))
        assert found[0] == REPLY["content"]


def test_a_neighbour_that_comes_later_counts_from_the_next_recall(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.ingest(SMALL_TALK, session="other")
        memory.ingest([ASKED], session="trip")
        question = "Which restaurant did you suggest in Lisbon?"
        assert REPLY["content"] not in contents(memory.recall(question))
        elsewhere, here = memory.ingest([REPLY], session="alone"), memory.ingest([REPLY], session="trip")
        assert REPLY["content"] in contents(memory.recall(question, limit=2))
        scores = {hit.id: hit.score for hit in memory.recall(question, limit=20, min_similarity=0)}
        assert scores[here[0].id or ""] > scores[elsewhere[0].id or ""]


def test_a_forgotten_question_no_longer_lifts_its_reply(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.ingest(SMALL_TALK, session="other")
        first, _ = memory.ingest([ASKED, REPLY], session="trip")
        question = "What did you say about the anniversary restaurant in Lisbon?"
        before = dict(order(memory, question))
        memory.forget(first.id)
        after = dict(order(memory, question))
        assert after[str(REPLY["content"])] < before[str(REPLY["content"])]
    with Memory.open(path) as memory:
        assert dict(order(memory, question)) == after, "words that were forgotten still count in the process that knew them"


# -- who ---------------------------------------------------------------------------------------------------------------
def test_the_speaker_who_is_named_comes_first(path: Path) -> None:
    with Memory.open(path) as memory:
        talk = [
            ("Dana", "I adopted a kitten from the shelter."),
            ("Omar", "Lovely! I adopted a puppy from the shelter."),
            ("Dana", "Hi Omar, how is work?"),
            ("Omar", "Busy, Dana, as always."),
        ]
        memory.ingest([{"role": "user", "name": name, "content": text} for name, text in talk], session="s")
        assert contents(memory.recall("What did Dana adopt?", limit=1)) == [talk[0][1]]
        assert contents(memory.recall("What did Omar adopt?", limit=1)) == [talk[1][1]]
        assert memory.recall("What did Omar adopt?", limit=1)[0].record.name == "Omar"


def test_what_you_recommended_and_what_i_said(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.ingest(
            [
                {"role": "user", "content": "For my back pain I tried yoga in the mornings."},
                {"role": "assistant", "content": "For back pain I recommend swimming twice a week."},
            ],
            session="s",
        )
        memory.ingest(SMALL_TALK, session="t")
        assert "swimming" in memory.recall("What did you recommend for back pain?")[0].content
        assert "yoga" in memory.recall("What did I say I tried for my back pain?")[0].content


@pytest.mark.parametrize("polite", ["Can you tell me", "Could you tell me", "Can you remind me"])
def test_a_polite_question_about_oneself_is_answered_by_oneself(path: Path, polite: str) -> None:
    with Memory.open(path) as memory:
        memory.ingest(
            [
                {"role": "user", "content": "I parked my car on level three of the garage."},
                {"role": "assistant", "content": "Cars that are parked on level three of a garage stay cool."},
            ],
            session="s",
        )
        assert memory.recall(f"{polite} where I parked my car?")[0].record.role == "user"


# -- when --------------------------------------------------------------------------------------------------------------
def test_last_week_is_read_as_of_when_it_is_asked(path: Path) -> None:
    with Memory.open(path) as memory:
        for week in range(8):
            at = datetime(2024, 1, 3, 12, tzinfo=UTC) + timedelta(weeks=week)
            text = f"I cooked {('soup', 'curry', 'pasta', 'paella', 'stew', 'ramen', 'tacos', 'risotto')[week]} for dinner."
            memory.ingest([{"role": "user", "content": text, "at": at.isoformat()}], session=f"w{week}")
        for week, dish in ((2, "pasta"), (6, "tacos")):
            asked = datetime(2024, 1, 3, 12, tzinfo=UTC) + timedelta(weeks=week + 1)
            assert dish in memory.recall("What did I cook for dinner last week?", asked_at=asked)[0].content
        assert "curry" in memory.recall("What did I cook for dinner on January 10, 2024?")[0].content
        first = memory.recall("What was the first dinner I cooked?", limit=8, min_similarity=0)
        latest = memory.recall("What was the most recent dinner I cooked?", limit=8, min_similarity=0)
        for dish, earlier, later in (("soup", first, latest), ("risotto", latest, first)):
            text = f"I cooked {dish} for dinner."
            assert contents(earlier).index(text) < contents(later).index(text)


def test_a_keyed_value_is_current_now_and_old_as_of_then(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        fill(memory, 30)
        memory.remember("The deploy password hint is heron.", key="hint")
        clock.forward(days=30)
        memory.remember("The deploy password hint is osprey.", key="hint")
        question = "What is the deploy password hint?"
        assert "osprey" in memory.recall(question)[0].content
        assert "heron" not in " ".join(contents(memory.recall(question, limit=50, min_similarity=0)))
        assert "heron" in memory.recall(question, as_of=START + timedelta(days=1))[0].content


@pytest.mark.parametrize("others", [0, 60])
@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        ("Where does Ingrid live?", "Ingrid lives in Berlin.", "Ingrid lives in Hamburg."),
        ("What is my favourite colour?", "My favourite colour is blue.", "My favourite colour is green."),
        ("How much is the rent?", "The rent is 900 euros.", "The rent is 950 euros."),
    ],
)
def test_of_two_facts_the_revised_one_comes_first(path: Path, others: int, question: str, one: str, other: str) -> None:
    for at, (older, newer) in enumerate(((one, other), (other, one))):
        clock = Clock()
        with timed(path.with_name(f"{at}.db"), clock) as memory:
            fill(memory, others)
            memory.remember(older)
            clock.forward(days=90)
            memory.remember(newer)
            assert contents(memory.recall(question))[:2] == [newer, older]


# -- repeats and budgets -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("repeats", [12, 60])
def test_turns_that_are_nearly_the_same_do_not_fill_the_list(path: Path, repeats: int) -> None:
    with Memory.open(path) as memory:
        best = {"role": "user", "content": "The orchid is my favourite plant."}
        memory.ingest([best] * repeats, session="a")
        memory.ingest([{"role": "user", "content": "The orchid stands in the bathroom now."}], session="b")
        memory.ingest([{"role": "user", "content": "My orchid has five white flowers."}], session="c")
        found = contents(memory.recall("What is my favourite plant, is it the orchid?", limit=3))
        assert found[0] == best["content"]
        assert len(set(found)) == 3


def test_scores_fall_and_agree_with_the_order(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        for city in ("Rome", "Oslo", "Lima", "Quito"):
            memory.remember(f"Ingrid lives in {city}.")
            clock.forward(days=10)
        memory.ingest([ASKED, REPLY, ASKED, *SMALL_TALK], session="s")
        for question in ("Where does Ingrid live?", "Which restaurant should I book?", "What did you say?"):
            found = memory.recall(question, limit=20, min_similarity=0)
            assert all(0 <= hit.score <= 1 for hit in found)
            assert all(one.score >= other.score for one, other in pairwise(found)), question


def test_a_budget_says_what_it_cut(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("heron " * 200)
        short = [memory.remember(text).id for text in ("A heron stood in the pond.", "The heron ate a frog.")]
        found = memory.recall("heron", max_tokens=20, min_similarity=0)
        assert {hit.id for hit in found} == set(short)
        assert sum(estimate_tokens(hit.content) for hit in found) <= 20
        everything = memory.recall("heron", min_similarity=0)
        assert found.cut == tuple(hit.id for hit in everything if hit.id not in short)
        assert (found.left_out, everything.cut, everything.left_out) == (1, (), 0)
        cut = memory.get(found.cut[0])
        assert cut is not None
        assert cut.access_count == 1, "a hit that was cut was not read: only the second recall read it"


# -- sizes, restarts, other handles ------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 3, 300])
def test_scopes_of_every_size(path: Path, count: int) -> None:
    with Memory.open(path, settings={"durable": False}) as memory:
        fill(memory, count - 1)
        memory.remember("Ingrid repairs accordions in Tallinn.")
        assert memory.recall("Who repairs accordions?")[0].content == "Ingrid repairs accordions in Tallinn."
        assert memory.recall("Who repairs accordions?").considered == count
        assert not memory.recall("kubernetes ingress TLS termination")
        assert len(memory.recall("kubernetes", limit=100, min_similarity=0)) == min(100, count)


QUESTIONS = [
    "What did you recommend?", "What did Dana adopt?", "Where is my bicycle?", "Which restaurant in Lisbon?", "rain since Monday",
    "What did I do last week?", "???", "What does Dana like?",
]  # fmt: skip


def test_after_a_restart_the_order_is_the_same(path: Path) -> None:
    with Memory.open(path) as memory:
        fill(memory, 40)
        memory.ingest([ASKED, REPLY], session="trip")
        memory.ingest([{"role": "user", "name": "Dana", "content": "I adopted a kitten."}, *SMALL_TALK], session="other")
        warm = [order(memory, text) for text in QUESTIONS]
    with Memory.open(path) as memory:
        assert [order(memory, text) for text in QUESTIONS] == warm


def test_after_changes_the_order_is_that_of_a_process_that_reads_the_file_anew(path: Path) -> None:
    with Memory.open(path) as memory:
        fill(memory, 40)
        talk = memory.ingest([ASKED, REPLY, *SMALL_TALK], session="trip")
        memory.ingest([{"role": "user", "name": "Dana", "content": "I adopted a kitten."}], session="dana")
        for text in QUESTIONS:
            order(memory, text)
        memory.update(talk[2].id or "", "My bicycle is at the shop.")
        memory.update(talk[0].id or "", "Which museum in Lisbon should I see? " * 5)
        memory.update(talk[0].id or "", "Which museum in Lisbon should I see?")
        memory.forget(talk[4].id)
        memory.forget(session="dana")
        warm = [order(memory, text) for text in QUESTIONS]
    with Memory.open(path) as memory:
        for text, expected in zip(QUESTIONS, warm, strict=True):
            assert order(memory, text) == expected, text


def test_a_message_that_moves_to_another_session_has_its_neighbours_there(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.ingest([ASKED], session="trip")
        memory.remember(str(REPLY["content"]), kind="message", key="tip", session="other")
        question = "Which restaurant in Lisbon for the anniversary?"
        order(memory, question)
        memory.remember(str(REPLY["content"]), kind="message", key="tip", session="trip", importance=0.9)
        warm = order(memory, question)
    with Memory.open(path) as memory:
        assert order(memory, question) == warm


def test_another_handle_and_another_process_bring_neighbours(path: Path) -> None:
    question = "Which restaurant did you suggest in Lisbon?"
    with Memory.open(path) as memory, Memory.open(path) as other:
        memory.ingest(SMALL_TALK, session="talk")
        memory.ingest([ASKED], session="trip")
        assert REPLY["content"] not in contents(memory.recall(question))
        other.ingest([REPLY], session="trip")
        assert REPLY["content"] in contents(memory.recall(question, limit=2))
        script = (
            "import sys; from keepstone import Memory\n"
            "with Memory.open(sys.argv[1]) as memory:\n"
            "    memory.ingest([{'role': 'user', 'content': 'And the address?'},\n"
            "        {'role': 'assistant', 'content': 'Avenida Almirante Reis, number one.'}], session='trip')\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=60)
        found = contents(memory.recall("What address did you give me?", limit=2))
        assert "Avenida Almirante Reis, number one." in found
        assert order(memory, question) == order(other, question)


def test_a_neighbour_that_has_expired_no_longer_lifts_its_reply(path: Path) -> None:
    """Messages have no time to live of their own yet, so the column is set in the file."""
    with Memory.open(path) as memory:
        memory.ingest(
            [
                {"role": "user", "content": "Which restaurant in Lisbon?"},
                {"role": "assistant", "content": "Upstairs at Ramiro."},
            ],
            session="s",
        )
        before = {hit.content: hit.signals["neighbours"] for hit in memory.recall("restaurant Lisbon", min_similarity=0)}
        asked = next(hit.id for hit in memory.recall("restaurant Lisbon", min_similarity=0) if "Which" in hit.content)
    db = apsw.Connection(str(path))
    db.execute("UPDATE record SET expires_at = 1 WHERE id = ?", (asked,))
    db.close()
    with Memory.open(path) as memory:
        after = {hit.content: hit.signals["neighbours"] for hit in memory.recall("restaurant Lisbon", min_similarity=0)}
    assert before["Upstairs at Ramiro."] > 0
    assert after == {"Upstairs at Ramiro.": 0}
