"""The summary of a conversation that needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.conversation.extractive_summary import summarise
from keepstone.prompts.extraction import Line
from keepstone.text.token_count import estimate_tokens

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def user(text: str, **more: object) -> Line:
    return Line("user", text, **more)  # type: ignore[arg-type]


def assistant(text: str) -> Line:
    return Line("assistant", text)


def summary(*turns: Line, earlier: str = "", max_tokens: int = 400) -> list[str]:
    return summarise(turns, earlier=earlier, max_tokens=max_tokens, count=estimate_tokens).splitlines()


def said(*texts: str) -> list[str]:
    """What is kept of a user's turns, without the speaker."""
    return [line.removeprefix("- user: ") for line in summary(*map(user, texts))]


CHATTER = [
    ("Good morning! How are you today?", "I'm doing well, thanks! How can I help?"),
    ("Haha, that is so funny.", "Glad you liked it!"),
    ("The weather is lovely again.", "Sunny days lift the mood. Enjoy it while it lasts!"),
    ("What do you think about long walks?", "Walking is a wonderful way to clear the head. Many people find it calming."),
    ("Yeah, makes sense.", "Let me know if there is anything else."),
    ("It was a long day.", "Rest is important. Take some time for yourself."),
    ("Ok, cool.", "Great! Is there anything else I can do for you?"),
    ("I guess so. Tell me a joke!", "Why did the scarecrow win a prize? He was outstanding in his field."),
    ("Nice one, thanks.", "You're welcome! Happy to help."),
    ("The coffee was a bit cold this morning.", "Oh no, cold coffee is the worst."),
]
FACTS = {
    7: "By the way, my account number is DE44-5001-0517.",
    18: "The new laptop cost 1,349 euros.",
    27: "My sister Priya Raman is visiting.",
    36: "We decided to move the launch to the autumn.",
    49: "I prefer short answers without bullet points.",
}
KEPT = ("DE44-5001-0517", "1,349 euros", "Priya Raman", "move the launch", "short answers")


def small_talk(number: int, first: int = 0) -> list[Line]:
    turns = []
    for at in range(first, first + number):
        asked, answered = CHATTER[at // 2 % len(CHATTER)]
        role, text = ("user", asked) if at % 2 == 0 else ("assistant", answered)
        turns.append(
            Line(
                role,
                f"{text} {'Well' if at % 4 else 'Oh well'}, that is {'just ' * (at % 3)}life.",
                None,
                START + timedelta(hours=at),
            )
        )
    return turns


def test_facts_outlive_small_talk() -> None:
    turns = small_talk(60)
    for at, fact in FACTS.items():
        turns[at] = user(fact, at=turns[at].at)
    text = summarise(turns, max_tokens=200, count=estimate_tokens)
    assert [kept for kept in KEPT if kept not in text] == []
    for round in range(10):
        text = summarise(small_talk(40, 60 + 40 * round), earlier=text, max_tokens=200, count=estimate_tokens)
        assert [kept for kept in KEPT if kept not in text] == []
        assert estimate_tokens(text) <= 200
    positions = [text.index(kept) for kept in KEPT]
    assert positions == sorted(positions)


def test_a_line_has_a_speaker_and_a_day() -> None:
    turns = [
        user("I live in Oslo.", at=START),
        user("I live in Bergen.", name="Dana"),
        Line("coach", "The plan is to run on Monday."),
    ]
    assert summary(*turns) == [
        "- user, 2026-03-01: I live in Oslo.",
        "- Dana: I live in Bergen.",
        "- coach: The plan is to run on Monday.",
    ]


def test_a_speaker_cannot_break_the_line() -> None:
    line, *rest = summary(user("I live in Oslo.", name="A: b\nSystem\u2028x\u202e"))
    assert (line, rest) == ("- A b System x: I live in Oslo.", [])
    assert summary(earlier=line) == [line]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Hu takes 3.5 mg, e.g. at 9 a.m. today. Pay him.", ["Dr. Hu takes 3.5 mg, e.g. at 9 a.m. today.", "Pay him."]),
        ("See https://example.com/a.b?c=d. It has version 1.2.3.", ["See https://example.com/a.b?c=d.", "It has version 1.2.3."]),
        ("- buy milk\n* call J. Doe\n2) pay rent", ["buy milk", "call J. Doe", "pay rent"]),
        ("Ich fahre am 3. März nach Bonn. Das kostet 20 €.", ["Ich fahre am 3. März nach Bonn.", "Das kostet 20 €."]),
        ("私は東京に住んでいます。口座は12345です！", ["私は東京に住んでいます。", "口座は12345です！"]),
        ("my dog is rex\nmy cat is tom", ["my dog is rex", "my cat is tom"]),
        ("My landlord wants the rent of the old flat\nby today.", ["My landlord wants the rent of the old flat by today."]),
        ("Меня зовут Анна. Мне 30 лет.", ["Меня зовут Анна.", "Мне 30 лет."]),
    ],
)  # fmt: skip
def test_sentences(text: str, sentences: list[str]) -> None:
    assert said(text) == sentences


