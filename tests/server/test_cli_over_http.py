"""The command line against a server: KEEPSTONE_URL and KEEPSTONE_KEY in place of a store."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.cli import main
from tests.cli.support import Cli, Result
from tests.server.running import Running, running

ALL = ("read", "write", "forget", "admin", "operator")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Memory.open(tmp_path_factory.mktemp("cli") / "memory.db") as memory, running(memory) as made:
        yield made


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: Running) -> Cli:
    """Runs a command in this process, in an empty folder, with a key that may do everything in a tenant of the test's own."""
    monkeypatch.chdir(tmp_path)
    for name in ("DB", "TENANT", "AGENT", "USER", "EMBEDDER", "MODEL", "DEBUG"):
        monkeypatch.delenv(f"KEEPSTONE_{name}", raising=False)
    monkeypatch.setenv("KEEPSTONE_URL", server.url)
    monkeypatch.setenv("KEEPSTONE_KEY", server.key("cli", tenant=tmp_path.name, service=True, rights=ALL))

    def run(*arguments: str, piped: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="utf-8"))
        capsys.readouterr()
        code = main(list(arguments))
        seen = capsys.readouterr()
        return Result(code, seen.out, seen.err)

    return run


def test_what_is_remembered_is_recalled(cli: Cli, tmp_path: Path) -> None:
    made = cli("remember", "Dana prefers dark mode.", "--tag", "preference", "--json")
    assert (made.code, made.json["action"]) == (0, "added")
    found = cli("recall", "Which theme does Dana like?", "--json")
    assert [hit["content"] for hit in found.json["hits"]] == ["Dana prefers dark mode."]
    assert "Dana prefers dark mode." in cli("list").out
    assert list(tmp_path.iterdir()) == [], "no store was made here"


def test_the_verbs_of_reading_and_writing(cli: Cli) -> None:
    id = cli("remember", "Dana lives in Rome.", "--json").json["id"]
    assert cli("update", id, "Dana lives in Oslo.", "--json").json["version"] == 2
    assert [each["content"] for each in cli("history", id, "--json").json["versions"]] == [
        "Dana lives in Rome.",
        "Dana lives in Oslo.",
    ]
    assert cli("why", "Where does Dana live?", id, "--json").json["recalled"] is True
    assert "Dana lives in Oslo." in cli("context", "Where does Dana live?").out
    assert cli("set", "drink", "tea", "--json").json["action"] == "added"
    assert cli("value", "drink", "--json").json == {"key": "drink", "value": "tea"}
    assert cli("value", "unknown").code == 3
    assert cli("value", "--tag", "general", "--json").json["values"] == {"drink": "tea"}
    assert cli("learn", "I moved to Lisbon.", "--json").code == 0
    assert cli("audit", "--json").json["rows"]
    assert cli("diff", "--since", "2020-01-01", "--json").json["added"]
    assert cli("forget", id, "--json").json["forgotten"] == 1
    assert cli("forget", id).code == 3


def test_files_come_and_go(cli: Cli, tmp_path: Path) -> None:
    cli("remember", "Dana keeps bees.")
    assert cli("export", "out.jsonl", "--json").json == {"path": "out.jsonl", "records": 1}
    assert json.loads((tmp_path / "out.jsonl").read_text())["content"] == "Dana keeps bees."
    assert cli("import", "out.jsonl", "--json").json == {"added": 0, "skipped": 1, "errors": []}
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    bad = cli("import", "bad.jsonl", "--from", "keepstone", "--json")
    assert (bad.code, bad.json["errors"][0]["line"]) == (8, 1)
    assert cli("export", "all.jsonl", "--everything", "--json").json["lines"] > 1
    assert cli("backup", "copy.db", "--json").json["bytes"] == (tmp_path / "copy.db").stat().st_size
    assert cli("backup", "copy.db").code == 5
    assert cli("chats", "chats.jsonl", "--json").json["chats"] == 0


