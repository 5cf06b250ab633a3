"""The closer look: every signal of a small conversation by hand, and in a large scope none of the best is missed."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from keepstone.recall.candidates import MAX_SCORED, FirstPass, first_pass
from keepstone.recall.features import NAMES, Features, score_candidates
from keepstone.recall.fusion import estimate_scores, sum_features
from keepstone.recall.question import Question, parse_question
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.text.time_expressions import TimeHint
from keepstone.text.times import instant, micros
from tests.recall.rows import Line, changes, everywhere, said, told, unit, view

USUAL = 0.09  # the deviation at which cosines are left as they are
QUERY = unit(1)
DAY = 86_400_000_000


def measured(
    over: View, text: str, vector: tuple[float, ...] | None = QUERY, now: datetime | None = None, **rest: Any
) -> tuple[Features, FirstPass, Question]:
    usable = rest.pop("usable", everywhere(over))
    question = parse_question(text, over.speakers, now or instant(0))
    seen = first_pass(over, question, None if vector is None else np.array(vector, dtype=np.float32), usable, USUAL)
    hoped = estimate_scores(over, question, seen)
    return score_candidates(over, question, seen, usable, hoped, rest.get("wanted", 5), rest.get("also")), seen, question


def column(over: View, name: str, text: str = "", **rest: Any) -> list[float]:
    near = measured(over, text, **rest)[0]
    assert near.slots.tolist() == list(range(over.size)), "not every record was measured"
    return [float(value) for value in near.column(name)]


def toward(cosine: float, archived: int = 1) -> tuple[float, ...]:
    """A unit vector with this cosine to QUERY, the rest of it in another direction."""
    parts = [cosine, 0.0, 0.0, 0.0]
    parts[archived] = math.sqrt(1 - cosine**2)
    return tuple(parts)


COSINES = (0.1, 0.5, 0.8, 0.3, -0.2)
TALK = tuple(said(n, "words", vector=toward(cosine)) for n, cosine in enumerate(COSINES, 1))
OTHERS = (told(6, "a fact", vector=toward(0.7), session="s"), said(7, "alone", session="t", vector=toward(0.6)))


@pytest.fixture
def talk() -> View:
    """Five messages of one session, a fact of the same session, a message that is alone in its own."""
    return view(*TALK, *OTHERS)


# -- meaning -----------------------------------------------------------------------------------------------------------
def test_the_message_before(talk: View) -> None:
    assert column(talk, "previous") == pytest.approx([0, *COSINES[:4], 0, 0], abs=1e-6)


def test_a_reply_is_known_by_the_question_before_it() -> None:
    over = view(
        said(1, "What do you drink?", vector=toward(0.6)),
        said(2, "Tea.", vector=toward(0.1)),
        said(3, "And you?", vector=toward(0.2)),
        said(4, "Do I what?", vector=toward(0.3)),
        said(5, "Milk.", vector=toward(0.4)),
        said(6, "How come?", session="t", vector=toward(-0.5)),
        said(7, "It just is.", session="t", vector=toward(0.5)),
    )
    assert column(over, "reply") == pytest.approx([0, 0.6, 0, 0, 0.3, 0, 0], abs=1e-6)


def test_nearest_is_the_record_alone_or_with_the_message_before(talk: View) -> None:
    pairs = column(talk, "pair")
    alone = [*COSINES, 0.7, 0.6]
    assert column(talk, "nearest") == pytest.approx([max(each) for each in zip(alone, pairs, strict=True)], abs=1e-6)
    assert any(pair > cosine + 0.01 for pair, cosine in zip(pairs, alone, strict=True))
    assert any(pair < cosine - 0.01 for pair, cosine in zip(pairs, alone, strict=True))


def test_a_pair_is_the_cosine_with_both_messages_together(talk: View) -> None:
    expected = [0.1]
    for before, line in pairwise(TALK):
        together = np.add(before.vector, line.vector)  # type: ignore[arg-type]
        expected.append(float(together[0] / np.linalg.norm(together)))
    assert column(talk, "pair") == pytest.approx([*expected, 0.7, 0.6], abs=1e-5)


def test_a_pair_of_opposites_stays_finite() -> None:
    over = view(said(1, "yes", vector=toward(0.3)), said(2, "no", vector=tuple(-x for x in toward(0.3))))
    assert column(over, "pair")[1] == pytest.approx(0, abs=1e-6)


def test_a_session_is_the_mean_of_its_three_best(talk: View) -> None:
    best = (0.8 + 0.5 + 0.3) / 3
    assert column(talk, "session") == pytest.approx([best] * 5 + [0.7, 0.6], abs=1e-6)


def test_a_session_of_two_is_the_mean_of_both() -> None:
    over = view(said(1, "a", vector=toward(0.2)), said(2, "b", vector=toward(0.4)), said(3, "c", session="t", vector=toward(0.9)))
    assert column(over, "session") == pytest.approx([0.3, 0.3, 0.9], abs=1e-6)


# -- words -------------------------------------------------------------------------------------------------------------
def test_coverage_takes_of_each_word_the_best_of_the_neighbourhood() -> None:
    lines = [said(n, text, vector=QUERY) for n, text in enumerate(("qtea", "qx", "qcat", "qx", "qx"), 1)]
    over = view(*lines, told(6, "qtea"), said(7, "qcat", session="t"))
    tea, cat = (each.rarity for each in measured(over, "qtea qcat")[1].matches)
    assert tea == pytest.approx(cat)
    halves = [(1, 0.4), (0.8, 0.6), (0.5, 1), (0, 0.8), (0, 0.5), (1, 0), (0, 1)]
    assert column(over, "coverage", "qtea qcat") == pytest.approx([sum(each) / 2 for each in halves], abs=1e-6)


def test_coverage_of_a_name_is_that_of_the_speakers_turns() -> None:
    over = view(said(1, "qtea", name="Dana"), said(2, "qx", name="Omar"), said(3, "qx", name="Omar"), said(4, "qx", name="Omar"))
    assert column(over, "coverage", "Dana") == pytest.approx([1, 0.8, 0.5, 0], abs=1e-6)


def test_words_are_those_of_the_first_look(talk: View) -> None:
    near, seen, _ = measured(talk, "words alone")
    assert near.column("words").tolist() == seen.keywords.tolist()
    assert max(seen.keywords) > 0


def test_session_words_count_the_whole_session() -> None:
    over = view(
        said(1, "qtea qtea"), said(2, "qx"), said(3, "qcat", session="t"), said(4, "qx", session="u"), said(5, "qx", session=None)
    )

    def rarity(held: int) -> float:
        return math.log(1 + (3 + 5 - held + 0.5) / (held + 0.5))

    in_s, in_t = rarity(1) * 2 / 3.2, rarity(1) * 1 / 2.2
    total = 2 * rarity(1)
    assert column(over, "session_words", "qtea qcat") == pytest.approx([in_s / total, in_s / total, in_t / total, 0, 0], abs=1e-6)


def test_records_without_a_session_are_no_session_of_their_own() -> None:
    talks = (said(1, "qtea"), said(2, "qcat", session="t"))
    alone = column(view(*talks), "session_words", "qtea qcat")
    beside = column(view(*talks, told(3, "qtea"), said(4, "qtea", session=None)), "session_words", "qtea qcat")
    assert beside[:2] == pytest.approx(alone, abs=1e-6)


def test_a_record_without_a_session_has_its_own_words() -> None:
    over = view(told(1, "qtea"), told(2, "qtea qx qx", session="s"), said(3, "qcat"))
    near, seen, _ = measured(over, "qtea")
    assert near.column("session_words")[:2].tolist() == seen.keywords[:2].tolist()
    assert seen.keywords[0] > 0


def test_words_of_messages_that_are_gone_do_not_speak_for_their_session() -> None:
    index = ScopeIndex(0)
    index.apply(changes(1, [said(1, "qtea qcat"), said(2, "qdog"), said(3, "qmilk", session="t")]))
    index.apply(changes(2, [], [1]))
    over = index.view()
    near = measured(over, "qtea qcat", vector=None)[0]
    assert near.column("session_words").tolist() == [0.0, 0.0]


# -- who ---------------------------------------------------------------------------------------------------------------
def test_the_speaker_is_the_one_named() -> None:
    over = view(said(1, "qx", name="Dana"), said(2, "qx", name="Omar"), told(3, "Dana"), said(4, "qx", name="Dana Smith"))
    assert column(over, "speaker", "What does Dana say?") == [1, 0, 0, 1]
    assert column(over, "speaker", "What does Smith say?") == [0, 0, 0, 1]
    assert column(over, "speaker", "What is said?") == [0, 0, 0, 0]
    assert column(over, "speaker", "Dana or Omar?") == [0, 0, 0, 0], "all who speak are named, so the name says nothing"


def test_whose_words_they_are() -> None:
    over = view(said(1, "qx", role="user"), said(2, "qx", role="assistant"), told(3, "qx"), said(4, "qx", role="tool"))
    assert column(over, "own_words", "qx") == [1, 0, 1, 1]
    for name, text, expected in (
        ("of_user", "What is my name?", [1, 0, np.float32(1.3), 1]),  # the third is a fact: kept on purpose
        ("of_user", "What is the user's name?", [1, 0, np.float32(1.3), 1]),
        ("of_user", "What did you suggest?", [0] * 4),
        ("of_user", "Which city?", [0] * 4),
        ("of_assistant", "What did you suggest?", [0, 1, 0, 0]),
        ("of_assistant", "What is my name?", [0] * 4),
    ):
        assert column(over, name, text) == expected, (name, text)


# -- form --------------------------------------------------------------------------------------------------------------
def test_what_a_record_does() -> None:
    texts = ("Shall we go?", "We paid 9 dollars", "I left on Friday", "It is blue", "Since 2019 I ask: why?")
    over = view(*(told(n, text) for n, text in enumerate(texts, 1)))
    assert column(over, "asks", "blue") == [1, 0, 0, 0, 1]
    assert column(over, "tells_number", "How many?") == [0, 1, 0, 0, 1]
    assert column(over, "tells_number", "Who?") == [0] * 5
    assert column(over, "tells_time", "When was it?") == [0, 0, 1, 0, 1]
    assert column(over, "tells_time", "Who was it?") == [0] * 5


def test_length_and_importance() -> None:
    over = view(Line(1, ("a",) * 7, importance=0.2), Line(2, (), importance=1.0))
    assert column(over, "length", "qx") == pytest.approx([math.log(8), 0])
    assert column(over, "importance", "qx") == pytest.approx([0.2, 1])


# -- times -------------------------------------------------------------------------------------------------------------
def test_nearness_to_the_time_that_is_asked_for() -> None:
    now = datetime(2024, 3, 15, 12, tzinfo=UTC)
    days = (datetime(2024, 2, 10, tzinfo=UTC), datetime(2024, 3, 10, tzinfo=UTC), datetime(2021, 2, 10, tzinfo=UTC))
    over = view(*(told(n, "qx", occurred=micros(day)) for n, day in enumerate(days, 1)))
    inside, after, long_ago = column(over, "time", "What did I do in February?", now=now)
    assert inside == 1
    away = (days[1] - datetime(2024, 3, 1, tzinfo=UTC)) / timedelta(days=29)
    assert after == pytest.approx(1 / (1 + (2 * away) ** 2), abs=1e-4)
    assert long_ago < 0.01
    assert column(over, "time", "What did I do?", now=now) == [0, 0, 0]


def test_nearness_to_an_event() -> None:
    over = view(*(told(n, "qx", occurred=day * DAY) for n, day in enumerate((10, 20, 60), 1)))
    question = parse_question("qx", {}, instant(0))
    seen = first_pass(over, question, None, everywhere(over), USUAL)
    event = TimeHint(None, instant(20 * DAY), "", anchor="it happened", relation="before")
    near = score_candidates(
        over, replace(question, event=event), seen, everywhere(over), estimate_scores(over, question, seen), 5, None
    )
    assert near.column("event").tolist() == pytest.approx([1, 1, 1 / (1 + (2 * 40 / 30) ** 2)], abs=1e-4)
    assert column(over, "event", "qx") == [0, 0, 0]


def test_the_newest_and_the_oldest_go_by_rank() -> None:
    over = view(*(told(n, "qx", occurred=day * DAY) for n, day in enumerate((-9000, 14, 20), 1)))
    assert column(over, "latest", "What is my current job?") == pytest.approx([0, 0.5, 1])
    assert column(over, "earliest", "What was the first song I wrote?") == pytest.approx([1, 0.5, 0])
    for name in ("latest", "earliest"):
        assert column(over, name, "What is my job?") == [0, 0, 0]
    together = view(*(told(n, "qx", occurred=day * DAY) for n, day in enumerate((10, 20, 20), 1)))
    assert column(together, "latest", "What is my current job?") == [0, 1, 1], "both are the newest"


def test_the_newest_of_one_record_and_of_records_of_one_moment() -> None:
    for count in (1, 3):
        over = view(*(told(n, "qx", occurred=DAY) for n in range(1, count + 1)))
        assert len(set(column(over, "latest", "What is my current job?"))) == 1


def test_only_what_may_be_used_counts_for_the_newest() -> None:
    lines = [told(n, "qx", occurred=day * DAY) for n, day in enumerate((10, 20), 1)]
    over = view(*lines, told(3, "qx", occurred=90 * DAY, active=False))
    assert measured(over, "What is my current job?")[0].column("latest").tolist() == [0, 1]


# -- which are measured ------------------------------------------------------------------------------------------------
def test_inactive_neighbours_give_nothing_and_hide_those_behind_them() -> None:
    lines = [said(n, text, vector=toward(0.5)) for n, text in enumerate(("qtea", "qtea", "qx"), 1)]
    over = view(lines[0], lines[1].with_(active=False), lines[2])
    near = measured(over, "qtea")[0]
    assert near.slots.tolist() == [0, 2]
    assert near.column("previous").tolist() == [0, 0]
    assert near.column("coverage").tolist() == pytest.approx([1, 0])
    assert near.column("pair").tolist() == near.column("nearest").tolist() == pytest.approx([0.5, 0.5])


def test_neighbours_that_a_filter_leaves_out_still_tell_what_was_talked_about() -> None:
    over = view(said(1, "qtea", role="user"), said(2, "qx", role="assistant"))
    near = measured(over, "qtea", usable=np.array([False, True]))[0]
    assert near.slots.tolist() == [1]
    assert near.column("coverage").tolist() == pytest.approx([0.8])


def test_a_record_that_is_asked_about_is_measured_though_it_may_not_be_used(talk: View) -> None:
    usable = everywhere(talk)
    usable[3] = False
    assert measured(talk, "words", usable=usable)[0].slots.tolist() == [0, 1, 2, 4, 5, 6]
    assert measured(talk, "words", usable=usable, also=3)[0].slots.tolist() == list(range(7))


@pytest.mark.parametrize("text", ["", "???"])
def test_a_question_that_asks_nothing_speaks_for_nobody(talk: View, text: str) -> None:
    assert not measured(talk, text, vector=None)[0].values.any()


def test_an_empty_scope() -> None:
    near = measured(view(), "tea")[0]
    assert near.values.shape == (0, len(NAMES))


def test_in_a_large_scope_the_best_are_among_the_candidates() -> None:
    chance = np.random.default_rng(8)
    words = [f"q{letter}" for letter in "abcdfghjklmnp"]
    lines = []
    for n in range(1, 3001):
        raw = chance.normal(size=16)
        role = "assistant" if n % 2 else "user"
        vector = tuple((raw / np.linalg.norm(raw)).tolist())
        content = " ".join(chance.choice(words, size=6))
        made = said(n, content, session=f"s{n // 25}", role=role) if n % 5 else told(n, content)
        lines.append(made.with_(vector=vector))
    over = view(*lines, dimension=16)
    for at in range(12):
        vector = tuple(np.add(over.vectors[at * 200], chance.normal(size=16) * 0.1).tolist())
        text = " ".join(chance.choice(words, size=3)) + (" What did you suggest?" if at % 3 == 0 else " What is my answer?")
        near, seen, question = measured(over, text, vector)
        whole = score_candidates(over, question, seen, everywhere(over), estimate_scores(over, question, seen), over.size, None)
        assert MAX_SCORED <= len(near.slots) < len(whole.slots) == 3000
        first = whole.slots[np.argsort(-sum_features(whole))][:3]
        assert first[0] in near.slots
        place = near.slots.tolist().index(first[0])
        assert near.slots[sum_features(near).argmax()] in first
        assert near.column("coverage")[place] == whole.column("coverage")[first[0]]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("has Amara qtea?", 0.0),
        ("has Bartek qtea?", 1.0),
        ("has Amara or Bartek qtea?", 0.5),
        ("has qtea?", 0.0),
        ("has nobody?", 0.0),
    ],
)
def test_names_that_nothing_in_the_scope_has_are_strange(text: str, share: float) -> None:
    over = view(said(1, "qtea", name="Amara"), said(2, "qx", name="Omar"), told(3, "qx"))
    assert measured(over, text)[0].unknown_names == share
