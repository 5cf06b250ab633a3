"""Every name that tests, benchmarks and tools import from the package exists: mypy checks src only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("tests", "bench", "training", "tools", "examples")
SEPARATE_ENVIRONMENTS = "keepstone.integrations"  # they import frameworks


def imported_names() -> Iterator[tuple[Path, str, str]]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.ImportFrom)
                    and node.module
                    and node.module.split(".")[0] in ("keepstone", "tests", "bench")
                ):
                    yield from ((path, node.module, name.name) for name in node.names)


def test_imported_names_exist() -> None:
    missing = []
    for path, module, name in imported_names():
        if not module.startswith(SEPARATE_ENVIRONMENTS) and "frameworks" not in path.parts:
            try:
                exists = hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
            except ModuleNotFoundError:
                exists = False
            if not exists:
                missing.append(f"{path.relative_to(ROOT)}: from {module} import {name}")
    assert missing == []
