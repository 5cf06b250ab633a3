"""The reader: it judges the first hits of English questions where a model call follows, and silence follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.embedders.reader import Reader
from keepstone.errors import ConfigurationError, EmbedderError


def test_it_tells_an_answer_from_what_looks_like_one() -> None:
    question = "When is Marta's birthday?"
    texts = [
        "Marta's birthday is the 3rd of May.",
        "Jonas has his birthday in May.",
        "Marta lives in Porto.",
        "When was Marta born?",
    ]
    right, *wrong = Reader()(question, texts)
    assert right > 0
    assert all(logit < right - 2 for logit in wrong)
    assert Reader()(question, texts[:1])[0] == pytest.approx(right, abs=1e-2)  # padding changes nothing


def test_it_reads_what_replaces_a_statement_for_a_question() -> None:
    older, question = "I drive a green Ford pickup.", "Which car do I have?"
    change, episode = "Traded the pickup in, there is a Toyota in the yard.", "A neighbour washed his Ford in the rain."
    replaced, kept = Reader().replaces(older, [change, episode], question)
    assert replaced > 0 > kept
    assert Reader().replaces(older, [change])[0] > Reader().replaces(older, [episode])[0]


def test_a_later_statement_in_other_words_comes_first() -> None:
    with Memory.open(":memory:") as memory:
        old = memory.remember("I drive a green Ford pickup.", occurred_at="2026-01-10")
        new = memory.remember("Traded the pickup in, there is a Toyota in the yard.", occurred_at="2026-05-02")
        memory.remember("A neighbour washed his Ford in the rain.", occurred_at="2026-06-01")
        found = memory.call_tool("recall_memory", {"query": "Which car do I have?"})["memories"]
        assert [each["id"] for each in found][:2] == [new.id, old.id]
        assert found[1]["superseded_by"] == new.id


def test_a_list_that_nothing_is_a_member_of_brings_nothing() -> None:
    with Memory.open(":memory:") as memory:
        for text in ("I lost a shoe at the party on Saturday.", "French is my second language.", "We tour the harbour in May."):
            memory.remember(text)
        assert memory.context("What are the rules of curling?") == ""
        assert "French" in memory.context("Which languages do I speak?")


def test_what_was_just_said_is_not_read_beside_what_answers_it() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("Alice sails on Sundays.")
        asked = "My boat is named Tern. When does Alice sail?"
        memory.conversation("now").add("user", asked)
        assert "Sundays" in memory.context(asked)
        assert asked not in memory.context(asked)


def test_a_damaged_model_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[CLS]\n[SEP]\n")
    with pytest.raises(EmbedderError, match="reader's model"):
        Reader(tmp_path)("Where?", ["Here."])


def test_plain_recall_does_without_unless_it_is_told_to() -> None:
    question = "Which instrument does Marta play?"
    for reader, reads in (("auto", False), ("always", True), ("off", False)):
        with Memory.open(":memory:", settings={"reader": reader}) as memory:
            memory.remember("Marta plays the cello in the city orchestra.")
            memory.remember("Marta lives in Porto.")
            found = memory.recall(question)
            assert any("a reader judged" in note for note in found.notes) is reads
            assert [("reader" in hit.signals) for hit in found][:1] == [reads]
            assert found[0].content.startswith("Marta plays")
    with pytest.raises(ConfigurationError, match="auto, always, off"):
        Memory.open(":memory:", settings={"reader": "sometimes"})


def test_a_birthday_never_said_brings_nobody_elses() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("Jonas has his birthday on the 9th of May.")
        memory.remember("Marta lives in Porto with her two dogs.")
        question = "When is Marta's birthday?"
        assert memory.context(question) == ""
        assert memory.call_tool("recall_memory", {"query": question})["memories"] == []
        memory.remember("Marta was born on 3 March 1991.")
        assert "3 March" in memory.context(question)


def test_a_preference_is_found_beside_two_hundred_tickets() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("I'd rather sit at the window than on the aisle when I fly.")
        areas = ("billing", "login", "search", "export", "mail", "upload", "report", "webhook")
        for number in range(200):
            memory.remember(
                f"Ticket {4000 + number}: the {areas[number % 8]} page shows error {500 + number % 20} for customer {number}."
            )
        assert "window" in memory.context("Which seat should you book for me?")


def test_a_failing_reader_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Reader, question: str, texts: Sequence[str]) -> list[float]:
        raise EmbedderError("the model's files are gone")

    monkeypatch.setattr(Reader, "__call__", fail)
    with Memory.open(":memory:", settings={"reader": "always"}) as memory:
        memory.remember("Marta plays the cello.")
        found = memory.recall("What does Marta play?")
        assert found[0].content == "Marta plays the cello."
        assert any("the model's files are gone" in note for note in found.notes)


def test_a_reader_that_misses_a_paraphrase_does_not_silence_a_good_hit() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("Dana prefers dark mode.")
        assert "dark mode" in memory.context("Which theme does Dana like?")


def test_an_overview_is_not_read() -> None:
    with Memory.open(":memory:", settings={"reader": "always"}) as memory:
        memory.remember("The spare key is with Marta.")
        memory.remember("Marta was born in Toruń.")
        found = memory.recall("What do you know about Marta?")
        assert len(found) == 2
        assert not [note for note in found.notes if "reader" in note]


def test_nothing_is_compared_where_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def replaces(self: Reader, older: str, newer: Sequence[str], question: str = "") -> list[float]:
        compared.append(older)
        return [-5.0] * len(newer)

    monkeypatch.setattr(Reader, "replaces", replaces)
    with Memory.open(":memory:", settings={"reader": "always"}) as memory:
        memory.remember("I drive a green Ford pickup.", occurred_at="2026-01-10")
        memory.remember("Traded the pickup in, there is a Toyota in the yard.", occurred_at="2026-05-02")
        assert not memory.recall("Who invented the steam engine?")
        assert not compared
        assert memory.recall("Which car do I have?")
        assert compared
