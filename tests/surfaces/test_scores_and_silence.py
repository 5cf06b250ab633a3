"""What a score and the confidence of a recall say, and when recall stays silent; run over HTTP as well."""

from __future__ import annotations

import pytest

from keepstone import Memory


def test_a_recall_says_how_sure_it_is(memory: Memory) -> None:
    memory.remember("Dana drinks green tea every morning.")
    memory.remember("The deployment runs on Fridays at noon.")
    sure = memory.recall("What does Dana drink in the morning?")
    unsure = memory.recall("Who wrote The Hobbit?")
    assert sure[0].content.startswith("Dana")
    assert 0.5 < sure.confidence <= 1
    assert not unsure
    assert 0 <= unsure.confidence < 0.1
    closest = memory.recall("Who wrote The Hobbit?", min_similarity=0)
    assert len(closest) == 2
    assert all(0 <= hit.score < 0.2 for hit in closest)


def test_how_sure_it_must_be_is_the_callers_choice(memory: Memory) -> None:
    memory.remember("My son was let go in July, now he drives for a lumber yard.")
    question = "Where does my son live?"
    found = memory.recall(question)
    assert found
    assert not memory.recall(question, min_confidence=min(1.0, found.confidence + 0.01))
    assert memory.recall(question, min_confidence=0)


def test_names_that_were_never_heard_lower_the_score(memory: Memory) -> None:
    memory.remember("Marta plays the cello in the city orchestra.")
    known = memory.recall("Which instrument does Marta play?", min_similarity=0)
    stranger = memory.recall("Which instrument does Ottilie play?", min_similarity=0)
    assert stranger[0].score < known[0].score / 2


def test_a_message_does_not_inherit_the_similarity_of_the_one_before(memory: Memory) -> None:
    memory.ingest(
        [
            {"role": "user", "content": "Our spare key hangs behind the third plank of the woodshed."},
            {"role": "assistant", "content": "Noted."},
        ],
        session="s",
        extract=False,
    )
    question = "Where does our spare key hang?"
    shown = {hit.content: hit.signals for hit in memory.recall(question, min_similarity=0)}
    assert shown["Noted."]["similarity"] < 0.3
    assert shown["Noted."]["neighbours"] > 0.2
    assert [hit.record.role for hit in memory.recall(question, min_similarity=0.4)] == ["user"]


def test_questions_asked_before_do_not_crowd_out_the_answer(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": "The gate code is 4471, don't tell the neighbours."}], session="first")
    rewordings = (
        "What's the gate code?", "Which code opens the gate?", "gate code?", "Do you know the code of the gate?",
        "What was the code for our gate again?", "Can you tell me the gate code?",
    )  # fmt: skip
    for number, text in enumerate(rewordings):
        memory.ingest([{"role": "user", "content": text}], session=f"later-{number}", extract=False)
    found = memory.recall("What is the code of the gate?")
    assert "4471" in found[0].content


@pytest.mark.parametrize("question", ["How do I make the slow wifi faster?", "Why is the wifi so slow?"])
def test_an_unrelated_rule_is_not_recalled(memory: Memory, question: str) -> None:
    memory.remember("Deployments happen on Thursdays after the stand-up, never on Fridays.")
    memory.remember("Pull requests need two approvals before merging.")
    assert not memory.recall(question)
