"""The OpenAI Agents SDK's own tests of sessions, with KeepstoneSession in the place of SQLiteSession and AsyncSQLiteSession."""

from __future__ import annotations

from pathlib import Path

from tests.frameworks.suites import run

SWAP = "swap_openai_agents"
SYNC, ASYNC = "tests/memory/test_session.py", "tests/extensions/memory/test_async_sqlite_session.py"
_ROWS = "writes rows that are not JSON into the SQLite session's table, over its connection"
_TIMES = "sets times in the SQLite session's table, over its connection"
_CONNECTIONS = "looks at the SQLite session's connections"
_LOCKS = "looks at the SQLite session's locks and transactions"
_SETUP = "breaks the setup of the SQLite session's connection and tables"

LEFT_OUT = {
    f"{SYNC}::test_sqlite_session_close_closes_worker_thread_connections": _CONNECTIONS,
    f"{SYNC}::test_sqlite_session_reaps_connections_from_exited_worker_threads": _CONNECTIONS,
    f"{SYNC}::test_sqlite_session_closes_retired_connections_before_the_next_allocation": _CONNECTIONS,
    f"{SYNC}::test_sqlite_session_keeps_connections_of_live_worker_threads": _CONNECTIONS,
    f"{SYNC}::test_sqlite_session_pop_item_skips_corrupt_most_recent": _ROWS,
    f"{SYNC}::test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": _ROWS,
    f"{SYNC}::test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": _ROWS,
    f"{SYNC}::test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": _ROWS,
    f"{SYNC}::test_sqlite_session_file_lock_is_shared_across_instances": _LOCKS,
    f"{SYNC}::test_sqlite_session_failed_add_items_releases_write_lock": _LOCKS,
    f"{SYNC}::test_sqlite_session_failed_clear_session_rolls_back": _LOCKS,
    f"{SYNC}::test_sqlite_session_failed_pop_item_releases_write_lock": _LOCKS,
    f"{SYNC}::test_sqlite_session_rollback_failure_evicts_connection": _CONNECTIONS,
    f"{SYNC}::test_sqlite_session_close_retries_quarantined_connection": _CONNECTIONS,
    f"{SYNC}::test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": _CONNECTIONS,
    f"{ASYNC}::test_async_sqlite_session_pop_item_skips_corrupt_most_recent": _ROWS,
    f"{ASYNC}::test_async_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": _ROWS,
    f"{ASYNC}::test_async_sqlite_session_get_items_limit_skips_corrupt_newest_rows": _ROWS,
    f"{ASYNC}::test_async_sqlite_session_get_items_same_timestamp_consistent_order": _TIMES,
    f"{ASYNC}::test_async_sqlite_session_pop_item_same_timestamp_returns_latest": _TIMES,
    f"{ASYNC}::test_cancelled_close_finishes_cleanup_and_propagates_cancellation": _CONNECTIONS,
    f"{ASYNC}::test_post_commit_cancellation_propagates_after_known_mutation_outcome": _CONNECTIONS,
    f"{ASYNC}::test_failed_add_items_rolls_back_and_reuses_connection": _LOCKS,
    f"{ASYNC}::test_failed_clear_session_rolls_back": _LOCKS,
    f"{ASYNC}::test_failed_pop_item_releases_write_lock": _LOCKS,
    f"{ASYNC}::test_failed_initialization_closes_candidate_connection": _SETUP,
    f"{ASYNC}::test_initialization_retries_transient_wal_lock": _SETUP,
    f"{ASYNC}::test_initialization_releases_wal_cursor_before_schema_write": _SETUP,
    f"{ASYNC}::test_initialization_does_not_retry_unrecoverable_wal_errors": _SETUP,
    f"{ASYNC}::test_cancelled_wal_retry_closes_startup_connection": _SETUP,
    f"{ASYNC}::test_cancelled_add_items_rolls_back_write_transaction": _LOCKS,
    f"{ASYNC}::test_operation_failure_then_cancellation_during_rollback": _LOCKS,
    f"{ASYNC}::test_rollback_failure_closes_and_evicts_connection": _CONNECTIONS,
    f"{ASYNC}::test_close_retries_connection_quarantined_after_rollback_failure": _CONNECTIONS,
    f"{ASYNC}::test_close_retries_quarantined_failed_initialization_candidate": _SETUP,
    f"{ASYNC}::test_cancelled_initialization_finishes_candidate_close": _SETUP,
    f"{ASYNC}::test_initialization_failure_then_cancellation_during_candidate_close": _SETUP,
    f"{ASYNC}::test_cancelled_connect_closes_eventually_acquired_connection": _SETUP,
}
COMPACTION = "tests/memory/test_openai_responses_compaction_session.py"
VISIBLE, ENCRYPTED = "tests/memory/test_compaction_model_visibility.py", "tests/extensions/memory/test_encrypt_session.py"
_SUFFIX = "the end of a long history alone is replaced only in stores that the SDK has a private way into, for others nothing is"
_INSIDE = "for a SQLiteSession alone the SDK takes an item out in a transaction of its own, and puts it back if it cannot read it"
WRAPPED_LEFT_OUT = {
    f"{COMPACTION}::TestOpenAIResponsesCompactionSession::test_automatic_compaction_rollback_budget[True]": _SUFFIX,
    f"{COMPACTION}::TestOpenAIResponsesCompactionSession::test_settled_pop_failure_invalidates_response_chain": _CONNECTIONS,
    f"{COMPACTION}::TestOpenAIResponsesCompactionSession::test_settled_clear_failure_invalidates_response_chain": _CONNECTIONS,
    f"{VISIBLE}::test_backend_read_limit_cannot_hide_retained_history_from_compaction": _SUFFIX,
    f"{VISIBLE}::test_automatic_compaction_does_not_reload_unbounded_hidden_history": _SUFFIX,
    f"{VISIBLE}::test_expired_read_overhead_does_not_authorize_hidden_history": _SUFFIX,
    f"{ENCRYPTED}::test_encrypted_compaction_skips_unencrypted_stored_history": _SUFFIX,
    f"{ENCRYPTED}::test_encrypted_pop_wrong_key_preserves_recoverable_history": _INSIDE,
    f"{ENCRYPTED}::test_encrypted_pop_rechecks_authentication_after_expired_tail": _INSIDE,
    f"{ENCRYPTED}::test_encrypted_pop_authentication_is_atomic_with_concurrent_mutations": _INSIDE,
    f"{ENCRYPTED}::test_encrypted_pop_wrong_key_preserves_row_identity": _INSIDE,
    f"{ENCRYPTED}::test_encrypted_pop_cancellation_waits_for_authentication_rollback": _INSIDE,
}
WITH_SESSIONS = [
    "tests/test_soft_cancel.py",
    "tests/test_tool_failure_boundaries.py",
    "tests/test_native_tool_failure_history.py",
    "tests/test_tool_batch_failure_history.py",
    "tests/test_max_turns.py",
    "tests/test_agent_runner.py::test_omit_policy_strips_reasoning_ids_already_stored_in_the_session",
    "tests/test_agent_runner.py::test_non_streamed_model_retry_does_not_rewind_committed_session_input",
    "tests/test_agent_runner.py::test_session_add_items_called_multiple_times_for_multi_turn_completion",
    "tests/test_agent_runner_streamed.py::test_streamed_omit_policy_strips_reasoning_ids_already_stored_in_the_session",
    "tests/test_programmatic_tool_calling.py::test_sqlite_session_round_trip_preserves_program_history_and_caller",
    "tests/test_programmatic_tool_calling.py::test_nested_handoff_summarizes_complete_programmatic_transcript",
    "tests/test_run_impl_resume_paths.py::test_failed_approval_callback_defers_stream_output_until_retry_guardrail",
]


def test_the_suite_of_sessions(tmp_path: Path) -> None:
    found = run("openai-agents", [SYNC, ASYNC, "tests/memory/test_session_limit.py"], SWAP, LEFT_OUT, tmp_path)
    assert list(found.values()).count("passed") >= 72
    assert "skipped" not in found.values()


def test_runs_with_sessions_in_the_suite(tmp_path: Path) -> None:
    found = run("openai-agents", WITH_SESSIONS, SWAP, {}, tmp_path)
    assert list(found.values()).count("passed") >= 220
    assert "skipped" not in found.values()


def test_sessions_inside_the_compacting_and_the_encrypting_session(tmp_path: Path) -> None:
    found = run("openai-agents", [COMPACTION, VISIBLE, ENCRYPTED], SWAP, WRAPPED_LEFT_OUT, tmp_path)
    assert list(found.values()).count("passed") >= 214
