"""The command line: every command for people and as JSON, exit codes, pipes, odd values. Processes where it matters,
`main()` in this process for the breadth."""

from __future__ import annotations

import inspect
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect import Memory, __version__
from recollect.cli import main
from recollect.cli import reading as reading_commands
from recollect.cli import writing as writing_commands
from recollect.cli.exits import MEANINGS, code_for
from recollect.cli.given import duration
from recollect.cli.output import printable
from recollect.errors import RecollectError

ROOT = Path(__file__).parents[2]


class Result:
    """What one run of the command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        assert self.out == ""
        return json.loads(self.err)["error"]  # type: ignore[no-any-return]


Cli = Callable[..., Result]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process, in an empty folder, with nothing piped in unless `piped` is given."""
    monkeypatch.chdir(tmp_path)
    for name in ("DB", "TENANT", "AGENT", "USER", "EMBEDDER", "DEBUG"):
        monkeypatch.delenv(f"RECOLLECT_{name}", raising=False)

    def run(*arguments: str, piped: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="utf-8"))
        capsys.readouterr()
        code = main(list(arguments))
        seen = capsys.readouterr()
        return Result(code, seen.out, seen.err)

    return run


def surroundings(**given: str) -> dict[str, str]:
    """The environment of a process: nothing of recollect's or about colours but what is given."""
    theirs = ("RECOLLECT_", "NO_COLOR", "FORCE_COLOR", "TERM")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **given}


def process(*arguments: str, cwd: Path, piped: bytes | None = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `python -m recollect` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "recollect", *arguments],
        cwd=cwd, input=piped, capture_output=True, timeout=60, check=False,
        env=surroundings(**environment),
    )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def remembered(cli: Cli, *arguments: str) -> str:
    receipt = cli("remember", *arguments, "--json").json
    assert receipt["action"] == "added"
    return str(receipt["id"])


# -- writing ------------------------------------------------------------------------------------------------------
def test_remember_says_what_became_of_it_on_one_line(cli: Cli) -> None:
    first = cli("remember", "Dana prefers dark mode.")
    again = cli("remember", "Dana prefers dark mode.")
    action, id = first.out.split()
    assert (first.code, action, first.err) == (0, "added", "")
    assert again.out == f"duplicate  {id}  the same content is remembered already\n"


def test_remember_takes_every_option(cli: Cli) -> None:
    id = remembered(
        cli, "The flat in Porto", "--kind", "note", "--tag", "home", "--key", "flat", "--importance", "0.8",
        "--metadata", '{"city": "Porto"}', "--ttl", "30d", "--source", "agent", "--session", "s1",
        "--occurred-at", "2026-03-01T09:30:00+00:00", "--idempotency-key", "k1",
    )  # fmt: skip
    record = cli("list", "--json").json["records"][0]
    wanted = {
        "id": id, "content": "The flat in Porto", "kind": "note", "tag": "home", "key": "flat", "importance": 0.8,
        "metadata": {"city": "Porto"}, "source": "agent", "session": "s1", "occurred_at": "2026-03-01T09:30:00+00:00",
        "scope": {"tenant": "local", "agent": "default", "user": ""}, "version": 1, "status": "active",
    }  # fmt: skip
    assert {name: record[name] for name in wanted} == wanted
    assert record["expires_at"] is not None


