"""Plots as inline SVG: shapes only, coloured by classes, with a name and a table for who does not see them. Pure.

The shapes stretch to the width they are given; whatever is text stands beside them as HTML, so that it stays readable on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

GROUPS = ("semantic", "keywords", "speaker", "time", "form")  # the parts of a score that add up to it
_WIDE, _HIGH = 1000, 200


def meter(value: float, name: str) -> Markup:
    """A small bar for a number from 0 to 1."""
    share = min(max(value, 0.0), 1.0)
    level = "low" if share < 0.5 else "mid" if share < 0.8 else "high"
    return Markup(
        '<span class="meter"><svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{0} {1:.2f} of 1">'
        '<rect class="track" width="100" height="8"/><rect class="fill {2}" width="{3:.0f}" height="8"/></svg>'
        '<span class="num" aria-hidden="true">{1:.2f}</span></span>'
    ).format(name, value, level, share * 100)


def bar(value: float, most: float) -> Markup:
    """One bar of several, as wide as its share of the largest; its number stands beside it."""
    width = 100 * value / most if most else 0
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" '
        'height="8"/><rect class="fill" width="{:.1f}" height="8"/></svg>'
    ).format(max(width, 0.8) if value else 0)


def area(points: Sequence[tuple[str, int]], name: str, unit: str) -> Markup:
    """A line over an area: how something grew. Points are (label, number), in order."""
    values = [value for _, value in points]
    top = nice(max(values, default=0))
    step = _WIDE / max(len(points) - 1, 1)
    spots = [(at * step, _HIGH - _HIGH * value / top) for at, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    shapes = Markup('{}<polygon class="area" points="0,{} {} {},{}"/><polyline class="line" points="{}"/>').format(
        _grid(), _HIGH, line, _WIDE, _HIGH, line
    )
    return _figure(shapes, points, name, unit, top)


def columns(points: Sequence[tuple[str, int]], name: str, unit: str, classes: str = "") -> Markup:
    """Upright bars: a histogram."""
    top = nice(max((value for _, value in points), default=0))
    step = _WIDE / max(len(points), 1)
    gap = min(step * 0.25, 12)
    bars = Markup("").join(
        Markup('<rect class="column" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            at * step + gap / 2, _HIGH - _HIGH * value / top, step - gap, _HIGH * value / top
        )
        for at, (_, value) in enumerate(points)
        if value
    )
    return _figure(_grid() + bars, points, name, unit, top, classes)


def strip(values: Sequence[int], until: float, name: str) -> Markup:
    """Columns without axes, to stand above something else that has one; what lies behind `until` (0 to 1) is veiled."""
    top, step = max([*values, 1]), _WIDE / max(len(values), 1)
    bars = Markup("").join(
        Markup('<rect class="column" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            at * step + step * 0.1, 48 - 46 * value / top, step * 0.8, 46 * value / top
        )
        for at, value in enumerate(values)
        if value
    )
    return Markup(
        '<svg class="strip" viewBox="0 0 {} 48" preserveAspectRatio="none" role="img" aria-label="{}"><rect class="base" '
        'y="47.4" width="{}" height="0.6"/>{}<rect class="veil" x="{:.1f}" width="{}" height="47.4"/></svg>'
    ).format(_WIDE, name, _WIDE, bars, until * _WIDE, _WIDE)


def stack(signals: Mapping[str, float], most: float, name: str) -> Markup:
    """What each part adds to a score: parts that speak for it to the right, parts against it to the left."""
    parts = [(group, signals.get(group, 0.0)) for group in GROUPS]
    against = min(sum(-value for _, value in parts if value < 0), most)
    scale = 100 / (most + against) if most + against else 0
    right, left = against * scale, against * scale
    made = Markup("")
    for group, value in parts:
        width = abs(value) * scale
        if width < 0.05:
            continue
        left -= width if value < 0 else 0
        made += Markup('<rect class="s-{}" x="{:.2f}" width="{:.2f}" height="10"/>').format(
            group, max(left, 0) if value < 0 else right, width
        )
        right += width if value > 0 else 0
    zero = Markup('<rect class="zero" x="{:.2f}" y="-1" width="0.4" height="12"/>').format(against * scale) if against else ""
    said = ", ".join(f"{group} {value:+.1f}" for group, value in parts)
    return Markup(
        '<svg class="stack" viewBox="0 -1 100 12" preserveAspectRatio="none" role="img" aria-label="{}: {}"><rect class="track" '
        'width="100" height="10"/>{}{}</svg>'
    ).format(name, said, made, zero)


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
    """A round number no smaller than this, for the top of an axis.

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
        Markup('<line class="grid" x1="0" x2="{}" y1="{}" y2="{}"/>').format(_WIDE, y, y) for y in (0, _HIGH // 2, _HIGH)
    )


def _figure(shapes: Markup, points: Sequence[tuple[str, int]], name: str, unit: str, top: int, classes: str = "") -> Markup:
    """The shapes with their axes as text, a name, and the numbers as a table for screen readers."""
    labels = [label for label, _ in points]
    shown = labels if len(labels) <= 8 else [labels[0], labels[len(labels) // 2], labels[-1]]
    spread = "each" if len(labels) <= 8 else "ends"
    rows = Markup("").join(Markup("<tr><th scope=row>{}</th><td>{}</td></tr>").format(*point) for point in points)
    axis = Markup("").join(Markup("<span>{}</span>").format(label) for label in shown)
    middle = f"{top // 2:,}" if top % 2 == 0 else ""
    return Markup(
        '<figure class="plot {8}"><div class="y num" aria-hidden="true"><span>{0:,}</span><span>{1}</span><span>0</span></div>'
        '<svg viewBox="0 0 {2} {3}" preserveAspectRatio="none" role="img"><title>{4}</title>'
        '{5}</svg><div class="x num {6}" aria-hidden="true">{7}</div><div class="away"><table><caption>{4}</caption><thead><tr>'
        "<th scope=col>When or what</th><th scope=col>{9}</th></tr></thead><tbody>{10}</tbody></table></div></figure>"
    ).format(top, middle, _WIDE, _HIGH, name, shapes, spread, axis, classes, unit, rows)
