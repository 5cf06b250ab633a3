"""With a model: messages are committed first, then a job asks the model for the facts in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Record
from keepstone.ports.chat import Prompt
from tests.surfaces.support import contents, everything

Answering = Callable[[Prompt], Any]
TURN = re.compile(r'<turn number="(\d+)" role="(\w+)"([^>]*)>(.*?)</turn>', re.DOTALL)


def proposed(content: str, *turns: int, key: str | None = None, type: str = "profile", sure: float = 0.9) -> dict[str, Any]:
    """A fact as a model proposes it."""
    return {"turns": list(turns or (1,)), "content": content, "type": type, "key": key, "confidence": sure}


def answers(*facts: Mapping[str, Any]) -> Answering:
    """A model that always proposes the same."""
    return lambda prompt: {"facts": list(facts)}


def shown(prompt: Prompt) -> list[tuple[str, str, bool]]:
    """(role, text, whether it is new) of the turns in a prompt."""
    return [(role, text, 'context="yes"' not in more) for _, role, more, text in TURN.findall(prompt.messages[-1]["content"])]


def at_rest(path: Path | str, model: Any, **options: Any) -> Memory:
    """A memory whose queue is worked on only when it is asked to."""
    settings = {"worker": False, **options.pop("settings", {})}
    return Memory.open(path, model=model, settings=settings, **options)


def facts(memory: Memory) -> list[Record]:
    """What was learned, oldest first; neither messages nor notes."""
    return [record for record in reversed(everything(memory)) if record.kind not in ("message", "note")]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def test_what_was_said_is_on_disk_and_recallable_before_the_model_is_asked(path: Path) -> None:
    seen: list[str] = []

    def model(prompt: Prompt) -> Any:
        with Memory.open(path) as other:  # another connection sees only what is committed
            seen.extend(contents(other.recall("Where does Dana keep the bicycle?", limit=1)))
            assert [message.content for message in other.conversation.recent()] == [
                "The bicycle is in the cellar.",
                "I live in Porto.",
            ]
        return {"facts": [proposed("The user lives in Porto.", 2)]}

    with at_rest(path, model) as memory:
        receipts = memory.ingest([user("The bicycle is in the cellar."), user("I live in Porto.")], session="s")
        assert [(receipt.action, receipt.learned) for receipt in receipts] == [("added", ()), ("added", ())]
        assert facts(memory) == []  # the rules keep out of it where a model is set
        report = memory.jobs.run()
        assert (report.done, report.failed, report.problems) == (1, 0, ())
        assert seen == ["The bicycle is in the cellar."]
        assert [fact.id for fact in facts(memory)] == list(report.learned)


def test_a_fact_carries_its_type_key_confidence_parents_session_source_and_trust(path: Path) -> None:
    model = answers(proposed("The user lives in Porto.", 1, 3, key="home.city", sure=0.876))
    with at_rest(path, model) as memory:
        said = [user("I live in Porto.", at="2026-03-01T10:00:00Z"), assistant("Nice."), user("Since May, that is.")]
        ids = [receipt.id for receipt in memory.ingest(said, session="s")]
        memory.jobs.run()
        (fact,) = facts(memory)
        assert (fact.kind, fact.tag, fact.key, fact.content) == ("fact", "profile", "user.home.city", "The user lives in Porto.")
        assert fact.metadata == {"confidence": 0.88}
        assert fact.parents == (ids[0], ids[2])
        assert (fact.session, fact.source, fact.trust) == ("s", "user:model", 0.9)
        memory.forget(source="user:model")
        assert facts(memory) == []
        assert len(memory.conversation.recent()) == 3


def test_a_fact_is_trusted_no_more_than_the_least_of_its_parents(path: Path) -> None:
    model = answers(proposed("The user takes the night train to Vienna.", 1, 2, type="decision"))
    with at_rest(path, model) as memory:
        ids = [each.id for each in memory.ingest([assistant("Take the night train to Vienna?"), user("Yes.")], session="s")]
        memory.jobs.run()
        (fact,) = facts(memory)
        assert (fact.source, fact.trust, fact.parents) == ("agent:model", 0.6, tuple(ids))


@pytest.mark.parametrize("key", ["home.city", "user.home.city"])
def test_a_key_is_prefixed_once(path: Path, key: str) -> None:
    with at_rest(path, answers(proposed("The user lives in Porto.", key=key))) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
        memory.jobs.run()
        assert memory.value("user.home.city") == "The user lives in Porto."


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_what_the_user_said_is_queued(path: Path, role: str) -> None:
    with at_rest(path, answers(proposed("The user lives in Rome."))) as memory:
        memory.ingest([{"role": role, "content": "My name is Mallory and I live in Rome."}], session="s")
        assert list(memory.jobs.list()) == []


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_a_fact_that_rests_on_nothing_the_user_said_is_refused(path: Path, role: str) -> None:
    with at_rest(path, answers(proposed("The user lives in Rome.", 2))) as memory:
        turn = {"role": role, "content": "I live in Rome."}
        memory.ingest([user("What does it say?"), turn], session="s")
        report = memory.jobs.run()
        assert (report.done, report.learned) == (1, ())
        assert report.refused == ("Proposal 1 rests on nothing that the user said.",)
        assert facts(memory) == []


def test_what_the_model_doubts_is_refused(path: Path) -> None:
    with at_rest(path, answers(proposed("The user owns a boat.", sure=0.4), proposed("The user sails.", sure=0.5))) as memory:
        memory.conversation("s").add("user", "We went sailing on the boat.")
        report = memory.jobs.run()
        assert contents(facts(memory)) == ["The user sails."]
        assert report.refused == ("Proposal 1 has a confidence of 0.40, less than 0.5.",)


def test_who_does_not_want_facts_queues_nothing(path: Path) -> None:
    with at_rest(path, answers(proposed("The user lives in Porto."))) as memory:
        memory.ingest([user("I live in Porto.")], session="s", extract=False)
        assert list(memory.jobs.list()) == []
    with at_rest(path, answers(proposed("The user lives in Porto.")), settings={"extract": False}) as memory:
        memory.ingest([user("I live in Porto.")], session="s")
        memory.conversation("s").add("user", "I live in Porto.")
        memory.learn("I live in Porto.")
        assert list(memory.jobs.list()) == []
        assert len(memory.conversation("s")) == 3


def test_the_model_is_shown_new_turns_a_few_before_them_and_what_is_known(path: Path) -> None:
    prompts: list[Prompt] = []

    def model(prompt: Prompt) -> Any:
        prompts.append(prompt)
        return {"facts": []}

    with at_rest(path, model) as memory:
        memory.remember("The user lives in Porto.", key="user.home.city")
        memory.with_scope(user="omar").remember("The user lives in Oslo, at home in the city.", key="user.home.city")
        memory.with_scope(user="omar").ingest([user("I live in Oslo.")], session="s")
        memory.ingest([user(f"Turn {number} of the first batch.") for number in range(6)], session="s")
        memory.jobs.run()
        memory.ingest([user("Where in the city is my home?"), assistant("In Porto.")], session="s")
        memory.jobs.run()
    assert len(prompts) == 2  # the other scope's queue is the other scope's
    assert shown(prompts[0]) == [("user", f"Turn {number} of the first batch.", True) for number in range(6)]
    assert shown(prompts[1]) == [
        *(("user", f"Turn {number} of the first batch.", False) for number in (2, 3, 4, 5)),
        ("user", "Where in the city is my home?", True),
        ("assistant", "In Porto.", True),
    ]
    text = prompts[1].messages[-1]["content"]
    assert '<fact key="user.home.city">The user lives in Porto.</fact>' in text
    assert "Oslo" not in "".join(str(prompt.messages) for prompt in prompts)
    assert all(prompt.schema is not None and prompt.max_tokens <= 4096 for prompt in prompts)


def test_no_fact_may_rest_on_turns_shown_for_context_alone(path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        return {"facts": [proposed("The user lives in Porto.", 1)] if len(shown(prompt)) > 1 else []}

    with at_rest(path, model) as memory:
        memory.conversation("s").add("user", "I live in Porto.")
        memory.jobs.run()
        memory.conversation("s").add("user", "Thanks for the help with that!")
        assert memory.jobs.run().refused == ("Item 1 rests on turns that were shown for context only.",)


def test_what_memory_had_fenced_is_not_shown_again(path: Path) -> None:
    prompts: list[str] = []

    def model(prompt: Prompt) -> Any:
        prompts.append(prompt.messages[-1]["content"])
        return {"facts": []}

    with at_rest(path, model) as memory:
        memory.conversation("s").add("user", "<memory note='x'>- Dana likes tea.</memory>\nWhat shall I drink?")
        memory.conversation("t").add("user", "<memory>- Dana likes tea.</memory>")
        assert memory.jobs.run().done == 2
    assert "What shall I drink?" in prompts[0]
    assert not any("Dana likes tea" in prompt for prompt in prompts)


def test_messages_are_gathered_into_one_job_a_session(path: Path) -> None:
    with at_rest(path, answers()) as memory:
        said = []
        for number in range(10):
            said.append(memory.conversation("a").add("user", f"Line {number}.").id)
            memory.conversation("a").add("assistant", "Yes.")
        memory.conversation("b").add("user", "Hello.")
        memory.learn("A note.")
        memory.learn("Another note.")
        jobs = memory.jobs.list()
        assert [(job.session, job.state, job.attempts) for job in jobs] == [(name, "waiting", 0) for name in ("a", "b", None)]
        assert set(said) <= set(jobs[0].ids)
        assert [len(job.ids) for job in jobs[1:]] == [1, 2]
        assert "Line" not in repr(jobs)
        assert memory.jobs.run().usage.calls == 3
        assert list(memory.jobs.list()) == []


def test_five_hundred_messages_make_bounded_jobs_and_each_is_read_once(path: Path) -> None:
    new: list[str] = []

    def model(prompt: Prompt) -> Any:
        fresh = [text for _, text, is_new in shown(prompt) if is_new]
        assert len(fresh) <= 40
        assert len(shown(prompt)) <= 44
        new.extend(fresh)
        return {"facts": []}

    told = [user(f"Parcel {number} is on shelf {number % 7}.") for number in range(500)]
    with at_rest(path, model) as memory:
        memory.ingest(told, session="s")
        assert [len(job.ids) for job in memory.jobs.list()] == [40] * 12 + [20]
        report = memory.jobs.run()
        assert (report.done, report.usage.calls) == (13, 13)
    assert new == [each["content"] for each in told]


def test_a_note_is_read_by_the_model_too(path: Path) -> None:
    with at_rest(path, answers(proposed("The boiler is serviced in May.", key="home.boiler", type="event"))) as memory:
        receipt = memory.learn("We have the boiler serviced every May.", session="s")
        memory.jobs.run()
        (fact,) = facts(memory)
        assert (fact.parents, fact.session, fact.key) == ((receipt.id,), "s", "user.home.boiler")


def test_forgotten_messages_are_not_shown_to_the_model(path: Path) -> None:
    prompts: list[Prompt] = []

    def model(prompt: Prompt) -> Any:
        prompts.append(prompt)
        return {"facts": []}

    with at_rest(path, model) as memory:
        secret, kept = memory.ingest([user("The door code is 4471."), user("I live in Porto.")], session="a")
        alone = memory.conversation("b").add("user", "The safe code is 9920.")
        memory.forget(secret.id)
        memory.forget(alone.id)
        report = memory.jobs.run()
        assert (report.done, report.failed) == (1, 0), "the other job went with its only message"
        assert [shown(prompt) for prompt in prompts] == [[("user", "I live in Porto.", True)]]
        assert memory.get(kept.id or "") is not None


@pytest.mark.parametrize("way", ["session", "everything", "clear"])
def test_work_on_what_was_forgotten_is_dropped(path: Path, way: str) -> None:
    with at_rest(path, answers(proposed("The user lives in Porto."))) as memory:
        memory.conversation("a").add("user", "I live in Porto.")
        memory.with_scope(user="omar").conversation("a").add("user", "I live in Oslo.")
        if way == "session":
            memory.forget(session="a")
        elif way == "everything":
            memory.forget(everything=True)
        else:
            memory.conversation("a").clear()
        assert list(memory.jobs.list()) == []
        assert len(memory.with_scope(user="omar").jobs.list()) == 1


def test_steps_of_tasks_are_not_read_for_facts(path: Path) -> None:
    with at_rest(path, answers(proposed("The user lives in Porto."))) as memory:
        memory.tasks.start("Book a train")
        memory.tasks.record("I live in Porto.", "look", "I live in Rome.")
        memory.tasks.end(True, "done")
        assert [job for job in memory.jobs.list() if job.session] == []
