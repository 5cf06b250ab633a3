"""The facts and questions in fifteen languages are complete and apart, and the benchmark counts what recall returns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import chain
from typing import Any

import pytest

from bench.languages import main
from bench.languages.command import Result, auroc, language_figures, mean_figures, select
from bench.languages.data import FOLDER, NAMES, SPLITS, Question, Store, load_language, load_mixed
from keepstone import Memory

HALVES = [(language, split) for language in NAMES for split in SPLITS]


def stores(split: str) -> Iterator[Store]:
    yield from (load_language(language, split) for language in NAMES)
    yield from load_mixed(split)


def texts(store: Store) -> list[str]:
    return [each.text for each in chain(store.statements, store.questions)]


# -- data ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("split", SPLITS)
def test_a_split_has_a_file_for_every_language_and_one_for_mixed_stores(split: str) -> None:
    assert {path.stem for path in (FOLDER / split).glob("*.json")} == {*NAMES, "mixed"}


@pytest.mark.parametrize(("language", "split"), HALVES)
def test_a_language_has_enough_of_every_kind(language: str, split: str) -> None:
    store = load_language(language, split)
    counts = Counter(question.kind for question in store.questions)
    answers = {question.answer for question in store.questions if question.kind in ("own", "own_word")}
    assert len(answers) == counts["own"] + counts["own_word"] >= 20
    assert counts["own_word"] >= 3
    assert counts["unrelated"] >= 6
    assert counts["false_premise"] >= 2
    assert counts["never_said"] >= 2
    assert counts["update_shared"] == counts["update_other"] == 3
    assert counts["cross"] >= 10 or language == "en"


@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_was_said_and_no_text_stands_twice_in_a_store(split: str) -> None:
    for store in stores(split):
        said = {each.text for each in store.statements}
        unanswerable = {"unrelated", "false_premise", "never_said"}
        assert all(each.answer in said for each in store.questions if each.kind not in unanswerable), store.name
        assert all(not each.answer for each in store.questions if each.kind in unanswerable), store.name
        assert [text for text, count in Counter(texts(store)).items() if count > 1] == [], store.name
        assert all(text == text.strip() and len(text) > 3 for text in texts(store)), store.name


def test_the_splits_have_no_text_in_common() -> None:
    development, test = ({text for store in stores(split) for text in texts(store)} for split in SPLITS)
    assert len(development & test) == 0


@pytest.mark.parametrize(("language", "split"), HALVES)
def test_the_newer_statement_of_an_update_is_newer(language: str, split: str) -> None:
    data = json.loads((FOLDER / split / f"{language}.json").read_text(encoding="utf-8"))
    assert data["language"] == language
    for update in data["updates"]:
        assert date.fromisoformat(update["old"]["said"]) < date.fromisoformat(update["new"]["said"]) < date(2026, 1, 1)


@pytest.mark.parametrize("split", SPLITS)
def test_mixed_stores_ask_in_every_language_and_in_others_than_the_fact(split: str) -> None:
    data = json.loads((FOLDER / split / "mixed.json").read_text(encoding="utf-8"))
    facts = [fact for store in data["stores"] for fact in store["facts"]]
    assert {fact["language"] for fact in facts} == {fact["asked_in"] for fact in facts} == set(NAMES)
    assert 0.3 < sum(fact["language"] == fact["asked_in"] for fact in facts) / len(facts) < 0.7
    assert all(len({fact["language"] for fact in store["facts"]}) >= 3 for store in data["stores"])


@pytest.mark.parametrize("split", SPLITS)
def test_facts_are_stored_as_they_are(split: str) -> None:
    for store in stores(split):
        with Memory.open(":memory:", embedder="none") as memory:
            receipts = [memory.remember(each.text, occurred_at=each.said) for each in store.statements]
            kept = {getattr(memory.get(receipt.id), "content", None) for receipt in receipts}
        assert kept == {each.text for each in store.statements}, store.name


# -- figures ------------------------------------------------------------------------------------------------------
def test_auroc_counts_pairs_and_half_of_the_ties() -> None:
    assert auroc([0.9, 0.8], [0.1, 0.2]) == 1.0
    assert auroc([0.1], [0.9, 0.9]) == 0.0
    assert auroc([0.5, 0.5], [0.5]) == 0.5
    assert auroc([], [0.5]) is None


def test_figures_are_shares_of_what_was_asked() -> None:
    asked = [
        Result(Question("own", "a?", "a"), ("a", "b"), 0.9),
        Result(Question("own", "b?", "b"), ("a", "b"), 0.8),
        Result(Question("own_word", "c?", "c"), (), 0.2),
        Result(Question("unrelated", "u?"), (), 0.1),
        Result(Question("never_said", "n?"), ("a",), 0.5),
        Result(Question("update_other", "x?", "new"), ("new", "old"), 0.7),
        Result(Question("update_shared", "y?", "newer"), ("older",), 0.7),
    ]
    found = language_figures(asked)
    assert found["questions"] == {"all": 7, "own": 3, "cross": 0, "unanswerable": 2, "updates": 2}
    assert (found["first"], found["five"], found["word_five"], found["nothing"]) == (0.3333, 0.6667, 0.0, 0.3333)
    assert (found["unrelated_silent"], found["unanswerable_silent"]) == (1.0, 0.5)
    assert (found["update_first"], found["update_other_words_first"]) == (0.5, 1.0)
    assert found["auroc"] == round(5 / 6, 4)
    assert found["cross_first"] is None


def test_english_is_the_reference_and_not_in_the_mean() -> None:
    rows: dict[str, dict[str, Any]] = {
        "en": {"questions": {}, "first": 0.9, "cross_first": None},
        "de": {"questions": {}, "first": 0.2, "cross_first": 0.1},
        "ja": {"questions": {}, "first": 0.4, "cross_first": None},
    }
    assert mean_figures(rows) == {"first": 0.3, "cross_first": 0.1}
    assert mean_figures({"en": rows["en"]}) == {"first": 0.9, "cross_first": None}


def test_a_limit_is_for_each_kind() -> None:
    questions = [Question(kind, f"{kind} {at}") for at in range(3) for kind in ("own", "unrelated")]
    assert [each.text for each in select(questions, 2)] == ["own 0", "own 1", "unrelated 0", "unrelated 1"]
    assert len(select(questions, None)) == 6


# -- the command --------------------------------------------------------------------------------------------------
def test_the_last_line_is_one_object_with_the_chosen_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--languages", "en,th", "--limit", "3", "--misses"]) == 0
    shown = capsys.readouterr().out.splitlines()
    found = json.loads(shown[-1])
    assert set(found["languages"]) == {"en", "th"}
    assert found["languages"]["th"]["questions"] == {"all": 24, "own": 6, "cross": 3, "unanswerable": 9, "updates": 6}
    assert (found["split"], found["embedder"]) == ("development", "auto")
    assert "mixed" not in found
    assert any("Thai" in line for line in shown)


def test_all_languages_bring_the_mixed_stores(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--split", "test", "--limit", "1", "--embedder", "none", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert list(found["languages"]) == list(NAMES)
    assert found["mixed"]["questions"] == 8
    assert found["command"] == "python -m bench languages --split test --limit 1 --embedder none"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--languages", "de,xx"], "unknown language 'xx'"),
        (["--limit", "0"], "give 1 or more"),
        (["--split", "test", "--misses"], "stay unread"),
    ],
)
def test_wrong_options_are_refused(wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(wrong)
    assert told in capsys.readouterr().err


def test_an_unknown_embedder_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--languages", "en", "--embedder", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
