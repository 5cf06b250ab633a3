"""Memory and Client take and refuse the same values: every argument of every verb, with every value of one table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keepstone import Client, Memory
from keepstone.errors import KeepstoneError
from tests.server.running import running

NUMBERS: list[Any] = [0, 1, 2, -1, 10**9, True, 0.5, "1", None]
FRACTIONS: list[Any] = [0, 0.5, 1, 1.5, -0.1, True, "0.5", None]
SPANS: list[Any] = [0, 1, 0.5, -1, 10**12, True, "1d", None, timedelta(0), timedelta(days=1), timedelta(days=-1)]
NAMES: list[Any] = ["x", "", " ", "x" * 300, "a\nb", 5, None, ["x"]]
LISTS: list[Any] = [["fact"], ("fact",), {"fact"}, [], [""], [5], "fact", 7, None]
TIMES: list[Any] = ["2026-01-01", "soon", "", datetime(2026, 1, 1, tzinfo=UTC), 5, None]
FLAGS: list[Any] = [True, False]
TEXTS: list[Any] = ["Dana drinks tea.", "", " ", 5, None]
OBJECTS: list[Any] = [{"a": 1}, {}, {"a": {"no such operator": 1}}, [], "x", None]

VALUES: dict[str, list[Any]] = {
    "content": TEXTS, "query": TEXTS, "words": TEXTS,
    "limit": NUMBERS, "n": NUMBERS, "most": NUMBERS, "reads": NUMBERS, "after": NUMBERS, "max_tokens": NUMBERS,
    "max_messages": NUMBERS, "expected_version": NUMBERS, "ticket": NUMBERS, "number": NUMBERS,
    "importance": FRACTIONS, "min_importance": FRACTIONS, "min_trust": FRACTIONS, "min_similarity": FRACTIONS,
    "min_confidence": FRACTIONS,
    "older_than": SPANS, "stale_after": SPANS, "ttl": SPANS,
    "tag": NAMES, "kind": NAMES, "session": NAMES, "source": NAMES, "key": NAMES, "id": NAMES, "idempotency_key": NAMES,
    "by": NAMES,
    "since": ["used", "created", "2026-01-01", "read", 5, None], "until": TIMES,
    "kinds": LISTS, "ids": LISTS, "checks": [["stale"], [], ["no such check"], "stale", None], "why": [["aged"], [], ["x"], None],
    "as_of": TIMES, "known_at": TIMES, "asked_at": TIMES, "occurred_at": TIMES,
    "metadata": OBJECTS, "filter": [*OBJECTS, {"contains": "tea"}],
    "policy": [{"cap": 5}, {"cap": -1}, {"no such field": 1}, {}, None],
    "dry_run": FLAGS, "keyed": FLAGS, "everything": FLAGS, "extract": FLAGS, "trust_clock": FLAGS, "allow_forget": FLAGS,
    "value": ["dark", "", 5, None, {"a": [1]}], "default": ["light", None], "state": ["open", "kept", "x", 5, None],
    "items": [["Omar rows."], [{"content": "Mei sings."}], [{"text": "x"}], [5], [], "x", 5, None],
    "messages": [[{"role": "user", "content": "Hi."}], [{"role": "user"}], [5], [], "x", None],
    "format": ["anthropic", "openai", "x", None], "decision": ["keep", "x", 5], "head": [None, "x"],
    "role": ["user", "assistant", "", 5], "name": ["recall_memory", "x", 5], "input": [{"query": "tea"}, {}, "x", None],
    "cursor": ["x", "", 5, None], "order": ["stored", "occurred", "x", 5, None], "prefix": NAMES,
    "helped": [True, False, 5, None],
    "days": [1, 30, 0, 1000, "x", None], "injected": [0, 5, -1, "x", None], "recalled": [0, 5, -1, "x", None],
    "to": [{"agent": "other"}, {}, {"no such": "x"}, "x", 5, None],
    "also": [[{"agent": "helper"}], [], [{"no such": "x"}], [5], "x", 5, None], "embedder": [None, "no such embedder"],
}  # fmt: skip
REQUIRED: dict[str, Any] = {
    "content": "Dana drinks tea.", "query": "What does Dana drink?", "words": "tea", "id": "m_0000000000000000", "key": "theme",
    "value": "dark", "items": ["Omar rows."], "messages": [{"role": "user", "content": "Hi."}], "session": "s", "most": 5,
    "ticket": 1, "ids": ["m_0000000000000000"], "number": 1, "decision": "keep", "since": "2026-01-01", "role": "user",
    "name": "recall_memory", "input": {"query": "tea"}, "helped": True, "to": {"agent": "other"},
}  # fmt: skip
VERBS: dict[str, Callable[[Any], Any]] = {
    **{name: (lambda memory, name=name: getattr(memory, name)) for name in (
        "remember", "remember_many", "update", "forget", "ingest", "learn", "recall", "get", "list", "history", "why", "set",
        "value", "context", "tools", "call_tool", "system_prompt", "scopes", "entities", "feedback", "promote", "demote",
        "costs", "add_cost",
    )},
    **{f"upkeep.{name}": (lambda memory, name=name: getattr(memory.upkeep, name)) for name in (
        "run", "age", "lapse", "fade", "cap", "archive", "archived", "undo", "restore", "purge", "compact", "verify", "health",
        "fix", "reembed", "doctor",
    )},
    **{f"conversation.{name}": (lambda memory, name=name: getattr(memory.conversation, name)) for name in ("recent", "list")},
    **{f"conversation(…).{name}": (lambda memory, name=name: getattr(memory.conversation("s"), name)) for name in (
        "add", "messages", "last", "search", "consolidate", "summary", "tokens", "export", "clear",
    )},
    "review.list": lambda memory: memory.review.list, "review.resolve": lambda memory: memory.review.resolve,
    "jobs.list": lambda memory: memory.jobs.list, "jobs.run": lambda memory: memory.jobs.run,
    "jobs.retry": lambda memory: memory.jobs.retry, "jobs.drop": lambda memory: memory.jobs.drop,
    "audit": lambda memory: memory.audit.__call__, "audit.verify": lambda memory: memory.audit.verify,
    "audit.diff": lambda memory: memory.audit.diff,
}  # fmt: skip
LOCAL = {"progress", "handlers", "path"}  # functions and files of this process


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, Client]]:
    """A memory, and a client of a server on another."""
    folder = tmp_path_factory.mktemp("pair")
    rights = ("read", "write", "forget", "admin", "operator")
    with (
        Memory.open(folder / "a.db", user="dana", settings={"durable": False}) as memory,
        Memory.open(folder / "b.db", settings={"durable": False}) as served,
        running(served) as server,
        Client(server.url, server.key(user="dana", rights=rights)) as client,
    ):
        yield memory, client


def outcome(call: Callable[..., Any], arguments: dict[str, Any]) -> str:
    try:
        call(**arguments)
    except KeepstoneError as error:
        return type(error).__name__
    except TypeError as error:
        return f"TypeError: {error}"
    return "taken"


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_values_are_taken_and_refused(pair: tuple[Memory, Client], verb: str) -> None:
    local, remote = (VERBS[verb](memory) for memory in pair)
    parameters = {name: each for name, each in inspect.signature(local).parameters.items() if each.kind != each.VAR_KEYWORD}
    base = {name: REQUIRED[name] for name, each in parameters.items() if each.default is each.empty}
    differ = []
    for name in parameters:
        if name in LOCAL:
            continue
        assert name in VALUES, f"{verb} has the argument {name}: add values for it to the table"
        for value in VALUES[name]:
            arguments = {**base, name: value}
            expected, found = outcome(local, arguments), outcome(remote, arguments)
            if expected != found:
                differ.append(f"{name}={value!r:.40}: Memory {expected}, Client {found}")
    assert not differ, "\n".join(differ)


def test_every_verb_is_in_the_table(pair: tuple[Memory, Client]) -> None:
    memory, _ = pair
    files = {"export", "import_", "backup"}  # take paths, tested in test_memory_moving
    others = {"open", "with_scope", "close", "scope", "working", "conversation", "tasks", "upkeep", "review", "jobs", "audit"}
    assert {name for name in dir(Memory) if not name.startswith("_")} - files - others == {
        name for name in VERBS if "." not in name
    } - {"audit"}
    indexes = {"repair_index", "rebuild_index", "schedule"}  # need an index, or a process of the store
    offered = {f"upkeep.{name}" for name in dir(memory.upkeep) if not name.startswith("_")}
    assert offered - {f"upkeep.{name}" for name in indexes} == {name for name in VERBS if name.startswith("upkeep.")}
