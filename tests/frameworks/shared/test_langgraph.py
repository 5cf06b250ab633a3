"""KeepstoneStore as LangGraph, LangMem and DeepAgents use it: what it adds, the values it holds, and how it is opened."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp

from keepstone import Client, Memory
from keepstone.errors import StoreDamaged, ValidationError
from keepstone.integrations.langgraph import KeepstoneStore
from tests.frameworks.shared.langgraph_support import letters, record_of, store_, until  # noqa: F401  (fixtures)
from tests.server.running import running


# -- what keepstone adds ------------------------------------------------------------------------------------------------
def test_a_search_is_ranked_without_an_index(store: KeepstoneStore) -> None:
    store.put(("users", "dana"), "theme", {"content": "Dana prefers dark mode in every editor."})
    store.put(("users", "dana"), "food", {"content": "Dana is allergic to peanuts."})
    store.put(("users", "dana"), "raw", {"content": "Which theme does Dana like?"}, index=False)
    found = store.search(("users",), query="Which theme does Dana like?")
    assert [item.key for item in found] == ["theme", "food", "raw"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score
    assert found[2].score is None
    assert store.search(("users",), query="   ", limit=1)[0].score is None


def test_recall_finds_what_langgraph_stored(memory: Memory, store: KeepstoneStore) -> None:
    store.put(("users", "dana"), "home", {"content": "Dana moved to Lisbon.", "since": {"year": 2021}, "tags": ["home"]})
    store.put(("users", "dana"), "hidden", {"content": "Dana moved to Lisbon, privately."}, index=False)
    store.put(("users", "dana"), "part", {"title": "Where Dana lives", "body": "unfindable"}, index=["title"])
    found = {hit.content for hit in memory.recall("Where does Dana live? Lisbon", limit=10, min_similarity=0)}
    assert found == {"Dana moved to Lisbon.\nsince year: 2021\ntags: home", "Where Dana lives"}


def test_what_stood_under_a_key_stays_in_its_history(memory: Memory, store: KeepstoneStore) -> None:
    for city in ("Rome", "Oslo"):
        store.put(("users",), "city", {"city": city})
    item = store.get(("users",), "city")
    assert item is not None
    assert item.value == {"city": "Oslo"}
    assert item.created_at < item.updated_at
    assert [version.metadata["value"]["item"]["city"] for version in memory.history(record_of(memory).id)] == ["Rome", "Oslo"]
    store.delete(("users",), "city")
    assert store.get(("users",), "city") is None
    assert not memory.recall("Rome Oslo", min_similarity=0)


def test_a_put_of_the_same_value_is_an_update(store: KeepstoneStore) -> None:
    store.put(("a",), "first", {"x": 1})
    store.put(("a",), "second", {"x": 2})
    before = store.get(("a",), "first")
    store.put(("a",), "first", {"x": 1})
    after = store.get(("a",), "first")
    assert before is not None
    assert after is not None
    assert after.updated_at > before.updated_at
    assert after.created_at == before.created_at
    assert [item.key for item in store.search(("a",))] == ["first", "second"]


def test_scopes_do_not_see_each_other(memory: Memory) -> None:
    stores = {user: KeepstoneStore(memory.with_scope(user=user)) for user in ("dana", "bob")}
    for user, store in stores.items():
        store.put(("facts",), "name", {"content": f"The user is called {user}."})
    for user, store in stores.items():
        assert [item.value["content"] for item in store.search((), query="name")] == [f"The user is called {user}."]
        assert store.list_namespaces() == [("facts",)]
    stores["bob"].delete(("facts",), "name")
    assert stores["dana"].get(("facts",), "name") is not None


# -- values -------------------------------------------------------------------------------------------------------------
ODD: list[dict[str, Any]] = [
    {},
    {"": {"empty": [None, True, 0, -0.5, 1e300, [], {}]}},
    {"nul": "a\0b", "half": "\ud800", "number": 10**40, "deep": json.loads("[" * 60 + "]" * 60)},
    {"text": "ünïcödé \u202e 🦊 \n\t", "k" * 300: 1},
    {"file": "line\n" * 400_000, "lines": ["x" * 5000] * 30},
]


@pytest.mark.parametrize("value", ODD, ids=["empty", "empty key", "odd", "unicode", "large"])
def test_a_value_comes_back_as_it_was(store: KeepstoneStore, value: dict[str, Any]) -> None:
    for _ in range(2):
        store.put(("odd", "values"), "key / with \n everything: ü", value)
        item = store.get(("odd", "values"), "key / with \n everything: ü")
        assert item is not None
        assert item.value == value
        assert item.key == "key / with \n everything: ü"
    assert [found.value for found in store.search(("odd",))] == [value]
    store.delete(("odd", "values"), "key / with \n everything: ü")
    assert store.search(()) == []


def test_what_cannot_be_held_is_refused(store: KeepstoneStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(("a\0b",), "key", {"x": 1})
    with pytest.raises(ValidationError, match="NUL"):
        store.put(("a",), "k\0y", {"x": 1})
    with pytest.raises(ValidationError, match="not JSON"):
        store.put(("a",), "key", {"x": object()})
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("fine",), "key", {"x": 1}), GetOp(("a.b",), "key")])
    with pytest.raises(ValueError, match="Unknown operation"):
        store.batch([PutOp(("fine",), "key", {"x": 1}), "get"])  # type: ignore[list-item]
    assert store.list_namespaces() == []


def test_what_the_policy_refuses_is_an_error() -> None:
    card = "The card is 4111 1111 1111 1111."
    with KeepstoneStore.from_conn_string(":memory:", settings={"sensitive": {"card": "refuse"}}) as store:
        store.put(("a",), "before", {"file": "x" * 20_000})
        for value in ({"text": card}, {"text": card, "file": "x" * 20_000}):
            with pytest.raises(ValidationError, match="refused"):
                store.batch([PutOp(("a",), "large", {"file": "y" * 20_000}), PutOp(("a",), "card", value)])
            assert store.get(("a",), "card") is None
        assert {item.key: len(item.value["file"]) for item in store.search(("a",))} == {"before": 20_000, "large": 20_000}


def test_labels_that_look_sensitive_stay_apart(store: KeepstoneStore) -> None:
    numbers = ("4111111111111111", "5500005555555559")  # as card numbers are, and ids may be
    for number in numbers:
        store.put(("users", number), "small", {"by": number[::-1]})
        store.put(("users", number), "large", {"by": number[::-1], "file": "a line\n" * 5000})
    for number in numbers:
        item = store.get(("users", number), "large")
        assert item is not None
        assert (item.namespace, item.value["by"], len(item.value["file"])) == (("users", number), number[::-1], 35_000)
        found = store.search(("users", number))
        assert {(each.namespace, each.key, each.value["by"]) for each in found} == {
            (("users", number), "small", number[::-1]),
            (("users", number), "large", number[::-1]),
        }
    listed = store.list_namespaces()
    assert len(listed) == 2
    assert not any(number in str(listed) for number in numbers)
    assert store.get(listed[0], "small") is not None  # what is listed is an address
    assert store.list_namespaces(prefix=("users", numbers[0])) == [("users", numbers[0])]
    store.delete(("users", numbers[0]), "large")
    assert [len(store.search(("users", number))) for number in numbers] == [1, 2]


def test_a_batch_reads_before_it_writes_and_the_last_write_counts(store: KeepstoneStore) -> None:
    store.put(("a",), "kept", {"n": 0})
    results = store.batch([
        PutOp(("a",), "kept", {"n": 1}), GetOp(("a",), "kept"), PutOp(("a",), "gone", {"n": 1}), PutOp(("a",), "gone", None),
        PutOp(("a",), "kept", {"n": 2}), SearchOp(("a",)), PutOp(("b",), "back", None), PutOp(("b",), "back", {"n": 3}),
        ListNamespacesOp(),
    ])  # fmt: skip
    assert results[1].value == {"n": 0}  # type: ignore[union-attr]
    assert [item.key for item in results[5]] == ["kept"]  # type: ignore[union-attr]
    assert results[8] == [("a",)]
    assert {item.key: item.value["n"] for item in store.search(())} == {"kept": 2, "back": 3}


def test_pages_beyond_a_hundred(store: KeepstoneStore) -> None:
    store.batch([PutOp(("many",), f"k{at:03}", {"text": f"note {at}", "odd": at % 2}) for at in range(230)])
    whole = [item.key for item in store.search(("many",), limit=1000)]
    assert len(whole) == len(set(whole)) == 230
    pages = [[item.key for item in store.search(("many",), limit=60, offset=at)] for at in range(0, 300, 60)]
    assert [key for page in pages for key in page] == whole
    assert len(store.search(("many",), limit=1000, filter={"odd": 1})) == 115
    ranked = store.search(("many",), query="note 7", limit=230)
    assert len({item.key for item in ranked}) == 230
    assert [item.score is not None for item in ranked] == [True] * 100 + [False] * 130
    assert [item.key for item in store.search(("many",), query="note 7", limit=50, offset=90)] == [
        item.key for item in ranked[90:140]
    ]


# -- opening ------------------------------------------------------------------------------------------------------------
def test_a_store_is_opened_with_and_async_with(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=tmp_path, delete=False) as empty:
        path = empty.name
    with KeepstoneStore.from_conn_string(path, user="dana") as store:
        assert store.setup() is not None  # it may be awaited
        store.put(("a",), "k", {"x": 1})

    async def run() -> Any:
        async with KeepstoneStore.from_conn_string(path, user="dana", ttl={"default_ttl": 5}) as store:
            await store.setup()
            await store.aput(("a",), "l", {"x": 2})
            assert await store.sweep_ttl() == await store.asweep_ttl() == 0
            await store.start_ttl_sweeper()
            assert await store.stop_ttl_sweeper()
            store.put(("a",), "m", {"x": 3})  # without await, in the loop
            return [item.value["x"] for item in await store.asearch(("a",))]

    assert asyncio.run(run()) == [3, 2, 1]
    (tmp_path / "other.txt").write_text("no store")
    with pytest.raises(StoreDamaged), KeepstoneStore.from_conn_string(str(tmp_path / "other.txt")):
        pass
    assert (tmp_path / "other.txt").read_text() == "no store"


WRITER = """
import sys
from keepstone.integrations.langgraph import KeepstoneStore
with KeepstoneStore.from_conn_string(sys.argv[1]) as store:
    for at in range(20):
        store.put(("by", sys.argv[2]), str(at), {"text": f"note {at} of {sys.argv[2]}", "file": "x" * 20_000})
        store.put(("all",), "last", {"by": sys.argv[2]})
