"""Commands that are run again and again read plain arguments without typer, with the same values."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from keepstone.cli.app import QUICK
from keepstone.cli.quick import find_call

PLAIN = [
    ["recall", "where", "--user", "dana", "-n", "3", "--json"],
    ["recall", "where", "--limit", "3", "--kind", "fact", "--kind", "note", "--min-similarity", "0.25", "--db", "a.db"],
    ["recall", "where", "--contains", "tea", "--also", "user=team", "--as-of", "3 days ago"],
    ["recall"],
    ["context", "where", "--max-tokens", "200"],
    ["get", "0123", "--agent", "bot"],
    ["get", "--key", "home"],
    ["search", "tea"],
    ["remember", "I like tea.", "--importance", "1", "--metadata", '{"a": 1}'],
    ["set", "home", "Porto", "--parse"],
    ["value", "home", "--default", ""],
]
FOR_TYPER = [
    ["recall", "where", "--help"],
    ["recall", "where", "--limit", "three"],
    ["recall", "where", "--limit", "-3"],
    ["recall", "where", "--limit=3"],
    ["recall", "where", "--limit"],
    ["recall", "where", "--kinds", "fact"],
    ["recall", "where", "--user", "dana", "--user", "rui"],
    ["recall", "where", "is"],
    ["recall", "-"],
    ["recall", "--", "-x"],
    ["remember", "two\nlines"],
    ["set"],
]


def _recording(name: str) -> tuple[typer.Typer, list[dict[str, Any]]]:
    """An application with one command that has the parameters of another and notes what it is given."""
    commands = import_module(f"keepstone.cli.{QUICK[name]}").app.registered_commands
    seen: list[dict[str, Any]] = []

    def note(context: typer.Context, **given: Any) -> None:
        seen.append({key: value or None for key, value in given.items()})  # nothing given: None or an empty list

    note.__signature__ = inspect.signature(next(each.callback for each in commands if each.name == name))  # type: ignore[attr-defined]
    app = typer.Typer()
    app.command(name)(note)
    app.callback()(lambda: None)
    return app, seen


@pytest.mark.parametrize("arguments", PLAIN, ids=" ".join)
def test_plain_arguments_have_the_values_that_typer_gives_them(arguments: list[str]) -> None:
    app, seen = _recording(arguments[0])
    call = find_call(app, arguments)
    assert call is not None
    call()
    app(arguments, standalone_mode=False)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("arguments", FOR_TYPER, ids=" ".join)
def test_other_arguments_are_left_to_typer(arguments: list[str]) -> None:
    assert find_call(_recording(arguments[0])[0], arguments) is None


def test_a_plain_recall_imports_no_pydantic(tmp_path: Path) -> None:
    code = "import sys; from keepstone.cli import main; main(sys.argv[1:]); sys.exit('pydantic' in sys.modules)"
    command = [sys.executable, "-c", code, "recall", "tea", "--db", str(tmp_path / "a.db")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
