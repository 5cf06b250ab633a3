"""The report, from made-up results: pages and charts, and where their numbers come from."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.report import figures, main
from bench.report.command import render_all
from bench.report.results import COMMANDS, Results
from bench.report.stamp import commit, result_head
from bench.report.svg import apart, decades, ticks
from tests.bench import report_results as made_up

PAGES = {"quality.md", "speed.md", "reliability.md"}
SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"(?<![\w@.])\.?\d+(?:,\d{3})*(?:\.\d+)?")
SHOWN = (figures.ms, figures.mb, figures.times, figures.share, figures.count, figures.plain, "{:.3g}".format)


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(made_up.everything())


@pytest.fixture(scope="module")
def files(results: Results) -> dict[str, str]:
    return render_all(results)


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
    assert len(charts) >= 6
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
    files = render_all(Results({"growth": one}))
    assert ElementTree.fromstring(files["growth.svg"]) is not None
    assert "| get | 0.000 ms |" in files["speed.md"]


def test_names_of_others_cannot_break_a_chart_or_a_table() -> None:
    odd = json.loads(json.dumps(made_up.speed_peers()).replace('"chroma"', '"<b>&|"'))
    files = render_all(Results({"speed-peers": odd}))
    assert ElementTree.fromstring(files["compared-recall.svg"]) is not None
    rows = [line for line in files["speed.md"].splitlines() if "<b>&" in line and line.startswith("|")]
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
    fixed = {"1", "8", "4", "32", "50", "100", "1,000", "95", "1000000"}  # in words: "8 writers and 4 readers", "1 million"
    told = 0
    for name in PAGES:
        for line in files[name].splitlines():
            if line.startswith(("|", "Mean without English")) and not line.startswith("|---"):
                shown = re.sub(r"\([^()]*×[^()]*\)", "", line)  # ratios are computed
                tokens = NUMBER.findall(shown)
                told += len(tokens)
                assert set(tokens) <= known | fixed, f"{name}: {line}"
    assert told > 200


def test_a_page_says_machine_versions_commit_day_and_command(files: dict[str, str]) -> None:
    for name in PAGES:
        for told in ("AMD EPYC", "2 cores", "Python 3.11.7", "commit `abcdef0123`", "2026-11-16", "`python -m bench "):
            assert told in files[name], f"{name} does not say {told}"
    assert "chroma 1.5.2" in files["speed.md"]


def test_a_result_without_a_commit_says_so() -> None:
    page = render_all(Results({"quality-locomo": made_up.quality()}))["quality.md"]
    assert "unknown commit, unknown day." in page


def test_pictures_and_results_that_a_page_links_to_are_there(files: dict[str, str]) -> None:
    for name in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", files[name]):
            there = target in files or target.startswith("../") or (target.startswith("results/") and target[8:-5] in COMMANDS)
            assert there, f"{name} links to {target}"


# -- what the tables say ------------------------------------------------------------------------------------------
def test_quality_shows_recall_and_reader_turns_and_sessions_and_a_missing_figure_as_a_dash(files: dict[str, str]) -> None:
    page = files["quality.md"]
    assert "| answerable: right one first | 314 | .713 (.652–.764) | .713 (.652–.764) |" in page
    assert "| traps: what is needed among five | – | – | – |" in page
    assert "| LoCoMo, sessions | 50 | – | .997 | .961 | .901 | .986 | .852 |" in page
    assert "| German | .633 | .867 | .207 | .833 |" in page
    assert "| English | .633 | .867 | – | .833 |" in page


def test_a_ratio_below_one_is_marked() -> None:
    found = made_up.speed_peers()
    found["peers"]["recall"]["same"]["10000"]["chroma"] = made_up.summary(0.7)
    row = next(
        line for line in render_all(Results({"speed-peers": found}))["speed.md"].splitlines() if line.startswith("| Chroma | ")
    )
    assert "0.70 ms (**0.25×**)" in row
    assert "(17×)" in row


def test_what_was_left_out_is_told_with_its_reason(files: dict[str, str]) -> None:
    assert "| mem0 | 1000000: filling it would take a day |" in files["speed.md"]


def test_a_loss_is_told_and_a_skipped_row_is_no_success() -> None:
    page = render_all(Results({"torture": made_up.torture(lost=3)}))["reliability.md"]
    assert "3,017 kills, 7,013 acknowledged writes, 3 lost" in page
    assert "| sqlite | 3,017 | 7,013 | **3 lost, not whole** |" in page
    assert "- kill: a write is gone" in page
    assert "skipped: there is no redis-server" in page


def test_clients_of_postgres_stand_next_to_plain_pgvector(files: dict[str, str]) -> None:
    assert "| 10,000 memories, 8 clients | 9,600 | 9,600 | 9,600 | 9,600 |" in files["speed.md"]


def test_a_key_that_is_not_linearizable_is_counted(files: dict[str, str]) -> None:
    assert "| postgres | 3,209 | 6 | 4 | 1 |" in files["reliability.md"]


# -- missing ------------------------------------------------------------------------------------------------------
def test_without_results_every_page_says_what_to_run() -> None:
    files = render_all(Results())
    assert set(files) == PAGES
    for name, wanted in (("speed.md", "growth"), ("quality.md", "languages-test"), ("reliability.md", "torture")):
        assert f"Not measured yet: run `{COMMANDS[wanted]} --json > docs/benchmarks/results/{wanted}.json`" in files[name]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_any_one_result_alone_gives_pages(name: str) -> None:
    files = render_all(Results({name: made_up.everything()[name]}))
    assert set(files) >= PAGES


# -- the command --------------------------------------------------------------------------------------------------
def test_the_command_writes_and_then_finds_everything_up_to_date(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(saved, "--check") == 1
    assert run(saved, "--json") == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["missing"] == []
    assert all((saved / name).exists() for name in last["files"])
    assert run(saved, "--check") == 0
    (saved / "speed.md").write_text("fast")
    assert run(saved, "--check") == 1


def test_a_result_saved_with_its_tables_is_read_by_its_last_line(saved: Path) -> None:
    path = saved / "results" / "growth.json"
    path.write_text(f"machine\n  cores  2\n{path.read_text()}\n")
    assert run(saved) == 0
    assert "| recall | 1.2 ms |" in (saved / "speed.md").read_text()


@pytest.mark.parametrize(("name", "text"), [("growth.json", '{"sizes": '), ("power.json", ""), ("torture.json", "[1, 2]")])
def test_a_result_that_cannot_be_read_is_named(saved: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    (saved / "results" / name).write_text(text)
    assert run(saved) == 2
    assert name in capsys.readouterr().err


def test_the_pages_of_the_docs_are_those_of_their_results() -> None:
    assert main(["--check"]) == 0, "run `python -m bench report`"


def test_a_result_says_what_it_was_measured_on(tmp_path: Path) -> None:
    head = result_head("growth", ["--sizes", "1k", "--json"])
    assert head["command"] == "python -m bench growth --sizes 1k"
    assert {"python", "sqlite", "cores", "commit", "date", "keepstone"} <= set(head["machine"])
    assert commit(tmp_path) == "unknown"
