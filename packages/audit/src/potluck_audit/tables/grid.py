"""A table before it has a format: texts and numbers with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from potluck_audit.intervals import Estimate


class Number(NamedTuple):
    """A figure's cell; no estimate means that it was not measured, which is not the same as undefined."""

    estimate: Estimate | None
    percent: bool = False
    digits: int = 2
    pointwise: bool = False
    """Whether it is of a kind that has no interval, such as a p-value."""

    def shown(self, value: float, *, unit: bool = True) -> str:
        """With an ASCII minus; a rounded zero has none."""
        text = f"{100 * value:.1f}" if self.percent else f"{value:.{self.digits}f}"
        text = text.removeprefix("-") if not text.strip("-0.") else text
        return f"{text} %" if self.percent and unit else text

    @property
    def between(self) -> str:
        """[low, high]; said where it lacks, and empty where none can be."""
        if self.pointwise:
            return ""
        if self.estimate is None or self.estimate.low is None or self.estimate.high is None:
            return "(no interval)"
        return f"[{self.shown(self.estimate.low, unit=False)}, {self.shown(self.estimate.high, unit=False)}]"


Cell = str | Number


class Grid(NamedTuple):
    """Header and rows; a column holds texts or numbers, not both."""

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        return tuple(bool(self.rows) and isinstance(self.rows[0][at], Number) for at in range(len(self.header)))


def trimmed(grid: Grid) -> Grid:
    """Without the columns in which nothing was measured."""
    kept = [
        at
        for at in range(len(grid.header))
        if any(not isinstance(row[at], Number) or row[at].estimate is not None for row in grid.rows)  # type: ignore[union-attr]
    ]
    rows = [[row[at] for at in kept] for row in grid.rows]
    return grid._replace(header=[grid.header[at] for at in kept], rows=rows)
