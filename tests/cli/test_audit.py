"""`keepstone audit`, its check, and `keepstone diff`."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from keepstone import Memory
from keepstone.cli import operations as commands
from keepstone.cli import recall_commands
from keepstone.maintenance.audit import Audit
from tests.cli.support import Cli, remembered
from tests.surfaces.support import Clock, timed


# -- the trail ----------------------------------------------------------------------------------------------------
def test_the_list_is_what_audit_does_alone(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Porto.")
    assert f"remember: added  {id}" in cli("audit").out
    assert len(cli("audit", "--limit", "1", "--json").json["rows"]) == 1
    assert cli("audit", "--since", "2999-01-01", "--json").json["rows"] == []
    assert cli("audit", "nonsense").code == 2


def test_a_whole_trail_and_its_head(cli: Cli) -> None:
    remembered(cli, "Dana lives in Porto.")
    first = cli("audit", "verify")
    assert (first.code, first.err) == (0, "")
    verdict, head, hint = first.out.splitlines()
    assert verdict == "whole  1 row"
    assert "--head HASH" in hint
    kept = head.split()[1]
    remembered(cli, "Dana prefers dark mode.")
    assert cli("audit", "verify", "--head", kept).code == 0
    report = cli("audit", "verify", "--json").json
    assert (report["whole"], report["rows"], report["unchained"], report["problem"]) == (True, 2, 0, None)
    assert report["head"] != kept
    assert cli("--json", "audit", "verify").json == report


def test_a_trail_without_the_head_that_was_kept_is_not_whole(cli: Cli) -> None:
    remembered(cli, "Dana lives in Porto.")
    other = cli("audit", "verify", "--head", "ab" * 32)
    assert other.code == 8
    assert other.out.startswith("not whole  1 row\n")
    report = cli("audit", "verify", "--head", "ab" * 32, "--json")
    assert (report.code, report.json["whole"]) == (8, False)
    assert report.json["problem"] in other.out


def test_a_row_that_was_changed_is_found(cli: Cli, tmp_path: Path) -> None:
    remembered(cli, "Dana lives in Porto.")
    remembered(cli, "Dana prefers dark mode.")
    db = apsw.Connection(str(tmp_path / "keepstone.db"))
    db.execute("UPDATE audit SET source = 'somebody else' WHERE number = (SELECT min(number) FROM audit)")
    db.close()
    changed = cli("audit", "verify")
    assert changed.code == 8
    assert changed.out.startswith("not whole  ")


# -- the difference between two times -----------------------------------------------------------------------------
@pytest.fixture
def times(cli: Cli, tmp_path: Path) -> list[str]:
    """A store in which much happened on three days: those days."""
    clock = Clock(datetime.now(UTC) - timedelta(days=30))
    days = [clock().isoformat()]
    with timed(tmp_path / "keepstone.db", clock) as memory:
        clock.forward(days=1)
        home, tea = (str(memory.remember(text).id) for text in ("Dana lives in Rome.", "Dana drinks green tea."))
        memory.remember("code 1", key="code", kind="note")
        lost = str(memory.remember("A thing to forget").id)
        days.append(clock.forward(days=1).isoformat())
        clock.forward(days=1)
        memory.update(home, "Dana lives in Porto.\nIn \x1b[31mred.")
        memory.update(tea, importance=0.9)
        memory.remember("\n".join(f"line {n}" for n in range(20)), kind="note")
        memory.forget(lost)
        memory.remember("code 2", key="code", kind="note")
        days.append(clock.forward(days=1).isoformat())
    return days


def test_what_came(cli: Cli, times: list[str]) -> None:
    came = cli("diff", "--since", times[0], "--until", times[1])
    assert came.code == 0
    assert "+ Dana lives in Rome.\n    m_" in came.out
    assert "+ code = code 1\n" in came.out
    assert "3 added, 0 changed, 0 removed" in came.out


def test_what_changed_is_shown_old_and_new(cli: Cli, times: list[str]) -> None:
    shown = cli("diff", "--since", times[1])
    assert "  - Dana lives in Rome.\n  + Dana lives in Porto.\n  + In \\x1b[31mred.\n" in shown.out
    assert "    importance: 0.5 → 0.9\n" in shown.out
    assert "+ … and 8 more lines\n" in shown.out
    assert "\x1b" not in shown.out
    assert "1 record forgotten (not shown)" in shown.out
    found = cli("diff", "--since", times[1], "--json").json
    assert {change["after"]["content"][:20] for change in found["changed"]} >= {"Dana lives in Porto.", "Dana drinks green te"}
    assert found["forgotten"] == 1
    assert [record["kind"] for record in cli("diff", "--since", times[1], "--kind", "note", "--json").json["added"]] == ["note"]


def test_what_went(cli: Cli, times: list[str], tmp_path: Path) -> None:
    before = datetime.now(UTC).isoformat()
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert memory.upkeep.cap(0, kinds=["note"]).ids
    shown = cli("diff", "--since", before)
    assert "- line 0\n- line 1\n" in shown.out
    assert "0 added, 0 changed, 1 removed" in shown.out


def test_times_that_cannot_be_compared(cli: Cli, times: list[str]) -> None:
    assert cli("diff").code == 2
    assert cli("diff", "--since", "soon").code == 2
    assert cli("diff", "--since", times[1], "--until", times[0]).code == 2
    assert cli("diff", "--since", times[1], "--until", times[0], "--json").error["type"] == "ValidationError"


# -- the library --------------------------------------------------------------------------------------------------
def test_options_and_defaults_are_those_of_the_library() -> None:
    pairs = ((commands.audit, Audit.__call__), (commands.verify, Audit.verify), (recall_commands.diff, Audit.diff))
    for command, method in pairs:
        offered = inspect.signature(command).parameters
        for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
            assert offered[name].default == parameter.default, name
