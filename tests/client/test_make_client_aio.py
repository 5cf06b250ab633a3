"""The tool that makes the async twins: what is awaited, what is not, and what becomes of the words between."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "make_client_aio.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_client_aio", TOOL)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def awaited(tool: ModuleType, body: str) -> str:
    return str(tool._awaited(f"class Any:\n{body}"))


def test_whatever_sends_is_awaited_and_whoever_calls_it(tool: ModuleType) -> None:
    body = """
    def one(self):
        return read(self._wire.get("/é", x=self.name()))

    def two(self):
        return self.one().size

    def name(self):
        return "é"
"""
    assert awaited(tool, body) == body.replace("    def one", "    async def one").replace(
        "    def two", "    async def two"
    ).replace("self._wire.get(", "await self._wire.get(").replace("self.one()", "(await self.one())").join(["class Any:\n", ""])


def test_a_method_of_another_thing_is_left_alone(tool: ModuleType) -> None:
    body = """
    def one(self):
        return given.get("x") or self.get("y")

    def get(self, name):
        return name
"""
    assert awaited(tool, body) == f"class Any:\n{body}"


@pytest.mark.parametrize("name", ["transport", "conversation", "parts", "verbs", "agent_verbs"])
def test_a_twin_has_what_its_original_has(tool: ModuleType, name: str) -> None:
    original, twin = (ast.parse((tool.ROOM / f"{prefix}{name}.py").read_text(encoding="utf-8")) for prefix in ("", "aio_"))

    def methods(tree: ast.Module) -> list[str]:
        kinds = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        return [each.name for kind in kinds for each in kind.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]

    renamed = {"__len__": "count", "__iter__": "__aiter__"}
    assert methods(twin) == [renamed.get(each, each) for each in methods(original)]
    assert any(isinstance(node, ast.Await) for node in ast.walk(twin))
    assert not any(isinstance(node, ast.Await) for node in ast.walk(original))
