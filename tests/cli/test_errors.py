"""What holds for every command: common options, the environment, bad input, exit codes, and stores that cannot be opened."""

from __future__ import annotations

import inspect
import io
import json
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.cli import memory_commands as writing_commands
from keepstone.cli import recall_commands as reading_commands
from keepstone.cli.arguments import duration
from keepstone.cli.exit_codes import MEANINGS, code_for
from keepstone.cli.output import printable, write_json
from keepstone.errors import KeepstoneError
from tests.cli.support import Cli, remembered


def test_common_options_stand_before_or_after_and_after_wins(cli: Cli, tmp_path: Path) -> None:
    assert cli("--db", "a.db", "--user", "eve", "--json", "remember", "Eve has a cat.").json["action"] == "added"
    assert len(cli("list", "--db", "a.db", "--user", "eve", "--json").json["records"]) == 1
    assert cli("--db", "b.db", "--user", "bob", "list", "--db", "a.db", "--user", "eve", "--json").json["records"]
    assert cli("--db", "a.db", "upkeep", "reembed", "--json").code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == ["a.db"]


def test_the_environment_names_the_store_and_the_scope(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"DB": "env.db", "TENANT": "acme", "AGENT": "bot", "USER": "eve", "EMBEDDER": "none"}.items():
        monkeypatch.setenv(f"KEEPSTONE_{name}", value)
    remembered(cli, "Eve has a cat.")
    record = cli("list", "--json").json["records"][0]
    assert record["scope"] == {"tenant": "acme", "agent": "bot", "user": "eve"}
    assert record["embedded"] is False
    assert cli("list", "--user", "bob", "--json").json["records"] == []
    assert (tmp_path / "env.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("recall", "x", "--limit", "0"),
        ("recall", "x", "--limit", "101"),
        ("recall", "x", "--limit", "many"),
        ("recall", "x", "--filter", "{"),
        ("recall", "x", "--filter", "[1]"),
        ("recall", "x", "--filter", '{"a": {"near": 1}}'),
        ("recall", "x", "--filter", "[" * 100_000),
        ("recall", "x", "--as-of", "soon"),
        ("recall", "x", "--min-similarity", "2"),
        ("recall", "x", "--nonsense"),
        ("list", "--limit", "0"),
        ("remember", "x", "--metadata", "{bad"),
        ("remember", "x", "--metadata", '"text"'),
        ("remember", "x", "--metadata", '{"a": NaN}'),
        ("remember", "x", "--importance", "nan"),
        ("remember", "x", "--ttl", "soon"),
        ("remember", "x", "--ttl", "0"),
        ("remember", "x", "--ttl", "9" * 400),
        ("remember", "\udcff"),
        ("remember", "x", "--tag", "\x00"),
        ("remember", "x", "--user", " "),
        ("remembr", "x"),
        ("history",),
    ],
    ids=lambda arguments: " ".join(arguments)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_bad_input_is_exit_2_in_one_or_two_lines(cli: Cli, arguments: tuple[str, ...]) -> None:
    plain = cli(*arguments)
    assert (plain.code, plain.out) == (2, "")
    assert plain.err.startswith("error: ")
    assert plain.err.count("\n") <= 2
    assert "Traceback" not in plain.err
    assert set(cli(*arguments, "--json").error) == {"type", "message"}


def test_conflict_is_exit_4(cli: Cli) -> None:
    remembered(cli, "One body", "--idempotency-key", "k")
    assert cli("remember", "Another body", "--idempotency-key", "k").code == 4
    assert cli("remember", "Another body", "--idempotency-key", "k", "--json").error["type"] == "Conflict"


