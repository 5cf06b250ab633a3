"""Client and AsyncClient against a real server: what is more than the behaviours of the library, which test_over_http runs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keepstone import AsyncClient, Client, Memory, Scope
from keepstone.client.conversation import ConversationsVerbs, ConversationVerbs
from keepstone.client.maintenance import AuditVerbs, JobVerbs, ReviewVerbs, UpkeepVerbs
from keepstone.client.plans import routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.errors import Conflict, Forbidden, NotFound, Unauthenticated, ValidationError
from keepstone.ports.maintenance import Flag
from tests.faults.support import environment
from tests.server.running import Running, running

ALL = ("read", "write", "forget", "admin", "operator")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Memory.open(tmp_path_factory.mktemp("client") / "memory.db") as memory, running(memory) as made:
        yield made


@pytest.fixture
def key(server: Running, request: pytest.FixtureRequest) -> str:
    """A service key that may do everything in a tenant of the test's own."""
    return server.key("tests", tenant=request.node.name[:200], service=True, rights=ALL)


@pytest.fixture
def client(server: Running, key: str) -> Iterator[Client]:
    with Client(server.url, key) as made:
        yield made


# -- the table of verbs ---------------------------------------------------------------------------------------------
def test_the_server_declares_a_route_for_every_verb_of_the_table(server: Running) -> None:
    groups = dict.fromkeys((RemoteVerbs, UpkeepVerbs, ReviewVerbs, JobVerbs, AuditVerbs, ConversationsVerbs), "")
    groups[ConversationVerbs] = "/conversations/{session}"
    declared = {
        (method.upper(), path): operation["operationId"]
        for path, methods in server.http().get("/openapi.json").json()["paths"].items()
        for method, operation in methods.items()
    }
    routes = [(route, prefix) for group, prefix in groups.items() for route in routes_of(group).values()]
    assert len(routes) > 40
    for route, prefix in routes:
        path = f"/v1{prefix}{re.sub(r':[a-z]+}', '}', route.path)}"
        assert declared.get((route.method, path)) == route.operation, path


# -- whose memory ---------------------------------------------------------------------------------------------------
def test_the_scope_is_what_the_server_says(server: Running) -> None:
    with Client(server.url, server.key("alice", tenant="acme")) as alice:
        assert alice.scope == Scope("acme", "default", "alice")
        assert alice.with_scope(agent="coder").scope == Scope("acme", "coder", "alice")
        assert alice.with_scope(tenant="acme").scope == alice.scope
        for other in ({"tenant": "other"}, {"user": ""}):
            with pytest.raises(Forbidden):
                alice.with_scope(**other)
        with pytest.raises(Forbidden, match="its own user"):
            alice.with_scope(user="bob").list()


def test_a_service_key_acts_for_whom_it_names(server: Running) -> None:
    key = server.key("bot", tenant="served", service=True)
    with Client(server.url, key, user="Zoë") as zoe, Client(server.url, key) as nobody:
        zoe.remember("Zoë keeps bees.")
        assert zoe.scope.user == "Zoë"
        assert len(nobody.list()) == 0
        assert [record.content for record in nobody.with_scope(user="Zoë").list()] == ["Zoë keeps bees."]
        assert nobody.with_scope(user="Zoë").with_scope(user="").scope.user == ""


def test_an_agents_key_speaks_as_an_agent(server: Running) -> None:
    with Client(server.url, server.key("dana", agent="coder", tenant="agents")) as agent:
        id = agent.remember("The build takes an hour.").id or ""
        record = agent.get(id)
        assert record is not None
        assert (record.source, record.scope.agent) == ("agent", "coder")
        with pytest.raises(Forbidden, match="trusted as 'agent'"):
            agent.remember("x", source="user:dana")
        with pytest.raises(Forbidden):
            agent.review.list()


def test_a_key_that_is_not_valid(server: Running) -> None:
    with Client(server.url, "ks_00000000_" + "x" * 43) as stranger, pytest.raises(Unauthenticated) as caught:
        stranger.list()
    assert "xxx" not in str(caught.value)


