"""The charts: lines over sizes, bars beside each other, parts on top of each other, strips of time, reliability. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report.figures import count, memories, ms, share
from bench.report.svg import PAD, WIDE, Log, Paper, apart, decades, text_width, ticks

Shown = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name, its points (x, y), its colour; `dashed` for what is not the main thing."""

    name: str
    points: tuple[tuple[float, float], ...]
    tone: str = "ours"
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, its value, the value as it is shown, and what is said behind it."""

    name: str
    value: float
    shown: str
    note: str = ""
    tone: str = "grey"


@dataclass(frozen=True, slots=True)
class Panel:
    """Some bars under a heading; `top` is the value of a full bar (None: the largest)."""

    title: str
    bars: tuple[Bar, ...]
    top: float | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """How one measure went over time: points (minutes, value)."""

    name: str
    points: tuple[tuple[float, float], ...]
    shown: Shown


def lines(title: str, subtitle: str, series: Sequence[Series], *, shown: Shown = ms,
          marks: Sequence[tuple[float, float, str]] = ()) -> str:  # fmt: skip
    """Lines over the size of a scope, both axes logarithmic; names stand at the ends. `marks` are goals: x, y, a word."""
    paper = Paper(title, subtitle, 424)
    values = [y for each in series for _, y in each.points] + [y for _, y, _ in marks]
    across, up = _axes(paper, sorted({x for each in series for x, _ in each.points}), values, series, shown)
    for each in sorted(series, key=lambda one: one.tone == "ours"):
        spots = [(across(x), up(y)) for x, y in each.points]
        paper.path(spots, f"s-{each.tone} {'thick' if _main(each) else 'thin'}{' dash' if each.dashed else ''}")
        for x, y in () if each.dashed else spots:
            paper.dot(x, y, 4.5 if _main(each) else 3.2, f"f-{each.tone}")
    for x, y, word in marks:
        paper.line(across(x) - 44, up(y), across(x) + 14, up(y), "goal")
        paper.text(across(x) - 48, up(y) + 4, word, "soft small halo", "end")
    ends = apart([up(each.points[-1][1]) for each in series], 17, up.end, up.start)
    for each, y in zip(series, ends, strict=True):
        paper.text(across(each.points[-1][0]) + 14, y + 4, each.name, f"halo f-{each.tone}{' bold' if _main(each) else ''}")
    return paper.svg()


def _main(series: Series) -> bool:
    """Whether it is the line that the eye should find first."""
    return series.tone == "ours" and not series.dashed


def _axes(
    paper: Paper, sizes: Sequence[float], values: Sequence[float], series: Sequence[Series], shown: Shown
) -> tuple[Log, Log]:
    """The two axes, drawn; room is left on the right for the longest name."""
    left, right, top, bottom = PAD + 52.0, WIDE - PAD - max(22 + max(text_width(each.name) for each in series), 60), 92.0, 372.0
    low, high = decades(values)
    across = Log(sizes[0], sizes[-1] if len(sizes) > 1 else sizes[0] * 10, left + 16, right - 16)
    up = Log(low, high, bottom, top)
    for value in ticks(low, high):
        paper.line(left, up(value), right, up(value))
        paper.text(left - 10, up(value) + 4, _tick(value, shown), "soft small", "end")
    for size in sizes:
        paper.line(across(size), bottom, across(size), bottom + 5, "axis")
        paper.text(across(size), bottom + 22, memories(int(size)), "soft small", "middle")
    paper.text((left + right) / 2, bottom + 42, "memories in the scope", "soft small", "middle")
    return across, up


def _tick(value: float, shown: Shown) -> str:
    """A tick's value without what rounding leaves behind."""
    return shown(value).replace(".0 ", " ").replace(".00 ", " ").replace("0.010 ", "0.01 ").replace("0.10 ", "0.1 ")


