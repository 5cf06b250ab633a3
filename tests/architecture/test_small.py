"""The core stays small: what it needs is four packages, importing it costs next to nothing, and no framework comes along."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = {"apsw", "numpy", "rich", "typer"}
SECONDS = 0.15  # of computing, for `import keepstone`; it takes about a fifth of that


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;! ]", each)[0] for each in requirements}


def loaded(statement: str) -> set[str]:
    """The packages that a statement brings into a new process."""
    code = f"import json, sys; {statement}; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(ran.stdout)) - sys.stdlib_module_names


def computing(statement: str) -> float:
    """Seconds of computing that a process takes for a statement: the least of some, which no other process can make less."""
    least = 60.0
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", statement], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least


def test_the_core_needs_four_packages() -> None:
    assert names(PROJECT["dependencies"]) == CORE


def test_every_framework_is_an_extra_of_its_own() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {
        "langgraph", "langchain", "openai-agents", "claude-agent-sdk", "anthropic", "adk", "pydantic-ai", "llama-index", "crewai",
        "strands", "agent-framework", "autogen", "test",
    } <= set(extras)  # fmt: skip
    everything = " ".join(extras["all"])
    assert not [
        name for name in ("crewai", "strands", "claude-agent-sdk", "adk") if name in everything
    ]  # they clash, or are large


def test_importing_keepstone_brings_nothing_else_along() -> None:
    bare = loaded("pass")
    assert loaded("import keepstone") - bare == {"keepstone"}
    assert loaded("from keepstone import Memory, Client") - bare == {"keepstone"}
    assert loaded("import keepstone.memtest.plugin") - loaded("import pytest") == {"keepstone"}  # it is in everybody's pytest


def test_importing_keepstone_costs_next_to_nothing() -> None:
    assert computing("import keepstone") <= SECONDS
