"""`keepstone upkeep`: putting aside, taking back, erasing, condensing, checking, and whole runs by a policy."""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Scope
from keepstone.cli import upkeep as commands
from keepstone.cli.arguments import duration
from keepstone.maintenance.policy import UpkeepPolicy
from keepstone.maintenance.upkeep import Upkeep
from tests.cli.support import Cli, accept_interrupts, surroundings
from tests.surfaces.support import Clock, timed

TEA, TRAM = "Dana drinks green tea.", "Dana commutes by tram."


@pytest.fixture
def old(cli: Cli, tmp_path: Path) -> dict[str, str]:
    """A store with memories of 400 days ago: the ids by their texts."""
    clock = Clock(datetime.now(UTC) - timedelta(days=400))
    with timed(tmp_path / "keepstone.db", clock) as memory:
        ids = {text: str(memory.remember(text, importance=0.1).id) for text in (TEA, TRAM)}
        memory.remember("code 1", key="code")
    return ids


def ticket(shown: str) -> str:
    found = re.search(r"^undo with: keepstone upkeep undo (\d+)", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1]


def texts(cli: Cli) -> set[str]:
    return {record["content"] for record in cli("list", "--json").json["records"]}


# -- putting aside and back ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("job", [("age",), ("fade",), ("cap", "0")])
def test_what_is_put_aside_comes_back_by_its_ticket(cli: Cli, old: dict[str, str], job: tuple[str, ...]) -> None:
    tried = cli("upkeep", *job, "--dry-run")
    assert (tried.code, tried.err) == (0, "")
    assert tried.out.startswith("would be archived  2 records\n")
    assert "undo with" not in tried.out
    assert {TEA, TRAM} <= texts(cli)
    done = cli("upkeep", *job)
    assert done.out.startswith("archived  2 records\n")
    assert f"    {TEA}\n        {old[TEA]} · fact" in done.out
    assert texts(cli) & {TEA, TRAM} == set()
    back = cli("upkeep", "undo", ticket(done.out))
    assert back.out.startswith("restored  2 records\n")
    assert {TEA, TRAM} <= texts(cli)


def test_kinds_keys_and_durations(cli: Cli, old: dict[str, str]) -> None:
    assert len(cli("upkeep", "age", "--keyed", "--dry-run", "--json").json["ids"]) == 3
    assert cli("upkeep", "age", "--kind", "note", "--json").json["ids"] == []
    assert cli("upkeep", "age", "--older-than", "500d", "--json").json["ids"] == []
    assert cli("upkeep", "cap", "1", "--dry-run", "--json").json["why"] == "capped"
    assert len(cli("upkeep", "cap", "1", "--kind", "fact", "--dry-run", "--json").json["records"]) == 1
    assert cli("upkeep", "cap", "0", "--kind", "note", "--dry-run", "--json").json["records"] == []
    assert cli("upkeep", "fade", "--importance", "0.05", "--json").json["ids"] == []


def test_what_has_run_out_lapses(cli: Cli, tmp_path: Path, old: dict[str, str]) -> None:
    with timed(tmp_path / "keepstone.db", Clock(datetime.now(UTC) - timedelta(days=400))) as memory:
        memory.remember("Gone soon.", ttl=60)
    report = cli("upkeep", "lapse", "--json").json
    assert ([record["content"] for record in report["records"]], report["why"]) == (["Gone soon."], "expired")