def bars(title: str, subtitle: str, panels: Sequence[Panel]) -> str:
    """Panels of lying bars beside each other; a bar's length is its value."""
    most = max(len(each.bars) for each in panels)
    headed = any(each.title for each in panels)
    top = 108.0 if headed else 88.0
    paper = Paper(title, subtitle, top + most * 32 + 16)
    gap = 36.0
    wide = (WIDE - 2 * PAD - gap * (len(panels) - 1)) / len(panels)
    for at, panel in enumerate(panels):
        _panel(paper, panel, PAD + at * (wide + gap), wide, top)
    return paper.svg()


def _panel(paper: Paper, panel: Panel, left: float, wide: float, top: float) -> None:
    if panel.title:
        paper.text(left, top - 12, panel.title, "head")
    names = max(text_width(each.name) for each in panel.bars) + 14
    values = max(text_width(each.shown) + (text_width(each.note) + 10 if each.note else 0) for each in panel.bars) + 12
    room = max(wide - names - values, 20)
    full = panel.top or max(each.value for each in panel.bars) or 1
    for row, each in enumerate(panel.bars):
        y, ours = top + row * 32, each.tone == "ours"
        paper.text(left, y + 16, each.name, "bold f-ours" if ours else "")
        long = room * each.value / full
        paper.rect(left + names, y + 2, max(long, 2), 19, f"f-{each.tone}")
        x = left + names + max(long, 2) + 8
        paper.text(x, y + 16, each.shown, "bold" if ours else "")
        if each.note:
            paper.text(x + text_width(each.shown) + 9, y + 16, each.note)


def strips(title: str, subtitle: str, given: Sequence[Strip]) -> str:
    """Measures over time, one below the other, each from zero on a scale of its own."""
    top, high = 92.0, 62.0
    paper = Paper(title, subtitle, top + high * len(given) + 40)
    left, right = PAD + 168.0, WIDE - PAD - 96.0
    end = max(x for each in given for x, _ in each.points) or 1
    for row, each in enumerate(given):
        floor, most = top + (row + 1) * high - 14, max(y for _, y in each.points) or 1
        spots = [(left + (right - left) * x / end, floor - (high - 24) * y / most) for x, y in each.points]
        paper.text(PAD, floor - 12, each.name)
        paper.line(left, floor, right, floor, "axis")
        paper.area(spots, floor, "f-wash")
        paper.path(spots, "s-ours thin")
        paper.text(right + 12, floor - 20, each.shown(each.points[-1][1]), "bold")
        paper.text(right + 12, floor - 4, f"most {each.shown(most)}", "soft small")
    y = top + high * len(given) + 8
    for part in (0, 0.5, 1):
        paper.text(
            left + (right - left) * part, y, f"{end * part:g} min", "soft small", ("start", "middle", "end")[int(part * 2)]
        )
    return paper.svg()


def reliability(title: str, calibration: Mapping[str, Any]) -> str:
    """How often the best hit is right, by its score: bars of the share that is right, dots where the bin's mean score puts it,
    and a dashed line where both agree. `calibration` is that part of a result of the everyday benchmark."""
    bins = calibration["bins"]
    subtitle = f"Share of best hits that are right, by score; calibration error {share(calibration['error'])}"
    paper = Paper(title, subtitle, 424)
    left, right, top, bottom = PAD + 44.0, WIDE - PAD - 12.0, 92.0, 352.0
    for step in range(0, 11, 2):
        y = bottom - (bottom - top) * step / 10
        paper.line(left, y, right, y)
        paper.text(left - 10, y + 4, f"{step / 10:g}", "soft small", "end")
    wide = (right - left) / len(bins)
    for at, each in enumerate(bins):
        x = left + at * wide
        paper.text(x + wide / 2, bottom + 20, f"{each['from']:.1f}–{each['from'] + 1 / len(bins):.1f}", "soft small", "middle")
        paper.text(x + wide / 2, bottom + 38, count(each["questions"]), "soft small", "middle")
        if each["questions"]:
            high = (bottom - top) * each["right"]
            paper.rect(x + 8, bottom - high, wide - 16, max(high, 1), "f-wash")
            paper.dot(left + (right - left) * each["score"], bottom - high, 4.5, "f-ours")
    paper.line(left, bottom, right, top, "goal")
    paper.text((left + right) / 2, bottom + 58, "score of the best hit; below it, how many questions", "soft small", "middle")
    return paper.svg()
