"""How well recall finds facts in other languages than English, and whether it stays silent where nothing answers.

Each language is one store: a user's facts, told one by one with their days. Questions paraphrase the facts; about one in
seven shares a content word with its fact. Shares are of `recall(limit=5)` with the default threshold. The JSON object has
`languages`, `mean` (over the languages without English, which is the reference) and `mixed` (stores with several languages):

- `first`, `five`: questions whose answer is the first hit, or among five; `word_first`, `word_five`: of those the ones that
  share a word; `cross_first`, `cross_five`: English questions about facts in the other language.
- `nothing`: answerable questions that bring nothing back.
- `unrelated_silent`: unrelated questions that bring nothing back; `unanswerable_silent`: those, false premises and details
  that were never said.
- `auroc`: how often an answerable question has a better best hit than an unanswerable one, by `hit.score` and without a
  threshold; 0.5 is chance.
- `update_first`: questions about what has changed whose first hit is the newer statement; `update_other_words_first`: of those
  the ones whose two statements share no content word.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.languages.data import NAMES, SPLITS, Question, Store, load_language, load_mixed
from bench.report.stamp import result_head
from keepstone import Memory
from keepstone.errors import KeepstoneError

LIMIT = 5
UNANSWERABLE = ("unrelated", "false_premise", "never_said")
OWN = ("own", "own_word")
UPDATES = ("update_shared", "update_other")
COLUMNS = {
    "first": "first", "five": "in five", "word_five": "a word: in five", "cross_first": "English: first", "cross_five": "in five",
    "nothing": "nothing", "unrelated_silent": "unrelated: silent", "unanswerable_silent": "all: silent", "auroc": "AUROC",
    "update_first": "update first",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """A question with the texts that recall returned, and the score of the best hit when there is no threshold."""

    question: Question
    found: tuple[str, ...]
    best: float


def ask(store: Store, embedder: str, limit: int | None = None) -> list[Result]:
    """Tell a new memory the statements and ask it the questions, at most `limit` of each kind."""
    asked: list[Result] = []
    with Memory.open(":memory:", embedder=embedder) as memory:
        for statement in store.statements:
            memory.remember(statement.text, occurred_at=statement.said)
        for question in select(store.questions, limit):
            found = tuple(hit.content for hit in memory.recall(question.text, limit=LIMIT))
            best = memory.recall(question.text, limit=1, min_similarity=0)
            asked.append(Result(question, found, best[0].score if best else 0.0))
    return asked


def select(questions: Iterable[Question], limit: int | None) -> list[Question]:
    """The first questions of each kind."""
    kept: dict[str, list[Question]] = {}
    for question in questions:
        kept.setdefault(question.kind, []).append(question)
    return [question for each in kept.values() for question in each[:limit]]


# -- figures ------------------------------------------------------------------------------------------------------
def language_figures(asked: Sequence[Result]) -> dict[str, Any]:
    """The figures of one language; None for what was not asked."""
    own, cross, unanswerable = _of(asked, *OWN), _of(asked, "cross"), _of(asked, *UNANSWERABLE)
    word = _of(asked, "own_word")
    counts = {"own": own, "cross": cross, "unanswerable": unanswerable, "updates": _of(asked, *UPDATES)}
    return {
        "questions": {"all": len(asked), **{name: len(part) for name, part in counts.items()}},
        "first": _within(own, 1),
        "five": _within(own, LIMIT),
        "word_first": _within(word, 1),
        "word_five": _within(word, LIMIT),
        "cross_first": _within(cross, 1),
        "cross_five": _within(cross, LIMIT),
        "nothing": _silent(own),
        "unrelated_silent": _silent(_of(asked, "unrelated")),
        "unanswerable_silent": _silent(unanswerable),
        "auroc": auroc([each.best for each in own], [each.best for each in unanswerable]),
        "update_first": _within(_of(asked, *UPDATES), 1),
        "update_other_words_first": _within(_of(asked, "update_other"), 1),
    }


def mixed_figures(asked: Sequence[Result]) -> dict[str, Any]:
    """The figures of the stores with several languages, also by whether question and fact have the same language."""
    parts = {"": asked, "same_": _of(asked, "mixed_same"), "other_": _of(asked, "mixed_other")}
    found: dict[str, Any] = {"questions": len(asked)}
    for name, part in parts.items():
        found |= {f"{name}first": _within(part, 1), f"{name}five": _within(part, LIMIT)}
    return found


def mean_figures(languages: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """The mean of every figure over the languages that have it. English is the reference and counts only where it is alone."""
    rows = [figures for language, figures in languages.items() if language != "en"] or list(languages.values())
    names = [name for name in rows[0] if name != "questions"]
    values = {name: [row[name] for row in rows if row[name] is not None] for name in names}
    return {name: round(sum(each) / len(each), 4) if each else None for name, each in values.items()}


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """The share of pairs in which the positive value is larger; a tie counts half.

    >>> auroc([0.9, 0.4], [0.4, 0.1])
    0.875
    """
    if not positive or not negative:
        return None
    wins = sum((one > other) + (one == other) / 2 for one in positive for other in negative)
    return round(wins / (len(positive) * len(negative)), 4)


def _of(asked: Sequence[Result], *kinds: str) -> list[Result]:
    return [each for each in asked if each.question.kind in kinds]


def _within(asked: Sequence[Result], places: int) -> float | None:
    return _share(each.question.answer in each.found[:places] for each in asked)


def _silent(asked: Sequence[Result]) -> float | None:
    return _share(not each.found for each in asked)


def _share(told: Iterable[bool]) -> float | None:
    values = list(told)
    return round(sum(values) / len(values), 4) if values else None


# -- the command --------------------------------------------------------------------------------------------------
def measure(split: str, languages: Sequence[str], embedder: str, limit: int | None) -> tuple[dict[str, Any], list[Result]]:
    """Every figure, and what was asked; stores with several languages are asked where all languages are."""
    asked = {language: ask(load_language(language, split), embedder, limit) for language in languages}
    figures: dict[str, Any] = {"languages": {language: language_figures(each) for language, each in asked.items()}}
    figures["mean"] = mean_figures(figures["languages"])
    everything = [each for part in asked.values() for each in part]
    if set(languages) == set(NAMES):
        mixed = [each for store in load_mixed(split) for each in ask(store, embedder, limit)]
        figures["mixed"] = mixed_figures(mixed)
        everything += mixed
    return figures, everything


def show(found: dict[str, Any]) -> None:
    """The figures as a table, a language a row."""
    console = Console(width=150)
    table = Table(title=f"{found['split']} split, embedder {found['embedder']}", title_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for language, figures in found["languages"].items():
        table.add_row(NAMES[language], *_cells(figures))
    table.add_section()
    table.add_row("mean without English", *_cells(found["mean"]))
    console.print(table)
    if "mixed" in found:
        mixed = found["mixed"]
        titles = {"": "all", "same_": "asked in the fact's language", "other_": "in another"}
        told = [
            f"{title} {mixed[f'{name}first']:.1%} first, {mixed[f'{name}five']:.1%} in five" for name, title in titles.items()
        ]
        console.print(f"stores with several languages, {mixed['questions']} questions: {'; '.join(told)}")
    console.print(f"{found['seconds']} s")


def _cells(figures: dict[str, Any]) -> list[str]:
    shown = {name: "{:.3f}" if name == "auroc" else "{:.1%}" for name in COLUMNS}
    return ["-" if figures[name] is None else shown[name].format(figures[name]) for name in COLUMNS]


def show_misses(asked: Iterable[Result]) -> None:
    """Every question whose first hit is wrong, with what came first."""
    for each in asked:
        first = each.found[0] if each.found else ""
        if first != each.question.answer:
            print(f"{each.question.kind}: {each.question.text}\n  expected {each.question.answer!r}\n  first    {first!r}")


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench languages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--split", choices=SPLITS, default=SPLITS[0], help="which half of the data (default development)")
    parser.add_argument("--languages", default=",".join(NAMES), help=f"some of {','.join(NAMES)} (default all, and mixed stores)")
    parser.add_argument("--embedder", default="auto", help='an embedder\'s name, such as "auto" or "none"')
    parser.add_argument("--limit", type=int, help="ask the first N questions of each kind only")
    parser.add_argument("--misses", action="store_true", help="print what was missed; only for the development split")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    languages = options.languages.split(",")
    if unknown := [each for each in languages if each not in NAMES]:
        parser.error(f"unknown language {unknown[0]!r}: use some of {','.join(NAMES)}")
    if options.limit is not None and options.limit < 1:
        parser.error(f"--limit is {options.limit}: give 1 or more")
    if options.misses and options.split != "development":
        parser.error("--misses shows single questions, and those of the test split stay unread: use --split development")
    begun = time.perf_counter()
    try:
        figures, asked = measure(options.split, languages, options.embedder, options.limit)
    except KeepstoneError as error:
        print(f"bench languages: {error}", file=sys.stderr)
        return 2
    seconds = round(time.perf_counter() - begun, 1)
    found = {
        **result_head("languages", argv),
        "split": options.split,
        "embedder": options.embedder,
        **figures,
        "seconds": seconds,
    }
    if options.misses:
        show_misses(asked)
    if not options.json:
        show(found)
    print(json.dumps(found))
    return 0