# -- writing --------------------------------------------------------------------------------------------------------
class Forgetful(httpx2.BaseTransport):
    """Hands requests on to the server, and loses the first answer."""

    def __init__(self) -> None:
        self.inner, self.lost = httpx2.HTTPTransport(), False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self.inner.handle_request(request)
        if self.lost:
            return answer
        self.lost = True
        answer.read()
        answer.close()
        raise httpx2.ReadError("the answer is lost", request=request)

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize("many", [False, True])
def test_a_write_whose_answer_was_lost_is_stored_once(server: Running, key: str, many: bool) -> None:
    with Client(server.url, key, transport=Forgetful()) as client:
        receipt = client.remember_many(["Dana keeps bees."])[0] if many else client.remember("Dana keeps bees.")
        assert receipt.action == "added", "what became of the first try"
        assert [record.id for record in client.list()] == [receipt.id]
        assert [row.action for row in client.audit() if row.verb == "remember"] == ["added"]


def test_a_key_of_the_callers_own(client: Client) -> None:
    first = client.remember("Dana keeps bees.", idempotency_key="mine")
    assert client.remember("Dana keeps bees.", idempotency_key="mine") == first
    with pytest.raises(Conflict):
        client.remember("Dana keeps cats.", idempotency_key="mine")


def test_a_write_that_a_policy_refuses_is_a_receipt(tmp_path: Path) -> None:
    with (
        Memory.open(tmp_path / "m.db", settings={"sensitive": {"card": "refuse"}, "writes_per_minute": 3}) as memory,
        running(memory) as made,
        Client(made.url, made.key("dana")) as client,
    ):
        refused = client.remember("My card is 4111 1111 1111 1111.")
        assert (refused.action, refused.id) == ("refused", None)
        assert refused.reasons
        assert client.set("card", "4111 1111 1111 1111").action == "refused"
        receipts = [client.remember(f"Fact number {at} about the harbour") for at in range(6)]
        late = [receipt for receipt in receipts if receipt.action == "refused"]
        assert late
        assert all(receipt.retry_after for receipt in late)


@pytest.mark.parametrize(
    "name", [".", "..", "a/b", "../..", "a b?c#d%2e", "é/ü", "history", "x/history", "messages", "x/messages"]
)
def test_names_with_odd_characters_stay_names(client: Client, name: str) -> None:
    client.set(name, {"of": name})
    assert client.value(name) == {"of": name}
    assert client.value(tag="general") == {name: {"of": name}}
    talk = client.conversation(name)
    talk.add("user", "Hello there")
    assert ([message.content for message in talk], len(talk)) == (["Hello there"], 1)
    assert [message.content for message in talk.last(1)] == ["Hello there"]
    assert talk.clear().forgotten == 1
    client.working.set("x", 1)
    client.working.save(name)
    assert client.with_scope().working.restore(name)
    assert client.get(name) is None


def test_more_messages_than_one_request_takes(client: Client) -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": f"message {at}"} for at in range(230)]
    assert len(client.ingest(said, session="s", extract=False)) == 230
    assert [message.content for message in client.conversation("s")] == [each["content"] for each in said]
    assert client.ingest([], session="s") == []


# -- doing ----------------------------------------------------------------------------------------------------------
def test_a_task_goes_on_in_another_process(server: Running, key: str) -> None:
    with Client(server.url, key) as first:
        task = first.tasks.start("Book a train to Porto", goal="a seat at the window")
        first.working.set("train", 123)
        first.working.push("compare prices")
        assert first.tasks.record("Look at the timetable", "search", "two trains").action == "added"
    with Client(server.url, key) as second:
        assert second.working.restore()
        assert (second.working.task_id, second.working.done, second.working.get("train")) == (task.id, 1, 123)
        assert "compare prices" in second.context("trains")
        assert "Book a train to Porto" in second.system_prompt()
        assert second.tasks.record("Pay").action == "added"
        episode = second.tasks.end(True, "The seat is booked.")
        assert episode.action == "added"
        assert second.working.task is None
        with pytest.raises(ValidationError, match="no task is under way"):
            second.tasks.end(True, "again")
        assert not second.working.restore()
        assert [hit.content for hit in second.tasks.start("Book a train to Lisbon").lessons]


