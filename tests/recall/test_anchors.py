"""Events that a question dates itself by: found where a record tells of them, and left alone where none does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from keepstone.embedders.static import StaticEmbedder
from keepstone.ports.values import Vector
from keepstone.recall.candidates import first_pass
from keepstone.recall.features import score_candidates
from keepstone.recall.fusion import estimate_scores
from keepstone.recall.question import Question, parse_question
from keepstone.recall.time_window import EVENT_SPAN, resolve_event
from keepstone.scope_index.columns import View
from keepstone.text.times import micros
from tests.recall.rows import Line, everywhere, said, told, view

NOW = datetime(2024, 3, 15, tzinfo=UTC)
MOVED = datetime(2022, 5, 1, tzinfo=UTC)
STORY = [
    ("I moved to Berlin today, the flat is small", MOVED),
    ("I bake rye bread every Sunday", datetime(2021, 2, 1, tzinfo=UTC)),
    ("My bicycle was stolen at the station", datetime(2023, 1, 9, tzinfo=UTC)),
    ("The dentist said all is well", datetime(2023, 8, 9, tzinfo=UTC)),
]


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


def scope(embedder: StaticEmbedder, story: list[tuple[str, datetime]] = STORY) -> View:
    vectors = embedder.embed([text for text, _ in story])
    lines = [
        said(n, text, vector=tuple(vector.tolist()), occurred=micros(when), role="user")
        for n, ((text, when), vector) in enumerate(zip(story, vectors, strict=True), 1)
    ]
    return view(*lines, dimension=embedder.dimension)


def ask(over: View, embedder: StaticEmbedder | None, text: str, usable: np.ndarray | None = None) -> tuple[Question, Question]:
    """The question as it was read, and as it is with its event."""

    def embed(words: str) -> Vector | None:
        return None if embedder is None else embedder.embed([words], purpose="query")[0]

    question = parse_question(text, over.speakers, NOW)
    return question, resolve_event(over, question, everywhere(over) if usable is None else usable, embed, None)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did I bake before I moved to Berlin?", None, MOVED),
        ("What was stolen after I moved to Berlin?", MOVED, None),
        ("What happened to me since I moved to Berlin?", MOVED, None),
        ("What did I own when I moved to Berlin?", MOVED - EVENT_SPAN, MOVED + EVENT_SPAN),
        ("What did I hear while I moved to Berlin?", MOVED - EVENT_SPAN, MOVED + EVENT_SPAN),
    ],
)
def test_the_time_of_a_known_event(embedder: StaticEmbedder, text: str, start: datetime | None, end: datetime | None) -> None:
    question, found = ask(scope(embedder), embedder, text)
    assert question.event is None
    assert found.event is not None
    assert (found.event.start, found.event.end) == (start, end)
    assert "moved to Berlin" in found.event.anchor
    assert (found.words, found.embedding_text, found.time) == (question.words, question.embedding_text, question.time)


@pytest.mark.parametrize(
    "text",
    [
        "What did I cook before I met the astronaut?", "What did I cook?", "What did I cook last year?", "",
        "What did I do before I adopted a parrot?", "What did I read after the earthquake struck Chile?",
    ],
)  # fmt: skip
def test_an_unknown_event_leaves_the_question_alone(embedder: StaticEmbedder, text: str) -> None:
    question, found = ask(scope(embedder), embedder, text)
    assert found == question
    assert found.event is None


def test_a_question_that_has_a_date_of_its_own_keeps_it(embedder: StaticEmbedder) -> None:
    question, found = ask(scope(embedder), embedder, "What did I bake in 2021 before I moved to Berlin?")
    assert question.time is not None
    assert question.time.start is not None
    assert found == question


def test_a_scope_with_nothing_to_use(embedder: StaticEmbedder) -> None:
    over = scope(embedder)
    text = "What did I bake before I moved to Berlin?"
    question, found = ask(over, embedder, text, np.zeros(over.size, dtype=np.bool_))
    assert found == question
    empty = view(dimension=embedder.dimension)
    assert ask(empty, embedder, text)[1].event is None


def test_a_record_that_may_not_be_used_tells_of_nothing(embedder: StaticEmbedder) -> None:
    over = scope(embedder)
    usable = everywhere(over)
    usable[0] = False
    assert ask(over, embedder, "What did I bake before I moved to Berlin?", usable)[1].event is None


def test_words_alone_can_tell_of_an_event() -> None:
    lines = [told(n, text, occurred=micros(when)) for n, (text, when) in enumerate(STORY, 1)]
    _, found = ask(view(*lines), None, "What did I bake before I moved to Berlin?")
    assert found.event is not None
    assert found.event.end == MOVED


def test_what_lies_on_the_asked_side_of_the_event_is_nearer(embedder: StaticEmbedder) -> None:
    over = scope(embedder)

    def nearness(text: str) -> list[float]:
        _, question = ask(over, embedder, text)
        vector = embedder.embed([question.embedding_text], purpose="query")[0]
        seen = first_pass(over, question, vector, everywhere(over))
        near = score_candidates(over, question, seen, everywhere(over), estimate_scores(over, question, seen), 5, None)
        return [float(value) for value in near.column("event")]

    before = nearness("What did I bake before I moved to Berlin?")
    assert before[:2] == [1, 1]
    assert max(before[2:]) < 0.2
    after = nearness("What did I lose after I moved to Berlin?")
    assert [after[0], *after[2:]] == [1, 1, 1]
    assert after[1] < 0.2
    assert nearness("What did I bake?") == [0] * 4


def test_of_two_that_tell_of_it_the_better_dates_it(embedder: StaticEmbedder) -> None:
    later = (MOVED + timedelta(days=400), "We talked about Berlin and its museums")
    over = scope(embedder, [(later[1], later[0]), *STORY])
    _, found = ask(over, embedder, "What did I bake before I moved to Berlin?")
    assert found.event is not None
    assert found.event.end == MOVED


def test_lines_made_by_hand_have_their_times() -> None:
    assert view(Line(1, occurred=7), Line(2)).occurred.tolist() == [7, 20]
