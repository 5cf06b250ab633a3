"""The page of the languages: what recall finds in each, and whether it stays silent where nothing answers."""

from __future__ import annotations

from typing import Any

from bench.languages.data import NAMES
from bench.report import pages
from bench.report.charts import Bar, Panel, bars
from bench.report.figures import count, share
from bench.report.results import Results

_COLUMNS = {
    "first": "first", "five": "among five", "word_five": "shares a word, among five", "cross_first": "asked in English, first",
    "cross_five": "among five", "nothing": "nothing", "unrelated_silent": "unrelated, silent",
    "unanswerable_silent": "unanswerable, silent", "auroc": "AUROC", "update_first": "update, new first",
}  # fmt: skip
_PANELS = {"first": "First hit answers", "cross_first": "Asked in English", "unrelated_silent": "Unrelated: silent"}
_MIXED = {"": "all", "same_": "asked in the language of the fact", "other_": "asked in another"}
_LEAD = (
    "How well recall works in languages other than English. Each language is one store of facts as a user tells them to an "
    "assistant, written in that language for this benchmark, with names, places and habits of its speakers; what the facts are "
    "about recurs, so that languages can be compared. Questions paraphrase: about one in seven shares a content word with its "
    "fact. Everything goes through `remember` and `recall(limit=5)` with default settings."
)
_MEANING = """- *first*, *among five*: questions whose answer is the first hit, or one of five; also for the questions that share
  a word, and for English questions about facts in the other language.
- *nothing*: answerable questions that bring nothing back.
- *silent*: questions without an answer that bring nothing back. They are unrelated (general knowledge), rest on a false premise,
  or ask for a detail that was never said of a person who is known.
- *AUROC*: how often an answerable question has a better best hit than an unanswerable one, without a threshold; .500 is chance.
- *update*: a newer statement contradicts an older one. Half of these pairs share no content word."""


def made(results: Results) -> dict[str, str]:
    """The page and its chart."""
    found = results.get("languages")
    if found is None:
        return {"languages.md": pages.page("Languages", _LEAD, [pages.missing("languages")])}
    title = f"Recall by language, {found['split']} questions"
    says = "Share of questions; paraphrases of facts, asked in the language of the fact and in English"
    parts = [
        pages.source(results, "languages"),
        f"The figures are of the *{found['split']}* half of the data with the embedder `{found['embedder']}`; ranking is tuned "
        "on the development half only.",
        pages.image("languages.svg", title),
        pages.table(["language", "questions", *_COLUMNS.values()], _rows(found)),
        _MEANING,
        *_mixed(found),
    ]
    return {"languages.md": pages.page("Languages", _LEAD, parts), "languages.svg": bars(title, says, _panels(found))}


def _rows(found: dict[str, Any]) -> list[list[str]]:
    rows = [[NAMES[language], count(each["questions"]["all"]), *_cells(each)] for language, each in found["languages"].items()]
    return [*rows, ["**mean without English**", "", *_cells(found["mean"])]]


def _cells(figures: dict[str, Any]) -> list[str]:
    return ["–" if figures[name] is None else share(figures[name]) for name in _COLUMNS]


def _panels(found: dict[str, Any]) -> list[Panel]:
    return [Panel(title, tuple(_bars(found, name)), 1.0) for name, title in _PANELS.items()]


def _bars(found: dict[str, Any], name: str) -> list[Bar]:
    """A bar for each language that has the figure, and one for the mean."""
    rows = [
        (NAMES[language], each[name], "grey" if language == "en" else "blue") for language, each in found["languages"].items()
    ]
    rows.append(("Mean", found["mean"][name], "ours"))
    return [Bar(title, value or 0.0, "–" if value is None else share(value), tone=tone) for title, value, tone in rows]


def _mixed(found: dict[str, Any]) -> list[str]:
    mixed = found.get("mixed")
    if mixed is None:
        return []
    rows = [[title, share(mixed[f"{name}first"]), share(mixed[f"{name}five"])] for name, title in _MIXED.items()]
    told = f"Stores of one user who speaks several languages, {count(mixed['questions'])} questions."
    return ["## Several languages in one store", told, pages.table(["questions", "first", "among five"], rows)]
