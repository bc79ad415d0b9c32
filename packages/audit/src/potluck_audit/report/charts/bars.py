"""Horizontal bars in groups, to either side of zero, with whiskers and the marks of baselines.

a bar       the value, in the seat's colour and pattern (or hollow)
a whisker   its interval
a mark      another team's value on the same row: a diamond for the frozen team, a ring for the uniform one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from potluck_audit.intervals import Estimate
from potluck_audit.report.charts import canvas

ROW, THICK = 13.0, 11.0
FROZEN, UNIFORM = "frozen", "uniform"


class Bar(NamedTuple):
    """One bar of a group; `marks` are values of other teams by name."""

    seat: int
    estimate: Estimate
    label: str
    marks: Mapping[str, float] = {}
    hollow: bool = False


def bars(groups: Mapping[str, Sequence[Bar]], *, percent: bool = False, label_width: float = 128.0) -> Markup:
    everything = [bar for group in groups.values() for bar in group]
    low, high = _range(everything)
    marks = canvas.ticks(low, high, 4)
    scale = (canvas.WIDTH - label_width - 58.0) / (marks[-1] - marks[0])
    heights = [len(group) * ROW + 7 for group in groups.values()]
    height = sum(heights) + 26

    def x(value: float) -> float:
        return label_width + (value - marks[0]) * scale

    body = []
    for mark in marks:
        body.append(canvas.line(x(mark), 2, x(mark), height - 22, "axis" if mark == 0 and low < 0 else "gridline"))
        shown = f"{100 * mark:g} %" if percent else f"{mark:g}"
        body.append(canvas.text(x(mark), height - 8, shown.replace("-", "\N{MINUS SIGN}"), "middle"))
    y = 4.0
    for (name, group), tall in zip(groups.items(), heights, strict=True):
        body.append(canvas.text(label_width - 8, y + (tall - 7) / 2 + 4, name.replace("_", " "), "end", "name"))
        for place, bar in enumerate(group):
            body += _bar(bar, x, y + place * ROW, percent)
        y += tall
    return canvas.svg(canvas.WIDTH, height, body, "Bars: " + ", ".join(groups))


def _range(everything: Sequence[Bar]) -> tuple[float, float]:
    """From the lowest end to the highest, and always with zero."""
    ends = [0.0]
    for bar in everything:
        ends += [e for e in bar.estimate[:3] if e is not None]
        ends += bar.marks.values()
    low, high = min(ends), max(ends)
    return (low, high) if high > low else (0.0, 1.0)


def _bar(bar: Bar, x: Callable[[float], float], y: float, percent: bool) -> list[str]:
    value, low, high, _ = bar.estimate
    centre = y + THICK / 2
    marks = [_mark(name, x(at), centre, f"{name}: {canvas.said(at, percent)}") for name, at in bar.marks.items()]
    if value is None:
        return [canvas.text(x(0.0) + 4, y + 9, "undefined"), *marks]
    shown = canvas.said(value, percent)
    left, right = sorted((x(0.0), x(value)))
    look = (
        f'fill="var(--paper)" stroke="{canvas.colour(bar.seat)}" stroke-width="1.4"'
        if bar.hollow
        else f'fill="{canvas.fill(bar.seat)}"'
    )
    parts = [
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{THICK:g}" {look}>'
        f"{canvas.title(f'{bar.label}: {shown}')}</rect>"
    ]
    end = max(right, *(x(at) + 5 for at in bar.marks.values())) if bar.marks else right
    if low is not None and high is not None:
        parts.append(canvas.line(x(low), centre, x(high), centre, "whisker"))
        end = max(end, x(high))
    return [*parts, *marks, canvas.text(end + 5, y + 9.5, shown)]


def _mark(name: str, x: float, y: float, words: str) -> str:
    if name == FROZEN:
        d = f"M{x - 4.5:.1f} {y:.1f}L{x:.1f} {y - 4.5:.1f}L{x + 4.5:.1f} {y:.1f}L{x:.1f} {y + 4.5:.1f}Z"
        return f'<path class="mark" d="{d}">{canvas.title(words)}</path>'
    return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3.8">{canvas.title(words)}</circle>'