@pytest.mark.parametrize("arguments", [("remember",), ("remember", "-")])
def test_remember_reads_a_pipe(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli(*arguments, piped="Zoë lives in Kraków — 日本語 🎉\nsecond line\n".encode()).code == 0
    assert cli("list", "--json").json["records"][0]["content"] == "Zoë lives in Kraków — 日本語 🎉\nsecond line"


@pytest.mark.parametrize("piped", [b"", b"  \n", b"\xff\xfe", b"x" * (1024 * 1024 + 1)])
def test_a_pipe_that_cannot_be_taken_is_bad_input(cli: Cli, piped: bytes) -> None:
    result = cli("remember", piped=piped)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")


def test_update_history_and_conflict(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Lisbon.")
    assert cli("update", id, "Dana lives in Porto.").out.startswith(f"updated  {id}  version 2")
    assert cli("update", id, "-", "--metadata", '{"a": 1}', "--importance", "1", piped=b"Dana lives in Faro.").code == 0
    assert cli("update", id, "x", "--expected-version", "1").code == 4
    assert cli("update", id).code == 2
    assert cli("update", "m_nobody", "x").code == 3
    shown = cli("history", id)
    assert "version 1  added  Dana lives in Lisbon." in shown.out
    assert "still does" in shown.out
    versions = cli("history", id, "--json").json["versions"]
    assert [each["content"] for each in versions] == [f"Dana lives in {city}." for city in ("Lisbon", "Porto", "Faro")]


def test_forget_one_or_a_key_without_asking(cli: Cli) -> None:
    id = remembered(cli, "Something to forget")
    remembered(cli, "A code", "--key", "code")
    assert cli("forget", id).out.startswith(f"forgotten  1 record  {id}")
    assert cli("forget", "--key", "code", "--json").json["forgotten"] == 1
    assert cli("forget", id).code == 3
    assert cli("forget", "--key", "code", "--json").error["type"] == "NotFound"
    assert cli("forget").code == 2
    assert cli("forget", id, "--everything", "--yes").code == 2


@pytest.mark.parametrize("which", [("--everything",), ("--source", "web"), ("--session", "s")])
def test_forgetting_much_wants_yes_without_a_terminal(cli: Cli, which: tuple[str, ...]) -> None:
    remembered(cli, "From the web", "--source", "web", "--session", "s")
    refused = cli("forget", *which)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert len(cli("list", "--json").json["records"]) == 1
    assert cli("forget", *which, "--yes", "--json").json["forgotten"] == 1


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 130, 1), (b"\n", 130, 1), (b"y\n", 0, 0)])
def test_forgetting_much_asks_on_a_terminal(tmp_path: Path, answer: bytes, code: int, left: int) -> None:
    with Memory.open(tmp_path / "recollect.db") as memory:
        memory.remember("One thing")
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "forget", "--everything"],
        cwd=tmp_path, stdin=theirs, capture_output=True, timeout=60, check=False, env=surroundings(),
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code
    assert b"Forget everything of tenant local" in done.stderr
    with Memory.open(tmp_path / "recollect.db") as memory:
        assert len(memory.list()) == left


# -- reading ------------------------------------------------------------------------------------------------------
def test_recall_for_people(cli: Cli) -> None:
    id = remembered(cli, "Dana is allergic to peanuts.", "--tag", "health")
    remembered(cli, "The office is on the third floor.")
    lines = cli("recall", "Is Dana allergic to peanuts?").out.splitlines()
    assert lines[0].startswith(" 1  0.")
    assert lines[0].endswith("Dana is allergic to peanuts.")
    assert "in meaning" in lines[1]
    assert id in lines[2]
    assert "fact/health" in lines[2]


def test_recall_as_json_gives_the_whole_record_signals_and_reasons(cli: Cli) -> None:
    id = remembered(cli, "Dana is allergic to peanuts.")
    found = cli("recall", "allergic to peanuts", "--json").json
    hit = found["hits"][0]
    assert (hit["rank"], hit["id"], hit["content"]) == (1, id, "Dana is allergic to peanuts.")
    assert set(hit["signals"]) >= {"meaning", "words", "coverage", "similarity"}
    assert hit["reasons"]
    assert hit["record"]["created_at"].endswith("+00:00")
    assert {"parents", "embedded", "valid_to", "access_count", "trust"} <= set(hit["record"])
    assert (found["query"], found["notes"]) == ("allergic to peanuts", [])


def test_recall_takes_every_option(cli: Cli) -> None:
    remembered(cli, "Dana lives in Porto.", "--metadata", '{"age": 40}', "--session", "s", "--occurred-at", "2026-01-01")
    options = [
        "--limit", "3", "--kind", "fact", "--kind", "note", "--tag", "general", "--filter", '{"age": {"gte": 18}}',
        "--min-similarity", "0", "--min-importance", "0.1", "--max-tokens", "100", "--min-trust", "0.1", "--session", "s",
    ]  # fmt: skip
    assert len(cli("recall", "Where does Dana live?", *options, "--json").json["hits"]) == 1
    assert len(cli("recall", "Dana lives", "--as-of", "2026-02-01", "--json").json["hits"]) == 1
    assert cli("recall", "Dana lives", "--as-of", "2025-02-01", "--json").json["hits"] == []
    assert cli("recall", "Dana lives", "--known-at", "2020-02-01", "--json").json["hits"] == []
    assert cli("recall", "Dana lives", "--kind", "note", "--json").json["hits"] == []
    assert cli("recall", "Dana lives", "--max-tokens", "1").out == "1 more hit did not fit the token budget.\n"


