"""How often recall finds what answers a question about long conversations. Run with `python -m bench quality`.

Every conversation goes into a store of its own, turn by turn as messages with their dates, under neutral session names;
then its questions are asked, once with no threshold and once with the default one. The CPU time is that of one recall of
five hits, every thread of the process counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from bench import threshold
from bench.datasets import OWN, READERS, Case, DatasetError, Question, load, read_text
from bench.report.stamp import result_head
from bench.retrieval import METRICS, Asked, Found, Scores, intervals, means, rank_units, scored
from keepstone import KeepstoneError, Memory, Recall
from keepstone.errors import ValidationError

LIMIT = 50  # hits a question
TIMED = 5  # hits of the recall whose time is taken
Places = dict[str, tuple[str, str]]  # of a record's id: the unit that is scored, and the turn


def fill(memory: Memory, case: Case) -> tuple[Places, int]:
    """Ingest a case in the order of its dates. Returns where each record belongs, and how many turns were refused."""
    places: Places = {}
    skipped = 0
    numbered = [(f"s{number:04}", session) for number, session in enumerate(case.sessions, 1)]
    for name, session in sorted(numbered, key=lambda each: each[1].when):
        units = [(session.unit if case.unit == "session" else turn.unit, turn.unit) for turn in session.turns]
        messages: list[dict[str, Any]] = [
            {"role": turn.role, "content": turn.text, "name": turn.name, "at": session.when} for turn in session.turns
        ]
        try:
            receipts = memory.ingest(messages, session=name)
        except ValidationError:  # its only turn is empty, invisible or too long
            skipped += 1
            continue
        places.update((receipt.id, unit) for receipt, unit in zip(receipts, units, strict=True) if receipt.id is not None)
        skipped += sum(receipt.id is None for receipt in receipts)
    return places, skipped


def ask(memory: Memory, question: str, when: datetime, min_similarity: float | None, limit: int = LIMIT) -> Recall:
    """The hits of a question that is asked at a time. `as_of` would be another thing: it hides what was said later, and some
    datasets ask before the last session."""
    return memory.recall(question, limit=limit, kinds={"message"}, min_similarity=min_similarity, asked_at=when)


@dataclass(frozen=True, slots=True)
class Ran:
    """Questions with their hits, counts of turns stored and turns refused, and the CPU time of a recall for each question."""

    asked: list[Asked]
    turns: int
    skipped: int
    cpu_ms: list[float]


def run(case: Case, embedder: str, limit: int = LIMIT) -> Ran:
    """Ask every question of a case."""
    with Memory.open(":memory:", embedder=embedder) as memory:
        places, skipped = fill(memory, case)
        ask(memory, "Is everything in memory?", case.questions[0].asked, 0, TIMED)  # the first recall loads the scope
        cpu_ms: list[float] = []
        sessions = {turn.unit: session.unit for session in case.sessions for turn in session.turns}

        def hits(question: Question, min_similarity: float | None) -> tuple[Found, ...]:
            found = ask(memory, question.text, question.asked, min_similarity, limit)
            return tuple(
                Found(*places[hit.id], hit.score, hit.signals.get("similarity", hit.score), sessions[places[hit.id][1]])
                for hit in found
            )

        def time_question(question: Question) -> Asked:
            begun = time.process_time()
            ask(memory, question.text, question.asked, None, TIMED)
            cpu_ms.append((time.process_time() - begun) * 1000)
            free, default = hits(question, 0), hits(question, None)
            gold_sessions = frozenset(sessions[turn] for turn in question.gold) if case.unit == "turn" else frozenset()
            return Asked(question.id, question.type, question.text, question.gold, question.gold_turns, question.absent,
                         free, default, gold_sessions)  # fmt: skip

        asked = [time_question(each) for each in case.questions]
    return Ran(asked, len(places), skipped, cpu_ms)


def run_all(cases: Sequence[Case], embedder: str, jobs: int, limit: int = LIMIT) -> Ran:
    """Run cases side by side; the order of the results is that of the cases."""
    ran: list[Ran] = []
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("questions", total=sum(len(case.questions) for case in cases))
        for each in _results(cases, partial(run, embedder=embedder, limit=limit), min(jobs, len(cases))):
            ran.append(each)
            progress.advance(task, len(each.asked))
    return Ran(
        [one for each in ran for one in each.asked],
        sum(each.turns for each in ran),
        sum(each.skipped for each in ran),
        [one for each in ran for one in each.cpu_ms],
    )


def _results(cases: Sequence[Case], work: Callable[[Case], Ran], jobs: int) -> Iterator[Ran]:
    if jobs <= 1:
        yield from map(work, cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, cases)


# -- which questions ----------------------------------------------------------------------------------------------
def chosen(cases: Sequence[Case], ids: Collection[str] | None, limit: int | None) -> tuple[list[Case], int]:
    """The cases with only the questions that are asked for and can be scored, and how many cannot: they name nothing that
    is there, and do not claim to be absent."""
    if ids is not None:
        ids = set(ids)
        unknown = sorted(ids - {question.id for case in cases for question in case.questions})
        if unknown:
            raise DatasetError(f"the data has no question {unknown[0]!r} ({len(unknown)} of {len(ids)} ids are unknown).")
    left, left_out, found = limit, 0, []
    for case in cases:
        wanted = [each for each in case.questions if ids is None or each.id in ids]
        usable = [each for each in wanted if each.gold or each.absent][:left]
        left_out += sum(not each.gold and not each.absent for each in wanted) if left != 0 else 0
        left = None if left is None else left - len(usable)
        if usable:
            found.append(replace(case, questions=tuple(usable)))
    if not found:
        raise DatasetError("no question is left to ask: look at --ids and --limit.")
    return found, left_out


def read_ids(path: Path) -> list[str]:
    """Question ids from a file: one a line, or a JSON list."""
    text = read_text(path).strip()
    try:
        ids = json.loads(text) if text.startswith("[") else text.split("\n")
    except ValueError as error:
        raise DatasetError(f"{path} is no JSON list ({error}): write one id a line, or a JSON list of ids.") from None
    return [str(id).strip() for id in ids if str(id).strip()]


# -- figures ------------------------------------------------------------------------------------------------------
def figures(asked: Sequence[Asked]) -> dict[str, Any]:
    """Every figure of the questions that were asked."""
    answerable = [each for each in asked if each.gold]
    rows = [scored(rank_units(each.hits), each.gold) for each in answerable]
    default = means([scored(rank_units(each.default), each.gold) for each in answerable])
    nothing = sum(not each.default for each in answerable) / max(1, len(answerable))
    found: dict[str, Any] = {
        **means(rows),
        "questions": len(answerable),
        "intervals": intervals(rows),
        "with_default_threshold": {**default, "nothing_recalled": round(nothing, 4)},
        "types": {
            kind: _part([row for each, row in zip(answerable, rows, strict=True) if each.type == kind])
            for kind in sorted({each.type for each in answerable})
        },
    }
    if near := [each for each in answerable if each.absent]:
        kept = [row for each, row in zip(answerable, rows, strict=True) if not each.absent]
        found |= {"abstention_questions": len(near), "without_abstention": _part(kept)}
    if marked := [each for each in answerable if each.gold_turns]:
        turns = means([scored([hit.turn for hit in each.hits], each.gold_turns) for each in marked])
        found |= {f"turn_{name}": value for name, value in turns.items()} | {"turn_questions": len(marked)}
    if within := [each for each in answerable if each.gold_sessions]:
        order = [list(dict.fromkeys(hit.session for hit in each.hits)) for each in within]
        sessions = means([scored(units, each.gold_sessions) for units, each in zip(order, within, strict=True)])
        found |= {f"session_{name}": value for name, value in sessions.items()} | {"session_questions": len(within)}
    if absent := [each for each in asked if each.absent and not each.gold]:
        recalled = sum(bool(each.default) for each in absent) / len(absent)
        found |= {"absent_questions": len(absent), "absent_recalled": round(recalled, 4)}
    return found


def _part(rows: Sequence[Scores]) -> dict[str, Any]:
    return {"questions": len(rows), **means(rows)}


def show(found: dict[str, Any]) -> None:
    """The figures as tables."""
    console = Console(width=max(132, Console().width))
    title = f"{found['dataset']}: {found['unit']}s found, embedder {found['embedder']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for name in ("questions", *METRICS):
        table.add_column(name, justify="right")
    _row(table, "all", found)
    table.add_row("  95 %", "", *("–".join(f"{bound:.1%}".rstrip("%") for bound in found["intervals"][name]) for name in METRICS))
    _row(table, "default threshold", {"questions": found["questions"], **found["with_default_threshold"]})
    if "without_abstention" in found:
        _row(table, "without abstention", found["without_abstention"])
    for level in ("turn", "session"):
        if f"{level}_questions" in found:
            part = {name: found[f"{level}_{name}"] for name in ("questions", *METRICS)}
            _row(table, f"{level}s", part)
    table.add_section()
    for kind, part in found["types"].items():
        _row(table, kind, part)
    console.print(table)
    if "absent_recalled" in found:
        share = f"{found['absent_recalled']:.1%} of {found['absent_questions']}"
        console.print(f"absent questions that bring something back with the default threshold: {share}", soft_wrap=True)
    if "curve" in found:
        threshold.show(found, console)
    counts = f"{found['turns']} turns, {found['skipped_turns']} skipped, {found['left_out']} questions left out"
    console.print(f"a recall of {TIMED} hits takes {found['recall_cpu_ms']} ms of CPU (p50)", soft_wrap=True)
    console.print(f"{counts}, {found['seconds']} s with {found['jobs']} jobs", soft_wrap=True)


def _row(table: Table, name: str, part: dict[str, Any]) -> None:
    table.add_row(name, str(part["questions"]), *(f"{part[metric]:.1%}" for metric in METRICS))


def write_rankings(path: Path, asked: Sequence[Asked]) -> None:
    """One JSON object a question: the gold units, and the units found with the score of each one's best hit."""
    with path.open("w", encoding="utf-8") as file:
        for each in asked:
            order = rank_units(each.hits)
            line = {"id": each.id, "type": each.type, "question": each.text, "gold": sorted(each.gold),
                    "ranked": list(order), "scores": list(order.values())}  # fmt: skip
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", required=True, choices=list(READERS), help="the format of the data")
    parser.add_argument("--data", type=Path, help=f"the file (own: also a folder; default {OWN.relative_to(OWN.parents[2])})")
    parser.add_argument("--ids", type=Path, help="ask only the questions whose ids are in this file, one a line or a JSON list")
    parser.add_argument("--embedder", default="auto", help='an embedder\'s name, such as "auto" or "none"')
    parser.add_argument("--limit", type=_count, help="ask the first N questions only")
    parser.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, help="processes side by side (default: the cores)")
    parser.add_argument("--rankings", type=Path, help="write what was found for each question to this file, as JSONL")
    parser.add_argument("--curve", action="store_true", help="what each threshold does to absent questions and to others")
    parser.add_argument("--peers", help="compare with other memories: all, or some of chroma,mem0,langgraph,mempalace,fts5,numpy")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _beside(parser: argparse.ArgumentParser, options: argparse.Namespace, cases: list[Case], argv: list[str]) -> int:
    """Ask other memories, too, each in a process of its own."""
    from bench.peers import command, quality

    try:
        names = command.parse_names(options.peers)
    except ValueError as error:
        parser.error(str(error))
    found = quality.measure_peers(cases, options.dataset, names, options.embedder, options.jobs, argv)
    if not options.json:
        quality.show(found)
    print(json.dumps(found))
    return 0


