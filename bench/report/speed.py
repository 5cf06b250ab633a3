"""The page about speed: the cost of each verb as a scope grows, and other memories measured in the same run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.measure import ratio
from bench.report import pages
from bench.report.charts import Bar, Panel, Series, bars, lines
from bench.report.figures import count, mb, memories, ms, share, times
from bench.report.results import Results

OURS = "keepstone"
NAMES = {"keepstone": "**keepstone**", "chroma": "Chroma", "mem0": "mem0", "langgraph": "LangGraph store",
         "mempalace": "MemPalace", "fts5": "FTS5 alone", "numpy": "numpy alone"}  # fmt: skip
TONES = {"keepstone": "ours", "chroma": "gold", "mem0": "violet", "langgraph": "blue", "mempalace": "rust", "fts5": "olive",
         "numpy": "grey"}  # fmt: skip
_VERBS = ("recall", "context", "get", "list", "remember", "update", "forget", "remember_many", "ingest")
_MAINTENANCE = ("health", "verify", "compact", "age")
_ROW_TITLES = {"remember_many": "remember_many, 100 at once", "ingest": "ingest, 1,000 messages with facts learned"}
_ROW_TITLES |= {verb: f"{verb}, over all facts" for verb in _MAINTENANCE}
_SIZES: dict[str, tuple[str, Callable[[float], str]]] = {
    "open_ms": ("open the store, wall time", ms), "first_recall_ms": ("first recall, wall time", ms),
    "cli_recall_ms": ("`keepstone recall`, cold, wall time", ms), "cli_recall_cpu_ms": ("`keepstone recall`, cold", ms),
    "resident_mb": ("memory of the process", mb), "disk_mb": ("disk", mb), "found_at_5": ("answers among five hits", share),
    "recall_at_10": ("the ten nearest vectors found", share),
}  # fmt: skip
LEAD = """What each call costs: the median CPU time of the whole process on two cores, unless a heading says otherwise. Compare
figures of one run with each other; milliseconds depend on the machine. [Sources](#sources) lists the commands."""
METHOD = """## Method

**Growth.** One scope in one file, filled step by step; at each size the verbs are called in turn. `health`, `verify`, `compact`
and `age` go over all facts of a store of that size; the figure in brackets is for each fact.

**Others.** Each system runs in its own environment, through its public interface, with keepstone's embedder, on the same
texts and questions, in one run. × is its time divided by keepstone's: above 1, keepstone is faster. FTS5 and numpy alone are
libraries, not memories, and show the lower bound.

## More figures

```console
$ python -m bench speed
$ python -m bench converse
$ python -m bench fleet
$ python -m bench server
```

They measure writing, start and memory of one process, a conversation of 2,000 messages, several servers on one PostgreSQL,
and HTTP and MCP."""


def render(results: Results) -> dict[str, str]:
    """The page and its charts."""
    files: dict[str, str] = {}
    parts = ["## As a scope grows", *_growth(results, files), "## Compared with other memories", *_peers(results, files)]
    parts += [*_postgres(results), *_encryption(results), METHOD]
    parts.append(pages.sources(results, ["growth", "speed-peers", "postgres", "encryption"]))
    return {**files, "speed.md": pages.page("Speed", LEAD, parts)}


def _growth(results: Results, files: dict[str, str]) -> list[str]:
    found = results.get("growth")
    if found is None:
        return [pages.missing("growth")]
    sizes: Mapping[str, Any] = found["sizes"]
    verbs = [verb for verb in (*_VERBS, *_MAINTENANCE) if any(verb in each for each in sizes.values())]
    drawn = [
        Series(verb, tuple((float(size), each[verb]["cpu_p50_ms"]) for size, each in sizes.items() if verb in each),
               "ours" if verb == "recall" else "grey")
        for verb in verbs if verb not in _MAINTENANCE
    ]  # fmt: skip
    files["growth.svg"] = lines("Cost as the scope grows", "Median CPU time of a call", drawn)
    rows = [[_ROW_TITLES.get(verb, verb), *(_cost(each[verb]) if verb in each else "–" for each in sizes.values())]
            for verb in verbs]  # fmt: skip
    for key, (title, shown) in _SIZES.items():
        if any(each.get(key) is not None for each in sizes.values()):
            rows.append([title, *(shown(each[key]) if each.get(key) is not None else "–" for each in sizes.values())])
    heads = ["memories", *(memories(size) for size in sizes)]
    return [pages.image("growth.svg", "CPU time of each verb over the size of the scope"), pages.table(heads, rows)]


def _cost(found: Mapping[str, Any]) -> str:
    """The cost of a call; of maintenance for each memory, too."""
    each = found.get("cpu_us_a_memory")
    return ms(found["cpu_p50_ms"]) if each is None else f"{ms(found['cpu_p50_ms'])} ({ms(each / 1e3)} each)"


def _postgres(results: Results) -> list[str]:
    found: Mapping[str, Any] = results.at("postgres", "shared") or {}
    rows = [
        [f"{memories(title.split()[0])} memories, {clients} {'client' if clients == '1' else 'clients'}",
         *(count(each[f"{system} {verb}"]["per_s"]) for verb in ("recall", "add") for system in ("keepstone", "pgvector"))]
        for title, figures in found.items() for clients, each in figures.get("clients", {}).items()
    ]  # fmt: skip
    if not rows:
        return []
    heads = ["calls a second", "keepstone recall", "pgvector recall", "keepstone add", "pgvector add"]
    lead = """Scopes of a hundred memories; the clients are threads of two processes. Plain pgvector is a table of texts and
vectors with the same embedder, without keywords, history, audit log or guard."""
    return ["## PostgreSQL", lead, pages.table(heads, rows)]


def _peers(results: Results, files: dict[str, str]) -> list[str]:
    speed: Mapping[str, Any] = results.at("speed-peers", "peers") or {}
    if not speed:
        return [pages.missing("speed-peers")]
    columns = compare_systems(speed)
    systems = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [[_name(system), *(_cell(column, system) for column in columns.values())] for system in systems]
    parts = [pages.table(["", *columns], rows)]
    right = {f"{memories(size)} memories": each for size, each in speed.get("found_at_5", {}).get("same", {}).items()}
    if right:
        rows = [
            [_name(system), *(share(each[system]) if system in each else "–" for each in right.values())] for system in systems
        ]
        parts += ["Found among five hits:", pages.table(["", *right], rows)]
    drawn = []
    for system in systems:
        given = speed.get("recall", {}).get("same", {})
        points = tuple((float(size), each[system]["wall_p50_ms"]) for size, each in given.items() if system in each)
        drawn += [Series(_name(system).strip("*"), points, TONES.get(system, "grey"))] if points else []
    if drawn:
        files["compared-recall.svg"] = lines("Recall as the scope grows", "Median time of one recall, same embedder", drawn)
        parts.insert(0, pages.image("compared-recall.svg", "Recall over the size, keepstone and others"))
    installed = {name: each["install_mb"] for name, each in speed.get("size", {}).items() if each.get("install_mb")}
    if installed:
        order = sorted(installed, key=lambda name: installed[name])
        shown = tuple(
            Bar(_name(n).strip("*"), installed[n], mb(installed[n]), tone="ours" if n == OURS else "grey") for n in order
        )
        files["compared-size.svg"] = bars("Installed size", "The package and everything it needs", [Panel("", shown)])
        parts.append(pages.image("compared-size.svg", "Installed size of keepstone and others"))
    left = [[_name(name), _why(why)] for name, why in speed.get("left_out", {}).items()]
    parts += [pages.words(["left out", "why"], left)] if left else []
    return parts


def compare_systems(speed: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, float | None]]]:
    """A column for each figure: of each system the value as shown, and their time divided by ours."""
    columns: dict[str, dict[str, tuple[str, float | None]]] = {}
    for size, found in speed.get("recall", {}).get("same", {}).items():
        columns[f"recall of {memories(size)}"] = _time_cells(found)
    for title, found in speed.get("many", {}).items():
        columns[f"recall, {_many(title)}"] = _time_cells(found)
    if found := speed.get("add", {}).get("same", {}):
        columns["add"] = _time_cells(found)
    if found := speed.get("bulk", {}).get("same", {}):
        ours = found.get(OURS, {}).get("per_s")
        columns["bulk, a second"] = {
            name: (count(each["per_s"]), ratio(ours, each["per_s"]) if ours and name != OURS else None)
            for name, each in found.items()
        }
    return columns


