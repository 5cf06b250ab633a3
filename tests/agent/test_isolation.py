"""Two users through one process and one file, a thousand chats at once: no request shows one what the other said."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.agent import MemoryAgent
from tests.agent.support import STRATEGIES, agent_on, both, facts, model_at, served, shown, tool_names, tool_results
from tests.models.endpoint import Request, Step, say, use
from tests.surfaces.support import everything

USERS = ("dana", "omar")
CHATS = 1000
MIX = ("tools", "buffer", "summary", "tools", "buffer", "tools", "summary", "vector")
PLACES = "attic cellar garden harbour kitchen library meadow pantry quarry stable tower vault".split()


def secret(user: str, number: int) -> str:
    return f"{user}word{number}"


def words_of(request: Request) -> set[str]:
    """Whose secrets a request shows."""
    return set(re.findall(r"(dana|omar)word\d+", str(request["body"])))


def line(user: str, number: int) -> str:
    """What is said in a chat: a new secret, or a question about an old one, in words that both users use."""
    place = PLACES[number % len(PLACES)]
    if number % 3 == 2:
        return f"What is the password of the {place}? Mine, not {secret(user, number)} of course."
    if number % 3 == 1:
        return f"Today {secret(user, number)} was whispered in the {place}."
    return f"I prefer the word {secret(user, number)} for the {place}."


class Prying:
    """A model that now and then uses the memory tools, naming the other user as the owner, or the other's memories."""

    def __init__(self, ids: dict[str, str]) -> None:
        self._ids_only = ids
        self._lock = threading.Lock()
        self._count = 0

    def __call__(self, request: Request) -> Step:
        with self._lock:
            self._count += 1
            turn = self._count
        if "recall_memory" not in tool_names(request) or tool_results(request)[-1:] or turn % 2:
            return say("Noted.")
        other = "omar" if "dana" in words_of(request) else "dana"
        owner = {"user_id": other, "agent_id": other, "user": other, "tenant": other}
        if turn % 4 == 0:
            return use("update_memory", {"id": self._ids_only[other], "content": f"Overwritten by {turn}.", **owner})
        return use("recall_memory", {"tag": "secret", **owner})


def interleaved(agents: dict[tuple[str, str], MemoryAgent], numbers: range, work: Any) -> list[Any]:
    jobs = []
    for number in numbers:
        user, strategy = USERS[number % 2], MIX[number // 2 % len(MIX)]
        jobs.append(work(agents[user, strategy], line(user, number), f"session {number % 7}"))
    return jobs


def test_a_thousand_interleaved_chats_of_two_users(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="keepstone.tools")
    with Memory.open(path, settings={"durable": False}) as memory:
        homes = {user: memory.with_scope(user=user) for user in USERS}
        kept = {user: home.remember(f"{secret(user, 9999)} opens the vault.", tag="secret") for user, home in homes.items()}
        ids = {user: receipt.id or "" for user, receipt in kept.items()}
        with served(Prying(ids)) as endpoint:
            models = [model_at("anthropic", endpoint.url), model_at("openai", endpoint.url)]
            agents = {
                (user, strategy): MemoryAgent(homes[user], models[at % 2], strategy=strategy, max_messages=8, memory_tokens=400)
                for user in USERS
                for at, strategy in enumerate(STRATEGIES)
            }
            with ThreadPoolExecutor(4) as pool:
                work = interleaved(
                    agents, range(CHATS // 2), lambda agent, text, session: pool.submit(agent.chat, text, session=session)
                )
                replies = [job.result() for job in work]

            async def talk() -> list[Any]:
                gate = asyncio.Semaphore(4)

                async def one(agent: MemoryAgent, text: str, session: str) -> Any:
                    async with gate:
                        return await agent.achat(text, session=session)

                return list(await asyncio.gather(*interleaved(agents, range(CHATS // 2, CHATS), one)))

            replies += asyncio.run(talk())
            requests = list(endpoint.requests)
        for user, home in homes.items():
            other = USERS[1 - USERS.index(user)]
            texts = [record.content for record in everything(home)]
            assert not any(f"{other}word" in text for text in texts)
            assert not any("Overwritten" in text for text in texts if "uses update_memory" not in text)
            record = home.get(ids[user])
            assert record is not None
            assert (record.content, record.version) == (f"{secret(user, 9999)} opens the vault.", 1)
    assert len(replies) == CHATS
    assert {reply.text for reply in replies} == {"Noted."}
    assert [reply.notes for reply in replies if reply.notes] == []
    assert len(requests) >= CHATS
    seen = [words_of(request) for request in requests]
    assert all(len(each) == 1 for each in seen), "each request shows one user's words, and only that one's"
    assert seen.count({"dana"}) > 400
    assert seen.count({"omar"}) > 400
    recalled = [result for request in requests for result in tool_results(request)[-1:]]
    assert sum('"memories"' in result and "opens the vault" in result for result in recalled) > 10, "their own they do get"
    assert sum("there is no memory" in result for result in recalled) > 10
    assert sum("named an owner" in record.getMessage() for record in caplog.records) > 50


OWNERS: list[dict[str, Any]] = [
    {"user_id": "omar"},
    {"agent_id": "other"},
    {"user": "omar", "tenant": "x"},
    {"scope": {"user": "omar"}},
    {"OWNER": "omar"},
    {"namespace": "omar"},
]


@both
@pytest.mark.parametrize("owner", OWNERS)
def test_an_owner_in_the_input_is_ignored_and_logged(
    memory: Memory, provider: str, owner: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    dana, omar = memory.with_scope(user="dana"), memory.with_scope(user="omar")
    omar.remember("Omar keeps bees on the roof.", tag="hobby")
    script = [
        use("write_memory", {"tag": "hobby", "content": "Dana restores canoes.", **owner}),
        use("recall_memory", {"tag": "hobby", **owner}),
        use("recall_memory", {"query": "Who has bees on the roof?", **owner}),
        say("Done."),
    ]
    with served(script) as endpoint:
        agent_on(dana, provider, endpoint).chat("Hello")
        assert "Omar keeps" not in "".join(tool_results(endpoint.requests[-1]))
        assert "restores canoes" in tool_results(endpoint.requests[-1])[1]
    assert [each.content for each in facts(dana)] == ["Dana restores canoes."]
    assert [each.content for each in facts(omar)] == ["Omar keeps bees on the roof."]
    logged = [record.getMessage() for record in caplog.records if record.name == "keepstone.tools"]
    assert len(logged) == 3
    assert all(next(iter(owner)) in message and "ignored" in message for message in logged)
    assert not any("omar" in message for message in logged), "what a model wrote is not repeated in the log"


@both
def test_another_scopes_ids_do_not_exist(memory: Memory, provider: str) -> None:
    dana, omar = memory.with_scope(user="dana"), memory.with_scope(user="omar")
    id = omar.remember("Omar keeps bees.").id or ""
    script = [
        use("update_memory", {"id": id, "content": "Omar keeps wasps.", "user_id": "omar"}),
        use("forget_memory", {"id": id, "user_id": "omar"}),
        say("I tried."),
    ]
    with served(script) as endpoint:
        reply = agent_on(dana, provider, endpoint, allow_forget=True).chat("Hello")
        assert "bees" not in shown(endpoint.requests[-1])
    assert [step.failed for step in reply.steps] == [True, True]
    assert all("there is no" in step.result for step in reply.steps)
    assert [each.content for each in facts(omar)] == ["Omar keeps bees."]