def main(argv: list[str]) -> int:
    """Print the tables (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench quality", description=__doc__)
    _options(parser)
    options = parser.parse_args(argv)
    if options.data is None and options.dataset != "own":
        parser.error(f"--data is needed: the file of {options.dataset}, as its authors publish it")
    try:
        ids = None if options.ids is None else read_ids(options.ids)
        cases, left_out = chosen(load(options.dataset, options.data or OWN), ids, options.limit)
        if options.curve and not any(each.absent and not each.gold for case in cases for each in case.questions):
            raise DatasetError("--curve needs questions without an answer, and here are none: use --dataset own.")
        Memory.open(":memory:", embedder=options.embedder).close()  # a wrong name is told before the work begins
        if options.rankings is not None:
            options.rankings.touch()
    except (DatasetError, KeepstoneError, OSError) as error:
        print(f"bench quality: {error}", file=sys.stderr)
        return 2
    if options.peers:
        return _beside(parser, options, cases, argv)
    begun = time.perf_counter()
    ran = run_all(cases, options.embedder, options.jobs)
    seconds = round(time.perf_counter() - begun, 2)
    found = {**result_head("quality", argv), "dataset": options.dataset, **figures(ran.asked), "seconds": seconds,
             "recall_cpu_ms": round(statistics.median(ran.cpu_ms), 3), "embedder": options.embedder, "unit": cases[0].unit,
             "turns": ran.turns, "skipped_turns": ran.skipped, "left_out": left_out,
             "jobs": min(options.jobs, len(cases))}  # fmt: skip
    if options.curve:
        found |= threshold.measure(cases, partial(run_all, embedder=options.embedder, jobs=options.jobs, limit=TIMED))
    if options.rankings is not None:
        write_rankings(options.rankings, ran.asked)
    if not options.json:
        show(found)
    print(json.dumps(found))
    return 0
