"""AsyncMemory for real: every way to open it, work side by side, errors as they are."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from keepstone import AsyncMemory, Memory, Scope
from keepstone.errors import ConfigurationError, NotFound, StoreClosed, ValidationError


def test_async_with_opens_and_closes(path: Path) -> None:
    async def work() -> AsyncMemory:
        async with AsyncMemory.open(path) as memory:
            assert path.exists()
            receipt = await memory.remember("Dana drinks tea.", tag="drinks")
            assert receipt.action == "added"
            assert [hit.content for hit in await memory.recall("What does Dana drink?")] == ["Dana drinks tea."]
            assert len(await memory.list(tag="drinks")) == 1
        return memory

    closed = asyncio.run(work())
    with pytest.raises(StoreClosed):
        asyncio.run(closed.list())


def test_await_opens_at_once(path: Path) -> None:
    async def work() -> None:
        memory = await AsyncMemory.open(path)
        assert isinstance(memory, AsyncMemory)
        assert path.exists()
        await memory.close()
        await memory.close()

    asyncio.run(work())


def test_the_first_use_opens_and_nothing_before_it(path: Path) -> None:
    async def work() -> None:
        memory = AsyncMemory.open(path, user="dana")
        assert memory.scope == Scope(user="dana")
        assert not path.exists()
        await memory.set("drink", "tea")
        assert path.exists()
        assert await memory.value("drink") == "tea"
        await memory.close()

    asyncio.run(work())


def test_closing_what_was_never_opened_makes_no_file(path: Path) -> None:
    asyncio.run(AsyncMemory.open(path).close())
    assert not path.exists()


def test_closing_another_scope_of_what_was_never_opened_makes_no_file(path: Path) -> None:
    asyncio.run(AsyncMemory.open(path).with_scope(user="dana").close())
    assert not path.exists()


def test_it_writes_what_memory_reads(path: Path) -> None:
    async def work() -> str | None:
        async with AsyncMemory.open(path, user="dana") as memory:
            return (await memory.remember("Dana drinks tea.", metadata={"cup": 1}, importance=0.7)).id

    id = asyncio.run(work())
    assert id is not None
    with Memory.open(path, user="dana") as memory:
        record = memory.get(id)
        assert record is not None
        assert (record.content, record.metadata, record.importance) == ("Dana drinks tea.", {"cup": 1}, 0.7)


def test_scopes_share_one_store_and_see_only_themselves(path: Path) -> None:
    async def work() -> None:
        async with AsyncMemory.open(path) as memory:
            dana, erik = memory.with_scope(user="dana"), memory.with_scope(user="erik")
            assert (dana.scope.user, erik.scope.user, memory.scope.user) == ("dana", "erik", "")
            await asyncio.gather(dana.remember("I drink tea."), erik.remember("I drink milk."))
            assert [record.content for record in await dana.list()] == ["I drink tea."]
            assert [record.content for record in await erik.list()] == ["I drink milk."]
            assert len(await memory.list()) == 0

    asyncio.run(work())


def test_fifty_at_once_are_all_stored(path: Path) -> None:
    async def work() -> None:
        memory = AsyncMemory.open(path)  # fifty first uses: the store is opened once
        receipts = await asyncio.gather(*(memory.remember(f"fact number {n}", kind="note") for n in range(50)))
        assert {receipt.action for receipt in receipts} == {"added"}
        assert len({receipt.id for receipt in receipts}) == 50
        page = await memory.list(limit=100)
        assert {record.content for record in page} == {f"fact number {n}" for n in range(50)}
        answers = await asyncio.gather(*(memory.recall(f"fact number {n}", limit=1) for n in range(0, 50, 5)))
        assert [answer[0].content for answer in answers] == [f"fact number {n}" for n in range(0, 50, 5)]
        assert (await memory.upkeep.doctor()).healthy
        await memory.close()

    asyncio.run(work())


def test_the_event_loop_goes_on_while_the_store_works(path: Path) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(texts: list[str]) -> list[list[float]]:
        entered.set()
        if not gate.wait(timeout=120):
            raise RuntimeError("the event loop was held up")
        return [[1.0, 0.0] for _ in texts]

    async def work() -> None:
        async with AsyncMemory.open(path, embedder=slow) as memory:
            writing = asyncio.create_task(memory.remember("Dana drinks tea."))
            while not entered.is_set():
                await asyncio.sleep(0)
            gate.set()  # only a loop that is free gets here while the embedder waits
            receipt = await writing
            assert (receipt.action, receipt.reasons) == ("added", ())

    asyncio.run(work())


def test_upkeep(path: Path) -> None:
    async def work() -> None:
        async with AsyncMemory.open(path, embedder="none") as memory:
            id = (await memory.remember("Dana drinks tea.")).id
            assert id is not None
            before = await memory.get(id)
            calls: list[tuple[int, int]] = []
            report = await memory.upkeep.reembed(embedder="static", progress=lambda done, total: calls.append((done, total)))
            after = await memory.get(id)
            assert before is not None
            assert after is not None
            assert (before.embedded, after.embedded, report.embedded) == (False, True, 1)
            assert calls == [(1, 1)]

    asyncio.run(work())


def test_every_reading_verb_answers(path: Path) -> None:
    async def work() -> None:
        async with AsyncMemory.open(path) as memory:
            id = (await memory.remember_many(["Dana drinks tea."]))[0].id
            assert id is not None
            await memory.update(id, "Dana drinks green tea.", expected_version=1)
            assert [version.content for version in await memory.history(id)] == ["Dana drinks tea.", "Dana drinks green tea."]
            assert (await memory.why("Dana tea", id)).recalled
            assert "Dana drinks green tea." in await memory.context("Dana tea")
            await memory.ingest([{"role": "user", "content": "hello"}], session="s")
            await memory.set("drink", {"hot": True}, tag="likes")
            assert await memory.value(tag="likes") == {"drink": {"hot": True}}
            assert [row.verb for row in await memory.audit(limit=2)] == ["remember", "remember"]
            target = path.with_name("export.jsonl")
            assert await memory.export(target) == 3
            away = memory.with_scope(user="away")
            assert (await away.import_(target)).added == 3
            await memory.backup(path.with_name("copy.db"))
            assert (await memory.forget(everything=True)).forgotten == 3
            assert len(await away.list()) == 3

    asyncio.run(work())
    assert path.with_name("copy.db").exists()


def test_errors_come_through_as_they_are(path: Path) -> None:
    async def work() -> None:
        async with AsyncMemory.open(path) as memory:
            with pytest.raises(ValidationError, match="content is empty"):
                await memory.remember("")
            with pytest.raises(NotFound):
                await memory.history("m_nothing")
            results = await asyncio.gather(memory.remember("tea"), memory.remember(""), return_exceptions=True)
            assert not isinstance(results[0], BaseException)
            assert results[0].action == "added"
            assert isinstance(results[1], ValidationError)

    asyncio.run(work())
    with pytest.raises(ValidationError, match=r"^tenant is empty"):
        AsyncMemory.open(path, tenant="")
    with pytest.raises(ConfigurationError, match="does not exist"):
        asyncio.run(AsyncMemory.open(path.parent / "nowhere" / "x.db").list())


def test_an_error_inside_the_block_closes_the_store_and_passes(path: Path) -> None:
    held: list[AsyncMemory] = []

    async def work() -> None:
        async with AsyncMemory.open(path) as memory:
            held.append(memory)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(work())
    with pytest.raises(StoreClosed):
        asyncio.run(held[0].list())
