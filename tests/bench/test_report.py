"""The report, from made-up results: pages and charts, where their numbers come from, the verdicts on both sides of the line."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.report import figures, main
from bench.report.command import rendered
from bench.report.goals import GOALS
from bench.report.results import COMMANDS, Results
from bench.report.stamp import commit, stamped
from bench.report.svg import apart, decades, ticks
from tests.bench import report_results as made_up

PAGES = {"beside-others.md", "everyday.md", "growth.md", "floor.md", "languages.md", "faults.md", "goals.md"}
SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"(?<![\w@.])\.?\d+(?:,\d{3})*(?:\.\d+)?")
SHOWN = (figures.ms, figures.mb, figures.times, figures.share, figures.count, figures.plain, "{:.3g}".format)


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(made_up.everything())


@pytest.fixture(scope="module")
def files(results: Results) -> dict[str, str]:
    return rendered(results, {})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    for name, found in made_up.everything().items():
        (folder / f"{name}.json").write_text(json.dumps(found))
    return tmp_path


def run(folder: Path, *more: str) -> int:
    return main(["--results", str(folder / "results"), "--out", str(folder), *more])


# -- charts -------------------------------------------------------------------------------------------------------
def test_every_chart_is_xml_with_a_name_and_colours_for_light_and_dark(files: dict[str, str]) -> None:
    charts = {name: text for name, text in files.items() if name.endswith(".svg")}
    assert len(charts) >= 15
    for name, text in charts.items():
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg", name
        assert root.findtext(f"{SVG}title"), name
        assert root.get("role") == "img"
        assert root.get("aria-label"), name
        assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or ""), name
        assert "nan" not in text, name


def test_everything_drawn_lies_on_the_paper(files: dict[str, str]) -> None:
    for name, text in files.items():
        if not name.endswith(".svg"):
            continue
        root = ElementTree.fromstring(text)
        wide, high = (float(each) for each in (root.get("viewBox") or "").split()[2:])
        for each in root.iter():
            for key, most in (("x", wide), ("x1", wide), ("x2", wide), ("cx", wide), ("y", high), ("y1", high), ("cy", high)):
                assert 0 <= float(each.get(key, 0)) <= most, f"{name}: {key} of {each.tag} is {each.get(key)}"


def test_a_chart_of_one_size_or_of_nothing_but_zeros_is_drawn_too() -> None:
    one = made_up.growth()
    one["sizes"] = {"1000": one["sizes"]["1000"]}
    one["sizes"]["1000"]["get"] = dict.fromkeys(one["sizes"]["1000"]["get"], 0.0)
    files = rendered(Results({"growth": one}), {})
    assert ElementTree.fromstring(files["growth-get.svg"]) is not None
    assert "| 1,000 | 0.000 ms |" in files["growth.md"]


def test_names_of_others_cannot_break_a_chart_or_a_table() -> None:
    odd = json.loads(json.dumps(made_up.speed_peers()).replace('"chroma"', '"<b>&|"'))
    files = rendered(Results({"speed-peers": odd}), {})
    assert ElementTree.fromstring(files["beside-recall-same.svg"]) is not None
    rows = [line for line in files["beside-others.md"].splitlines() if "<b>&" in line and line.startswith("|")]
    assert rows
    assert all("<b>&|" not in row for row in rows)


def test_labels_are_moved_apart_and_keep_their_order() -> None:
    moved = apart([100, 101, 102, 300], 17, 0, 400)
    assert sorted(moved) == moved
    assert all(after - before >= 16.9 for before, after in pairwise(moved))
    assert moved[3] == 300


def test_a_scale_has_whole_decades_and_ticks_inside_them() -> None:
    assert decades([0.03, 7]) == (0.01, 10)
    assert decades([5, 5]) == (1, 10)
    assert [round(each, 6) for each in ticks(1, 10)] == [1, 2, 5, 10]


# -- numbers ------------------------------------------------------------------------------------------------------
def numbers(found: Any) -> Iterator[float]:
    if isinstance(found, dict):
        for key, value in found.items():
            yield from numbers(value)
            yield from (float(part) for part in re.findall(r"\d+", key))
    elif isinstance(found, list):
        for value in found:
            yield from numbers(value)
    elif isinstance(found, (int, float)):
        yield float(found)


def test_every_number_of_a_table_is_in_the_results(files: dict[str, str], results: Results) -> None:
    known = {token for value in numbers(dict(results.saved)) for shown in SHOWN for token in NUMBER.findall(shown(value))}
    fixed = {"4", "10", "1", "5"}  # "append 4 KB", "the best 10", "1 million", "the first 5"
    told = 0
    for name in PAGES - {"goals.md"}:
        for line in files[name].splitlines():
            if line.startswith("|") and not line.startswith("|---"):
                tokens = NUMBER.findall(line)
                told += len(tokens)
                assert set(tokens) <= known | fixed, f"{name}: {line}"
    assert told > 500


def test_what_goals_measured_is_in_the_results(files: dict[str, str], results: Results) -> None:
    known = {token for value in numbers(dict(results.saved)) for shown in SHOWN for token in NUMBER.findall(shown(value))}
    lines = files["goals.md"].replace("\N{NO-BREAK SPACE}", " ").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("|") and "✓ met" in line]
    assert len(rows) > 15
    for row in rows:
        assert set(NUMBER.findall(row[2])) <= known, row


def test_a_page_says_machine_versions_commit_day_and_command(files: dict[str, str]) -> None:
    for name in PAGES:
        for told in ("AMD EPYC", "2 cores", "Python 3.11.7", "commit `abcdef0123`", "2026-11-16", "`python -m bench "):
            assert told in files[name], f"{name} does not say {told}"
    assert "chroma 1.5.2" in files["beside-others.md"]


def test_a_result_without_a_commit_says_so() -> None:
    page = rendered(Results({"quality-locomo": made_up.quality()}), {})["goals.md"]
    assert "keepstone, at a commit that was not saved, on a day that was not saved." in page


def test_pictures_and_results_that_a_page_links_to_are_there(files: dict[str, str]) -> None:
    for name in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", files[name]):
            there = target in files or (target.startswith("results/") and target[8:-5] in COMMANDS)
            assert there, f"{name} links to {target}"


def test_both_splits_of_the_everyday_set_are_told(files: dict[str, str]) -> None:
    page = files["everyday.md"]
    assert "| answerable: right one first | 314 | .713 | .652–.764 | 314 | .713 | .652–.764 |" in page
    assert "| traps: what is needed among five | – | – | – | – | – | – |" in page
    assert {"everyday-development.svg", "everyday-test.svg"} <= set(files)
    assert "Not measured yet" in rendered(Results({}), {})["everyday.md"]


# -- wins and losses ----------------------------------------------------------------------------------------------
def test_the_leader_is_named(files: dict[str, str]) -> None:
    ahead = files["beside-others.md"].split("## Where others are ahead")[1]
    assert "| recall from 10,000, the same embedder | 2.8 ms | numpy alone 1.1 ms |" in ahead
    assert "| memories a second in bulk | 4,070 | numpy alone 10,175 |" in ahead
    assert "Chroma" not in ahead


def test_a_peer_that_overtakes_ours_is_among_those_ahead() -> None:
    found = made_up.speed_peers()
    found["peers"]["recall"]["same"]["10000"]["chroma"] = made_up.summary(0.7)
    page = rendered(Results({"speed-peers": found}), {})["beside-others.md"]
    assert "| recall from 10,000, the same embedder | 2.8 ms | Chroma 0.70 ms, numpy alone 1.1 ms |" in page


def test_quality_is_told_of_every_dataset_and_that_some_were_fitted_on(files: dict[str, str]) -> None:
    page = files["beside-others.md"]
    for row in ("### longmemeval, turns", "### locomo, turns", "### own, turns", "| letta | it needs a server |"):
        assert row in page
    assert "| **keepstone** | 50 | .751 | .671 | .761 | .721 | .731 |" in page
    assert "never on LoCoMo" in page


def test_goals_of_quality_are_read_from_the_run_beside_others_where_there_is_no_other() -> None:
    goal = next(each for each in GOALS if each.id == "locomo-any10")
    assert goal.verdict(Results({"quality-peers-locomo": made_up.quality_peers("locomo", 0.811)})) == "met"
    assert goal.verdict(Results({"quality-peers": made_up.quality_peers("locomo", 0.809)})) == "missed"


def test_what_was_left_out_is_told_with_its_reason(files: dict[str, str]) -> None:
    assert "| mem0 | 1 million | filling it would take a day |" in files["beside-others.md"]


# -- languages ----------------------------------------------------------------------------------------------------
def test_a_language_has_a_row_and_english_no_questions_in_another(files: dict[str, str]) -> None:
    rows = [line for line in files["languages.md"].splitlines() if line.startswith("| ")]
    assert "| English | 56 | .633 | .867 | .987 | – | – | .067 | .833 | .417 | .669 | .501 |" in rows
    assert "| German | 74 | .633 | .867 | .987 | .131 | .207 | .067 | .833 | .417 | .669 | .501 |" in rows
    assert "*development* half" in files["languages.md"]


# -- faults -------------------------------------------------------------------------------------------------------
def test_a_loss_is_told_and_a_skipped_row_is_no_success() -> None:
    page = rendered(Results({"torture": made_up.torture(lost=3)}), {})["faults.md"]
    assert "3,017 kills, 7,013 acknowledged writes, 3 lost" in page
    assert "| kill | sqlite | 3,017 | 7,013 | 3 | 0 | 0 | 0 | **not whole** |" in page
    assert "- kill: a write is gone" in page
    assert "skipped: there is no redis-server" in page


# -- missing ------------------------------------------------------------------------------------------------------
def test_without_results_every_page_says_what_to_run() -> None:
    files = rendered(Results(), {})
    assert set(files) == PAGES
    for name, wanted in (
        ("growth.md", "growth"),
        ("floor.md", "floor"),
        ("languages.md", "languages"),
        ("faults.md", "torture"),
        ("beside-others.md", "speed-peers"),
    ):
        assert f"Not measured yet: run `{COMMANDS[wanted]} --json > docs/benchmarks/results/{wanted}.json`" in files[name]
    assert f"**{len(GOALS)} not measured.**" in files["goals.md"]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_any_one_result_alone_gives_pages(name: str) -> None:
    files = rendered(Results({name: made_up.everything()[name]}), {})
    assert set(files) >= PAGES


# -- goals --------------------------------------------------------------------------------------------------------
def peers(verb: str, size: str | None, x: float, way: str = "same", name: str = "langgraph") -> dict[str, Any]:
    found = made_up.speed_peers()
    ratios = found["peers"]["ratios"][verb][way]
    (ratios if size is None else ratios[size])[name] = x
    return found


def grown(**changes: Any) -> dict[str, Any]:
    found = made_up.growth()
    found["sizes"]["1000000"] |= changes
    return found


def recalled(key: str, value: float) -> dict[str, Any]:
    return grown(recall={**made_up.summary(1.0), key: value})


def started(**changes: float) -> dict[str, Any]:
    found = made_up.speed()
    found["start"] |= changes
    return found


def harmed(row: int | None = None, **changes: int) -> dict[str, Any]:
    found = made_up.torture()
    (found if row is None else found["rows"][row]).update(changes)
    return found


def parts(size: str | None, x: float) -> dict[str, Any]:
    found = made_up.floor()
    (found["add"] if size is None else found["recall"][size])["ratio"] = x
    return found


# id of the goal: the result it is of, what makes that result, a value that just meets it, one that just misses it
LINES: dict[str, tuple[str, Callable[[Any], dict[str, Any]], float, float]] = {
    "longmemeval-any5": ("quality-longmemeval", lambda x: made_up.quality(questions=450, **{"any@5": x}), 0.995, 0.9949),
    "longmemeval-all5": ("quality-longmemeval", lambda x: made_up.quality(questions=450, **{"all@5": x}), 0.96, 0.9599),
    "longmemeval-all10": ("quality-longmemeval", lambda x: made_up.quality(questions=450, **{"all@10": x}), 0.985, 0.9849),
    "locomo-any10": ("quality-locomo", lambda x: made_up.quality(**{"any@10": x}), 0.9, 0.8999),
    "locomo-frac10": ("quality-locomo", lambda x: made_up.quality(**{"frac@10": x}), 0.85, 0.8499),
    "recall-10k": ("speed", lambda x: made_up.speed(cpu=x), 2.0, 2.01),
    "recall-10k-chroma": ("speed-peers", lambda x: peers("recall", "10000", x, "usual", "chroma"), 10, 9.99),
    "recall-1m-p50": ("growth", lambda x: recalled("cpu_p50_ms", x), 10, 10.01),
    "recall-1m-p95": ("growth", lambda x: recalled("cpu_p95_ms", x), 25, 25.01),
    "resident-1m": ("growth", lambda x: grown(resident_mb=x), 999.9, 1000),
    "open-1m": ("growth", lambda x: grown(open_ms=x), 1000, 1000.1),
    "agreement-1m": ("growth", lambda x: grown(recall_at_10=x), 0.97, 0.9699),
    "add-fsync": ("speed", lambda x: made_up.speed(fsync=x), 1.5, 1.51),
    "import": ("speed", lambda x: started(import_ms=x), 150, 150.1),
    "cold-recall": ("speed", lambda x: started(cli_recall_ms=x), 600, 600.1),
    "kills": ("torture", lambda x: harmed(kills=x), 3000, 2999),
    "kills-lost": ("torture", lambda x: harmed(lost=x), 0, 1),
    "kills-drift": ("torture", lambda x: harmed(drift=x), 0, 1),
    "processes": ("torture", lambda x: harmed(1, errors=x), 0, 1),
    "peers-10k": ("speed-peers", lambda x: peers("recall", "10000", x), 8, 7.99),
    "peers-100k": ("speed-peers", lambda x: peers("recall", "100000", x), 15, 14.99),
    "peers-add": ("speed-peers", lambda x: peers("add", None, x), 1.01, 1.0),
    "floor-add": ("floor", lambda x: parts(None, x), 1.5, 1.51),
    "floor-recall-1000": ("floor", lambda x: parts("1000", x), 2.0, 2.01),
    "floor-recall-10000": ("floor", lambda x: parts("10000", x), 2.0, 2.01),
    "floor-recall-100000": ("floor", lambda x: parts("100000", x), 2.0, 2.01),
}  # fmt: skip


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.id)
def test_a_goal_is_met_on_the_line_and_missed_beyond_it(goal: Any) -> None:
    name, made, good, bad = LINES[goal.id]
    assert goal.verdict(Results({name: made(good)})) == "met"
    assert goal.verdict(Results({name: made(bad)})) == "missed"
    assert goal.verdict(Results()) == "not measured"


def test_a_skipped_row_reaches_no_goal() -> None:
    found = made_up.torture()
    found["rows"][1]["skipped"] = "too few processes"
    goal = next(each for each in GOALS if each.id == "processes")
    assert goal.verdict(Results({"torture": found})) == "not measured"


def test_development_questions_do_not_count_as_those_held_out() -> None:
    goal = next(each for each in GOALS if each.id == "longmemeval-any5")
    assert goal.verdict(Results({"quality-longmemeval": made_up.quality(questions=50)})) == "met on dev"
    page = rendered(Results({"quality-longmemeval": made_up.quality(questions=50)}), {})["goals.md"]
    assert "on 50 development questions, which the weights were fitted on; those held out are not here" in page


def test_a_miss_has_its_cause_or_says_that_none_is_written() -> None:
    results = Results({"speed": made_up.speed(cpu=3.21, fsync=3.3)})
    page = rendered(results, {"recall-10k": "The signals of the closer look."})["goals.md"].replace("\N{NO-BREAK SPACE}", " ")
    assert "| recall from 10,000 memories, p50 of CPU | ≤ 2 ms | 3.21 ms | ✗ **missed** |" in page
    assert "p50 of CPU**: The signals of the closer look." in page
    assert "no cause is written down yet: add `add-fsync` to causes.toml" in page


# -- the command --------------------------------------------------------------------------------------------------
def test_the_command_writes_and_then_finds_everything_up_to_date(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(saved, "--check") == 1
    assert run(saved, "--json") == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["missing"] == []
    assert all((saved / name).exists() for name in last["files"])
    assert run(saved, "--check") == 0
    (saved / "goals.md").write_text("3 met")
    assert run(saved, "--check") == 1


def test_a_result_saved_with_its_tables_is_read_by_its_last_line(saved: Path) -> None:
    path = saved / "results" / "growth.json"
    path.write_text(f"machine\n  cores  2\n{path.read_text()}\n")
    assert run(saved) == 0
    assert "| 1 million | 8.1 ms |" in (saved / "growth.md").read_text()


@pytest.mark.parametrize(("name", "text"), [("growth.json", '{"sizes": '), ("floor.json", ""), ("torture.json", "[1, 2]")])
def test_a_result_that_cannot_be_read_is_named(saved: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    (saved / "results" / name).write_text(text)
    assert run(saved) == 2
    assert name in capsys.readouterr().err


def test_a_cause_for_a_goal_that_is_none_is_refused(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved / "causes.toml").write_text('recall-10m = "far away"\n')
    assert run(saved) == 2
    assert "recall-10m" in capsys.readouterr().err


def test_the_pages_of_the_docs_are_those_of_their_results() -> None:
    assert main(["--check"]) == 0, "run `python -m bench report`"


def test_a_stamp_says_what_was_run_on_what(tmp_path: Path) -> None:
    head = stamped("growth", ["--sizes", "1k", "--json"])
    assert head["command"] == "python -m bench growth --sizes 1k"
    assert {"python", "sqlite", "cores", "commit", "date", "keepstone"} <= set(head["machine"])
    assert commit(tmp_path) == "unknown"
