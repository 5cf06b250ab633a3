"""The paper that charts are drawn on: colours for light and dark, text, scales, round numbers. Pure.

A chart is one SVG file with a background of its own, so that it is legible wherever it is shown, and with the colours of the
dashboard, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

WIDE = 860
PAD = 28
# name: (light, dark); "ours" is keepstone's, the others are told apart by hue and by lightness
COLOURS = {
    "paper": ("#ffffff", "#191c1e"),
    "edge": ("#e3e3dd", "#2f3538"),
    "grid": ("#ecece7", "#272c2f"),
    "track": ("#f1f1ed", "#23282a"),
    "ink": ("#191c1e", "#e9eae8"),
    "soft": ("#565d63", "#a2a9ad"),
    "ours": ("#0c6a5c", "#62c6b1"),
    "wash": ("#cfe4df", "#1f4039"),
    "gold": ("#b57a14", "#dcab4d"),
    "violet": ("#7d5a9c", "#b899d6"),
    "blue": ("#3672b5", "#78aee9"),
    "rust": ("#b04a36", "#ec8d78"),
    "olive": ("#66802f", "#a9c36a"),
    "grey": ("#8b9196", "#80888d"),
}
OTHERS = ("gold", "violet", "blue", "rust", "olive", "grey")
_SANS = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"


@dataclass(slots=True)
class Paper:
    """A chart in the making: what is drawn is added to its parts."""

    title: str
    subtitle: str
    high: float
    wide: float = WIDE
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, classes: str = "soft", anchor: str = "start") -> None:
        """Words at a place."""
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}"{at}>{escape(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str = "grid") -> None:
        """A straight line."""
        self.parts.append(f'<line class="{classes}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def rect(self, x: float, y: float, wide: float, high: float, classes: str, round_: float = 3) -> None:
        """A box."""
        self.parts.append(
            f'<rect class="{classes}" x="{x:.1f}" y="{y:.1f}" width="{max(wide, 0.5):.1f}" height="{high:.1f}" rx="{round_:g}"/>'
        )

    def path(self, points: Sequence[tuple[float, float]], classes: str) -> None:
        """A line through some points."""
        self.parts.append(f'<polyline class="{classes}" points="{_points(points)}"/>')

    def area(self, points: Sequence[tuple[float, float]], floor: float, classes: str) -> None:
        """What lies between a line and the floor."""
        around = [(points[0][0], floor), *points, (points[-1][0], floor)]
        self.parts.append(f'<polygon class="{classes}" points="{_points(around)}"/>')

    def dot(self, x: float, y: float, radius: float, classes: str) -> None:
        """A spot."""
        self.parts.append(f'<circle class="{classes}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>')

    def svg(self) -> str:
        """The whole file."""
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.wide:g} {self.high:g}" width="{self.wide:g}" '
            f'height="{self.high:g}" role="img" aria-label={quoteattr(f"{self.title}. {self.subtitle}")}>\n'
            f"<title>{escape(self.title)}</title>\n<style>{_style()}</style>\n"
            f'<rect class="card" x="0.5" y="0.5" width="{self.wide - 1:g}" height="{self.high - 1:g}" rx="12"/>\n'
            f'<text class="title" x="{PAD}" y="40">{escape(self.title)}</text>\n'
            f'<text class="soft" x="{PAD}" y="61">{escape(self.subtitle)}</text>\n{body}\n</svg>\n'
        )


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _style() -> str:
    """Classes for fills and strokes; the second half is for who prefers dark."""
    shapes = (
        f"text{{font:13px {_SANS};font-variant-numeric:tabular-nums}}"
        ".title{font-size:19px;font-weight:650;letter-spacing:-.012em}.head{font-size:13px;font-weight:600}"
        ".small{font-size:11.5px}.bold{font-weight:650}.halo{paint-order:stroke;stroke-width:5;stroke-linejoin:round}"
        "polyline{fill:none;stroke-linejoin:round;stroke-linecap:round}"
        ".thick{stroke-width:3.2}.thin{stroke-width:1.8}.dash{stroke-dasharray:2 5}.goal{stroke-width:1.5;stroke-dasharray:5 4}"
    )
    return shapes + _palette(0) + "@media (prefers-color-scheme:dark){" + _palette(1) + "}"


def _palette(which: int) -> str:
    tone = {name: pair[which] for name, pair in COLOURS.items()}
    rules = [
        f".card{{fill:{tone['paper']};stroke:{tone['edge']}}}text,.title,.ink{{fill:{tone['ink']}}}text.soft{{fill:{tone['soft']}}}",
        f".grid{{stroke:{tone['grid']}}}.axis{{stroke:{tone['edge']}}}.goal{{stroke:{tone['soft']}}}.track{{fill:{tone['track']}}}",
        f".halo{{stroke:{tone['paper']}}}.f-wash{{fill:{tone['wash']}}}",
    ]
    rules += [f".f-{name},text.f-{name}{{fill:{tone[name]}}}.s-{name}{{stroke:{tone[name]}}}" for name in ("ours", *OTHERS)]
    return "".join(rules)


# -- scales and numbers -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Log:
    """A logarithmic scale from values to places; what lies below it stands at its start."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)
        return self.start + share * (self.end - self.start)


def decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around some values: at least one decade."""
    there = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(there))), math.ceil(math.log10(max(there)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def ticks(low: float, high: float) -> Iterator[float]:
    """The powers of ten of a scale; a short one also has twos and fives."""
    span = round(math.log10(high / low))
    for decade in range(span + 1):
        for step in (1, 2, 5) if span <= 2 else (1,):
            value = low * 10.0**decade * step
            if value <= high * 1.0001:
                yield value


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved so that labels do not overlap, as near to where they were as can be; in the order given."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    moved = [min(max(places[at], low), high) for at in order]
    for _ in range(200):
        still = True
        for one in range(len(moved) - 1):
            short = gap - (moved[one + 1] - moved[one])
            if short > 0.01:
                still = False
                moved[one] = max(low, moved[one] - short / 2)
                moved[one + 1] = min(high, moved[one + 1] + short / 2)
        if still:
            break
    found = [0.0] * len(places)
    for at, place in zip(order, moved, strict=True):
        found[at] = place
    return found


def text_width(text: str, size: float = 13) -> float:
    """About how wide some words are."""
    return sum(0.3 if letter in "iljtf.,:' |" else 0.9 if letter in "mwMW" else 0.6 for letter in text) * size
