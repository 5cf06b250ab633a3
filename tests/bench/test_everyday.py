"""The everyday set is whole and its splits are apart; the figures are what they say; a run prints them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.datasets import DatasetError
from bench.everyday import main
from bench.everyday.asking import Answer, ask, verify
from bench.everyday.figures import ROWS, at, auroc, bins, calibration_error
from bench.everyday.people import SPLITS, UNANSWERABLE, Person, Question, load, read

PEOPLE = {split: load(split) for split in SPLITS}
EVERYONE = [person for people in PEOPLE.values() for person in people]


def named(person: Person) -> str:
    return person.name


def questions(person: Person) -> list[Question]:
    updates = [update.question for update in person.updates]
    return [*person.answerable, *person.unanswerable, *updates, *person.traps, *person.times]


# -- the data -----------------------------------------------------------------------------------------------------
def test_the_splits_are_halves_with_nobody_and_nothing_in_common() -> None:
    development, test = (PEOPLE[split] for split in SPLITS)
    assert len(development) == len(test) >= 5
    assert not {each.name for each in development} & {each.name for each in test}
    texts = [{statement.text for person in people for statement in person.statements} for people in (development, test)]
    asked = [
        {question.text for person in people for question in (*person.answerable, *person.unanswerable, *person.traps)}
        for people in (development, test)
    ]
    assert not texts[0] & texts[1]
    assert not asked[0] & asked[1]


@pytest.mark.parametrize("person", EVERYONE, ids=named)
def test_a_person_has_enough_of_every_kind(person: Person) -> None:
    assert sum(each.id.startswith("f") for each in person.statements) >= 60
    assert len(person.answerable) >= 40
    assert sum(each.few_words for each in person.answerable) >= 20
    assert Counter(each.kind for each in person.unanswerable) == {"unrelated": 14, "premise": 13, "attribute": 13}
    assert len(person.updates) >= 15
    assert sum(each.no_words for each in person.updates) * 2 >= len(person.updates)
    assert len(person.traps) >= 6
    assert len(person.times) >= 10
    assert len(person.instructions) >= 3
    assert len(person.contradictions) >= 6


@pytest.mark.parametrize("person", EVERYONE, ids=named)
def test_what_questions_name_was_told_before_they_are_asked(person: Person) -> None:
    told = {each.id: each for each in person.statements}
    for question in questions(person):
        assert bool(question.gold) == (question.kind not in UNANSWERABLE), question.text
        assert all(told[gold].said_at < question.asked_at for gold in question.gold), question.text
    for update in person.updates:
        assert told[update.old].said_at < told[update.new].said_at, told[update.new].text
    for instruction in person.instructions:
        assert instruction.statement in told
    for contradiction in person.contradictions:
        assert contradiction.old.said_at < contradiction.new.said_at
    assert all(one.said_at <= other.said_at for one, other in pairwise(person.statements))


@pytest.mark.parametrize("person", EVERYONE, ids=named)
def test_nothing_is_there_twice(person: Person) -> None:
    contradicting = [each for pair in person.contradictions for each in (pair.old, pair.new)]
    for values in (
        [each.id for each in (*person.statements, *contradicting)],
        [each.text for each in (*person.statements, *contradicting)],
        [(each.text, each.asked_at) for each in questions(person)],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    path.write_text('{"about": "a pilot"}')
    with pytest.raises(DatasetError, match="is not in the form of the everyday set"):
        read(path)


# -- the figures --------------------------------------------------------------------------------------------------
def test_auroc_is_the_share_of_pairs_in_order() -> None:
    luck = np.random.default_rng(3)
    positive, negative = luck.integers(0, 8, 40) / 8, luck.integers(0, 6, 30) / 8
    pairs = [1.0 if one > other else 0.5 if one == other else 0.0 for one in positive for other in negative]
    assert auroc(positive, negative) == pytest.approx(sum(pairs) / len(pairs))
    assert auroc(np.zeros(3), np.zeros(5)) == 0.5


def test_a_score_is_calibrated_where_it_is_the_share_of_right_ones() -> None:
    scores = np.array([0.25] * 4 + [0.75] * 4)
    assert calibration_error(scores, np.array([1, 0, 0, 0, 1, 1, 1, 0.0])) == 0
    assert calibration_error(scores, np.zeros(8)) == 0.5
    found = [each for each in bins(scores, np.array([1, 0, 0, 0, 1, 1, 1, 0.0])) if each["questions"]]
    assert [(each["from"], each["questions"], each["right"]) for each in found] == [(0.2, 4, 0.25), (0.7, 4, 0.75)]


def test_a_question_that_needs_all_is_right_with_all_only() -> None:
    asked_at = PEOPLE["development"][0].statements[0].said_at
    both = Question("Which lamps?", asked_at, ("a", "b"), whole=True)
    one = Question("Which lamp?", asked_at, ("a", "b"))
    hits = (frozenset({"c"}), frozenset({"b"}))
    assert not Answer(both, hits, 0.5).among
    assert Answer(one, hits, 0.5).among
    assert not Answer(one, hits, 0.5).first
    assert Answer(one, (), 0.0).silent


# -- runs ---------------------------------------------------------------------------------------------------------
def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(list(arguments)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_a_run_has_every_figure_with_its_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    svg = tmp_path / "reliability.svg"
    found = run(capsys, "--people", "student", "--embedder", "none", "--svg", str(svg))
    assert (found["split"], found["embedder"], list(found["people"])) == ("development", "none", ["student"])
    for path in ROWS:
        low, high = found["intervals"][path]
        assert 0 <= low <= at(found, path) <= high <= 1, path
        assert found["questions"][path] > 0
        assert found["people"]["student"][path] == at(found, path)
    assert sum(each["questions"] for each in found["calibration"]["bins"]) == found["questions"]["calibration.error"]
    assert svg.read_text().startswith("<svg")


def test_time_questions_are_asked_before_what_is_told_later() -> None:
    person = next(each for each in PEOPLE["development"] if each.name == "student")
    told = {each.id: each.said_at for each in person.statements}
    for answer in ask(person, "none").times:
        assert all(told[id] <= answer.question.asked_at for hit in answer.hits for id in hit)


def test_a_plain_contradiction_is_found_and_a_plain_fact_is_not_taken_for_one() -> None:
    person = next(each for each in PEOPLE["development"] if each.name == "student")
    flags, held = verify(person, "none")
    assert flags <= {each.old.id for each in person.contradictions}
    assert held > 30


def test_what_cannot_be_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--people", "pilot"]) == 2
    assert "the development split has no 'pilot': use carpenter" in capsys.readouterr().err
    assert main(["--embedder", "statik"]) == 2
    assert "Did you mean 'static'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--split", "test", "--errors"])
    assert "are not to be looked at" in capsys.readouterr().err