def test_a_step_is_kept_though_what_is_in_hand_cannot_be_saved(client: Client) -> None:
    client.tasks.start("Something")
    odd = object()
    client.working.set("odd", odd)
    receipt = client.tasks.record("a thought", "an act")
    assert "could not be saved" in receipt.reasons[-1]
    assert (client.working.done, client.working.get("odd"), client.working.thoughts) == (1, odd, ["a thought"])


def test_what_is_in_hand_without_a_task_is_told_and_not_left_behind(server: Running, client: Client) -> None:
    client.working.set("colour", "teal")
    assert "teal" in client.context("colours")
    held = server.engine.store.states.all(client.scope)
    assert [name for name, _ in held if name.startswith("working:")] == []


def test_tools_forget_only_where_that_was_asked_for(client: Client) -> None:
    id = client.remember("Dana keeps bees.").id
    assert "forget_memory" not in [tool["name"] for tool in client.tools()]
    assert "There is no tool" in client.call_tool("forget_memory", {"id": id})["error"]
    assert "forget_memory" in [tool["name"] for tool in client.tools(allow_forget=True)]
    assert client.call_tool("forget_memory", {"id": id})["action"] == "forgotten"
    assert "must be an object" in client.call_tool("recall_memory", "x")["error"]  # type: ignore[arg-type]


# -- keeping --------------------------------------------------------------------------------------------------------
def test_reviews_are_worked_through(server: Running, client: Client) -> None:
    ids = [client.remember(f"Dana lives in {city}.", session=city).id or "" for city in ("Rome", "Oslo", "Porto")]
    flags = [Flag(id, "contradicted", "a newer message says the opposite") for id in ids]
    assert server.engine.store.reviews.add(client.scope, flags) == 3
    assert len(client.review) == 3
    first, second, third = client.review
    assert (first.id, first.flag, first.record and first.record.content) == (ids[0], "contradicted", "Dana lives in Rome.")
    assert client.review.resolve(first.number, "keep").reasons
    assert client.review.resolve(second.number, "correct", content="Dana lives in Bergen.").version == 2
    assert client.review.resolve(third.number, "retire", by="dana").action == "updated"
    assert len(client.review) == 0
    assert [item.number for item in client.review.list(state="corrected")] == [second.number]
    with pytest.raises(NotFound, match="no open review"):
        client.review.resolve(first.number, "keep")
    assert client.upkeep.restore([ids[2]]) == 1


def test_progress_is_told_in_the_end(client: Client, tmp_path: Path) -> None:
    client.remember_many(["Dana keeps bees.", "Omar plays chess."])
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))

    assert client.export(tmp_path / "out.jsonl", progress=progress) == 2
    assert client.import_(tmp_path / "out.jsonl", progress=progress).skipped == 2
    client.backup(tmp_path / "copy.db", progress=progress)
    assert client.upkeep.doctor(progress=progress).healthy
    client.upkeep.run({"verify": False}, progress=progress)
    assert told[:2] == [(2, 2), (2, 2)]
    assert told[2] == (size := (tmp_path / "copy.db").stat().st_size, size)
    assert len(told) == 5
    with Memory.open(tmp_path / "copy.db", tenant=client.scope.tenant) as copy:
        assert len(copy.list()) == 2


