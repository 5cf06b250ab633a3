"""Recall of everyday statements: is the right one found, is recall silent when nothing answers, is the newer statement first?

Each person's statements are remembered in the order they were told, in a store of their own, and the questions are asked with
the defaults. Ranking is tuned on the development split only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.datasets import DatasetError
from bench.everyday.asking import Answer, Answers, ask
from bench.everyday.figures import ROWS, at, compute_figures
from bench.everyday.people import SPLITS, Person, load
from bench.report.charts import reliability
from bench.report.stamp import result_head
from keepstone import KeepstoneError, Memory


def run(people: Sequence[Person], embedder: str, reader: str = "auto") -> tuple[dict[str, Any], list[Answers]]:
    """The figures of some people, those of each, and the answers."""
    answers = [ask(person, embedder, reader) for person in people]
    by_person = {each.person.name: _by_path(compute_figures([each], resamples=0)) for each in answers}
    statements = sum(len(person.statements) for person in people)
    return {
        "embedder": embedder,
        "reader": reader,
        "statements": statements,
        **compute_figures(answers),
        "people": by_person,
    }, answers


def _by_path(figures: dict[str, Any]) -> dict[str, Any]:
    return {path: at(figures, path) for path in ROWS if at(figures, path) is not None}


def show(figures: dict[str, Any]) -> None:
    """The figures as a table."""
    console = Console(width=max(100, Console().width))
    title = f"everyday, {figures['split']}: {len(figures['people'])} people, embedder {figures['embedder']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for name in ("questions", "figure", "95 %"):
        table.add_column(name, justify="right")
    for path, title in ROWS.items():
        if (value := at(figures, path)) is not None:
            low, high = figures["intervals"][path]
            table.add_row(title, str(figures["questions"][path]), f"{value:.3f}", f"{low:.3f}–{high:.3f}")
    console.print(table)
    console.print(f"{figures['statements']} statements, {figures['seconds']} s", soft_wrap=True)


def errors(answers: Sequence[Answers]) -> Iterator[str]:
    """Every question that went wrong, with what was recalled first."""
    for each in answers:
        texts = {statement.id: statement.text for statement in each.person.statements}

        def told(kind: str, answer: Answer, texts: dict[str, str] = texts) -> str:
            first = texts[min(answer.hits[0])] if answer.hits else "nothing"
            gold = " / ".join(texts[id] for id in answer.question.gold) or "nothing"
            return f"{kind}: {answer.question.text}\n  wanted {gold}\n  got {answer.score:.2f} {first}"

        yield f"# {each.person.name}"
        yield from (told("answerable", answer) for answer in each.answerable if not answer.first)
        yield from (told(answer.question.kind, answer) for answer in each.unanswerable if not answer.silent)
        yield from (told("update", answer) for _, answer in each.updates if not answer.first)
        yield from (told("trap", answer) for answer in each.traps if not answer.among)
        yield from (told("time", answer) for answer in each.times if not answer.first)
        yield from (f"instruction: {one.task}\n  wanted {texts[one.statement]}" for one, there in each.instructions if not there)
        yield from (f"contradiction: {one.old.text}\n  {one.new.text}" for one, found in each.contradictions if not found)


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench everyday", description=__doc__)
    parser.add_argument("--split", choices=SPLITS, default=SPLITS[0], help="whose statements (default: development)")
    parser.add_argument("--people", default="", help="only these, separated by commas")
    parser.add_argument("--embedder", default="auto", help='an embedder\'s name, such as "auto" or "none"')
    parser.add_argument("--reader", action="store_true", help="the reader judges the first hits of every recall")
    parser.add_argument("--svg", type=Path, help="write the reliability diagram to this file")
    parser.add_argument("--errors", action="store_true", help="print every question that went wrong (development only)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    if options.errors and options.split != SPLITS[0]:
        parser.error("--errors shows questions, and those of the test split are not to be looked at: use --split development.")
    begun = time.perf_counter()
    try:
        people = load(options.split, [name.strip() for name in options.people.split(",") if name.strip()])
        Memory.open(":memory:", embedder=options.embedder).close()  # a wrong name is told before the work begins
        figures, answers = run(people, options.embedder, "always" if options.reader else "auto")
        figures = {**result_head("everyday", argv), "split": options.split, **figures}
        figures["seconds"] = round(time.perf_counter() - begun, 2)
        if options.svg is not None:
            options.svg.write_text(reliability(f"Everyday, {options.split}", figures["calibration"]), encoding="utf-8")
    except (DatasetError, KeepstoneError, OSError) as error:
        print(f"bench everyday: {error}", file=sys.stderr)
        return 2
    if options.errors:
        print("\n".join(errors(answers)))
    if not options.json:
        show(figures)
    print(json.dumps(figures))
    return 0
