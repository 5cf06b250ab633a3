"""AutoGen's own tests of memories, with KeepstoneMemory in the place of ListMemory."""

from __future__ import annotations

from pathlib import Path

from tests.frameworks.suites import run

LEFT_OUT = {
    "tests/test_memory.py::test_memory_component_load_config_from_base_model": "loads AutoGen's own ListMemory by name",
    "tests/test_memory.py::test_memory_component_dump_config_to_base_model": "describes AutoGen's own ListMemory by its contents",
}


def test_the_suite_of_autogen(tmp_path: Path) -> None:
    found = run("autogen-core", ["tests/test_memory.py"], "tests.frameworks.shared.swap_autogen", LEFT_OUT, tmp_path,
                "-o", "asyncio_mode=auto")  # fmt: skip
    assert list(found.values()).count("passed") >= 8
    assert "skipped" not in found.values()
