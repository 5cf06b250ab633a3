"""The quality benchmark, run for real on small files: what it asks, what it counts, what it prints last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.datasets import load
from bench.quality import fill, main
from bench.retrieval import METRICS, intervals, means, scored
from keepstone import Memory
from tests.bench.test_datasets import CONVERSATION, SAMPLE

TOPICS = ("cello", "beehive", "glacier", "marathon", "sourdough", "telescope", "sailboat", "orchid")


def haystack(topic: str, id: str = "", **changes: Any) -> dict[str, Any]:
    """A question about the topic; a session speaks of each topic, and only one answers."""
    return {
        "question_id": id or topic,
        "question_type": "single-session-user",
        "question": f"When did I first try the {topic}?",
        "question_date": "2023/06/30 (Fri) 12:00",
        "answer_session_ids": [f"answer_{topic}"],
        "haystack_session_ids": [f"answer_{each}" if each == topic else f"noise_{each}" for each in TOPICS],
        "haystack_dates": [f"2023/05/{20 - at:02} (Mon) 10:00" for at in range(len(TOPICS))],
        "haystack_sessions": [
            [
                {"role": "user", "content": f"Last March I tried the {each}.", "has_answer": each == topic},
                {"role": "assistant", "content": "\u200b"},
                {"role": "assistant", "content": ""},
            ]
            for each in TOPICS
        ],
        **changes,
    }


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main([str(each) for each in arguments]) == 0
    last: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return last


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(each) for each in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.fixture
def haystacks(tmp_path: Path) -> Path:
    path = tmp_path / "longmemeval.json"
    path.write_text(json.dumps([haystack("cello"), haystack("beehive"), haystack("glacier", "glacier_abs")]))
    return path


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([SAMPLE, {**SAMPLE, "sample_id": "conv-2"}]))
    return path


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    folder = tmp_path / "conversations"
    folder.mkdir()
    (folder / "pottery.txt").write_text(CONVERSATION)
    return folder


def test_longmemeval_scores_sessions_and_marked_turns(haystacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--dataset", "longmemeval", "--data", haystacks, "--jobs", 1)
    assert {name: found[name] for name in METRICS} == dict.fromkeys(METRICS, 1.0)
    assert (found["dataset"], found["embedder"], found["unit"], found["questions"]) == ("longmemeval", "auto", "session", 3)
    assert (found["turns"], found["skipped_turns"], found["left_out"]) == (24, 48, 0)
    assert (found["turn_any@10"], found["turn_questions"]) == (1.0, 3)
    assert found["abstention_questions"] == 1
    assert found["without_abstention"] == {"questions": 2, **dict.fromkeys(METRICS, 1.0)}
    assert found["types"] == {"single-session-user": {"questions": 3, **dict.fromkeys(METRICS, 1.0)}}
    assert found["intervals"] == {name: [1.0, 1.0] for name in METRICS}
    assert set(found["with_default_threshold"]) == {*METRICS, "nothing_recalled"}
    assert found["seconds"] > 0


def test_the_memory_is_told_nothing_that_gives_the_answer_away(haystacks: Path, memory: Memory) -> None:
    case = load("longmemeval", haystacks)[0]
    places, skipped = fill(memory, case)
    records = memory.list(limit=100)
    assert skipped == 16
    assert {record.id for record in records} == set(places)
    assert {record.session for record in records} == {f"s{number:04}" for number in range(1, 9)}
    assert all("answer" not in repr(record) for record in records)
    assert records[0].session == "s0001", "the haystack's first session is its latest"
    assert [record.occurred_at for record in records] == sorted((each.occurred_at for each in records), reverse=True)
    assert {record.session: places[record.id] for record in records}["s0001"] == ("answer_cello", "answer_cello:0")


def test_processes_find_what_one_finds(haystacks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = []
    for jobs in (1, 2):
        path = tmp_path / f"rankings{jobs}.jsonl"
        assert run(capsys, "--dataset", "longmemeval", "--data", haystacks, "--jobs", jobs, "--rankings", path)["jobs"] == jobs
        written.append(path.read_text())
    assert written[0] == written[1]
    lines = [json.loads(line) for line in written[0].splitlines()]
    assert [line["id"] for line in lines] == ["cello", "beehive", "glacier_abs"]
    assert lines[1]["gold"] == ["answer_beehive"]
    assert lines[1]["ranked"][0] == "answer_beehive"
    assert len(lines[1]["ranked"]) == len(lines[1]["scores"]) == len(TOPICS)
    assert lines[1]["scores"] == sorted(lines[1]["scores"], reverse=True)


def test_locomo_scores_turns_and_leaves_out_what_has_no_evidence(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--dataset", "locomo", "--data", samples, "--jobs", 1, "--embedder", "none", "--json")
    assert (found["questions"], found["left_out"], found["turns"], found["unit"]) == (4, 2, 6, "turn")
    assert {kind: part["questions"] for kind, part in found["types"].items()} == {"multi-hop": 2, "single-hop": 2}
    assert found["any@5"] == 1.0
    assert found["embedder"] == "none"
    assert "turn_any@10" not in found
    assert found["session_questions"] == 4
    assert found["session_any@5"] == 1.0
    assert found["session_r@1"] >= found["r@1"]


def test_absent_questions_are_counted_apart(conversations: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--dataset", "own", "--data", conversations, "--jobs", 1, "--curve")
    assert (found["questions"], found["absent_questions"]) == (1, 1)
    assert found["absent_recalled"] in (0.0, 1.0)
    assert [point["threshold"] for point in found["curve"]][:3] == [0.0, 0.02, 0.04]
    assert found["curve"][-1]["threshold"] == 0.9
    assert found["curve"][0] == {"threshold": 0.0, "absent_recalled": 1.0, "any@5": found["any@5"]}


def test_tables_come_before_the_object_unless_it_is_wanted_alone(conversations: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dataset", "own", "--data", str(conversations), "--jobs", "1", "--curve"]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert "default threshold" in shown.out
    assert "absent questions that bring something back" in shown.out
    assert shown.err == "", "no progress bar where there is no terminal"
    assert main([*arguments, "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("text", ["conv-2:1\n\nconv-1:0\n", '["conv-2:1", "conv-1:0"]'])
def test_ids_choose_questions(samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    ids, rankings = tmp_path / "ids", tmp_path / "rankings.jsonl"
    ids.write_text(text)
    found = run(capsys, "--dataset", "locomo", "--data", samples, "--ids", ids, "--jobs", 1, "--rankings", rankings)
    assert found["questions"] == 2
    assert [json.loads(line)["id"] for line in rankings.read_text().splitlines()] == ["conv-1:0", "conv-2:1"]


def test_limit_takes_the_first_questions(samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rankings = tmp_path / "rankings.jsonl"
    run(capsys, "--dataset", "locomo", "--data", samples, "--limit", 3, "--jobs", 1, "--rankings", rankings)
    assert [json.loads(line)["id"] for line in rankings.read_text().splitlines()] == ["conv-1:0", "conv-1:1", "conv-2:0"]


def test_what_cannot_be_run_is_told(samples: Path, haystacks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = tmp_path / "ids"
    ids.write_text("conv-1:0\nconv-9:0\n")
    good = ("--dataset", "locomo", "--data", samples, "--jobs", 1)
    assert "no question 'conv-9:0' (1 of 2 ids are unknown)" in refused(capsys, *good, "--ids", ids)
    ids.write_text("[conv")
    assert "is no JSON list" in refused(capsys, *good, "--ids", ids)
    ids.write_text("conv-1:2\n")
    assert "no question is left to ask" in refused(capsys, *good, "--ids", ids)
    assert "is it a locomo file" in refused(capsys, "--dataset", "locomo", "--data", haystacks)
    assert "Did you mean 'static'" in refused(capsys, *good, "--embedder", "statik")
    assert "--curve needs questions without an answer" in refused(capsys, *good, "--curve")
    assert "No such file" in refused(capsys, *good, "--rankings", tmp_path / "missing" / "rankings.jsonl")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "squad", "--data", "x"], "invalid choice: 'squad'"),
        (["--dataset", "locomo"], "--data is needed"),
        (["--dataset", "locomo", "--data", "x", "--limit", "0"], "'0' is not a whole number from 1"),
    ],
)
def test_wrong_options_are_told(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


# -- the metrics themselves ---------------------------------------------------------------------------------------
def test_metrics_of_one_question() -> None:
    units = [f"u{at}" for at in range(20)]
    assert scored(units, frozenset({"u4", "u9"})) == {
        "r@1": 0,
        "any@5": 1,
        "all@5": 0,
        "any@10": 1,
        "all@10": 1,
        "frac@10": 1,
    }
    assert scored(units, frozenset({"u5", "u10"})) == {
        "r@1": 0,
        "any@5": 0,
        "all@5": 0,
        "any@10": 1,
        "all@10": 0,
        "frac@10": 0.5,
    }
    assert scored([], frozenset({"u0"})) == dict.fromkeys(METRICS, 0)


def test_intervals_hold_the_mean_and_are_the_same_every_time() -> None:
    rows = [scored(["a"], frozenset("a" if at % 4 else "b")) for at in range(100)]
    assert means(rows)["any@5"] == 0.75
    low, high = intervals(rows)["any@5"]
    assert 0.6 < low < 0.72
    assert 0.78 < high < 0.9
    assert intervals(rows) == intervals(rows)
