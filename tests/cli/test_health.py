"""`keepstone health`: of a store and of a file, and carrying out its plan."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keepstone.cli import health as commands
from keepstone.maintenance.upkeep import Upkeep
from tests.cli.support import Cli, remembered
from tests.surfaces.support import Clock, timed

KEY = "sk-proj-Qm3xV9tLr2Wk8ZpY4nHc7BdF1sGj5Tua"
SECRET = f"My OpenAI key is {KEY} for the weekend."


@pytest.fixture
def sick(cli: Cli, tmp_path: Path) -> dict[str, str]:
    """A store in which much is wrong: the ids by their texts."""
    clock = Clock(datetime.now(UTC) - timedelta(days=10))
    settings = {"sensitive": {"secret": "allow"}}
    said = ["Dana lives in Rome.", "Dana lives in Porto.", "ok!", SECRET, "red \x1b[31m alert is what Dana calls it"]
    with timed(tmp_path / "keepstone.db", clock, settings=settings) as memory:
        return {text: str(memory.remember(text).id) for text in said}


def test_a_store_that_is_well(cli: Cli) -> None:
    remembered(cli, "Dana lives in Porto.")
    well = cli("health")
    assert (well.code, well.err) == (0, "")
    assert well.out.startswith(f"health  100 of 100  [{'#' * 30}]  1 memory\n")
    assert "no findings: duplicates, near duplicates" in well.out
    assert "Plan: nothing to do." in well.out


def test_what_is_wrong_is_counted_shown_and_planned(cli: Cli, sick: dict[str, str]) -> None:
    shown = cli("health")
    assert shown.code == 0
    bar = shown.out.splitlines()[0]
    score = cli("health", "--json").json["score"]
    assert bar == f"health  {score} of 100  [{'#' * (score * 30 // 100):-<30}]  5 memories"
    rows = {line[4:20].strip(): line[20:].split(maxsplit=1) for line in shown.out.splitlines() if line[20:27].strip().isdigit()}
    assert rows["junk"] == ["1", "archive"]
    assert rows["secrets"] == ["1", "redact"]
    assert rows["contradictions"] == ["2", "flag for review"]
    assert f"        {sick['ok!']}  ok!\n" in shown.out
    assert "Plan: 1 to archive, 1 to redact, 2 to flag for review." in shown.out
    assert "'keepstone health --fix' carries it out" in shown.out


@pytest.mark.parametrize("options", [(), ("--check", "duplicates"), ("--dry-run",), ("--json",)])
def test_a_secret_is_never_printed(cli: Cli, sick: dict[str, str], options: tuple[str, ...]) -> None:
    shown = cli("health", *options)
    assert KEY not in shown.out
    assert "\x1b" not in shown.out
    if not options:
        assert f"{sick[SECRET]}  (not shown: contains a secret)" in shown.out


def test_a_dry_run_changes_nothing(cli: Cli, sick: dict[str, str]) -> None:
    before = cli("health", "--json").json
    for options in (("--dry-run",), ("--fix", "--dry-run")):
        tried = cli("health", *options)
        assert "would be fixed  1 archived, 1 redacted, 2 flagged for review\n" in tried.out
        assert "undo with" not in tried.out
    fix = cli("health", "--dry-run", "--json").json["fix"]
    assert (fix["archived"], fix["redacted"], fix["flagged"], fix["dry_run"]) == (1, 1, 2, True)
    assert cli("health", "--json").json == before
    assert before["fix"] is None
    assert cli("review", "--json").json["items"] == []


def test_the_plan_is_carried_out_and_undone(cli: Cli, sick: dict[str, str]) -> None:
    fixed = cli("health", "--fix")
    assert (fixed.code, fixed.err) == (0, "")
    assert "fixed  1 archived, 1 redacted, 2 flagged for review\n" in fixed.out
    assert KEY not in fixed.out
    assert "'keepstone review' shows the flagged memories." in fixed.out
    listed = {record["id"]: record["content"] for record in cli("list", "--json").json["records"]}
    assert sick["ok!"] not in listed
    assert KEY not in listed[sick[SECRET]]
    assert len(cli("review", "--json").json["items"]) == 2
    (line,) = [line for line in fixed.out.splitlines() if line.startswith("undo with: keepstone ")]
    assert cli(*line.removeprefix("undo with: keepstone ").split()).code == 0
    assert sick["ok!"] in {record["id"] for record in cli("list", "--json").json["records"]}


def test_only_some_checks(cli: Cli, sick: dict[str, str]) -> None:
    whole = cli("health", "--json").json
    some = cli("health", "--check", "junk", "--check", "near-duplicates", "--json").json
    assert some["counts"] == {"junk": 1, "near duplicates": 0}
    assert {finding["check"] for finding in some["findings"]} == {"junk"} == {step["check"] for step in some["plan"]}
    assert some["score"] == whole["score"]
    fixed = cli("health", "--fix", "--check", "junk", "--json").json["fix"]
    assert (fixed["archived"], fixed["redacted"], fixed["flagged"]) == (1, 0, 0)
    wrong = cli("health", "--check", "nonsense")
    assert (wrong.code, wrong.out) == (2, "")
    assert "near-duplicates" in wrong.err


def test_many_findings_are_not_all_shown(cli: Cli) -> None:
    for word in ("ok!", "thanks!", "hello", "hi!", "yes", "bye"):
        cli("remember", word)
    shown = cli("health", "--check", "junk").out
    assert "… and 3 more (--json lists them)" in shown
    assert len(cli("health", "--most", "2", "--json").json["findings"]) == 2
    assert cli("health", "--most", "0").code == 2


def test_a_score_that_is_too_low_is_exit_8_where_it_is_asked_for(cli: Cli, sick: dict[str, str]) -> None:
    score = cli("health", "--json").json["score"]
    assert cli("health", "--fail-under", str(score)).code == 0
    low = cli("health", "--fail-under", str(score + 1))
    assert low.code == 8
    assert low.out.startswith("health  ")
    assert cli("health", "--fail-under", "101").code == 2
    assert cli("health", "--fail-under", "-1").code == 2


# -- a file -------------------------------------------------------------------------------------------------------
@pytest.fixture
def export(cli: Cli, tmp_path: Path) -> str:
    rows = [{"id": f"mem-{n}", "memory": text, "user_id": "dana"} for n, text in enumerate(["Likes tea", "Likes tea", "ok"])]
    (tmp_path / "mem0.json").write_text(json.dumps({"results": rows}))
    return "mem0.json"


def test_a_file_of_another_system_needs_no_store(cli: Cli, export: str, tmp_path: Path) -> None:
    shown = cli("health", export)
    assert (shown.code, shown.err) == (0, "")
    assert "mem-1" in shown.out
    assert "Import the file first" in shown.out
    report = cli("health", export, "--format", "mem0", "--json").json
    assert (report["items"], report["counts"]["duplicates"], report["fix"]) == (3, 1, None)
    assert cli("health", export, "--fail-under", "100").code == 8
    assert [path.name for path in tmp_path.iterdir()] == [export]


@pytest.mark.parametrize(
    "arguments",
    [("mem0.json", "--fix"), ("mem0.json", "--dry-run"), ("missing.json",), ("mem0.json", "--format", "other")],
)
def test_what_cannot_be_done_with_a_file(cli: Cli, export: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = cli("health", *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == [export]


# -- the library --------------------------------------------------------------------------------------------------
def test_options_and_defaults_are_those_of_the_library() -> None:
    offered = inspect.signature(commands.health).parameters
    for method in (Upkeep.health, Upkeep.fix):
        for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
            if name != "progress":  # the command draws a bar
                assert offered[name].default == parameter.default, name
