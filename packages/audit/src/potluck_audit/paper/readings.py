"""A figure of the paper on one of our runs: what it prints, what we find, and where its reading is weaker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.tables.grid import Grid


class Reading(NamedTuple):
    """A claim, what the records say of it, and why the claim does not follow from its figure alone."""

    claim: str
    found: str
    weaker: str


class Part(NamedTuple):
    """One run beside one figure."""

    title: str
    tables: Sequence[Grid]
    figures: Sequence[tuple[str, str]]
    """(file name, SVG)."""
    readings: Sequence[Reading]


def said(metric: Metric | None, *, percent: bool = False, digits: int = 2) -> str:
    """Value with interval in words; what was not measured says so."""
    if metric is None:
        return "not measured"
    value, low, high, episodes = metric.estimate
    if value is None:
        return "undefined"
    shown = number(value, percent, digits)
    if low is None or high is None:
        return f"{shown} (no interval: {episodes} episode{'' if episodes == 1 else 's'} or undefined resamples)"
    return f"{shown} [{number(low, percent, digits, unit=False)}, {number(high, percent, digits, unit=False)}]"


def number(value: float, percent: bool = False, digits: int = 2, *, unit: bool = True) -> str:
    shown = f"{100 * value:.1f}" if percent else f"{value:.{digits}f}"
    return shown + (" %" if percent and unit else "")


def side(estimate: Estimate | None) -> str:
    """Where an interval lies: above, below or around 0; "unknown" without one."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return "unknown"
    return "above" if estimate.low > 0 else "below" if estimate.high < 0 else "around"
