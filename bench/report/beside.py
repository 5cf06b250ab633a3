"""The page beside others: every measure as a table, wins and losses alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.measure import ratio
from bench.report import pages
from bench.report.charts import Bar, Panel, Series, bars, lines
from bench.report.figures import count, mb, memories, ms, share, times
from bench.report.results import Results

OURS = "keepstone"
PEERS = ("chroma", "mem0", "langgraph", "mempalace")  # memories that people choose between; fts5 and numpy are bare parts
NAMES = {"keepstone": "keepstone", "chroma": "Chroma", "mem0": "mem0", "langgraph": "LangGraph", "mempalace": "MemPalace",
         "fts5": "FTS5 alone", "numpy": "numpy alone"}  # fmt: skip
TONES = {"keepstone": "ours", "chroma": "gold", "mem0": "violet", "langgraph": "blue", "mempalace": "rust", "fts5": "olive",
         "numpy": "grey"}  # fmt: skip
WAYS = {"same": "the same embedder", "usual": "each with its usual embedder"}
QUALITY = ("quality-peers-longmemeval", "quality-peers-locomo", "quality-peers")
FITTED = (
    "The share of questions for which what answers is among the first hits. keepstone's weights were fitted on the development "
    "questions of LongMemEval and on our own conversations (*own*), never on LoCoMo: its lead on the first two is worth less."
)
METRICS = ("any@5", "all@5", "any@10", "all@10", "frac@10")
_START = (("import_ms", "import", ms), ("open_ms", "open", ms), ("first_recall_ms", "first recall", ms),
          ("process_ms", "a whole process", ms))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of everybody, to be compared."""

    what: str
    values: Mapping[str, float]
    shown: Callable[[float], str]
    more_is_better: bool = False

    def ahead(self) -> list[str]:
        """Systems with a better figure than keepstone, the best first."""
        if OURS not in self.values:
            return []
        sign = -1 if self.more_is_better else 1
        better = [name for name, value in self.values.items() if sign * value < sign * self.values[OURS]]
        return sorted(better, key=lambda name: sign * self.values[name])


def named(name: str) -> str:
    """A memory's name as its makers write it."""
    return NAMES.get(name, name)


def made(results: Results) -> dict[str, str]:
    """The page and its charts."""
    speed: dict[str, Any] = results.at("speed-peers", "peers") or {}
    files: dict[str, str] = {}
    measures: list[Measure] = []
    lead = (
        "keepstone beside other memories for agents, each in an environment of its own and through its own public "
        "interface, asked the same questions about the same texts by turns in one run. *The same embedder* means that "
        "everybody calls keepstone's; *usual* is what each comes with. × says how many times keepstone's figure goes into "
        "theirs: above 1 keepstone is faster. Times are wall time unless they are said to be CPU time."
    )
    lead += " FTS5 and numpy *alone* are bare parts and no memories: they say what the libraries themselves take."
    parts = [pages.source(results, "speed-peers")]
    if speed:
        sections = [_recall(speed, files, measures), _add(speed, files, measures), _more(speed, files, measures)]
        parts += _headline(speed, files) + [part for section in sections for part in section]
    parts += ["## Quality", FITTED, *_quality(results, files, measures)]
    if measures:
        parts += ["## Where others are ahead", _ahead(measures)]
    if speed.get("left_out"):
        rows = [[named(name), size, why] for name, whys in speed["left_out"].items() for size, why in _whys(whys)]
        parts += ["## What was left out", pages.words(["memory", "of", "why"], rows)]
    return {**files, "beside-others.md": pages.page("Beside others", lead, parts)}


def _whys(whys: Any) -> list[tuple[str, str]]:
    if not isinstance(whys, Mapping):
        return [("everything", str(whys))]
    return [(memories(size) if str(size).isdecimal() else str(size), str(why)) for size, why in whys.items()]


def _p50(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(each["wall_p50_ms"]) for name, each in found.items() if "wall_p50_ms" in each}


def against(speed: Mapping[str, Any], verb: str, way: str, size: str | None = None) -> dict[str, float]:
    """How many times ours goes into everybody's p50, as the run says; made from the times where it does not."""
    given, found = speed.get("ratios", {}).get(verb, {}).get(way, {}), speed.get(verb, {}).get(way, {})
    if size is not None:
        given, found = given.get(size, {}), found.get(size, {})
    p50 = _p50(found)
    made_ = {name: ratio(value, p50[OURS]) for name, value in p50.items() if name != OURS} if OURS in p50 else {}
    return {**made_, **{name: float(value) for name, value in given.items() if name != OURS}}


def _bars(values: Mapping[str, float], shown: Callable[[float], str], notes: Mapping[str, float] | None = None,
          most: bool = False) -> tuple[Bar, ...]:  # fmt: skip
    """Bars in the order of their values, best first."""
    order = sorted(values, key=lambda name: -values[name] if most else values[name])
    return tuple(
        Bar(named(name), values[name], shown(values[name]), times(notes[name]) if notes and name in notes else "",
            "ours" if name == OURS else "grey")
        for name in order
    )  # fmt: skip


