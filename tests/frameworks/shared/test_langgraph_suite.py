"""LangGraph's own tests of stores, with KeepstoneStore in the place of its in-memory and its SQLite stores."""

from __future__ import annotations

from pathlib import Path

from tests.frameworks.suites import run

AUTO = ("-o", "asyncio_mode=auto")
LEFT_OUT = {
    "tests/test_store.py::test_vector_store_initialization": "looks for tables of the SQLite store over its connection",
    "tests/test_store.py::test_nonnull_migrations": "reads the SQL statements that the SQLite store is made of",
    "tests/test_store.py::test_escape_glob_literal": "tests a function that writes patterns for SQLite",
    "tests/test_store.py::test_namespace_match_pattern": "tests a function that writes patterns for SQLite",
    "tests/test_store.py::test_list_namespaces_prefix_uses_indexable_condition": "reads the SQL that the SQLite store writes",
    "tests/test_async_store.py::test_no_running_loop": "theirs cannot be called without await in its loop, ours can",
}


def test_the_suite_of_the_stores(tmp_path: Path) -> None:
    found = run("langgraph-checkpoint", ["tests/test_store.py"], "swap_langgraph", {}, tmp_path, *AUTO)
    assert list(found.values()).count("passed") >= 114
    assert "skipped" not in found.values()


def test_the_suite_of_the_sqlite_store(tmp_path: Path) -> None:
    files = ["tests/test_store.py", "tests/test_async_store.py"]
    found = run("langgraph-checkpoint-sqlite", files, "swap_langgraph", LEFT_OUT, tmp_path, *AUTO)
    assert list(found.values()).count("passed") >= 135
    assert "skipped" not in found.values()


def test_the_suite_of_the_sqlite_stores_time_to_live(tmp_path: Path) -> None:
    found = run(
        "langgraph-checkpoint-sqlite", ["tests/test_ttl.py"], "swap_langgraph", {}, tmp_path, *AUTO, "-n", "4"
    )  # they sleep
    assert list(found.values()).count("passed") >= 11
    assert "skipped" not in found.values()
