"""English, German and Chinese in one scope: told, asked, corrected and learned on every surface."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keepstone import Memory
from tests.server.mcp_support import called, command, run

FACTS = (
    "My brother repairs violins in Cremona.",
    "Meine Katzen heißen Minka und Paul.",
    "我每个星期三去游泳馆游泳。",
    "The spare keys hang behind the boiler.",
    "Der Schornsteinfeger kommt immer im Oktober.",
    "我对花生过敏，不能吃花生酱。",
)
ASKED = {
    "Who repairs a violin?": FACTS[0],
    "Wie heißt meine Katze?": FACTS[1],
    "我星期几去游泳？": FACTS[2],
    "Where are the spare keys?": FACTS[3],
    "Wann kommt der Schornsteinfeger?": FACTS[4],
    "我对什么过敏？": FACTS[5],
}


@pytest.mark.parametrize("question", ASKED)
def test_a_question_finds_the_fact_in_its_language_among_others(memory: Memory, question: str) -> None:
    memory.remember_many(FACTS)
    assert memory.recall(question, limit=3)[0].content == ASKED[question]


@pytest.mark.parametrize(
    ("question", "fact"),
    [("Wogegen bin ich allergisch?", FACTS[5]), ("What are my cats called?", FACTS[1]), ("谁会修小提琴？", FACTS[0])],
)
def test_a_question_finds_a_fact_in_another_language(memory: Memory, question: str, fact: str) -> None:
    memory.remember_many(FACTS)
    assert memory.recall(question, limit=3)[0].content == fact


def test_a_question_in_a_language_that_is_not_known_says_so(memory: Memory) -> None:
    memory.remember_many((*FACTS, "Veljeni korjaa viuluja Cremonassa."))
    found = memory.recall("Missä kaupungissa veljeni korjaa viuluja?")
    assert found[0].content == "Veljeni korjaa viuluja Cremonassa."
    assert any("does not know the language of the question" in note for note in found.notes)


def test_facts_are_learned_in_the_language_of_each_message_under_one_set_of_keys(memory: Memory) -> None:
    memory.ingest(
        [
            {"role": "user", "content": "Hi, my name is Dana."},
            {"role": "assistant", "content": "Schön, dich kennenzulernen! Wo wohnst du?"},
            {"role": "user", "content": "Ich wohne in Köln und ich bin allergisch gegen Haselnüsse."},
            {"role": "assistant", "content": "好的，我记住了。你喜欢什么？"},
            {"role": "user", "content": "我很喜欢古典音乐。"},
            {"role": "user", "content": "Wenn ich reich wäre, würde ich in Paris wohnen. 如果我住在北京，我就买车。"},
        ],
        session="mixed",
    )
    assert memory.value("user.name") == "The user's name is Dana."
    assert memory.value("user.home") == "Der Nutzer wohnt in Köln."
    learned = {record.content for record in memory.list() if record.kind == "fact"}
    assert {"Der Nutzer ist allergisch gegen Haselnüsse.", "用户喜欢古典音乐。"} <= learned
    assert not any("Paris" in content or "北京" in content for content in learned)
    memory.ingest([{"role": "user", "content": "我现在住在上海。"}], session="later")
    assert memory.value("user.home") == "用户住在上海。"


def test_a_repetition_is_merged_and_a_denial_is_not(memory: Memory) -> None:
    memory.remember_many(FACTS)
    memory.remember("meine katzen heißen Minka und Paul")
    memory.remember("我每个星期三去游泳馆游泳")
    assert len(memory.list()) == len(FACTS)
    memory.remember("Meine Katzen heißen nicht Minka und Paul.")
    memory.remember("我每个星期三不去游泳馆游泳。")
    assert len(memory.list()) == len(FACTS) + 2


def test_the_tools_of_mcp_take_and_give_every_script(tmp_path: Path) -> None:
    async def work() -> None:
        from mcp import Client

        async with Client(command("--db", str(tmp_path / "memory.db"), cwd=tmp_path), mode="auto") as client:
            for fact in FACTS:
                await called(client, "write_memory", content=fact)
            for question, fact in ASKED.items():
                answer = json.dumps(await called(client, "recall_memory", query=question), ensure_ascii=False)
                assert fact in answer

    run(work)
