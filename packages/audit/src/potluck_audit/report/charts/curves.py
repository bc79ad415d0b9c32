"""Lines with bands over rounds or steps, and other teams as level lines beside them.

Every line has its colour, its dashes and its name at its end: three ways to tell it from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from potluck_audit.intervals import Estimate
from potluck_audit.report.charts import canvas

HEIGHT = 236.0
FEW = 3
"""Lines beyond which bands would hide each other."""
LEFT, RIGHT, TOP, BOTTOM = 44.0, 82.0, 12.0, 38.0


class Point(NamedTuple):
    """A value at a place."""

    x: float
    estimate: Estimate


class Series(NamedTuple):
    """One line. Points without a value are gaps."""

    name: str
    seat: int
    points: Sequence[Point]
    dots: bool = False
    """Only dots, for values that a smoother line stands for."""


class Level(NamedTuple):
    """A value that holds over the whole width, such as a baseline's."""

    name: str
    estimate: Estimate


def curves(
    series: Sequence[Series],
    levels: Sequence[Level] = (),
    *,
    across: str = "round",
    percent: bool = False,
    said: str = "",
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Empty where no point has a value. `marks` are named places on the axis."""
    known = [_seen(p, s.dots) for s in series for p in s.points if p.estimate.value is not None]
    levels = [level for level in levels if level.estimate.value is not None]
    if not known:
        return Markup()
    frame = _Frame(known, levels)
    body = frame.grid(across, percent)
    for level in levels:
        body += frame.level(level)
    for at, name in marks:
        body += frame.mark(at, name)
    faint = sum(not one.dots for one in series) > FEW
    for one in series:
        body += frame.dots(one) if one.dots else frame.line(one, faint=faint)
    body += frame.names([s for s in series if not s.dots], levels)
    return canvas.svg(canvas.WIDTH, HEIGHT, body, said or ", ".join(s.name for s in series) + f" by {across}")


def _seen(point: Point, dot: bool) -> Point:
    """Of a dot only the value is drawn, so that only it needs room."""
    return point._replace(estimate=point.estimate._replace(low=None, high=None)) if dot else point


class _Frame:
    """Places of a chart."""

    def __init__(self, points: Sequence[Point], levels: Sequence[Level]) -> None:
        estimates = [p.estimate for p in points] + [level.estimate for level in levels]
        ends = [0.0] + [e for estimate in estimates for e in estimate[:3] if e is not None]
        low, high = min(ends), max(ends)
        self.marks = canvas.ticks(low, high if high > low else low + 1.0)
        self.first = min(p.x for p in points)
        self.last = max(max(p.x for p in points), self.first + 1)

    def x(self, at: float) -> float:
        return LEFT + (at - self.first) / (self.last - self.first) * (canvas.WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.marks[0]) / (self.marks[-1] - self.marks[0])
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)

    def grid(self, across: str, percent: bool) -> list[str]:
        right, body = canvas.WIDTH - RIGHT, []
        for mark in self.marks:
            shown = f"{100 * mark:g} %" if percent else f"{mark:g}"
            kind = "axis" if mark == 0 else "gridline"
            body.append(canvas.line(LEFT, self.y(mark), right, self.y(mark), kind))
            body.append(canvas.text(LEFT - 6, self.y(mark) + 4, shown.replace("-", "\N{MINUS SIGN}"), "end"))
        for mark in canvas.ticks(self.first, self.last, 4):
            if self.first <= mark <= self.last and mark == int(mark):
                body.append(canvas.text(self.x(mark), HEIGHT - BOTTOM + 17, f"{mark:g}", "middle"))
        return [*body, canvas.text((LEFT + right) / 2, HEIGHT - 4, across, "middle")]

    def level(self, level: Level) -> list[str]:
        value, low, high, _ = level.estimate
        right, body = canvas.WIDTH - RIGHT, []
        if low is not None and high is not None:
            top, tall = self.y(high), max(self.y(low) - self.y(high), 0.0)
            body.append(
                f'<rect class="band" x="{LEFT:.1f}" y="{top:.1f}" width="{right - LEFT:.1f}" height="{tall:.1f}" '
                'fill="var(--dim)"/>'
            )
        at = self.y(value or 0.0)
        return [*body, canvas.line(LEFT, at, right, at, f"level {level.name}")]

    def mark(self, at: float, name: str) -> list[str]:
        return [
            canvas.line(self.x(at), TOP, self.x(at), HEIGHT - BOTTOM, f"place {name}"),
            canvas.text(self.x(at) + 3, TOP + 8, name),
        ]

    def dots(self, series: Series) -> list[str]:
        return [
            f'<circle cx="{self.x(p.x):.1f}" cy="{self.y(p.estimate.value):.1f}" r="1.7" '
            f'fill="{canvas.colour(series.seat)}" opacity=".55"/>'
            for p in series.points
            if p.estimate.value is not None
        ]

    def line(self, series: Series, *, faint: bool = False) -> list[str]:
        body, seat = [], series.seat
        band = "band faint" if faint else "band"
        for piece in _pieces(series.points):
            banded = [(p.x, p.estimate.low, p.estimate.high) for p in piece]
            known = [(x, low, high) for x, low, high in banded if low is not None and high is not None]
            if len(known) > 1:
                outline = [(x, high) for x, _, high in known] + [(x, low) for x, low, _ in reversed(known)]
                area = " ".join(f"{self.x(x):.1f},{self.y(v):.1f}" for x, v in outline)
                body.append(f'<polygon class="{band}" points="{area}" fill="{canvas.colour(seat)}"/>')
            path = " ".join(f"{self.x(p.x):.1f},{self.y(p.estimate.value or 0.0):.1f}" for p in piece)
            dashes = f' stroke-dasharray="{canvas.dash(seat)}"' if canvas.dash(seat) else ""
            body.append(
                f'<polyline class="line" points="{path}" stroke="{canvas.colour(seat)}"{dashes}>'
                f"{canvas.title(series.name)}</polyline>"
            )
        return body

    def names(self, series: Sequence[Series], levels: Sequence[Level]) -> list[str]:
        """Each line's name at its right end, moved apart where they would meet."""
        ends: list[tuple[str, float, str]] = []
        for one in series:
            if last := next((p for p in reversed(one.points) if p.estimate.value is not None), None):
                ends.append((one.name, self.y(last.estimate.value or 0.0), canvas.colour(one.seat)))
        ends += [(level.name, self.y(level.estimate.value or 0.0), "var(--dim)") for level in levels]
        places = canvas.spread([y for _, y, _ in ends], 12.5)
        left = canvas.WIDTH - RIGHT + 5
        return [
            f'<text class="end" x="{left:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(name)}</text>'
            for (name, _, colour), y in zip(ends, places, strict=True)
        ]


def _pieces(points: Sequence[Point]) -> list[list[Point]]:
    """Runs of points with values."""
    found: list[list[Point]] = [[]]
    for point in points:
        if point.estimate.value is None:
            found.append([])
        else:
            found[-1].append(point)
    return [piece for piece in found if piece]