def _headline(speed: Mapping[str, Any], files: dict[str, str]) -> list[str]:
    """The two figures that people ask for first, of memories only."""
    panels = []
    size = "10000"
    recalled = _p50(speed.get("recall", {}).get("same", {}).get(size, {}))
    added = _p50(speed.get("add", {}).get("same", {}))
    for title, values, notes in (
        (f"Recall from {memories(size)} memories", recalled, against(speed, "recall", "same", size)),
        ("Add, one at a time", added, against(speed, "add", "same")),
    ):
        chosen = {name: value for name, value in values.items() if name in (OURS, *PEERS)}
        panels += [Panel(title, _bars(chosen, ms, notes))] if OURS in chosen else []
    if not panels:
        return []
    files["beside-others.svg"] = bars(
        "Beside other memories", "Median wall time, shorter is better; everybody with the same embedder", panels
    )
    return [pages.image("beside-others.svg", "Recall and add beside other memories")]


def _rows(found: Mapping[str, Any], ratios: Mapping[str, float], right: Mapping[str, float]) -> list[list[str]]:
    keys = ("wall_p50_ms", "wall_p95_ms", "wall_p99_ms", "cpu_p50_ms")
    return [
        [f"**{named(name)}**" if name == OURS else named(name), *(ms(each[key]) for key in keys),
         share(right[name]) if name in right else "–", times(ratios[name]) if name in ratios else ""]
        for name, each in found.items() if "wall_p50_ms" in each
    ]  # fmt: skip


def _recall(speed: Mapping[str, Any], files: dict[str, str], measures: list[Measure]) -> list[str]:
    parts = ["## Recall"]
    for way, said in WAYS.items():
        sizes: dict[str, Any] = speed.get("recall", {}).get(way, {})
        if not sizes:
            continue
        parts += [f"### With {said}" if way == "same" else "### Each with its usual embedder", _embedders(speed, way)]
        names = dict.fromkeys(name for found in sizes.values() for name in found)
        drawn = []
        for name in names:
            points = tuple((float(size), _p50(found)[name]) for size, found in sizes.items() if name in _p50(found))
            drawn += [Series(named(name), points, TONES.get(name, "grey"))] if points else []
        file = f"beside-recall-{way}.svg"
        files[file] = lines("Recall as the scope grows", f"Median wall time of one recall, {said}", drawn)
        parts.append(pages.image(file, f"Recall over the size, {said}"))
        for size, found in sizes.items():
            ratios = against(speed, "recall", way, size)
            right = speed.get("found_at_5", {}).get(way, {}).get(size, {})
            measures.append(Measure(f"recall from {memories(size)}, {said}", _p50(found), ms))
            measures.append(Measure(f"found among the first 5 of {memories(size)}, {said}", right, share, more_is_better=True))
            heads = [f"{memories(size)} memories", "p50", "p95", "p99", "CPU p50", "found@5", "×"]
            parts.append(pages.table(heads, _rows(found, ratios, right)))
    for title, found in speed.get("many", {}).items():
        measures.append(Measure(f"recall, {_many(title)}", _p50(found), ms))
        right = {} if "," in title else speed.get("many_found_at_5", {})
        heads = ["", "p50", "p95", "p99", "CPU p50", "found@5", "×"]
        parts += [
            f"### {_many(title)}",
            pages.table(heads, _rows(found, speed.get("ratios", {}).get("many", {}).get(title, {}), right)),
        ]
    return parts


def _many(title: str) -> str:
    """ "100000 over 1000, again" as people say it."""
    counts, _, more = title.partition(",")
    whole, _, scopes = counts.partition(" over ")
    if not (whole.isdecimal() and scopes.isdecimal()):
        return title
    return f"{memories(whole)} memories over {memories(scopes)} scopes" + (f",{more}" if more else "")


def _embedders(speed: Mapping[str, Any], way: str) -> str:
    given = speed.get("embedders", {}).get(way)
    if isinstance(given, Mapping):
        return ", ".join(f"{named(name)}: {each}" for name, each in given.items()) + "."
    return f"Everybody: {given}." if given else ""