@pytest.mark.parametrize("command", [("remember", "x"), ("recall", "x"), ("list",), ("doctor",), ("export", "e.jsonl")])
def test_a_store_that_cannot_be_opened(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "text.db").write_text("not a store\n" * 50)
    (tmp_path / "empty.db").touch()
    wanted = {"missing/x.db": 5, "folder.db": 5, "text.db": 6, "empty.db": 6, "http://x": 5, "": 5}
    for name, code in wanted.items():
        result = cli(*command, "--db", name)
        assert (result.code, result.out) == (code, ""), name
        assert result.err.startswith("error: ")
    assert (tmp_path / "text.db").read_text() == "not a store\n" * 50
    assert (tmp_path / "empty.db").stat().st_size == 0
    assert not (tmp_path / "missing").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "folder.db", "text.db"]


def test_a_question_makes_no_store(cli: Cli, tmp_path: Path) -> None:
    for arguments in (
        ("recall", "x"),
        ("list",),
        ("context", "x"),
        ("audit",),
        ("review",),
        ("review", "list"),
        ("diff", "--since", "2026-01-01"),
        ("value", "--tag", "t"),
        ("value", "k", "--default", "d"),
    ):
        result = cli(*arguments)
        assert result.code == 0
        assert "there is no store at keepstone.db yet" in result.err
        assert cli(*arguments, "--json").err == ""
    for arguments in (("history", "m_1"), ("update", "m_1", "x"), ("forget", "m_1"), ("why", "q", "m_1"), ("value", "k")):
        assert cli(*arguments).code == 3
    for arguments in (
        ("doctor",),
        ("export", "e"),
        ("backup", "b"),
        ("health",),
        ("audit", "verify"),
        ("upkeep", "reembed"),
        ("upkeep", "run"),
        ("upkeep", "archived"),
    ):
        assert cli(*arguments).code == 5
    assert list(tmp_path.iterdir()) == []


def test_every_error_has_a_code_that_is_documented() -> None:
    kinds = [KeepstoneError]
    for kind in kinds:
        kinds += [each for each in kind.__subclasses__() if each.__module__ == KeepstoneError.__module__]
        assert code_for(kind("x")) in MEANINGS
    assert len(kinds) > 10


def test_what_nobody_foresaw_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    @wraps(Memory.list)  # the command's options are made from its signature
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Memory, "list", broken)
    result = cli("list")
    assert result.code == 1
    assert "unexpected KeyError" in result.err
    monkeypatch.setenv("KEEPSTONE_DEBUG", "1")
    with pytest.raises(KeyError):
        cli("list")


@pytest.mark.parametrize(
    ("command", "method"),
    [
        (writing_commands.remember, Memory.remember),
        (writing_commands.update, Memory.update),
        (writing_commands.forget, Memory.forget),
        (reading_commands.recall, Memory.recall),
        (reading_commands.list_, Memory.list),
        (reading_commands.context, Memory.context),
    ],
)
def test_options_and_defaults_are_those_of_the_library(command: Any, method: Any) -> None:
    offered = inspect.signature(command).parameters
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        assert name in offered
        if parameter.default is not parameter.empty:
            assert offered[name].default == parameter.default, name


def test_durations() -> None:
    seconds = {"90s": 90, "15m": 900, "12h": 43_200, "30d": 2_592_000, "2w": 1_209_600, "45": 45, "1.5h": 5400}
    assert {text: duration(text, "--ttl").total_seconds() for text in seconds} == seconds  # type: ignore[union-attr]


def test_control_characters_are_made_visible(cli: Cli) -> None:
    assert printable("a\x1b[31m\u202eb\tc\nd\r\ne") == "a\\x1b[31m\\u202eb\tc\nd\ne"
    remembered(cli, "red \x1b[31m alert")
    assert "\x1b" not in cli("list").out


def test_json_holds_nothing_that_a_terminal_obeys() -> None:
    content, stream = "a\x9b31mb\u202ec\u2066d\x1be", io.TextIOWrapper(io.BytesIO(), "utf-8")
    write_json({"content": content}, stream)
    stream.seek(0)
    written = stream.read()
    assert json.loads(written) == {"content": content}
    assert written.rstrip("\n").isprintable()
