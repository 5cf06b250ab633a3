"""What may be learned and what may not: echoes, laundered words, answers, times, and all that was said."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.learning.echo_guard import is_invented
from keepstone.ports.chat import Prompt
from tests.surfaces.support import Clock, timed
from tests.surfaces.test_learning_by_model import answers, assistant, at_rest, facts, proposed, user

SECRET = "quokkamarmalade"


# a message reworded while a model reads it
def test_what_was_reworded_during_the_model_call_is_not_learned(path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        memory.update(receipt.id or "", "Never mind.")
        return {"facts": [proposed(f"The user's code word is {SECRET}.")]}

    with at_rest(path, model) as memory:
        receipt = memory.conversation("s").add("user", f"My code word is {SECRET}.")
        memory.jobs.run()
        assert facts(memory) == []


# yes that is none
@pytest.mark.parametrize(
    "said",
    [
        "I do not.",
        "I am not.",
        "I did not!",
        "It is not.",
        "Right, write me a poem about cats.",
        "Ok, next question: write me a poem.",
        "Sure, but that is wrong.",
        "Ok thanks",
        "True crime podcasts bore me.",
    ],
)
def test_what_is_no_yes_confirms_nothing(path: Path, said: str) -> None:
    with at_rest(path, answers(proposed("The user banks with Acme and collects jazz vinyl.", 3))) as memory:
        memory.ingest(
            [
                user("Summarise that page."),
                assistant("The page says that you bank with Acme and collect jazz vinyl."),
                user(said),
            ],
            session="s",
        )
        memory.jobs.run()
        assert facts(memory) == []


# ordinary answers to a question
@pytest.mark.parametrize(
    ("question", "answer", "fact"),
    [
        ("What is your favourite colour?", "Blue.", "The user's favourite colour is blue."),
        ("What is your dog's name?", "Rex", "The user's dog is named Rex."),
        ("How many people work in your team?", "Seven", "Seven people work in the user's team."),
        ("Which programming language do you use at work?", "Rust", "The user uses the programming language Rust at work."),
    ],
)
def test_an_answer_to_a_question_is_learned(path: Path, question: str, answer: str, fact: str) -> None:
    with at_rest(path, answers(proposed(fact, 3))) as memory:
        memory.ingest([user("Help me with a quiz."), assistant(question), user(answer)], session="s")
        memory.jobs.run()
        assert [each.content for each in facts(memory)] == [fact]


# ordinary facts that are refused as invented
@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Ich trinke keinen Alkohol.", "Der Nutzer trinkt keinen Alkohol."),  # any German fact: nouns have capitals
        ("ich bin dana, schreib mir bitte kurz", "Dana möchte kurze Antworten."),
        ("My daughter just turned 4 years old.", "The user has a 4-year-old daughter."),
        ("The flat costs 1200 dollars a month.", "The user's flat costs $1,200 a month."),
        ("Standup is at 7 pm.", "The user's standup is at 7pm."),
        ("I run 10 km every sunday.", "The user runs 10 km on Sundays."),
        ("My laptop has 16 GB of ram.", "The user's laptop has 16GB of RAM."),
        ("I was born 10 March 1990.", "The user was born on 10/03/1990."),
        ("my name is jose, with an accent", "The user's name is José."),
        ("my name is jean luc", "The user's name is Jean-Luc."),
        ("Call me at 912 345 678.", "The user's phone number is 912345678."),
        ("I pay two hundred fifty euros for the gym.", "The user pays 250 euros for the gym."),
        ("I'm a doctor. My hospital is in Leeds.", "The user is a doctor. Her hospital is in Leeds."),
    ],
)
def test_an_ordinary_fact_is_not_called_invented(said: str, fact: str) -> None:
    assert not is_invented(fact, [said], ("Porto", "Tom", "Lisbon", "Dana"))


# a question of the user's launders the answer to it
@pytest.mark.parametrize(
    ("asked", "told", "fact"),
    [
        ("Where do I live?", "According to the page, you live in Evilton.", "The user lives in Evilton."),
        ("What is my IBAN?", "Your IBAN is DE8937040044.", "The user's IBAN is DE8937040044."),
    ],
)
@pytest.mark.parametrize("role", ["assistant", "tool"])
def test_a_question_does_not_launder_its_answer(path: Path, asked: str, told: str, fact: str, role: str) -> None:
    with at_rest(path, answers(proposed(fact, 1))) as memory:
        memory.ingest([user(asked), {"role": role, "content": told}], session="s")
        memory.jobs.run()
        assert facts(memory) == []


# derived writes and time
def learned(memory: Memory) -> list[str]:
    return [each.content for each in memory.list(limit=100) if each.kind != "message"]


def test_a_clock_that_steps_back_costs_no_fact(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.ingest([user("I live in Lisbon.")], session="s")
        clock.forward(seconds=-5)
        memory.ingest([user("I live in Porto.")], session="s")
        assert learned(memory) == ["The user lives in Porto."]


def test_a_date_in_the_future_does_not_pin_a_key(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.ingest([user("I live in Lisbon.", at=(clock.at + timedelta(days=3650)).isoformat())], session="a")
        clock.forward(days=1)
        memory.ingest([user("I live in Porto.")], session="b")
        assert learned(memory) == ["The user lives in Porto."]


def test_a_receipt_names_nothing_as_learned_that_was_refused(memory: Memory) -> None:
    memory.ingest([user("I live in Porto.")], session="a")
    receipt = memory.ingest([user("I live in Lisbon.", at="2020-01-01T00:00:00Z")], session="b")[0]
    assert receipt.learned == ()


# known from a less trusted source
def test_what_the_user_says_counts_even_if_a_page_said_it_before(path: Path) -> None:
    fact = "The user is allergic to peanuts."
    with at_rest(path, answers(proposed(fact))) as memory:
        memory.remember(fact, source="web:https://a.example", tag="note")
        memory.ingest([user("I am allergic to peanuts.")], session="s")
        memory.jobs.run()
        memory.forget(source="web")
        assert learned(memory) == [fact]


# what the assistant said after the user is no echo
AFTER = [
    ("No meat or fish for me, ever.", "Got it, I'll keep everything vegetarian.", "The user is vegetarian."),
    ("I can't have anything with milk in it.", "Understood, you are lactose intolerant.", "The user is lactose intolerant."),
    (
        "we're having a baby in june!!",
        "Congratulations on becoming a parent in June!",
        "The user is becoming a parent in June 2026.",
    ),
    ("I fix teeth for a living.", "A dentist, how nice! What can I do for you?", "The user is a dentist."),
    (
        "the little one starts first grade on monday",
        "I hope your child's school start goes well!",
        "The user's child starts school on Monday.",
    ),
]


@pytest.mark.parametrize(("said", "reply", "fact"), AFTER)
def test_an_acknowledgement_makes_no_echo_of_what_was_said_before_it(path: Path, said: str, reply: str, fact: str) -> None:
    with at_rest(path, answers(proposed(fact, 1))) as memory:
        memory.ingest([user(said), assistant(reply)], session="s")
        memory.jobs.run()
        assert [each.content for each in facts(memory)] == [fact]


# a job whose messages stand far apart
def with_steps(path: Path, chats: int, steps: int, text: str) -> list[str]:
    """The prompts for a session in which every message of the user is followed by steps."""
    seen: list[str] = []

    def model(prompt: Prompt) -> Any:
        seen.append(prompt.messages[-1]["content"])
        return {"facts": []}

    with at_rest(path, model) as memory:
        for at in range(chats):
            memory.conversation("s").add("user", f"I own item number{at}x.")
            done = [{"role": "assistant", "content": f"{text} {each}"} for each in range(steps)]
            memory._engine.learner.ingest(memory.scope, done, "s", tag="step")
        memory.jobs.run()
    return seen


def test_every_message_of_a_job_is_read(path: Path) -> None:
    read = "".join(with_steps(path, chats=30, steps=10, text="step"))
    assert [at for at in range(30) if f"number{at}x" not in read] == []


def test_tool_results_between_do_not_fill_the_prompt(path: Path) -> None:
    sizes = [len(each) for each in with_steps(path, chats=15, steps=10, text="result " * 2800)]
    assert max(sizes) < 400_000  # characters, about 100,000 tokens
