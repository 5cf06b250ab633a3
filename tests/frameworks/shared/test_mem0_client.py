"""mem0's own client, unmodified, against a keepstone server in a process of its own: only the host and the key are others."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.docs.pages import environment_of
from tests.docs.servers import keepstone_server

os.environ.update(MEM0_TELEMETRY="False")  # before it is imported: it would send events home, and make a folder at home

F = {"user_id": "dana"}


@pytest.fixture(scope="module")
def mem0(tmp_path_factory: pytest.TempPathFactory) -> Any:
    os.environ["MEM0_DIR"] = str(tmp_path_factory.mktemp("mem0"))
    import mem0

    return mem0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with keepstone_server(tmp_path_factory.mktemp("served"), environment_of({"NO_PROXY": "127.0.0.1"})) as told:
        yield told


@pytest.fixture
def client(mem0: Any, server: dict[str, str]) -> Iterator[Any]:
    """With a service's key; afterwards everything is erased, as the client does it."""
    made = mem0.MemoryClient(api_key=server["KEEPSTONE_KEY"], host=server["KEEPSTONE_URL"] + "/compat/mem0")
    yield made
    if made.users()["results"]:
        made.reset()
    assert made.users()["count"] == 0
    made.client.close()


def texts(found: dict[str, Any]) -> list[str]:
    return [each["memory"] for each in found["results"]]


def test_a_memory_from_beginning_to_end(client: Any, mem0: Any) -> None:
    (made,) = client.add("I like pizza", user_id="dana", metadata={"where": "chat"})["results"]
    assert (made["event"], made["user_id"]) == ("ADD", "dana")
    (hit,) = client.search("food?", filters=F)["results"]
    assert "pizza" in hit["memory"]
    listed = client.get_all(filters=F)
    assert (listed["count"], texts(listed)) == (1, [made["memory"]])
    assert client.get(made["id"])["metadata"]["where"] == "chat"
    assert client.update(made["id"], text="The user likes sushi.")["memory"] == "The user likes sushi."
    assert [row["event"] for row in client.history(made["id"])] == ["ADD", "UPDATE"]
    assert client.delete(made["id"])["message"] == "Memory deleted successfully!"
    assert client.get_all(filters=F)["count"] == 0
    with pytest.raises(mem0.exceptions.MemoryNotFoundError, match="does not exist"):
        client.get(made["id"])


def test_options_as_types_and_as_words(client: Any, mem0: Any) -> None:
    from mem0.client.types import (
        AddMemoryOptions,
        DeleteAllMemoryOptions,
        GetAllMemoryOptions,
        SearchMemoryOptions,
        UpdateMemoryOptions,
    )

    said = [{"role": "user", "content": "The pier is made of oak"}, {"role": "assistant", "content": "Oak it is"}]
    added = client.add(said, AddMemoryOptions(filters=F, infer=False, metadata={"n": 1}, custom_instructions="x"))
    assert texts(added) == ["The pier is made of oak", "Oak it is"]
    filters = {"AND": [F, {"metadata": {"n": {"gte": 1}}}]}
    found = client.search("pier", SearchMemoryOptions(filters=filters, top_k=1, rerank=True, threshold=0.1, latest_only=True))
    assert texts(found) == ["The pier is made of oak"]
    page = client.get_all(GetAllMemoryOptions(filters=F, page=2, page_size=1, show_expired=True))
    assert (page["count"], texts(page)) == (2, ["The pier is made of oak"])
    changed = client.update(added["results"][0]["id"], UpdateMemoryOptions(text="The pier is made of elm", metadata={"n": 2}))
    assert (changed["memory"], changed["metadata"]) == ("The pier is made of elm", {"n": 2})
    assert "deleted" in client.delete_all(DeleteAllMemoryOptions(filters=F))
    assert client.get_all(filters=F)["count"] == 0


def test_many_at_once(client: Any) -> None:
    ids = [client.add(text, user_id="dana")["results"][0]["id"] for text in ("The pier is made of oak", "The ferry is late")]
    assert client.batch_update([{"memory_id": id, "text": f"new {at}"} for at, id in enumerate(ids)])["message"]
    assert sorted(texts(client.get_all(filters=F))) == ["new 0", "new 1"]
    assert client.batch_delete([{"memory_id": id} for id in ids])["message"]
    assert client.get_all(filters=F)["count"] == 0


