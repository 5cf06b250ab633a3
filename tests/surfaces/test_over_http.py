"""What a memory does, it does over HTTP too: the tests of the other files that need no more than a memory, run against a server.

One server for all of them; each test has a tenant of its own, with a key that may do everything in it. A test is taken when all
it asks for is an open memory (and what pytest itself offers). LEFT says which are not, and why.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keepstone import Client, Memory
from tests.server.running import Running, running

MODULES = (
    "access_request", "conversation", "conversation_moving", "conversation_window", "episodes", "export_chats", "foreign_ids",
    "forgetting_cascades", "forgetting_sessions", "learning_by_rules", "memory_context", "memory_conversation_recall",
    "memory_filters", "memory_import", "memory_jobs", "memory_moving", "memory_past", "memory_recall", "memory_refusals",
    "memory_scopes", "memory_entities", "feedback", "promote", "memory_sources", "memory_times", "memory_tools", "memory_values",
    "memory_writing", "retention", "sensitive_paths", "sensitive_policy", "steps", "system_prompt", "tasks_cut_off", "trust",
    "truth_over_time", "upkeep_reports", "upkeep_run", "verification", "working_memory", "min_trust", "redacted_names",
    "learning_jobs", "names_as_context", "purge_and_clocks", "facts_first", "mixed_languages",
)  # fmt: skip
OFFERED = {"memory", "tmp_path", "monkeypatch", "capsys", "caplog"}
FRESH = {
    "memory_moving.a_backup_made_while_others_write_is_whole", "memory_scopes.one_name_in_two_unicode_forms_is_one_user",
    "trust.a_file_cannot_claim_trust", "trust.a_named_source_speaks_for_the_whole_file",
    "trust.instructions_in_a_file_wait_for_a_review", "trust.an_import_raises_nothing_that_is_there",
    "trust.the_past_of_an_import_is_judged_too",
}  # fmt: skip
INSIDE = "it reaches into the store, which is the server's"
MODEL = "the conversation's model is a function, and a function cannot travel"
COUNTER = "a counter is a function, and a function cannot travel"
AGENT = "a MemoryAgent works on a Memory"
SYSTEM = "no caller may use the role system over HTTP"
LEFT: dict[str, str] = {
    "conversation.limits_that_cannot_be_used_are_named": MODEL,
    "conversation_window.a_model_that_fails_leaves_sentences_picked_out": MODEL,
    "conversation_window.an_exact_counter_is_used_and_one_that_fails_is_estimated": COUNTER,
    "conversation_window.exact_recall_an_account_number_survives_summarising": MODEL,
    "conversation_window.the_summary_is_incremental_and_the_model_never_sees_a_turn_twice": MODEL,
    "conversation_window.what_a_model_says_cannot_leave_the_fence_or_the_budget": MODEL,
    "conversation_window.without_a_summary_older_messages_are_only_left_out": MODEL,
    "episodes.a_step_needs_words": "the schema refuses what is no text, in its own words",
    "episodes.a_task_ends_in_success_or_failure_with_words": "the schema refuses what is no text or no yes, in its own words",
    "forgetting_sessions.what_a_tool_wrote_in_a_session_goes_with_it": AGENT,
    "memory_recall.importance_and_trust_thresholds": SYSTEM,
    "memory_refusals.content_past_the_limit": "ten megabytes are refused before the server looks at the text",
    "memory_refusals.every_write_leaves_an_audit_row_without_content": "the trail of a server names the key as well",
    "memory_scopes.parts_of_a_scope_do_not_run_together": "a key belongs to one tenant",
    "memory_sources.trust_follows_from_the_source": SYSTEM,
    "memory_tools.no_tool_raises_trust": SYSTEM,
    "memory_tools.a_question_may_be_odd": "a server takes no half characters",
    "trust.a_source_is_trusted_as_its_class": SYSTEM,
    "trust.instructions_of_anybody_else_are_memories": SYSTEM,
    "trust.what_is_derived_from_a_page_does_not_replace_what_the_user_said": INSIDE,
    "trust.what_is_derived_is_trusted_as_the_least_of_its_parents": INSIDE,
    "trust.a_full_disk_keeps_nobody_from_reading_the_trail": INSIDE,
    "trust.what_a_tool_said_in_a_task_is_in_no_later_context": AGENT,
    "upkeep_run.the_pause_is_the_period_and_a_little_more_by_chance": INSIDE,
    "working_memory.odd_characters_come_back_as_they_were": "what is in hand on a server holds no NUL and no half character",
}
_number = count(1)


@pytest.fixture(scope="session")
def surfaces_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Memory.open(tmp_path_factory.mktemp("over_http") / "memory.db") as memory, running(memory) as made:
        yield made


@pytest.fixture
def memory(surfaces_server: Running, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client in an empty tenant; in an empty store of its own where a test needs the tenant "local", or unused ids."""
    if getattr(request.node, "originalname", "").removeprefix("test_").replace("__", ".") in FRESH:
        with Memory.open(tmp_path / "served.db") as served, running(served) as fresh, _client(fresh, "local") as opened:
            yield opened
        return
    with _client(surfaces_server, f"tenant {next(_number)}") as opened:
        yield opened


def _client(server: Running, tenant: str) -> Client:
    key = server.key("surfaces", tenant=tenant, service=True, rights=("read", "write", "forget", "admin", "operator"))
    return Client(server.url, key)


def _taken(name: str, test: Any) -> bool:
    if not name.startswith("test_") or not inspect.isfunction(test):
        return False
    asked = set(inspect.signature(test).parameters)
    given = {each for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize" for each in _names(mark.args[0])}
    return "memory" in asked and asked - given <= OFFERED


def _names(given: Any) -> list[str]:
    return [each.strip() for each in given.split(",")] if isinstance(given, str) else list(given)


_offered: set[str] = set()
for _module in MODULES:
    for _name, _test in vars(import_module(f"tests.surfaces.test_{_module}")).items():
        _full = f"{_module}.{_name.removeprefix('test_')}"
        if _taken(_name, _test):
            _offered.add(_full)
            if _full not in LEFT:
                globals()[f"test_{_module}__{_name.removeprefix('test_')}"] = _test


def test_enough_of_them_were_taken() -> None:
    assert sum(name.startswith("test_") for name in globals()) > 200


def test_what_is_left_out_is_there() -> None:
    assert set(LEFT) <= _offered