def test_the_list_of_what_is_aside_and_bringing_back(cli: Cli, old: dict[str, str]) -> None:
    assert cli("upkeep", "archived").out == "No memory is archived (tenant local, agent default).\n"
    number = ticket(cli("upkeep", "age").out)
    shown = cli("upkeep", "archived")
    assert f"{TEA}\n    aged · since " in shown.out
    assert f"ticket {number} · {old[TEA]}" in shown.out
    rows = cli("upkeep", "archived", "--json").json["archived"]
    assert {(row["why"], row["ticket"], row["record"]["content"]) for row in rows} == {
        ("aged", int(number), TEA),
        ("aged", int(number), TRAM),
    }
    assert len(cli("upkeep", "archived", "--limit", "1", "--json").json["archived"]) == 1
    assert cli("upkeep", "restore", old[TEA]).out == "restored  1 record\n"
    assert TEA in texts(cli)
    assert cli("upkeep", "restore", old[TRAM], "--json").json == {"restored": 1}
    assert cli("upkeep", "restore", old[TRAM]).code == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("undo", "999"), 3),
        (("undo", "x"), 2),
        (("undo", "0"), 2),
        (("undo",), 2),
        (("restore", "m_nobody"), 3),
        (("restore",), 2),
        (("age", "--older-than", "soon"), 2),
        (("cap",), 2),
        (("cap", "-1"), 2),
        (("purge", "--why", "boredom"), 2),
        (("purge", "--after", "x"), 2),
        (("compact", "--older-than", "x"), 2),
        (("verify", "--stale-after", "x"), 2),
        (("archived", "--limit", "0"), 2),
        (("run", "--policy", "missing.toml"), 5),
        (("run", "--every", "soon"), 2),
        (("run", "--every", "24h", "--dry-run"), 2),
        (("nonsense",), 2),
    ],
)
def test_bad_input(cli: Cli, old: dict[str, str], arguments: tuple[str, ...], code: int) -> None:
    result = cli("upkeep", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: ")
    assert set(cli("upkeep", *arguments, "--json").error) == {"type", "message"}


def test_the_line_that_undoes_can_be_copied(cli: Cli, tmp_path: Path) -> None:
    scope = Scope("local", "default", "da na")
    with timed(tmp_path / "other.db", Clock(datetime.now(UTC) - timedelta(days=400)), scope) as memory:
        memory.remember(TEA)
    shown = cli("--db", "other.db", "--user", "da na", "upkeep", "age").out
    number = ticket(shown)
    assert shown.splitlines()[-1] == f"undo with: keepstone upkeep undo {number} --db other.db --user 'da na'"
    (tmp_path / "all.toml").write_text("age_days = 100\n")
    cli("upkeep", "undo", number, "--db", "other.db", "--user", "da na")
    again = cli("upkeep", "run", "--policy", "all.toml", "--db", "other.db")
    assert "    age           1 record archived  tenant local, agent default, user da na\n" in again.out
    assert "--db other.db --user 'da na'" in again.out


def test_many_records_are_not_all_shown(cli: Cli, tmp_path: Path) -> None:
    with timed(tmp_path / "keepstone.db", Clock(datetime.now(UTC) - timedelta(days=400))) as memory:
        memory.remember_many([f"Fact number {n} about {'abcdefghijklmno'[n] * 9} \x1b[31m" for n in range(15)])
    shown = cli("upkeep", "age")
    assert shown.out.count(" · fact · ") == 10
    assert "… and 5 more (--json lists all)" in shown.out
    assert "\x1b" not in shown.out
    assert "… and 5 more" in cli("upkeep", "undo", ticket(shown.out)).out


def test_purge_erases_what_was_aside_for_long_enough(cli: Cli, tmp_path: Path) -> None:
    clock = Clock(datetime.now(UTC) - timedelta(days=400))
    with timed(tmp_path / "keepstone.db", clock) as memory:
        id = memory.remember(TEA).id
        clock.forward(days=200)
        memory.upkeep.age(older_than=86_400)
    waiting = cli("upkeep", "purge")
    assert "erased  0 records, 1 is not old enough\n" in waiting.out
    assert "now with --trust-clock" in " ".join(waiting.out.split())
    tried = cli("upkeep", "purge", "--trust-clock", "--dry-run")
    assert tried.out == f"would be erased  1 record\n    {id}\n"
    assert cli("upkeep", "purge", "--trust-clock", "--why", "junk", "--json").json["ids"] == []
    assert cli("upkeep", "purge", "--trust-clock", "--why", "aged", "--json").json["ids"] == [id]
    assert cli("history", str(id)).code == 3


# -- content ------------------------------------------------------------------------------------------------------
def test_compaction_says_what_it_made_and_can_be_undone(cli: Cli, tmp_path: Path) -> None:
    with timed(tmp_path / "keepstone.db", Clock(datetime.now(UTC) - timedelta(days=400))) as memory:
        for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"):
            memory.remember(f"Dana went for a long swim in the lake before work on {day}.", kind="note", tag="swimming")
    before = texts(cli)
    tried = cli("upkeep", "compact", "--dry-run")
    assert tried.out.startswith("would be condensed  ")
    assert " to be condensed into one:\n" in tried.out
    assert texts(cli) == before
    done = cli("upkeep", "compact")
    assert re.match(r"condensed  \d memories into \d, \d+ tokens to \d+\n", done.out)
    assert "        from " in done.out
    assert texts(cli) != before
    _, _, tickets = done.out.splitlines()[-1].partition(" undo ")
    assert cli("upkeep", "undo", *tickets.split()).code == 0
    assert texts(cli) == before
    assert cli("upkeep", "compact", "--kind", "fact", "--tag", "swimming", "--json").json["groups"] == []


def test_verify_flags_for_review(cli: Cli, tmp_path: Path) -> None:
    clock = Clock(datetime.now(UTC) - timedelta(days=400))
    with timed(tmp_path / "keepstone.db", clock) as memory:
        id = memory.remember("The user lives in Rome.").id
        clock.forward(days=390)
        memory.conversation("s").add("user", "I don't live in Rome any more.")
    tried = cli("upkeep", "verify", "--dry-run")
    assert "finding" in tried.out
    assert "new on the review list" not in tried.out
    assert cli("review", "--json").json["items"] == []
    shown = cli("upkeep", "verify")
    assert "contradicted  The user lives in Rome." in shown.out
    assert "'keepstone review' shows the flagged memories." in shown.out
    assert id in {item["id"] for item in cli("review", "--json").json["items"]}
    assert cli("upkeep", "verify", "--json").json["flagged"] == 0


# -- by a policy --------------------------------------------------------------------------------------------------
def test_a_run_without_a_model_does_what_it_can(cli: Cli, tmp_path: Path, old: dict[str, str]) -> None:
    with Memory.open(tmp_path / "keepstone.db", model=lambda _: "", settings={"worker": False}) as memory:
        memory.conversation("monday").add("user", "I play the cello.")
    tried = cli("upkeep", "run", "--dry-run")
    assert tried.out.startswith("would do  in 1 scope\n")
    assert "undo with" not in tried.out
    assert TEA in texts(cli)
    done = cli("upkeep", "run")
    assert (done.code, done.err) == (0, "")
    assert "    fade          2 records archived" in done.out
    assert "        undo with: keepstone upkeep undo " in done.out
    assert "Learning jobs keep waiting: name a model with --model" in done.out
    assert len(cli("jobs", "--json").json["jobs"]) == 1
    report = cli("upkeep", "run", "--json").json
    assert (report["ran"], report["scopes"], report["dry_run"]) == (True, 1, False)
    assert "Nothing to do." in cli("upkeep", "run").out


def test_a_policy_from_a_file(cli: Cli, tmp_path: Path, old: dict[str, str]) -> None:
    (tmp_path / "quiet.toml").write_text("lapse = false\nfade_days = 0\nverify = false\npurge_days = 0\n")
    assert cli("upkeep", "run", "--policy", "quiet.toml", "--json").json["jobs"] == []
    (tmp_path / "bad.toml").write_text("age = 5\n")
    wrong = cli("upkeep", "run", "--policy", "bad.toml")
    assert wrong.code == 5
    assert "age_days" in wrong.err
    (tmp_path / "aging.toml").write_text("age_days = 365\n")
    jobs = cli("upkeep", "run", "--policy", "aging.toml", "--json").json["jobs"]
    assert {(job["job"], job["records"]) for job in jobs} == {("age", 2)}
    assert commands.POLICY.splitlines()[0] in cli("upkeep", "run", "--help").out


def test_the_policy_of_the_help_names_every_field_with_its_default() -> None:
    named = tomllib.loads(commands.POLICY)
    assert set(named) == set(UpkeepPolicy.__dataclass_fields__)
    assert UpkeepPolicy.of(named) == UpkeepPolicy()


def test_the_help_of_mcp_names_one_store(cli: Cli) -> None:
    said = " ".join(cli("mcp", "--help").out.split())
    assert "[env: KEEPSTONE_DB; default: memory.db in the user's data folder]" in said
    assert "keepstone.db" not in said


def test_another_process_at_it_is_said(cli: Cli, tmp_path: Path, old: dict[str, str]) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert memory._engine.store.leases.acquire("upkeep", "another", timedelta(minutes=5))
    busy = cli("upkeep", "run")
    assert (busy.code, busy.out.startswith("did not run  another process")) == (0, True)
    assert cli("upkeep", "run", "--json").json["ran"] is False


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("as_json", [False, True])
def test_it_keeps_running_until_it_is_ended(tmp_path: Path, old: dict[str, str], ending: signal.Signals, as_json: bool) -> None:
    command = [sys.executable, "-m", "keepstone", "upkeep", "run", "--every", "1s", *(["--json"] if as_json else [])]
    running = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=surroundings(), preexec_fn=accept_interrupts,
    )  # fmt: skip
    assert running.stdout is not None
    first = running.stdout.readline()
    seen = ""
    while "ran_at" not in seen and "done again" not in seen:
        line = running.stdout.readline()
        assert line, running.communicate()
        seen += line
    running.send_signal(ending)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    if as_json:
        assert json.loads(first)["ran"] is True
        assert json.loads(seen)["runs"] >= 1
    else:
        assert first == "done  in 1 scope\n"
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert {each.record.content for each in memory.upkeep.archived()} >= {TEA, TRAM}


# -- the library --------------------------------------------------------------------------------------------------
ELSEWHERE = {"progress", "handlers", "embedder"}  # a bar, functions, and an option of every command


@pytest.mark.parametrize("name", ["age", "lapse", "fade", "cap", "archived", "purge", "compact", "verify", "run", "reembed"])
def test_options_and_defaults_are_those_of_the_library(name: str) -> None:
    offered: Any = inspect.signature(getattr(commands, name)).parameters
    for parameter in list(inspect.signature(getattr(Upkeep, name)).parameters.values())[1:]:
        if parameter.name in ELSEWHERE:
            continue
        given, wanted = offered[parameter.name].default, parameter.default
        if parameter.name in ("older_than", "after", "stale_after"):
            given = duration(given, "").total_seconds()  # type: ignore[union-attr]
        if (name, parameter.name) == ("compact", "kinds"):
            wanted = None  # the command fills it in
        assert given == wanted, parameter.name