def test_users_and_what_is_theirs(client: Any) -> None:
    client.add("The pier is made of oak", user_id="dana", run_id="r1")
    client.add("The ferry is late", user_id="erik", agent_id="coach")
    client.add("The harbour is deep", user_id="olga a/b")
    names = [(each["type"], each["name"]) for each in client.users()["results"]]
    assert names == [("user", "dana"), ("user", "erik"), ("user", "olga a/b"), ("agent", "coach"), ("run", "r1")]
    client.delete_users(user_id="olga a/b")
    client.delete_all(user_id="erik")
    assert [each["name"] for each in client.users()["results"]] == ["dana", "r1"]
    assert client.reset()["message"] == "Client reset successful. All users and memories deleted."
    assert client.users()["results"] == []
    with pytest.raises(ValueError, match="No entities to delete"):
        client.reset()


def test_what_is_refused_is_the_clients_own_error(client: Any, mem0: Any, server: dict[str, str]) -> None:
    errors = mem0.exceptions
    made = client.add("The pier is made of oak", user_id="dana")["results"][0]
    wrong = {
        "names no owner": lambda: client.delete_all(),
        "one name": lambda: client.delete_all(user_id="*"),
        "no field 'food'": lambda: client.search("x", filters={"food": "x"}),
        "no webhooks": lambda: client.get_webhooks("p"),
        "no exports": lambda: client.create_memory_export("{}", user_id="dana"),
        "no summaries": lambda: client.get_summary(),
        "no feedback": lambda: client.feedback(made["id"], "POSITIVE"),
        "no profiles": lambda: client.get_profile("dana"),
        "no organisations": lambda: client.project.get(),
        "cannot be changed": lambda: client.update(made["id"], expiration_date="2090-01-01"),
    }
    for said, ask in wrong.items():
        with pytest.raises(errors.ValidationError, match=said):
            ask()
    assert client.get_all(filters=F)["count"] == 1
    with pytest.raises(ValueError, match="key"):
        mem0.MemoryClient(api_key="ks_wrong_key", host=client.host)


def test_a_users_key(client: Any, mem0: Any, server: dict[str, str]) -> None:
    body = b'{"name": "vera", "rights": ["read", "write"]}'
    asked = Request(f"{server['KEEPSTONE_URL']}/v1/keys", body, {"content-type": "application/json"})
    asked.add_header("authorization", f"Bearer {server['KEEPSTONE_KEY']}")

    with urlopen(asked, timeout=30) as answer:
        key = json.load(answer)["key"]
    vera = mem0.MemoryClient(api_key=key, host=client.host)
    client.add("The pier is made of oak", user_id="dana")
    assert vera.add("I like tea")["results"][0]["user_id"] == "vera"
    assert vera.get_all(filters={"user_id": "vera"})["count"] == vera.get_all()["count"] == 1
    with pytest.raises(mem0.exceptions.AuthenticationError, match="its own user"):
        vera.search("pier", filters=F)
    with pytest.raises(mem0.exceptions.AuthenticationError, match="may not forget"):
        vera.delete_all(user_id="vera")
    vera.client.close()
    assert client.get_all(filters={"user_id": "vera"})["count"] == 1, "the service reaches its tenant's users"


def test_the_asynchronous_client(client: Any, mem0: Any, server: dict[str, str]) -> None:
    async def work() -> None:
        async with mem0.AsyncMemoryClient(api_key=server["KEEPSTONE_KEY"], host=client.host) as there:
            made = (await there.add("I like pizza", user_id="dana"))["results"][0]
            assert "pizza" in (await there.search("food?", filters=F))["results"][0]["memory"]
            assert texts(await there.get_all(filters=F)) == [made["memory"]]
            assert (await there.get(made["id"]))["id"] == made["id"]
            assert (await there.update(made["id"], text="Sushi."))["memory"] == "Sushi."
            assert len(await there.history(made["id"])) == 2
            assert [each["name"] for each in (await there.users())["results"]] == ["dana"]
            await there.batch_update([{"memory_id": made["id"], "text": "Soup."}])
            await there.batch_delete([{"memory_id": made["id"]}])
            with pytest.raises(mem0.exceptions.MemoryNotFoundError):
                await there.delete(made["id"])
            await there.add("The pier is made of oak", user_id="dana")
            await there.delete_all(user_id="dana")
            with pytest.raises(mem0.exceptions.ValidationError, match="names no owner"):
                await there.delete_all()
            await there.add("The pier is made of oak", user_id="dana")
            await there.reset()
            assert (await there.get_all(filters=F))["count"] == 0

    asyncio.run(work())