def _time_cells(found: Mapping[str, Any]) -> dict[str, tuple[str, float | None]]:
    ours = found.get(OURS, {}).get("wall_p50_ms")
    return {
        name: (ms(each["wall_p50_ms"]), ratio(each["wall_p50_ms"], ours) if ours and name != OURS else None)
        for name, each in found.items() if "wall_p50_ms" in each
    }  # fmt: skip


def _cell(column: Mapping[str, tuple[str, float | None]], system: str) -> str:
    if system not in column:
        return "–"
    shown, factor = column[system]
    return shown if factor is None else f"{shown} ({times(factor)})" if factor >= 1 else f"{shown} (**{times(factor)}**)"


def _name(system: str) -> str:
    return NAMES.get(system, system)


def _why(why: Any) -> str:
    return "; ".join(f"{_many(size)}: {each}" for size, each in why.items()) if isinstance(why, Mapping) else str(why)


def _many(title: str) -> str:
    """ "100000 over 1000, again" in words."""
    counts, _, more = title.partition(",")
    whole, _, scopes = counts.partition(" over ")
    if not (whole.isdecimal() and scopes.isdecimal()):
        return title
    return f"{memories(whole)} over {memories(scopes)} users, {'warm' if more else 'cold'}"


def _encryption(results: Results) -> list[str]:
    found = results.get("encryption")
    if found is None:
        return []
    rows = [
        [name.replace("_", " "), ms(each["clear_ms"]), ms(each["encrypted_ms"]), times(each["ratio"])]
        for name, each in found["verbs"].items()
    ]
    shown = pages.table(["", "without", "encrypted", "×"], rows)
    return ["## Encryption at rest", shown]
