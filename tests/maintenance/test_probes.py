"""Probes: what is run, what never is, and what becomes of answers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from keepstone.errors import ValidationError
from keepstone.maintenance.probes import Outcome, callable_probe, check_handlers, file_probe, run, sql_probe, url_probe

QUERY = "SELECT version()"
PAGE = "https://status.example/"


def asked(metadata: dict[str, Any], **handlers: Any) -> Outcome | None:
    return run(metadata, check_handlers(handlers))


def test_a_probe_runs_nothing_without_its_handler() -> None:
    for metadata in ({}, callable_probe("db_version", 17), sql_probe(QUERY, 17), url_probe(PAGE, "ok"), {"probe": None}):
        assert run(metadata, {}) is None
        assert asked(metadata, other=lambda: pytest.fail("it was not asked for")) is None


@pytest.mark.parametrize(
    ("metadata", "name", "right", "wrong"),
    [
        (callable_probe("db_version", 17), "db_version", lambda: 17, lambda: 16),
        (callable_probe("flags", {"on": [True, None]}), "flags", lambda: {"on": (True, None)}, lambda: {"on": (1, None)}),
        (callable_probe("ratio", 0.5), "ratio", lambda: Decimal("0.5"), lambda: None),
        (sql_probe(QUERY, [[17, "x"]]), "sql", lambda query: [(17, "x")], lambda query: []),
        (sql_probe(QUERY, 17), "sql", lambda query: Decimal(17), lambda query: "17"),
        (url_probe(PAGE, "all systems"), "url", lambda url: "<p>all systems go</p>", lambda url: (200, "down")),
        (url_probe(PAGE, "all systems"), "url", lambda url: b"all systems \xff", lambda url: b""),
        (url_probe(PAGE, {"status": 200}), "url", lambda url: (200, ""), lambda url: (503, "all systems")),
    ],
)
def test_an_answer_holds_or_does_not(
    metadata: dict[str, Any], name: str, right: Callable[..., Any], wrong: Callable[..., Any]
) -> None:
    assert asked(metadata, **{name: right}) == Outcome(name, ran=True, holds=True)
    assert asked(metadata, **{name: wrong}) == Outcome(name, ran=True, holds=False)


def test_a_handler_gets_what_the_probe_says() -> None:
    seen: list[str] = []
    asked(sql_probe(QUERY, 1), sql=lambda query: seen.append(query))
    asked(url_probe(PAGE, "x"), url=lambda url: seen.append(url) or "x")
    assert seen == [QUERY, PAGE]


def _raising(*_: Any) -> Any:
    raise TimeoutError("postgres://admin:hunter2@db.example took too long")


@pytest.mark.parametrize(
    ("metadata", "name", "handler", "said"),
    [
        (callable_probe("db_version", 17), "db_version", _raising, "TimeoutError"),
        (callable_probe("db_version", 17), "db_version", lambda: object(), "object"),
        (callable_probe("db_version", 17), "db_version", lambda: float("nan"), "not a number"),
        (callable_probe("db_version", 17), "db_version", lambda extra: 17, "TypeError"),
        (sql_probe(QUERY, 17), "sql", lambda query: b"17", "bytes"),
        (url_probe(PAGE, "ok"), "url", lambda url: None, "page's text"),
        (url_probe(PAGE, {"status": 200}), "url", lambda url: "ok", "(status, text)"),
    ],
)
def test_a_handler_that_fails_or_talks_nonsense_is_a_problem_without_values(
    metadata: dict[str, Any], name: str, handler: Callable[..., Any], said: str
) -> None:
    outcome = asked(metadata, **{name: handler})
    assert outcome is not None
    assert outcome.problem is not None
    assert said in outcome.problem
    assert name in outcome.problem
    assert "hunter2" not in outcome.problem
    assert (outcome.ran, outcome.holds) == (True, True)


@pytest.mark.parametrize(
    "probe",
    [
        "db_version", [], {}, {"kind": "shell", "command": "ls"}, {"kind": "callable", "name": "x"}, {"kind": "sql", "expect": 1},
        {"kind": "callable", "name": 7, "expect": 1}, {"kind": "file", "path": "a", "sha256": "0"}, {"kind": "url", "url": "x"},
        {"kind": "url", "url": "x", "expect": {"status": "200"}}, {"kind": "sql", "query": "x" * 5000, "expect": 1},
        {"kind": ["sql"], "query": "x", "expect": 1},
    ],
)  # fmt: skip
def test_a_probe_that_nobody_can_read_is_a_problem_and_runs_nothing(probe: Any) -> None:
    def never(*_: Any) -> Any:
        pytest.fail("it was run")

    outcome = asked({"probe": probe}, sql=never, url=never, x=never, file=never, shell=never)
    assert outcome is not None
    assert outcome.ran is False
    assert outcome.problem is not None


def test_a_callable_cannot_pose_as_another_kind() -> None:
    assert asked({"probe": {"kind": "callable", "name": "sql", "expect": 1}}, sql=lambda *_: 2) is None
    with pytest.raises(ValidationError, match="kind of probe"):
        callable_probe("sql", 1)


# -- files ----------------------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file in it, beside a secret."""
    (tmp_path / "secret").write_text("hunter2")
    inside = tmp_path / "project"
    inside.mkdir()
    (inside / "settings.toml").write_text("port = 8080")
    return inside


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_is_what_it_was_until_it_changes_or_goes(folder: Path) -> None:
    file = folder / "settings.toml"
    absolute, relative = file_probe(file), {"probe": {"kind": "file", "path": "settings.toml", "sha256": digest("port = 8080")}}
    assert absolute == {"probe": {"kind": "file", "path": str(file), "sha256": digest("port = 8080")}}
    for probe in (absolute, relative):
        for handler in (folder, str(folder)):
            assert asked(probe, file=handler) == Outcome("file", ran=True, holds=True)
    file.write_text("port = 9090")
    assert [asked(probe, file=folder) for probe in (absolute, relative)] == [Outcome("file", ran=True, holds=False)] * 2
    file.unlink()
    assert asked(relative, file=folder) == Outcome("file", ran=True, holds=False)


