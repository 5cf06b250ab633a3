"""Every verb of a store port is forwarded explicitly, and every wrapper handles the verbs that concern it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from keepstone.buffers.buffered import BufferedStore
from keepstone.guard import guarded_store as guarded
from keepstone.guard import withholding
from keepstone.ports import forwarding, maintenance, queue, stores
from keepstone.vector_sync import indexing as indexed

# Which verbs write text, which write something else, and which only read. A verb that is new in a port belongs in one of them.
TEXT = {
    "Store": "write revise forget redact import_records",
    "MessageLog": "",
    "StateStore": "put drop",
    "JobQueue": "add put_back give_up",
    "RetentionStore": "",
    "Reviews": "add settle release confirm",
    "AuditLog": "note",
}
OTHER_WRITES = {
    "Store": "bind_embedder prepare_embedder change_embedder attach touch close",
    "MessageLog": "",
    "StateStore": "",
    "JobQueue": "claim finish retry drop",
    "RetentionStore": "archive restore undo",
    "Reviews": "",
    "AuditLog": "note_foreign",  # ids that are in the store already
}
READS = {
    "Store": (
        "id is_embedded message_log states jobs retention reviews leases audit_log embedder next_embedder pending pending_count "
        "get by_key fetch list count tags history audit stamp changes all_rows fetch_stamped matching sequence_of snapshot "
        "search_words search_recent document_frequencies search_vectors index_rows neighbours index_size export_records "
        "backup doctor tune"
    ),
    "MessageLog": "page count sessions",
    "StateStore": "get all",
    "JobQueue": "list next_due",
    "RetentionStore": "scopes scopes_with_record summaries lineage stats old lapsed faded excess archived",
    "Reviews": "list get",
    "AuditLog": "count places number_at feed stamps forgotten last days verify",
}
PORTS: dict[str, tuple[Any, Any]] = {
    "Store": (stores.Store, forwarding.ForwardingStore),
    "MessageLog": (queue.MessageLog, forwarding.ForwardingMessageLog),
    "StateStore": (queue.StateStore, forwarding.ForwardingStateStore),
    "JobQueue": (queue.JobQueue, forwarding.ForwardingJobQueue),
    "RetentionStore": (maintenance.RetentionStore, forwarding.ForwardingRetentionStore),
    "Reviews": (maintenance.Reviews, forwarding.ForwardingReviews),
    "AuditLog": (maintenance.AuditLog, forwarding.ForwardingAuditLog),
}
GUARDED: dict[str, Any] = {
    "Store": guarded.GuardedStore,
    "StateStore": guarded.GuardedStates,
    "JobQueue": guarded.GuardedJobs,
    "Reviews": guarded.GuardedReviews,
    "AuditLog": guarded.GuardedAuditLog,
}


def members(port: Any) -> set[str]:
    return {name for name in (*vars(port), *port.__annotations__) if not name.startswith("_")}


@pytest.mark.parametrize("name", PORTS)
def test_every_verb_of_a_port_is_classified(name: str) -> None:
    tables = [set(table[name].split()) for table in (TEXT, OTHER_WRITES, READS)]
    assert set().union(*tables) == members(PORTS[name][0])
    assert sum(map(len, tables)) == len(set().union(*tables)), "a verb is in two tables"


@pytest.mark.parametrize("name", PORTS)
def test_every_verb_of_a_port_is_forwarded_with_its_own_signature(name: str) -> None:
    port, base = PORTS[name]
    assert not hasattr(base, "__getattr__")
    for verb in members(port):
        declared = getattr(port, verb, None)
        if callable(declared):
            assert verb in vars(base), f"{base.__name__} does not implement {verb}"
            assert inspect.signature(vars(base)[verb]).parameters == inspect.signature(declared).parameters, verb


@pytest.mark.parametrize("name", [name for name in PORTS if TEXT[name]])
def test_the_guard_covers_every_verb_that_writes_text(name: str) -> None:
    assert set(TEXT[name].split()) <= set(vars(GUARDED[name]))


# Reading verbs that give no text of a record, or of active records only. What is new in a port and gives text has to be withheld.
WITHOUT_QUARANTINED_TEXT = {
    "Store": (
        "id is_embedded message_log states jobs retention reviews leases audit_log embedder next_embedder pending pending_count "
        "list count tags audit stamp changes all_rows matching search_words search_recent document_frequencies "
        "search_vectors index_rows neighbours index_size backup doctor tune"
    ),
    "MessageLog": "count sessions",
    "RetentionStore": "scopes scopes_with_record summaries lineage stats",
    "Reviews": "",
}
WITHHOLDING: dict[str, Any] = {
    "Store": withholding.WithholdingStore,
    "MessageLog": withholding.WithholdingMessageLog,
    "RetentionStore": withholding.WithholdingRetention,
    "Reviews": withholding.WithholdingReviews,
}


@pytest.mark.parametrize("name", WITHHOLDING)
def test_an_agents_view_covers_every_verb_that_gives_text(name: str) -> None:
    overridden = {verb for verb in vars(WITHHOLDING[name]) if not verb.startswith("_")}
    reads = set(READS[name].split())
    assert reads - overridden == set(WITHOUT_QUARANTINED_TEXT[name].split())
    if name == "Store":
        assert overridden - reads == {"revise", "forget"}


def test_the_parts_of_a_guarded_store_are_guarded() -> None:
    source = inspect.getsource(guarded.GuardedStore.__init__)
    for part, wrapper in (("states", "GuardedStates"), ("jobs", "GuardedJobs"), ("reviews", "GuardedReviews")):
        assert f"self.{part} = {wrapper}(" in source


def test_the_buffer_is_cleared_by_every_verb_that_erases() -> None:
    assert {"forget", "redact", "import_records"} <= set(vars(BufferedStore))


def test_the_index_learns_of_every_verb_that_changes_what_is_found() -> None:
    changes = {"write", "revise", "forget", "redact", "import_records", "attach", "change_embedder"}
    assert changes <= set(vars(indexed.IndexedStore))
    assert set(OTHER_WRITES["RetentionStore"].split()) <= set(vars(indexed.IndexedRetention))
    assert "release" in vars(indexed.IndexedReviews)
