"""Numbers as a reader sees them: value with interval, "undefined" where there is none, a dash where nobody measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from potluck_audit.metrics.metric import Metric

MINUS = "\N{MINUS SIGN}"
UNDEFINED = Markup('<span class="und">undefined</span>')
ABSENT = Markup('<span class="und" title="not measured">\N{EN DASH}</span>')

Cell = str | Markup


class Table(NamedTuple):
    """Header and rows; all columns after the first `labels` ones are numbers."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    labels: int = 1


def figure(metric: Metric | None, digits: int = 2, *, percent: bool = False, pointwise: bool = False) -> Markup:
    """Mean [low, high]; where there is no interval, that is said, except of kinds that have none (`pointwise`)."""
    if metric is None:
        return ABSENT
    value, low, high, _ = metric.estimate
    if value is None:
        return UNDEFINED
    shown = Markup(escape(number(value, digits, percent)))
    if low is None or high is None:
        return shown if pointwise else shown + Markup(' <span class="ci">(no interval)</span>')
    return shown + Markup(' <span class="ci">{}</span>').format(interval(low, high, digits, percent=percent))


def interval(low: float, high: float, digits: int = 2, *, percent: bool = False) -> str:
    return f"[{number(low, digits, percent, unit=False)}, {number(high, digits, percent, unit=False)}]"


def number(value: float, digits: int = 2, percent: bool = False, *, unit: bool = True) -> str:
    shown = f"{100 * value:.1f}" if percent else f"{value:.{digits}f}"
    shown = shown.removeprefix("-") if not shown.strip("-0.") else shown
    return shown.replace("-", MINUS) + (" %" if percent and unit else "")


def p_value(metric: Metric | None) -> Markup:
    """Of a test; a test that could not be made is undefined."""
    if metric is None:
        return ABSENT
    value = metric.estimate.value
    if value is None:
        return UNDEFINED
    return Markup("&lt; 0.001") if value < 0.001 else Markup(f"{value:.3f}")


def set_label(name: str) -> str:
    """eval/solo/agent_0 -> solo agent_0."""
    return name.removeprefix("eval/").replace("/", " ")
