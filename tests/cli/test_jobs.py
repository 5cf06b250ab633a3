"""`keepstone learn`, `keepstone jobs`, `keepstone upkeep run` and `keepstone chats`, with a model behind a local endpoint and
without."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.cli import jobs as job_commands
from keepstone.cli import transfer
from keepstone.cli.render import format_usage, shorten
from keepstone.conversation.conversation import Conversations
from keepstone.types import Usage
from tests.cli.support import Cli
from tests.models.endpoint import Endpoint, Request, Step, say, status

DANA = "My name is Dana and I prefer dark mode."


def proposing(*contents: str) -> Step:
    """An answer of a model that looks for facts."""
    facts = [{"turns": [1], "content": each, "type": "profile", "key": None, "confidence": 0.95} for each in contents]
    return say(json.dumps({"facts": facts}))


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEEPSTONE_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waiting(cli: Cli, tmp_path: Path) -> list[str]:
    """Three jobs: two of the user "", one of Eve; no worker runs them."""
    unused = "openai:m@http://127.0.0.1:9/v1"
    with Memory.open(tmp_path / "keepstone.db", model=unused, settings={"worker": False}) as memory:
        memory.conversation("monday").add("user", "I play the cello.")
        memory.conversation("tuesday").add("user", "I moved to Porto.")
        memory.with_scope(user="eve").conversation("eve").add("user", "I keep bees.")
    return ["monday", "tuesday"]


def model(endpoint: Endpoint) -> tuple[str, str]:
    return "--model", f"openai:m@{endpoint.openai_url}"


# -- learn --------------------------------------------------------------------------------------------------------
def test_learn_by_rules(cli: Cli) -> None:
    first, *facts_noted = cli("learn", DANA).out.splitlines()
    assert first.startswith("added  m_")
    assert [line.split("  ")[:2] for line in facts_noted] == [
        ["noted", "The user's name is Dana."],
        ["noted", "The user prefers dark mode."],
    ]
    answer = cli("learn", "-", "--json", piped=b"I live in Porto.\n").json
    assert (answer["action"], answer["problems"], answer["usage"]) == ("added", [], None)
    assert [fact["content"] for fact in answer["facts"]] == ["The user lives in Porto."]
    assert answer["learned"] == [fact["id"] for fact in answer["facts"]]
    assert "No facts were found" in cli("learn", "The meeting took an hour.").out
    assert cli("list", "--kind", "note", "--json").json["records"][0]["content"] == "The meeting took an hour."


def test_learn_takes_every_option_of_the_library(cli: Cli) -> None:
    offered = inspect.signature(job_commands.learn).parameters
    for name, parameter in list(inspect.signature(Memory.learn).parameters.items())[1:]:
        assert name in offered
        if parameter.default is not parameter.empty:
            assert offered[name].default == parameter.default
    options = ["--metadata", '{"a": 1}', "--source", "web:x", "--session", "s", "--occurred-at", "2026-03-01"]
    cli("learn", "Some words.", *options)
    record = cli("list", "--json").json["records"][0]
    assert (record["metadata"], record["source"], record["session"], record["kind"]) == ({"a": 1}, "web:x", "s", "note")
    assert cli("learn", "x", "--metadata", "[]").code == 2
    assert cli("learn").code == 2


def test_learn_by_a_model(cli: Cli) -> None:
    with Endpoint([proposing("Dana plays the cello.")]) as endpoint:
        answer = cli("learn", "I, Dana, play the cello.", *model(endpoint), "--json").json
    assert [fact["content"] for fact in answer["facts"]] == ["Dana plays the cello."]
    assert answer["usage"]["calls"] == 1
    with Endpoint([proposing("Dana keeps two greyhounds.")]) as endpoint:
        shown = cli("learn", "I keep two greyhounds.", *model(endpoint)).out
    assert "noted  Dana keeps two greyhounds." in shown
    assert cli("jobs", "--json").json["jobs"] == []


def test_learn_keeps_the_text_when_the_model_fails(cli: Cli) -> None:
    with Endpoint([status(400), status(400), status(400)]) as endpoint:
        failed = cli("learn", "I play the cello.", *model(endpoint))
    assert failed.code == 7
    assert failed.out.startswith("added  m_")
    assert "1 job failed; 'keepstone jobs' lists them:" in failed.out
    assert "refused the request" in failed.out
    assert failed.err == ""
    (job,) = cli("jobs", "--json").json["jobs"]
    assert (job["state"], job["attempts"]) == ("waiting", 1)
    assert "refused the request" in job["problem"]
    assert cli("list", "--json").json["records"][0]["content"] == "I play the cello."


# -- the queue ----------------------------------------------------------------------------------------------------
def test_jobs_are_listed(cli: Cli, waiting: list[str]) -> None:
    listed = cli("jobs", "--json").json["jobs"]
    assert [job["session"] for job in listed] == waiting
    assert {job["state"] for job in listed} == {"waiting"}
    assert {"number", "scope", "kind", "ids", "attempts", "due", "created_at", "problem"} <= set(listed[0])
    shown = cli("jobs").out
    assert f"{listed[0]['number']:>3}  waiting  1 message of monday" in shown
    assert "'keepstone jobs run --model SPEC' runs the waiting jobs." in shown
    assert len(cli("jobs", "--limit", "1", "--json").json["jobs"]) == 1
    assert len(cli("jobs", "--user", "eve", "--json").json["jobs"]) == 1
    assert cli("jobs", "--state", "failed").out.startswith("No job is failed")
    assert cli("jobs", "--state", "running", "--json").json["jobs"] == []


def test_jobs_of_an_empty_place_make_no_store(cli: Cli, tmp_path: Path) -> None:
    result = cli("jobs")
    assert (result.code, "There are no jobs" in result.out) == (0, True)
    for arguments in (("jobs", "run", "--model", "openai:m"), ("jobs", "retry"), ("jobs", "drop", "1"), ("chats", "c.jsonl")):
        assert cli(*arguments).code == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("jobs", "--state", "lost"), 2),
        (("jobs", "--limit", "0"), 2),
        (("jobs", "nonsense"), 2),
        (("jobs", "retry", "99"), 3),
        (("jobs", "retry", "0"), 2),
        (("jobs", "retry", "x"), 2),
        (("jobs", "drop"), 2),
        (("jobs", "drop", "99"), 3),
        (("jobs", "drop", "-1"), 2),
        (("jobs", "run"), 5),
        (("upkeep", "run", "--model", "nobody:x"), 5),
        (("chats", "c.jsonl", "--format", "other"), 5),
        (("chats", "nowhere/c.jsonl"), 5),
    ],
)
def test_bad_input(cli: Cli, waiting: list[str], arguments: tuple[str, ...], code: int) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: ")
    assert set(cli(*arguments, "--json").error) == {"type", "message"}


def test_jobs_run_works_on_one_scope(cli: Cli, waiting: list[str]) -> None:
    def find(request: Request) -> Step:
        text = json.dumps(request["body"]["messages"])
        return proposing("The user lives in Porto.") if "I moved to Porto" in text else proposing("The user plays the cello.")

    with Endpoint(find) as endpoint:
        done = cli("jobs", "run", *model(endpoint))
    first, *facts_noted = done.out.splitlines()
    assert (done.code, first) == (0, "learned  2 facts from 2 jobs  20 tokens in, 10 out")
    assert {line.split("  ")[1] for line in facts_noted} == {"The user plays the cello.", "The user lives in Porto."}
    assert cli("jobs", "--json").json["jobs"] == []
    assert len(cli("jobs", "--user", "eve", "--json").json["jobs"]) == 1
    with Endpoint([]) as endpoint:
        assert cli("jobs", "run", *model(endpoint)).out == "There are no jobs to run.\n"


def test_upkeep_run_works_on_all_of_them(cli: Cli, waiting: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(
        [proposing("A fact about the cello."), say('{"facts": [{"turns": [9], "content": "x"}]}'), proposing()]
    ) as there:
        monkeypatch.setenv("KEEPSTONE_MODEL", model(there)[1])
        done = cli("--json", "upkeep", "run")
    assert done.code == 0
    assert (done.json["done"], done.json["failed"], len(done.json["learned"]), len(done.json["refused"])) == (3, 0, 1, 1)
    assert (done.json["usage"]["calls"], done.json["problems"]) == (3, [])
    assert cli("jobs", "--user", "eve", "--json").json["jobs"] == []


def test_what_is_not_taken_is_said(cli: Cli, waiting: list[str]) -> None:
    with Endpoint(lambda _: say('{"facts": [{"turns": [9], "content": "The user is a fish."}]}')) as endpoint:
        shown = cli("jobs", "run", *model(endpoint)).out
    assert "learned  0 facts from 2 jobs" in shown
    assert "2 proposals of the model were rejected:" in shown


def test_jobs_fail_are_retried_and_dropped(cli: Cli, waiting: list[str]) -> None:
    with Endpoint(lambda _: status(400)) as endpoint:
        for _ in range(5):
            failed = cli("jobs", "run", *model(endpoint))
            assert (failed.code, failed.err) == (7, "")
            assert "2 jobs failed" in failed.out
        assert cli("upkeep", "run", *model(endpoint)).code == 7
    shown = cli("jobs").out
    assert shown.count("failed  1 message") == 2
    assert "5 attempts" in shown
    assert "'keepstone jobs retry' retries the failed jobs." in shown
    one, two = (job["number"] for job in cli("jobs", "--state", "failed", "--json").json["jobs"])
    assert cli("jobs", "retry", str(one)).out == "queued again  1 job\n"
    assert cli("jobs", "retry", "--json").json == {"retried": 1}
    assert cli("jobs", "retry").out.startswith("No job has failed")
    assert cli("jobs", "drop", str(two)).out == f"dropped  job {two}; its messages stay\n"
    assert cli("jobs", "drop", str(one), "--json").json == {"dropped": one}
    assert cli("jobs", "--json").json["jobs"] == []
    assert len(cli("list", "--kind", "message", "--json").json["records"]) == 2


def test_common_options_before_a_command_of_a_group(cli: Cli, waiting: list[str]) -> None:
    assert cli("--user", "eve", "jobs", "--json").json["jobs"][0]["session"] == "eve"
    assert cli("jobs", "--user", "eve", "--json", "retry").json == {"retried": 0}
    assert cli("--user", "dana", "jobs", "--user", "eve", "drop", "99", "--user", "bob").code == 3


# -- chats --------------------------------------------------------------------------------------------------------
def test_chats_are_written_for_fine_tuning(cli: Cli, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.conversation("s").add("user", "Which theme?")
        memory.conversation("s").add("assistant", "The dark one.")
        memory.tasks.start("Restart the queue")
        memory.tasks.record("look", "status()", "it is down")
        memory.tasks.end(False, "it stayed down")
    assert cli("chats", "c.jsonl").out == "exported  2 chats to c.jsonl\n"
    assert cli("chats", "c.jsonl", "--only-successes", "--json").json == {"path": "c.jsonl", "chats": 1}
    (line,) = (tmp_path / "c.jsonl").read_text().splitlines()
    assert [each["role"] for each in json.loads(line)["messages"]] == ["user", "assistant"]
    assert cli("chats", "a.jsonl", "--format", "anthropic").code == 0
    offered: Any = inspect.signature(transfer.chats).parameters
    for name in ("format", "only_successes"):
        assert offered[name].default == inspect.signature(Conversations.export_chats).parameters[name].default


# -- words --------------------------------------------------------------------------------------------------------
def test_usage_and_long_texts_in_a_line() -> None:
    assert format_usage(Usage(1200, 40, cached_tokens=1000, calls=1)) == "1,200 tokens in (1,000 cached), 40 out"
    assert format_usage(Usage(1, 2, cost=0.5)) == "1 token in, 2 out, cost 0.5000"
    assert shorten("a\n  b " * 100, 10) == "a b a b a…"