def test_a_policy_file_is_read_here(client: Client, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("cap = 1\nfade_days = 0\n")
    client.remember_many(["Dana keeps bees.", "Omar plays chess."])
    report = client.upkeep.run(tmp_path / "policy.toml")
    assert [(each.job, each.records) for each in report.jobs] == [("cap", 1)]
    assert len(client.upkeep.archived()) == 1
    assert client.upkeep.undo(report.jobs[0].tickets[0])
    assert len(client.list()) == 2


def test_only_an_operator_sees_the_whole_store(server: Running, tmp_path: Path) -> None:
    with Client(server.url, server.key("erin", tenant="plain")) as erin:
        for act in (erin.upkeep.doctor, lambda: erin.backup(tmp_path / "copy.db"), erin.upkeep.reembed, erin.audit.verify):
            with pytest.raises(Forbidden):
                act()
    assert list(tmp_path.iterdir()) == []


# -- asyncio --------------------------------------------------------------------------------------------------------
def test_every_verb_for_asyncio(server: Running, key: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, key, user="dana") as memory:
            assert memory.scope.user == "dana"
            id = (await memory.remember("Dana drinks tea.", tag="drinks")).id or ""
            await memory.update(id, "Dana drinks green tea.", expected_version=1)
            assert [each.version for each in await memory.history(id)] == [1, 2]
            assert [hit.id for hit in await memory.recall("What does Dana drink?")] == [id]
            assert (await memory.why("Dana tea", id)).recalled
            assert "green tea" in await memory.context("Dana tea")
            assert await memory.get("m_nothing") is None
            assert (await memory.set("drink", {"hot": True}, tag="likes")).action == "added"
            assert (await memory.value("drink"), await memory.value("none", 5)) == ({"hot": True}, 5)
            assert await memory.value(tag="likes") == {"drink": {"hot": True}}
            assert (await memory.learn("I moved to Lisbon.")).action == "added"
            assert await memory.audit(limit=1)
            assert (await memory.audit.verify()).whole
            assert (await memory.audit.diff("2020-01-01")).added
            assert await memory.export(tmp_path / "out.jsonl") > 2
            assert (await memory.with_scope(user="omar").import_(tmp_path / "out.jsonl")).added > 2
            assert await memory.export(tmp_path / "all.jsonl", everything=True) > 2
            await memory.backup(tmp_path / "copy.db")
            assert (await memory.upkeep.doctor()).healthy
            assert [each["name"] for each in await memory.tools()]
            assert (await memory.call_tool("recall_memory", {"query": "tea"}))["memories"]
            assert "recall_memory" in await memory.system_prompt()
            assert (await memory.forget(id)).forgotten == 1
            with pytest.raises(NotFound):
                await memory.history(id)

    asyncio.run(work())
    assert all(json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines())


def test_the_parts_for_asyncio(server: Running, key: str, tmp_path: Path) -> None:
    async def work() -> None:
        memory = await AsyncClient(server.url, key)
        talk = memory.conversation("s", max_messages=10)
        for at, role in enumerate(("user", "assistant", "user")):
            await talk.add(role, f"message {at}")
        assert await talk.count() == 3
        assert [message.content async for message in talk] == ["message 0", "message 1", "message 2"]
        assert [each["content"] for each in await talk.messages(max_messages=1)] == ["message 2"]
        assert await talk.tokens() > 0
        assert await talk.summary() == ""
        assert [message.content for message in await talk.search("message 1")] == ["message 1"]
        exported = await talk.export()
        assert await memory.conversation("copy").import_(exported) == 3
        assert len(await memory.conversation.recent(2)) == 2
        assert {session.name for session in await memory.conversation.list()} == {"s", "copy"}
        assert await memory.conversation.export_chats(tmp_path / "chats.jsonl") == 2
        await memory.remember("Dana keeps bees.")
        report = await memory.upkeep.cap(0)
        assert len(report.ids) == len(await memory.upkeep.archived()) == 1
        assert await memory.upkeep.undo(report.ticket) == report.ids
        assert (await memory.upkeep.health()).items >= 1
        assert await memory.jobs.list() == []
        assert await memory.jobs.retry() == 0
        assert (await memory.review.list(), await memory.review.count()) == ([], 0)
        assert [item async for item in memory.review] == []
        task = await memory.tasks.start("Sort the mail")
        memory.working.set("letters", 3)
        await asyncio.gather(*(memory.tasks.record(f"step {at}") for at in range(5)))
        assert (memory.working.done, memory.working.get("letters"), memory.working.task_id) == (5, 3, task.id)
        await asyncio.to_thread(memory.working.save, "aside")
        assert (await memory.tasks.end(True, "It is sorted.")).action == "added"
        assert not await asyncio.to_thread(memory.working.restore, "aside"), "the task has been ended"
        await memory.close()

    asyncio.run(work())


def test_fifty_at_once(server: Running, key: str) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, key) as memory:
            receipts = await asyncio.gather(*(memory.remember(f"fact number {at}", kind="note") for at in range(50)))
            assert {receipt.action for receipt in receipts} == {"added"}
            assert len({receipt.id for receipt in receipts}) == 50

    asyncio.run(work())


def test_importing_keepstone_stays_light() -> None:
    code = "import sys, keepstone; assert 'httpx2' not in sys.modules; keepstone.Client; assert 'httpx2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), timeout=60)