def _add(speed: Mapping[str, Any], files: dict[str, str], measures: list[Measure]) -> list[str]:
    parts = []
    for way, said in WAYS.items():
        found = speed.get("add", {}).get(way, {})
        if found:
            measures.append(Measure(f"add, one at a time, {said}", _p50(found), ms))
            heads = [said, "p50", "p95", "p99", "CPU p50", "×"]
            rows = [[*row[:5], row[6]] for row in _rows(found, against(speed, "add", way), {})]
            parts.append(pages.table(heads, rows))
    if speed.get("durable"):
        rows = [[named(name), str(said)] for name, said in speed["durable"].items()]
        parts.append(pages.words(["", "on disk when a call to add has returned"], rows))
    bulk = speed.get("bulk", {}).get("same", {})
    if bulk:
        rates = {name: float(each["per_s"]) for name, each in bulk.items()}
        measures.append(Measure("memories a second in bulk", rates, count, more_is_better=True))
        files["beside-bulk.svg"] = bars("Adding in bulk", "Memories a second, more is better; the same embedder",
                                        [Panel("", _bars(rates, count, most=True))])  # fmt: skip
        rows = [[named(name), count(each["per_s"]), str(each.get("way", ""))] for name, each in bulk.items()]
        parts += ["### In bulk", pages.image("beside-bulk.svg", "Memories a second in bulk"),
                  pages.words(["", "memories a second", "by"], rows)]  # fmt: skip
    return ["## Adding", "One memory at a time, as durably as each does it.", *parts] if parts else []


def _more(speed: Mapping[str, Any], files: dict[str, str], measures: list[Measure]) -> list[str]:
    """Starting, and what it takes to have."""
    parts: list[str] = []
    start = speed.get("start", {})
    if start:
        for key, name, shown in _START:
            measures.append(Measure(f"start: {name}", {each: float(v[key]) for each, v in start.items() if key in v}, shown))
        rows = [[named(name), *(ms(each[key]) if key in each else "–" for key, _, _ in _START)] for name, each in start.items()]
        parts += ["## Starting", pages.table(["", *(name for _, name, _ in _START)], rows)]
    panels = []
    size = speed.get("size", {})
    if size:
        installed = {name: float(each["install_mb"]) for name, each in size.items() if each.get("install_mb") is not None}
        measures.append(Measure("installed size", installed, mb))
        panels.append(Panel("Installed", _bars(installed, mb)))
        rows = [
            [named(name), mb(each["install_mb"]), count(each["packages"])] for name, each in size.items() if name in installed
        ]
        parts += ["## What it takes", pages.table(["", "installed", "packages"], rows)]
    for key, name in (("resident_mb", "memory of the process"), ("disk_mb", "disk")):
        for held, found in speed.get(key, {}).items():
            there = {each: float(value) for each, value in found.items() if value is not None}
            measures.append(Measure(f"{name} at {memories(held)} memories", there, mb))
            parts.append(
                pages.table([f"{name}, {memories(held)} memories", ""], [[named(each), mb(v)] for each, v in there.items()])
            )
    resident = speed.get("resident_mb", {}).get("10000", {})
    if resident and panels:
        panels.append(
            Panel(f"In memory, {memories(10_000)} memories held", _bars({n: float(v) for n, v in resident.items() if v}, mb))
        )
        files["beside-cost.svg"] = bars(
            "What it takes", "Disk for the package and all that it needs, memory of the process", panels
        )
        parts.append(pages.image("beside-cost.svg", "Installed size and resident memory"))
    return parts


def _quality(results: Results, files: dict[str, str], measures: list[Measure]) -> list[str]:
    parts, panels = [], []
    for file in QUALITY:
        parts.append(pages.source(results, file))
        peers: Mapping[str, Any] = results.at(file, "peers") or {}
        for dataset, found in peers.items():
            if not isinstance(found, Mapping) or OURS not in found:
                continue  # what is said of the run: its unit, its embedder, who was left out
            for metric in METRICS:
                values = {name: float(each[metric]) for name, each in found.items() if metric in each}
                measures.append(Measure(f"{metric} of {dataset}", values, share, more_is_better=True))
            drawn = {name: float(each["all@5"]) for name, each in found.items() if "all@5" in each}
            panels += [Panel(f"{dataset}, all@5", _bars(drawn, share, most=True), 1.0)] if drawn else []
            unit = f", {peers['unit']}s" if peers.get("unit") else ""
            parts += [f"### {dataset}{unit}", pages.table(["", "questions", *METRICS], _scores(found))]
        left = [[named(name), str(why)] for name, why in peers.get("left_out", {}).items()]
        parts += [pages.words(["left out", "why"], left)] if left else []
    if panels:
        files["beside-quality.svg"] = bars("How often everything is found", "Share of questions, more is better", panels[:2])
        parts.insert(0, pages.image("beside-quality.svg", "Quality beside others"))
    return parts


def _scores(found: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    return [
        [f"**{named(name)}**" if name == OURS else named(name), count(each.get("questions", 0)),
         *(share(each[metric]) if metric in each else "–" for metric in METRICS)]
        for name, each in found.items()
    ]  # fmt: skip


def _ahead(measures: list[Measure]) -> str:
    rows = []
    for each in measures:
        better = each.ahead()
        if better:
            rows.append(
                [each.what, each.shown(each.values[OURS]), ", ".join(f"{named(n)} {each.shown(each.values[n])}" for n in better)]
            )
    if not rows:
        return "Nowhere in what was measured here."
    return "Every figure above in which another system is better than keepstone.\n\n" + pages.words(
        ["", "keepstone", "ahead"], rows
    )
