"""What users rely on: names, signatures, values; and that what is generated is fresh."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

import keepstone
from keepstone import AsyncClient, AsyncMemory, Client, Hit, Memory, Message, Recall, Receipt, Record, errors
from keepstone.aio import AsyncAudit, AsyncConversation, AsyncConversations, AsyncJobs, AsyncReview, AsyncTasks, AsyncUpkeep
from keepstone.client.conversation import (
    AsyncRemoteConversation,
    AsyncRemoteConversations,
    RemoteConversation,
    RemoteConversations,
)
from keepstone.client.maintenance import (
    AsyncRemoteAudit,
    AsyncRemoteJobs,
    AsyncRemoteReview,
    AsyncRemoteUpkeep,
    RemoteAudit,
    RemoteJobs,
    RemoteReview,
    RemoteUpkeep,
)
from keepstone.client.tasks import AsyncRemoteTasks, RemoteTasks
from keepstone.conversation.conversation import Conversation, Conversations
from keepstone.learning.jobs import ScopeJobs
from keepstone.maintenance.audit import Audit
from keepstone.maintenance.review import ReviewList
from keepstone.maintenance.upkeep import Upkeep
from keepstone.tasks.flow import Tasks
from keepstone.types import ACTIONS, ForgetReceipt, Passage
from tests.architecture.modules import MODULES, ROOT, tree_of
from tests.faults.support import environment

PROJECT = ROOT.parent.parent
SIGNATURES = {
    "open": "target='keepstone.db', *, tenant='local', agent='default', user='', embedder='auto', model=None, buffer=None, "
    "index=None, settings=None, reranker=None, reembed=False",
    "with_scope": "*, tenant=None, agent=None, user=None",
    "remember": "content, *, kind='fact', tag='general', key=None, importance=0.5, metadata=None, ttl=None, source='user', "
    "session=None, occurred_at=None, idempotency_key=None",
    "remember_many": "items",
    "recall": "query, *, limit=5, kinds=None, tag=None, filter=None, min_similarity=None, min_importance=0.0, max_tokens=None, "
    "as_of=None, known_at=None, min_trust=None, session=None, asked_at=None, min_confidence=None, also=None",
    "get": "id=None, *, key=None",
    "list": "*, tag=None, kind=None, filter=None, limit=20, cursor=None, prefix=None, order='stored'",
    "update": "id, content=None, *, importance=None, metadata=None, expected_version=None, occurred_at=None, tag=None",
    "forget": "id=None, *, key=None, source=None, session=None, everything=False",
    "history": "id",
    "why": "query, id",
    "scopes": "",
    "feedback": "id, *, helped",
    "costs": "*, days=30",
    "add_cost": "session, *, injected=0, recalled=0",
    "promote": "id, *, to",
    "demote": "id, *, to",
    "entities": "*, kind=None, limit=100",
    "set": "key, value, *, tag='general'",
    "value": "key=None, default=None, *, tag=None",
    "context": "query, *, max_tokens=1500, limit=None, kinds=None, tag=None, min_trust=None",
    "ingest": "messages, *, session, extract=True, source=None",
    "learn": "content, *, metadata=None, source='user', session=None, occurred_at=None",
    "tools": "*, allow_forget=False, format='anthropic'",
    "call_tool": "name, input, *, allow_forget=None",
    "system_prompt": "query='', *, max_tokens=1500",
    "export": "path, *, everything=False, plaintext=False, progress=None",
    "import_": "path, *, source=None, progress=None",
    "backup": "path, *, progress=None",
    "close": "",
}
PROPERTIES = {"scope", "upkeep", "review", "working", "jobs", "conversation", "tasks", "audit"}
GROUPS = {
    (Tasks, "start"): "task, *, goal=None",
    (Tasks, "record"): "thought, action='', result=''",
    (Tasks, "end"): "success, outcome",
    (Audit, "__call__"): "*, since=None, limit=100",
    (Audit, "verify"): "*, head=None",
    (Audit, "diff"): "since, until=None, *, kinds=None",
    (Conversations, "__call__"): "session, **limits",
    (Conversations, "list"): "*, limit=100",
    (Conversations, "recent"): "n=20",
    (Conversations, "export_chats"): "path, *, format='openai', only_successes=False, plaintext=False",
    (Upkeep, "doctor"): "*, progress=None",
}
TWINS = [
    (Upkeep, AsyncUpkeep, RemoteUpkeep, AsyncRemoteUpkeep),
    (ReviewList, AsyncReview, RemoteReview, AsyncRemoteReview),
    (ScopeJobs, AsyncJobs, RemoteJobs, AsyncRemoteJobs),
    (Conversation, AsyncConversation, RemoteConversation, AsyncRemoteConversation),
    (Conversations, AsyncConversations, RemoteConversations, AsyncRemoteConversations),
    (Tasks, AsyncTasks, RemoteTasks, AsyncRemoteTasks),
    (Audit, AsyncAudit, RemoteAudit, AsyncRemoteAudit),
]
NOT_AWAITED = ("open", "with_scope")
NOT_OF_A_CLIENT = {"open"}  # a client is made by its constructor
RETURNS = {"with_scope": "Client"}  # of a client; everything else is as Memory has it


def public(kind: type) -> set[str]:
    return {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}


def parameters(function: Any) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    return found[1:] if found and found[0].name == "self" else found


def shown(function: Any) -> str:
    """A signature without its annotations."""
    bare = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters(function)])
    return str(bare)[1:-1]


def test_the_public_names() -> None:
    assert keepstone.__all__ == [
        "AsyncClient", "AsyncMemory", "Client", "Hit", "KeepstoneError", "Memory", "Message", "Recall", "Receipt", "Record",
        "Scope", "__version__", "wrap",
    ]  # fmt: skip
    assert all(hasattr(keepstone, name) for name in keepstone.__all__)


def test_the_verbs_of_memory_are_those_that_are_pinned_here() -> None:
    assert public(Memory) == set(SIGNATURES) | PROPERTIES


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signature_of(name: str) -> None:
    assert shown(getattr(Memory, name)) == SIGNATURES[name]


def test_both_memories_have_the_same_names() -> None:
    assert public(AsyncMemory) == public(Memory)
    for name in PROPERTIES:
        assert isinstance(inspect.getattr_static(Memory, name), property)
        assert isinstance(inspect.getattr_static(AsyncMemory, name), property)


@pytest.mark.parametrize("name", SIGNATURES)
def test_both_memories_have_the_same_signature_and_documentation(name: str) -> None:
    one, other = getattr(Memory, name), getattr(AsyncMemory, name)
    assert [str(each) for each in parameters(one)] == [str(each) for each in parameters(other)]
    assert inspect.getdoc(other)
    if name not in NOT_AWAITED:
        assert inspect.iscoroutinefunction(other)
        assert inspect.signature(one).return_annotation == inspect.signature(other).return_annotation


@pytest.mark.parametrize(("owner", "name"), GROUPS)
def test_the_signature_of_a_grouped_verb(owner: type, name: str) -> None:
    assert shown(getattr(owner, name)) == GROUPS[owner, name]


@pytest.mark.parametrize("twins", TWINS)
def test_every_group_has_the_same_verbs_in_all_four_surfaces(twins: tuple[type, ...]) -> None:
    like, *others = twins
    verbs = public(like) - {"session"} | ({"__call__"} & set(vars(like)))
    assert verbs
    for other in others:
        assert public(other) - {"count"} == public(like)
        for name in verbs:
            assert shown(getattr(like, name)) == shown(getattr(other, name))
            assert inspect.getdoc(getattr(other, name))
            awaited = other.__name__.startswith("Async") and (like, name) != (Conversations, "__call__")
            assert inspect.iscoroutinefunction(getattr(other, name)) == awaited
    remote, async_remote = others[1:]
    assert ({"__len__", "__iter__", "__bool__"} & set(vars(like))) <= set(vars(remote))
    assert ({"__aiter__"} & set(vars(others[0]))) <= set(vars(async_remote))


def test_clients_have_the_names_of_the_memories() -> None:
    assert public(Client) == public(Memory) - NOT_OF_A_CLIENT
    assert public(AsyncClient) == public(AsyncMemory) - NOT_OF_A_CLIENT
    for kind in (Client, AsyncClient):
        assert shown(kind) == "url=None, key=None, *, agent=None, user=None, timeout=30.0, transport=None"
        for name in PROPERTIES:
            assert isinstance(inspect.getattr_static(kind, name), property)
            assert inspect.getdoc(getattr(kind, name))


@pytest.mark.parametrize("name", sorted(set(SIGNATURES) - NOT_OF_A_CLIENT))
def test_clients_have_the_signatures_of_the_memories(name: str) -> None:
    for kind, like in ((Client, Memory), (AsyncClient, AsyncMemory)):
        one, other = getattr(kind, name), getattr(like, name)
        assert [str(each) for each in parameters(one)] == [str(each) for each in parameters(other)]
        assert inspect.iscoroutinefunction(one) == inspect.iscoroutinefunction(other)
        assert inspect.getdoc(one)
        wanted = inspect.signature(other).return_annotation
        if name in RETURNS:
            wanted = RETURNS[name] if kind is Client else f"Async{RETURNS[name]}"
        assert inspect.signature(one).return_annotation == wanted


@pytest.mark.parametrize("name", sorted(SIGNATURES) + sorted(PROPERTIES))
def test_every_verb_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(Memory, name))


def test_the_fields_of_a_record() -> None:
    contract = (
        "id scope kind tag key content metadata importance source trust session role occurred_at created_at updated_at "
        "valid_from valid_to expires_at last_accessed_at access_count version status parents"
    ).split()
    assert {each.name for each in fields(Record)} == {*contract, "name", "embedded", "blocks", "sensitive"}


def test_the_fields_of_other_values() -> None:
    contract = ["action", "id", "version", "reasons", "learned", "usage", "retry_after", "may_replace"]
    assert [each.name for each in fields(Receipt)] == contract
    assert [each.name for each in fields(ForgetReceipt)] == ["forgotten", "ids", "erased", "reasons", "places", "summarised"]
    assert [each.name for each in fields(Hit)] == ["record", "score", "signals", "passage", "superseded_by"]
    assert [each.name for each in fields(Passage)] == ["text", "start", "end", "length"]
    assert isinstance(inspect.getattr_static(Hit, "content"), property)
    assert isinstance(inspect.getattr_static(Hit, "id"), property)
    assert [each.name for each in fields(Message)] == ["role", "content", "name", "at", "metadata", "id"]
    required = [each.name for each in fields(Recall) if each.default is MISSING]
    assert required == ["query"]


def test_the_actions_of_a_receipt() -> None:
    assert set(ACTIONS) == {"added", "merged", "updated", "superseded", "duplicate", "redacted", "quarantined", "refused"}


def test_errors_form_the_tree_that_is_drawn() -> None:
    drawn: dict[str, str] = {}
    trail: list[tuple[int, str]] = []
    for row in (errors.__doc__ or "").splitlines():
        name = row.strip(" │├└─").split(" ")[0]
        if isinstance(getattr(errors, name, None), type):
            depth = row.index(name)
            trail = [each for each in trail if each[0] < depth]
            drawn[name] = trail[-1][1] if trail else "Exception"
            trail.append((depth, name))
    real = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert drawn == real
    assert all(kind.__doc__ for kind in vars(errors).values() if isinstance(kind, type))


@pytest.mark.parametrize(
    ("tool", "option", "target"),
    [
        ("make_schema.py", "--print", ROOT / "stores" / "sqlite" / "schema.sql"),
    ],
)
def test_what_is_generated_is_fresh(tool: str, option: str, target: Path) -> None:
    command = [sys.executable, str(PROJECT / "tools" / tool), *option.split()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=True)
    assert done.stdout == target.read_text(encoding="utf-8"), f"run: python tools/{tool}"


def test_a_file_reads_in_one_sitting() -> None:
    sources = [path for pattern in ("*.py", "*.sql") for path in ROOT.rglob(pattern)]
    assert len(sources) > 50
    long = {path.name: count for path in sources if (count := len(path.read_text(encoding="utf-8").splitlines())) > 500}
    assert long == {}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_lives_in_it(module: str) -> None:
    assert ast.get_docstring(tree_of(module))
