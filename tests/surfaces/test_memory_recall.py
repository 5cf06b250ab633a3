"""Recall through Memory: what is found, in which order, what is kept out, and how soon changes are seen."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone import Memory
from keepstone.errors import ValidationError
from keepstone.recall.explain import GROUPS
from tests.surfaces.support import FACTS, contents


# -- sessions -----------------------------------------------------------------------------------------------------
def test_the_second_session_knows_what_the_first_was_told(path: Path) -> None:
    with Memory.open(path, user="dana") as memory:
        memory.ingest(
            [
                {"role": "user", "content": "My name is Dana and I prefer dark mode."},
                {"role": "assistant", "content": "Nice to meet you, Dana!"},
                {"role": "user", "content": "What's the weather like in Porto?"},
            ],
            session="first",
        )
    with Memory.open(path, user="dana") as memory:
        hit = memory.recall("What UI preference did I mention?", kinds={"message"})[0]
        assert hit.content == "My name is Dana and I prefer dark mode."
        assert (hit.record.session, hit.record.role) == ("first", "user")
        assert "dark mode" in memory.recall("What UI preference did I mention?")[0].content
        assert "Dana" in memory.recall("What is my name?")[0].content
        assert "dark mode" in memory.context("What UI preference did I mention?")


def test_facts_survive_a_restart_and_are_found_by_meaning(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember_many(FACTS[:60])
    with Memory.open(path) as memory:
        assert memory.recall("Which nuts must Dana not eat?")[0].content == "Dana is allergic to walnuts."
        assert "Omar commutes by tram number 12." in contents(memory.recall("How does Omar commute to the office?"))


# -- words and meaning --------------------------------------------------------------------------------------------
def test_words_alone(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        memory.remember("The invoice number is QX-7731.")
        memory.remember("The kettle is in the kitchen.")
        assert contents(memory.recall("qx-7731")) == ["The invoice number is QX-7731."]
        assert contents(memory.recall("Which invoices have numbers?")) == ["The invoice number is QX-7731."]
        assert not memory.recall("automobile")
        hit = memory.recall("kettle")[0]
        assert hit.signals["semantic"] == 0
        assert hit.signals["keywords"] > 0


def test_meaning_alone(memory: Memory) -> None:
    memory.remember_many(FACTS[:30])
    hit = memory.recall("automobile", min_similarity=0)[0]
    assert hit.content == "Dana drives a red electric van."
    assert hit.signals["coverage"] < 1, "only a related word is in it"
    assert hit.signals["semantic"] > hit.signals["keywords"]


def test_words_and_meaning_together(full: Memory) -> None:
    hit = full.recall("What car does Priya drive?")[0]
    assert hit.content == "Priya drives a red electric van."
    assert min(hit.signals[name] for name in ("semantic", "keywords", "coverage", "similarity")) > 0


def test_rare_exact_words_are_found_among_many(full: Memory) -> None:
    assert full.recall("greyhounds Mateo")[0].content == "Mateo keeps two greyhounds."


def test_records_that_wait_for_their_vector_are_found_by_words(path: Path) -> None:
    down = True

    def embed(texts: list[str]) -> Any:
        if down:
            raise RuntimeError("the provider is down")
        return [np.random.default_rng(len(text)).normal(size=8) for text in texts]

    with Memory.open(path, embedder=embed) as memory:
        receipt = memory.remember("The boiler was serviced in May.")
        assert receipt.action == "added"
        assert "provider is down" in receipt.reasons[0]
        found = memory.recall("Who serviced the boiler?")
        assert contents(found) == ["The boiler was serviced in May."]
        assert not found[0].record.embedded
        assert "words only" in found.notes[0]
        down = False
        assert memory.upkeep.reembed().embedded == 1
        assert memory.recall("boiler")[0].record.embedded


# -- scores -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("query", ["Who is allergic?", "tram", "Priya", "something about music", "zzzz qqqq"])
def test_scores_are_fractions_best_first_with_their_parts(full: Memory, query: str) -> None:
    found = full.recall(query, limit=100, min_similarity=0)
    assert len(found) == 100
    assert all(0 <= hit.score <= 1 for hit in found)
    assert all(one.score >= other.score for one, other in pairwise(found))
    for hit in found:
        assert set(hit.signals) == {*GROUPS, "cosine", "coverage", "similarity", "neighbours"}
        assert all(-1 <= hit.signals[name] <= 1.0001 for name in ("cosine", "coverage", "similarity", "neighbours")), hit.signals
    assert found.query == query
    assert (found.considered, found.left_out) == (300, 0)


def test_the_same_question_gets_the_same_answer(full: Memory) -> None:
    answers = {tuple((hit.id, hit.score) for hit in full.recall("Who sings?", limit=20, min_similarity=0)) for _ in range(5)}
    assert len(answers) == 1


def test_the_order_does_not_depend_on_what_the_process_has_seen(path: Path) -> None:
    with Memory.open(path) as memory:
        ids = [receipt.id or "" for receipt in memory.remember_many([f"note {at} about rye bread" for at in range(12)])]
        memory.recall("bread", min_similarity=0)
        for id in ids[::3]:
            memory.update(id, metadata={"seen": True})
        memory.update(ids[1], "another note about rye bread")
        warm = [hit.id for hit in memory.recall("???", limit=20, min_similarity=0)]
    with Memory.open(path) as memory:
        assert [hit.id for hit in memory.recall("???", limit=20, min_similarity=0)] == warm


def test_equals_come_in_the_same_order_in_every_process(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        ids = [receipt.id or "" for receipt in memory.remember_many([f"note item{at} tea" for at in range(4)])]
        memory.recall("tea")
        memory.update(ids[0], metadata={"seen": True})
        here = [hit.id for hit in memory.recall("tea")]
    with Memory.open(path, embedder="none") as memory:
        assert [hit.id for hit in memory.recall("tea")] == here


def test_a_record_keeps_the_vector_of_its_own_words(path: Path) -> None:
    def embed(texts: list[str]) -> Any:
        return [np.eye(64)[sum(map(ord, text)) % 64] for text in texts]

    with Memory.open(path, embedder=embed) as memory:
        memory.remember("Dana really prefers dark mode.")
        assert memory.remember("Dana prefers the dark mode").action == "merged"
        hit = memory.recall("Dana really prefers dark mode.", min_similarity=0)[0]
        assert hit.content == "Dana really prefers dark mode."
        assert hit.signals["similarity"] == pytest.approx(1)


# -- thresholds ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "query",
    [
        "What is the boiling point of tungsten?", "How do I reverse a linked list in Rust?", "quarterly revenue forecast for Q3",
        "Who painted the Sistine Chapel ceiling?", "kubernetes ingress TLS termination", "What is the capital of Mongolia?",
        "translate this sentence into Latin", "12345678",
    ],
)  # fmt: skip
def test_an_unrelated_question_brings_nothing(full: Memory, query: str) -> None:
    assert contents(full.recall(query)) == []
    assert full.context(query) == ""


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("Is Mei allergic to anything?", "Mei is allergic to walnuts."),
        ("What instrument does Henrik play?", "Henrik plays the cello in a string quartet."),
        ("Which editor does Zoe use?", "Zoe uses Emacs with vi bindings."),
        ("When does Tomas pay the rent?", "Tomas pays rent on the third of each month."),
        ("Where does Aisha go on vacation?", "Aisha vacations near lake Garda."),
        ("Does Lukas have pets, dogs maybe?", "Lukas keeps two greyhounds."),
    ],
)
def test_a_related_question_is_answered_with_the_default_threshold(full: Memory, query: str, answer: str) -> None:
    assert answer in contents(full.recall(query))


def test_no_threshold_returns_everything_and_a_high_one_only_what_is_nearly_equal(full: Memory) -> None:
    assert len(full.recall("tungsten", limit=100, min_similarity=0)) == 100
    near = full.recall("Omar is afraid of spiders", limit=100, min_similarity=0.99)
    assert contents(near) == ["Omar is afraid of spiders."]
    assert not full.recall("spiders and such", min_similarity=0.99)


@pytest.mark.parametrize("min_similarity", [0.2, 0.4, 0.6, 0.8])
def test_every_hit_reaches_the_threshold_that_was_asked(full: Memory, min_similarity: float) -> None:
    everyone = full.recall("Who bakes bread?", limit=100, min_similarity=0)
    kept = full.recall("Who bakes bread?", limit=100, min_similarity=min_similarity)
    assert {hit.id for hit in kept} >= {hit.id for hit in everyone if hit.signals["similarity"] >= min_similarity}
    assert all(hit.signals["similarity"] >= min_similarity - 1e-4 for hit in kept)


def test_importance_and_trust_thresholds(memory: Memory) -> None:
    for at, source in enumerate(["web:https://a.example", "tool:x", "agent", "user", "system"]):
        memory.remember(f"Rule {at} of the house", importance=at / 4, source=source)
    importances = [hit.record.importance for hit in memory.recall("rules of the house", min_importance=0.5, min_similarity=0)]
    assert sorted(importances) == [0.5, 0.75, 1.0]
    trusted = memory.recall("rules of the house", min_trust=0.6, min_similarity=0)
    assert sorted(hit.record.source for hit in trusted) == ["agent", "system", "user"]
    assert len(memory.recall("rules of the house", min_trust=0, min_similarity=0)) == 5


@pytest.mark.parametrize("limit", [-1, 0, 101, 10**9, 2.0, "5", True, None])
def test_limits_that_are_refused(memory: Memory, limit: Any) -> None:
    with pytest.raises(ValidationError, match="limit"):
        memory.recall("x", limit=limit)
    with pytest.raises(ValidationError, match="limit"):
        memory.list(limit=limit)


@pytest.mark.parametrize("name", ["min_similarity", "min_importance", "min_trust"])
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf"), "0.5", True])
def test_thresholds_that_are_refused(memory: Memory, name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        memory.recall("x", **{name: value})


def test_a_limit_is_kept(full: Memory) -> None:
    assert [len(full.recall("Dana", limit=limit, min_similarity=0)) for limit in (1, 5, 100)] == [1, 5, 100]
    assert len(full.recall("Dana", min_similarity=0)) == 5


def test_a_token_budget_leaves_out_what_does_not_fit(memory: Memory) -> None:
    memory.remember("heron " * 200)
    memory.remember("A heron stood in the pond.")
    memory.remember("The heron ate a frog.")
    found = memory.recall("heron", max_tokens=20, min_similarity=0)
    assert sorted(contents(found)) == ["A heron stood in the pond.", "The heron ate a frog."]
    assert found.left_out == 1
    nothing = memory.recall("heron", max_tokens=1, min_similarity=0)
    assert (len(nothing), nothing.left_out) == (0, 3)
    for bad in (0, -1, 1.5, "9"):
        with pytest.raises(ValidationError, match="max_tokens"):
            memory.recall("heron", max_tokens=bad)  # type: ignore[arg-type]


# -- freshness ----------------------------------------------------------------------------------------------------
def test_writes_updates_and_forgets_are_seen_at_once(memory: Memory) -> None:
    ask = "Where is the spare key?"
    assert not memory.recall(ask)
    id = memory.remember("The spare key is under the pot.").id or ""
    assert contents(memory.recall(ask)) == ["The spare key is under the pot."]
    memory.update(id, "The spare key is with Omar.")
    assert contents(memory.recall(ask)) == ["The spare key is with Omar."]
    assert not memory.recall("pot", min_similarity=0.9)
    memory.update(id, importance=1.0, metadata={"new": True})
    assert memory.recall(ask, min_importance=1.0, filter={"new": True})[0].record.version == 3
    memory.forget(id)
    assert not memory.recall(ask, min_similarity=0)
    assert not memory.recall(ask, min_similarity=0, as_of="2100-01-01")


def test_many_changes_between_recalls_leave_no_trace(memory: Memory) -> None:
    alive: dict[str, str] = {}
    for turn in range(8):
        for receipt, text in zip(
            memory.remember_many([f"turn {turn} word{turn}x{at}" for at in range(10)]),
            [f"turn {turn} word{turn}x{at}" for at in range(10)],
            strict=True,
        ):
            alive[receipt.id or ""] = text
        for id in list(alive)[::3]:
            if turn % 2:
                memory.forget(id)
                del alive[id]
            else:
                memory.update(id, f"{alive[id]} again{turn}")
                alive[id] = f"{alive[id]} again{turn}"
        found = memory.recall(f"turn {turn}", limit=100, min_similarity=0)
        assert all(alive[hit.id] == hit.content for hit in found)
        assert len({hit.id for hit in found}) == min(100, len(alive))
        assert found.considered == len(alive)


def test_a_record_is_never_missing_while_it_is_being_reworded(path: Path) -> None:
    with Memory.open(path, settings={"durable": False}) as memory:
        memory.remember_many(FACTS[:100])
        id = memory.remember("The zebra word is number 0.", tag="zebra").id or ""
        done = threading.Event()
        missing: list[int] = []

        def read() -> None:
            while not done.is_set():
                if not memory.recall("zebra word", tag="zebra", min_similarity=0):
                    missing.append(1)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for turn in range(300):
            memory.update(id, f"The zebra word is number {turn + 1}.")
        done.set()
        for reader in readers:
            reader.join()
        assert not missing