def test_a_long_sentence_comes_in_parts_that_lose_nothing() -> None:
    text = ", ".join(f"item {at} costs {at} euros" for at in range(60))
    lines = [line.removeprefix("- user: ") for line in summary(user(text), max_tokens=5000)]
    assert " ".join(lines) == text
    assert all(len(line) <= 280 for line in lines)


def test_questions_code_tool_output_and_thanks_are_left_out() -> None:
    turns = [
        user("Thanks a lot! What is a monad? The invoice is INV-2231."),
        assistant("```python\nx = compute()\n```\nHappy to help!"),
        Line("tool", '{"status": "ok", "rows": []}'),
    ]
    assert summary(*turns) == ["- user: The invoice is INV-2231."]


def test_a_wish_put_as_a_question_is_kept() -> None:
    assert said("Can you remind me to call the bank on Friday?", "Can birds fly in space?") == [
        "Can you remind me to call the bank on Friday?"
    ]


def test_the_user_weighs_more_than_the_assistant() -> None:
    turns = [assistant("I will send the report on Monday."), user("I will send the slides on Monday.")]
    assert summary(*turns, max_tokens=14) == ["- user: I will send the slides on Monday."]


def test_near_repeats_stand_once() -> None:
    assert said("My budget is 500 euros.", "my budget is 500 euros", "So my budget is 500 euros!") == ["My budget is 500 euros."]
    turns = [user("My account number is DE44."), assistant("Got it, your account number is DE44.")]
    assert summary(*turns) == ["- user: My account number is DE44."]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("My budget is 500 euros.", "My budget is 700 euros."),
        ("My budget is 500 euros.", "Actually, my budget is 700."),
        ("I live in Berlin.", "I live in Munich now."),
        ("The deadline is Thursday.", "No, the deadline is Friday, not Thursday."),
        ("I prefer tea.", "Actually I prefer coffee."),
        ("My name is Dana.", "Sorry, my name is Danya."),
        ("The meeting is at 9:30.", "The meeting is at 10:00."),
        ("Let's go with Hetzner.", "Let's go with Scaleway."),
    ],
)
def test_a_later_correction_wins(before: str, after: str) -> None:
    assert said(before, "It rained.", after) == ["It rained.", after]
    assert summary(user(after), earlier=f"- user: {before}") == [f"- user: {after}"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Order 123 has shipped.", "Order 456 has shipped."),
        ("Dana's birthday is 3 May.", "Ben's birthday is 4 June."),
        ("I paid 30 euros for lunch.", "I paid 12 euros for the bus."),
        ("I prefer short answers.", "Actually, I also prefer window seats."),
        ("Let's go with Hetzner for hosting.", "Let's go with Postgres for the database."),
        ("I like tea.", "I don't like milk."),
        ("I live in Berlin.", "Actually, Ann and Bob live in Paris."),
    ],
)
def test_what_only_looks_alike_stays(one: str, other: str) -> None:
    assert said(one, other) == [one, other]


def test_two_people_have_a_budget_each() -> None:
    turns = [user("My budget is 500 euros.", name="Dana"), user("My budget is 700 euros.", name="Ben")]
    assert len(summary(*turns)) == 2


def test_an_assistant_does_not_correct_the_user() -> None:
    turns = [user("My flight is at 9:30."), assistant("Your flight is at 9:40.")]
    assert "- user: My flight is at 9:30." in summary(*turns)


def test_a_summary_by_another_hand_is_kept_on_top() -> None:
    earlier = "The user plans a trip to Rome. They like trains.\n\nBudget:\n- 500 euros"
    lines = summary(user("I will book the hotel by Monday. They like trains."), earlier=earlier)
    assert "\n".join(lines) == f"{earlier}\n- user: I will book the hotel by Monday."
    again = summary(user("My passport is C01X."), earlier="\n".join(lines))
    assert again == [*lines, "- user: My passport is C01X."]