def test_no_path_leads_out_of_the_folder(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "up").symlink_to(folder.parent, target_is_directory=True)
    (folder / "dangling").symlink_to(folder.parent / "nothing")
    secret = digest("hunter2")
    paths = ("../secret", "link", "up/secret", str(folder.parent / "secret"), "./../project/../secret", "dangling", "../nothing")
    for path in paths:
        outcome = asked({"probe": {"kind": "file", "path": path, "sha256": secret}}, file=folder)
        assert outcome is not None, path
        assert outcome.problem is not None, path
        assert "leads out" in outcome.problem


def test_only_plain_files_are_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "inner").mkdir()
    (folder / "same").symlink_to(folder / "settings.toml")
    for path in ("pipe", "inner", "bad\0name"):
        outcome = asked({"probe": {"kind": "file", "path": path, "sha256": "0" * 64}}, file=folder)
        assert outcome is not None
        assert outcome.problem is not None
    inside = {"probe": {"kind": "file", "path": "same", "sha256": digest("port = 8080")}}
    assert asked(inside, file=folder) == Outcome("file", ran=True, holds=True)


def test_a_function_may_read_files_its_own_way() -> None:
    probe = {"probe": {"kind": "file", "path": "s3://bucket/key", "sha256": digest("x")}}
    assert asked(probe, file=lambda path: b"x") == Outcome("file", ran=True, holds=True)
    assert asked(probe, file=lambda path: digest("x").upper()) == Outcome("file", ran=True, holds=True)
    assert asked(probe, file=lambda path: None) == Outcome("file", ran=True, holds=False)
    outcome = asked(probe, file=lambda path: "yes")
    assert outcome is not None
    assert "SHA-256" in (outcome.problem or "")


# -- what cannot be made --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: callable_probe("", 1), "name is empty"),
        (lambda: callable_probe("x", object()), "expect is a object"),
        (lambda: callable_probe("x", float("inf")), "expect is a float"),
        (lambda: file_probe("no/such/file"), "FileNotFoundError"),
        (lambda: sql_probe("", 1), "query must be text"),
        (lambda: url_probe(PAGE, {"code": 200}), "expect is dict"),
        (lambda: url_probe(PAGE, ""), "expect is str"),
        (lambda: check_handlers([]), "handlers is a list"),  # type: ignore[arg-type]
        (lambda: check_handlers({"sql": "psql"}), r"handlers\['sql'\] is a str"),
        (lambda: check_handlers({"file": "no/such/folder"}), "no folder"),
        (lambda: check_handlers({"callable": print}), "under its own name"),
    ],
)
def test_a_probe_or_handler_that_cannot_work_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make()
