"""Every route, tool and page with every kind of credential: nothing but what the table of rights says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import Forbidden
from keepstone.rights import ADMIN, FORGET, OPERATOR, READ, RIGHTS, VERBS, WRITE
from keepstone.server.app import make_app
from keepstone.server.facade import grant
from keepstone.types import Scope
from tests.server.running import Running, running

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from rights_probe import HELD, KINDS, MARK, Attempt, Credential, attempts, make_credential


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {"mcp_forget": True, "durable": False, "worker": False, "requests_per_minute": 0}
    path = tmp_path_factory.mktemp("rights") / "memory.db"
    with Memory.open(path, embedder="none", settings=settings) as memory, running(memory) as made:
        yield made


def state(server: Running, caller: Credential) -> tuple[int, dict[str, str], set[str], int]:
    """What a request may have changed: the last audit entry that is not about keys, states, ids and keys."""
    rows = [row.number for row in caller.memory.audit(limit=1000) if row.verb != "key"]
    store = server.engine.store
    ids = {export.record.id for export in store.export_records(caller.memory.scope)}
    return max(rows, default=0), dict(store.states.all(caller.memory.scope)), ids, len(server.service.keys.list("probe"))


def surprises(server: Running, caller: Credential, attempt: Attempt) -> list[str]:
    """What a request did that its credential may not do."""
    rights, agent = KINDS[caller.kind]
    entry, states, ids, keys = state(server, caller)
    response = attempt.send(caller)
    new_entry, new_states, new_ids, new_keys = state(server, caller)
    found, text = [], response.text
    if READ not in rights and MARK in text and not (attempt.name == "backup" and OPERATOR in rights):
        found.append("it shows what may not be read")
    if (agent or READ not in rights) and HELD in text and not (attempt.name == "backup" and OPERATOR in rights):
        found.append("it shows what is in quarantine")
    if (new_entry, new_states) != (entry, states) and not {WRITE, FORGET, ADMIN} & set(rights):
        found.append("it changes something")
    if ids - new_ids and FORGET not in rights:
        found.append("it erases something")
    if new_keys != keys and ADMIN not in rights:
        found.append("it makes or revokes a key")
    refused = response.status_code in (401, 403) or response.headers.get("location", "").startswith("/sign-in")
    if attempt.surface == "MCP" and response.status_code == 200:  # errors are part of the protocol's responses
        refused = "this key may not" in text or "not available to an agent" in text
    if refused == attempt.is_allowed(caller.kind):
        found.append(f"{'refused' if refused else 'allowed'} with {response.status_code}: {text[:200]}")
    if response.status_code >= 500:
        found.append(f"failed with {response.status_code}")
    return [f"{attempt.surface} {attempt.name} with {caller.kind}: {what}" for what in found]


@pytest.mark.parametrize("kind", KINDS)
def test_a_credential_does_what_the_table_says_and_nothing_else(shared: Running, kind: str) -> None:
    app: Any = make_app(shared.service)
    tried = attempts(app)
    caller = make_credential(shared.service, shared.memory, shared.url, kind)
    shared.clients += [caller.http, caller.page]
    assert len(tried) > 100
    assert {attempt.surface for attempt in tried} == {"HTTP", "MCP", "page", "mem0"}
    assert [found for attempt in tried for found in surprises(shared, caller, attempt)] == []


def test_a_verb_without_a_row_is_closed(shared: Running) -> None:
    class WithNewVerb(Memory):
        def peek(self) -> str:
            return MARK

    identity = shared.service.keys.check(shared.key("new", rights=RIGHTS))
    caller = shared.service.caller_for(identity)
    memory = grant(WithNewVerb(shared.engine, caller.scope), caller)
    with pytest.raises(Forbidden, match="no row in the table of rights"):
        memory.peek()
    for closed in ("with_scope", "close", "open"):
        with pytest.raises(Forbidden):
            getattr(caller.memory, closed)
    with pytest.raises(Forbidden):
        caller.memory.upkeep.run()  # of the whole store
    with pytest.raises(Forbidden, match="scope of its key"):
        caller.backend.count(Scope("another", "default", "ada"))
    with pytest.raises(Forbidden, match="tenant of its key"):
        caller.keys.list("another")
    assert {verb for verb in VERBS if verb.partition(".")[0] not in KNOWN} == set(), "every row is a verb's"


KNOWN = {
    "Memory", "Conversations", "Conversation", "Tasks", "WorkingMemory", "Retention", "HealthChecker", "Upkeep", "ReviewList",
    "ScopeJobs", "Audit", "Backend", "Keys",
}  # fmt: skip
