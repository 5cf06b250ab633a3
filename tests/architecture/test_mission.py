"""The table of parts names tests that exist, and every part has one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PARTS = {"Short-term messages": 7, "A unified": 10, "Two tiers": 10, "Memory as tools": 12, "Three patterns": 6, "Beyond": 13}


def rows() -> list[tuple[str, str, str, str]]:
    """(section, part, tests, test after a kill) of every row."""
    found, section = [], ""
    for line in (TESTS / "mission.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| part "):
            part, tests, kill = (cell.strip() for cell in line.strip("|").split("|"))
            found.append((section, part, tests, kill))
    return found


@cache
def functions(path: str) -> frozenset[str]:
    """The names of the test functions in a file."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    defined = (node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return frozenset(name for name in defined if name.startswith("test_"))


@pytest.mark.parametrize(("section", "part", "tests", "kill"), rows(), ids=lambda value: value[:40])
def test_every_named_test_exists(section: str, part: str, tests: str, kill: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::([\w*]+)`", tests)
    assert named, f"the part {part} has no test"
    assert len(named) == tests.count("`") // 2
    after_kill = re.fullmatch(r"`([\w/]+\.py)::(\w+)`", kill)
    assert kill == "–" or after_kill, f"the last column of {part} names one test, or is –"
    for path, name in [*named, *([after_kill.groups()] if after_kill else [])]:
        assert functions(path), path
        assert name == "*" or name in functions(path), f"{path} has no test {name}"


def test_no_part_is_left_out() -> None:
    counts = {name: sum(section.startswith(name) for section, *_ in rows()) for name in PARTS}
    assert counts == PARTS
    assert len({(section, part) for section, part, *_ in rows()}) == len(rows()) == sum(PARTS.values()) + 15
