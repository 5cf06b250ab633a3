"""Charts as inline SVG, coloured by CSS classes, each with a name and a table for screen readers. Pure.

The shapes stretch to the available width. Labels are HTML next to the SVG, so they stay readable on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

SCORE_PARTS = {
    "semantic": "similarity",
    "keywords": "keywords",
    "speaker": "speaker",
    "time": "time",
    "form": "length and importance",
    "current": "up to date",
}  # signal: label
_WIDTH, _HEIGHT = 1000, 200


def meter(value: float, name: str) -> Markup:
    """A small bar for a number from 0 to 1."""
    fraction = min(max(value, 0.0), 1.0)
    level = "low" if fraction < 0.5 else "mid" if fraction < 0.8 else "high"
    return Markup(
        '<span class="meter"><svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{0} {1:.2f} of 1">'
        '<rect class="track" width="100" height="8"/><rect class="fill {2}" width="{3:.0f}" height="8"/></svg>'
        '<span class="num" aria-hidden="true">{1:.2f}</span></span>'
    ).format(name, value, level, fraction * 100)


def bar(value: float, maximum: float) -> Markup:
    """A horizontal bar, as wide as its share of the maximum. The caller shows the number next to it."""
    width = 100 * value / maximum if maximum else 0
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" '
        'height="8"/><rect class="fill" width="{:.1f}" height="8"/></svg>'
    ).format(max(width, 0.8) if value else 0)


def area(points: Sequence[tuple[str, int]], name: str, unit: str) -> Markup:
    """An area chart of (label, number) points."""
    values = [value for _, value in points]
    top = nice(max(values, default=0))
    step = _WIDTH / max(len(points) - 1, 1)
    spots = [(index * step, _HEIGHT - _HEIGHT * value / top) for index, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    shapes = Markup('{}<polygon class="area" points="0,{} {} {},{}"/><polyline class="line" points="{}"/>').format(
        _grid(), _HEIGHT, line, _WIDTH, _HEIGHT, line
    )
    return _figure(shapes, points, name, unit, top)


def columns(points: Sequence[tuple[str, int]], name: str, unit: str, classes: str = "") -> Markup:
    """A histogram of (label, number) points."""
    top = nice(max((value for _, value in points), default=0))
    step = _WIDTH / max(len(points), 1)
    gap = min(step * 0.25, 12)
    bars = _bars([value for _, value in points], step, gap, top, _HEIGHT, _HEIGHT)
    return _figure(_grid() + bars, points, name, unit, top, classes)


def strip(values: Sequence[int], until: float, name: str) -> Markup:
    """Columns without axes, to stand above a slider; the part after `until` (0 to 1) is veiled."""
    step = _WIDTH / max(len(values), 1)
    bars = _bars(values, step, step * 0.2, max([*values, 1]), 46, 48)
    return Markup(
        '<svg class="strip" viewBox="0 0 {} 48" preserveAspectRatio="none" role="img" aria-label="{}"><rect class="base" '
        'y="47.4" width="{}" height="0.6"/>{}<rect class="veil" x="{:.1f}" width="{}" height="47.4"/></svg>'
    ).format(_WIDTH, name, _WIDTH, bars, until * _WIDTH, _WIDTH)


def _bars(values: Sequence[int], step: float, gap: float, top: int, height: float, baseline: float) -> Markup:
    return Markup("").join(
        Markup('<rect class="column" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            index * step + gap / 2, baseline - height * value / top, step - gap, height * value / top
        )
        for index, value in enumerate(values)
        if value
    )


def stack(signals: Mapping[str, float], score: float, maximum: float, name: str) -> Markup:
    """A score as a bar, as wide as its share of the maximum, in the colours of the parts that raise it."""
    parts = [(part, max(signals.get(part, 0.0), 0.0)) for part in SCORE_PARTS]
    total = sum(value for _, value in parts)
    width = 100 * min(score / maximum, 1.0) if maximum > 0 else 0.0
    left, bars = 0.0, Markup("")
    for part, value in parts if total else ():
        share = width * value / total
        bars += Markup('<rect class="s-{}" x="{:.2f}" width="{:.2f}" height="10"/>').format(part, left, share)
        left += share
    label = ", ".join(f"{SCORE_PARTS[part]} {signals.get(part, 0.0):+.1f}" for part in SCORE_PARTS)
    return Markup(
        '<svg class="stack" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}: {:.2f} ({})"><rect '
        'class="track" width="100" height="10"/>{}</svg>'
    ).format(name, score, label, bars)


def ring(score: int) -> Markup:
    """A score from 0 to 100 as a ring."""
    level = "low" if score < 60 else "mid" if score < 85 else "high"
    length = 2 * 3.14159 * 34
    return Markup(
        '<svg class="ring" viewBox="0 0 80 80" role="img" aria-label="health {0} of 100">'
        '<circle class="track" cx="40" cy="40" r="34"/>'
        '<circle class="fill {1}" cx="40" cy="40" r="34" stroke-dasharray="{2:.1f} {3:.1f}" transform="rotate(-90 40 40)"/>'
        '<text x="40" y="40" text-anchor="middle" dominant-baseline="central">{0}</text></svg>'
    ).format(score, level, length * score / 100, length)


def nice(value: float) -> int:
    """The next round number, for the top of an axis.

    >>> [nice(value) for value in (0, 3, 11, 130, 4200)]
    [4, 4, 12, 160, 6000]
    """
    size = 1
    while True:
        for step in (4, 6, 8, 10, 12, 16, 20, 30):
            if value <= step * size:
                return step * size
        size *= 10


def _grid() -> Markup:
    return Markup("").join(
        Markup('<line class="grid" x1="0" x2="{}" y1="{}" y2="{}"/>').format(_WIDTH, y, y) for y in (0, _HEIGHT // 2, _HEIGHT)
    )


def _figure(shapes: Markup, points: Sequence[tuple[str, int]], name: str, unit: str, top: int, classes: str = "") -> Markup:
    """The shapes with axis labels, a name, and the numbers as a table for screen readers."""
    labels = [label for label, _ in points]
    axis_labels = labels if len(labels) <= 8 else [labels[0], labels[len(labels) // 2], labels[-1]]
    spread = "each" if len(labels) <= 8 else "ends"
    rows = Markup("").join(Markup("<tr><th scope=row>{}</th><td>{}</td></tr>").format(*point) for point in points)
    axis = Markup("").join(Markup("<span>{}</span>").format(label) for label in axis_labels)
    middle = f"{top // 2:,}" if top % 2 == 0 else ""
    return Markup(
        '<figure class="plot {8}"><div class="y num" aria-hidden="true"><span>{0:,}</span><span>{1}</span><span>0</span></div>'
        '<svg viewBox="0 0 {2} {3}" preserveAspectRatio="none" role="img"><title>{4}</title>'
        '{5}</svg><div class="x num {6}" aria-hidden="true">{7}</div><div class="away"><table><caption>{4}</caption><thead><tr>'
        "<th scope=col>Label</th><th scope=col>{9}</th></tr></thead><tbody>{10}</tbody></table></div></figure>"
    ).format(top, middle, _WIDTH, _HEIGHT, name, shapes, spread, axis, classes, unit, rows)
