"""Whatever is asked: a recall gives hits or none, in any store, and never an error of the engine behind it. Questions are text of
any kind, words of the engines' own languages and of the calendar among it; filters, cursors and times are what callers have."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone import Memory
from keepstone.errors import ValidationError
from keepstone.ports.filters import OPERATORS, matches, parse
from keepstone.text.times import EARLIEST, LATEST, lifetime, parse_time
from tests.security import fuzz_words as words
from tests.servers import emptied

# -- what is asked ------------------------------------------------------------------------------------------------
WORDS = "Dana bees Rome What is the city of my sister who where kayak harbour".split()

word = st.one_of(
    st.sampled_from(WORDS), st.sampled_from(words.ENGINES), st.sampled_from(words.WHEN), st.sampled_from(words.LETTERS),
    st.text(max_size=6), st.integers().map(str),
)  # fmt: skip
spaces = st.sampled_from((" ", "", "\n", "\u3000", ", "))
questions = st.one_of(
    st.builds(lambda parts, space: space.join(parts), st.lists(word, max_size=8), spaces),
    st.text(max_size=60),
    st.builds(lambda text, count: (text * count)[:11_000], st.text(min_size=1, max_size=6) | word, st.integers(1, 4000)),
)
names = st.one_of(st.sampled_from(("fact", "message", "general", "a'b", 'a"b', "s")), st.text(max_size=8))
moments = st.one_of(
    st.datetimes(), st.datetimes(timezones=st.timezones()), st.text(max_size=12), st.datetimes().map(datetime.isoformat),
    st.sampled_from(words.MOMENTS),
)  # fmt: skip

# -- filters ------------------------------------------------------------------------------------------------------
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(words.VALUES)
)  # fmt: skip
keys = st.sampled_from(words.KEYS) | st.text(max_size=4)
operands = scalars | st.lists(scalars, max_size=3)
conditions = st.one_of(
    scalars, st.dictionaries(st.sampled_from((*OPERATORS, "$gte", "$IN", "like", "")), operands, max_size=2),
)  # fmt: skip
filters = st.recursive(
    st.dictionaries(keys, conditions, max_size=3),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(("and", "or", "$or", "AND")), st.lists(inner, max_size=3), max_size=2),
        st.dictionaries(st.sampled_from(("not", "$not")), inner, max_size=1),
    ),
    max_leaves=6,
)


def filled(memory: Memory) -> Memory:
    for number, metadata in enumerate(words.METADATA):
        memory.remember(
            f"Dana keeps {number} bees in Rome, box {number * 7919}.", metadata=metadata, tag=("general", "a'b")[number % 2]
        )
    memory.ingest([{"role": "user", "content": "My sister lives in Oslo since 2019."}], session="s")
    return memory


@pytest.fixture(scope="module", params=["held", "searched", "postgres"])
def memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A file whose scope is held in memory, one whose scope is too large for that and is searched by the engine, a database."""
    place: Any = tmp_path_factory.mktemp("recall") / "memory.db"
    if request.param == "postgres":
        place = emptied(request.getfixturevalue("postgres_url"))
    settings = {"durable": False, "cache_mb": 1} if request.param == "searched" else {"durable": False}
    with Memory.open(place, user="dana", settings=settings) as opened:
        filled(opened)
        if request.param == "searched":
            opened.ingest(
                ({"role": "user", "content": f"Box {n} holds {n * 31} jars."} for n in range(1100)), session="many", extract=False
            )
            assert opened._engine.cache.view(opened.scope) is None
        yield opened
        assert opened.upkeep.doctor().healthy


# -- asking -------------------------------------------------------------------------------------------------------
@given(question=questions)
def test_any_question_has_an_answer(memory: Memory, question: str) -> None:
    found = memory.recall(question, limit=100)
    assert all(0 <= hit.score <= 1 for hit in found)
    assert len({hit.id for hit in found}) == len(found)
    assert isinstance(memory.context(question, max_tokens=200), str)


options = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(names, max_size=2), "tag": names, "session": names, "filter": filters, "as_of": moments,
        "known_at": moments, "asked_at": moments, "min_similarity": st.floats(), "min_importance": st.floats(),
        "min_trust": st.floats(), "limit": st.integers(-1, 200), "max_tokens": st.integers(-1, 50),
    },
)  # fmt: skip


@given(question=questions, given_=options)
def test_options_are_taken_or_refused(memory: Memory, question: str, given_: dict[str, Any]) -> None:
    try:
        found = memory.recall(question, **given_)
    except ValidationError as error:
        str(error).encode("utf-8")  # it goes out in an answer
        return
    assert len(found) <= given_.get("limit", 5)
    if (tree := parse(given_.get("filter"))) is not None:
        assert all(matches(tree, hit.record.metadata) for hit in found)


@given(text=questions.map(lambda text: text[:2000]))
def test_the_words_of_a_conversation(memory: Memory, text: str) -> None:
    try:
        found = memory.conversation("s").search(text)
    except ValidationError:
        return
    assert len(found) <= 2


@given(raw=filters)
def test_a_filter_means_the_same_everywhere_or_is_refused(memory: Memory, raw: dict[str, Any]) -> None:
    try:
        tree = parse(raw)
    except ValidationError as error:
        str(error).encode("utf-8")
        with pytest.raises(ValidationError):
            memory.list(filter=raw)
        return
    found = sorted(record.content for record in memory.list(kind="fact", filter=raw, limit=100))
    every = list(memory.list(kind="fact", limit=100))
    assert found == sorted(record.content for record in every if tree is None or matches(tree, record.metadata))


packed = st.one_of(st.integers(), st.text(max_size=20), st.lists(st.integers() | st.text(max_size=16), max_size=3), st.none())
cursors = st.one_of(
    st.text(max_size=300), st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode()),
    packed.map(lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")),
)  # fmt: skip


@given(cursor=cursors)
def test_a_cursor_that_is_made_up_is_refused(memory: Memory, cursor: str) -> None:
    with pytest.raises(ValidationError, match="cursor"):
        memory.list(cursor=cursor)


@given(tag=st.none() | names, kind=st.none() | names, limit=st.integers(1, 3))
def test_pages_hold_everything_once(memory: Memory, tag: str | None, kind: str | None, limit: int) -> None:
    try:
        page = memory.list(tag=tag, kind=kind, limit=limit)
    except ValidationError:
        return
    if page.cursor is not None:
        following = memory.list(tag=tag, kind=kind, limit=limit, cursor=page.cursor)
        assert not {each.id for each in page} & {each.id for each in following}
        with pytest.raises(ValidationError, match="cursor"):
            memory.with_scope(user="omar").list(tag=tag, kind=kind, limit=limit, cursor=page.cursor)


# -- times --------------------------------------------------------------------------------------------------------
@given(value=moments | scalars)
def test_a_time_is_one_or_is_refused(value: Any) -> None:
    try:
        found = parse_time(value, "as_of")
    except ValidationError as error:
        str(error)
        return
    assert EARLIEST <= found < LATEST
    assert found.utcoffset() == timedelta(0)
    assert parse_time(found.isoformat(), "as_of") == found


@given(value=scalars | st.timedeltas())
def test_a_lifetime_is_one_or_is_refused(value: Any) -> None:
    try:
        found = lifetime(value, "ttl")
    except ValidationError:
        return
    assert timedelta(0) < found <= timedelta(days=36525)