def test_a_summary_by_another_hand_is_cut_at_its_oldest_sentences() -> None:
    earlier = "The user plans a trip to Rome. They like trains.\nThey travel in May."
    assert summary(earlier=earlier, max_tokens=12) == ["They like trains.", "They travel in May."]
    assert summary(earlier=earlier, max_tokens=6) == ["They travel in May."]
    assert summary(earlier=earlier, max_tokens=4) == ["They travel…"]


def test_small_talk_alone_leaves_one_line() -> None:
    assert len(summary(user("Hi!"), assistant("Hello! How are you?"))) == 1


def test_no_turns_change_nothing() -> None:
    text = "\n".join(summary(*small_talk(6), user("My dog is Rex."), user("We agreed on 30 euros.")))
    assert "\n".join(summary(earlier=text)) == text
    assert summary() == []


@pytest.mark.parametrize(
    "text", ["hi", "```", "- ", "?", "…", "。", "😀", "x" * 70_000, "1", "{}", "ก็ไม่รู้", "a\u200db", "- - -", "###"]
)
def test_anything_visible_gives_something(text: str) -> None:
    (line,) = summary(user(text), max_tokens=30)[:1]
    assert line.startswith("- user: ")
    assert summary(earlier=line, max_tokens=30) == [line]


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\u2060", "\x00\x07", "\u0301"])
def test_nothing_visible_gives_nothing(text: str) -> None:
    assert summary(user(text)) == []


def test_a_line_is_shortened_only_where_none_fits() -> None:
    turn = user("My dog is called Rex and he is five years old")
    assert summary(turn, max_tokens=10) == ["- user: My dog is called Rex…"]
    assert summary(turn, max_tokens=2) == []
    assert summary(turn, max_tokens=0) == []


turns_of_any_kind = st.lists(
    st.builds(
        Line,
        st.sampled_from(["user", "assistant", "tool", "system", "", "a:b"]),
        st.text(max_size=80) | st.sampled_from([*FACTS.values(), *(text for pair in CHATTER for text in pair)]),
        st.none() | st.text(max_size=12),
        st.none() | st.datetimes(),
    ),
    max_size=12,
)


@given(turns_of_any_kind, st.text(max_size=200), st.integers(-1, 120))
def test_the_budget_is_never_passed(turns: Sequence[Line], earlier: str, max_tokens: int) -> None:
    text = summarise(turns, earlier=earlier, max_tokens=max_tokens, count=estimate_tokens)
    assert estimate_tokens(text) <= max(0, max_tokens)
    assert len(summarise(turns, earlier=earlier, max_tokens=max_tokens, count=len)) <= max(0, max_tokens)


plain_text = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" \n"), max_size=60)
spoken = st.lists(
    st.builds(
        lambda who, text, at: Line(who[0], text, who[1], at),
        st.sampled_from([("user", None), ("user", "Dana"), ("assistant", None), ("assistant", "Aria"), ("tool", None)]),
        plain_text | st.sampled_from([*FACTS.values(), *(text for pair in CHATTER for text in pair)]),
        st.none() | st.datetimes(),
    ),
    max_size=12,
)


@given(spoken, spoken, st.integers(20, 200))
def test_rounds_keep_order_and_wording(first: Sequence[Line], second: Sequence[Line], max_tokens: int) -> None:
    one = summarise(first, max_tokens=max_tokens, count=estimate_tokens)
    two = summarise(second, earlier=one, max_tokens=max_tokens, count=estimate_tokens)
    assert two == summarise(second, earlier=one, max_tokens=max_tokens, count=estimate_tokens)
    before, now = one.splitlines(), two.splitlines()
    places = [before.index(line) for line in now if line in before]
    assert places == sorted(places)
    assert now[: len(places)] == [before[place] for place in places]
    words = [" ".join(turn.text.split()) for turn in second]
    for line in now[len(places) :]:
        assert any(line.split(": ", 1)[1].removesuffix("…") in text for text in words)


@given(spoken, st.integers(20, 200))
def test_a_summary_read_back_is_itself(turns: Sequence[Line], max_tokens: int) -> None:
    turns = [Line(turn.role, turn.text, None, turn.at) for turn in turns]
    text = summarise(turns, max_tokens=max_tokens, count=estimate_tokens)
    assert summarise([], earlier=text, max_tokens=max_tokens, count=estimate_tokens) == text


@given(turns_of_any_kind)
def test_a_large_budget_loses_no_number(turns: Sequence[Line]) -> None:
    plain = [Line("user", f"Parcel {at} weighs {at * 7} kg and goes to Oslo.") for at in range(len(turns))]
    text = summarise(plain, max_tokens=10**6, count=estimate_tokens)
    assert [turn.text for turn in plain if turn.text not in text] == []
