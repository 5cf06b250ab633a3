"""Six rewordings of a question in earlier sessions do not keep the statement that answers it from coming first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from tests.agent.support import agent_on, every_strategy, served, shown
from tests.models.endpoint import say

CASES = [
    (
        "The server room door code is 4471.",
        "What's the server room door code?",
        [
            "What is the door code of the server room?",
            "Do you know the server room code?",
            "Which code opens the server room door?",
            "Can you tell me the code for the server room?",
            "What was the server room door code again?",
            "Remind me, what's the code to the server room?",
        ],
    ),
    (
        "I'm allergic to peanuts and shellfish.",
        "What allergies do I have?",
        [
            "What am I allergic to?",
            "Which allergies do I have?",
            "Do I have food allergies?",
            "What foods should I avoid because of allergies?",
            "Tell me what I'm allergic to",
            "Am I allergic to something?",
        ],
    ),
    (
        "Wir liefern immer donnerstags aus.",
        "Wann liefern wir aus?",
        [
            "An welchem Tag liefern wir aus?",
            "Wann liefern wir immer aus?",
            "Weißt du, wann wir ausliefern?",
            "Liefern wir freitags aus?",
            "Welcher Tag ist unser Liefertag?",
            "Wann wird bei uns ausgeliefert?",
        ],
    ),
]
cases = pytest.mark.parametrize(("statement", "question", "rewordings"), CASES, ids=["code", "allergy", "german"])


def fill(memory: Memory, statement: str, rewordings: list[str]) -> None:
    for session, text in enumerate([statement, *rewordings]):
        reply = "I'm not sure." if session else "Noted."
        memory.ingest([{"role": "user", "content": text}, {"role": "assistant", "content": reply}], session=f"day-{session}")


@cases
def test_the_statement_comes_first(memory: Memory, statement: str, question: str, rewordings: list[str]) -> None:
    fill(memory, statement, rewordings)
    subject = statement.split()[-1]
    assert subject in memory.recall(question)[0].content
    assert subject in memory.call_tool("recall_memory", {"query": question})["memories"][0]["content"]
    assert subject in memory.context(question, max_tokens=100)
    said = memory.recall(f"What did I ask about {subject} before: {question}", limit=7)
    assert {hit.content for hit in said} & set(rewordings)  # a question about questions still finds them


@every_strategy
def test_every_strategy_shows_the_statement(path: Path, strategy: str) -> None:
    statement, question, rewordings = CASES[0]
    with served(lambda request: say("I see.")) as endpoint, Memory.open(path, settings={"extract": False}) as memory:
        fill(memory, statement, rewordings)
        limits: dict[str, dict[str, Any]] = {
            "tools": {"memory_tokens": 100},
            "vector": {"memory_tokens": 100},
            "buffer": {},
            "summary": {"max_messages": 6, "cheap_model": lambda prompt: ""},  # so sentences are picked
        }
        agent_on(memory, "anthropic", endpoint, strategy=strategy, **limits[strategy]).chat(question, session="today")
        assert "4471" in shown(endpoint.requests[-1])


def test_a_question_that_tells_something_still_counts(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": "Did I tell you that we moved to Porto in May?"}], session="monday")
    memory.ingest([{"role": "user", "content": "Where do we live now?"}], session="tuesday")
    assert "Porto" in memory.recall("Where did we move to?")[0].content
