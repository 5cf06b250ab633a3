"""The commands one by one, for people and as JSON: writing, reading, values, moving and keeping. All of them by `main()`
in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Cli, remembered


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


@pytest.mark.parametrize("piped", [b"", b"  \n", b"\xff\xfe", b"x" * (9 * 1024 * 1024 + 1)])
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
    assert "until now" in shown.out
    versions = cli("history", id, "--json").json["versions"]
    assert [each["content"] for each in versions] == [f"Dana lives in {city}." for city in ("Lisbon", "Porto", "Faro")]


def test_update_says_since_when_it_holds(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Lisbon.", "--occurred-at", "2026-01-01")
    assert cli("update", id, "Dana lives in Porto.", "--occurred-at", "2026-03-01").code == 0
    for day, city in {"2026-02-01": "Lisbon", "2026-04-01": "Porto"}.items():
        (hit,) = cli("recall", "Where does Dana live?", "--as-of", day, "--json").json["hits"]
        assert hit["content"] == f"Dana lives in {city}."
    assert cli("update", id, "x", "--occurred-at", "soon").code == 2


def test_a_refused_write_is_an_answer_that_says_when_to_try_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_WRITES_PER_MINUTE", "1")
    remembered(cli, "The first thing")
    refused = cli("remember", "The second thing")
    assert refused.code == 10
    assert refused.out.startswith("refused  -  ")
    assert "try again in " in refused.out
    answer = cli("remember", "The third thing", "--json").json
    assert (answer["action"], answer["id"]) == ("refused", None)
    assert 0 < answer["retry_after"] <= 60


def test_forgetting_counts_what_went_where(cli: Cli) -> None:
    id = remembered(cli, "Something to forget")
    cli("update", id, "Something else to forget")
    places = cli("forget", id, "--json").json["places"]
    assert places["versions"] >= 1
    other = remembered(cli, "Another thing to forget")
    shown = cli("forget", other).out.splitlines()
    assert shown[0].startswith(f"forgotten  1 record  {other}")
    assert shown[1].startswith("    erased from: ")
    assert "records 1" in shown[1]
    assert " 0" not in shown[1]


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
    assert set(hit["signals"]) >= {"semantic", "keywords", "coverage", "similarity"}
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
    assert "Nothing found for 'quantum chromodynamics' among 1 memory" in none.out
    assert "--min-confidence 0" in none.out
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
    assert "Next page: add --cursor " in shown.out
    assert "No records found" in cli("list", "--tag", "other").out
    assert cli("list", "--kind", "note", "--filter", "{}", "--json").json["records"] == []
    assert cli("list", "--cursor", "nonsense").code == 2


def test_why_explains_hits_and_misses(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Porto.")
    assert cli("why", "Where does Dana live?", id).out.startswith(f"recalled as number 1  {id}")
    absent = cli("why", "quantum chromodynamics", id)
    assert absent.out.startswith("not recalled")
    assert "nothing is recalled: the best relevance is" in absent.out
    assert cli("why", "quantum chromodynamics", id, "--json").json["recalled"] is False
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
def test_set_and_value(cli: Cli) -> None:
    assert cli("set", "account", "00-17", "--tag", "bank").out.startswith("added  ")
    assert cli("value", "account").out == "00-17\n"
    assert cli("value", "account", "--json").json == {"key": "account", "value": "00-17"}
    assert cli("set", "prefs", '{"theme": "dark", "n": [1, null]}', "--parse", "--json").json["action"] == "added"
    assert cli("value", "prefs", "--json").json["value"] == {"theme": "dark", "n": [1, None]}
    assert cli("value", "prefs").out == '{"theme": "dark", "n": [1, null]}\n'
    assert cli("set", "piped", piped=b"from a pipe\n").code == 0
    assert cli("value", "piped").out == "from a pipe\n"
    assert cli("value", "--tag", "bank").out == "account = 00-17\n"
    assert cli("value", "--tag", "bank", "--json").json == {"tag": "bank", "values": {"account": "00-17"}}
    assert "There are no values with the tag 'nothing'" in cli("value", "--tag", "nothing").out
    assert cli("value").code == cli("value", "account", "--tag", "bank").code == 2
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


def test_export_of_everything_and_import_as_somebody_s_word(cli: Cli, tmp_path: Path) -> None:
    for agent in ("a", "b"):
        remembered(cli, f"Dana told agent {agent} a thing.", "--user", "dana", "--agent", agent)
    remembered(cli, "Not Dana's.", "--user", "eve", "--agent", "a")
    shown = cli("export", "all.jsonl", "--everything", "--user", "dana", "--agent", "a")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    assert shown.out == f"exported  {len(lines)} lines to all.jsonl\n"
    assert {line["what"] for line in lines} >= {"request", "memory", "audit"}
    assert {line["agent"] for line in lines if line["what"] == "memory"} == {"a", "b"}
    assert "Not Dana's." not in (tmp_path / "all.jsonl").read_text(encoding="utf-8")
    answer = cli("export", "all.jsonl", "--everything", "--user", "dana", "--json").json
    assert answer == {"path": "all.jsonl", "lines": answer["lines"]}
    cli("export", "own.jsonl", "--user", "eve", "--agent", "a")
    assert cli("import", "own.jsonl", "--db", "copy.db", "--source", "web:https://a.example").code == 0
    (record,) = cli("list", "--db", "copy.db", "--json").json["records"]
    assert record["source"].startswith("web")
    assert record["trust"] < 0.5


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

    db = apsw.Connection(str(tmp_path / "keepstone.db"))
    table = next(name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%content TEXT%'"))
    db.execute(f"UPDATE {table} SET content = content || '!'")
    db.close()
    sick = cli("doctor")
    assert (sick.code, "remedy" in sick.out) == (8, True)
    report = cli("doctor", "--json")
    assert (report.code, report.json["healthy"]) == (8, False)


def test_audit_and_reembed(cli: Cli) -> None:
    id = remembered(cli, "Dana lives in Porto.", "--embedder", "none")
    assert f"remember: added  {id}" in cli("audit").out
    assert cli("audit", "--json", "--limit", "1").json["rows"][0]["id"] == id
    assert cli("audit", "--since", "2999-01-01").out.startswith("The audit log of this scope is empty")
    assert cli("audit", "--since", "soon enough").code == 2
    assert cli("upkeep", "reembed").out == "embedded  1 record\n"
    assert cli("upkeep", "reembed", "--embedder", "static", "--json").json == {
        "embedded": 0,
        "failed": 0,
        "problem": None,
        "moved": True,
    }
    assert cli("upkeep", "reembed", "--embedder", "nonsense").code == 5
