"""The page of the everyday benchmark: figures of both splits, and how far the score is a probability."""

from __future__ import annotations

from typing import Any

from bench.everyday.figures import ROWS, at
from bench.everyday.people import SPLITS
from bench.report import pages
from bench.report.charts import reliability
from bench.report.figures import count, share
from bench.report.results import Results

LEAD = """What a memory does with what people tell an assistant. Twelve people and teams (a student, a nurse, a retired carpenter,
a family, a startup, a farmer and others), written by hand for this, each with a store of about a hundred dated statements:
facts, small talk, news that replaces older statements, standing instructions. Statements are remembered in the order they were
told with `remember(text, occurred_at=…)`, and questions are asked with `recall(question, limit=5, asked_at=…)`; everything
else is the default. No language model takes part. Six people are for *development*, six for *test*; ranking is tuned on the
first six only.

- *Answerable*: the right statement is the first hit, or among the five. About half of the questions share at most one content
  word with it.
- *Unanswerable*: nothing is recalled. Questions are about the world, presume something that was never said, or ask for an
  attribute that was never said of a known person or thing.
- *AUROC*: how well the score of the best hit tells answerable questions from the others; half is chance, and silence counts as
  a score of nothing.
- *Calibration error*: the mean distance, in ten bins of the best hit's score, between the score and the share of best hits
  that are right, over all answerable and unanswerable questions that brought something.
- *Updates*: a later statement replaces an earlier one, and the question is about now. *Traps*: the later statement replaces
  nothing (another person, the past, a wish, one thing more), and what the question needs is among the five.
- *Time questions* are asked on their day, before anything that was told later is in the store.
- *Instructions* are looked for in `context(task)`. *Contradictions* are looked for in the flags of `upkeep.verify()`.

The intervals draw questions anew, as if each had a person of its own."""


def made(results: Results) -> dict[str, str]:
    """The page and its charts."""
    saved = {split: found for split in SPLITS if (found := results.get(f"everyday-{split}")) is not None}
    parts = [pages.source(results, f"everyday-{split}") for split in SPLITS]
    files = {}
    if saved:
        heads = ["", *(head for split in saved for head in ("questions", split, "95 %"))]
        rows = [[says, *(cell for found in saved.values() for cell in _cells(found, path))] for path, says in ROWS.items()]
        parts += ["## Figures", pages.table(heads, rows), "## Is the score a probability?"]
    for split, found in saved.items():
        name = f"everyday-{split}.svg"
        files[name] = reliability(f"The score of the best hit, {split} split", found["calibration"])
        parts.append(pages.image(name, f"Share of best hits that are right by score, {split} split"))
    return {**files, "everyday.md": pages.page("Everyday questions", LEAD, parts)}


def _cells(found: dict[str, Any], path: str) -> list[str]:
    if (value := at(found, path)) is None:
        return ["–", "–", "–"]
    return [count(found["questions"][path]), share(value), "–".join(share(bound) for bound in found["intervals"][path])]
