"""Strands' own tests of session managers and memory stores, with ours in the place of theirs."""

from __future__ import annotations

from pathlib import Path

from tests.frameworks.suites import run

STORE = "tests/strands/vended_memory_stores/test_memory_store/test_store.py"
SESSIONS = "tests/strands/session/test_repository_session_manager.py"
FILE = "reads or writes the JSON file that their store keeps; ours is a store of keepstone"
NAME = "is about where their class is exported"
LEFT_OUT = {
    f"{STORE}::TestPackageExport::test_export_from_parent_package": NAME,
    f"{STORE}::TestPackageExports::test_lazily_exported_from_vended_memory_stores": NAME,
    f"{STORE}::TestConstructor::test_raises_when_explicit_path_is_empty": "ours is given a memory, not a path",
    f"{STORE}::TestConstructor::test_defaults_to_a_sanitized_path_under_the_home_memory_dir": FILE,
    f"{STORE}::TestAdd::test_uses_the_monkeypatchable_id_generator": "patches how their store makes ids",
    f"{STORE}::TestAdd::test_persists_human_readable_json": FILE,
    f"{STORE}::TestSearch::test_ranks_higher_overlap_first_with_relevance_score": "has a key of their own; ours is score",
    f"{STORE}::TestPersistence::test_raises_clear_error_on_corrupt_file": FILE,
    f"{STORE}::TestPersistence::test_raises_clear_error_on_wrong_shape_file": FILE,
    f"{STORE}::TestPersistence::test_raises_clear_error_on_malformed_record": FILE,
    f"{STORE}::TestPersistence::test_raises_clear_error_on_non_object_metadata": FILE,
    f"{STORE}::TestPersistence::test_accepts_null_metadata_as_absent": FILE,
    f"{STORE}::TestPersistence::test_keeps_all_entries_under_concurrent_writes": FILE,
    f"{STORE}::TestPersistence::test_reused_across_separate_event_loops": FILE,
    f"{STORE}::TestPersistence::test_raises_clear_error_when_path_is_unreachable": FILE,
    f"{STORE}::TestCrossSdkInterop::test_loads_a_file_written_in_the_shared_camelcase_format": FILE,
    f"{STORE}::TestMemoryManagerIntegration::test_manager_add_writes_to_store": FILE,
    f"{STORE}::TestMemoryManagerIntegration::test_ingests_extracted_facts_through_add": FILE,
}


def test_the_suite_of_strands(tmp_path: Path) -> None:
    found = run("strands-agents", [STORE, SESSIONS], "swap_strands", LEFT_OUT, tmp_path)
    assert list(found.values()).count("passed") >= 75
    assert "skipped" not in found.values()
