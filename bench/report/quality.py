"""The page about quality: public benchmarks, everyday questions, languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.everyday.figures import ROWS, at
from bench.everyday.people import SPLITS
from bench.languages.data import NAMES
from bench.report import pages
from bench.report.charts import Bar, Panel, bars, reliability
from bench.report.figures import count, share
from bench.report.results import Results

LEAD = """How often recall finds what answers a question, and stays silent when nothing does. No language model takes part.
[Method](#method) says what was fitted on what."""
_METRICS = ("r@1", "any@5", "all@5", "any@10", "all@10", "frac@10")
_PUBLIC = {  # a result: the prefix of its figures and what they are of
    "quality-longmemeval": {"": "LongMemEval-S, sessions, development questions"},
    "quality-locomo": {"": "LoCoMo, single turns", "session_": "LoCoMo, sessions"},
}
_LANGUAGE_COLUMNS = {
    "first": "first",
    "five": "among five",
    "cross_first": "English question: first",
    "cross_five": "among five",
    "unrelated_silent": "unrelated: silent",
    "auroc": "AUROC",
    "update_first": "updates: new first",
}
METHOD = """## Method

**Public benchmarks.** Each conversation is stored with `ingest`, turn by turn with names and dates; questions are asked
with `recall(limit=50, asked_at=…, min_confidence=0)`. `r@1`: the first hit answers. `any@5`, `all@5`: one or all of the
places that answer are among the first five. `frac@10`: the mean share among ten. The ranking weights were fitted on the 50
LongMemEval questions and on conversations written for this project (`bench/data/conversations`), so the LongMemEval figures
are not held out. LoCoMo was never fitted on, but was looked at when features were chosen: it is validation. 99 of its 1,540
answer keys are known to be wrong.

**Everyday.** Twelve people and teams, written for this project, each with a store of about a hundred dated statements:
facts, small talk, news that replaces older statements, standing instructions. `remember(text, occurred_at=…)`, then
`recall(question, limit=5, asked_at=…)` with defaults. Six people are for development, six for test; nothing was tuned on
the second half. *Unanswerable*: questions about the world, questions that presume something never said, and questions for
an attribute never said of a known person. *AUROC*: how well the best score separates answerable questions from the others;
.5 is chance. *Calibration error*: mean distance between score and share of right hits, in ten bins. *Traps*: a later
statement that replaces nothing. *Contradictions* are looked for in what `upkeep.verify()` reports. Intervals are 95 %, over
questions.

**Languages.** For each language at least 20 facts and 20 questions that avoid the words of the fact, 10 questions without
an answer and 5 updates (`bench/languages`).

## What falls short

- **Attributes never said, false premises.** Without the reader most such questions bring a hit; its score is low on
  average, not low enough to be silent. With the reader (`context()`, tools, agents) it is better.
- **Updates in other words.** A new statement that shares no word with the question is often not among the first five.
- **Several places at once.** LoCoMo's multi-hop questions rarely have all of their turns among the first five: each turn is
  ranked by itself.
- **Paraphrases.** A sum of word vectors does not read a sentence. MiniLM (`embedder="minilm"`) finds more of them, at many
  times the cost.
- **Languages.** Other languages are well below English.

## More figures

```console
$ python -m bench facts
$ python -m bench dedupe
$ python -m bench guard
$ python -m bench compaction
$ python -m bench year
```

Precision of the rules that learn facts, near-duplicates, sensitive data and injections, what compaction costs in quality,
and twenty people who talk every day for a year."""


def made(results: Results) -> dict[str, str]:
    """The page and its charts."""
    files: dict[str, str] = {}
    parts = ["## Public benchmarks", *_public(results), "## Everyday questions", *_everyday(results, files)]
    parts += ["## Languages", *_languages(results, files), METHOD]
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
    return [*shown, *(pages.source(results, name) for name in _PUBLIC)]


def _everyday(results: Results, files: dict[str, str]) -> list[str]:
    names = {f"everyday-{split}": split for split in SPLITS} | {"everyday-reader": "development, with reader"}
    saved = {title: found for name, title in names.items() if (found := results.get(name)) is not None}
    parts = []
    if saved:
        heads = ["", "questions", *(head for title in saved for head in (title, "95 %"))]
        rows = []
        for path, says in ROWS.items():
            asked = next((found["questions"][path] for found in saved.values() if at(found, path) is not None), None)
            cells = [cell for found in saved.values() for cell in _cells(found, path)]
            rows.append([says, "–" if asked is None else count(asked), *cells])
        parts.append(pages.table(heads, rows))
    for split in SPLITS:
        if (found := results.get(f"everyday-{split}")) is not None:
            file = f"everyday-{split}.svg"
            files[file] = reliability(f"The score of the best hit, {split} people", found["calibration"])
            parts.append(pages.image(file, f"Share of best hits that are right by score, {split} people"))
    return [*parts, *(pages.source(results, name) for name in names)]


def _cells(found: dict[str, Any], path: str) -> list[str]:
    if (value := at(found, path)) is None:
        return ["–", "–"]
    return [share(value), "–".join(share(bound) for bound in found["intervals"][path])]


def _languages(results: Results, files: dict[str, str]) -> list[str]:
    parts = []
    for name in ("languages", "languages-test"):
        if (found := results.get(name)) is None:
            parts.append(pages.missing(name))
            continue
        each = found["languages"]
        rows = [[NAMES[code], *_language_cells(figures)] for code, figures in each.items()]
        rows.append(["**mean without English**", *_language_cells(found["mean"])])
        if name == "languages":
            chart = {"Asked in the same language": "five", "Asked in English": "cross_five"}
            panels = [Panel(title, tuple(_bars(found, figure)), 1.0) for title, figure in chart.items()]
            says = "Share of questions whose answer is among five hits"
            files["languages.svg"] = bars(f"Recall by language, {found['split']} questions", says, panels)
            parts.append(pages.image("languages.svg", "Share of questions answered among five hits, by language"))
        parts += [f"**{found['split'].capitalize()} questions:**", pages.table(["", *_LANGUAGE_COLUMNS.values()], rows)]
        if mixed := found.get("mixed"):
            parts.append(
                f"Stores that mix languages, {count(mixed['questions'])} questions: {share(mixed['first'])} first, "
                f"{share(mixed['five'])} among five."
            )
        parts.append(pages.source(results, name))
    return parts


def _language_cells(figures: Mapping[str, Any]) -> list[str]:
    return ["–" if figures[name] is None else share(figures[name]) for name in _LANGUAGE_COLUMNS]


def _bars(found: dict[str, Any], name: str) -> list[Bar]:
    """A bar for each language that has the figure, and one for the mean."""
    rows = [(NAMES[code], each[name], "grey" if code == "en" else "blue") for code, each in found["languages"].items()]
    rows.append(("Mean", found["mean"][name], "ours"))
    return [Bar(title, value or 0.0, "–" if value is None else share(value), tone=tone) for title, value, tone in rows]
