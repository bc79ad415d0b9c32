"""Reward and cooperation over training, from the training rounds' own records.

Consecutive rounds are pooled into windows (at most `WINDOWS` of nearly equal numbers of rounds), since a round has few
episodes: every figure has the interval of all episodes of its window. The measures are those of an evaluation; what the
records of a training round cannot tell (positions, and so idle shares) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.behaviour import KITCHEN
from potluck_audit.metrics.handoffs import handoffs
from potluck_audit.metrics.interdependence import interdependence
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.options import divergence, option_shares
from potluck_audit.metrics.outcomes import outcomes
from potluck_audit.metrics.patches import commons
from potluck_audit.metrics.returns import team_return
from potluck_audit.metrics.river import river
from potluck_audit.metrics.soups import soup_shares
from potluck_audit.metrics.substrates import is_commons
from potluck_audit.records import Episode
from potluck_audit.records.run import TRAIN, training_rounds

WINDOWS = 20
RESAMPLES = 1_000
"""Fewer than of an evaluation, since there are so many windows."""

Measure = Callable[[EpisodeSet, Intervals], list[Metric]]
OnWindow = Callable[[int, int], None]

MEASURES: Mapping[Measure, Sequence[tuple[str, str]]] = {
    team_return: (("return", ""),),
    handoffs: (("handoffs_per_soup", ""),),
    soup_shares: (("soups_together", "chain"), ("soup_share", "chain")),
    interdependence: (("interdependence_share", "constructive"),),
    divergence: (("option_divergence_time", ""),),
    option_shares: (("option_share_time", "wait"),),
    outcomes: (("equality", ""), ("consumption_share", "")),
    commons: (("restraint", ""), ("patch_survival_area", "")),
    river: (("river_open_share", ""), ("clean_share", "")),
}
"""Which figures (name, key) of which measure are followed."""


class Trend(NamedTuple):
    """A figure of consecutive training rounds, both ends among them."""

    first: int
    last: int
    metric: Metric


def windows(rounds: Sequence[int], most: int = WINDOWS) -> list[tuple[int, ...]]:
    """Consecutive rounds, in at most `most` groups whose sizes differ by one at most."""
    if not rounds:
        return []
    return [tuple(int(r) for r in part) for part in np.array_split(sorted(rounds), min(most, len(rounds)))]


def trends(run: Path, rounds: Sequence[int], intervals: Intervals, on_window: OnWindow | None = None) -> list[Trend]:
    """All measures in all windows; none of fewer than two rounds. Figures without a value are left out."""
    groups = windows(rounds)
    if len(groups) < 2:
        return []
    quick = replace(intervals, resamples=min(intervals.resamples, RESAMPLES))
    found: list[Trend] = []
    records = training_rounds(run)
    for place, group in enumerate(groups):
        if on_window:
            on_window(place, len(groups))
        found += _window(group, _take(records, group), quick)
    return found


def _take(records: Iterator[tuple[int, list[Episode]]], group: Sequence[int]) -> list[Episode]:
    """The episodes of these rounds, which come in order; no more than a window is held at a time."""
    episodes: list[Episode] = []
    for number, played in records:
        episodes += played
        if number >= group[-1]:
            break
    return episodes


def _window(group: Sequence[int], episodes: Sequence[Episode], intervals: Intervals) -> list[Trend]:
    told = [e for e in episodes if e.progress.steps]
    found = []
    for measure, wanted in MEASURES.items():
        chosen = episodes if measure is team_return else told
        if not chosen:
            continue
        pooled = EpisodeSet(TRAIN, chosen, chosen[0].reward_unit)
        if measure in KITCHEN and is_commons(pooled):
            continue
        found += [
            Trend(group[0], group[-1], metric)
            for metric in measure(pooled, intervals)
            if (metric.name, metric.key) in wanted and metric.estimate.value is not None
        ]
    return found
