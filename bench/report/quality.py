"""The page about quality: public benchmarks, everyday questions, languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.everyday.figures import ROWS, at
from bench.languages.data import NAMES
from bench.report import pages
from bench.report.charts import Bar, Panel, bars, reliability
from bench.report.figures import count, share
from bench.report.results import Results

LEAD = """How often recall finds the memory that answers a question, and returns nothing when none does. No language model is
used. [Method](#method) names the data that the weights were fitted on, [Sources](#sources) the commands."""
_METRICS = ("r@1", "any@5", "all@5", "any@10", "all@10", "frac@10")
_PUBLIC = {  # a result: the prefix of its figures and what they are of
    "quality-longmemeval": {"": "LongMemEval-S, sessions, development questions"},
    "quality-locomo": {"": "LoCoMo, single turns", "session_": "LoCoMo, sessions"},
}
_LANGUAGE_COLUMNS = {
    "first": "first",
    "five": "among five",
    "cross_five": "asked in English: among five",
    "unrelated_silent": "unrelated: silent",
}
_LANGUAGES = "languages-test"
_EVERYDAY = {"everyday-test": "`recall`", "everyday-reader-test": "with the reader"}
METHOD = """## Method

**Public benchmarks.** Each conversation is stored with `ingest`, with names and dates; questions are asked with
`recall(limit=50, asked_at=…, min_confidence=0)`. `r@1`: the first hit answers. `any@5`, `all@5`: one or all of the answering
places are among the first five. `frac@10`: their mean share among ten. The weights were fitted on the 50 LongMemEval
questions and on conversations written for this project, so the LongMemEval figures are not held out. LoCoMo was not fitted
on, but features were chosen with it in view. Some of its answer keys are known to be wrong.

**Everyday.** Six people and teams, written for this project, each with a store of about a hundred dated statements. Nothing
was tuned on them; `python -m bench everyday` measures six others, for development. *Unanswerable* questions are about the world
(*unrelated*), presume something never said (*false premise*: the name of a dog, where there is no dog), or ask for an
attribute never said of a known person. *AUROC*: how well the best score separates answerable questions from these; .5 is
chance. *Calibration error*: mean distance between score and share of right hits, in ten bins. *Updates*: a later statement
replaces an earlier one. *Traps*: a later statement looks like an update and replaces nothing. In brackets: 95 % intervals.

**Languages.** For each language: 38 questions that avoid the words of the fact, about 20 more asked in English, 12 questions
without an answer, and 6 updates. Nothing was tuned on them; `python -m bench languages` measures the questions for
development.

## What falls short

- **Attributes never said, false premises.** Nearly all such questions bring a hit in plain `recall`, and about four in ten
  with the reader (`context()`, tools, agents).
- **Updates in other words.** Plain `recall` finds half of the new statements among five hits, and few that share no word with
  the old one come first.
- **Several places at once.** LoCoMo's multi-hop questions rarely have all of their turns among the first five.
- **Paraphrases.** The built-in embedder adds word vectors and does not read sentences.
- **Languages.** Other languages are well below English.

## More figures

```console
$ python -m bench facts
$ python -m bench dedupe
$ python -m bench guard
$ python -m bench compaction
$ python -m bench year
```

They measure the rules that learn facts, near-duplicates, detectors, compaction, and a simulated year of twenty people."""


def render(results: Results) -> dict[str, str]:
    """The page and its charts."""
    files: dict[str, str] = {}
    parts = ["## Public benchmarks", *_public(results), "## Everyday questions", *_everyday(results, files)]
    parts += ["## Languages", *_languages(results, files), METHOD]
    parts.append(pages.sources(results, [*_PUBLIC, *_EVERYDAY, _LANGUAGES]))
    return {**files, "quality.md": pages.page("Quality", LEAD, parts)}


def _public(results: Results) -> list[str]:
    rows = []
    for name, views in _PUBLIC.items():
        found = results.get(name) or {}
        for prefix, title in views.items():
            if f"{prefix}any@5" in found:
                told = [share(value) if (value := found.get(prefix + metric)) is not None else "–" for metric in _METRICS]
                rows.append([title, count(found[f"{prefix}questions"]), *told])
    shown = [pages.table(["", "questions", *_METRICS], rows)] if rows else []
    return [*shown, *pages.unmeasured(results, _PUBLIC)]


def _everyday(results: Results, files: dict[str, str]) -> list[str]:
    saved = {title: found for name, title in _EVERYDAY.items() if (found := results.get(name)) is not None}
    parts = []
    if saved:
        heads = ["", "questions", *saved]
        rows = []
        for path, title in ROWS.items():
            asked = next((found["questions"][path] for found in saved.values() if at(found, path) is not None), None)
            rows.append([title, "–" if asked is None else count(asked), *(_cell(found, path) for found in saved.values())])
        parts.append(pages.table(heads, rows))
    if (found := results.get("everyday-test")) is not None:
        files["everyday.svg"] = reliability("The score of the best hit", found["calibration"])
        parts.append(pages.image("everyday.svg", "Share of best hits that are right, by score"))
    return [*parts, *pages.unmeasured(results, _EVERYDAY)]


def _cell(found: dict[str, Any], path: str) -> str:
    if (value := at(found, path)) is None:
        return "–"
    return f"{share(value)} ({'–'.join(share(bound) for bound in found['intervals'][path])})"


def _languages(results: Results, files: dict[str, str]) -> list[str]:
    """A chart, and a table with further figures."""
    if (found := results.get(_LANGUAGES)) is None:
        return pages.unmeasured(results, [_LANGUAGES])
    chart = {"Asked in the same language": "five", "Asked in English": "cross_five"}
    panels = [Panel(title, tuple(_bars(found, figure)), 1.0) for title, figure in chart.items()]
    files["languages.svg"] = bars("Recall by language", "Share of questions whose answer is among five hits", panels)
    rows = [[NAMES[code], *_language_cells(figures)] for code, figures in found["languages"].items()]
    rows.append(["**mean without English**", *_language_cells(found["mean"])])
    return [
        pages.image("languages.svg", "Share of questions answered among five hits, by language"),
        pages.table(["", *_LANGUAGE_COLUMNS.values()], rows),
        _language_note(found),
    ]


def _language_cells(figures: Mapping[str, Any]) -> list[str]:
    return [_share_or_dash(figures.get(name)) for name in _LANGUAGE_COLUMNS]


def _language_note(found: Mapping[str, Any]) -> str:
    """What the table leaves out: means of further figures, and stores that mix languages."""
    auroc, update_first = (_share_or_dash(found["mean"][name]) for name in ("auroc", "update_first"))
    note = f"Mean without English: AUROC {auroc}, the newer statement first {update_first}."
    if mixed := found.get("mixed"):
        note += (
            f" Stores that mix languages, {count(mixed['questions'])} questions: {share(mixed['first'])} first, "
            f"{share(mixed['five'])} among five."
        )
    return note


def _share_or_dash(value: float | None) -> str:
    return "–" if value is None else share(value)


def _bars(found: dict[str, Any], name: str) -> list[Bar]:
    """A bar for each language that has the figure, and one for the mean."""
    rows = [(NAMES[code], each[name], "grey" if code == "en" else "blue") for code, each in found["languages"].items()]
    rows.append(("Mean", found["mean"][name], "ours"))
    return [Bar(title, value or 0.0, "–" if value is None else share(value), tone=tone) for title, value, tone in rows]