def test_nothing_found_is_an_answer_and_says_what_to_try(cli: Cli) -> None:
    remembered(cli, "Dana lives in Porto.")
    none = cli("recall", "quantum chromodynamics")
    assert none.code == 0
    assert "Nothing found for 'quantum chromodynamics' among 1 memory." in none.out
    assert "--min-similarity 0" in none.out
    other = cli("recall", "Dana", "--user", "bob")
    assert "user bob" in other.out
    assert cli("recall", "quantum chromodynamics", "--json").json["hits"] == []


def test_list_pages(cli: Cli) -> None:
    for number in range(3):
        remembered(cli, f"Fact number {number} about {'abc'[number] * 9}", "--tag", "t")
    first = cli("list", "--limit", "2", "--json").json
    rest = cli("list", "--limit", "2", "--cursor", first["cursor"], "--json").json
    assert [len(first["records"]), len(rest["records"]), rest["cursor"]] == [2, 1, None]
    shown = cli("list", "--limit", "2")
    assert "More: add --cursor " in shown.out
    assert "No records fit" in cli("list", "--tag", "other").out
    assert cli("list", "--kind", "note", "--filter", "{}", "--json").json["records"] == []
    assert cli("list", "--cursor", "nonsense").code == 2


def test_why_and_why_not(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Porto.")
    assert cli("why", "Where does Dana live?", id).out.startswith(f"recalled as number 1  {id}")
    absent = cli("why", "quantum chromodynamics", id)
    assert absent.out.startswith("not recalled")
    assert "below the threshold" in absent.out
    assert cli("why", "--not", "quantum chromodynamics", id, "--json").json["recalled"] is False
    assert cli("why", "x", "m_nobody").code == 3


def test_context(cli: Cli) -> None:
    remembered(cli, "Dana lives in Porto.")
    block = cli("context", "Where does Dana live?")
    assert block.out.startswith("<memory ")
    assert block.out.endswith("</memory>\n")
    assert cli("context", "Where does Dana live?", "--json").json["context"] + "\n" == block.out
    empty = cli("context", "quantum chromodynamics", "--max-tokens", "200")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err


# -- values -------------------------------------------------------------------------------------------------------
def test_set_value_category(cli: Cli) -> None:
    assert cli("set", "account", "00-17", "--category", "bank").out.startswith("added  ")
    assert cli("value", "account").out == "00-17\n"
    assert cli("value", "account", "--json").json == {"key": "account", "value": "00-17"}
    assert cli("set", "prefs", '{"theme": "dark", "n": [1, null]}', "--parse", "--json").json["action"] == "added"
    assert cli("value", "prefs", "--json").json["value"] == {"theme": "dark", "n": [1, None]}
    assert cli("value", "prefs").out == '{"theme": "dark", "n": [1, null]}\n'
    assert cli("set", "piped", piped=b"from a pipe\n").code == 0
    assert cli("value", "piped").out == "from a pipe\n"
    assert "account = 00-17" in cli("category", "bank").out
    assert [each["key"] for each in cli("category", "bank", "--json").json["records"]] == ["account"]
    assert "is empty" in cli("category", "nothing").out
    assert cli("set", "bad", "{", "--parse").code == 2


def test_an_unknown_key(cli: Cli) -> None:
    assert cli("value", "nope").code == 3
    assert cli("value", "nope", "--json").error["type"] == "NotFound"
    assert cli("value", "nope", "--default", "none").out == "none\n"


@pytest.mark.parametrize("odd", ["../../etc/passwd", "'; DROP TABLE records; --", 'say "hi"', "🎉 emoji", "a\tb c", "%s{0}$HOME"])
def test_odd_values_come_back_as_they_were(cli: Cli, odd: str) -> None:
    name = odd.replace("\t", " ")
    assert cli("--user", name, "set", name, odd).code == 0
    assert cli("value", name, "--user", name, "--json").json == {"key": name, "value": odd}
    assert cli("recall", odd, "--user", name, "--tag", name).code == 0
    assert cli("history", name).code == 3
    assert cli("forget", "--key", name, "--user", name).code == 0


# -- moving and keeping -------------------------------------------------------------------------------------------
def test_export_import_backup(cli: Cli, tmp_path: Path) -> None:
    remembered(cli, "Dana lives in Porto.")
    assert cli("export", "out.jsonl").out == "exported  1 record to out.jsonl\n"
    assert cli("export", "out.jsonl", "--json").json == {"path": "out.jsonl", "records": 1}
    assert cli("import", "out.jsonl", "--db", "copy.db").out == "imported  1 record\n"
    assert cli("import", "out.jsonl", "--db", "copy.db", "--json").json == {"added": 0, "skipped": 1, "errors": []}
    assert cli("backup", "b.db", "--json").json == {"path": "b.db", "bytes": (tmp_path / "b.db").stat().st_size}
    assert "backed up" in cli("backup", "b2.db").out
    assert len(cli("list", "--db", "b.db", "--json").json["records"]) == 1
    assert cli("export", "nowhere/out.jsonl").code == 5
    assert cli("import", "missing.jsonl").code == 5


def test_an_import_with_bad_lines_takes_nothing(cli: Cli, tmp_path: Path) -> None:
    remembered(cli, "Dana lives in Porto.")
    cli("export", "out.jsonl")
    with (tmp_path / "out.jsonl").open("a") as file:
        file.write("not json\n")
    result = cli("import", "out.jsonl", "--db", "copy.db")
    assert result.code == 8
    assert "nothing imported" in result.out
    assert "line 2: " in result.out
    report = cli("import", "out.jsonl", "--db", "copy.db", "--json")
    assert (report.code, report.json["errors"][0]["line"]) == (8, 2)


def test_doctor(cli: Cli, tmp_path: Path) -> None:
    remembered(cli, "Dana lives in Porto.")
    assert cli("doctor").out.startswith("healthy  1 record")
    assert cli("doctor", "--json").json["healthy"] is True
    import apsw

    db = apsw.Connection(str(tmp_path / "recollect.db"))
    table = next(name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%content TEXT%'"))
    db.execute(f"UPDATE {table} SET content = content || '!'")
    db.close()
    sick = cli("doctor")
    assert (sick.code, "what to do" in sick.out) == (8, True)
    report = cli("doctor", "--json")
    assert (report.code, report.json["healthy"]) == (8, False)


def test_audit_and_reembed(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Porto.", "--embedder", "none")
    assert f"remember: added  {id}" in cli("audit").out
    assert cli("audit", "--json", "--limit", "1").json["rows"][0]["id"] == id
    assert cli("audit", "--since", "2999-01-01").out.startswith("Nothing was done here yet")
    assert cli("audit", "--since", "yesterday").code == 2
    assert cli("upkeep", "reembed").out == "embedded  1 record\n"
    assert cli("upkeep", "reembed", "--embedder", "static", "--json").json == {"embedded": 0, "failed": 0, "problem": None}
    assert cli("upkeep", "reembed", "--embedder", "nonsense").code == 5


# -- options, errors, exit codes ----------------------------------------------------------------------------------
def test_common_options_stand_before_or_after_and_after_wins(cli: Cli, tmp_path: Path) -> None:
    assert cli("--db", "a.db", "--user", "eve", "--json", "remember", "Eve has a cat.").json["action"] == "added"
    assert len(cli("list", "--db", "a.db", "--user", "eve", "--json").json["records"]) == 1
    assert cli("--db", "b.db", "--user", "bob", "list", "--db", "a.db", "--user", "eve", "--json").json["records"]
    assert cli("--db", "a.db", "upkeep", "reembed", "--json").code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == ["a.db"]


def test_the_environment_names_the_store_and_the_scope(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"DB": "env.db", "TENANT": "acme", "AGENT": "bot", "USER": "eve", "EMBEDDER": "none"}.items():
        monkeypatch.setenv(f"RECOLLECT_{name}", value)
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
        ("remember", "x" * 70_000),
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
        ("category", "c"),
        ("value", "k", "--default", "d"),
    ):
        result = cli(*arguments)
        assert result.code == 0
        assert "there is no store at recollect.db yet" in result.err
        assert cli(*arguments, "--json").err == ""
    for arguments in (("history", "m_1"), ("update", "m_1", "x"), ("forget", "m_1"), ("why", "q", "m_1"), ("value", "k")):
        assert cli(*arguments).code == 3
    for arguments in (("doctor",), ("export", "e"), ("backup", "b"), ("upkeep", "reembed")):
        assert cli(*arguments).code == 5
    assert list(tmp_path.iterdir()) == []


def test_every_error_has_a_code_that_is_documented() -> None:
    kinds = [RecollectError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert code_for(kind("x")) in MEANINGS
    assert len(kinds) > 10


def test_what_nobody_foresaw_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Memory, "list", broken)
    result = cli("list")
    assert result.code == 1
    assert "unexpected KeyError" in result.err
    monkeypatch.setenv("RECOLLECT_DEBUG", "1")
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


# -- as a process -------------------------------------------------------------------------------------------------
def test_help_version_and_nothing_at_all(tmp_path: Path) -> None:
    help = process("--help", cwd=tmp_path)
    assert help.returncode == 0
    assert all(meaning in help.stdout for meaning in MEANINGS.values())
    assert "─" not in help.stdout
    assert process("--version", cwd=tmp_path).stdout == f"recollect {__version__}\n"
    nothing = process(cwd=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert nothing.stderr.startswith("Usage: recollect")


def test_two_processes_share_the_file(tmp_path: Path) -> None:
    done = process("remember", cwd=tmp_path, piped="Zoë mag 日本 🎉".encode(), PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    found = process("recall", "Zoë 日本", cwd=tmp_path, PYTHONIOENCODING="utf-8")
    assert "Zoë mag 日本 🎉" in found.stdout
    assert "\x1b" not in found.stdout
    ascii_only = process("list", "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(ascii_only.stdout)["records"][0]["content"] == "Zoë mag 日本 🎉"
    assert process("list", cwd=tmp_path, PYTHONIOENCODING="ascii").returncode == 0


@pytest.mark.parametrize(
    ("environment", "styled"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_only_where_the_terminal_can(tmp_path: Path, environment: dict[str, str], styled: bool) -> None:
    with Memory.open(tmp_path / "recollect.db") as memory:
        memory.remember("One thing")
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "recollect", "list"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=theirs, env=surroundings(**environment),
    )  # fmt: skip
    os.close(theirs)
    assert done.wait(60) == 0
    seen = os.read(ours, 10_000)
    os.close(ours)
    assert b"One thing" in seen
    assert (b"\x1b[" in seen) is styled


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_closed_pipe_is_silent(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Memory.open(tmp_path / "recollect.db") as memory:
        memory.remember_many([f"{number} {'long text ' * 300}" for number in range(100)])
    reader, writer = os.pipe()
    running = subprocess.Popen(
        [sys.executable, "-m", "recollect", "list", "--limit", "100", *options],
        cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, env=surroundings(),
    )  # fmt: skip
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, b"")


def test_closed_streams_end_no_command(tmp_path: Path) -> None:
    command = f"{sys.executable} -m recollect remember 'One thing' >&- 2>&-; echo $?"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, timeout=60, env=surroundings(), check=True)
    assert done.stdout == b"0\n"


def test_ctrl_c_is_130_without_a_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Memory, "list", interrupted)
    result = cli("list")
    assert (result.code, result.out, result.err.strip()) == (130, "", "")


def test_ctrl_c_at_the_question_forgets_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "recollect.db") as memory:
        memory.remember("One thing")
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "recollect", "forget", "--everything"],
        cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings(),
    )  # fmt: skip
    assert running.stderr is not None
    asked = running.stderr.read(6)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert (asked, running.returncode, out) == (b"Forget", 130, b"")
    assert b"Traceback" not in err
    with Memory.open(tmp_path / "recollect.db") as memory:
        assert len(memory.list()) == 1


def test_a_bar_is_drawn_only_on_a_terminal_and_only_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from recollect.cli import progress

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    quiet, drawn = progress.Bar("working", wanted=False), progress.Bar("working", wanted=True)
    for bar in (quiet, drawn):
        bar(1, 2)
        bar(2, 2)
        bar.end()
    assert quiet._drawn is None
    assert drawn._drawn is not None
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    patient = progress.Bar("working", wanted=True)
    patient(1, 2)
    assert patient._drawn is None


def test_the_reference_is_what_the_command_line_says() -> None:
    script = [sys.executable, str(ROOT / "tools" / "make_cli_reference.py"), "--print"]
    done = subprocess.run(script, capture_output=True, check=True, timeout=60, env=surroundings())
    assert done.stdout.decode() == (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
