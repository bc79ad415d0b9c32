"""Charts as inline SVG that takes its colours from the page (light, dark, print). No script, no fonts, no requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from potluck_audit.intervals import Estimate
from potluck_audit.metrics.curves import CurvePoint

ROW = 17


def colour(seat: int) -> str:
    return f"var(--a{seat % 8})"


class Bar(NamedTuple):
    """One bar of a group."""

    seat: int
    estimate: Estimate
    label: str


def _svg(width: float, height: float, body: Iterable[str], title: str) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg>'
    )


def _text(x: float, y: float, text: object, anchor: str = "start", kind: str = "lab") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def ticks(top: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 to at least `top`."""
    rough = max(top, 1e-9) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
    return [round(i * step, 12) for i in range(math.ceil(top / step - 1e-9) + 1)] if top > 0 else [0.0, 1.0]


def learning_curve(points: Sequence[CurvePoint], unit: str, smooth: int = 10) -> Markup:
    """Mean of each round with its interval as a band, and the running mean of the last rounds."""
    width, height, left, bottom = 900.0, 290.0, 46.0, 36.0
    tops = [p.estimate.high if p.estimate.high is not None else p.estimate.value or 0.0 for p in points]
    marks = ticks(max([*tops, *(p.estimate.value or 0.0 for p in points), 1e-9]))
    first, last = points[0].round, max(points[-1].round, points[0].round + 1)

    def x(number: float) -> float:
        return left + (number - first) / (last - first) * (width - left - 12)

    def y(value: float) -> float:
        return 10 + (1 - max(value, 0.0) / marks[-1]) * (height - 10 - bottom)

    body = [_line(left, y(m), width - 12, y(m), "gridline") + _text(left - 7, y(m) + 4, f"{m:g}", "end") for m in marks]
    body += [_text(x(t), height - bottom + 17, f"{t:.0f}", "middle") for t in _round_ticks(first, last)]
    body += [_text((left + width) / 2, height - 2, "round", "middle"), _line(left, y(0), width - 12, y(0), "axis")]
    banded = [p for p in points if p.estimate.low is not None and p.estimate.high is not None]
    outline = [(p.round, p.estimate.high) for p in banded] + [(p.round, p.estimate.low) for p in reversed(banded)]
    area = " ".join(f"{x(r):.1f},{y(v or 0.0):.1f}" for r, v in outline)
    body.append(f'<polygon class="band" points="{area}" fill="{colour(0)}"/>')
    means = [(p.round, p.estimate.value or 0.0) for p in points]
    body += [f'<circle cx="{x(r):.1f}" cy="{y(v):.1f}" r="1.6" fill="{colour(0)}" opacity=".6"/>' for r, v in means]
    path = " ".join(f"{x(r):.1f},{y(v):.1f}" for r, v in running_mean(means, smooth))
    body.append(f'<polyline class="line" points="{path}" stroke="{colour(1)}"/>')
    return _svg(width, height, body, f"Learning curve in {unit} by round")


def running_mean(means: Sequence[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """Mean of the last `window` rounds at each round."""
    values = [value for _, value in means]
    recent = [values[max(0, i - window + 1) : i + 1] for i in range(len(values))]
    return [(number, sum(v) / len(v)) for (number, _), v in zip(means, recent, strict=True)]


def _round_ticks(first: int, last: int) -> list[float]:
    step = max(1.0, ticks(last - first, 8)[1])
    return [first + i * step for i in range(int((last - first) / step) + 1)]


def bars(groups: Mapping[str, Sequence[Bar]], *, percent: bool = False, label_width: float = 128.0) -> Markup:
    """Horizontal bars in groups, with whiskers where there is an interval."""
    width, room = 470.0, 56.0
    everything = [bar.estimate for group in groups.values() for bar in group]
    top = max([e.high or e.value or 0.0 for e in everything] or [1.0]) or 1.0
    marks = ticks(top)
    span = width - label_width - room
    scale = span / marks[-1]
    heights = [len(group) * (ROW - 4) + 7 for group in groups.values()]
    height = sum(heights) + 26
    body = []
    for mark in marks:
        at = label_width + mark * scale
        body.append(_line(at, 2, at, height - 22, "gridline"))
        body.append(_text(at, height - 8, f"{100 * mark:g} %" if percent else f"{mark:g}", "middle"))
    y = 4.0
    for (name, group), tall in zip(groups.items(), heights, strict=True):
        body.append(_text(label_width - 8, y + (tall - 7) / 2 + 4, name.replace("_", " "), "end", "name"))
        for place, bar in enumerate(group):
            body += _bar(bar, label_width, y + place * (ROW - 4), scale, percent)
        y += tall
    return _svg(width, height, body, "Bars: " + ", ".join(groups))


def _bar(bar: Bar, left: float, y: float, scale: float, percent: bool) -> list[str]:
    value, low, high, _ = bar.estimate
    if value is None:
        return [_text(left + 4, y + 9, "undefined")]
    shown = f"{100 * value:.1f} %" if percent else f"{value:.2f}"
    parts = [
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(value, 0) * scale:.1f}" height="{ROW - 6}" '
        f'fill="{colour(bar.seat)}"><title>{escape(bar.label)}: {shown}</title></rect>'
    ]
    end = value
    if low is not None and high is not None:
        middle, end = y + (ROW - 6) / 2, max(value, high)
        parts.append(_line(left + max(low, 0) * scale, middle, left + high * scale, middle, "whisker"))
    parts.append(_text(left + end * scale + 5, y + 9.5, shown))
    return parts


def heat_map(cells: Mapping[tuple[int, int], int], tiles: Sequence[str], width: int, height: int) -> Markup:
    """Share of an agent's steps spent on each cell, over the layout where it is known."""
    size = min(46.0, 440.0 / max(width, 1))
    total, most = sum(cells.values()), max(cells.values(), default=1)
    body = []
    for row in range(height):
        for column in range(width):
            tile = tiles[row * width + column] if tiles else "floor"
            share = cells.get((column, row), 0)
            base = "var(--paper)" if tile in ("floor", "") else "var(--rule)"
            box = f'x="{column * size:.1f}" y="{row * size:.1f}" width="{size - 1:.1f}" height="{size - 1:.1f}" rx="2"'
            body.append(f'<rect {box} fill="{base}" stroke="var(--rule)"/>')
            middle = (column * size + size / 2 - 0.5, row * size + size / 2 + 3.5)
            if share:
                said = f"({column},{row}): {100 * share / total:.1f} % of steps"
                strength = 0.1 + 0.75 * share / most
                body.append(
                    f'<rect {box} fill="rgb(var(--heat))" opacity="{strength:.2f}"><title>{said}</title></rect>'
                )
                body.append(_text(*middle, f"{100 * share / total:.0f}", "middle", "on"))
            elif tile not in ("floor", "counter", "wall", ""):
                body.append(_text(*middle, tile[:8], "middle", "tile"))
    return _svg(width * size, height * size, body, "Visit heat map")