"""


def test_two_processes_write_one_file_and_a_third_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    Memory.open(path).close()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("one", "two")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    with KeepstoneStore.from_conn_string(str(path)) as store:
        assert store.list_namespaces() == [("all",), ("by", "one"), ("by", "two")]
        found = store.search(("by",), limit=100)
        assert {(item.namespace[1], item.key) for item in found} == {(by, str(at)) for by in ("one", "two") for at in range(20)}
        assert all(item.value["file"] == "x" * 20_000 for item in found)
        last = store.get(("all",), "last")
        assert last is not None
        assert last.value["by"] in ("one", "two")


def test_over_a_server(memory: Memory) -> None:
    with running(memory) as server, Client(server.url, server.key("dana")) as client:
        store = KeepstoneStore(client, index={"dims": 26, "embed": letters})
        store.batch([PutOp(("a", str(at % 3)), f"k{at}", {"word": "zebra" if at else "apple", "n": at}) for at in range(120)])
        store.put(("files",), "large", {"content": "0123456789" * 150_000})
        assert store.get(("files",), "large").value == {"content": "0123456789" * 150_000}  # type: ignore[union-attr]
        assert store.search(("a",), query="apple", limit=1)[0].key == "k0"
        assert len(store.search(("a",), limit=500, filter={"n": {"$gte": 60}})) == 60
        assert store.list_namespaces(max_depth=1) == [("a",), ("files",)]
        store.delete(("files",), "large")
        assert store.get(("files",), "large") is None
        store.put(("a",), "over", {"x": 1}, ttl=0)
        until(lambda: store.get(("a",), "over") is None, "it is still there")
        assert store.sweep_ttl() == 1


# -- who uses stores ----------------------------------------------------------------------------------------------------
def test_a_graph_remembers_from_thread_to_thread(store: KeepstoneStore) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.config import get_store
    from langgraph.graph import END, START, MessagesState, StateGraph

    async def answer(state: MessagesState) -> dict[str, Any]:
        said = state["messages"][-1].content
        found = await get_store().asearch(("facts",), query=str(said), limit=1)
        await get_store().aput(("facts",), str(len(state["messages"])) + str(said)[:5], {"content": said})
        return {"messages": [("ai", found[0].value["content"] if found else "I do not know.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    compiled = graph.compile(checkpointer=InMemorySaver(), store=store)

    def ask(text: str, thread: str) -> str:
        asked: Any = {"messages": [("user", text)]}
        return str(asyncio.run(compiled.ainvoke(asked, {"configurable": {"thread_id": thread}}))["messages"][-1].content)

    assert ask("My cat is called Miso.", "one") == "I do not know."
    assert ask("What is my cat called?", "two") == "My cat is called Miso."


def test_langmem_manages_memories(memory: Memory, store: KeepstoneStore) -> None:
    from langmem import create_manage_memory_tool, create_search_memory_tool

    config: Any = {"configurable": {"user": "dana"}}
    manage = create_manage_memory_tool(("memories", "{user}"), store=store)
    search = create_search_memory_tool(("memories", "{user}"), store=store)
    made = manage.invoke({"action": "create", "content": "Dana prefers dark mode."}, config)
    manage.invoke({"action": "create", "content": "Dana has two cats."}, config)
    id = made.split()[-1]
    found = json.loads(search.invoke({"query": "Does she prefer dark or light mode?", "limit": 1}, config))
    assert [(each["key"], each["value"]) for each in found] == [(id, {"content": "Dana prefers dark mode."})]
    manage.invoke({"action": "update", "id": id, "content": "Dana prefers light mode."}, config)
    assert memory.recall("theme mode")[0].content == "Dana prefers light mode."
    found = json.loads(asyncio.run(search.ainvoke({"query": "mode", "limit": 1}, config)))
    assert found[0]["value"] == {"content": "Dana prefers light mode."}
    manage.invoke({"action": "delete", "id": id}, config)
    assert [item.value["content"] for item in store.search(("memories", "dana"))] == ["Dana has two cats."]
    assert json.loads(search.invoke({"query": "mode"}, {"configurable": {"user": "bob"}})) == []


def test_deepagents_keeps_its_files(store: KeepstoneStore) -> None:
    from deepagents.backends import StoreBackend

    backend = StoreBackend(store=store, namespace=lambda _: ("dana", "files"))
    large = "a long line of text\n" * 60_000
    assert backend.write("/notes/plan.md", "# Plan\nbuy milk\n").error is None
    assert backend.write("/notes/log.txt", large).error is None
    assert backend.edit("/notes/plan.md", "milk", "bread").error is None
    assert "buy bread" in str(backend.read("/notes/plan.md"))
    assert {each["path"] for each in backend.ls("/notes").entries or ()} == {"/notes/plan.md", "/notes/log.txt"}
    assert [each["path"] for each in backend.glob("*.md", "/notes").matches or ()] == ["/notes/plan.md"]
    assert {each["path"] for each in backend.grep("bread", "/notes").matches or ()} == {"/notes/plan.md"}
    assert backend.download_files(["/notes/log.txt"])[0].content == large.encode()
    assert asyncio.run(backend.adelete("/notes/log.txt")).error is None
    assert {each["path"] for each in backend.ls("/notes").entries or ()} == {"/notes/plan.md"}