def test_what_keeps_it_in_order(cli: Cli, tmp_path: Path) -> None:
    cli("remember", "Dana keeps bees.")
    assert cli("doctor", "--json").json["healthy"] is True
    assert cli("health", "--json").json["items"] == 1
    assert cli("audit", "verify", "--json").json["whole"] is True
    archived = cli("upkeep", "cap", "0", "--json").json
    assert len(archived["ids"]) == 1
    assert cli("upkeep", "undo", str(archived["ticket"])).code == 0
    assert "keepstone upkeep undo" in (shown := cli("upkeep", "cap", "0").out)
    assert "--db" not in shown
    (tmp_path / "policy.toml").write_text("purge_days = 0\n")
    assert cli("upkeep", "run", "--policy", "policy.toml", "--json").json["ran"] is True
    assert cli("review", "list", "--json").json == {"items": []}
    assert cli("jobs", "--json").json == {"jobs": []}
    assert cli("jobs", "run", "--json").json["done"] == 0


def test_a_chat_without_a_model(cli: Cli) -> None:
    told = cli("chat", "--session", "s", piped=b"I live in Lisbon.\nWhere do I live?\n")
    assert told.code == 0
    assert "Lisbon" in told.out
    assert [each["messages"] for each in cli("sessions", "--json").json["sessions"]] == [2]


def test_a_chat_with_a_model_needs_a_store(cli: Cli) -> None:
    refused = cli("chat", "--model", "ollama:nobody", "--json")
    assert (refused.code, refused.error["type"]) == (5, "ConfigurationError")
    assert "--db" in refused.error["message"]


@pytest.mark.parametrize(
    "command",
    [
        ("index", "repair"),
        ("postgres", "check"),
        ("serve",),
        ("learn", "x", "--model", "ollama:nobody"),
    ],
    ids=" ".join,
)
def test_what_works_on_a_store_alone_says_so(cli: Cli, command: tuple[str, ...]) -> None:
    refused = cli(*command, "--json")
    assert (refused.code, refused.error["type"]) == (5, "ConfigurationError")
    assert "--db" in refused.error["message"]


def test_a_store_that_is_named_is_used(cli: Cli, tmp_path: Path, server: Running) -> None:
    assert cli("remember", "Only here.", "--db", "here.db").code == 0
    assert (tmp_path / "here.db").exists()
    assert cli("list", "--json").json["records"] == []
    assert len(cli("list", "--db", "here.db", "--json").json["records"]) == 1
    assert cli("--db", "here.db", "keys", "list", "--json").json == {"keys": []}


def test_agents_and_users_are_named_only_where_somebody_names_them(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("remember", "of omar", "--user", "omar", "--agent", "coder").code == 0
    assert cli("list", "--json").json["records"] == []
    monkeypatch.setenv("KEEPSTONE_USER", "omar")
    found = cli("list", "--agent", "coder", "--json").json["records"]
    assert [(each["content"], each["scope"]["user"], each["scope"]["agent"]) for each in found] == [("of omar", "omar", "coder")]


def test_another_tenant_is_not_the_keys(cli: Cli, tmp_path: Path) -> None:
    refused = cli("list", "--tenant", "another", "--json")
    assert (refused.code, refused.error["type"]) == (9, "Forbidden")
    assert cli("list", "--tenant", tmp_path.name).code == 0


@pytest.mark.parametrize(
    ("key", "error"), [("ks_00000000_" + "x" * 43, "Unauthenticated"), ("of alice", "Forbidden")], ids=["unknown", "of another"]
)
def test_access_is_an_exit_code_of_its_own(
    cli: Cli, server: Running, monkeypatch: pytest.MonkeyPatch, key: str, error: str
) -> None:
    monkeypatch.setenv("KEEPSTONE_KEY", server.key("alice") if key == "of alice" else key)
    refused = cli("list", "--user", "somebody", "--json")
    assert (refused.code, refused.error["type"]) == (9, error)


def test_a_server_that_is_not_there_is_said_without_the_key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_URL", "http://127.0.0.1:9")
    refused = cli("list", "--json")
    assert (refused.code, refused.error["type"]) == (7, "ServerError")
    assert "http://127.0.0.1:9" in refused.error["message"]
    assert "ks_" not in refused.err


def test_without_a_key_it_says_where_to_get_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEEPSTONE_KEY")
    refused = cli("list", "--json")
    assert (refused.code, refused.error["type"]) == (5, "ConfigurationError")
    assert "keepstone keys create" in refused.error["message"]


def test_a_file_is_examined_here(cli: Cli, tmp_path: Path) -> None:
    cli("remember", "Dana keeps bees.")
    cli("export", "out.jsonl")
    assert cli("health", "out.jsonl", "--json").json["items"] == 1
